"""One function on two servers, and marked as well."""

from mcp.server import MCPServer as TheirServer

from toolcrib import MCPServer, tool

ours = MCPServer("ours")
theirs = TheirServer("theirs")


@ours.tool(name="on_ours")
@theirs.tool(name="on_theirs")
@tool(name="marked")
def function(a: int, b: str = "b") -> str:
    """Is everywhere."""
    return b
