"""A server built with fastmcp, run as `fastmcp_peer.py stdio` or `http PORT`."""

from __future__ import annotations

import asyncio
import logging
import sys
import warnings

from fastmcp import Context, FastMCP

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
server = FastMCP("peer", version="1.2.3", instructions="Be kind.")


@server.tool(annotations={"readOnlyHint": True})
def add(a: int, b: int = 1) -> int:
    """Add two whole numbers."""
    return a + b


@server.tool(title="An echo")
def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool
async def fail(text: str) -> str:
    """Fail with these words."""
    raise ValueError(text)


@server.tool
async def count(upto: int, ctx: Context) -> str:
    """Count and tell how far."""
    for number in range(1, upto + 1):
        await ctx.report_progress(number, upto, f"at {number}")
    return f"counted to {upto}"


@server.tool
async def wait(mark: str) -> str:
    """Wait for a long time."""
    await asyncio.sleep(60)
    return "done"


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio", show_banner=False)
    else:
        server.run("http", port=int(sys.argv[2]), host="127.0.0.1", show_banner=False)
