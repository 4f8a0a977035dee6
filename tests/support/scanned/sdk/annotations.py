"""Annotations, icons and meta data of the SDK."""

from mcp.server import MCPServer
from mcp_types import Icon, ToolAnnotations

mcp = MCPServer("annotated")


@mcp.tool(annotations=ToolAnnotations(title="Delete", destructive_hint=True, idempotent_hint=False))
def delete(path: str) -> str:
    """Delete a path."""
    return path


@mcp.tool(
    annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    icons=[Icon(src="https://example.com/a.png", mime_type="image/png", sizes=["48x48"])],
    meta={"example.com/level": 2},
)
def read(path: str) -> str:
    """Read a path."""
    return path
