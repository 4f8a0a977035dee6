# ruff: noqa: B008 - people write it so
"""Contexts and dependencies of fastmcp."""

from fastmcp import Context, FastMCP
from fastmcp.dependencies import CurrentContext, Depends

mcp = FastMCP("context")


def get_client() -> str:
    return "client"


@mcp.tool
async def typed(uri: str, ctx: Context) -> str:
    """Has a context by its type."""
    await ctx.info(uri)
    return uri


@mcp.tool
async def given(uri: str, ctx: Context = CurrentContext()) -> str:
    """Has a context by its default."""
    return uri


@mcp.tool
async def depending(uri: str, client: str = Depends(get_client), n: int = 1) -> str:
    """Depends on something."""
    return uri


@mcp.tool
async def optional(uri: str, ctx: Context | None = None) -> str:
    """May have a context."""
    return uri
