"""A server whose CPU time is measured: tools that are cheap, that fail, or that take large arguments."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import re
import uuid
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from toolcrib import Context, MCPServer, ToolError


class Point(BaseModel):
    x: float
    y: float


class Square(BaseModel):
    kind: Literal["square"]
    side: float


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: float


@dataclass
class Spot:
    x: float = 0.0
    y: float = 0.0


class Loose(BaseModel):
    model_config = {"extra": "allow"}
    a: int = 1


class Node(BaseModel):
    kids: list[Node] = []


class Colour(enum.Enum):
    red = "r"


LISTS: dict[str, Any] = {
    "spots": list[Spot],
    "loose": list[Loose],
    "nodes": list[Node],
    "figures": list[Square | Circle | Point],
    "colours": list[Colour],
    "sums": list[decimal.Decimal],
    "days": list[dt.date],
    "spans": list[dt.timedelta],
    "ids": list[uuid.UUID],
    "counts": list[int],
    "mixed": list[int | dt.date | None],
    "pairs": list[tuple[int, float]],
    "unique": set[int],
    "patterns": list[re.Pattern[str]],
}


def _add_lists(server: MCPServer) -> None:
    for name, hint in LISTS.items():
        server.add(_count(hint), name=name, description="Count them.", run="inline")


def _count(hint: Any) -> Any:
    def take(value: Any) -> int:
        return len(value)

    take.__annotations__["value"] = hint
    return take


def make_server() -> MCPServer:
    server = MCPServer("costing")
    _add_lists(server)

    @server.tool(run="inline")
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @server.tool(run="inline")
    def echo(value: Any) -> str:
        """Take anything, and say little of it."""
        return type(value).__name__

    @server.tool(run="inline")
    def total(value: list[float]) -> float:
        """Add many."""
        return sum(value)

    @server.tool(run="inline")
    def points(value: list[Point]) -> int:
        """Count points."""
        return len(value)

    @server.tool(run="inline")
    def choose(value: Square | Circle | Point) -> str:
        """Take one of several."""
        return type(value).__name__

    @server.tool
    def boom(depth: int = 200) -> str:
        """Raise from deep down."""
        if depth:
            return boom(depth - 1)
        raise RuntimeError("boom")

    @server.tool
    def recurse() -> str:
        """Never end."""
        return recurse()

    @server.tool
    def refuse() -> str:
        """Refuse."""
        raise ToolError("no")

    @server.tool
    def tangle() -> str:
        """Raise while dealing with another error, many times over."""
        error: BaseException | None = None
        for number in range(100):
            new = ValueError(f"error {number}")
            new.__context__ = error
            error = new
        raise error or ValueError

    @server.tool
    def chain() -> str:
        """Raise many errors at once."""
        raise ExceptionGroup("many", [ValueError(str(number)) for number in range(500)])

    @server.tool
    async def ask(ctx: Context) -> str:
        """Ask."""
        return str(await ctx.ask("who", "Who?"))

    return server
