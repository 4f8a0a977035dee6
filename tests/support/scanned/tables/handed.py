"""A table that is handed to a server."""

from toolcrib import MCPServer


async def first(arguments: dict) -> str:
    return ""


server = MCPServer("handed")
server.add(
    [{"name": "first", "description": "Is first.", "schema": {"type": "object", "properties": {}}}],
    handlers={"first": first},
)
