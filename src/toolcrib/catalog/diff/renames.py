"""Names that went where others came, and names that are easily taken for others.

Knows names, and what two things of different names have in common; refuses to know what a rename breaks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from toolcrib.catalog.diff.subset import ANNOTATIONS
from toolcrib.definition import ToolDefinition
from toolcrib.registry.index import skeleton
from toolcrib.validation import codec

_ALIKE = 0.75
_NEARLY = 0.6
_MOST_PAIRS = 20_000
_SHORTEST = 6
_SEPARATORS = re.compile(r"[_.-]+")


def are_alike(first: str, second: str) -> bool:
    """Whether one name may have become the other: it holds it, or most of its letters."""
    one, other = first.casefold(), second.casefold()
    return one in other or other in one or SequenceMatcher(None, one, other).ratio() >= _ALIKE


# --- parameters ------------------------------------------------------------------------------------------


def find_renamed_parameters(
    before: Mapping[str, Any], now: Mapping[str, Any], gone: Iterable[str], come: Iterable[str]
) -> list[tuple[str, str]]:
    """Old and new name of what is of one make, and has the same words or a name alike."""
    found: list[tuple[str, str]] = []
    free = list(come)
    for name in gone:
        heirs = [heir for heir in free if _make(before[name]) == _make(now[heir])]
        likely = [heir for heir in heirs if are_alike(name, heir) or _say_the_same(before[name], now[heir])]
        if len(likely) == 1:
            free.remove(likely[0])
            found.append((name, likely[0]))
    return found


def _make(node: Any) -> bytes:
    """A schema without its words."""
    if not isinstance(node, Mapping):
        return codec.canonical(node)
    return codec.canonical(
        {key: value for key, value in node.items() if key not in ANNOTATIONS - {"default"}}
    )


def _say_the_same(first: Any, second: Any) -> bool:
    words = [node.get("description") if isinstance(node, Mapping) else None for node in (first, second)]
    return bool(words[0]) and words[0] == words[1]


# --- tools -----------------------------------------------------------------------------------------------


def find_renamed_tools(
    gone: Sequence[ToolDefinition], come: Sequence[ToolDefinition]
) -> list[tuple[ToolDefinition, ToolDefinition]]:
    """Tools that are there under another name: the same but for it, or nearly so and alike by name."""
    found: list[tuple[ToolDefinition, ToolDefinition]] = []
    heirs: dict[bytes, list[ToolDefinition]] = {}
    for tool in come:
        heirs.setdefault(_body(tool), []).append(tool)
    left: list[ToolDefinition] = []
    for tool in gone:
        same = heirs.get(_body(tool), []) if tool.description or tool.input_schema.get("properties") else []
        if same:
            best = max(same, key=lambda heir: SequenceMatcher(None, tool.name, heir.name).ratio())
            same.remove(best)
            found.append((tool, best))
        else:
            left.append(tool)
    free = [tool for tools in heirs.values() for tool in tools]
    if len(left) * len(free) <= _MOST_PAIRS:
        found += _find_similar(left, free)
    return found


def _find_similar(
    left: Iterable[ToolDefinition], free: list[ToolDefinition]
) -> Iterator[tuple[ToolDefinition, ToolDefinition]]:
    for tool in left:
        likely = [
            heir
            for heir in free
            if are_alike(tool.name, heir.name)
            and _parameters(tool) == _parameters(heir)
            and (not tool.description or _is_near(tool.description, heir.description))
        ]
        if len(likely) == 1:
            free.remove(likely[0])
            yield tool, likely[0]


def _body(tool: ToolDefinition) -> bytes:
    return codec.canonical([tool.description, tool.input_schema, tool.output_schema])


def _parameters(tool: ToolDefinition) -> set[str]:
    return set(tool.input_schema.get("properties", ()))


def _is_near(first: str, second: str) -> bool:
    return SequenceMatcher(None, first[:500], second[:500]).ratio() >= _NEARLY


# --- look-alikes -----------------------------------------------------------------------------------------


class LookAlikes:
    """Names that are there, to be asked which of them another is easily taken for.

    Letters that look the same, other separators, two letters exchanged, one left out or doubled within a
    name. Not the last one: get_user and get_users are both honest.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._looks: dict[str, list[str]] = {}
        self._short: dict[str, list[str]] = {}
        for name in names:
            look = _look(name)
            self._looks.setdefault(look, []).append(name)
            for shorter in _without_one(look):
                self._short.setdefault(shorter, []).append(name)

    def find(self, name: str) -> str | None:
        """The name that this one could be mistaken for, and is not."""
        look = _look(name)
        near = [*self._looks.get(look, ()), *self._short.get(look, ())]
        for variant in (*_without_one(look), *_exchanged(look)):
            near += self._looks.get(variant, ())
        return next((other for other in near if other != name), None)


def _look(name: str) -> str:
    return _SEPARATORS.sub("", skeleton(name))


def _without_one(look: str) -> Iterator[str]:
    """The name with one letter left out, but for its ends."""
    if len(look) < _SHORTEST:
        return
    for index in range(1, len(look) - 1):
        if not look[index].isdigit():
            yield look[:index] + look[index + 1 :]


def _exchanged(look: str) -> Iterator[str]:
    if len(look) < _SHORTEST:
        return
    for index in range(len(look) - 1):
        first, second = look[index], look[index + 1]
        if first != second and not (first.isdigit() or second.isdigit()):
            yield f"{look[:index]}{second}{first}{look[index + 2 :]}"
