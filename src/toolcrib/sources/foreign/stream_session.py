"""Sessions with servers of `mcp` 1.x and `fastmcp` 2 and 3: the server runs over streams in memory.

`Server.run(read_stream, write_stream, options)` and the messages on the streams are the same in all versions
since `mcp` 1.6, also in those that have a shorter way (`direct_session`).
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import sys
from collections.abc import Callable, Mapping
from contextvars import Context as Variables
from contextvars import ContextVar
from typing import Any, Self

from toolcrib.context import Context, InputNeeded
from toolcrib.errors import CannotAskError, ToolError
from toolcrib.sources.foreign.direct_session import CAPABILITIES, CLIENT, HANDSHAKE, NOBODY, tell
from toolcrib.sources.foreign.questions import Asker

METHOD_NOT_FOUND = -32601
INTERNAL_ERROR = -32603
STOP_S = 5.0
"""How long a server may take to stop after its client has gone."""
_CURRENT: ContextVar[str | None] = ContextVar("toolcrib_streamed_request", default=None)
"""The request that a server works on."""


class _Streams:
    """The stream that a server reads from and the one that it writes to.

    What the server sends is taken in the task that sends it, because that knows which request it works on.
    The SDK since 2.0 handles a message with the context variables of `last_context`.
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
        """Start the server and introduce ourselves. Raise what starting raises."""
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

    async def call(self, params: dict[str, Any], context: Context) -> dict[str, Any]:
        """Return the result of a tool call."""
        return await self.request("tools/call", params, context)

    async def request(
        self, method: str, params: dict[str, Any], context: Context | None = None
    ) -> dict[str, Any]:
        """Return the result of a request, or raise ToolError with the server's message."""
        if self._stopped is not None:
            raise ToolError(self._stopped)
        self._last_id += 1
        id_ = f"toolcrib-{self._last_id}"  # a text: some versions make texts of numbers
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
        """End all requests, and those to come: nobody works on them any more."""
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
            call.reply.set_exception(ToolError(error.message, details={"code": error.code}))

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
            tell(call.context, message.method, params)

    def _find_call(self, message: Any, related: Any) -> _Call | None:
        """Return the call that a message belongs to: the one that it names, or else the one that the sending
        task works on. None where that has ended."""
        variable = getattr(sys.modules.get("mcp.server.lowlevel.server"), "request_ctx", None)
        older = getattr(variable and variable.get(None), "request_id", None)  # of the SDK before 2.0
        token = (message.params or {}).get("progressToken")
        named = next((id_ for id_ in (related, token, _CURRENT.get(), older) if id_ is not None), None)
        return self._calls.get(named)  # type: ignore[arg-type]

    async def _answer(self, message: Any, params: dict[str, Any], call: _Call | None) -> None:
        """Answer a question of the server, if our caller can."""
        code, text = INTERNAL_ERROR, NOBODY
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
            code, text = METHOD_NOT_FOUND, str(error)
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
        variables.run(_CURRENT.set, current)
        self._streams.put(message if envelope is None else envelope(message), variables)
