from toolcrib import tool


@tool
def first(a: int) -> int:
    """The first."""
    return a


@tool
def second(a: int) -> int:
    """The second."""
    return a
