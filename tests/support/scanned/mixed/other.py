# doubts: other-decorator
"""Decorators called `tool` that make no tools here."""

from other_agents.tools import tool

from toolcrib import MCPServer

server = MCPServer("other")


@tool
def foreign(query: str) -> str:
    """Belongs to another library."""
    return query


@tool("named", return_direct=True)
def foreign_too(query: str) -> str:
    """Belongs to another library too."""
    return query


@server.tool
def ours(a: int) -> int:
    """Is ours."""
    return a
