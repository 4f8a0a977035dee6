from toolcrib import tool


@tool
def alike(a: str) -> str:
    """In another file."""
    return a
