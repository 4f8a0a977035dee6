"""Sessions with servers of other libraries, in this process.

`DirectSession` is for `mcp` 2.x and `fastmcp` 4: requests are handed to the SDK's runner. There are no
streams, messages or tasks in between: a call runs in the task of its caller, and everything that the server
sends during it (progress, log messages, questions) arrives at the object that represents the request.

Servers of the SDK get requests of 2026-07-28 on a connection that also answers questions, so that a function
can both return questions and ask through its Context. `fastmcp` does not allow the second on 2026-07-28, so
its servers get a session with a handshake, and requests of 2026-07-28 only for tools that return questions.

`StreamSession` is for `mcp` 1.x and `fastmcp` 2 and 3: the server runs over streams in memory.
`Server.run(read_stream, write_stream, options)` and the messages on the streams are the same in all versions
since `mcp` 1.6.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import sys
from collections.abc import Callable, Mapping
from contextvars import Context as Variables
from contextvars import ContextVar
from typing import Any, Self

from toolcrib.context import (
    Answer,
    Context,
    Elicitation,
    InputNeeded,
    Question,
    Root,
    Roots,
    Sampling,
    SamplingResult,
    URLElicitation,
)
from toolcrib.errors import CannotAskError, RelayedError, ToolError

HANDSHAKE = "2025-11-25"
MODERN = "2026-07-28"
CAPABILITIES: dict[str, Any] = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}}
CLIENT = {"name": "toolcrib", "version": "0"}
NO_CALLER = "There is nobody to ask"
MAX_ROUNDS = 16
"""How often a function may return questions instead of a result."""
MAX_REMEMBERED = 1_000
"""Tools, prompts and URIs that a session remembers for returning questions."""
_INVALID_PARAMS = -32602
_METHOD_NOT_FOUND = -32601
_INTERNAL_ERROR = -32603
_PREFIX = "io.modelcontextprotocol/"
_ENVELOPE = {
    f"{_PREFIX}protocolVersion": MODERN,
    f"{_PREFIX}clientInfo": CLIENT,
    f"{_PREFIX}clientCapabilities": CAPABILITIES,
    f"{_PREFIX}logLevel": "debug",
}
STOP_S = 5.0
"""How long a server may take to stop after its client has gone."""
_STREAMED: ContextVar[str | None] = ContextVar("toolcrib_streamed_request", default=None)
"""The request that a server works on."""
_CURRENT: ContextVar[_Request | None] = ContextVar("toolcrib_bridged_request", default=None)
"""The request that a server works on, for messages that name none."""
_numbers = itertools.count(1)


# --- questions ---------------------------------------------------------------------------------------


class Asker:
    """Asks the caller of one request.

    Questions are numbered in the order of asking: a client of 2026-07-28 repeats the call with the answers,
    and the same questions come up in the same order.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._asked = 0

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to one request of a server."""
        (answer,) = (await self.ask_all({"": {"method": method, "params": params}})).values()
        return answer

    async def ask_all(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return the answers to several requests, by the same keys."""
        questions: dict[str, Question] = {}
        for request in requests.values():
            question = read_question(request["method"], request.get("params") or {})
            self._asked += 1
            kind = type(question).__name__.lower()
            questions[kind if self._asked == 1 else f"{kind}-{self._asked}"] = question
        replies = await self._context.ask_all(questions) if questions else {}
        return {
            key: write_answer(question, replies[own])
            for key, (own, question) in zip(requests, questions.items(), strict=True)
        }


def read_question(method: str, params: Mapping[str, Any]) -> Question:
    """Return a request of a server as a question. Raise ToolError where it is none."""
    given = {key: value for key, value in params.items() if key != "_meta"}
    if method == "roots/list":
        return Roots()
    if method == "elicitation/create":
        if given.get("mode") == "url":
            return URLElicitation(given["message"], given["url"])
        return Elicitation(given["message"], given["requestedSchema"])
    if method == "sampling/createMessage":
        messages, limit = given.pop("messages"), given.pop("maxTokens", 1024)
        return Sampling(messages, limit, given.pop("systemPrompt", None), given)
    raise ToolError(f"The client does not answer {method} requests.")


