# imports: no
# doubts: duplicate-name
"""One name twice on one server, in another case."""

from toolcrib import MCPServer

server = MCPServer("twice")


@server.tool(name="same")
def first(a: int) -> int:
    """The first."""
    return a


@server.tool(name="Same")
def second(a: str) -> str:
    """The second."""
    return a


@server.tool
def third(a: str) -> str:
    """Hidden by nothing."""
    return a
