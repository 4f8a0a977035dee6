"""The ASGI application: on uvicorn by itself, and mounted in Starlette and FastAPI."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from toolcrib import Application, Context, MCPServer, tool
from toolcrib.client import Client
from toolcrib.transports.http.server import bind


class Desk(Application):
    """Says when it was opened and closed."""

    def __init__(self) -> None:
        super().__init__("desk")
        self.events: list[str] = []

    async def open(self) -> None:
        self.events.append("opened")

    async def close(self) -> None:
        self.events.append("closed")

    @tool
    async def knock(self, ctx: Context, times: int = 2) -> str:
        """Knock."""
        for number in range(times):
            await ctx.progress(number + 1, times)
        return "come in"


def on_starlette(server: MCPServer) -> Any:
    async def hello(_: object) -> PlainTextResponse:
        return PlainTextResponse("hello")

    @asynccontextmanager
    async def life(_: object) -> AsyncIterator[None]:
        async with server:
            yield

    routes = [Route("/", hello), Mount("/tools", app=server.asgi())]
    return Starlette(routes=routes, lifespan=life)


def on_fastapi(server: MCPServer) -> Any:
    app = FastAPI()

    @app.get("/")
    async def hello() -> str:
        return "hello"

    app.mount("/tools", server.asgi())
    return app


HOSTS: dict[str, tuple[Callable[[MCPServer], Any], str]] = {
    "alone": (lambda server: server.asgi(), "/mcp"),
    "elsewhere": (lambda server: server.asgi(path="/crib"), "/crib"),
    "starlette": (on_starlette, "/tools/mcp"),
    "fastapi": (on_fastapi, "/tools/mcp"),
}


@contextmanager
def hosted(app: Any) -> Iterator[int]:
    sockets = bind("127.0.0.1", 0)
    sockets[0].listen(16)
    host = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=lambda: asyncio.run(host.serve(sockets=sockets)))
    thread.start()
    try:
        yield sockets[0].getsockname()[1]
    finally:
        host.should_exit = True
        thread.join(10)


@pytest.mark.parametrize("protocol", ["2026-07-28", "2025-11-25"])
@pytest.mark.parametrize("name", HOSTS)
async def test_a_server_is_served_wherever_it_is_mounted(name: str, protocol: str) -> None:
    make, path = HOSTS[name]
    server, desk = MCPServer("desk"), Desk()
    server.add(desk)
    with hosted(make(server)) as port:
        heard: list[float] = []
        async with Client(f"http://127.0.0.1:{port}{path}", protocol=protocol) as client:
            assert [found.name for found in await client.list_tools()] == ["knock"]
            result = await client.call("knock", on_progress=lambda done, *_: heard.append(done))
            assert (result.text, heard) == ("come in", [1, 2])
    assert desk.events[0] == "opened"
    if name != "fastapi":  # a mounted application hears nothing of its host's end
        assert desk.events == ["opened", "closed"]


async def test_the_host_keeps_its_own_routes() -> None:
    server = MCPServer("desk")
    server.add(Desk())
    with hosted(on_starlette(server)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).endswith(b"hello")
        writer.close()
