"""The engine alone, in process: `python -m bench.wire.engine LIBRARY DOOR ERA BATCH_S`.

A request as bytes goes in, a reply as bytes comes out, no socket, no pipe, no second process. DOOR is
`messages`, the protocol engine as a transport drives it, or `asgi`, the application as a web server calls it.
Prints the CPU seconds of one call.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from bench.wire.messages import LEGACY, MODERN, Era, initialize, initialized, question
from bench.wire.replies import Reply, ReplyError, check, check_line, message_of
from bench.wire.servers import add

Ask = Callable[[bytes], Awaitable[bytes]]
Door = Callable[[Any], AbstractAsyncContextManager[Ask]]

WARM_UP_S = 0.1
BATCHES = 9


# --- the protocol engine, as a transport drives it ---


@asynccontextmanager
async def toolcrib_messages(server: Any) -> AsyncIterator[Ask]:
    """The sans-IO engine: a pending request is run by its caller."""
    protocol = importlib.import_module("toolcrib.protocol")
    session = importlib.import_module("toolcrib.protocol.sessions").Session()
    async with server:
        engine = protocol.Engine(server.dispatcher, protocol.EngineSettings("bench", "1"))
        peer = protocol.Peer(session=session, inflight={}, is_pipe=True)
        receive, immediate = engine.receive, protocol.Reply

        async def ask(data: bytes) -> bytes:
            reply = receive(data, peer)
            if not isinstance(reply, immediate):
                reply = await reply.run()
            body: bytes = reply.body
            return body

        yield ask


@asynccontextmanager
async def sdk_messages(server: Any) -> AsyncIterator[Ask]:
    """The official SDK's stdio transport, with queues in place of files: all of it but the pipes."""
    stdio = importlib.import_module("mcp.server.stdio")
    # Both wrap the low-level server, and neither has a public name for it.
    low = getattr(server, "_lowlevel_server", None) or server._mcp_server
    incoming, outgoing = _Lines(), _Lines()
    async with stdio.stdio_server(incoming, outgoing) as (read, write):
        serving = asyncio.ensure_future(low.run(read, write, low.create_initialization_options()))

        async def ask(data: bytes) -> bytes:
            incoming.queue.put_nowait(data.decode())
            if b'"id"' not in data:
                return b""
            line: str = await outgoing.queue.get()
            return line.encode()

        yield ask
        incoming.queue.put_nowait(None)
        await serving


class _Lines:
    """A file of lines in memory, as far as the SDK uses one."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Any] = asyncio.Queue()

    def __aiter__(self) -> _Lines:
        return self

    async def __anext__(self) -> str:
        line: str | None = await self.queue.get()
        if line is None:
            raise StopAsyncIteration
        return line

    async def write(self, line: str) -> None:
        self.queue.put_nowait(line)

    async def flush(self) -> None:
        pass


# --- the application, as a web server calls it ---


class Application:
    """An ASGI application between its start and its end, and what a client knows of it."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._lifespan: asyncio.Queue[str] = asyncio.Queue()
        self._started = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self.head: dict[str, str] = {}

    async def start(self) -> None:
        self._lifespan.put_nowait("lifespan.startup")
        scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.4"}, "state": {}}
        self._task = asyncio.ensure_future(self._app(scope, self._next_event, self._note))
        started = asyncio.ensure_future(self._started.wait())
        await asyncio.wait({self._task, started}, return_when=asyncio.FIRST_COMPLETED)

    async def stop(self) -> None:
        self._lifespan.put_nowait("lifespan.shutdown")
        if self._task is not None:
            await self._task

    async def _next_event(self) -> dict[str, str]:
        return {"type": await self._lifespan.get()}

    async def _note(self, event: dict[str, Any]) -> None:
        if event["type"] == "lifespan.startup.failed":
            raise ReplyError(f"the application does not start: {event}")
        self._started.set()

    def use(self, era: Era, session: str | None = None, *, is_call: bool = True) -> None:
        """The headers of the next requests."""
        headers = {
            "host": "127.0.0.1:8000",
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
        }
        if is_call or era == MODERN:
            headers["mcp-protocol-version"] = era
        if era == MODERN:
            headers |= {"mcp-method": "tools/call", "mcp-name": "add"}
        if session:
            headers["mcp-session-id"] = session
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def post(self, body: bytes) -> bytes:
        """The joined body of the reply; its status and headers stay in `head`."""
        ended = asyncio.Event()
        asked = False
        parts: list[bytes] = []

        async def receive() -> dict[str, Any]:
            nonlocal asked
            if asked:
                await ended.wait()
                return {"type": "http.disconnect"}
            asked = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(event: dict[str, Any]) -> None:
            if event["type"] == "http.response.start":
                self.head = {name.decode(): value.decode() for name, value in event["headers"]}
                self.head["status"] = str(event["status"])
            else:
                parts.append(event.get("body", b""))
                if not event.get("more_body"):
                    ended.set()

        length = (b"content-length", b"%d" % len(body))
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/mcp",
            "raw_path": b"/mcp",
            "root_path": "",
            "query_string": b"",
            "headers": [*self._headers, length],
            "client": ("127.0.0.1", 50_000),
            "server": ("127.0.0.1", 8000),
            "state": {},
        }
        await self._app(scope, receive, send)
        return b"".join(parts)


