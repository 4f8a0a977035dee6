"""A server of ours, with every door that a module uses."""

from toolcrib import MCPServer, Tool, tool

server = MCPServer("desk")


@server.tool
def bare(a: int) -> int:
    """Count on."""
    return a + 1


@server.tool("with_name", destructive=True)
async def second(path: str) -> str:
    """Remove a path.

    Args:
        path (str): Where it is
    """
    return path


def added(left: str, right: str = "r") -> dict[str, str]:
    """Put two texts side by side."""
    return {"left": left, "right": right}


def prefixed(n: int) -> int:
    """Square a number."""
    return n * n


@tool(tags=["marked"])
def marked_and_added(n: int) -> int:
    """Halve a number."""
    return n // 2


server.add(added)
server.add(prefixed, namespace="maths", title="Square")
server.add(marked_and_added)
server.tool(name="twice")(prefixed)
server.add(Tool.from_function(added, name="made"))
