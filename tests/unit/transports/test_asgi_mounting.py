"""The ASGI application: on uvicorn by itself, and mounted in Starlette and FastAPI."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from tests.support.servers.http_servers import hosted
from toolcrib import Application, Context, MCPServer, Result, tool
from toolcrib.client import Client
from toolcrib.dispatch.middleware import Call, Middleware, Next
from toolcrib.errors import InvalidToolError


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


class Hooks(Middleware):
    def __init__(self, events: list[str]) -> None:
        self.events = events

    async def __call__(self, call: Call, next: Next) -> Result:
        return await next(call)

    async def open(self) -> None:
        self.events.append("hooks opened")

    async def close(self) -> None:
        self.events.append("hooks closed")


async def get(port: int, path: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer


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


def on_fastapi_itself(server: MCPServer) -> Any:
    app = FastAPI()
    app.mount("/tools", server)
    return app


def on_starlette_itself(server: MCPServer) -> Any:
    @asynccontextmanager
    async def life(_: object) -> AsyncIterator[None]:
        async with server:
            yield

    return Starlette(routes=[Mount("/tools", server)], lifespan=life)


def on_fastapi_with_lifespan(server: MCPServer) -> Any:
    tools = server.asgi()
    app = FastAPI(lifespan=tools.lifespan)
    app.mount("/tools", tools)
    return app


HOSTS: dict[str, tuple[Callable[[MCPServer], Any], str]] = {
    "alone": (lambda server: server.asgi(), "/mcp"),
    "elsewhere": (lambda server: server.asgi(path="/crib"), "/crib"),
    "starlette": (on_starlette, "/tools/mcp"),
    "fastapi": (on_fastapi, "/tools/mcp"),
    "fastapi with its lifespan": (on_fastapi_with_lifespan, "/tools/mcp"),
    "the server itself": (lambda server: server, "/mcp"),
    "the server itself in fastapi": (on_fastapi_itself, "/tools/mcp"),
    "the server itself in starlette": (on_starlette_itself, "/tools/mcp"),
}


@pytest.mark.parametrize("protocol", ["2026-07-28", "2025-11-25"])
@pytest.mark.parametrize("name", HOSTS)
async def test_a_server_is_served_wherever_it_is_mounted(name: str, protocol: str) -> None:
    make, path = HOSTS[name]
    desk = Desk()
    server = MCPServer("desk", middleware=[Hooks(desk.events)])
    server.add(desk)
    with hosted(make(server)) as port:
        heard: list[float] = []
        async with Client(f"http://127.0.0.1:{port}{path}", protocol=protocol) as client:
            assert [found.name for found in await client.list_tools()] == ["knock"]
            result = await client.call("knock", on_progress=lambda done, *_: heard.append(done))
            assert (result.text, heard) == ("come in", [1, 2])
    assert desk.events == ["hooks opened", "opened", "closed", "hooks closed"]


async def test_with_its_lifespan_it_is_open_before_the_first_request() -> None:
    server, desk = MCPServer("desk"), Desk()
    server.add(desk)
    with hosted(on_fastapi_with_lifespan(server)) as port:
        await get(port, "/nothing")
        assert desk.events == ["opened"]
    assert desk.events == ["opened", "closed"]


@pytest.mark.parametrize("name", ["alone", "fastapi", "the server itself", "the server itself in fastapi"])
async def test_on_a_host_without_a_lifespan_it_opens_with_the_first_request(name: str) -> None:
    make, path = HOSTS[name]
    server, desk = MCPServer("desk"), Desk()
    server.add(desk)
    with hosted(make(server), lifespan="off") as port:
        assert desk.events == []
        async with Client(f"http://127.0.0.1:{port}{path}") as client:
            assert (await client.call("knock")).text == "come in"
        assert desk.events == ["opened"]
    assert desk.events == ["opened", "closed"]


async def test_a_server_that_its_host_opens_is_open_before_the_first_request_and_closed_with_it() -> None:
    server, desk = MCPServer("desk"), Desk()
    server.add(desk)
    for _ in range(2):
        desk.events.clear()
        app = on_starlette_itself(server)
        with TestClient(app, base_url="http://127.0.0.1", client=("127.0.0.1", 1)) as client:
            assert desk.events == ["opened"]
            answer = client.post("/tools/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
            assert answer.json()["result"] == {}
        assert desk.events == ["opened", "closed"]


def test_a_mounted_server_is_a_server_and_no_tool() -> None:
    with pytest.raises(InvalidToolError, match="Not a tool: MCPServer"):
        MCPServer("shop").registry.add(MCPServer("desk"))


@pytest.mark.parametrize("mount", [on_fastapi, on_fastapi_itself])
def test_each_event_loop_opens_and_closes_it(mount: Callable[[MCPServer], Any]) -> None:
    """A test client without a lifespan runs every request on a loop of its own."""
    server, desk = MCPServer("desk"), Desk()
    server.add(desk)
    client = TestClient(mount(server), base_url="http://127.0.0.1", client=("127.0.0.1", 1))
    for _ in range(2):
        client.post("/tools/mcp", json={})
    assert desk.events == ["opened", "closed"] * 2


@pytest.mark.parametrize(
    ("name", "path", "where"),
    [
        ("alone", "/other", "/mcp"),
        ("elsewhere", "/mcp", "/crib"),
        ("starlette", "/tools/", "/tools/mcp"),
        ("fastapi", "/tools/other", "/tools/mcp"),
    ],
)
async def test_another_path_is_answered_with_the_real_one(name: str, path: str, where: str) -> None:
    with hosted(HOSTS[name][0](MCPServer("desk"))) as port:
        answer = await get(port, path)
    assert b" 404 " in answer
    assert f'Not found; MCP is at {where}"'.encode() in answer


async def test_the_host_keeps_its_own_routes() -> None:
    server = MCPServer("desk")
    server.add(Desk())
    with hosted(on_starlette(server)) as port:
        assert (await get(port, "/")).endswith(b"hello")
