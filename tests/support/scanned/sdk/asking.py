# doubts: invalid-signature, guessed-result
"""What a Context is used for, and results that only the SDK describes."""

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import Implementation

server = MCPServer("asking")


@server.tool()
async def announces(ctx: Context) -> str:
    """Tell everybody."""
    await ctx.session.send_resource_list_changed()
    return ""


@server.tool()
def named() -> Implementation:
    """Say who it is."""
    raise ValueError