def write_answer(question: Question, reply: Any) -> dict[str, Any]:
    """Return a reply in the form of the protocol."""
    match question, reply:
        case Elicitation() | URLElicitation(), Answer(action, content):
            is_filled = isinstance(question, Elicitation) and action == "accept"
            return {"action": action, "content": dict(content)} if is_filled else {"action": action}
        case Sampling(), SamplingResult(content, role, model, stop):
            # The SDK refuses a result that names no model; some clients name none.
            answer = {"role": role, "content": content, "model": model or "unknown"}
            return answer if stop is None else {**answer, "stopReason": stop}
        case Roots(), list():
            return {"roots": [_root_of(root) for root in reply]}
    raise TypeError(f"{type(reply).__name__} is no answer to {type(question).__name__}")


def _root_of(root: Root) -> dict[str, Any]:
    return {"uri": root.uri} if root.name is None else {"uri": root.uri, "name": root.name}


# --- through the runner of the SDK -------------------------------------------------------------------


def is_direct(low_level: Any) -> bool:
    """Return whether a low-level server is one of `mcp` 2.x."""
    return hasattr(low_level, "get_request_handler") and "mcp.server.runner" in sys.modules


class DirectSession:
    """One session with a server."""

    def __init__(self, low_level: Any, state: Any, *, is_modern: bool) -> None:
        self.uses = 0
        self.has_stopped = False
        self._low_level = low_level
        self._state = state
        self._is_modern = is_modern
        self._id = f"toolcrib-{next(_numbers)}"
        self._runner = self._make_runner(is_modern=is_modern)
        self._asks_by_returning: set[tuple[str, Any]] = set()

    @property
    def capabilities(self) -> Mapping[str, Any]:
        found = self._low_level.get_capabilities(protocol_version=MODERN)
        dumped: dict[str, Any] = found.model_dump(by_alias=True, mode="json", exclude_none=True)
        return dumped

    def _make_runner(self, *, is_modern: bool) -> Any:
        kind = sys.modules["mcp.server.connection"].Connection
        if is_modern:
            connection = kind.from_envelope(MODERN, CLIENT, CAPABILITIES, outbound=_OUTBOUND)
            connection.session_id = self._id
        else:
            connection = kind.for_loop(_OUTBOUND, session_id=self._id)
        return sys.modules["mcp.server.runner"].ServerRunner(self._low_level, connection, self._state)

    async def open(self) -> None:
        if self._is_modern:
            return
        params = {"protocolVersion": HANDSHAKE, "capabilities": CAPABILITIES, "clientInfo": CLIENT}
        await self.request("initialize", params)
        await self._runner.on_notify(_Request(None, is_notification=True), "notifications/initialized", None)

    async def close(self) -> None:
        await sys.modules["mcp.server.runner"].aclose_shielded(self._runner.connection)

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request, or raise ToolError with the server's message."""
        return await self._send(method, params, None, is_modern=self._is_modern)

    async def call(self, method: str, params: dict[str, Any], context: Context) -> dict[str, Any]:
        """Return the result of a request for a caller. Questions that it returns are asked, and it is sent
        again."""
        target = (method, params.get("name") or params.get("uri"))
        is_modern = self._is_modern or target in self._asks_by_returning
        asker = Asker(context)
        for _ in range(MAX_ROUNDS):
            try:
                reply = await self._send(method, params, (context, asker), is_modern=is_modern)
            except ToolError as error:
                if is_modern or not _is_about_questions(error):
                    raise
                is_modern = True
                if len(self._asks_by_returning) < MAX_REMEMBERED:
                    self._asks_by_returning.add(target)
                continue
            if reply.get("resultType") != "input_required":
                return reply
            answers = await asker.ask_all(reply.get("inputRequests") or {})
            params = {**params, "inputResponses": answers, "requestState": reply.get("requestState")}
            params = {key: value for key, value in params.items() if value is not None and value != {}}
        raise ToolError(f"This tool asked {MAX_ROUNDS} times without coming to a result.")

    async def _send(
        self, method: str, params: dict[str, Any], caller: tuple[Context, Asker] | None, *, is_modern: bool
    ) -> dict[str, Any]:
        runner = self._runner if is_modern == self._is_modern else self._make_runner(is_modern=is_modern)
        request = _Request(caller)
        meta = {**params.get("_meta", {}), "progressToken": request.request_id}
        if is_modern:
            meta |= _ENVELOPE
        token = _CURRENT.set(request)
        try:
            reply: dict[str, Any] = await runner.on_request(request, method, {**params, "_meta": meta})
        except Exception as error:
            if request.needed is not None:
                raise request.needed from None
            raise _explain(error) from error
        finally:
            request.caller = None
            try:
                _CURRENT.reset(token)
            except ValueError:
                pass  # the call was abandoned and ends in another task
        if request.needed is not None:  # the tool has caught it
            raise request.needed
        return reply


