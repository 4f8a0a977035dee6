"""Calls a server of another library through its own handlers, in this process.

The server is run as its library runs it, and we are its only client, over a pair of streams in memory. So
everything that its author put between clients and functions stays there: overridden methods, middleware,
transforms, visibility, their Context, their result types. What the server sends during a call (progress, log
messages, questions) is passed to our caller.

The connection uses the revisions of the protocol that begin with a handshake, which every version of both
libraries understands.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import Context as Variables
from contextvars import ContextVar, copy_context
from types import SimpleNamespace
from typing import Any, Self

from toolcrib.content import Result
from toolcrib.context import Context, InputNeeded
from toolcrib.errors import CannotAskError, ToolError
from toolcrib.sources.foreign.context import SPOKEN, Lifespan, answer_of, question_of, to_wire

METHOD_NOT_FOUND = -32601
INTERNAL_ERROR = -32603
STOP_S = 5.0
"""How long a server may take to stop after its client has gone."""
MAX_PAGES = 1_000
_CAPABILITIES: dict[str, Any] = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}}
_CURRENT: ContextVar[str | None] = ContextVar("toolcrib_bridged_request", default=None)
"""The request that a server works on."""
_PARTS = {
    "resources/list": ("resources", "resource"),
    "resources/templates/list": ("resources", "resourceTemplate"),
    "prompts/list": ("prompts", "prompt"),
}
"""What a server may have beside tools: the method that lists it, its capability, and its key in the reply."""


class Bridge:
    """A server of theirs that is called through its handlers. `open` starts it, `close` stops it."""

    is_ambient = False

    def __init__(self, server: Any) -> None:
        self.server = server
        self.name: str = server.name
        self._lifespan: Lifespan | None = None
        self._lock = threading.Lock()

    async def open(self) -> None:
        self._lifespan = lifespan = Lifespan(connect(self.server))
        try:
            await lifespan.begin()
        except BaseException:
            self._lifespan = None
            raise

    async def close(self) -> None:
        lifespan, self._lifespan = self._lifespan, None
        if lifespan is not None:
            await lifespan.end()

    def lend(self, context: Context) -> contextlib.AbstractContextManager[Context]:
        """Return the Context of a call, which is ours: the server makes its own."""
        return contextlib.nullcontext(context)

    async def call(self, name: str, arguments: dict[str, Any], context: Context) -> Result:
        """Call a tool, from any event loop. A server whose loop was closed is started again on this one."""
        with self._lock:
            lifespan = self._lifespan
            if lifespan is None:
                raise ToolError(f"The server {self.name} has stopped.")
            if lifespan.task.done():
                lifespan = self._lifespan = Lifespan(connect(self.server))
        call = self._call(lifespan, name, arguments, context)
        if lifespan.loop is asyncio.get_running_loop():
            return await call
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, lifespan.loop))

    async def _call(
        self, lifespan: Lifespan, name: str, arguments: dict[str, Any], context: Context
    ) -> Result:
        if lifespan.value is None:
            await lifespan.begin()
        connection: Connection = lifespan.value
        params = {"name": name, "arguments": arguments}
        reply = await connection.request("tools/call", params, context)
        structured = reply.get("structuredContent")
        meta = {key: value for key, value in (reply.get("_meta") or {}).items() if key != "fastmcp"}
        return Result(
            reply["content"], structured, reply.get("isError") is True, structured is not None, meta or None
        )


async def read_listing(server: Any) -> tuple[list[Any], dict[str, int]]:
    """Return the tools that a server lists, as objects with the attributes of theirs, and the number of its
    other parts by kind."""
    async with connect(server) as connection:
        has_tools = "tools" in connection.capabilities
        tools = [_as_tool(item) for item in await connection.list("tools/list", "tools")] if has_tools else []
        counts: dict[str, int] = {}
        for method, (capability, kind) in _PARTS.items():
            if capability not in connection.capabilities:
                continue
            with contextlib.suppress(ToolError):  # a server may have resources but no templates
                found = await connection.list(method, f"{kind}s")
                word = "prompt" if capability == "prompts" else "resource"
                counts[word] = counts.get(word, 0) + len(found)
        return tools, counts


def _as_tool(listed: Mapping[str, Any]) -> Any:
    meta = listed.get("_meta") or {}
    fast = meta.get("fastmcp") or meta.get("_fastmcp") or {}  # the second is of fastmcp 2
    return SimpleNamespace(
        name=listed["name"],
        title=listed.get("title"),
        description=listed.get("description"),
        parameters=listed["inputSchema"],
        output_schema=listed.get("outputSchema"),
        annotations=listed.get("annotations"),
        icons=listed.get("icons"),
        meta={key: value for key, value in meta.items() if key != "_fastmcp"},
        tags=fast.get("tags"),
        version=fast.get("version"),
    )


# --- the connection ----------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def connect(server: Any) -> AsyncIterator[Connection]:
    """Run a server and connect to it. Raise what starting it raises."""
    low_level = getattr(server, "_lowlevel_server", None) or getattr(server, "_mcp_server", server)
    async with contextlib.AsyncExitStack() as stack:
        if hasattr(server, "_lifespan_manager"):  # of fastmcp; other servers enter their lifespan in `run`
            await stack.enter_async_context(server._lifespan_manager())
        options = low_level.create_initialization_options()
        connection = Connection()
        running = asyncio.ensure_future(low_level.run(connection.streams, connection.streams, options))
        running.add_done_callback(lambda _: connection.fail("The server has stopped."))
        try:
            await connection.initialize()
            yield connection
        except ToolError:
            if running.done() and not running.cancelled() and running.exception() is not None:
                raise running.exception() from None
            raise
        finally:
            connection.streams.put(None)
            await asyncio.wait({running}, timeout=STOP_S)
            for task in (running, *connection.answering):
                task.cancel()
            await asyncio.gather(running, *connection.answering, return_exceptions=True)


class _Streams:
    """The stream that a server reads from and the one that it writes to.

    The SDK since 2.0 handles a message with the context variables of `last_context`. What the server sends is
    taken in the task that sends it, because that knows which request it works on.
    """

    def __init__(self, receive: Callable[[Any], None]) -> None:
        self.last_context: Variables | None = None
        self._receive = receive
        self._messages: asyncio.Queue[tuple[Variables | None, Any]] = asyncio.Queue()

    def put(self, message: Any, variables: Variables | None = None) -> None:
        """Send a message to the server; None ends the stream."""
        self._messages.put_nowait((variables, message))

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
        self.last_context, message = await self._messages.get()
        if message is None:
            raise StopAsyncIteration
        return message


class _Call:
    """A request of ours that the server works on. `context` is that of a tool call."""

    def __init__(self, context: Context | None) -> None:
        self.context = context
        self.reply: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.asked = 0


class Connection:
    """The client's side of a server that runs in this process."""

    def __init__(self) -> None:
        self.streams = _Streams(self.receive)
        self._variables = copy_context()
        self._calls: dict[str, _Call] = {}
        self._last_id = 0
        self._stopped: str | None = None
        self._types: Any = sys.modules.get("mcp_types") or sys.modules["mcp.types"]
        self.answering: set[asyncio.Task[None]] = set()
        self.capabilities: Mapping[str, Any] = {}

    async def initialize(self) -> None:
        params = {
            "protocolVersion": SPOKEN,
            "capabilities": _CAPABILITIES,
            "clientInfo": {"name": "toolcrib", "version": "0"},
        }
        reply = await self.request("initialize", params)
        self.capabilities = reply.get("capabilities") or {}
        self._notify("notifications/initialized")

    async def list(self, method: str, key: str) -> list[dict[str, Any]]:
        """Return all pages of a list."""
        found: list[dict[str, Any]] = []
        params: dict[str, Any] = {}
        for _ in range(MAX_PAGES):
            page = await self.request(method, params)
            found += page[key]
            if not page.get("nextCursor"):
                break
            params = {"cursor": page["nextCursor"]}
        return found

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
            params = {**params, "_meta": {"progressToken": id_}}
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

    def receive(self, item: Any) -> None:
        message = getattr(item, "message", item)
        message = getattr(message, "root", message)
        related = getattr(getattr(item, "metadata", None), "related_request_id", None)
        if hasattr(message, "method"):
            self._receive(message, self._find_call(message, related))
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

    def _receive(self, message: Any, call: _Call | None) -> None:
        """Take a request or a notification of the server."""
        params = message.params or {}
        context = None if call is None else call.context
        if getattr(message, "id", None) is not None:
            task = asyncio.ensure_future(self._answer(message, params, call))
            if call is not None:  # a question is withdrawn with its call
                call.reply.add_done_callback(lambda _: task.cancel())
            self.answering.add(task)
            task.add_done_callback(self.answering.discard)
        elif context is not None and message.method == "notifications/progress":
            context.progress(params["progress"], params.get("total"), params.get("message"))
        elif context is not None and message.method == "notifications/message":
            context.log(params["level"], params.get("data"))

    def _find_call(self, message: Any, related: Any) -> _Call | None:
        """Return the call that a message belongs to. None where that has ended, or no call is named."""
        variable = getattr(sys.modules.get("mcp.server.lowlevel.server"), "request_ctx", None)
        older = getattr(variable and variable.get(None), "request_id", None)  # of the SDK before 2.0
        token = (message.params or {}).get("progressToken")
        named = next((id_ for id_ in (related, token, _CURRENT.get(), older) if id_ is not None), None)
        return self._calls.get(named)  # type: ignore[arg-type]

    async def _answer(self, message: Any, params: dict[str, Any], call: _Call | None) -> None:
        """Answer a question of the server, if our caller can."""
        code, text = INTERNAL_ERROR, "There is nobody to ask"
        try:
            if call is not None and call.context is not None:
                result = await self._ask(message.method, params, call, call.context)
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

    async def _ask(
        self, method: str, params: dict[str, Any], call: _Call, context: Context
    ) -> dict[str, Any]:
        if method == "ping":
            return {}
        question = question_of(method, params)
        # Numbered in the order of asking: a call that is repeated asks the same questions in the same order.
        call.asked += 1
        kind = type(question).__name__.lower()
        key = kind if call.asked == 1 else f"{kind}-{call.asked}"
        replies = await context.ask_all({key: question})
        answer: dict[str, Any] = to_wire(answer_of(question, replies[key]))
        return answer

    def _notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        self._send(self._types.JSONRPCNotification(jsonrpc="2.0", method=method, params=params))

    def _send(self, message: Any, current: str | None = None) -> None:
        whole = self._types.JSONRPCMessage
        message = whole(message) if isinstance(whole, type) else message  # the SDK before 2.0 wraps it
        envelope = getattr(sys.modules.get("mcp.shared.message"), "SessionMessage", None)
        variables = self._variables.copy()
        variables.run(_CURRENT.set, current)
        self.streams.put(message if envelope is None else envelope(message), variables)
