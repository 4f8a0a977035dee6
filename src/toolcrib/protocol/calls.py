"""What both eras ask of a request's parameters.

Knows shapes; refuses to know what comes of them.

One call on the wire, from the message that asked for it to its reply.

An exchange is the channel of its call: it carries progress, log lines and questions to the peer in the way
the peer's revision has for them. Knows the revision, the link and the server's call; refuses to know
transports.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.content import Result, text_block
from toolcrib.context import LOCAL, RESERVED, InputNeeded, Principal, Question
from toolcrib.context import Reply as PeerReply
from toolcrib.errors import (
    CannotAskError,
    InsufficientScopeError,
    InvalidArgumentsError,
    NotConfirmedError,
    ToolBusyError,
    ToolNotFoundError,
)
from toolcrib.protocol import messages
from toolcrib.protocol import questions as asking
from toolcrib.protocol.call_log import record_call
from toolcrib.protocol.messages import INVALID_PARAMS, INVALID_REQUEST, Fault, Id, Reply, refusal
from toolcrib.protocol.revisions import Revision
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.protocol.engine import Engine
    from toolcrib.protocol.gate import Gate
    from toolcrib.protocol.sessions import Session

logger = logging.getLogger("toolcrib")

LATE_QUESTION_S = 0.5
_NOT_ASKED = "The tool wants an answer to something it did not ask."
ASK_S = 600.0
"""How long an open question to a legacy client is waited for."""


def nowhere(_: bytes) -> None:
    """For what cannot reach anybody: a client that takes one answer and no stream."""


class Link:
    """Facts about the peer that a message came from, and the way back to it.

    `send` takes what goes out besides replies. `headers` are there on HTTP only. `inflight` holds the calls
    that this peer may cancel by their id. `session` is that of a legacy peer. `address` is where an HTTP peer
    is. `challenge` makes the headers that ask for more scopes.
    """

    __slots__ = (
        "address",
        "challenge",
        "close_stream",
        "headers",
        "inflight",
        "is_pipe",
        "principal",
        "send",
        "session",
    )

    def __init__(
        self,
        send: Callable[[bytes], None] = nowhere,
        *,
        principal: Principal = LOCAL,
        headers: Mapping[bytes, bytes] | None = None,
        session: Session | None = None,
        inflight: dict[Id, Exchange] | None = None,
        is_pipe: bool = False,
        address: str | None = None,
    ) -> None:
        self.address = address
        self.send = send
        self.principal = principal
        self.headers = headers
        self.session = session
        self.inflight = inflight
        self.is_pipe = is_pipe
        self.close_stream: Callable[[], None] | None = None
        self.challenge: Callable[[Sequence[str]], tuple[tuple[bytes, bytes], ...]] | None = None


class Exchange:
    """Something that runs before its reply is known. The transport runs it, and may cancel it."""

    __slots__ = ("id", "is_cancelled", "is_gone", "link", "task")
    is_resumable = False

    def __init__(self, link: Link, id_: Id) -> None:
        self.link = link
        self.id = id_
        self.is_cancelled = False
        self.is_gone = False
        self.task: asyncio.Task[Any] | None = None

    def cancel(self) -> None:
        """Nobody wants the reply: stop, and send nothing more."""
        self.is_cancelled = True
        if self.task is not None:  # in a moment: a task that has not begun would never begin, nor clean up
            self.task.get_loop().call_soon(self.task.cancel)

    def abandon(self) -> None:
        """The client has gone: cancel, and know why. What it had cancelled before stays cancelled."""
        self.is_gone = not self.is_cancelled or self.is_gone
        self.cancel()

    def refuse(self) -> None:
        """There is no room for it: it will not run."""
        self.close()

    async def run(self) -> Reply:
        raise NotImplementedError

    def close(self) -> None:
        if self.link.inflight is not None and self.link.inflight.get(self.id) is self:
            del self.link.inflight[self.id]


class Call(Exchange):
    """One tools/call."""

    __slots__ = (
        "_progress",
        "_started",
        "answers",
        "arguments",
        "capabilities",
        "engine",
        "is_prompted",
        "level",
        "name",
        "resumes",
        "revision",
        "seen",
        "token",
        "trace",
    )

    def __init__(
        self,
        engine: Engine,
        link: Link,
        id_: Id,
        revision: Revision,
        name: str,
        arguments: dict[str, Any] | None,
        *,
        capabilities: Mapping[str, Any],
        token: Any = None,
        level: str | None = None,
        trace: str | None = None,
    ) -> None:
        self.link = link  # as in Exchange: one call less for every call
        self.id = id_
        self.is_cancelled = False
        self.is_gone = False
        self.task = None
        self.engine = engine
        self.revision = revision
        self.name = name
        self.arguments = arguments
        self.capabilities = capabilities
        self.token = token
        self.level = level
        self.answers: dict[str, Any] | None = None
        self.resumes: str | None = None
        self.seen: frozenset[str] = frozenset()
        self.is_prompted = False
        self.trace = trace
        self._progress: float | None = None
        self._started = 0.0

    @property
    def is_immediate(self) -> bool:
        """Whether the tool runs without waiting for anything, so that no task has to be made for it."""
        return self.engine.dispatcher.is_immediate(self.name)

    async def run(self) -> Reply:
        gate = self.engine.gate
        if gate.is_full:
            await self._wait(gate)
        gate.running += 1
        self._started = time.monotonic()
        try:
            if logger.isEnabledFor(logging.INFO):
                record_call(self.name, self.arguments, values=self.engine.log_arguments)
            result = await self.engine.dispatcher.call(
                self.name, self.arguments, principal=self.link.principal, channel=self
            )
        except ToolNotFoundError:
            fault = Fault(self.engine.unknown_tool_code, f"Unknown tool: {self.name}", status=200)
            return refusal(self.id, fault)
        except InputNeeded as needed:
            if self.revision.modern and needed.questions:
                return self._ask_back(needed.questions)
            return Reply(self._encode(Result([text_block(_NOT_ASKED)], is_error=True)))
        finally:
            gate.leave()
            self.close()
        error = result.error
        if error is not None:
            if isinstance(error, InsufficientScopeError) and self.link.headers is not None:
                return self._send_for_scopes(error)
            if isinstance(error, InvalidArgumentsError) and self.revision.faults_arguments:
                return refusal(
                    self.id, Fault(INVALID_PARAMS, str(error), data={"problems": error.details}), status=200
                )
            if (
                isinstance(error, CannotAskError | NotConfirmedError)
                and self.revision.modern
                and error.details
            ):
                return refusal(
                    self.id, Fault(messages.MISSING_CAPABILITY, str(error), data=error.details, status=400)
                )
        return Reply(self._encode(result))

    async def _wait(self, gate: Gate) -> None:
        try:
            await gate.wait()
        except asyncio.CancelledError as error:
            self._drop(error)
            self.close()
            raise

    def refuse(self) -> None:
        self._drop(ToolBusyError(f"Tool '{self.name}' cannot run: too many calls."))
        self.close()

    def _drop(self, error: BaseException) -> None:
        self.engine.dispatcher.reject(self.name, self.arguments, self.link.principal, self, error)

    def _send_for_scopes(self, error: InsufficientScopeError) -> Reply:
        """HTTP has a way to ask for more: the client fetches a better token, and comes again."""
        fault = Fault(messages.INVALID_REQUEST, str(error), data=error.details, status=403)
        reply = refusal(self.id, fault)
        if self.link.challenge is not None:
            reply.fields = self.link.challenge(error.details["scopes"])
        return reply

    def _encode(self, result: Result) -> bytes:
        engine, revision = self.engine, self.revision
        schema = None
        if not revision.modern and type(result.structured_content) is dict:
            tool = engine.dispatcher.registry.try_get(self.name)
            schema = None if tool is None else tool.definition.output_schema
        wire = revision.shape_result(result, schema)
        if revision.modern:
            wire["_meta"] = {**result.meta, **engine.server_meta} if result.meta else engine.meta
        elif result.meta:
            wire["_meta"] = result.meta
        return codec.write({"jsonrpc": "2.0", "id": self.id, "result": wire})

    # --- the channel ---

    @property
    def request(self) -> Id:
        return self.id

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        if (
            self.token is None
            or self.is_cancelled
            or (self._progress is not None and progress <= self._progress)
        ):
            return
        self._progress = progress
        params: dict[str, Any] = {"progressToken": self.token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None and self.revision.name != "2024-11-05":
            params["message"] = message
        self._tell("notifications/progress", params)

    def log(self, level: str, data: Any) -> None:
        level = level if level in messages.LEVELS else "info"
        threshold = self.level if self.revision.modern else self._session_level()
        if threshold is None or messages.LEVELS.index(level) < messages.LEVELS.index(threshold):
            return
        self._tell("notifications/message", {"level": level, "logger": self.name, "data": data})

    def _session_level(self) -> str | None:
        return None if self.link.session is None else self.link.session.level

    def _tell(self, method: str, params: dict[str, Any]) -> None:
        if not self.is_cancelled:
            message = codec.encode({"jsonrpc": "2.0", "method": method, "params": params})
            self.link.send(message)

    def close_stream(self) -> None:
        if self.link.close_stream is not None:
            self.link.close_stream()

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, PeerReply]:
        for question in questions.values():
            asking.check_capability(question, self.capabilities, self.revision)
        if not self.revision.modern:
            return await self._ask_session(questions)
        replies: dict[str, PeerReply] = {}
        for key, question in questions.items():
            reply = asking.from_wire(question, (self.answers or {}).get(key))
            if reply is not None:
                replies[key] = reply
        if len(replies) < len(questions):
            self._note_late()
            raise InputNeeded({key: item for key, item in questions.items() if key not in replies})
        return replies

    async def _ask_session(self, questions: Mapping[str, Question]) -> Mapping[str, PeerReply]:
        session = self.link.session
        if session is None or not session.can_ask:
            raise CannotAskError("This client cannot be asked: it has opened no session.")
        asked = [session.ask(question, self) for question in questions.values()]
        try:
            async with asyncio.timeout(ASK_S):
                replies = await asyncio.gather(*asked)
        except TimeoutError:
            raise CannotAskError(f"Nobody answered within {ASK_S:g} s.") from None
        return dict(zip(questions, replies, strict=True))

    def _note_late(self) -> None:
        """What was done before a question is done again with its answer: say so, once for each tool."""
        elapsed = time.monotonic() - self._started
        if elapsed > LATE_QUESTION_S and self.engine.is_first_notice(self.name):
            logger.warning(
                "tool '%s' worked for %.1f s before it asked; a client of 2026-07-28 makes it do that again "
                "with every answer: ask before you act",
                self.name,
                elapsed,
                extra={"tool_name": self.name},
            )

    def _ask_back(self, questions: Mapping[str, Question]) -> Reply:
        requests = {}
        for key, question in questions.items():
            method, params = asking.to_wire(question)
            requests[key] = {"method": method, "params": params}
        # What is asked anew has no answer yet: an old one in the state would count as given. And who comes
        # back without an answer makes the tool run again for nothing: that needs another yes.
        is_idle = self.seen.issuperset(questions)
        kept = {
            key: item
            for key, item in (self.answers or {}).items()
            if key not in questions and not (is_idle and key.startswith(RESERVED))
        }
        state = self.engine.sealer.seal(self.binding, kept, questions, self.seen)
        result = {"resultType": "input_required", "inputRequests": requests, "requestState": state}
        result["_meta"] = self.engine.server_meta
        return Reply(messages.result_bytes(self.id, codec.encode(result)))

    @property
    def binding(self) -> list[Any]:
        """What the answers must come back with."""
        return [self.link.principal.binding, self.name, self.arguments or {}]


def named_call(params: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """The tool and the arguments of a tools/call."""
    name = params.get("name")
    if type(name) is not str:
        raise Fault(INVALID_PARAMS, "Invalid params: name is required, and must be a string", status=200)
    arguments = params.get("arguments")
    if type(arguments) is not dict and "arguments" in params:
        raise Fault(INVALID_PARAMS, "Invalid params: arguments must be an object", status=200)
    return name, arguments


def check_cursor(params: Mapping[str, Any]) -> str | None:
    cursor = params.get("cursor")
    if type(cursor) is not str and "cursor" in params:
        raise Fault(INVALID_PARAMS, "Invalid params: cursor must be a string", status=200)
    return cursor


def check_token(meta: Mapping[str, Any]) -> Id | None:
    token = meta.get("progressToken")
    if token is None and "progressToken" not in meta:
        return None
    if type(token) is not str and type(token) is not int:
        raise Fault(
            INVALID_PARAMS, "Invalid params: progressToken must be a string or an integer", status=200
        )
    return token


def register(exchange: Exchange) -> None:
    """Note a call among those that its peer has under way. Raises Fault where the id is there already."""
    inflight = exchange.link.inflight
    if inflight is None:
        return
    if exchange.id in inflight:
        raise Fault(INVALID_REQUEST, "Invalid request: a request of this id is under way")
    inflight[exchange.id] = exchange
