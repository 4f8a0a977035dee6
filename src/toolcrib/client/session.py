"""Finds out which era a server speaks, and gets to know it.

Newest first: `server/discover` of 2026-07-28, and where that is not understood the `initialize` of before.
Only an answer counts as one: a server that cannot be reached is an error, not an old server. Knows both
greetings; refuses to know links.

How requests are dressed in each era of the protocol.

2026-07-28 puts an envelope into every request; before, a handshake said it all once. Knows versions and
where things go in a request; refuses to know how the era is found out.

Requests and their answers over one link: ids, correlation, time limits, notifications, questions.

Whatever a server sends, each request ends in one of four ways: an answer, an error in words, a time-out, or
the link's end. Nothing a server does raises in a task of its own. Knows JSON-RPC and the notifications of
MCP; refuses to know how bytes travel and what results mean.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from toolcrib.client.http import headers_for
from toolcrib.client.link import Link, Outgoing
from toolcrib.client.questions import Answers, CannotAnswerError
from toolcrib.errors import (
    BadAnswerError,
    ClientError,
    InvalidArgumentsError,
    LinkError,
    NoAnswerError,
    RemoteError,
)
from toolcrib.validation import codec

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
VERSIONS = (MODERN, *LEGACY)

_PREFIX = "io.modelcontextprotocol/"
SERVER_INFO = f"{_PREFIX}serverInfo"
SUBSCRIPTION = f"{_PREFIX}subscriptionId"


@dataclass(frozen=True, slots=True)
class Dialect:
    """One version, and what this client says of itself."""

    version: str
    info: Mapping[str, Any]
    capabilities: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_modern(self) -> bool:
        return self.version == MODERN

    def dress(
        self, params: Mapping[str, Any], token: int | None = None, log_level: str | None = None
    ) -> dict[str, Any]:
        """The params of a request, with everything that must stand beside them."""
        meta: dict[str, Any] = {}
        if self.is_modern:
            meta[f"{_PREFIX}protocolVersion"] = self.version
            meta[f"{_PREFIX}clientCapabilities"] = self.capabilities
            meta[f"{_PREFIX}clientInfo"] = self.info
            if log_level is not None:
                meta[f"{_PREFIX}logLevel"] = log_level
        if token is not None:
            meta["progressToken"] = token
        return {**params, "_meta": meta} if meta else dict(params)

    def headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        """What HTTP carries beside one request. A legacy session's headers are the same for all of them."""
        return headers_for(self.version, method, params) if self.is_modern else {}

    @property
    def standing_headers(self) -> dict[str, str]:
        """What HTTP carries beside everything from the handshake on."""
        return {} if self.is_modern or self.version < "2025-06-18" else {"mcp-protocol-version": self.version}


logger = logging.getLogger("toolcrib")

OnProgress = Callable[[float, float | None, str | None], object]
OnLog = Callable[[str, Any], object]

_FAREWELL_S = 2.0
_MAX_TASKS = 64
_MAX_WARNINGS = 5
_INTERNAL = -32603


@dataclass(frozen=True, slots=True)
class Hearing:
    """Who hears what a server says while a request runs."""

    on_progress: OnProgress | None = None
    on_log: OnLog | None = None
    on_acknowledged: Callable[[], object] | None = None


DEAF = Hearing()


@dataclass(slots=True, eq=False)
class _Waiting:
    """A request without an answer yet. `limit` is its clock; `left_s` what is on it while it stands still."""

    hearing: Hearing
    is_greeting: bool
    answer: asyncio.Future[dict[str, Any]]
    limit: asyncio.Timeout | None = None
    left_s: float | None = None


