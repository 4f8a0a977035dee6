"""What changed between two catalogs, tool by tool, and how much it matters.

Each change has a grade: cosmetic (nobody notices), compatible (callers need not follow), breaking (some
callers will fail), suspicious (somebody should look before a model does). Two sets of tools in, changes out;
a tool that says what it said is not looked at. Refuses to know where the tools are from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from toolcrib import codec
from toolcrib.catalog.compare_difference import Difference, Grade
from toolcrib.catalog.compare_hints import compare_hints, compare_scopes
from toolcrib.catalog.compare_names import LookAlikes, find_renamed_tools
from toolcrib.catalog.compare_schema import compare_schemas
from toolcrib.catalog.compare_suspicion import find_suspicious
from toolcrib.catalog.compare_words import compare_words
from toolcrib.definition import ToolDefinition
from toolcrib.described import is_described
from toolcrib.finding import NOWHERE, Source
from toolcrib.tool import Tool

GRADES: tuple[Grade, ...] = ("cosmetic", "compatible", "breaking", "suspicious")
"""From the least to the worst."""
_LONGEST = 100
_LONGEST_NAME = 120
_CONTEXT = re.compile(
    r"(?:full|user|chat|conversation|session|model|system|agent|extra|additional|side|previous|complete)*"
    r"(?:context|conversations?|history|messages|transcript|prompts?|sidenotes?|reasoning|thoughts?|"
    r"environment|memory|background)"
)


@dataclass(frozen=True, slots=True)
class Change:
    """One change. `template` is ours, `names` are another's; `message` is both. `old` and `new` are shortened
    JSON, `source` is where the tool is written now, or was."""

    grade: Grade
    code: str
    tool: str
    template: str
    names: tuple[str, ...] = ()
    pointer: str = ""
    old: str | None = None
    new: str | None = None
    source: Source = NOWHERE

    @property
    def message(self) -> str:
        return self.template.format(*(f"`{name}`" for name in self.names))

    def to_json(self) -> dict[str, Any]:
        return {
            "grade": self.grade,
            "code": self.code,
            "tool": self.tool,
            "message": self.message,
            "pointer": self.pointer or None,
            "old": self.old,
            "new": self.new,
            "file": self.source.file,
            "line": self.source.line,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """All changes, those of one tool together, the worst first."""

    changes: list[Change] = field(default_factory=list)
    before: int = 0
    after: int = 0

    @property
    def counts(self) -> dict[Grade, int]:
        """How many changes there are of each grade, the worst first."""
        grades = [change.grade for change in self.changes]
        return {grade: grades.count(grade) for grade in reversed(GRADES)}

    @property
    def worst(self) -> Grade | None:
        return max((change.grade for change in self.changes), key=GRADES.index, default=None)

    @property
    def tools(self) -> list[str]:
        """The names of what changed."""
        return list(dict.fromkeys(change.tool for change in self.changes))

    @property
    def advice(self) -> str:
        """Which part of a semantic version has to rise: major, minor, patch or none."""
        counts = self.counts
        if counts["breaking"]:
            return "major"
        if counts["compatible"] or counts["suspicious"]:
            return "minor"
        return "patch" if counts["cosmetic"] else "none"

    def at_least(self, grade: Grade) -> list[Change]:
        return [change for change in self.changes if GRADES.index(change.grade) >= GRADES.index(grade)]


def compare(old: Iterable[Tool], new: Iterable[Tool]) -> Comparison:
    """What became of the old tools, and which are new. Tools that cannot be built raise DefinitionError."""
    first, second = list(old), list(new)
    pairs, gone, come = _pair(first, second)
    changes: list[Change] = []
    for before, now in pairs:
        changes += compare_tools(before, now)
    definitions = {id(definition_of(tool)): tool for tool in (*gone, *come)}
    for was, heir in find_renamed_tools([definition_of(t) for t in gone], [definition_of(t) for t in come]):
        before, now = definitions[id(was)], definitions[id(heir)]
        gone.remove(before)
        come.remove(now)
        changes += _renamed(before, now)
    changes += [_removed(tool) for tool in gone]
    changes += _added(come, [tool.name for tool in (*first, *second)])
    return Comparison(_sort(changes), len(first), len(second))


def definition_of(tool: Tool) -> ToolDefinition:
    """What a tool says. Of one that is only described it is known without building anything."""
    origin = tool.origin
    if is_described(tool) and isinstance(origin, ToolDefinition) and origin.name == tool.name:
        return origin
    return tool.definition


def _pair(old: Sequence[Tool], new: Sequence[Tool]) -> tuple[list[tuple[Tool, Tool]], list[Tool], list[Tool]]:
    """Tools of one name and version; then of one name. The rest of both sides."""
    pairs: list[tuple[Tool, Tool]] = []
    for key in (lambda tool: (tool.name, tool.version), lambda tool: (tool.name, None)):
        there: dict[tuple[str, str | None], list[Tool]] = {}
        for tool in new:
            there.setdefault(key(tool), []).append(tool)
        taken: set[Tool] = set()
        left: list[Tool] = []
        for tool in old:
            twins = there.get(key(tool))
            if twins:
                taken.add(twins[0])
                pairs.append((tool, twins.pop(0)))
            else:
                left.append(tool)
        old, new = left, [tool for tool in new if tool not in taken]
    return pairs, list(old), list(new)


# --- one tool --------------------------------------------------------------------------------------------


def compare_tools(old: Tool, new: Tool) -> list[Change]:
    """What changed in one tool, whatever it is called now."""
    before, now = definition_of(old), definition_of(new)
    found: list[Difference] = []
    if before.fingerprint != now.fingerprint:
        found += _compare_definitions(before, now)
        found += _suspicious((old, before), (new, now), found)
    found += _compare_homes(old, new)
    return [_change(difference, new.name, now.source) for difference in found]


def _compare_definitions(old: ToolDefinition, new: ToolDefinition) -> list[Difference]:
    before, now = _plain(old), _plain(new)
    found = compare_schemas(
        before.get("inputSchema", True), now.get("inputSchema", True), "input", "/inputSchema"
    )
    found = [looked for item in found for looked in _look_at_new_parameter(item)]
    found += _compare_outputs(before.get("outputSchema"), now.get("outputSchema"))
    needed = {f"{item.pointer}/default" for item in found if item.code == "now-required"}
    found += [item for item in compare_words(before, now) if item.pointer not in needed]
    is_changed = any(item.grade != "cosmetic" or item.code == "words-changed" for item in found)
    hints = before.get("annotations", {}), now.get("annotations", {})
    found += compare_hints(*hints, changed_otherwise=is_changed)
    if not found and before | {"name": ""} != now | {"name": ""}:
        found.append(
            Difference("spelled-differently", "cosmetic", "", "it is written differently and means the same")
        )
    return found


def _suspicious(
    old: tuple[Tool, ToolDefinition], new: tuple[Tool, ToolDefinition], found: Sequence[Difference]
) -> list[Difference]:
    said = {item.pointer for item in found if item.code == "context-parameter"}
    return [item for item in find_suspicious(old, new) if item.pointer not in said]


def _plain(definition: ToolDefinition) -> dict[str, Any]:
    """A definition as readers of JSON get it."""
    plain: dict[str, Any] = codec.decode(codec.canonical(definition.to_wire()))
    return plain


def _compare_outputs(old: Any, new: Any) -> list[Difference]:
    pointer = "/outputSchema"
    if old is None and new is None:
        return []
    if old is None:
        template = "its result now has a schema"
        return [Difference("result-described", "compatible", pointer, template, (), None, new)]
    if new is None:
        template = "its result has no schema any more: readers of structured results will fail"
        return [Difference("result-undescribed", "breaking", pointer, template, (), old, None)]
    return compare_schemas(old, new, "output", pointer)


def _look_at_new_parameter(item: Difference) -> Iterator[Difference]:
    """A new place for free text about everything is how conversations are led out of a model. One that is
    required breaks callers, too."""
    if item.code != "added" or not _is_context_parameter(item):
        yield item
    if _is_context_parameter(item):
        template = (
            "{0} is new and takes any text: "
            "by its name, models may put what they know of the conversation there"
        )
        yield replace(item, code="context-parameter", grade="suspicious", template=template)


def _is_context_parameter(item: Difference) -> bool:
    if item.code not in ("added", "added-required") or not item.pointer.startswith("/inputSchema"):
        return False
    folded = re.sub(r"[^a-z]", "", item.names[0].rpartition(".")[2].casefold())
    return _CONTEXT.fullmatch(folded) is not None and _takes_free_text(item.new)


def _takes_free_text(node: Any) -> bool:
    if not isinstance(node, Mapping):
        return True
    if node.keys() & {"enum", "const", "pattern", "format"}:
        return False
    kinds = node.get("type", "string")
    return not {"integer", "number", "boolean"}.issuperset(kinds if isinstance(kinds, list) else [kinds])


def _compare_homes(old: Tool, new: Tool) -> Iterator[Difference]:
    """What clients are not told, where both sides know it."""
    if old.version != new.version and old.version is not None and new.version is not None:
        names = (old.version, new.version)
        yield Difference("version-changed", "compatible", "", "its version was {0} and is {1}", names)
    scopes = [
        None if is_described(t) and not t.options.scopes else list(t.options.scopes) for t in (old, new)
    ]
    if scopes[0] is not None and scopes[1] is not None:
        yield from compare_scopes(scopes[0], scopes[1])


# --- tools that came and went ------------------------------------------------------------------------------


def _removed(tool: Tool) -> Change:
    template = "it is gone: callers of it will fail"
    return Change("breaking", "tool-removed", tool.name, template, source=definition_of(tool).source)


def _renamed(old: Tool, new: Tool) -> list[Change]:
    source = definition_of(new).source
    words = "it was called {0}: callers that use the old name will fail"
    renamed = Change(
        "breaking", "tool-renamed", new.name, words, (old.name,), "/name", old.name, new.name, source
    )
    return [renamed, *compare_tools(old, new)]


def _added(tools: Sequence[Tool], names: Sequence[str]) -> Iterator[Change]:
    if not tools:
        return
    looks = LookAlikes(dict.fromkeys(names))
    for tool in tools:
        definition = definition_of(tool)
        source = definition.source
        yield Change("compatible", "tool-added", tool.name, "it is new", source=source)
        twin = looks.find(tool.name)
        if twin is not None:
            template = "it is new and its name is easily taken for {0}"
            yield Change("suspicious", "name-resembles", tool.name, template, (twin,), "/name", source=source)
        for difference in find_suspicious(None, (tool, definition)):
            yield _change(difference, tool.name, source)


# --- shapes ------------------------------------------------------------------------------------------------


def _change(item: Difference, tool: str, source: Source) -> Change:
    old, new = _show(item.old), _show(item.new)
    if old is not None and new is not None:
        old, new = _from_where_they_differ(old, new)
    names = tuple(_cut(name, _LONGEST_NAME) for name in item.names)
    return Change(
        item.grade, item.code, tool, item.template, names, item.pointer, _cut(old), _cut(new), source
    )


def _show(value: Any) -> str | None:
    return None if value is None else codec.canonical(value).decode()


def _from_where_they_differ(old: str, new: str) -> tuple[str, str]:
    """Two long texts from shortly before the place where they part."""
    if max(len(old), len(new)) <= _LONGEST:
        return old, new
    same = next(
        (i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new))
    )
    start = max(0, same - 30)
    return (f"...{old[start:]}", f"...{new[start:]}") if start else (old, new)


def _cut(text: Any, longest: int = _LONGEST) -> Any:
    return text if text is None or len(text) <= longest else f"{text[: longest - 3]}..."


def _sort(changes: list[Change]) -> list[Change]:
    worst: dict[str, int] = {}
    for change in changes:
        worst[change.tool] = max(worst.get(change.tool, 0), GRADES.index(change.grade))
    return sorted(
        changes,
        key=lambda change: (
            -worst[change.tool],
            change.tool,
            -GRADES.index(change.grade),
            change.pointer,
            change.message,
        ),
    )
