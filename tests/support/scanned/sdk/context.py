# ruff: noqa: UP045 - people write it so
"""Functions that ask the SDK for its Context."""

from __future__ import annotations

from typing import Optional

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("context")


@server.tool()
async def progress(steps: int, ctx: Context) -> str:
    """Report progress.

    Args:
        steps: How many
    """
    await ctx.info("on the way")
    return str(steps)


@server.tool()
async def perhaps(steps: int, ctx: Optional[Context] = None) -> str:
    """Report perhaps."""
    return str(steps)


@server.tool()
async def generic(ctx: Context[None, None], text: str = "t") -> str:
    """Has parameters after the context."""
    return text
