"""A registry by itself, loops over functions, and names that are taken back."""

from toolcrib import ToolRegistry


def one(a: int) -> int:
    """The first."""
    return a


def two(a: str) -> str:
    """The second."""
    return a


def three(a: bool) -> bool:
    """The third."""
    return a


registry = ToolRegistry()
for function in (one, two):
    registry.add(function, namespace="space")
registry.add_all([three])
registry.disable("three")
