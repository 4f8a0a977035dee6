"""The official SDK as most people use it."""

from mcp.server import MCPServer

mcp = MCPServer("Demo")


@mcp.tool()
def add(a: int, b: int) -> int:
    """Add two numbers"""
    return a + b


@mcp.tool(name="other_name", title="Other", description="A description of its own.")
async def fetch(url: str, timeout: float = 10.0) -> str:
    """Not shown."""
    return url


@mcp.tool("by_place")
def place(n: int = 3) -> list[int]:
    """By place."""
    return [n]


@mcp.resource("greeting://{name}")
def greeting(name: str) -> str:
    """No tool."""
    return name


@mcp.prompt()
def review(code: str) -> str:
    """No tool."""
    return code


if __name__ == "__main__":
    mcp.run()
