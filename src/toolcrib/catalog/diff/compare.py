"""Compare two catalogs, tool by tool, resource by resource and prompt by prompt, and grade every change.

The grades are explained in `toolcrib.catalog.diff`.

    comparison = compare(old_tools, new_tools)
    comparison.worst, comparison.advice             # "breaking", "major"
    [change.message for change in comparison.changes]
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from toolcrib.catalog.diff import GRADES, Change, Grade, make_change
from toolcrib.catalog.diff.definitions import (
    compare_definitions,
    compare_entries,
    compare_scopes,
    find_suspicious,
)
from toolcrib.catalog.entries import content_of, definition_of_entry
from toolcrib.catalog.lint.descriptions import skeleton
from toolcrib.component import Component
from toolcrib.definition import ToolDefinition
from toolcrib.sources.described import is_described

_ARGUMENTS = ("/inputSchema/properties/", "/arguments/")
"""Where the arguments of a prompt are in its definition, and where they are shown."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All changes, those of one tool together, the worst first."""

    changes: list[Change] = field(default_factory=list)
    before: int = 0
    after: int = 0
    noun: str = "tool"
    """What is compared: `tool`, or `definition` if there are resources or prompts."""

    @property
    def counts(self) -> dict[Grade, int]:
        """The number of changes of each grade, the worst first."""
        grades = [change.grade for change in self.changes]
        return {grade: grades.count(grade) for grade in reversed(GRADES)}

    @property
    def worst(self) -> Grade | None:
        return max((change.grade for change in self.changes), key=GRADES.index, default=None)

    @property
    def tools(self) -> list[str]:
        """The names of the tools that changed."""
        return list(dict.fromkeys(change.tool for change in self.changes))

    @property
    def advice(self) -> str:
        """Which part of a semantic version has to be raised: major, minor, patch or none."""
        counts = self.counts
        if counts["breaking"]:
            return "major"
        if counts["compatible"] or counts["suspicious"]:
            return "minor"
        return "patch" if counts["cosmetic"] else "none"

    def at_least(self, grade: Grade) -> list[Change]:
        return [change for change in self.changes if GRADES.index(change.grade) >= GRADES.index(grade)]


def compare(
    old: Iterable[Component], new: Iterable[Component], progress: Callable[[int, int], None] | None = None
) -> Comparison:
    """Compare two sets of tools, resources and prompts. `progress` is called with the number of those
    compared, and of all. Raise DefinitionError for a tool that cannot be built."""
    before, now = list(old), list(new)
    pairs, removed, added = _pair(before, now)
    changes: list[Change] = []
    for position, pair in enumerate(pairs):
        if progress is not None:
            progress(position, len(pairs))
        changes += compare_tools(*pair)
    for tool in removed:
        removal = make_change(f"{tool.kind}-removed", "breaking", "", "it was removed: callers will fail")
        changes.append(_assign(removal, tool))
    changes += _describe_added(added, [tool for tool in (*before, *now) if tool.kind != "resource"])
    noun = "tool" if all(tool.kind == "tool" for tool in (*before, *now)) else "definition"
    return Comparison(_sort(changes), len(before), len(now), noun)


def definition_of(tool: Component) -> ToolDefinition:
    """Return the definition of a tool, without building it where the tool is only described. That of a
    resource or a prompt has what its list shows."""
    if tool.kind != "tool":
        return definition_of_entry(tool)
    origin = tool.origin
    if is_described(tool) and isinstance(origin, ToolDefinition) and origin.name == tool.name:
        return origin
    return tool.definition


def compare_tools(old: Component, new: Component) -> list[Change]:
    """Return what changed in one tool, resource or prompt, whatever it is called now."""
    before, now = definition_of(old), definition_of(new)
    found: list[Change] = []
    if new.kind != "tool":
        found += compare_entries(content_of(old), content_of(new))
    if before.fingerprint != now.fingerprint:
        found += compare_definitions(before, now)
        found += find_suspicious((old, before), (new, now))
    found += _compare_options(old, new)
    if new.kind == "prompt":
        found = [replace(item, pointer=item.pointer.replace(*_ARGUMENTS, 1)) for item in found]
    return [_assign(change, new) for change in found]


def _assign(change: Change, tool: Component) -> Change:
    return replace(change, tool=tool.reference, source=definition_of(tool).source)


def _compare_options(old: Component, new: Component) -> Iterator[Change]:
    """Compare what clients are not told, where both sides know it."""
    if old.version != new.version and old.version is not None and new.version is not None:
        names = (old.version, new.version)
        yield make_change("version-changed", "compatible", "", "its version was {0} and is now {1}", names)
    if all(tool.options.scopes or not is_described(tool) for tool in (old, new)):
        yield from compare_scopes(list(old.options.scopes), list(new.options.scopes))


def _pair(
    old: Sequence[Component], new: Sequence[Component]
) -> tuple[list[tuple[Component, Component]], list[Component], list[Component]]:
    """Pair tools of the same name and version, then of the same name; also return the rest of both sides."""
    pairs: list[tuple[Component, Component]] = []
    keys: tuple[Callable[[Component], tuple[str, str | None]], ...] = (
        lambda tool: (tool.reference, tool.version),
        lambda tool: (tool.reference, None),
    )
    for key in keys:
        candidates: dict[tuple[str, str | None], list[Component]] = {}
        for tool in new:
            candidates.setdefault(key(tool), []).append(tool)
        taken: set[Component] = set()
        unpaired: list[Component] = []
        for tool in old:
            twins = candidates.get(key(tool))
            if twins:
                taken.add(twins[0])
                pairs.append((tool, twins.pop(0)))
            else:
                unpaired.append(tool)
        old, new = unpaired, [tool for tool in new if tool not in taken]
    return pairs, list(old), list(new)


def _describe_added(tools: Sequence[Component], known: Sequence[Component]) -> Iterator[Change]:
    def look(tool: Component) -> tuple[str, str]:
        return tool.kind, re.sub(r"[_.-]+", "", skeleton(tool.name))

    looks: dict[tuple[str, str], list[str]] = {}
    for tool in known:
        looks.setdefault(look(tool), []).append(tool.name)
    for tool in tools:
        found = [make_change(f"{tool.kind}-added", "compatible", "", "it is new")]
        twins = [name for name in looks.get(look(tool), ()) if name != tool.name]
        if twins:
            template = "it is new and its name is easily mistaken for {0}"
            found.append(make_change("name-resembles", "suspicious", "/name", template, (twins[0],)))
        found += find_suspicious(None, (tool, definition_of(tool)))
        yield from (_assign(change, tool) for change in found)


def _sort(changes: list[Change]) -> list[Change]:
    worst: dict[str, int] = {}
    for change in changes:
        worst[change.tool] = max(worst.get(change.tool, 0), GRADES.index(change.grade))

    def order(change: Change) -> tuple[Any, ...]:
        grade = GRADES.index(change.grade)
        return -worst[change.tool], change.tool, -grade, change.pointer, change.message

    return sorted(changes, key=order)
