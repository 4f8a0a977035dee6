"""A help desk as somebody wrote it for fastmcp: injection, mounts, transformations, state, media, errors."""
# ruff: noqa: B008 - this is how injection is written there

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any

import mcp_types
from fastmcp import Context, FastMCP
from fastmcp.dependencies import CurrentContext, Depends
from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import get_context, get_http_headers
from fastmcp.tools import Tool
from fastmcp.tools.base import ToolResult
from fastmcp.tools.tool_transform import ArgTransform
from fastmcp.utilities.types import Audio, File, Image
from pydantic import BaseModel, Field

PIXEL = b"\x89PNG\r\n\x1a\n-pixel"
EVENTS: list[str] = []


@asynccontextmanager
async def open_desk(server):
    EVENTS.append("open")
    async with asyncio.TaskGroup():
        yield {"team": "blue", "name": server.name}
    EVENTS.append("close")


desk = FastMCP("desk", lifespan=open_desk)
phones = FastMCP("phones")


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Ticket(BaseModel):
    """A ticket."""

    title: str
    level: Level = Level.LOW
    notes: list[str] = Field(default_factory=list)


@dataclass
class Verdict:
    ok: bool
    why: str = ""


@dataclass
class Contact:
    name: str
    age: int


@desk.tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: The first one.
        b: The second one.

    Note:
        Never in a hurry.
    """
    return a + b


@desk.tool("open_ticket", tags={"write", "desk"}, version="2", annotations={"destructiveHint": False})
async def create(ticket: Ticket, urgent: Annotated[bool, "Whether it burns"] = False) -> Ticket:
    """Open a ticket."""
    await asyncio.sleep(0)
    return ticket.model_copy(update={"level": Level.HIGH}) if urgent else ticket


@desk.tool(name="open_ticket", version="1")
def create_old(title: str) -> str:
    """Open a ticket, the old way."""
    return title


@desk.tool(description="Judge, in words of our own.", meta={"desk.example/cost": 3}, timeout=5)
def judge(case: str) -> Verdict:
    """Judge."""
    return Verdict("good" in case, case)


@desk.tool(output_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
def count(words: list[str]) -> dict:
    """Count words."""
    return {"n": len(words)}


@desk.tool(output_schema=None)
def loose(value: int) -> dict[str, int]:
    """Promises nothing."""
    return {"value": value}


@desk.tool(run_in_thread=False)
def inline(text: str = "x") -> str:
    return text * 2


@desk.tool
def numbers(upto: int):
    """A generator."""
    yield from range(upto)


@desk.tool
async def stream(upto: int) -> list[int]:
    """Gathered."""
    return [number async for number in _count(upto)]


async def _count(upto: int):
    for number in range(upto):
        yield number


@desk.tool
def logo() -> Image:
    return Image(data=PIXEL, format="png")


@desk.tool
def jingle() -> Audio:
    return Audio(data=b"RIFF", format="wav")


@desk.tool
def paper() -> File:
    return File(data=b"hello", format="txt", name="paper")


@desk.tool
def mixed() -> list:
    return ["Look:", Image(data=PIXEL), {"n": 1}]


@desk.tool
def whole(n: int) -> ToolResult:
    return ToolResult(content=f"n is {n}", structured_content={"n": n}, meta={"desk.example/seen": True})


@desk.tool
def failed_whole() -> ToolResult:
    return ToolResult(content="no luck", is_error=True)


@desk.tool
def refuse(why: str) -> str:
    raise ToolError(f"We cannot: {why}")


@desk.tool
def crash() -> str:
    raise RuntimeError("password=hunter2")


@desk.tool
async def work(steps: int, ctx: Context) -> str:
    """Works and tells."""
    for step in range(steps):
        await ctx.report_progress(step + 1, steps)
    await ctx.warning("nearly done", extra={"steps": steps})
    await ctx.set_state("steps", steps)
    return f"{await ctx.get_state('steps')} steps by {ctx.lifespan_context['team']}, {ctx.fastmcp.name}"


@desk.tool
async def ask_name(ctx: Context) -> str:
    answer = await ctx.elicit("Your name?", str)
    return f"{answer.action}: {getattr(answer, 'data', None)}"


@desk.tool
async def ask_contact(ctx: Context = CurrentContext()) -> str:
    answer = await ctx.elicit("Who are you?", Contact)
    more = await ctx.elicit("Which one?", ["red", "blue"])
    return f"{answer.data.name}/{answer.data.age}/{more.data}"


@desk.tool
async def guard(city: str, ctx: Context) -> str | mcp_types.InputRequiredResult:
    """Asks by returning questions."""
    if ctx.input_responses is None:
        form = mcp_types.ElicitRequestFormParams(
            message=f"Sure about {city}?",
            requested_schema={
                "type": "object",
                "properties": {"sure": {"type": "boolean"}},
                "required": ["sure"],
            },
        )
        request = mcp_types.ElicitRequest(params=form)
        return mcp_types.InputRequiredResult(
            input_requests={"sure": request}, request_state=f"state of {city}"
        )
    answer = ctx.input_responses["sure"]
    return f"{city}: {answer.content['sure']}, {ctx.request_state}"


def helper() -> str:
    return get_context().fastmcp.name


@desk.tool
def ambient() -> str:
    """Looks for its context without asking for it."""
    return f"{helper()} {get_http_headers()}"


def get_user() -> str:
    return "ada"


@asynccontextmanager
async def connection():
    EVENTS.append("connect")
    yield {"db": 1}
    EVENTS.append("disconnect")


@desk.tool
async def injected(x: int, user: str = Depends(get_user), db: dict = Depends(connection)) -> str:
    return f"{x} {user} {db['db']} {EVENTS[-1]}"


@desk.tool
def injected_plain(x: int, user: str = Depends(get_user)) -> str:
    """Plain code with something injected."""
    return f"{x} {user}"


@desk.tool
async def hide(ctx: Context) -> str:
    """Wants what cannot be given."""
    await ctx.disable_components(names={"add"})
    return "hidden"


@desk.tool
async def nested(a: int, ctx: Context) -> str:
    """Calls another tool of the same server."""
    result = await ctx.fastmcp.call_tool("work", {"steps": a})
    return result.content[0].text


@desk.tool(auth=lambda context: False)
def admin() -> str:
    """For a few."""
    return "done"


@desk.tool
def secret_tool() -> str:
    return "hidden"


desk.disable(names={"secret_tool"})


@phones.tool
def ring(number: str, ctx: Context) -> str:
    """Ring somebody."""
    return f"{ctx.fastmcp.name} rings {number}"


@phones.tool
async def hang_up() -> None:
    """Hang up."""


desk.mount(phones, namespace="phone")
desk.add_tool(
    Tool.from_tool(
        add,
        name="add_ten",
        description="Add ten.",
        transform_args={"b": ArgTransform(hide=True, default=10), "a": ArgTransform(name="number")},
    )
)


class Echo(Tool):
    """A tool with a `run` of its own."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        return ToolResult(structured_content={"echo": arguments})


desk.add_tool(
    Echo(
        name="echo",
        description="Echo.",
        parameters={"type": "object", "properties": {"x": {"type": "integer"}}},
    )
)


class Bound:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def times(self, x: int) -> int:
        """Multiply."""
        return x * self.factor


desk.add_tool(Bound(3).times)


@desk.resource("desk://hours")
def hours() -> str:
    return "9 to 5"


@desk.tool
async def opening(ctx: Context) -> str:
    """Reads a resource of the same server."""
    result = await ctx.read_resource("desk://hours")
    return result.contents[0].content
