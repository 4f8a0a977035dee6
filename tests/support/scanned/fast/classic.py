"""fastmcp as most people use it."""

from fastmcp import FastMCP

mcp = FastMCP("Demo")


@mcp.tool
def bare(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@mcp.tool()
def called(text: str) -> str:
    """Give it back."""
    return text


@mcp.tool("by_place", description="Placed.", tags={"z", "a"})
async def placed(n: float) -> float:
    """Not shown."""
    return n


@mcp.tool(name="by_name", title="Named", annotations={"readOnlyHint": True, "title": "Unused"}, version="3")
def named(items: list[str]) -> dict[str, int]:
    """Count items."""
    return {}


@mcp.resource("data://x")
def data() -> str:
    """No tool."""
    return ""


mcp.tool(called, name="again")
