"""The ASGI application, by the letter of ASGI: life, bodies, clients that go or do not read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

import pytest

from tests.support.servers.feature_server import make_desk
from toolcrib import Context
from toolcrib.transports.http import response
from toolcrib.transports.http.asgi import ASGIApp
from toolcrib.transports.http.request import MAX_BODY, MAX_FIELDS

Message = MutableMapping[str, Any]
PING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()


class Host:
    """A host that hands over one request, and keeps what comes back. `reads`: whether the client does."""

    def __init__(self, *received: Message) -> None:
        self.received: asyncio.Queue[Message] = asyncio.Queue()
        for message in received:
            self.received.put_nowait(message)
        self.sent: list[Message] = []
        self.reads = asyncio.Event()
        self.reads.set()

    async def receive(self) -> Message:
        return await self.received.get()

    async def send(self, message: Message) -> None:
        await self.reads.wait()
        self.sent.append(message)

    async def run(self, app: Any, scope: Message) -> None:
        await app(scope, self.receive, self.send)

    @property
    def status(self) -> int:
        found: int = self.sent[0]["status"]
        return found

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)


def scope(method: str = "POST", path: str = "/mcp", root: str = "", **headers: str) -> Message:
    fields = {"host": "127.0.0.1", "content-type": "application/json", "accept": "*/*", **headers}
    return {
        "type": "http",
        "method": method,
        "path": path,
        "root_path": root,
        "query_string": b"",
        "server": ("127.0.0.1", 80),
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()],
    }


def request(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def call(tool: str, **arguments: Any) -> bytes:
    params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": 1}}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


async def test_a_server_starts_with_its_host_and_stops_with_it() -> None:
    server = make_desk()
    app = server.asgi()
    host = Host({"type": "lifespan.startup"})
    life = asyncio.create_task(host.run(app, {"type": "lifespan"}))
    while not host.sent:
        await asyncio.sleep(0)
    assert host.sent == [{"type": "lifespan.startup.complete"}]
    served = Host(request(PING))
    await served.run(app, scope())
    assert (served.status, json.loads(served.body)["result"]) == (200, {})
    host.received.put_nowait({"type": "lifespan.shutdown"})
    await life
    assert host.sent[-1] == {"type": "lifespan.shutdown.complete"}


async def test_a_server_that_cannot_start_says_why() -> None:
    async def fail() -> None:
        raise RuntimeError("no room")

    app = ASGIApp(lambda: pytest.fail("never"), fail, fail)
    host = Host({"type": "lifespan.startup"})
    await host.run(app, {"type": "lifespan"})
    assert host.sent == [{"type": "lifespan.startup.failed", "message": "no room"}]


async def test_without_a_life_it_starts_with_the_first_request_once() -> None:
    server = make_desk()
    app = server.asgi()
    hosts = [Host(request(PING)) for _ in range(5)]
    await asyncio.gather(*(host.run(app, scope()) for host in hosts))
    assert [host.status for host in hosts] == [200] * 5
    await server.stop()


async def test_a_socket_of_another_kind_is_closed() -> None:
    host = Host()
    server = make_desk()
    await host.run(server.asgi(), {"type": "websocket"})
    assert host.sent == [{"type": "websocket.close", "code": 1000}]


async def test_a_body_comes_in_parts_and_is_not_too_long() -> None:
    server = make_desk()
    app = server.asgi()
    parts = Host(request(PING[:10], more=True), request(b"", more=True), request(PING[10:]))
    await parts.run(app, scope())
    assert parts.status == 200
    declared = Host()
    await declared.run(app, scope(content_length=str(MAX_BODY + 1)))
    assert declared.status == 413
    endless = Host(*[request(b"x" * (MAX_BODY // 2), more=True)] * 4)
    await endless.run(app, scope())
    assert endless.status == 413
    assert dict(endless.sent[0]["headers"])[b"connection"] == b"close"
    left = Host(request(b"{", more=True), {"type": "http.disconnect"})
    await left.run(app, scope())
    assert left.sent == []
    await server.stop()


async def test_too_many_headers_are_refused() -> None:
    server = make_desk()
    host = Host(request(PING))
    await host.run(server.asgi(), scope(**{f"x{number}": "v" for number in range(MAX_FIELDS + 1)}))
    assert host.status == 431
    await server.stop()


async def test_below_where_it_is_mounted_it_has_its_paths() -> None:
    server = make_desk()
    app = server.asgi()
    for path in ("/at/mcp", "/mcp"):  # hosts differ in whether the path repeats the root
        host = Host(request(PING))
        await host.run(app, scope(path=path, root="/at"))
        assert host.status == 200
    host = Host(request(PING))
    await host.run(app, scope(path="/at", root="/at"))
    assert host.status == 404
    await server.stop()


async def test_a_call_ends_when_its_client_has_gone() -> None:
    server = make_desk()
    app = server.asgi()
    host = Host(request(call("wait", key="k", news=1)))
    serving = asyncio.create_task(host.run(app, scope()))
    while len(host.sent) < 2:
        await asyncio.sleep(0)
    host.received.put_nowait({"type": "http.disconnect"})
    await serving
    await asyncio.sleep(0.01)
    assert (await server.call("cancelled")).structured_content == ["k"]
    await server.stop()


async def test_anyone_who_does_not_read_is_cut_off_and_its_call_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 1024 * 1024
    monkeypatch.setattr(response, "MAX_UNREAD", limit)
    server = make_desk()
    app = server.asgi()
    host = Host(request(call("wait", key="k", news=3 * limit // 100)))
    host.reads.clear()
    serving = asyncio.create_task(host.run(app, scope()))
    await asyncio.sleep(0.05)
    host.reads.set()
    await serving
    await asyncio.sleep(0.01)
    assert len(host.body) < 2 * limit
    assert (await server.call("cancelled")).structured_content == ["k"]
    await server.stop()


async def test_a_large_result_after_some_news_arrives_whole() -> None:
    server = make_desk()
    large = "x" * 3 * 1024 * 1024

    @server.tool
    async def recite(ctx: Context) -> str:
        """Tell that it begins, then say much."""
        await ctx.progress(1)
        return large

    host = Host(request(call("recite")))
    await host.run(server.asgi(), scope())
    assert large.encode() in host.body
    assert not host.sent[-1].get("more_body")
    await server.stop()
