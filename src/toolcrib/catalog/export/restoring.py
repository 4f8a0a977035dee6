"""The way back: arguments as a model gave them, made what the tool takes.

An export may have had to wrap the arguments, to rename properties, or to ask for a null where something may
be left out. What it did is kept beside the exported schema, and undone here. Knows values; refuses to know
providers, and to judge whether the arguments are right: that is the tool's own check.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.catalog.export.keywords import Node, type_of, types_of
from toolcrib.errors import InvalidSchemaError
from toolcrib.validation import Validator

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
