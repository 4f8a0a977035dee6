"""A server with a tool for every protocol feature: kinds of results, notifications, questions.

Its output is the same in every run, so that transcripts can be compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from toolcrib import Audio, Context, File, Image, Link, MCPServer, Result, ToolError
from toolcrib.content import text_block
from toolcrib.context import Elicitation, Roots, Sampling
from toolcrib.errors import CannotAskError

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
TREE = {
    "type": "array",
    "items": {"type": "object", "properties": {"below": {"$ref": "#"}}, "required": ["below"]},
}
RAW = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"size": {"$anchor": "size", "type": "integer", "minimum": 1, "maximum": 9}},
    "properties": {"kind": {"enum": ["box", "bag"]}, "size": {"$ref": "#/$defs/size"}},
    "required": ["kind"],
    "if": {"properties": {"kind": {"const": "box"}}},
    "then": {"required": ["size"]},
    "additionalProperties": False,
}
ICON = {
    "src": "https://desk.example/i.png",
    "mimeType": "image/png",
    "sizes": ["48x48"],
}


@dataclass
class Point:
    """A place on a page."""

    x: float
    y: float = 0.0


def make_desk(**options: Any) -> MCPServer:
    server = MCPServer("desk", version="1.0.0", title="The desk", instructions="Ask nicely.", **options)
    _add_results(server)
    _add_media(server)
    _add_news(server)
    _add_questions(server)
    _add_waiting(server)
    return server


def _add_results(server: MCPServer) -> None:
    @server.tool(run="inline", read_only=True, idempotent=True, open_world=False, title="Sum")
    def add(a: int, b: int = 1) -> int:
        """Add two whole numbers.

        Args:
            a: The first
            b: The second
        """
        return a + b

    @server.tool(run="inline")
    def echo(value: Any) -> Any:
        """Give back what came."""
        return value

    @server.tool(run="inline", icons=[ICON], meta={"desk.example/shelf": 3}, destructive=True)
    def move(point: Point, by: Annotated[float, Field(gt=0, le=100)] = 1.0) -> Point:
        """Move a point to the right."""
        return Point(point.x + by, point.y)

    @server.tool(run="inline")
    def numbers(count: int = 3) -> list[float]:
        """Some halves."""
        return [number / 2 for number in range(count)]

    @server.tool(run="inline")
    def nothing() -> None:
        """Come to nothing."""

    @server.tool(run="inline")
    def maybe(give: bool = False) -> str | None:
        """A word, or none."""
        return "word" if give else None

    @server.tool(run="inline")
    def choose(
        size: Literal["small", "large"],
        tags: Annotated[Sequence[str], Field(max_length=3)] = (),
        *,
        sure: bool = True,
    ) -> dict[str, Any]:
        """Choose one of two."""
        return {"size": size, "tags": list(tags), "sure": sure}

    @server.tool("tree", "A list of lists.", {"type": "object"}, output_schema=TREE, run="inline")
    def tree(arguments: dict[str, Any]) -> list[Any]:
        return [{"below": [{"below": []}]}]

    @server.tool("parcel", "Has a schema of its own.", RAW, run="inline")
    def parcel(arguments: dict[str, Any]) -> str:
        return f"a {arguments['kind']}"

    @server.tool(run="inline")
    def refuse(words: str = "not today") -> str:
        """Refuse, in words."""
        raise ToolError(words)

    @server.tool(run="inline")
    def crash() -> str:
        """Fail in a way nobody thought of."""
        raise RuntimeError("secret words")

    @server.tool(run="inline")
    def both() -> Any:
        """Words for people beside data for programs, and a note."""
        meta = {"desk.example/took": "long"}
        return Result([text_block("three of them")], {"count": 3}, is_structured=True, meta=meta)


def _add_media(server: MCPServer) -> None:
    @server.tool(run="inline")
    def picture() -> Image:
        """A picture."""
        return Image(b"PNG", mime_type="image/png")

    @server.tool(run="inline")
    def sound() -> Audio:
        """A sound."""
        return Audio(b"WAV", mime_type="audio/wav")

    @server.tool(run="inline")
    def page() -> File:
        """A file with text."""
        return File("Dear reader", uri="desk://letters/1")

    @server.tool(run="inline")
    def blob() -> File:
        """A file with bytes."""
        return File(b"\x00\x01", uri="desk://blobs/1", mime_type="application/octet-stream")

    @server.tool(run="inline")
    def link() -> Link:
        """Something to fetch."""
        return Link("desk://letters/2", "letter", "The second letter", "text/plain", 11)

    @server.tool(run="inline")
    def mixture() -> list[str | Image | Audio | Link]:
        """Some of everything."""
        return ["look:", Image(b"PNG"), Audio(b"WAV"), Link("desk://letters/3", "third")]


def _add_news(server: MCPServer) -> None:
    @server.tool(run="inline")
    def steps(ctx: Context, count: int = 3, words: str | None = None) -> str:
        """Tell how far it is."""
        for number in range(1, count + 1):
            ctx.progress(number, count, words)
        return f"{count} steps"

    @server.tool(run="inline")
    def stumble(ctx: Context) -> str:
        """Tell of progress that goes back, and of none."""
        for done in (1, 3, 2, 3, 3.5):
            ctx.progress(done)
        return "stumbled"

    @server.tool(run="inline")
    def chat(ctx: Context, level: str = "info", data: Any = "hello") -> str:
        """Send a log line."""
        ctx.log(level, data)
        return "said"


def _add_questions(server: MCPServer) -> None:
    @server.tool
    async def greet(ctx: Context) -> str:
        """Ask for a name, and greet."""
        answer = await ctx.ask("who", "What is your name?", NAME)
        return f"Hello, {answer['name']}!" if answer else f"They {answer.action}."

    @server.tool
    async def confirm(ctx: Context, what: str = "it") -> bool:
        """Ask for a yes."""
        return bool(await ctx.ask("sure", f"Really do {what}?"))

    @server.tool
    async def visit(ctx: Context) -> str:
        """Send the person to a page."""
        answer = await ctx.ask_url("login", "Please log in", "https://desk.example/login")
        return f"They {answer.action}."

    @server.tool
    async def complete(ctx: Context) -> str:
        """Have the client's model write something."""
        found = await ctx.sample("poem", "Write a poem", max_tokens=50, system="Be brief")
        return f"{found.role} of {found.model or 'no model'}: {found.text}"

    @server.tool
    async def where(ctx: Context) -> list[str]:
        """Ask where the client works."""
        return [folder.uri for folder in await ctx.roots()]

    @server.tool
    async def interview(ctx: Context) -> str:
        """Ask twice."""
        first = await ctx.ask("one", "First name?", NAME)
        second = await ctx.ask("two", "Second name?", NAME)
        return f"{first.get('name')} {second.get('name')}"

    @server.tool
    async def survey(ctx: Context) -> str:
        """Ask three things at once."""
        found = await ctx.ask_all({"a": Elicitation("Name?", NAME), "b": Sampling("Rhyme"), "c": Roots()})
        return f"{found['a'].action}, {found['b'].text}, {len(found['c'])}"

    @server.tool
    async def careful(ctx: Context) -> str:
        """Ask, and go on where nobody can be asked."""
        try:
            answer = await ctx.ask("who", "What is your name?", NAME)
        except CannotAskError:
            return "nobody to ask"
        return f"asked, {answer.action}"


def _add_waiting(server: MCPServer) -> None:
    bells: dict[str, asyncio.Event] = {}
    seen: list[str] = []

    def bell(key: str) -> asyncio.Event:
        return bells.setdefault(key, asyncio.Event())

    @server.tool
    async def wait(ctx: Context, key: str, news: int = 0, lets_go: bool = False) -> str:
        """Wait for a key, after some news; tell of as much when it is there."""
        try:
            for number in range(news):
                await ctx.progress(number + 1)
            if lets_go:
                ctx.close_stream()
            await bell(key).wait()
            for number in range(news):
                await ctx.progress(news + number + 1)
        except asyncio.CancelledError:
            seen.append(key)
            raise
        return f"waited for {key}"

    @server.tool(run="inline")
    def ring(key: str) -> str:
        """Let those go who wait for a key."""
        bell(key).set()
        return "rung"

    @server.tool(run="inline")
    def cancelled() -> list[str]:
        """The keys of those who were cancelled."""
        return seen

    @server.tool("mirror", "Has arguments that headers repeat.", _MIRRORED, run="inline")
    def mirror(arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments


_MIRRORED = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
    },
}
