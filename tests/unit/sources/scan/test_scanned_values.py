"""Expressions become values without running; what would have to run is Unresolved, with the reason."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.support.scanning.scanned_snippet import expression, read
from toolcrib.sources.scan.values import Unresolved

SOURCE = """
import datetime, textwrap, math, decimal, pathlib, re
from enum import Enum, StrEnum, auto
from dataclasses import dataclass, field
BASE = {"type": "object"}
NAMES = ["a", "b"]
PAIR = ("x", 1)
FIRST, SECOND = 1, 2
(THIRD, [FOURTH]) = (3, [4])
TEXT = "words"
TYPED: int = 9
CHANGED = {}
CHANGED["a"] = 1
GROWN = []
GROWN += [1]
TWICE = 1
TWICE = 2
class Kind(StrEnum):
    ONE = auto()
    TWO = "2"
class Settings:
    limit = 5
    names = NAMES
@dataclass
class Options:
    depth: int = 1
    tags: list[str] = field(default_factory=list)
@dataclass
class Busy:
    depth: int = 1
    def __post_init__(self): self.depth = 2
class Chooser(Enum):
    A = 1
    @classmethod
    def _missing_(cls, value): return cls.A
def function(): ...
"""
VALUES: dict[str, Any] = {
    "1": 1,
    "-1.5": -1.5,
    "'a' 'b' + 'c'": "abc",
    "b'a'": b"a",
    "...": ...,
    "[1, *PAIR]": [1, "x", 1],
    "{'a': 1, **BASE, 'b': NAMES}": {"a": 1, "type": "object", "b": ["a", "b"]},
    "BASE | {'x': 1}": {"type": "object", "x": 1},
    "dict(BASE, a=1)": {"type": "object", "a": 1},
    "(FIRST, SECOND, THIRD, FOURTH)": (1, 2, 3, 4),
    "{1, 2}": {1, 2},
    "f'{TEXT}: {FIRST} {TEXT!r}'": "words: 1 'words'",
    "textwrap.dedent('  a')": "a",
    "TYPED * 2 - 3": 15,
    "Kind.TWO.value": "2",
    "Kind.ONE.name": "ONE",
    "Settings.limit": 5,
    "Settings.names": ["a", "b"],
    "TWICE": 2,
    "datetime.timedelta(days=1)": dt.timedelta(days=1),
    "datetime.timezone.utc": dt.UTC,
    "datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC)": dt.datetime(2020, 1, 2, tzinfo=dt.UTC),
    "decimal.Decimal('1.50')": Decimal("1.50"),
    "pathlib.Path('a') ": Path("a"),
    "math.inf": float("inf"),
    "list(('a',))": ["a"],
    "int('7') + float('0.5')": 7.5,
    "int": int,
}


@pytest.mark.parametrize("text", VALUES)
def test_anything_that_is_written_is_evaluated(text: str, tmp_path: Path) -> None:
    value = read(tmp_path, SOURCE).value(expression(text.strip()))
    assert (value, type(value)) == (VALUES[text], type(VALUES[text]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nowhere", "not defined"),
        ("function", "computed"),
        ("function()", "computed"),
        ("CHANGED", "changed after it is made"),
        ("GROWN", "computed"),
        ("Busy()", "computed"),
        ("Options(depth=3)", "computed"),
        ("Chooser(1)", "computed"),
        ("Kind['ONE']", "computed"),
        ("None or 'x'", "computed"),
        ("open('x')", "computed"),
        ("exec('x')", "computed"),
        ("[x for x in NAMES]", "computed"),
        ("TEXT if FIRST else 3", "computed"),
        ("datetime.datetime.now()", "computed"),
        ("''.format(1)", "computed"),
        ("TEXT.upper()", "computed"),
        ("', '.join(NAMES)", "computed"),
        ("not 3", "computed"),
        ("2 ** 3", "computed"),
        ("1 << 4", "computed"),
        ("'a' * 3", "computed"),
        ("re.compile('(')", "refused at run time"),
        ("NAMES[0]", "computed"),
        ("{[]: 1}", "refused at run time"),
        ("[1] * 10 ** 8", "computed"),
        ("2 ** 2 ** 20", "computed"),
        ("+".join(["1"] * 100), "nested too deeply"),
        ("[" + "1+1," * 30_000 + "]", "too many parts"),
        ("os.environ", "not defined"),
        ("math.sin", "not read"),
        ("re.RegexFlag.ASCII", "not read"),
        ("str.__subclasses__()", "computed"),
        ("().__class__.__bases__", "not defined"),
    ],
)
def test_anything_that_would_have_to_run_is_not(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(Unresolved) as caught:
        read(tmp_path, SOURCE).value(expression(text))
    assert words in caught.value.message
    assert caught.value.line


def test_anything_that_is_given_is_nobody_elses(tmp_path: Path) -> None:
    reader = read(tmp_path, SOURCE)
    reader.value(expression("NAMES")).append("c")
    assert reader.value(expression("NAMES")) == ["a", "b"]
