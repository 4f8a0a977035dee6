"""Definitions as records of the SDK, with handlers beside them."""

from mcp_types import Tool


async def look_up(arguments: dict) -> str:
    return ""


TOOL_DEFINITIONS = [
    Tool(
        name="look_up",
        title="Look up",
        description="Look something up.",
        input_schema={"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]},
    ),
]
TOOL_HANDLERS = {"look_up": look_up}
