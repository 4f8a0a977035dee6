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
from difflib import SequenceMatcher
from typing import Any

from toolcrib.catalog.diff import GRADES, Change, Grade, make_change
from toolcrib.catalog.diff.definitions import compare_definitions, compare_scopes, find_suspicious
from toolcrib.catalog.diff.features import compare_features
from toolcrib.catalog.diff.schemas import are_similar
from toolcrib.catalog.features import content_of, definition_of_feature
from toolcrib.catalog.lint.descriptions import skeleton
from toolcrib.definition import ToolDefinition
from toolcrib.registry.resources import Resource
from toolcrib.sources.described import is_described
from toolcrib.tool import Tool
from toolcrib.validation import codec

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
    old: Iterable[Tool], new: Iterable[Tool], progress: Callable[[int, int], None] | None = None
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
    for was, tool in _find_renamed_tools(removed, added):
        removed.remove(was)
        added.remove(tool)
        words = "it was called {0}: callers that use the old name will fail"
        code = f"{tool.kind}-renamed"
        renamed = make_change(code, "breaking", "/name", words, (was.name,), was.name, tool.name)
        changes.append(_assign(renamed, tool))
        changes += compare_tools(was, tool)
    for tool in removed:
        removal = make_change(f"{tool.kind}-removed", "breaking", "", "it was removed: callers will fail")
        changes.append(_assign(removal, tool))
    changes += _describe_added(added, [tool for tool in (*before, *now) if tool.kind != "resource"])
    noun = "tool" if all(tool.kind == "tool" for tool in (*before, *now)) else "definition"
    return Comparison(_sort(changes), len(before), len(now), noun)


def definition_of(tool: Tool) -> ToolDefinition:
    """Return the definition of a tool, without building it where the tool is only described. That of a
    resource or a prompt has what its list shows."""
    if tool.kind != "tool":
        return definition_of_feature(tool)
    origin = tool.origin
    if is_described(tool) and isinstance(origin, ToolDefinition) and origin.name == tool.name:
        return origin
    return tool.definition


def compare_tools(old: Tool, new: Tool) -> list[Change]:
    """Return what changed in one tool, resource or prompt, whatever it is called now."""
    before, now = definition_of(old), definition_of(new)
    found: list[Change] = []
    if new.kind != "tool":
        found += compare_features(content_of(old), content_of(new))
    if before.fingerprint != now.fingerprint:
        found += compare_definitions(before, now)
        found += find_suspicious((old, before), (new, now))
    found += _compare_options(old, new)
    if new.kind == "prompt":
        found = [replace(item, pointer=item.pointer.replace(*_ARGUMENTS, 1)) for item in found]
    return [_assign(change, new) for change in found]


def _assign(change: Change, tool: Tool) -> Change:
    return replace(change, tool=tool.reference, source=definition_of(tool).source)


def _compare_options(old: Tool, new: Tool) -> Iterator[Change]:
    """Compare what clients are not told, where both sides know it."""
    if old.version != new.version and old.version is not None and new.version is not None:
        names = (old.version, new.version)
        yield make_change("version-changed", "compatible", "", "its version was {0} and is now {1}", names)
    if all(tool.options.scopes or not is_described(tool) for tool in (old, new)):
        yield from compare_scopes(list(old.options.scopes), list(new.options.scopes))


def _pair(old: Sequence[Tool], new: Sequence[Tool]) -> tuple[list[tuple[Tool, Tool]], list[Tool], list[Tool]]:
    """Pair tools of the same name and version, then of the same name, then templates of the same URIs; also
    return the rest of both sides."""
    pairs: list[tuple[Tool, Tool]] = []
    keys: tuple[Callable[[Tool], tuple[str, str | None]], ...] = (
        lambda tool: (tool.reference, tool.version),
        lambda tool: (tool.reference, None),
        lambda tool: (_shape_of(tool), None),
    )
    for key in keys:
        candidates: dict[tuple[str, str | None], list[Tool]] = {}
        for tool in new:
            candidates.setdefault(key(tool), []).append(tool)
        taken: set[Tool] = set()
        unpaired: list[Tool] = []
        for tool in old:
            twins = candidates.get(key(tool))
            if twins:
                taken.add(twins[0])
                pairs.append((tool, twins.pop(0)))
            else:
                unpaired.append(tool)
        old, new = unpaired, [tool for tool in new if tool not in taken]
    return pairs, list(old), list(new)


