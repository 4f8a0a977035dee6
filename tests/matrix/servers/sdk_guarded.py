"""A server class of the official SDK that decides which tools are listed and called."""

try:
    from mcp.server.mcpserver import Context, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
except ImportError:  # before 2.0
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as MCPServer
    from mcp.server.fastmcp.exceptions import ToolError

ALLOWED = {"read", "count", "broken"}


class Restricted(MCPServer):
    async def list_tools(self, *given, **named):
        return [tool for tool in await super().list_tools(*given, **named) if tool.name in ALLOWED]

    async def call_tool(self, name, arguments, *given, **named):
        if name not in ALLOWED:
            raise ToolError(f"{name} is not allowed")
        return await super().call_tool(name, arguments, *given, **named)


server = Restricted("guarded")


@server.tool()
def read(path: str) -> str:
    """Read something."""
    return f"content of {path}"


@server.tool()
def delete(path: str) -> str:
    """Delete something."""
    raise SystemExit(f"{path} was deleted")


@server.tool()
async def count(steps: int, ctx: Context) -> dict[str, int]:
    """Report progress step by step."""
    for step in range(steps):
        await ctx.report_progress(step + 1, steps)
    await ctx.info("counted")
    return {"steps": steps}


@server.tool()
def broken(why: str) -> str:
    """Raise an error."""
    raise ValueError(why)


if __name__ == "__main__":
    server.run()
