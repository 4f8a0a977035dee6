"""A server for flood tests: a quick tool, a waiting tool, and one that streams a lot."""

from __future__ import annotations

import asyncio

from toolcrib import Context, MCPServer


def make_server() -> MCPServer:
    server = MCPServer("flooded", dynamic=True)

    @server.tool(run="inline")
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @server.tool
    async def recite(ctx: Context, size: int) -> str:
        """Tell that it begins, then say that many letters."""
        await ctx.progress(1)
        return "x" * size

    @server.tool
    async def wait(ctx: Context) -> str:
        """Tell that it begins, and wait."""
        await ctx.progress(1)
        await asyncio.sleep(3600)
        return "never"

    return server