def _explain(error: Exception) -> Exception:
    """Return the error that the SDK sends for an exception, or the exception itself where it sends none."""
    found = sys.modules["mcp.shared.jsonrpc_dispatcher"].handler_exception_to_error_data(error)
    return error if found is None else RelayedError(found.message, rpc_code=found.code, data=found.data)


def _is_about_questions(error: ToolError) -> bool:
    """Return whether a server of fastmcp refuses returned questions, because the session had a handshake."""
    is_invalid = isinstance(error, RelayedError) and error.rpc_code == _INVALID_PARAMS
    return is_invalid and "InputRequiredResult" in str(error)


class _Request:
    """A request to the server, as the `DispatchContext` of the SDK. `caller` is None once it has ended."""

    message_metadata = None

    def __init__(self, caller: tuple[Context, Asker] | None, *, is_notification: bool = False) -> None:
        self.caller = caller
        self.request_id = None if is_notification else f"toolcrib-{next(_numbers)}"
        self.needed: InputNeeded | None = None

    @property
    def transport(self) -> Any:
        kind = sys.modules["mcp.shared.transport_context"].TransportContext
        return kind(kind="toolcrib", can_send_request=True)

    @property
    def can_send_request(self) -> bool:
        return True

    @property
    def cancel_requested(self) -> Any:
        return sys.modules["anyio"].Event()  # a call that is cancelled is cancelled with its task

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        if self.caller is not None:
            self.caller[0].progress(progress, total, message)

    async def notify(self, method: str, params: Mapping[str, Any] | None, _: Any = None) -> None:
        if self.caller is not None and params is not None:
            forward_notification(self.caller[0], method, params)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, _: Any = None
    ) -> dict[str, Any]:
        if method == "ping":
            return {}
        if self.caller is None:
            raise _make_error(_INTERNAL_ERROR, NO_CALLER)
        try:
            return await self.caller[1].ask(method, params or {})
        except InputNeeded as needed:
            self.needed = needed  # the whole call is repeated with the answers
            raise
        except CannotAskError as error:
            raise _make_error(_METHOD_NOT_FOUND, str(error)) from None
        except ToolError as error:
            raise _make_error(_INTERNAL_ERROR, str(error)) from None


class _Outbound:
    """Messages that a server sends beside its requests. They belong to the request of the sending task."""

    async def notify(self, method: str, params: Mapping[str, Any] | None, _: Any = None) -> None:
        request = _CURRENT.get()
        if request is not None:
            await request.notify(method, params)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, _: Any = None
    ) -> dict[str, Any]:
        request = _CURRENT.get()
        if request is None:
            raise _make_error(_INTERNAL_ERROR, NO_CALLER)
        return await request.send_raw_request(method, params)


_OUTBOUND = _Outbound()