def application_of(library: str, server: Any) -> Any:
    if library == "toolcrib":
        return server.asgi()
    return server.streamable_http_app() if library == "mcp" else server.http_app()


# --- measuring ---


def new_server(library: str) -> Any:
    # By name: the environment that checks types has no peers installed.
    if library == "toolcrib":
        server = importlib.import_module("toolcrib").MCPServer("bench")
        server.add(add)
        return server
    if library == "mcp":
        server = importlib.import_module("mcp.server").MCPServer("bench", log_level="CRITICAL")
    else:
        server = importlib.import_module("fastmcp").FastMCP("bench")
    server.add_tool(add)
    return server


async def measure_messages(library: str, era: Era, batch_s: float) -> float:
    door = toolcrib_messages if library == "toolcrib" else sdk_messages
    asked = question(era, "add", 0)
    async with door(new_server(library)) as ask:
        if era == LEGACY:
            if "result" not in json.loads(await ask(initialize())):
                raise ReplyError("initialize was refused")
            await ask(initialized())
        reply = await ask(asked.body)
        check_line(reply, asked)
        return await _cpu_per_call(ask, asked.body, reply, batch_s)


async def measure_asgi(library: str, era: Era, batch_s: float) -> float:
    application = Application(application_of(library, new_server(library)))
    await application.start()
    asked = question(era, "add", 0)
    session = None
    if era == LEGACY:
        application.use(era, is_call=False)
        await application.post(initialize())
        session = application.head.get("mcp-session-id")
        application.use(era, session)
        await application.post(initialized())
    application.use(era, session)
    reply = await application.post(asked.body)
    head = application.head
    check(message_of(Reply(int(head["status"]), head, reply, b"")), asked)
    cpu_s = await _cpu_per_call(application.post, asked.body, reply, batch_s)
    await application.stop()
    return cpu_s


async def _cpu_per_call(ask: Ask, request: bytes, expected: bytes, batch_s: float) -> float:
    """The median of batches that take about `batch_s` each; every reply must equal the first."""
    repeats = 1
    while (elapsed := await spend(ask, request, expected, repeats)) < WARM_UP_S:
        repeats *= 2
    repeats = max(1, round(repeats * batch_s / elapsed))
    batches = [await spend(ask, request, expected, repeats) for _ in range(BATCHES)]
    return statistics.median(batches) / repeats


async def spend(ask: Ask, request: bytes, expected: bytes, repeats: int) -> float:
    """The CPU seconds of so many calls."""
    begin = time.process_time()
    for _ in range(repeats):
        if await ask(request) != expected:
            raise ReplyError("a reply that differs from the first")
    return time.process_time() - begin


DOORS = {"messages": measure_messages, "asgi": measure_asgi}


def main() -> None:
    library, door, era, batch_s = sys.argv[1:]
    logging.disable(logging.CRITICAL)
    wanted: Era = MODERN if era == MODERN else LEGACY
    cpu_s = asyncio.run(DOORS[door](library, wanted, float(batch_s)))
    print(json.dumps({"cpu_per_call_s": cpu_s}))


if __name__ == "__main__":
    main()
