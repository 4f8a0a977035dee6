"""Types of the answers to questions."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = """
from dataclasses import dataclass
from typing import TypedDict

from pydantic import BaseModel

from toolcrib import Context


@dataclass
class Seat:
    side: str


class Meal(BaseModel):
    name: str


class Drink(TypedDict):
    size: int


async def book(ctx: Context) -> str:
    seat = await ctx.ask("seat", "Which?", Seat)
    reveal_type(seat)
    reveal_type(await ctx.ask("meal", "Which?", Meal))
    reveal_type(await ctx.ask("drink", "Which?", Drink))
    reveal_type(await ctx.ask("name", "Which?", {"type": "object"}))
    reveal_type(await ctx.ask("sure", "Sure?"))
    if not seat:
        return ""
    return str(seat.seite)


def book_on_a_thread(ctx: Context) -> str:
    seat = ctx.ask("seat", "Which?", Seat)
    if not seat:
        return ""
    found: str = seat.side
    return found if isinstance(seat, Seat) else ""
"""


def test_an_answer_has_the_type_that_was_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "desk.py"
    file.write_text(CODE)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--cache-dir",
        str(tmp_path),
        str(file),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert re.findall(r'Revealed type is "(.*)"', done.stdout) == [
        "desk.Seat | None",
        "desk.Meal | None",
        "TypedDict(desk.Drink, {'size': int}) | None",
        "toolcrib.context.Answer",
        "toolcrib.context.Answer",
    ], done.stdout
    errors = [line.partition(": error: ")[2] for line in done.stdout.splitlines() if ": error: " in line]
    assert errors == ['"Seat" has no attribute "seite"  [attr-defined]'], done.stdout
