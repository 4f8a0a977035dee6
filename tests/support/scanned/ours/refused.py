# doubts: invalid-signature, invalid-schema
"""Signatures and schemas that are refused, with the same words."""

from toolcrib import tool


@tool
def stars(*args: int) -> int:
    """Takes any number."""
    return 0


@tool
def keywords(a: int, **rest: str) -> int:
    """Takes any names."""
    return a


@tool(name="good_name")
def fine(a: int) -> int:
    """Is fine."""
    return a


@tool("wrong_schema", "A schema that is none.", {"type": "string"})
def wrong(arguments: dict) -> str:
    return ""
