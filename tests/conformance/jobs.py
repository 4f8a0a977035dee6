"""The tools of the official suite for the tasks extension."""

from __future__ import annotations

import asyncio

from tests.conformance.questions import NAME, form
from toolcrib import Context, ToolError, tool
from toolcrib.context import Elicitation

MOMENT_S = 0.2
"""Longer than the patience of the server."""
CONFIRM = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "confirm": {"type": "boolean"}},
}


@tool
async def greet(name: str) -> str:
    """Greets, at once."""
    return f"Hello, {name}!"


@tool(task="when-long")
async def slow_compute(seconds: float, label: str = "") -> str:
    """Computes for a while."""
    await asyncio.sleep(seconds)
    return f"computed {label}"


@tool(task="always")
async def failing_job() -> str:
    """Fails after a second."""
    await asyncio.sleep(1)
    raise ToolError("This job always fails")


@tool(task="always")
async def protocol_error_job(ctx: Context) -> str:
    """Needs something that the client of the suite does not declare, which is an error of the protocol."""
    await asyncio.sleep(MOMENT_S)
    return str(await ctx.roots())


@tool(task="always")
async def confirm_delete(filename: str, ctx: Context) -> str:
    """Looks at a file, and asks before it is deleted."""
    await asyncio.sleep(MOMENT_S)
    answer = await ctx.ask("confirm", f"Delete {filename}?", form(confirm={"type": "boolean"}))
    return f"{filename}: {answer.action}"


@tool(task="always")
async def multi_input(ctx: Context) -> str:
    """Asks two questions at once."""
    await asyncio.sleep(MOMENT_S)
    replies = await ctx.ask_all(
        {"first": Elicitation("The first?", CONFIRM), "second": Elicitation("The second?", CONFIRM)}
    )
    return ", ".join(str(reply.get("name")) for reply in replies.values())


@tool(task="always")
async def test_tool_with_task(ctx: Context) -> str:
    """Asks for a name before it begins, and works then."""
    answer = await ctx.ask("user_name", "What is your name?", NAME)
    await asyncio.sleep(MOMENT_S)
    return f"Hello, {answer.get('name')}!"
