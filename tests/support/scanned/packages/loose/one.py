from toolcrib import tool


@tool
def alike(a: int) -> int:
    """In one file."""
    return a


@tool
def only_here(a: int) -> int:
    """In one file only."""
    return a
