# ruff: noqa: UP007, UP045 - people write it so
"""Hints of every kind that a tool is likely to have."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Optional, TypedDict, Union

from pydantic import BaseModel, Field

from toolcrib import tool

Level = Literal["low", "high"]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    """A point in the plane."""

    x: float
    y: float = 0.0
    labels: list[str] = field(default_factory=list)


class Options(TypedDict, total=False):
    depth: int
    name: str


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Order(BaseModel):
    """An order."""

    number: int = Field(gt=0, description="Its number")
    lines: list[Point] = []
    note: str | None = None


@tool
def literals(level: Level, other: Literal[1, 2, None] = None) -> Literal["done"]:
    """Take a level."""
    return "done"


@tool
def scalars(day: dt.date, moment: dt.datetime, key: uuid.UUID, cost: Decimal, path: Path) -> dt.timedelta:
    """Take scalars."""
    return dt.timedelta()


@tool
def unions(a: int | str, b: Optional[float] = None, c: Union[list[int], None] = None) -> int | None:
    """Take unions."""
    return None


@tool
def containers(
    a: list[int], b: dict[str, list[float]], c: tuple[int, str], d: set[str], e: list
) -> dict[str, int]:
    """Take containers."""
    return {}


@tool
def records(point: Point, options: Options, pair: Pair, colour: Colour = Colour.RED) -> Point:
    """Take records."""
    return point


@tool
def models(order: Order, orders: list[Order] | None = None) -> Order:
    """Take models."""
    return order


@tool
def annotated(
    n: Annotated[int, Field(ge=1, le=10, description="How many")],
    text: Annotated[str, "A text with words"] = "x",
    size: int = Field(default=3, description="The size"),
) -> Annotated[int, Field(description="A count")]:
    """Take annotations."""
    return n


@tool
def anything(a, b: Any, c: object = None):
    """Take anything."""
