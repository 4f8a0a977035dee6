"""A table of definitions with handlers beside it."""


async def add(arguments: dict) -> dict:
    """Add.

    Tags:
        maths
    """
    return {}


def subtract(a: int, b: int) -> int:
    """Take away."""
    return a - b


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
TOOL_DEFINITIONS = [
    {"name": "add", "description": "Add two numbers.", "schema": SCHEMA, "category": "maths", "version": 2},
    {"name": "subtract", "inputSchema": {**SCHEMA, "required": ["a", "b"]}, "tags": ["t"]},
]
TOOL_HANDLERS = {"add": add}
TOOL_HANDLERS["subtract"] = subtract
