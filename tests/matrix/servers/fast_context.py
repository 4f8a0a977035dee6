"""Functions that use the Context of fastmcp: log, progress, state, questions, lifespan."""

import inspect
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fastmcp import Context, FastMCP
from fastmcp.server.dependencies import get_context


@asynccontextmanager
async def open_books(_):
    yield {"books": ["red", "blue"]}


server = FastMCP("context", lifespan=open_books)


@dataclass
class Consent:
    really: bool
    reason: str = "none"


@server.tool
async def count(steps: int, ctx: Context) -> int:
    """Report progress step by step."""
    for step in range(steps):
        await ctx.report_progress(step + 1, steps)
    return steps


@server.tool
async def say(text: str, ctx: Context) -> str:
    """Log something."""
    await ctx.info(f"info: {text}")
    await ctx.warning(f"warning: {text}")
    return text.upper()


@server.tool
def books(ctx: Context) -> str:
    """Return something that the lifespan opened."""
    return ", ".join(ctx.request_context.lifespan_context["books"])


@server.tool
async def remember(key: str, value: str, ctx: Context) -> str:
    """Keep a value in the state and read it again."""
    kept = ctx.set_state(key, value)
    if inspect.isawaitable(kept):  # since 3.0
        await kept
    found = ctx.get_state(key)
    return await found if inspect.isawaitable(found) else found


@server.tool
async def current(text: str) -> str:
    """Use the Context without taking it as a parameter."""
    await get_context().info(f"info: {text}")
    return text


@server.tool
async def remove(name: str, ctx: Context) -> str:
    """Ask before removing something."""
    answer = await ctx.elicit(f"Remove {name}?", response_type=Consent)
    if answer.action != "accept":
        return f"kept: {answer.action}"
    return f"removed {name}: {answer.data.really}, {answer.data.reason}"


@server.tool
async def fold(text: str, ctx: Context) -> str:
    """Fail after a message."""
    await ctx.info("about to fail")
    raise RuntimeError(f"cannot fold {text}")


if __name__ == "__main__":
    server.run(show_banner=False)
