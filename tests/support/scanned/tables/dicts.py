"""Tables by name, with handlers inside."""


async def handle(arguments: dict) -> str:
    return ""


async def other(arguments: dict) -> str:
    return ""


TOOL_CONFIGS = {
    "configured": {
        "description": "Is configured.",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
        "handler": handle,
        "read_only": True,
    },
}
TOOL_CONFIGS.update(
    {
        "later": {
            "description": "Came later.",
            "schema": {"type": "object", "properties": {}},
            "handler": other,
        }
    }
)