def _shape_of(tool: Tool) -> str:
    template = tool.template if isinstance(tool, Resource) else None
    return tool.reference if template is None else template.skeleton


def _describe_added(tools: Sequence[Tool], known: Sequence[Tool]) -> Iterator[Change]:
    look_alikes = {
        kind: LookAlikes(dict.fromkeys(tool.name for tool in known if tool.kind == kind))
        for kind in {tool.kind for tool in tools}
    }
    for tool in tools:
        found = [make_change(f"{tool.kind}-added", "compatible", "", "it is new")]
        twin = look_alikes[tool.kind].find(tool.name)
        if twin is not None:
            template = "it is new and its name is easily mistaken for {0}"
            found.append(make_change("name-resembles", "suspicious", "/name", template, (twin,)))
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


# --- renamed tools, and names that look alike ---------------------------------------------------------------

_SIMILAR_TEXT = 0.6
_MAX_PAIRS = 20_000
_MIN_LENGTH = 6
"""Shorter names are not compared letter by letter: too many differ by one."""
_SEPARATORS = re.compile(r"[_.-]+")


def _find_renamed_tools(removed: Sequence[Tool], added: Sequence[Tool]) -> list[tuple[Tool, Tool]]:
    """Return pairs of tools that differ in nothing but the name, or in little and have similar names."""
    found: list[tuple[Tool, Tool]] = []
    candidates: dict[bytes, list[Tool]] = {}
    for tool in added:
        candidates.setdefault(_content(tool), []).append(tool)
    rest: list[Tool] = []
    for tool in removed:
        definition = definition_of(tool)
        is_telling = definition.description or definition.input_schema.get("properties")
        same = candidates.get(_content(tool), []) if is_telling else []
        if same:
            best = max(same, key=lambda other: SequenceMatcher(None, tool.name, other.name).ratio())
            same.remove(best)
            found.append((tool, best))
        else:
            rest.append(tool)
    free = [tool for tools in candidates.values() for tool in tools]
    if len(rest) * len(free) > _MAX_PAIRS:
        return found
    for tool in rest:
        definition = definition_of(tool)
        likely = [
            other
            for other in free
            if other.kind == tool.kind and _is_likely_rename(definition, definition_of(other))
        ]
        if len(likely) == 1:
            free.remove(likely[0])
            found.append((tool, likely[0]))
    return found


def _content(tool: Tool) -> bytes:
    found = definition_of(tool)
    return codec.canonical([tool.kind, found.description, found.input_schema, found.output_schema])


def _is_likely_rename(old: ToolDefinition, new: ToolDefinition) -> bool:
    if not are_similar(old.name, new.name):
        return False
    if {*old.input_schema.get("properties", ())} != {*new.input_schema.get("properties", ())}:
        return False
    texts = SequenceMatcher(None, old.description[:500], new.description[:500])
    return not old.description or texts.ratio() >= _SIMILAR_TEXT


class LookAlikes:
    """An index of names, to find the one that another name is easily mistaken for.

    Two names look alike with characters of the same shape, other separators, two letters exchanged, or one
    letter missing or doubled inside. Not at the end: get_user and get_users are both legitimate.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names: dict[str, list[tuple[str, str]]] = {}
        for name in names:
            for key in _keys(name):
                self._names.setdefault(key, []).append((name, _normalize(name)))

    def find(self, name: str) -> str | None:
        """Return another name that this one looks like."""
        plain = _normalize(name)
        near = [found for key in _keys(name) for found in self._names.get(key, ())]
        for other, text in near:
            # Of the same length, letters may only be exchanged: list_cats and list_bats are not alike.
            if other != name and (len(text) != len(plain) or sorted(text) == sorted(plain)):
                return other
        return None


def _normalize(name: str) -> str:
    return _SEPARATORS.sub("", skeleton(name))


def _keys(name: str) -> Iterator[str]:
    """Yield the name, and the name without one letter that is not the first or the last."""
    plain = _normalize(name)
    yield plain
    if len(plain) >= _MIN_LENGTH:
        for index in range(1, len(plain) - 1):
            if not plain[index].isdigit():
                yield plain[:index] + plain[index + 1 :]
