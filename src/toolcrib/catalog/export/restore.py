"""The way back: arguments as a model gave them, made what the tool takes.

An export may have had to wrap the arguments, to rename properties, or to ask for a null where something may
be left out. What it did is kept beside the exported schema, and undone here. Knows values; refuses to know
providers, and to judge whether the arguments are right: that is the tool's own check.

What tools and properties are called at a provider, and how to find back.

A name that fits stays as it is, whatever else is exported. One that does not is written with the letters that
fit; where that could be another tool, or is too long, it ends in a digest of the whole name, which is never
cut off. Knows names; refuses to know what they name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.catalog.export.schema import Node, type_of, types_of
from toolcrib.definition import shorten_name
from toolcrib.errors import InvalidSchemaError
from toolcrib.validation import codec
from toolcrib.validation.validator import Validator

LONGEST = 64
TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
"""What every provider takes: Gemini wants a letter or an underscore first, the others up to 64 of these."""

_MARK = 8


def map_names(names: Iterable[str]) -> dict[str, str]:
    """Each name, and what it is called at a provider; no two are called the same."""
    wanted = list(dict.fromkeys(names))
    found = {name: name for name in wanted if TOOL_NAME.fullmatch(name)}
    taken = set(found.values())
    rest = [name for name in wanted if name not in found]
    drafts = {name: _draft(name) for name in rest}
    uses = Counter(drafts.values())
    for name in sorted(rest):
        draft = drafts[name]
        if draft in taken or uses[draft] > 1:
            draft = _marked(_spell(name), name, taken)
        found[name] = draft
        taken.add(draft)
    return {name: found[name] for name in wanted}


def _draft(name: str) -> str:
    """The name as it would be called if no other were there."""
    spelt = _spell(name)
    if spelt == name:
        return shorten_name(name, LONGEST)
    if not any(sign.isalnum() for sign in spelt) or len(spelt) > LONGEST:
        return _marked(spelt, name, ())
    return spelt


def _spell(name: str) -> str:
    spelt = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
    return spelt if TOOL_NAME.match(spelt) else f"_{spelt}"


def _marked(spelt: str, name: str, taken: Iterable[str]) -> str:
    """Letters that fit, and a digest behind them: a longer one where somebody took pains to have the same."""
    digest = codec.digest(name)
    stem = spelt if any(sign.isalnum() for sign in spelt) else "tool"
    for length in range(_MARK, LONGEST // 2):
        marked = f"{stem[: LONGEST - length - 1]}_{digest[:length]}"
        if marked not in taken:
            return marked
    raise AssertionError("a digest has more digits than names can clash in")  # pragma: no cover


# --- properties --------------------------------------------------------------------------------------


def map_properties(names: Iterable[str], rule: re.Pattern[str] | None, *, marked: bool) -> dict[str, str]:
    """Each property, and its name at a provider. With `marked` every changed name has a digest, so that it
    can be known for what it is wherever it stands."""
    wanted = list(names)
    if rule is None:
        return {name: name for name in wanted}
    found = {name: name for name in wanted if rule.fullmatch(name)}
    taken = set(found)
    for name in wanted:
        if name in found:
            continue
        spelt = re.sub(r"[^a-zA-Z0-9_]", "_", name)
        if not re.match(r"[a-zA-Z_]", spelt):
            spelt = f"_{spelt}"
        if marked or spelt in taken or not rule.fullmatch(spelt) or not any(map(str.isalnum, spelt)):
            stem = spelt if any(map(str.isalnum, spelt)) else "name"
            spelt = _marked(stem, f"property {name}", taken)
        found[name] = spelt
        taken.add(spelt)
    return {name: found[name] for name in wanted}


WRAPPER = "arguments"
"""The one property that arguments are wrapped in where a provider refuses what their schema has on top."""


@dataclass(slots=True)
class Way:
    """How one value goes back. `names` and `absent` are by the names at the provider."""

    names: dict[str, str] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    below: dict[str, Way] = field(default_factory=dict)
    rest: Way | None = None
    items: Way | None = None
    first: tuple[Way | None, ...] = ()
    branches: tuple[tuple[Node, Way | None], ...] = ()
    _checks: list[Validator | None] = field(default_factory=list, repr=False)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to undo, here or below."""
        renames = any(name != original for name, original in self.names.items())
        inner = [*self.below.values(), self.rest, self.items, *self.first, *(way for _, way in self.branches)]
        return not renames and not self.absent and all(way is None for way in inner)

    def restore(self, value: Any) -> Any:
        if self.branches:
            way = self._choose(value)
            return value if way is None else way.restore(value)
        if isinstance(value, dict):
            return {
                self.names.get(name, name): _restore(item, self.below.get(name, self.rest))
                for name, item in value.items()
                if item is not None or name not in self.absent
            }
        if isinstance(value, list):
            ways = [*self.first, *[self.items] * (len(value) - len(self.first))]
            return [_restore(item, way) for item, way in zip(value, ways, strict=False)]
        return value

    def _choose(self, value: Any) -> Way | None:
        """The branch that the value fits; else the first for values of its type."""
        if not self._checks:
            self._checks.extend(_compile(schema) for schema, _ in self.branches)
        for check, (_, way) in zip(self._checks, self.branches, strict=True):
            if check is not None and check.is_valid(value):
                return way
        kind = type_of(value)
        return next((way for schema, way in self.branches if kind in types_of(schema)), None)


def _restore(value: Any, way: Way | None) -> Any:
    return value if way is None else way.restore(value)


def _compile(schema: Node) -> Validator | None:
    try:
        return Validator(schema)
    except InvalidSchemaError:
        return None


@dataclass(frozen=True, slots=True)
class Restorer:
    """How the arguments of one tool go back. `everywhere` are names that were changed wherever they stand."""

    way: Way | None = None
    is_wrapped: bool = False
    everywhere: Mapping[str, str] = field(default_factory=dict)

    def restore(self, arguments: dict[str, Any]) -> dict[str, Any]:
        value: Any = arguments
        if self.is_wrapped and isinstance(arguments.get(WRAPPER), dict) and len(arguments) == 1:
            value = arguments[WRAPPER]  # a model that did not wrap them is understood too
        if self.way is not None:
            value = self.way.restore(value)
        if self.everywhere:
            value = self._rename(value)
        return value if isinstance(value, dict) else arguments

    def _rename(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self.everywhere.get(name, name): self._rename(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._rename(item) for item in value]
        return value
