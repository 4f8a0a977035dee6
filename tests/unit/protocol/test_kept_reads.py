"""Reads of kept results, and results that middleware makes for reads and gets."""

from __future__ import annotations

from typing import Any

from tests.support.clients.raw_pipe import raw_pipe
from toolcrib import MCPServer, Result
from toolcrib.config.settings import Limit, Policy


def make_server(**options: Any) -> MCPServer:
    server = MCPServer("shop", max_result_tokens=200, large_results="link", **options)

    @server.tool
    def rows() -> list[str]:
        """List many rows."""
        return [f"row {number} of many" for number in range(2_000)]

    return server


async def test_reading_a_kept_result_counts_against_limits() -> None:
    server = make_server(policy=Policy(limits=[Limit(tools=["*"], rate="3/hour")]))
    async with server, raw_pipe(server) as pipe:
        result = await pipe.result("tools/call", {"name": "rows"})
        uri = next(block["uri"] for block in result["content"] if block["type"] == "resource_link")
        for _ in range(2):  # the call counts, too
            read = await pipe.result("resources/read", {"uri": uri})
            assert "row 1999 of many" in read["contents"][0]["text"]
        error = await pipe.error("resources/read", {"uri": uri})
        assert error["data"]["code"] == "throttled"


async def test_a_result_that_was_never_kept_is_not_found() -> None:
    server = make_server()
    async with server, raw_pipe(server) as pipe:
        await pipe.result("tools/call", {"name": "rows"})
        error = await pipe.error("resources/read", {"uri": "result://nothing"})
        assert (error["code"], error["data"]) == (-32602, {"uri": "result://nothing"})


async def test_middleware_may_answer_reads_and_gets_itself() -> None:
    server = MCPServer("shop")
    server.add_resource("shop://hours", "9 to 5")

    @server.prompt
    def greet() -> str:
        return "Hello"

    @server.middleware
    async def closed(call: Any, next: Any) -> Result:
        return Result([{"type": "text", "text": "closed"}])

    for version in ("2026-07-28", "2024-11-05"):
        async with raw_pipe(server, version) as pipe:
            read = await pipe.result("resources/read", {"uri": "shop://hours"})
            assert read["contents"] == [{"uri": "shop://hours", "mimeType": "text/plain", "text": "closed"}]
            got = await pipe.result("prompts/get", {"name": "greet"})
            assert got["messages"] == [{"role": "user", "content": {"type": "text", "text": "closed"}}]
