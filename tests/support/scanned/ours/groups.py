"""A group for the whole module, and tools that are off."""

from toolcrib import tool

TOOL_GROUP = "extra"


@tool
def grouped(a: int) -> int:
    """In the module's group."""
    return a


@tool(group="own", enabled=False)
def off(a: int) -> int:
    """Is off."""
    return a


@tool(version="1")
def versioned(a: int) -> int:
    """The first version."""
    return a


@tool(name="versioned", version="2")
def versioned_two(a: int, b: int) -> int:
    """The second version."""
    return a + b
