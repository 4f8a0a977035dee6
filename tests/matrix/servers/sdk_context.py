"""Functions that use the Context of the official SDK: log, progress, questions, lifespan."""

from contextlib import asynccontextmanager

from pydantic import BaseModel

try:
    from mcp.server.mcpserver import Context, MCPServer
except ImportError:  # before 2.0
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as MCPServer


@asynccontextmanager
async def open_books(_):
    yield {"books": ["red", "blue"]}


server = MCPServer("context", lifespan=open_books)


class Consent(BaseModel):
    really: bool
    reason: str = "none"


@server.tool()
async def count(steps: int, ctx: Context) -> int:
    """Report progress step by step."""
    for step in range(steps):
        await ctx.report_progress(step + 1, steps)
    return steps


@server.tool()
async def say(text: str, ctx: Context) -> str:
    """Log something."""
    await ctx.info(f"info: {text}")
    await ctx.warning(f"warning: {text}")
    return text.upper()


@server.tool()
def books(ctx: Context) -> str:
    """Return something that the lifespan opened."""
    return ", ".join(ctx.request_context.lifespan_context["books"])


@server.tool()
async def context_comes_first(ctx: Context, text: str = "x") -> bool:
    """Return whether there is a request."""
    return bool(ctx.request_id) and ctx.session is not None and bool(text)


if hasattr(Context, "elicit"):

    @server.tool()
    async def remove(name: str, ctx: Context) -> str:
        """Ask before removing something."""
        answer = await ctx.elicit(f"Remove {name}?", Consent)
        if answer.action != "accept":
            return f"kept: {answer.action}"
        return f"removed {name}: {answer.data.really}, {answer.data.reason}"


@server.tool()
async def fold(text: str, ctx: Context) -> str:
    """Fail after a message."""
    await ctx.info("about to fail")
    raise RuntimeError(f"cannot fold {text}")


if __name__ == "__main__":
    server.run()
