"""The HTTP request of a call as its tool sees it, over both HTTP stacks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.raw_http_client import JSON_HEADERS
from tests.support.servers.http_servers import HTTP_STACKS, Served, serving
from toolcrib import Context, MCPServer, testing
from toolcrib.client import Client

SECRETS = {
    "Authorization": "Bearer abc",
    "Proxy-Authorization": "Basic abc",
    "Cookie": "id=1",
    "X-API-Key": "tck_abc",
}
CALLERS = {"X-Tenant": "north"}


def seen_by(ctx: Context) -> dict[str, Any]:
    headers = ctx.request.headers
    found = {
        "tenant": headers.get("X-TENANT"),
        "secrets": [name for name in (*SECRETS, "Mcp-Session-Id") if name in headers],
        "names": sorted(headers),
        "count": len(headers),
        "address": ctx.request.address,
    }
    return json.loads(json.dumps(found))


def make(folder: Path) -> MCPServer:
    server = MCPServer("desk", state=f"sqlite:///{folder}/tasks.sqlite3")

    @server.tool
    async def look(ctx: Context) -> dict[str, Any]:
        return seen_by(ctx)

    @server.tool(name="look_on_a_thread")
    def look_on_thread(ctx: Context) -> dict[str, Any]:
        return seen_by(ctx)

    @server.tool(task="always")
    async def look_in_a_task(ctx: Context) -> dict[str, Any]:
        return seen_by(ctx)

    @server.resource("desk://look")
    def resource(ctx: Context) -> str:
        return json.dumps(seen_by(ctx))

    @server.prompt
    def prompt(ctx: Context) -> str:
        return json.dumps(seen_by(ctx))

    return server


@pytest.fixture(params=HTTP_STACKS)
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    with serving(request.param, make(tmp_path)) as served:
        yield served


@pytest.mark.parametrize("version", ["2026-07-28", "2025-06-18"])
async def test_headers_and_address_are_seen_without_credentials(served: Served, version: str) -> None:
    url = f"http://127.0.0.1:{served.port}/mcp"
    async with Client(url, headers={**CALLERS, **SECRETS}, protocol=version) as client:
        names = ["look", "look_on_a_thread"] + ["look_in_a_task"] * (version == "2026-07-28")
        seen = [(await client.call(name)).structured_content for name in names]
        seen.append(json.loads((await client.read("desk://look"))[0].text or ""))
        seen.append(json.loads((await client.get_prompt("prompt")).messages[0].content["text"]))
    for each in seen:
        assert each["tenant"] == "north"
        assert each["secrets"] == []
        assert each["count"] == len(each["names"])
        assert {"x-tenant", "content-type", "mcp-protocol-version"} <= set(each["names"])
        assert each["address"] == "127.0.0.1"


def test_a_header_that_was_sent_twice_is_left_out(served: Served) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "look", "arguments": {}}}
    headers = [*JSON_HEADERS.items(), ("X-Tenant", "north"), ("X-Tenant", "south"), ("X-Other", "1")]
    reply = served.post(json.dumps(body).encode(), headers)
    seen = json.loads(reply.result["content"][0]["text"])
    assert seen["tenant"] is None
    assert "x-tenant" not in seen["names"]
    assert "x-other" in seen["names"]


def test_without_http_the_request_is_empty(tmp_path: Path) -> None:
    nothing = {"tenant": None, "secrets": [], "names": [], "count": 0, "address": None}
    with testing.client(make(tmp_path)) as client:
        assert client.call("look").structured_content == nothing
        assert client.call("look_on_a_thread").structured_content == nothing
