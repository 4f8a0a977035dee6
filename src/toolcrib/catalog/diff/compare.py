"""What changed between two catalogs, tool by tool, and how much it matters.

Each change has a grade: cosmetic (nobody notices), compatible (callers need not follow), breaking (some
callers will fail), suspicious (somebody should look before a model does). Two sets of tools in, changes out;
a tool that says what it said is not looked at. Refuses to know where the tools are from.

What changed in what a tool says of its effects, and in what it asks of its callers.

Clients run a tool without asking where it says that it only reads. So a hint that got worse breaks their
policy, and one that got better while the rest changed too deserves a look. Knows MCP's annotations and their
defaults; refuses to know schemas.

What in a definition somebody should look at before a model does, and was not there before.

The linter's rules on planted, hidden and smuggled text say what is odd; here it counts only where it is new.
So does an address of a host that was not named. Knows definitions and those rules; refuses to know schemas.

What changed in the words of a definition: titles, descriptions, examples, defaults.

Words are compared where they stand. Knows texts and where schemas have them; refuses to know whether they are
good, which is the linter's matter.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from toolcrib.catalog.diff.renames import LookAlikes, find_renamed_tools
from toolcrib.catalog.diff.schemas import Difference, Grade, compare_schemas
from toolcrib.catalog.diff.subset import ANNOTATIONS
from toolcrib.catalog.lint import LintedTool, Problem, Rule
from toolcrib.catalog.lint.table import SUSPICION_RULES
from toolcrib.definition import ToolDefinition
from toolcrib.errors import NO_LOCATION, Location
from toolcrib.sources.described import is_described
from toolcrib.tool import Tool
from toolcrib.validation import codec


@dataclass(frozen=True, slots=True)
class _Hint:
    """One annotation: what is taken where nothing is said, which value is harmless, and both in words."""

    default: bool
    harmless: bool
    safe: str
    harmful: str


_HINTS = {
    "readOnlyHint": _Hint(False, True, "only reads", "may change things"),
    "destructiveHint": _Hint(True, False, "destroys nothing", "may destroy things"),
    "idempotentHint": _Hint(False, True, "may be repeated without further effect", "acts anew at each call"),
    "openWorldHint": _Hint(True, False, "reaches no further than its own data", "reaches the world outside"),
}


def compare_hints(
    old: Mapping[str, Any], new: Mapping[str, Any], *, changed_otherwise: bool
) -> Iterator[Difference]:
    """`changed_otherwise`: its words or schemas are not what they were."""
    for key in sorted(old.keys() | new.keys()):
        before, now = old.get(key), new.get(key)
        if before == now:
            continue
        pointer = f"/annotations/{key}"
        hint = _HINTS.get(key)
        if hint is None:
            template = "its title changed" if key == "title" else "the annotation {0} changed"
            yield Difference("annotation-changed", "cosmetic", pointer, template, (key,), before, now)
            continue
        if key == "destructiveHint" and old.get("readOnlyHint") is True and new.get("readOnlyHint") is True:
            template = "the annotation {0} changed, which says nothing beside readOnlyHint"
            yield Difference("annotation-changed", "cosmetic", pointer, template, (key,), before, now)
            continue
        yield _weigh(hint, pointer, before, now, changed_otherwise)


def _weigh(hint: _Hint, pointer: str, before: Any, now: Any, changed_otherwise: bool) -> Difference:
    was_safe = (hint.default if before is None else before) is hint.harmless
    is_safe = (hint.default if now is None else now) is hint.harmless
    grade: Grade
    if was_safe == is_safe:
        template, grade = (
            f"it now says that it {hint.safe if is_safe else hint.harmful}, as was taken anyway",
            "cosmetic",
        )
        if now is None:
            template = (
                f"it no longer says that it {hint.safe if was_safe else hint.harmful}, which is still taken"
            )
    elif was_safe:
        template = (
            f"it no longer {hint.safe}: it {hint.harmful}, and clients that let it run unasked must not"
        )
        grade = "breaking"
    elif before is not None and changed_otherwise:
        template = f"it said that it {hint.harmful}; now that it changed, it says that it {hint.safe}"
        grade = "suspicious"
    else:
        template, grade = f"it now says that it {hint.safe}: clients may let it run unasked", "compatible"
    code = {"cosmetic": "hint-spelled", "breaking": "hint-worse"}.get(grade, "hint-better")
    return Difference(code, grade, pointer, template, (), before, now)


def compare_scopes(old: Sequence[str], new: Sequence[str]) -> Iterator[Difference]:
    """What callers must be allowed to: asking for less lets strangers in, asking for more shuts some out."""
    gone, come = sorted({*old} - {*new}), sorted({*new} - {*old})
    if gone:
        template = "it no longer asks for the scope {0}: more callers may use it"
        yield Difference("scopes-dropped", "suspicious", "", template, (", ".join(gone),), [*old], [*new])
    if come:
        template = "it now asks for the scope {0}: callers without it will be refused"
        yield Difference("scopes-added", "breaking", "", template, (", ".join(come),), [*old], [*new])


_ADDRESS = re.compile(
    r"(?:https?|wss?|ftp)://(?:[^\s/@]*@)?([\w.:\[\]-]+)|\b(www\.[\w.-]+)|[\w+-]@((?:[\w-]+\.)+[a-z]{2,})",
    re.IGNORECASE,
)
_LONGEST = 80


def find_suspicious(
    old: tuple[Tool, ToolDefinition] | None, new: tuple[Tool, ToolDefinition]
) -> Iterator[Difference]:
    """What is of a kind that the old definition had not."""
    found = list(_inspect(*new))
    known = {_mark(rule, problem) for rule, problem in _inspect(*old)} if found and old is not None else set()
    for rule, problem in found:
        mark = _mark(rule, problem)
        if mark in known:
            continue
        known.add(mark)
        summary = rule.summary.replace("{", "{{").replace("}", "}}")
        template = f"{summary[0].lower()}{summary[1:]}: {{0}}"
        pointer = f"/inputSchema/properties/{problem.parameter}" if problem.parameter else ""
        yield Difference(rule.code, "suspicious", pointer, template, (_show(problem),))
    addresses = list(_addresses(new[1].to_wire()))
    hosts = {host for host, _, _ in _addresses(old[1].to_wire())} if addresses and old is not None else set()
    for host, pointer, text in addresses:
        if host not in hosts:
            hosts.add(host)
            template = "it now names the address {0}"
            yield Difference("new-address", "suspicious", pointer, template, (host,), None, text)


def _inspect(tool: Tool, definition: ToolDefinition) -> Iterator[tuple[Rule, Problem]]:
    linted = LintedTool(tool, definition)
    for rule in SUSPICION_RULES:
        if rule.check is not None:
            for problem in rule.check(linted):
                yield rule, problem


def _mark(rule: Rule, problem: Problem) -> tuple[str, str]:
    return rule.code, problem.excerpt or problem.message


def _show(problem: Problem) -> str:
    text = " ".join((problem.excerpt or problem.message).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _addresses(node: Any, pointer: str = "") -> Iterator[tuple[str, str, str]]:
    """Every host that some text names, where, and the text."""
    waiting: list[tuple[Any, str]] = [(node, pointer)]
    while waiting:
        item, place = waiting.pop()
        if isinstance(item, str):
            for found in _ADDRESS.finditer(item):
                host = (found[1] or found[2] or found[3]).casefold().rstrip(".:-")
                yield re.sub(r":(?:80|443)$", "", host), place, item
        elif isinstance(item, Mapping):
            for key, child in item.items():
                name = str(key).replace("~", "~0").replace("/", "~1")
                if key not in ("$schema", "$ref", "$id"):
                    waiting.append((child, f"{place}/{name}"))
        elif isinstance(item, list | tuple):
            waiting += [(child, f"{place}/{index}") for index, child in enumerate(item)]


_LIGHT = 0.6
_TURNS = frozenset({"not", "no", "never", "without", "only", "always", "must", "don", "doesn", "cannot"})
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_SINGLES = (
    "items",
    "additionalItems",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
)
_NO_TEXT = object()


def compare_words(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    """The words of two definitions as they go out, and what else says something without being a rule."""
    for key, noun in (("title", "the title"), ("description", "the description")):
        yield from _compare_text(old.get(key, _NO_TEXT), new.get(key, _NO_TEXT), f"/{key}", noun, "")
    for key in ("inputSchema", "outputSchema"):
        before, now = _annotations(old.get(key), f"/{key}"), _annotations(new.get(key), f"/{key}")
        for pointer in before.keys() & now.keys():
            yield from _compare_annotations(before[pointer], now[pointer], pointer)
    extras: dict[str, tuple[str, Grade]] = {
        "icons": ("its icons changed", "cosmetic"),
        "_meta": ("what is under _meta changed", "compatible"),
    }
    for key, (template, grade) in extras.items():
        if codec.canonical(old.get(key)) != codec.canonical(new.get(key)):
            yield Difference("extras-changed", grade, f"/{key}", template, (), old.get(key), new.get(key))


def _annotations(schema: Any, pointer: str) -> dict[str, dict[str, Any]]:
    """What is said at each place of a schema."""
    found: dict[str, dict[str, Any]] = {}
    waiting = [(schema, pointer)]
    for node, place in waiting:  # grows on the way
        if not isinstance(node, Mapping):
            continue
        found[place] = {key: node[key] for key in node if key in ANNOTATIONS or key.startswith("x-")}
        for key in _MAPS:
            if isinstance(node.get(key), Mapping):
                waiting += [(child, f"{place}/{key}/{_escape(name)}") for name, child in node[key].items()]
        for key in _LISTS:
            if isinstance(node.get(key), list):
                waiting += [(child, f"{place}/{key}/{index}") for index, child in enumerate(node[key])]
        waiting += [(node[key], f"{place}/{key}") for key in _SINGLES if isinstance(node.get(key), Mapping)]
    return found


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def label_of(pointer: str) -> str:
    """The parameter or field that a place belongs to."""
    parts = pointer.split("/")
    named = [after for before, after in pairwise(parts) if before == "properties"]
    return ".".join(named).replace("~1", "/").replace("~0", "~")


def _compare_annotations(
    before: Mapping[str, Any], now: Mapping[str, Any], pointer: str
) -> Iterator[Difference]:
    label = label_of(pointer)
    is_input = pointer.startswith("/inputSchema")
    for key in sorted(before.keys() | now.keys()):
        old, new = before.get(key, _NO_TEXT), now.get(key, _NO_TEXT)
        if old is not _NO_TEXT and new is not _NO_TEXT and codec.canonical(old) == codec.canonical(new):
            continue
        place = f"{pointer}/{key}"
        if key in ("title", "description", "$comment"):
            yield from _compare_text(old, new, place, f"the {key.strip('$')}", label)
        elif key == "default" and is_input and label:
            yield _compare_default(old, new, place, label)
        else:
            grade: Grade = "compatible" if key == "deprecated" or key.startswith("x-") else "cosmetic"
            template = "{0} of {1} changed" if label else "{0} changed"
            names = (key, label) if label else (key,)
            yield Difference("note-changed", grade, place, template, names, _plain(old), _plain(new))


def _compare_default(old: Any, new: Any, pointer: str, label: str) -> Difference:
    shown = [codec.canonical(value).decode() if value is not _NO_TEXT else "" for value in (old, new)]
    if new is _NO_TEXT:
        template = "{0} no longer says that it is {1} where callers leave it out"
        names: tuple[str, ...] = (label, shown[0])
    elif old is _NO_TEXT:
        template, names = "{0} is now {1} where callers leave it out", (label, shown[1])
    else:
        template = "{0} is now {2} instead of {1} where callers leave it out"
        names = (label, *shown)
    return Difference("default-changed", "compatible", pointer, template, names, _plain(old), _plain(new))


def _compare_text(old: Any, new: Any, pointer: str, noun: str, label: str) -> Iterator[Difference]:
    if old == new:
        return
    about = f"{noun} of {{0}}" if label else noun
    grade: Grade = "cosmetic"
    if new is _NO_TEXT or new == "":
        template, grade = f"{about} is gone", "compatible" if "description" in noun else "cosmetic"
    elif old is _NO_TEXT or old == "":
        template = f"{about} is new"
    elif not isinstance(old, str) or not isinstance(new, str):
        template = f"{about} changed"
    elif old.split() == new.split():
        template = f"{about} is spaced differently"
    elif "description" in noun and not _is_light(old, new):
        template, grade = (
            f"{about} says something else now: models may choose and call it differently",
            "compatible",
        )
    else:
        template = f"{about} was reworded"
    yield Difference(
        "words-changed", grade, pointer, template, (label,) if label else (), _plain(old), _plain(new)
    )


def _is_light(old: str, new: str) -> bool:
    """Whether most words are still there, and none that turns the meaning came or went."""
    first, second = (Counter(re.findall(r"\w+", text.casefold())) for text in (old, new))
    if any(first[word] != second[word] for word in _TURNS):
        return False
    return 2 * (first & second).total() >= _LIGHT * (first.total() + second.total())


def _plain(value: Any) -> Any:
    return None if value is _NO_TEXT else value


GRADES: tuple[Grade, ...] = ("cosmetic", "compatible", "breaking", "suspicious")
"""From the least to the worst."""
_LONGEST_compare = 100
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
    source: Location = NO_LOCATION

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
    before, now = _plain_compare(old), _plain_compare(new)
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


def _plain_compare(definition: ToolDefinition) -> dict[str, Any]:
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


def _change(item: Difference, tool: str, source: Location) -> Change:
    old, new = _show_compare(item.old), _show_compare(item.new)
    if old is not None and new is not None:
        old, new = _from_where_they_differ(old, new)
    names = tuple(_cut(name, _LONGEST_NAME) for name in item.names)
    return Change(
        item.grade, item.code, tool, item.template, names, item.pointer, _cut(old), _cut(new), source
    )


def _show_compare(value: Any) -> str | None:
    return None if value is None else codec.canonical(value).decode()


def _from_where_they_differ(old: str, new: str) -> tuple[str, str]:
    """Two long texts from shortly before the place where they part."""
    if max(len(old), len(new)) <= _LONGEST_compare:
        return old, new
    same = next(
        (i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new))
    )
    start = max(0, same - 30)
    return (f"...{old[start:]}", f"...{new[start:]}") if start else (old, new)


def _cut(text: Any, longest: int = _LONGEST_compare) -> Any:
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
