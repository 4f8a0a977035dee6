"""Functions inside functions: what a call registers is registered."""

from toolcrib import MCPServer

server = MCPServer("nested")


def register(target, prefix: str = "x"):
    @target.tool(name="inner_tool")
    def inner(a: int) -> int:
        """Inside a function."""
        return a

    @target.tool
    def second(b: str) -> str:
        """Also inside."""
        return b


register(server)


def make_server() -> MCPServer:
    made = MCPServer("made")

    @made.tool
    def of_factory(c: bool) -> bool:
        """On a server that a function makes."""
        return c

    return made


other = make_server()
