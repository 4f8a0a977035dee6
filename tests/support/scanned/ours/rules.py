"""A server with rules of its own."""

from toolcrib import MCPServer


def one(a: int) -> int:
    """The first."""
    return a


server = MCPServer("rules", name_rule="mcp", separator=".", switches={"enable_some_tools": False})
server.add(one, namespace="space")
server.add(one, name="two", group="some")
