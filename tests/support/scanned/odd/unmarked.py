# doubts: no-marked-tools
"""Functions, and no mark on any."""


def first(a: int) -> int:
    """No tool."""
    return a


def second(a: int) -> int:
    """No tool."""
    return a
