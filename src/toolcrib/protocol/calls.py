"""tools/call, from the request to its reply: the peer, the request in progress, and the call as a channel.

A `ToolCall` is also the channel of its call: it carries progress, log messages and questions to the peer in
the way that the peer's revision defines.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from toolcrib.content import Result, text_block
from toolcrib.context import LOCAL, NO_REQUEST, RESERVED, InputNeeded, Principal, Question, RequestInfo
from toolcrib.context import Headers as HTTPHeaders
from toolcrib.context import Reply as PeerReply
from toolcrib.dispatch.calls import RunningCall
from toolcrib.errors import (
    CannotAskError,
    InsufficientScopeError,
    InvalidArgumentsError,
    NotConfirmedError,
    ToolBusyError,
    ToolNotFoundError,
    shorten,
)
from toolcrib.protocol import messages, questions
from toolcrib.protocol.messages import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    Headers,
    Id,
    Reply,
    RPCError,
    error_reply,
)
from toolcrib.protocol.modern import REPEATED, check_parameters
from toolcrib.protocol.questions import SealedState
from toolcrib.protocol.revisions import Revision
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.protocol.engine import Engine
    from toolcrib.protocol.sessions import Session

logger = logging.getLogger("toolcrib")

MAX_RUNNING = 2_000
"""Calls that run at once in one server. Further ones are refused."""
ASK_S = 600.0
"""How long a question to a legacy client stays open."""

NO_SESSION = "This client cannot be asked: it has opened no session."
KEEPS_NO_SESSIONS = (
    "Clients before 2026-07-28 cannot be asked by this server: it has keeps_sessions=False. Use a client of "
    "2026-07-28."
)

C = TypeVar("C", bound="ToolCall")
MAX_LOGGED_NAMES = 50
MAX_LOGGED_NAME = 64
MAX_LOGGED_VALUES = 2000
_WITHHELD = frozenset((b"authorization", b"proxy-authorization", b"cookie", b"x-api-key", b"mcp-session-id"))
"""Headers that tools do not see."""


def discard(_: bytes) -> None:
    """Drop a message: the peer has no stream to receive it on."""


class Peer:
    """The client that a message came from, and the way to send it messages other than the reply.

    `headers` are there on HTTP only. `inflight` holds the requests that this peer may cancel by id. `session`
    is that of a legacy peer. `address` is the IP address of an HTTP peer.
    """

    __slots__ = ("_send", "address", "headers", "inflight", "is_pipe", "principal", "session")

    def __init__(
        self,
        send: Callable[[bytes], None] = discard,
        *,
        principal: Principal = LOCAL,
        headers: Mapping[bytes, bytes] | None = None,
        session: Session | None = None,
        inflight: dict[Id, PendingRequest] | None = None,
        is_pipe: bool = False,
        address: str | None = None,
    ) -> None:
        self._send = send
        self.principal = principal
        self.headers = headers
        self.session = session
        self.inflight = inflight
        self.is_pipe = is_pipe
        self.address = address

    @property
    def binding(self) -> str:
        """Whom a signed state is valid for."""
        return self.principal.binding

    @property
    def http(self) -> RequestInfo:
        """What tools see of the HTTP request. Made when a tool asks for it."""
        if self.headers is None:
            return NO_REQUEST
        shown = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in self.headers.items()
            if name not in _WITHHELD and value != REPEATED
        }
        return RequestInfo(HTTPHeaders(shown), self.address)

    def send(self, message: bytes) -> None:
        """Send a notification or a request to the peer."""
        self._send(message)

    def close_stream(self) -> None:
        """End the stream that the peer reads, where it can come back for the rest."""

    def challenge(self, scopes: Sequence[str]) -> Headers:  # noqa: ARG002
        """Return HTTP headers that ask the client to come back with these scopes."""
        return ()


class Cancellable(Protocol):
    """A task, or something else that a request waits in."""

    def get_loop(self) -> asyncio.AbstractEventLoop: ...

    def cancel(self) -> object: ...


class PendingRequest:
    """A request that runs before its reply is known. The transport runs it, and may cancel it."""

    __slots__ = ("id", "is_cancelled", "is_gone", "peer", "task")

    def __init__(self, peer: Peer, id_: Id) -> None:
        self.peer = peer
        self.id = id_
        self.is_cancelled = False
        self.is_gone = False
        self.task: Cancellable | None = None

    def cancel(self) -> None:
        """Stop, and send nothing more."""
        self.is_cancelled = True
        if self.task is not None:  # not at once: a task cancelled before its first step would never clean up
            self.task.get_loop().call_soon(self.task.cancel)

    def abandon(self) -> None:
        """Cancel because the client has gone, unless the client itself had cancelled before."""
        self.is_gone = not self.is_cancelled or self.is_gone
        self.cancel()

    def end(self) -> None:
        """End a request that lasts, such as a subscription, when its credentials have expired."""
        self.cancel()

    def refuse(self) -> None:
        """Drop the request before it runs: the server is overloaded."""
        self.close()

    async def run(self) -> Reply:
        raise NotImplementedError

    def close(self) -> None:
        inflight = self.peer.inflight
        if inflight is not None and inflight.get(self.id) is self:
            del inflight[self.id]

    def register(self) -> None:
        """Add the request to those in flight. Raise RPCError if its id is in use."""
        inflight = self.peer.inflight
        if inflight is None:
            return
        if self.id in inflight:
            raise RPCError(INVALID_REQUEST, "Invalid request: a request with this id is in progress")
        inflight[self.id] = self


class ToolCall(PendingRequest):
    """One tools/call."""

    sends_reply = True
    __slots__ = (
        "_progress",
        "_started",
        "answers",
        "arguments",
        "capabilities",
        "committed",
        "engine",
        "is_prompted",
        "level",
        "name",
        "request",
        "resumes",
        "revision",
        "state",
        "token",
        "trace",
    )

    def __init__(
        self,
        engine: Engine,
        peer: Peer,
        id_: Id,
        revision: Revision,
        name: str,
        arguments: dict[str, Any] | None,
        capabilities: Mapping[str, Any],
        token: Id | None = None,
        level: str | None = None,
        trace: str | None = None,
    ) -> None:
        self.peer = peer  # as in PendingRequest, without a second call
        self.id = self.request = id_
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
        self.trace = trace
        self.answers: dict[str, Any] | None = None
        self.state: SealedState | None = None
        self.resumes: str | None = None
        self.is_prompted = False
        self.committed: asyncio.Future[bool] | None = None
        self._progress: float | None = None
        self._started = 0.0

    async def run(self) -> Reply:
        engine = self.engine
        engine.running += 1
        self._started = time.monotonic()
        try:
            if logger.isEnabledFor(logging.INFO):
                log_call(self.name, self.arguments, values=engine.settings.log_arguments)
            result = await self._dispatch()
            reply = None if result.error is None else self._error_reply(result.error)
        except ToolNotFoundError:
            reply = error_reply(self.id, self._not_found())
        except InputNeeded as needed:
            result = Result(
                [text_block("The tool wants an answer to something it did not ask.")], is_error=True
            )
            asks = self.revision.modern and needed.questions
            reply = self._reply_with_questions(needed.questions) if asks else None
        finally:
            engine.running -= 1
            if self.peer.inflight is not None:
                if self.committed is None:
                    self.close()
                else:  # it can be cancelled until the reply leaves
                    self.committed.add_done_callback(lambda _: self.close())
        if reply is None:
            reply = self._encode(result)
        reply.committed = self.committed
        return reply

    def _dispatch(self) -> Awaitable[Result]:
        return self.engine.dispatcher.call(
            self.name, self.arguments, principal=self.peer.principal, channel=self
        )

    def _not_found(self) -> RPCError:
        return RPCError(
            self.engine.settings.unknown_tool_code, shorten(f"Unknown tool: {self.name}"), status=200
        )

    @property
    def recorded_name(self) -> str:
        """The name of the tool as the audit log has it; of a resource or a prompt, with its kind."""
        return self.name

    def refuse(self) -> None:
        error = ToolBusyError(f"Tool '{self.name}' cannot run: too many calls.")
        self.engine.dispatcher.reject(self.recorded_name, self.arguments, self.peer.principal, self, error)
        self.close()

    def describe(self) -> RunningCall:
        """Return the call as the registry shows it."""
        running_s = time.monotonic() - self._started
        return RunningCall(self.id, self.peer.principal.name, self.recorded_name, running_s)

    def _error_reply(self, error: Exception) -> Reply | None:
        """Return the JSON-RPC error for a failure that this revision does not report in a result."""
        if isinstance(error, InsufficientScopeError) and self.peer.headers is not None:
            return refuse_scopes(self.peer, self.id, error)
        if isinstance(error, InvalidArgumentsError) and self.revision.argument_errors_as_rpc:
            problem = RPCError(INVALID_PARAMS, str(error), data={"problems": error.details}, status=200)
            return error_reply(self.id, problem)
        if isinstance(error, CannotAskError | NotConfirmedError) and self.revision.modern and error.details:
            return error_reply(
                self.id, RPCError(messages.MISSING_CAPABILITY, str(error), data=error.details, status=400)
            )
        return None

    def _encode(self, result: Result) -> Reply:
        engine, revision = self.engine, self.revision
        if revision.modern:
            wire = revision.shape_result(result, None)
            wire["_meta"] = {**result.meta, **engine.server_meta} if result.meta else engine.encoded_meta
        else:
            schema = None
            if type(result.structured_content) is dict:
                tool = engine.dispatcher.registry.try_get(self.name)
                schema = None if tool is None else tool.definition.output_schema
            wire = revision.shape_result(result, schema)
            if result.meta:
                wire["_meta"] = result.meta
        return Reply(self.engine.write({"jsonrpc": "2.0", "id": self.id, "result": wire}))

    # --- the channel of the call ---

    @property
    def session(self) -> Session | None:
        return self.peer.session

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
        self._notify("notifications/progress", params)

    def log(self, level: str, data: Any) -> None:
        level = level if level in messages.LEVELS else "info"
        session = self.peer.session
        threshold = self.level if self.revision.modern else None if session is None else session.level
        if threshold is None or messages.LEVELS.index(level) < messages.LEVELS.index(threshold):
            return
        self._notify("notifications/message", {"level": level, "logger": self.name, "data": data})

    def _notify(self, method: str, params: dict[str, Any]) -> None:
        if not self.is_cancelled:
            self.peer.send(codec.encode({"jsonrpc": "2.0", "method": method, "params": params}))

    def close_stream(self) -> None:
        self.peer.close_stream()

    async def ask(self, asked: Mapping[str, Question]) -> Mapping[str, PeerReply]:
        if not self.revision.modern and self.peer.session is None:
            raise CannotAskError(NO_SESSION if self.engine.settings.keeps_sessions else KEEPS_NO_SESSIONS)
        for question in asked.values():
            questions.check_capability(question, self.capabilities, self.revision)
        if not self.revision.modern:
            return await self._ask_session(asked)
        replies: dict[str, PeerReply] = {}
        for key, question in asked.items():
            reply = questions.from_wire(question, (self.answers or {}).get(key))
            if reply is not None:
                replies[key] = reply
        if len(replies) < len(asked):
            raise InputNeeded({key: item for key, item in asked.items() if key not in replies})
        return replies

    async def _ask_session(self, asked: Mapping[str, Question]) -> Mapping[str, PeerReply]:
        session = self.peer.session
        if session is None or not session.can_ask:
            raise CannotAskError(NO_SESSION)
        pending = [session.ask(question, self.peer) for question in asked.values()]
        try:
            async with asyncio.timeout(ASK_S):
                replies = await asyncio.gather(*pending)
        except TimeoutError:
            raise CannotAskError(f"Nobody answered within {ASK_S:g} s.") from None
        return dict(zip(asked, replies, strict=True))

    def _reply_with_questions(self, asked: Mapping[str, Question]) -> Reply:
        requests = {}
        for key, question in asked.items():
            method, params = questions.to_wire(question)
            requests[key] = {"method": method, "params": params}
        seen = frozenset() if self.state is None else self.state.seen
        # A question that is asked again has no answer yet, so an old answer to it is dropped. A client that
        # came back without an answer makes the tool run again for nothing, which takes a new confirmation.
        is_repeated = seen.issuperset(asked)
        kept = {
            key: item
            for key, item in (self.answers or {}).items()
            if key not in asked and not (is_repeated and key.startswith(RESERVED))
        }
        state = self.engine.sealer.seal(self.binding, kept, asked, seen)
        result = {"resultType": "input_required", "inputRequests": requests, "requestState": state}
        result["_meta"] = self.engine.server_meta
        return Reply(messages.encode_result(self.id, codec.encode(result)))

    @property
    def binding(self) -> list[Any]:
        """What a sealed state is bound to: it is valid for the same principal, tool and arguments only."""
        return [self.peer.binding, self.name, self.arguments or {}]


class AwaitedResult(PendingRequest):
    """A request whose result is awaited. It is in flight from the start."""

    __slots__ = ("_engine", "_outcome", "_revision")

    def __init__(
        self, engine: Engine, peer: Peer, id_: Id, revision: Revision, outcome: Awaitable[Mapping[str, Any]]
    ) -> None:
        super().__init__(peer, id_)
        self._engine = engine
        self._revision = revision
        self._outcome = outcome
        self.register()

    async def run(self) -> Reply:
        try:
            return encode_mapping(self._engine, self.id, self._revision, await self._outcome)
        except RPCError as error:
            return messages.error_reply(self.id, error)
        except InsufficientScopeError as error:
            return refuse_scopes(self.peer, self.id, error)
        finally:
            self.close()

    def close(self) -> None:
        super().close()
        if inspect.iscoroutine(self._outcome):
            self._outcome.close()  # no effect on one that has ended


def refuse_scopes(peer: Peer, id_: Id, error: InsufficientScopeError) -> Reply:
    """Return the error for a client that lacks scopes; over HTTP it is told which to come back with."""
    if peer.headers is None:
        data = {"code": error.code, **error.details}
        return error_reply(id_, RPCError(messages.INTERNAL_ERROR, str(error), data=data, status=200))
    problem = RPCError(INVALID_REQUEST, str(error), data=error.details, status=403)
    return Reply(messages.encode_error(id_, problem), 403, peer.challenge(error.details["scopes"]))


def encode_mapping(engine: Engine, id_: Id, revision: Revision, result: Mapping[str, Any]) -> Reply:
    """Return the reply with a result that is a mapping."""
    content = dict(result)
    if revision.modern:
        content.setdefault("resultType", "complete")
        content["_meta"] = {**content.get("_meta", {}), **engine.server_meta}
    return Reply(messages.encode_result(id_, codec.encode(content)))


# --- the method --------------------------------------------------------------------------------------


def call_tool(engine: Engine, peer: Peer, id_: Id, revision: Revision, params: dict[str, Any]) -> ToolCall:
    dispatcher, meta = engine.dispatcher, params.get("_meta")
    name: Any = params.get("name") if type(meta) is not dict or "fastmcp" not in meta else _find_name(params)
    if revision.modern and peer.headers is not None:
        mirrored = dispatcher.mirrored(name, peer.principal)
        if mirrored:
            check_parameters(peer.headers, mirrored, params.get("arguments"))
    arguments = _read_arguments(name, params)
    if (search := dispatcher.tool_search) is not None and name in search.call_tools:
        name, arguments = search.forward(name, arguments, peer.principal) or (name, arguments)
    envelope = read_envelope(peer, revision, params)
    kind = ToolCall
    if dispatcher.registry.has_tasks and revision.modern:
        kind = engine.tasks.choose(name, peer.principal, envelope[0])
    return begin(kind(engine, peer, id_, revision, name, arguments, *envelope), params)


def read_envelope(
    peer: Peer, revision: Revision, params: dict[str, Any]
) -> tuple[Mapping[str, Any], Id | None, str | None, str | None]:
    """Return the client's capabilities, the progress token, the log level and the trace of a request."""
    if revision.modern:
        meta = params["_meta"]
        level, token = read_options(params)
        return meta[messages.CAPABILITIES], token, level, meta.get("traceparent")
    meta = params.get("_meta", {})
    capabilities = {} if peer.session is None else peer.session.capabilities
    return capabilities, read_token(meta), None, meta.get("traceparent")


