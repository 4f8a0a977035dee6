# imports: no
# doubts: starts-server
"""Starts its server when it is imported."""

from mcp.server import MCPServer

mcp = MCPServer("running")


@mcp.tool()
def reached(a: int) -> int:
    """Is there all the same."""
    return a


mcp.run()