@dataclass(slots=True, eq=False)
class Session:
    """One conversation. The link's inbox."""

    link: Link
    dialect: Dialect
    answers: Answers
    on_tools_changed: Callable[[], object] = lambda: None
    _waiting: dict[int, _Waiting] = field(default_factory=dict)
    _ids: count[int] = field(default_factory=lambda: count(1))
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    _questions: dict[int | str, asyncio.Task[Any]] = field(default_factory=dict)
    _thinking: int = 0
    _strange: int = 0
    _end: ClientError | None = None

    @property
    def is_closed(self) -> bool:
        return self._end is not None

    # --- asking ---

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        timeout_s: float | None,
        headers: Mapping[str, str] | None = None,
        hearing: Hearing = DEAF,
        is_greeting: bool = False,
    ) -> dict[str, Any]:
        """The result. One that is cancelled or late is cancelled at the server too, greetings excepted."""
        if self._end is not None:
            raise _again(self._end)
        number = next(self._ids)
        token = number if hearing.on_progress is not None else None
        dressed = self.dialect.dress(params, token, "debug" if hearing.on_log is not None else None)
        try:
            data = codec.encode({"jsonrpc": "2.0", "id": number, "method": method, "params": dressed})
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidArgumentsError(f"The arguments are not JSON: {error}") from None
        sent = Outgoing(data, number, {**self.dialect.headers(method, params), **(headers or {})})
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        waiting = self._waiting[number] = _Waiting(hearing, is_greeting, answer)
        try:
            async with asyncio.timeout(timeout_s) as waiting.limit:
                await self.link.send(sent)
                return await waiting.answer
        except TimeoutError:
            self._let_go(number, "it took too long")
            strange = f"; messages that belong to none: {self._strange}" if self._strange else ""
            limit = f"{timeout_s:g} s" if timeout_s is not None else "its time"
            raise NoAnswerError(f"{self.link.place}: no answer to {method} within {limit}{strange}") from None
        except asyncio.CancelledError:
            self._let_go(number, "the caller does not wait any more")
            raise
        finally:
            del self._waiting[number]
            if waiting.answer.done() and not waiting.answer.cancelled():
                waiting.answer.exception()  # seen, even where the time was up in the same moment

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        await self.link.send(Outgoing(codec.encode(message), headers=self.dialect.headers(method, {})))

    def _let_go(self, number: int, reason: str) -> None:
        """Tell the server: by closing the request's stream where that says it, else by a notification."""
        self.link.abandon(number)
        if not self._waiting[number].is_greeting and not (self.link.has_streams and self.dialect.is_modern):
            words = {"requestId": number, "reason": reason}
            self.spawn(self._quietly(lambda: self.notify("notifications/cancelled", words)))

    async def _quietly(self, send: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            async with asyncio.timeout(_FAREWELL_S):
                await send()
        except (ClientError, TimeoutError) as error:
            logger.debug("%s: %s", self.link.place, error)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Run beside everything else, until the session closes. None where too much runs already."""
        if len(self._tasks) >= _MAX_TASKS or self.is_closed:
            work.close()
            return None
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """End everything that waits. The link is its owner's to close."""
        for number in list(self._waiting):
            self._let_go(number, "the client goes")
        self.closed(LinkError(f"{self.link.place}: the connection was closed"))
        farewells = [task for task in self._tasks if task not in self._questions.values()]
        for task in self._questions.values():
            task.cancel()
        if farewells:
            await asyncio.wait(farewells, timeout=_FAREWELL_S / 4)
        left = list(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    # --- the inbox ---

    def is_waiting(self, number: int) -> bool:
        waiting = self._waiting.get(number)
        return waiting is not None and not waiting.answer.done()

    def failed(self, number: int | None, error: ClientError) -> None:
        numbers = list(self._waiting) if number is None else [number]
        for item in numbers:
            if self.is_waiting(item):
                self._waiting[item].answer.set_exception(error if number is not None else _again(error))

    def closed(self, error: ClientError) -> None:
        if self._end is None:
            self._end = error
        self.failed(None, error)

    def message(self, data: bytes, via: int | None = None) -> None:
        try:
            message = codec.decode(data)
        except ValueError:
            self._mistrust(data, via, "not JSON")
            return
        for item in message if isinstance(message, list) else (message,):
            if not isinstance(item, dict):
                self._mistrust(data, via, "not a message")
            elif isinstance(item.get("method"), str):
                self._hear(item, via)
            elif "result" in item or "error" in item:
                self._take_answer(item, via)
            else:
                self._mistrust(data, via, "not a message")

    def _mistrust(self, data: bytes, via: int | None, what: str) -> None:
        """Say what came, and end the one request that it can only have been the answer to."""
        shown = data[:200].decode("utf-8", "replace")
        self._strange += 1
        if via is not None:
            self.failed(via, BadAnswerError(f"{self.link.place} answered with what is {what}: {shown!r}"))
        elif self._strange <= _MAX_WARNINGS:
            more = "; more of it will not be shown" if self._strange == _MAX_WARNINGS else ""
            logger.warning("%s sent what is %s: %r%s", self.link.place, what, shown, more)

    def _take_answer(self, message: dict[str, Any], via: int | None) -> None:
        number = message.get("id")
        if number is None and "error" in message:
            # An error without an id answers the request whose stream it came on, or the only one there is.
            number = via if via is not None or len(self._waiting) != 1 else next(iter(self._waiting))
        if type(number) is not int or not self.is_waiting(number):
            self._strange += 1
            logger.debug("%s answered a request that does not wait: %.100r", self.link.place, number)
            return
        answer = self._waiting[number].answer
        error = message.get("error")
        if isinstance(error, dict) and type(error.get("code")) is int:
            words = error.get("message")
            words = words if isinstance(words, str) and words else "an error without words"
            answer.set_exception(RemoteError(words, rpc_code=error["code"], data=error.get("data")))
        elif error is None and isinstance(message.get("result"), dict):
            answer.set_result(message["result"])
        else:
            words = f"{self.link.place} answered with neither a result nor an error"
            answer.set_exception(BadAnswerError(words))

    # --- what the server says unasked ---

    def _hear(self, message: dict[str, Any], via: int | None) -> None:
        method, params = message["method"], message.get("params")
        params = params if isinstance(params, dict) else {}
        if message.get("id") is not None:
            self._hear_question(message["id"], method, params)
        elif method == "notifications/progress":
            self._hear_progress(params)
        elif method == "notifications/message":
            self._hear_log(params, via)
        elif method == "notifications/tools/list_changed":
            self._tell(self.on_tools_changed)
        elif method == "notifications/subscriptions/acknowledged":
            meta = params.get("_meta")
            number = meta.get(SUBSCRIPTION) if isinstance(meta, dict) else via
            waiting = self._waiting.get(number) if type(number) is int else None
            if waiting is not None and waiting.hearing.on_acknowledged is not None:
                self._tell(waiting.hearing.on_acknowledged)
        elif method == "notifications/cancelled":
            number = params.get("requestId")
            question = self._questions.get(number) if isinstance(number, int | str) else None
            if question is not None:
                question.cancel()

    def _hear_progress(self, params: dict[str, Any]) -> None:
        token, progress, total = params.get("progressToken"), params.get("progress"), params.get("total")
        waiting = self._waiting.get(token) if type(token) is int else None
        if waiting is None or waiting.hearing.on_progress is None or not _is_number(progress):
            return
        words = params.get("message")
        self._tell(
            waiting.hearing.on_progress,
            progress,
            total if _is_number(total) else None,
            words if isinstance(words, str) else None,
        )

    def _hear_log(self, params: dict[str, Any], via: int | None) -> None:
        """A log line does not say whose it is; where the stream does not say it either, all hear it."""
        level = params.get("level")
        for number, waiting in list(self._waiting.items()):
            if waiting.hearing.on_log is not None and via in (None, number):
                self._tell(
                    waiting.hearing.on_log, level if isinstance(level, str) else "info", params.get("data")
                )

    def _tell(self, hear: Callable[..., object], *words: Any) -> None:
        try:
            hear(*words)
        except Exception as error:  # the listener is broken; the conversation is not
            logger.warning("a listener to %s failed: %s: %s", self.link.place, type(error).__name__, error)

    # --- questions of a legacy session ---

    def _hear_question(self, number: Any, method: str, params: dict[str, Any]) -> None:
        if self.dialect.is_modern or not isinstance(number, int | str) or number in self._questions:
            self._strange += 1
            logger.debug("%s sent a request that it must not send: %.100s", self.link.place, method)
            return
        task = self.spawn(self._answer_question(number, method, params))
        if task is not None:
            self._questions[number] = task
            task.add_done_callback(lambda _: self._questions.pop(number, None))

    async def _answer_question(self, number: int | str, method: str, params: dict[str, Any]) -> None:
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": number}
        try:
            reply["result"] = {} if method == "ping" else await self._think(method, params)
            data = codec.encode(reply)
        except CannotAnswerError as error:
            data = _refusal(number, error.rpc_code, str(error))
        except Exception as error:  # the answerer is the owner's code
            logger.warning("no answer to %s: %s: %s", method, type(error).__name__, error)
            data = _refusal(number, _INTERNAL, "The client failed to answer")
        await self._quietly(lambda: self.link.send(Outgoing(data)))

    async def _think(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Answer while all clocks stand still: a person may think as long as they like."""
        self._thinking += 1
        self._stop_clocks()
        try:
            return await self.answers.give(method, params)
        finally:
            self._thinking -= 1
            if not self._thinking:
                self._start_clocks()

    def _stop_clocks(self) -> None:
        now = asyncio.get_running_loop().time()
        for waiting in self._waiting.values():
            limit = waiting.limit
            if limit is not None and not limit.expired() and (due := limit.when()) is not None:
                waiting.left_s = due - now
                limit.reschedule(None)

    def _start_clocks(self) -> None:
        now = asyncio.get_running_loop().time()
        for waiting in self._waiting.values():
            limit, left_s = waiting.limit, waiting.left_s
            if limit is not None and left_s is not None and not limit.expired():
                waiting.left_s = None
                limit.reschedule(now + left_s)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _refusal(number: int | str, code: int, words: str) -> bytes:
    return codec.encode({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": words}})


def _again(error: ClientError) -> ClientError:
    """The same error for another request: an exception that is raised twice tells of the wrong place."""
    if isinstance(error, BadAnswerError):
        return BadAnswerError(str(error))
    return LinkError(str(error), status=error.status if isinstance(error, LinkError) else None)


PATIENCE_S = 5.0
"""How long `server/discover` may go unanswered before `initialize` is tried beside it: some servers are slow
to start, and some never answer what they do not know."""
_NOT_AN_ERA = (401, 403, 407)
_UNSUPPORTED_VERSION = -32022


@dataclass(frozen=True, slots=True)
class Peer:
    """What a server says of itself."""

    protocol_version: str
    capabilities: Mapping[str, Any]
    server_info: Mapping[str, Any]
    instructions: str | None

    @property
    def is_modern(self) -> bool:
        return self.protocol_version == MODERN

    @property
    def tells_changes(self) -> bool:
        tools = self.capabilities.get("tools")
        return isinstance(tools, Mapping) and tools.get("listChanged") is True


async def greet(session: Session, protocol: str, timeout_s: float) -> Peer:
    """Settle on a version: `protocol`, or for "auto" the newest that both sides know."""
    if protocol == MODERN:
        return await _discover(session, timeout_s)
    if protocol != "auto":
        return await _initialize(session, protocol, timeout_s)
    probe = asyncio.ensure_future(_discover(session, timeout_s))
    try:
        await asyncio.wait([probe], timeout=min(PATIENCE_S, timeout_s))
        if not probe.done():
            return await _greet_both_ways(session, probe, timeout_s)
        try:
            return probe.result()
        except (RemoteError, BadAnswerError, LinkError) as error:
            if not _may_be_legacy(session, error):
                raise
        return await _initialize(session, LEGACY[0], timeout_s)
    finally:
        await _drop(probe)


async def _greet_both_ways(session: Session, probe: asyncio.Future[Peer], timeout_s: float) -> Peer:
    """A server that is slow, or deaf to the new greeting: whichever greeting it answers well counts."""
    old = asyncio.ensure_future(_initialize(session, LEGACY[0], timeout_s))
    try:
        await asyncio.wait([probe, old], return_when=asyncio.FIRST_COMPLETED)
        first, second = (probe, old) if probe.done() else (old, probe)
        try:
            peer = first.result()
        except ClientError:
            peer = await second
        # Each greeting speaks its own dialect and the last one sent has the word: say it for good.
        _settle(session, peer)
        return peer
    finally:
        await _drop(old)


async def _drop(greeting: asyncio.Future[Peer]) -> None:
    greeting.cancel()
    await asyncio.gather(greeting, return_exceptions=True)


def _may_be_legacy(session: Session, error: ClientError) -> bool:
    if isinstance(error, LinkError):
        return error.status is not None and error.status not in _NOT_AN_ERA and not session.is_closed
    supported = _supported(error) if isinstance(error, RemoteError) else []
    return not supported or any(version in LEGACY for version in supported)


def _supported(error: RemoteError) -> list[Any]:
    """The versions that an error names, if it is about versions."""
    if error.rpc_code != _UNSUPPORTED_VERSION or not isinstance(error.data, Mapping):
        return []
    supported = error.data.get("supported")
    return supported if isinstance(supported, list) else []


async def _discover(session: Session, timeout_s: float) -> Peer:
    _speak(session, MODERN)
    session.link.reset()
    try:
        result = await session.request("server/discover", {}, timeout_s=timeout_s, is_greeting=True)
    except RemoteError as error:
        if MODERN not in _supported(error):
            raise
        # It names this very version: whatever it disliked may be over.
        result = await session.request("server/discover", {}, timeout_s=timeout_s, is_greeting=True)
    versions = result.get("supportedVersions")
    if not isinstance(versions, list) or MODERN not in versions:
        raise BadAnswerError(f"{session.link.place} does not offer {MODERN}")
    meta = result.get("_meta")
    return _peer(MODERN, result, meta.get(SERVER_INFO) if isinstance(meta, Mapping) else None)


async def _initialize(session: Session, version: str, timeout_s: float) -> Peer:
    _speak(session, version)
    session.link.reset()
    greeting = {
        "protocolVersion": version,
        "capabilities": session.dialect.capabilities,
        "clientInfo": session.dialect.info,
    }
    result = await session.request("initialize", greeting, timeout_s=timeout_s, is_greeting=True)
    agreed = result.get("protocolVersion")
    if agreed not in LEGACY:
        raise BadAnswerError(f"{session.link.place} speaks protocol version {agreed!r:.40}, unknown here")
    peer = _peer(agreed, result, result.get("serverInfo"))
    _settle(session, peer)
    try:
        async with asyncio.timeout(timeout_s):
            await session.notify("notifications/initialized")
    except TimeoutError:
        raise NoAnswerError(f"{session.link.place} does not take messages") from None
    return peer


def _speak(session: Session, version: str) -> None:
    capabilities = session.answers.capabilities(version)
    session.dialect = replace(session.dialect, version=version, capabilities=capabilities)


def _settle(session: Session, peer: Peer) -> None:
    if session.dialect.version != peer.protocol_version:
        _speak(session, peer.protocol_version)
    if peer.is_modern:
        session.link.reset()
    else:
        session.link.settle(session.dialect.standing_headers)


def _peer(version: str, result: Mapping[str, Any], info: Any) -> Peer:
    capabilities, instructions = result.get("capabilities"), result.get("instructions")
    return Peer(
        version,
        capabilities if isinstance(capabilities, Mapping) else {},
        info if isinstance(info, Mapping) else {},
        instructions if isinstance(instructions, str) else None,
    )
