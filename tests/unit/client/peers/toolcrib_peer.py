"""toolcrib's own server, run as `toolcrib_peer.py stdio` or `http PORT`."""

from __future__ import annotations

import asyncio
import sys

from toolcrib import Context, MCPServer

server = MCPServer("peer", version="1.2.3", instructions="Be kind.", dynamic=True)
ended: list[str] = []
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 30}},
    "required": ["name"],
}


@server.tool(read_only=True)
def add(a: int, b: int = 1) -> int:
    """Add two whole numbers."""
    return a + b


@server.tool(title="An echo")
def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool
async def fail(text: str) -> str:
    """Fail with these words."""
    raise ValueError(text)


@server.tool
async def count(upto: int, ctx: Context) -> str:
    """Count and tell how far."""
    for number in range(1, upto + 1):
        await ctx.progress(number, upto, f"at {number}")
        await ctx.log("info", f"line {number}")
    return f"counted to {upto}"


@server.tool
async def wait(mark: str) -> str:
    """Wait for a long time."""
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        ended.append(mark)
        raise
    return "done"


@server.tool
def who_ended() -> str:
    """Which waits were cancelled."""
    return ",".join(ended)


@server.tool
def grow(name: str) -> str:
    """Add a tool."""
    server.add(lambda: name, name=name, description="A new one")
    return name


@server.tool
async def greet(ctx: Context) -> str:
    """Ask who it is, and greet them."""
    person = await ctx.ask("who", "Who are you?", PERSON)
    return f"Hello, {person['name']} ({person['age']})" if person else f"They {person.action}."


@server.tool
async def quiz(ctx: Context) -> str:
    """Ask the client's model."""
    return f"The model said {(await ctx.sample('q', 'The capital of France?')).text}"


@server.tool
async def where(ctx: Context) -> str:
    """Ask for the client's folders."""
    return " ".join(folder.uri for folder in await ctx.roots())


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run("http", host="127.0.0.1", port=int(sys.argv[2]))
