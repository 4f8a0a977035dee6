"""JSON-RPC session of the client: requests, responses, notifications, and the protocol handshake.

Each request ends in one of four ways: a result, an error, a timeout, or the end of the connection. Nothing
that a server sends raises in a background task.

The handshake tries the newest version first: `server/discover` of 2026-07-28, then `initialize`. A server
that cannot be reached is an error, not an old server.

Questions from the server (elicitation, sampling and roots) arrive as requests in a legacy session, and inside
an `input_required` result on 2026-07-28; `InputHandlers` answers both.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from toolcrib.client.http import headers_for
from toolcrib.client.transport import Outgoing, Transport
from toolcrib.context import Answer, Elicitation, Root, Sampling, SamplingResult, URLElicitation
from toolcrib.errors import (
    ClientError,
    InvalidArgumentsError,
    InvalidResponseError,
    RemoteError,
    ResponseTimeoutError,
    TransportError,
)
from toolcrib.validation import codec

logger = logging.getLogger("toolcrib")

Ask = Callable[[Elicitation | URLElicitation], Awaitable[Answer]]
Sample = Callable[[Sampling], Awaitable[SamplingResult]]
OnProgress = Callable[[float, float | None, str | None], object]
OnLog = Callable[[str, Any], object]

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
VERSIONS = (MODERN, *LEGACY)
DISCOVER_WAIT_S = 5.0
"""How long to wait for `server/discover` before also trying `initialize`: some servers start slowly, and some
never respond to unknown methods."""

_PREFIX = "io.modelcontextprotocol/"
SERVER_INFO = f"{_PREFIX}serverInfo"
SUBSCRIPTION = f"{_PREFIX}subscriptionId"
_UNKNOWN, _INVALID, _INTERNAL, _UNSUPPORTED_VERSION = -32601, -32602, -32603, -32022
_LIST_CHANGES = {f"notifications/{kind}/list_changed": kind for kind in ("tools", "prompts", "resources")}
_ACCESS_STATUSES = (401, 403, 407)
_CLOSE_S = 2.0
_MAX_TASKS = 64
_MAX_WARNINGS = 5


class CannotAnswerError(Exception):
    """An invalid request, or one without a handler; `rpc_code` is the error code to reply with."""

    def __init__(self, message: str, rpc_code: int) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code


class InputHandlers:
    """The handlers of one client. Only capabilities with a handler are announced."""

    def __init__(
        self,
        on_ask: Ask | None = None,
        on_sample: Sample | None = None,
        roots: Iterable[str | Path | Root] | None = None,
    ) -> None:
        self._on_ask = on_ask
        self._on_sample = on_sample
        self._roots = None if roots is None else [_to_root(item) for item in roots]

    def capabilities(self, version: str) -> dict[str, Any]:
        """Return the client capabilities in the form of a protocol version."""
        offered: dict[str, Any] = {}
        if self._on_ask is not None and version >= "2025-06-18":
            offered["elicitation"] = {"form": {}, "url": {}} if version >= "2025-11-25" else {}
        if self._on_sample is not None:
            offered["sampling"] = {}
        if self._roots is not None:
            offered["roots"] = {}
        return offered

    async def answer(self, method: str, params: Any) -> dict[str, Any]:
        """Return the answer to one request. Raises CannotAnswerError, or what the handler raises."""
        params = params if isinstance(params, Mapping) else {}
        if method == "elicitation/create" and self._on_ask is not None:
            question = _read_question(params)
            return _write_answer(await self._on_ask(question), question)
        if method == "sampling/createMessage" and self._on_sample is not None:
            return _write_completion(await self._on_sample(_read_sampling(params)))
        if method == "roots/list" and self._roots is not None:
            named = [{"uri": item.uri, "name": item.name} for item in self._roots]
            return {"roots": [{key: value for key, value in item.items() if value} for item in named]}
        raise CannotAnswerError(f"{method} is not supported by this client", _UNKNOWN)


def _read_question(params: Mapping[str, Any]) -> Elicitation | URLElicitation:
    message = params.get("message", "")
    if not isinstance(message, str):
        raise CannotAnswerError("message must be a string", _INVALID)
    if params.get("mode", "form") == "url":
        url = params.get("url")
        if not isinstance(url, str):
            raise CannotAnswerError("url is required", _INVALID)
        return URLElicitation(message, url)
    schema = params.get("requestedSchema")
    if not isinstance(schema, Mapping):
        raise CannotAnswerError("requestedSchema is required", _INVALID)
    return Elicitation(message, schema)


def _write_answer(answer: Answer, question: Elicitation | URLElicitation) -> dict[str, Any]:
    if not answer or isinstance(question, URLElicitation):
        return {"action": answer.action}
    properties = question.schema.get("properties", {})
    properties = properties if isinstance(properties, Mapping) else {}
    # A field that was left out has its default value.
    defaults = {
        name: field["default"]
        for name, field in properties.items()
        if isinstance(field, Mapping) and "default" in field
    }
    return {"action": "accept", "content": {**defaults, **answer.content}}


def _read_sampling(params: Mapping[str, Any]) -> Sampling:
    messages, max_tokens = params.get("messages"), params.get("maxTokens")
    if not isinstance(messages, list):
        raise CannotAnswerError("messages must be a list", _INVALID)
    known = ("messages", "maxTokens", "systemPrompt", "_meta")
    return Sampling(
        messages,
        max_tokens if isinstance(max_tokens, int) else 1024,
        params.get("systemPrompt"),
        {key: value for key, value in params.items() if key not in known},
    )


def _write_completion(completion: SamplingResult) -> dict[str, Any]:
    content = completion.content
    written = {
        "role": completion.role,
        "content": {"type": "text", "text": content} if isinstance(content, str) else content,
        "model": completion.model or "unknown",
    }
    return written if completion.stop_reason is None else {**written, "stopReason": completion.stop_reason}


def _to_root(item: str | Path | Root) -> Root:
    if isinstance(item, Root):
        return item
    if isinstance(item, str) and "://" in item:
        return Root(item)
    path = Path(item).resolve()
    return Root(path.as_uri(), path.name or None)


@dataclass(frozen=True, slots=True)
class Listeners:
    """Callbacks for messages of a server while a request runs."""

    on_progress: OnProgress | None = None
    on_log: OnLog | None = None
    on_acknowledged: Callable[[Any], object] | None = None
    """Called with the notifications that a server agrees to send for `subscriptions/listen`."""


NO_LISTENERS = Listeners()


@dataclass(slots=True, eq=False)
class _Pending:
    """A request without a response. `left_s` is the time left while its timeout is paused."""

    listeners: Listeners
    is_handshake: bool
    answer: asyncio.Future[dict[str, Any]]
    limit: asyncio.Timeout | None = None
    left_s: float | None = None


@dataclass(slots=True, eq=False)
class Session:
    """One session with a server; receives the messages of its transport."""

    transport: Transport
    info: Mapping[str, Any]
    input_handlers: InputHandlers
    on_change: Callable[[str, str | None], object]
    """Called with the kind of list that changed, or with "resource" and its URI."""
    extensions: Mapping[str, Any] = field(default_factory=dict)
    """Extensions of 2026-07-28 that the client declares."""
    version: str = LEGACY[0]
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    _pending: dict[int, _Pending] = field(default_factory=dict)
    _ids: count[int] = field(default_factory=lambda: count(1))
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    _questions: dict[int | str, asyncio.Task[Any]] = field(default_factory=dict)
    _answering: int = 0
    _unexpected: int = 0
    _closed_by: ClientError | None = None

    @property
    def is_closed(self) -> bool:
        return self._closed_by is not None

    @property
    def is_modern(self) -> bool:
        return self.version == MODERN

    def use_version(self, version: str) -> None:
        self.version = version
        self.capabilities = self.input_handlers.capabilities(version)
        if self.is_modern and self.extensions:
            self.capabilities = {**self.capabilities, "extensions": self.extensions}

    # --- requests ---

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        timeout_s: float | None,
        headers: Mapping[str, str] | None = None,
        listeners: Listeners = NO_LISTENERS,
        is_handshake: bool = False,
    ) -> dict[str, Any]:
        """Return the result. A request that times out or is cancelled is also cancelled at the server."""
        if self._closed_by is not None:
            raise _copy_error(self._closed_by)
        request_id = next(self._ids)
        token = request_id if listeners.on_progress is not None else None
        wrapped = self._wrap(params, token, "debug" if listeners.on_log is not None else None)
        try:
            data = codec.encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": wrapped})
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidArgumentsError(f"The arguments are not JSON: {error}") from None
        sent = Outgoing(data, request_id, {**self._headers(method, params), **(headers or {})})
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        pending = self._pending[request_id] = _Pending(listeners, is_handshake, answer)
        try:
            async with asyncio.timeout(timeout_s) as pending.limit:
                await self.transport.send(sent)
                return await pending.answer
        except TimeoutError:
            self._cancel(request_id, "timeout")
            strange = f"; unexpected messages: {self._unexpected}" if self._unexpected else ""
            limit = f"{timeout_s:g} s" if timeout_s is not None else "the time limit"
            raise ResponseTimeoutError(
                f"{self.transport.label}: no response to {method} within {limit}{strange}"
            ) from None
        except asyncio.CancelledError:
            self._cancel(request_id, "cancelled by the caller")
            raise
        finally:
            del self._pending[request_id]
            if pending.answer.done() and not pending.answer.cancelled():
                pending.answer.exception()  # mark as retrieved, even if the timeout came first

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        await self.transport.send(Outgoing(codec.encode(message), headers=self._headers(method, {})))

    def _wrap(self, params: Mapping[str, Any], token: int | None, log_level: str | None) -> dict[str, Any]:
        """Return params with the `_meta` of the version: 2026-07-28 describes the client in every request."""
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

    def _headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        """Return the HTTP headers specific to one message."""
        return headers_for(self.version, method, params) if self.is_modern else {}

    def _cancel(self, request_id: int, reason: str) -> None:
        """Cancel at the server: by closing the request's stream if it has one, else by a notification."""
        self.transport.cancel(request_id)
        if not self._pending[request_id].is_handshake and not (
            self.transport.has_request_streams and self.is_modern
        ):
            text = {"requestId": request_id, "reason": reason}
            self.spawn(self._send_quietly(lambda: self.notify("notifications/cancelled", text)))

    async def _send_quietly(self, send: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            async with asyncio.timeout(_CLOSE_S):
                await send()
        except (ClientError, TimeoutError) as error:
            logger.debug("%s: %s", self.transport.label, error)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Run in the background until the session closes; return None if too much runs already."""
        if len(self._tasks) >= _MAX_TASKS or self.is_closed:
            work.close()
            return None
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Fail all pending requests. The transport stays open: its owner closes it."""
        for request_id in list(self._pending):
            self._cancel(request_id, "the client is closing")
        self.closed(TransportError(f"{self.transport.label}: connection closed"))
        closing = [task for task in self._tasks if task not in self._questions.values()]
        for task in self._questions.values():
            task.cancel()
        if closing:
            await asyncio.wait(closing, timeout=_CLOSE_S / 4)
        left = list(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    # --- receiving ---

    def is_pending(self, request_id: int) -> bool:
        pending = self._pending.get(request_id)
        return pending is not None and not pending.answer.done()

    def failed(self, request_id: int | None, error: ClientError) -> None:
        request_ids = list(self._pending) if request_id is None else [request_id]
        for item in request_ids:
            if self.is_pending(item):
                self._pending[item].answer.set_exception(
                    error if request_id is not None else _copy_error(error)
                )

    def closed(self, error: ClientError) -> None:
        if self._closed_by is None:
            self._closed_by = error
        self.failed(None, error)

    def message(self, data: bytes, via: int | None = None) -> None:
        try:
            message = codec.decode(data)
        except ValueError:
            self._reject(data, via, "invalid JSON")
            return
        for item in message if isinstance(message, list) else (message,):
            if not isinstance(item, dict):
                self._reject(data, via, "a message that is not JSON-RPC")
            elif isinstance(item.get("method"), str):
                self._take_request(item, via)
            elif "result" in item or "error" in item:
                self._take_answer(item, via)
            else:
                self._reject(data, via, "a message that is not JSON-RPC")

    def _reject(self, data: bytes, via: int | None, what: str) -> None:
        """Report an invalid message, and fail the request whose stream carried it."""
        shown = data[:200].decode("utf-8", "replace")
        self._unexpected += 1
        if via is not None:
            self.failed(via, InvalidResponseError(f"{self.transport.label} sent {what}: {shown!r}"))
        elif self._unexpected <= _MAX_WARNINGS:
            more = "; further ones are not logged" if self._unexpected == _MAX_WARNINGS else ""
            logger.warning("%s sent %s: %r%s", self.transport.label, what, shown, more)

    def _take_answer(self, message: dict[str, Any], via: int | None) -> None:
        request_id = message.get("id")
        if request_id is None and "error" in message:
            # An error without an id belongs to the request of its stream, or to the only pending one.
            request_id = via if via is not None or len(self._pending) != 1 else next(iter(self._pending))
        if type(request_id) is not int or not self.is_pending(request_id):
            self._unexpected += 1
            logger.debug(
                "%s responded to a request that is not pending: %.100r", self.transport.label, request_id
            )
            return
        answer = self._pending[request_id].answer
        error = message.get("error")
        if isinstance(error, dict) and type(error.get("code")) is int:
            text = error.get("message")
            text = text if isinstance(text, str) and text else "an error without a message"
            answer.set_exception(RemoteError(text, rpc_code=error["code"], data=error.get("data")))
        elif error is None and isinstance(message.get("result"), dict):
            answer.set_result(message["result"])
        else:
            text = f"{self.transport.label} sent a response with neither result nor error"
            answer.set_exception(InvalidResponseError(text))

    # --- notifications and requests from the server ---

    def _take_request(self, message: dict[str, Any], via: int | None) -> None:
        method, params = message["method"], message.get("params")
        params = params if isinstance(params, dict) else {}
        if message.get("id") is not None:
            self._take_question(message["id"], method, params)
        elif method == "notifications/progress":
            self._take_progress(params)
        elif method == "notifications/message":
            self._take_log(params, via)
        elif method in _LIST_CHANGES or method == "notifications/resources/updated":
            self._take_change(method, params)
        elif method == "notifications/subscriptions/acknowledged":
            subscription = _subscription_of(params)
            stream = via if subscription is None else subscription
            acknowledged = self._pending.get(stream) if type(stream) is int else None
            if acknowledged is not None and acknowledged.listeners.on_acknowledged is not None:
                self.call_back(acknowledged.listeners.on_acknowledged, params.get("notifications"))
        elif method == "notifications/cancelled":
            request_id = params.get("requestId")
            question = self._questions.get(request_id) if isinstance(request_id, int | str) else None
            if question is not None:
                question.cancel()

    def _take_change(self, method: str, params: dict[str, Any]) -> None:
        subscription = _subscription_of(params)
        if type(subscription) is int and not self.is_pending(subscription):
            return  # a subscription that has ended: another one announces the same
        if method in _LIST_CHANGES:
            self.call_back(self.on_change, _LIST_CHANGES[method], None)
        elif isinstance(params.get("uri"), str):
            self.call_back(self.on_change, "resource", params["uri"])

    def _take_progress(self, params: dict[str, Any]) -> None:
        token, progress, total = params.get("progressToken"), params.get("progress"), params.get("total")
        pending = self._pending.get(token) if type(token) is int else None
        if pending is None or pending.listeners.on_progress is None or not _is_number(progress):
            return
        text = params.get("message")
        self.call_back(
            pending.listeners.on_progress,
            progress,
            total if _is_number(total) else None,
            text if isinstance(text, str) else None,
        )

    def _take_log(self, params: dict[str, Any], via: int | None) -> None:
        """Log notifications carry no request id: without a stream of their own they go to every listener."""
        level = params.get("level")
        for request_id, pending in list(self._pending.items()):
            if pending.listeners.on_log is not None and via in (None, request_id):
                self.call_back(
                    pending.listeners.on_log, level if isinstance(level, str) else "info", params.get("data")
                )

    def call_back(self, listener: Callable[..., object], *arguments: Any) -> object:
        """Call a function of the user's, whose failure must not end the session; return its result."""
        try:
            return listener(*arguments)
        except Exception as error:
            self.report_callback(error)
            return None

    def report_callback(self, error: Exception) -> None:
        logger.warning("a callback for %s failed: %s: %s", self.transport.label, type(error).__name__, error)

    # --- requests from the server in a legacy session ---

    def _take_question(self, request_id: Any, method: str, params: dict[str, Any]) -> None:
        if self.is_modern or not isinstance(request_id, int | str) or request_id in self._questions:
            self._unexpected += 1
            logger.debug(
                "%s sent a request that the protocol does not allow: %.100s", self.transport.label, method
            )
            return
        task = self.spawn(self._answer_question(request_id, method, params))
        if task is not None:
            self._questions[request_id] = task
            task.add_done_callback(lambda _: self._questions.pop(request_id, None))

    async def _answer_question(self, request_id: int | str, method: str, params: dict[str, Any]) -> None:
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id}
        try:
            reply["result"] = {} if method == "ping" else await self._answer_paused(method, params)
            data = codec.encode(reply)
        except CannotAnswerError as error:
            data = _error_for(request_id, error.rpc_code, str(error))
        except Exception as error:  # handlers are user code
            logger.warning("could not answer %s: %s: %s", method, type(error).__name__, error)
            data = _error_for(request_id, _INTERNAL, "Client error")
        await self._send_quietly(lambda: self.transport.send(Outgoing(data)))

    async def _answer_paused(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Answer with all timeouts paused, since a person may be asked."""
        loop = asyncio.get_running_loop()
        self._answering += 1
        for pending in self._pending.values():
            limit = pending.limit
            if limit is not None and not limit.expired() and (due := limit.when()) is not None:
                pending.left_s = due - loop.time()
                limit.reschedule(None)
        try:
            return await self.input_handlers.answer(method, params)
        finally:
            self._answering -= 1
            for pending in () if self._answering else self._pending.values():
                limit, left_s = pending.limit, pending.left_s
                if limit is not None and left_s is not None and not limit.expired():
                    pending.left_s = None
                    limit.reschedule(loop.time() + left_s)


def _subscription_of(params: Mapping[str, Any]) -> Any:
    """Return the id of the `subscriptions/listen` that a notification belongs to."""
    meta = params.get("_meta")
    return meta.get(SUBSCRIPTION) if isinstance(meta, Mapping) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _error_for(request_id: int | str, code: int, text: str) -> bytes:
    return codec.encode({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": text}})


def _copy_error(error: ClientError) -> ClientError:
    """Return a copy of an error, so that each request raises its own."""
    if isinstance(error, InvalidResponseError):
        return InvalidResponseError(str(error))
    return TransportError(str(error), status=error.status if isinstance(error, TransportError) else None)


@dataclass(frozen=True, slots=True)
class Peer:
    """The announcement of the server about itself."""

    protocol_version: str
    capabilities: Mapping[str, Any]
    server_info: Mapping[str, Any]
    instructions: str | None

    @property
    def is_modern(self) -> bool:
        return self.protocol_version == MODERN

    def supports(self, capability: str, feature: str) -> bool:
        """Return whether the server announced a feature, such as `listChanged` of `tools`."""
        announced = self.capabilities.get(capability)
        return isinstance(announced, Mapping) and announced.get(feature) is True


async def negotiate(session: Session, protocol: str, timeout_s: float) -> Peer:
    """Negotiate the version: `protocol`, or for "auto" the newest that both sides support."""
    if protocol == MODERN:
        return await _discover(session, timeout_s)
    if protocol != "auto":
        return await _initialize(session, protocol, timeout_s)
    probe = asyncio.ensure_future(_discover(session, timeout_s))
    try:
        await asyncio.wait([probe], timeout=min(DISCOVER_WAIT_S, timeout_s))
        if not probe.done():
            return await _negotiate_both(session, probe, timeout_s)
        try:
            return probe.result()
        except TransportError as error:
            if error.status is None or error.status in _ACCESS_STATUSES or session.is_closed:
                raise
        except RemoteError as error:
            supported = _supported(error)
            if supported and not any(version in LEGACY for version in supported):
                raise
        except InvalidResponseError:
            pass
        return await _initialize(session, LEGACY[0], timeout_s)
    finally:
        await _cancel_and_wait(probe)


async def _negotiate_both(session: Session, probe: asyncio.Future[Peer], timeout_s: float) -> Peer:
    """Wait for either handshake of a server that is slow or ignores `server/discover`."""
    old = asyncio.ensure_future(_initialize(session, LEGACY[0], timeout_s))
    try:
        await asyncio.wait([probe, old], return_when=asyncio.FIRST_COMPLETED)
        first, second = (probe, old) if probe.done() else (old, probe)
        try:
            peer = first.result()
        except ClientError:
            peer = await second
        # Each handshake has set its own version: set the negotiated one.
        _resolve(session, peer)
        return peer
    finally:
        await _cancel_and_wait(old)


async def _cancel_and_wait(greeting: asyncio.Future[Peer]) -> None:
    greeting.cancel()
    await asyncio.gather(greeting, return_exceptions=True)


def _supported(error: RemoteError) -> list[Any]:
    """Return the versions named by an unsupported-version error."""
    if error.rpc_code != _UNSUPPORTED_VERSION or not isinstance(error.data, Mapping):
        return []
    supported = error.data.get("supported")
    return supported if isinstance(supported, list) else []


async def _discover(session: Session, timeout_s: float) -> Peer:
    session.use_version(MODERN)
    session.transport.reset()
    try:
        result = await session.request("server/discover", {}, timeout_s=timeout_s, is_handshake=True)
    except RemoteError as error:
        if MODERN not in _supported(error):
            raise
        # The server lists this very version: try once more.
        result = await session.request("server/discover", {}, timeout_s=timeout_s, is_handshake=True)
    versions = result.get("supportedVersions")
    if not isinstance(versions, list) or MODERN not in versions:
        raise InvalidResponseError(f"{session.transport.label} does not support {MODERN}")
    meta = result.get("_meta")
    return _peer(MODERN, result, meta.get(SERVER_INFO) if isinstance(meta, Mapping) else None)


async def _initialize(session: Session, version: str, timeout_s: float) -> Peer:
    session.use_version(version)
    session.transport.reset()
    greeting = {"protocolVersion": version, "capabilities": session.capabilities, "clientInfo": session.info}
    result = await session.request("initialize", greeting, timeout_s=timeout_s, is_handshake=True)
    agreed = result.get("protocolVersion")
    if agreed not in LEGACY:
        raise InvalidResponseError(
            f"{session.transport.label} negotiated the unknown protocol version {agreed!r:.40}"
        )
    peer = _peer(agreed, result, result.get("serverInfo"))
    _resolve(session, peer)
    try:
        async with asyncio.timeout(timeout_s):
            await session.notify("notifications/initialized")
    except TimeoutError:
        raise ResponseTimeoutError(f"{session.transport.label} does not accept messages") from None
    return peer


def _resolve(session: Session, peer: Peer) -> None:
    """Continue with the version that was negotiated."""
    if session.version != peer.protocol_version:
        session.use_version(peer.protocol_version)
    if peer.is_modern:
        session.transport.reset()
    elif session.version >= "2025-06-18":  # older servers do not know the header
        session.transport.set_session_headers({"mcp-protocol-version": session.version})
    else:
        session.transport.set_session_headers({})


def _peer(version: str, result: Mapping[str, Any], info: Any) -> Peer:
    capabilities, instructions = result.get("capabilities"), result.get("instructions")
    return Peer(
        version,
        capabilities if isinstance(capabilities, Mapping) else {},
        info if isinstance(info, Mapping) else {},
        instructions if isinstance(instructions, str) else None,
    )
