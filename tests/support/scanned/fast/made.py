"""Tools that are made first and added then."""

from fastmcp import FastMCP
from fastmcp.tools import Tool


def plain(a: int) -> int:
    """Made into a tool."""
    return a


def second(b: str) -> str:
    """Made into another."""
    return b


mcp = FastMCP("made")
mcp.add_tool(Tool.from_function(plain, name="made_plain", tags={"t"}))
mcp.add_tool(second)
