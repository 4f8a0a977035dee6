"""Reloads leave nothing behind, neither modules nor memory.

The long run takes minutes and is made with `TOOLCRIB_SOAK=1`; the everyday one looks at the modules only.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

from tests.support.reload_folder import Workshop, workshop

pytestmark = pytest.mark.row("G8")

TOOLS = '''\
import dataclasses
import enum
import typing
import pydantic
from toolcrib import Application, MCPServer, ToolError, tool
import crib_words

class Colour(enum.Enum):
    RED = "red"

@dataclasses.dataclass
class Point:
    x: int
    colour: Colour = Colour.RED
    next: typing.Optional["Point"] = None

class Model(pydantic.BaseModel):
    name: str
    others: typing.List["Model"] = []

    @pydantic.field_validator("name", mode="before")
    @classmethod
    def shorten(cls, value: typing.Any) -> typing.Any:
        return value[:100]

class Fields(typing.TypedDict):
    points: typing.Dict[str, Point]

server = MCPServer("inner")

@server.tool
def served(fields: Fields, model: Model | None = None) -> typing.List[Point]:
    """Take what there is."""
    return list(fields["points"].values())

@tool
async def say() -> str:
    """Say the word."""
    return crib_words.WORD

@tool
def fail() -> None:
    """Fail with the module on the stack."""
    raise ToolError("on purpose")

class App(Application):
    def __init__(self) -> None:
        super().__init__("app")
    async def open(self) -> None: ...
    async def close(self) -> None: ...
    @tool
    async def note(self, model: Model) -> Model:
        """Give it back."""
        return model
'''
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("say", {}),
    ("served", {"fields": {"points": {"a": {"x": 1}}}}),
    ("note", {"model": {"name": "x"}}),
]


async def reload_often(shop: Workshop, times: int, each: Any) -> None:
    for number in range(times):
        each(number)
        (shop.folder / "crib_words.py").write_text(f"WORD = '{number:06d}'")
        if number % 10 == 9:  # now and then one that does not load
            (shop.folder / "crib_tools.py").write_text(f"{TOOLS}\n1 / 0")
            assert not await shop.reloader.check_now()
            (shop.folder / "crib_tools.py").write_text(TOOLS)
        assert await shop.reloader.check_now()
        for name, arguments in CALLS:
            result = await shop.server.call(name, arguments)
            assert not result.is_error, result.text
        assert (await shop.server.call("fail")).is_error
        assert len(shop.server.list_tools()) == 4
        assert await shop.say() == f"{number:06d}"


@pytest.fixture
def shop(tmp_path: Path) -> Any:
    (tmp_path / "crib_tools.py").write_text(TOOLS)
    (tmp_path / "crib_words.py").write_text("WORD = ''")
    with workshop(tmp_path) as made:
        yield made


async def test_g8_old_modules_are_collected(shop: Workshop) -> None:
    seen: list[weakref.ref[Any]] = []

    def remember(number: int) -> None:
        seen.extend(weakref.ref(sys.modules[name]) for name in ("crib_tools", "crib_words"))
        seen.append(weakref.ref(shop.server.registry.get("say").handler))
        seen.append(weakref.ref(shop.server.registry.get("note").owner))

    await reload_often(shop, 25, remember)
    gc.collect()
    alive = [position for position, ref in enumerate(seen) if ref() is not None]
    assert all(position >= len(seen) - 8 for position in alive)  # what was served last may still be at hand


@pytest.mark.skipif("TOOLCRIB_SOAK" not in os.environ, reason="a long run: TOOLCRIB_SOAK=1")
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc to read memory from")
async def test_g8_ten_thousand_reloads_cost_no_memory(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "toolcrib")  # or else what is captured is what grows
    samples: list[tuple[int, int]] = []
    seen: list[weakref.ref[Any]] = []

    def measure(number: int) -> None:
        seen.append(weakref.ref(sys.modules["crib_tools"]))
        if number % 100 == 0:
            gc.collect()
            samples.append((number, _resident_bytes()))

    await reload_often(shop, 10_001, measure)
    gc.collect()
    print(f"{_slope(samples[20:]):.0f} bytes per reload; {[size // 1024 for _, size in samples[::10]]} KB")
    assert sum(ref() is not None for ref in seen) <= 2
    assert _slope(samples[20:]) <= 1024


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _slope(points: list[tuple[int, int]]) -> float:
    """Bytes per reload, by least squares."""
    middle_x = sum(x for x, _ in points) / len(points)
    middle_y = sum(y for _, y in points) / len(points)
    above = sum((x - middle_x) * (y - middle_y) for x, y in points)
    return above / sum((x - middle_x) ** 2 for x, _ in points)
