# doubts: table-mismatch
"""Definitions without handlers, and the reverse."""


async def orphan(arguments: dict) -> str:
    return ""


async def good(arguments: dict) -> str:
    return ""


TOOL_DEFINITIONS = [
    {"name": "good", "description": "Is whole.", "schema": {"type": "object", "properties": {}}},
    {"name": "lonely", "description": "Has no handler.", "schema": {"type": "object", "properties": {}}},
]
TOOL_HANDLERS = {"good": good, "orphan": orphan}
