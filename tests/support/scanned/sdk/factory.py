"""A server out of a function, and functions that register."""

from mcp.server import MCPServer


def register_math(mcp: MCPServer) -> None:
    @mcp.tool()
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @mcp.tool()
    def subtract(a: int, b: int) -> int:
        """Subtract."""
        return a - b


def create_server() -> MCPServer:
    """Make the server."""
    mcp = MCPServer("factory")
    register_math(mcp)

    @mcp.tool()
    async def echo(text: str) -> str:
        """Echo."""
        return text

    return mcp


server = create_server()
