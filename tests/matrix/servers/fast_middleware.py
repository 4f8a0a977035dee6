"""Middleware of fastmcp that hides a tool, and denies another and a resource."""

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ResourceError, ToolError
from fastmcp.server.middleware import Middleware, MiddlewareContext


class Gate(Middleware):
    async def on_list_tools(self, context: MiddlewareContext, call_next):
        return [tool for tool in await call_next(context) if tool.name != "hidden"]

    async def on_call_tool(self, context: MiddlewareContext, call_next):
        if context.message.name in ("hidden", "denied"):
            raise ToolError(f"{context.message.name} is not allowed")
        return await call_next(context)

    async def on_read_resource(self, context: MiddlewareContext, call_next):
        if str(context.message.uri) == "notes://denied":
            raise ResourceError("notes://denied is not allowed")
        return await call_next(context)


server = FastMCP("middleware")
server.add_middleware(Gate())


@server.tool
def open(path: str) -> str:
    """Open something."""
    return f"opened {path}"


@server.tool
def denied(path: str) -> str:
    """Listed, but not for calling."""
    raise SystemExit(f"{path} was deleted")


@server.tool
def hidden(path: str) -> str:
    """Not listed."""
    raise SystemExit(f"{path} was deleted")


@server.tool
async def count(steps: int, ctx: Context) -> dict[str, int]:
    """Report progress step by step."""
    for step in range(steps):
        await ctx.report_progress(step + 1, steps)
    await ctx.info("counted")
    return {"steps": steps}


@server.tool
def broken(why: str) -> str:
    """Raise an error."""
    raise ValueError(why)


@server.resource("notes://today", name="today", description="The note of today", mime_type="text/markdown")
def today() -> str:
    return "# Today"


@server.resource("notes://on/{topic}")
def note(topic: str) -> str:
    """The note on a topic."""
    return f"on {topic!r}"


@server.prompt()
def write(topic: str, length: int = 2) -> str:
    """Ask for a text."""
    return f"Write {length!r} lines on {topic!r}"


@server.resource("notes://denied")
def denied_note() -> str:
    raise SystemExit("it was read")


if __name__ == "__main__":
    server.run(show_banner=False)
