# imports: no
# doubts: guessed-decorator
"""The SDK wants its decorator called; without, importing fails."""

from mcp.server import MCPServer

mcp = MCPServer("uncalled")


@mcp.tool
def forgotten(a: int) -> int:
    """Was not called."""
    return a
