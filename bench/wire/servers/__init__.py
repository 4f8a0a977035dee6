"""The servers under measurement, one module per library: `python -m bench.wire.servers.NAME TRANSPORT [PORT]
[FOLDER COUNT]`.

Each is what the library's documentation tells a user to write, with the same tools: `add`, `echo` and,
where COUNT is given, so many made functions; and with one template of resources and one prompt. This module
knows what they are asked for and imports next to nothing, because the start of a server is measured too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

HOST = "127.0.0.1"

Function = Callable[..., Any]


class Wanted(NamedTuple):
    """What the command line asks of a server."""

    transport: str
    port: int
    functions: list[Function]


def wanted() -> Wanted:
    transport, *rest = sys.argv[1:]
    port = int(rest[0]) if rest else 0
    made = _made(*rest[1:])
    half = len(made) // 2  # neither the first nor the last is a fair place to be looked up
    return Wanted(transport, port, [*made[:half], add, echo, *made[half:]])


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def echo(text: str) -> str:
    """Give back what was given."""
    return text


async def sum_of(a: int, b: int) -> str:
    """The sum of two numbers."""
    return str(a + b)


def _made(folder: str = "", count: str = "0") -> list[Function]:
    if not folder:
        return []
    # Here and not above: a server without made functions should not pay for it at its start.
    from pathlib import Path

    from bench import functions

    return functions.load_module(Path(folder), int(count))
