"""Other ways to put functions on a server of the SDK."""

from mcp.server import MCPServer

mcp = MCPServer("doors")


def first(a: int) -> int:
    """The first."""
    return a


def second(a: str = "x") -> str:
    """The second."""
    return a


def third(flag: bool) -> bool:
    """The third."""
    return flag


class Holder:
    def __init__(self, server):
        self.server = server
        server.tool()(self.method)
        server.add_tool(self.other, name="other_method")

    def method(self, a: int) -> int:
        """A method."""
        return a

    async def other(self, a: int = 2) -> int:
        """Another method."""
        return a


mcp.add_tool(first)
mcp.add_tool(second, name="named", description="With words of its own.")
mcp.tool(title="Third")(third)
Holder(mcp)
