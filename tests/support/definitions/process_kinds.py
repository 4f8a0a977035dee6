"""Tools for every kind of result."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

from pydantic import BaseModel, Field, field_serializer

from toolcrib import Audio, File, Image, Link, Result


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    y: decimal.Decimal
    _hidden: str = "hidden"


class Pair(NamedTuple):
    left: int
    right: str


class Shape(TypedDict):
    name: str


class Item(BaseModel):
    name: str = Field(alias="label")
    when: dt.date = dt.date(2026, 1, 2)


class Odd(BaseModel):
    value: int

    @field_serializer("value")
    def say(self, value: int) -> str:
        return f"<{value}>"


class Word(str):
    pass


class Looks(BaseModel):
    content: list[dict[str, str]]


looped: list[Any] = []
looped.append(looped)


def nothing() -> None:
    return None


def text() -> str:
    return "grüße"


def word():
    return Word("w")


def bare_text():
    return "t"


def number() -> int:
    return 7


def big_number():
    return 10**5000


def fraction() -> float:
    return 0.1


def not_a_number() -> float:
    return float("nan")


def inside():
    return {"a": [1, {"b": float("inf")}]}


def raw():
    return b"\x00\xff"


def raw_inside():
    return {"a": b"\x00"}


def table():
    return {"a": [1, 2.5, None, True, "x"], "b": {}}


def numbered():
    return {1: "a", 2: "b"}


def row() -> tuple[int, str]:
    return (1, "a")


def unique() -> set[int]:
    return {3, 1, 2}


def colour() -> Colour:
    return Colour.RED


def money() -> decimal.Decimal:
    return decimal.Decimal("1.50")


def money_untold():
    return decimal.Decimal("1.50")


def moment() -> dt.datetime:
    return dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


def point() -> Point:
    return Point(1, decimal.Decimal(2))


def point_untold():
    return Point(1, decimal.Decimal(2))


def points() -> list[Point]:
    return [Point(1, decimal.Decimal(2))]


def either() -> Point | Colour | int:
    return Colour.RED


def pair() -> Pair:
    return Pair(1, "r")


def shape() -> Shape:
    return {"name": "n", "more": 1}


def item() -> Item:
    return Item(label="l")


def item_untold():
    return Item(label="l")


def odd() -> Odd:
    return Odd(value=3)


def looks() -> Looks:
    return Looks(content=[{"type": "text", "text": "t"}])


def mcp_shaped():
    return {"content": [{"type": "text", "text": "t"}], "isError": True}


def picture():
    return Image(b"png")


def picture_file():
    return Image(path=Path(__file__), mime_type="image/png")


def sound() -> Audio:
    return Audio(b"wav")


def file():
    return File("words", uri="file:///a.txt")


def link():
    return Link("http://x.example", "x")


def mixed():
    return ["words", Image(b"png"), {"a": 1}]


def whole():
    return Result.of("words", {"a": 1})


def whole_told() -> Annotated[dict[str, Point], "said"]:
    return {"p": Point(1, decimal.Decimal(2))}


def whole_empty():
    return Result([], {"a": 1}, is_structured=True, meta={"m": 1})


def whole_wrong():
    return Result([{"type": "nothing"}])


def several() -> Iterator[int]:
    yield from (1, 2, 3)


async def later() -> Point:
    return Point(5, decimal.Decimal("0.5"))


def lock():
    return threading.Lock()


def half_a_character():
    return "\ud800"


def half_inside():
    return ["\ud800"]


def endless():
    return looped


def deep():
    value: Any = []
    for _ in range(5000):
        value = [value]
    return value


def too_long():
    return "x" * (17 * 1024 * 1024)


def too_large():
    return ["x" * (17 * 1024 * 1024)]


def wrong() -> int:
    return "no number"
