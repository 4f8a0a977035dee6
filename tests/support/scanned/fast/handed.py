"""Functions that are handed to the server when it is made, and one that is hidden from callers."""

from fastmcp import FastMCP


def first(a: int) -> int:
    """The first."""
    return a


def second(b: str = "b") -> str:
    """The second."""
    return b


mcp = FastMCP("handed", tools=[first, second])
