"""A few hundred values, few enough to try all of them against any schema."""

from __future__ import annotations

from itertools import product
from typing import Any

NAMES = ("a", "b", "c")
PLAIN = (None, True, False, -1, 0, 1, 2, 3, 4, 1.0, 1.5, 2.5, "", "a", "ab", "abc", "b", "7")
SOME = (None, False, 0, 2, 2.5, "a", "abc")
WORLD: tuple[Any, ...] = (
    *PLAIN,
    [],
    {},
    *([value] for value in PLAIN),
    *([one, other] for one, other in product(SOME, repeat=2)),
    [0, 0, 0],
    ["a", "b", "a", 1],
    [[], ["a"]],
    *({name: value} for name, value in product(NAMES, (*PLAIN, [], ["a"], {}, {"a": 1}))),
    *({"a": one, "b": other} for one, other in product(SOME, repeat=2)),
    {"a": 0, "b": "a", "c": None},
    {"a": {"a": {"a": "b"}}, "c": [1]},
)
"""Every value that is tried: all of them against every pair of schemas."""