def begin(call: C, params: dict[str, Any]) -> C:
    """Give a request the answers that came with it, and add it to those in flight."""
    if call.revision.modern and ("requestState" in params or "inputResponses" in params):
        call.state, call.answers = questions.read_answers(call.engine.sealer, call.binding, params)
        if call.state is not None:
            call.resumes, call.is_prompted = call.state.salt, call.state.is_first
    if call.peer.inflight is not None:
        call.register()
    return call


# --- parameters --------------------------------------------------------------------------------------


def read_call(params: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """Return the tool name and the arguments of a tools/call."""
    name = _find_name(params)
    return name, _read_arguments(name, params)


def _read_arguments(name: Any, params: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of a call. Raise RPCError where they or the name are invalid."""
    if type(name) is not str:
        raise messages.invalid_params("name is required, and must be a string")
    arguments = params.get("arguments")
    if type(arguments) is not dict and "arguments" in params:
        raise messages.invalid_params("arguments must be an object")
    return arguments


def _find_name(params: Mapping[str, Any]) -> Any:
    """Return the name in a tools/call, as `name@version` where a client of fastmcp asks for a version."""
    name, meta = params.get("name"), params.get("_meta")
    if type(meta) is dict and "fastmcp" in meta and type(name) is str:
        version = meta["fastmcp"].get("version") if type(meta["fastmcp"]) is dict else None
        return f"{name}@{version}" if type(version) is str else name
    return name


def read_token(meta: Mapping[str, Any]) -> Id | None:
    """Return the progress token of a request."""
    token = meta.get("progressToken")
    if token is None and "progressToken" not in meta:
        return None
    if type(token) is not str and type(token) is not int:
        raise messages.invalid_params("progressToken must be a string or an integer")
    return token


def read_options(params: dict[str, Any]) -> tuple[str | None, Id | None]:
    """Return the log level and the progress token of a request. They must be valid in every request."""
    meta = params["_meta"]
    level: str | None = None
    if messages.LOG_LEVEL in meta:
        level = meta[messages.LOG_LEVEL]
        if level not in messages.LEVELS:
            raise messages.invalid_params(f"_meta['{messages.LOG_LEVEL}'] is no level")
    return level, read_token(meta) if "progressToken" in meta else None


# --- the log -----------------------------------------------------------------------------------------


def log_call(name: str, arguments: Mapping[str, Any] | None, *, values: bool) -> None:
    """Log a call at INFO: the names of its arguments, and their values only with `values`, as they may be
    secret.

    What a client wrote is cut, and cannot break a line.
    """
    name, given = _printable(name), arguments or {}
    names = [_printable(key) for key in islice(given, MAX_LOGGED_NAMES)]
    if len(given) > MAX_LOGGED_NAMES:
        names.append(f"... ({len(given) - MAX_LOGGED_NAMES} more)")
    logger.info("Tool execution request: %s", name, extra={"tool_name": name})
    shown = _cut(json.dumps(given), MAX_LOGGED_VALUES) if values else ", ".join(names) or "none"
    logger.info("Arguments: %s", shown, extra={"tool_name": name, "argument_names": names})


def _printable(text: str) -> str:
    text = _cut(text, MAX_LOGGED_NAME)
    return text if text.isprintable() else json.dumps(text)[1:-1]


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}..."