def forward_notification(context: Context, method: str, params: Mapping[str, Any]) -> None:
    """Pass progress and log messages of a server to the caller of a tool."""
    if method == "notifications/progress":
        context.progress(params["progress"], params.get("total"), params.get("message"))
    elif method == "notifications/message":
        context.log(params["level"], params.get("data"))


def _make_error(code: int, message: str) -> Exception:
    made: Exception = sys.modules["mcp.shared.exceptions"].MCPError(code=code, message=message)
    return made


# --- over streams ------------------------------------------------------------------------------------


class _Streams:
    """The stream that a server reads from, and the one that it writes to.

    Messages of the server are handled in the task that sends them, whose context variables name the request
    that it works on. The SDK since 2.0 handles a message with the context variables of `last_context`.
    """

    def __init__(self, receive: Callable[[Any], None]) -> None:
        self.last_context: Variables | None = None
        self._receive = receive
        self._messages: asyncio.Queue[tuple[Any, Variables | None]] = asyncio.Queue()

    def put(self, message: Any, variables: Variables | None = None) -> None:
        """Send a message to the server; None ends the stream."""
        self._messages.put_nowait((message, variables))

    async def send(self, item: Any) -> None:
        self._receive(item)

    async def aclose(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        message, self.last_context = await self._messages.get()
        if message is None:
            raise StopAsyncIteration
        return message


class _Call:
    """A request that the server works on. `context` is that of a tool call."""

    def __init__(self, context: Context | None) -> None:
        self.context = context
        self.asker = None if context is None else Asker(context)
        self.reply: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()


class StreamSession:
    """One session with a server. `variables` are the context variables that it runs with."""

    def __init__(self, low_level: Any, state: Any, variables: Variables) -> None:
        self.uses = 0
        self.capabilities: Mapping[str, Any] = {}
        self._low_level = copy.copy(low_level)
        self._low_level.lifespan = lambda _: contextlib.nullcontext(state)  # entered once, not per session
        self._variables = variables
        self._streams = _Streams(self._receive)
        self._running: asyncio.Task[Any] | None = None
        self._calls: dict[str, _Call] = {}
        self._last_id = 0
        self._stopped: str | None = None
        self._types: Any = sys.modules.get("mcp_types") or sys.modules["mcp.types"]
        self._answering: set[asyncio.Task[None]] = set()

    @property
    def has_stopped(self) -> bool:
        return self._stopped is not None

    async def open(self) -> None:
        """Start the server and do the handshake. Raise what starting raises."""
        options = self._low_level.create_initialization_options()
        running = self._low_level.run(self._streams, self._streams, options)
        self._running = asyncio.get_running_loop().create_task(running, context=self._variables.copy())
        self._running.add_done_callback(lambda _: self.fail("The server has stopped."))
        params = {"protocolVersion": HANDSHAKE, "capabilities": CAPABILITIES, "clientInfo": CLIENT}
        try:
            reply = await self.request("initialize", params)
        except BaseException:
            task = self._running
            await self.close()
            if not task.cancelled() and task.exception() is not None:
                raise task.exception() from None  # type: ignore[misc]
            raise
        self.capabilities = reply.get("capabilities") or {}
        self._notify("notifications/initialized")

    async def close(self) -> None:
        if self._running is None:
            return
        self._streams.put(None)
        await asyncio.wait({self._running}, timeout=STOP_S)
        tasks = (self._running, *self._answering)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def call(self, method: str, params: dict[str, Any], context: Context) -> dict[str, Any]:
        """Return the result of a request for a caller."""
        return await self.request(method, params, context)

    async def request(
        self, method: str, params: dict[str, Any], context: Context | None = None
    ) -> dict[str, Any]:
        """Return the result of a request, or raise ToolError with the server's message."""
        if self._stopped is not None:
            raise ToolError(self._stopped)
        self._last_id += 1
        id_ = f"toolcrib-{self._last_id}"  # a string: some versions convert numbers to strings
        call = self._calls[id_] = _Call(context)
        if context is not None:
            params = {**params, "_meta": {**params.get("_meta", {}), "progressToken": id_}}
        try:
            message = self._types.JSONRPCRequest(jsonrpc="2.0", id=id_, method=method, params=params)
            self._send(message, id_)
            return await call.reply
        except (asyncio.CancelledError, InputNeeded):
            self._notify("notifications/cancelled", {"requestId": id_, "reason": "the caller has gone"})
            raise
        finally:
            del self._calls[id_]

    def fail(self, reason: str) -> None:
        """End all requests with an error, and those to come."""
        self._stopped = reason
        for call in self._calls.values():
            if not call.reply.done():
                call.reply.set_exception(ToolError(reason))

    def _receive(self, item: Any) -> None:
        message = getattr(item, "message", item)
        message = getattr(message, "root", message)
        related = getattr(getattr(item, "metadata", None), "related_request_id", None)
        if hasattr(message, "method"):
            self._receive_message(message, self._find_call(message, related))
        else:
            self._receive_reply(message)

    def _receive_reply(self, message: Any) -> None:
        call = self._calls.get(message.id)
        if call is None or call.reply.done():
            return
        if hasattr(message, "result"):
            call.reply.set_result(message.result)
        else:
            error = message.error
            data = getattr(error, "data", None)
            call.reply.set_exception(RelayedError(error.message, rpc_code=error.code, data=data))

    def _receive_message(self, message: Any, call: _Call | None) -> None:
        """Take a request or a notification of the server."""
        params = message.params or {}
        if getattr(message, "id", None) is not None:
            task = asyncio.ensure_future(self._answer(message, params, call))
            if call is not None:  # a question is withdrawn with its call
                call.reply.add_done_callback(lambda _: task.cancel())
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)
        elif call is not None and call.context is not None:
            forward_notification(call.context, message.method, params)

    def _find_call(self, message: Any, related: Any) -> _Call | None:
        """Return the call that a message belongs to: the one that it names, or else the one that the sending
        task works on. None where that has ended."""
        variable = getattr(sys.modules.get("mcp.server.lowlevel.server"), "request_ctx", None)
        older = getattr(variable and variable.get(None), "request_id", None)  # of the SDK before 2.0
        token = (message.params or {}).get("progressToken")
        named = next((id_ for id_ in (related, token, _STREAMED.get(), older) if id_ is not None), None)
        return self._calls.get(named)  # type: ignore[arg-type]

    async def _answer(self, message: Any, params: dict[str, Any], call: _Call | None) -> None:
        """Answer a question of the server, if our caller can."""
        code, text = _INTERNAL_ERROR, NO_CALLER
        try:
            if message.method == "ping" or (call is not None and call.asker is not None):
                result = {} if message.method == "ping" else await call.asker.ask(message.method, params)  # type: ignore[union-attr]
                self._send(self._types.JSONRPCResponse(jsonrpc="2.0", id=message.id, result=result))
                return
        except InputNeeded as needed:  # the whole call is repeated with the answers
            if call is not None and not call.reply.done():
                call.reply.set_exception(needed)
            return
        except CannotAskError as error:
            code, text = _METHOD_NOT_FOUND, str(error)
        except Exception as error:
            text = str(error)
        problem = self._types.ErrorData(code=code, message=text)
        self._send(self._types.JSONRPCError(jsonrpc="2.0", id=message.id, error=problem))

    def _notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        self._send(self._types.JSONRPCNotification(jsonrpc="2.0", method=method, params=params))

    def _send(self, message: Any, current: str | None = None) -> None:
        whole = self._types.JSONRPCMessage
        message = whole(message) if isinstance(whole, type) else message  # the SDK before 2.0 wraps it
        envelope = getattr(sys.modules.get("mcp.shared.message"), "SessionMessage", None)
        variables = self._variables.copy()
        variables.run(_STREAMED.set, current)
        self._streams.put(message if envelope is None else envelope(message), variables)
