"""A server built with the official SDK, run as `mcp_peer.py stdio`, `http PORT` or `sse PORT`."""

from __future__ import annotations

import asyncio
import sys
import warnings
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from mcp_types import (
    CreateMessageResult,
    ListRootsResult,
    SamplingMessage,
    TextContent,
    ToolAnnotations,
)
from pydantic import BaseModel

warnings.simplefilter("ignore")
server = MCPServer("peer", version="1.2.3", instructions="Be kind.", log_level="CRITICAL")
ended: list[str] = []


class Person(BaseModel):
    name: str
    age: int = 30


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int = 1) -> int:
    """Add two whole numbers."""
    return a + b


@server.tool(title="An echo")
def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool()
async def fail(text: str) -> str:
    """Fail with these words."""
    raise ValueError(text)


@server.tool()
async def count(upto: int, ctx: Context) -> str:
    """Count and tell how far."""
    for number in range(1, upto + 1):
        await ctx.report_progress(number, upto, f"at {number}")
        await ctx.info(f"line {number}")
    return f"counted to {upto}"


@server.tool()
async def wait(mark: str) -> str:
    """Wait for a long time."""
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        ended.append(mark)
        raise
    return "done"


@server.tool()
def who_ended() -> str:
    """Which waits were cancelled."""
    return ",".join(ended)


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    """Add a tool."""
    server.add_tool(lambda: name, name=name, description="A new one")
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return name


async def ask_person() -> Elicit[Person]:
    return Elicit("Who are you?", Person)


async def ask_model() -> Sample:
    text = TextContent(type="text", text="The capital of France?")
    return Sample([SamplingMessage(role="user", content=text)], max_tokens=50)


async def ask_folders() -> ListRoots:
    return ListRoots()


@server.tool()
async def greet(person: Annotated[Person, Resolve(ask_person)]) -> str:
    """Ask who it is, and greet them."""
    return f"Hello, {person.name} ({person.age})"


@server.tool()
async def quiz(answer: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    """Ask the client's model."""
    return f"The model said {answer.content.text}"


@server.tool()
async def where(roots: Annotated[ListRootsResult, Resolve(ask_folders)]) -> str:
    """Ask for the client's folders."""
    return " ".join(str(root.uri) for root in roots.roots)


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    elif sys.argv[1] == "http":
        server.run("streamable-http", port=int(sys.argv[2]), host="127.0.0.1")
    else:
        server.run("sse", port=int(sys.argv[2]), host="127.0.0.1")
