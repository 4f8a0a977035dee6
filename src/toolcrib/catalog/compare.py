"""Compare two catalogs, tool by tool, resource by resource and prompt by prompt, and grade every change.

    comparison = compare(old_tools, new_tools)
    comparison.worst, comparison.advice             # "breaking", "major"
    [change.message for change in comparison.changes]

Suspicious changes deserve a look before a model reads them: findings of the linter's rules on injected
instructions, credentials, links and hidden text that the old definition did not have; a host that was not
named before; and a new parameter that invites a model to send its conversation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from toolcrib.catalog.compare_schemas import (
    ANNOTATIONS,
    GRADES,
    Change,
    Grade,
    compare_schemas,
    make_change,
    shorten,
)
from toolcrib.catalog.lint import LintedTool, Problem, Rule
from toolcrib.catalog.lint.quality import skeleton
from toolcrib.catalog.lint.run import SUSPICION_RULES
from toolcrib.component import Component
from toolcrib.definition import ToolDefinition
from toolcrib.registry.resources import Resource
from toolcrib.sources.described import arguments_schema, is_described
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import pointer as to_pointer
from toolcrib.validation.schema_tree import walk

_ARGUMENTS = ("/inputSchema/properties/", "/arguments/")
"""Where the arguments of a prompt are in its definition, and where they are shown."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All changes, grouped by tool, the worst first."""

    changes: list[Change] = field(default_factory=list)
    before: int = 0
    after: int = 0
    noun: str = "tool"
    """The things compared: `tool`, or `definition` if there are resources or prompts."""

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
    """Return the definition of a tool, without building it if the tool is only described. The
    definition of a resource or a prompt is made of its entry in a list."""
    if tool.kind != "tool":
        return _definition_of_entry(tool)
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
        found += find_suspicious(LintedTool(old, before), LintedTool(new, now))
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
        found += find_suspicious(None, LintedTool(tool, definition_of(tool)))
        yield from (_assign(change, tool) for change in found)


def _sort(changes: list[Change]) -> list[Change]:
    worst: dict[str, int] = {}
    for change in changes:
        worst[change.tool] = max(worst.get(change.tool, 0), GRADES.index(change.grade))

    def order(change: Change) -> tuple[Any, ...]:
        grade = GRADES.index(change.grade)
        return -worst[change.tool], change.tool, -grade, change.pointer, change.message

    return sorted(changes, key=order)


# --- definitions -------------------------------------------------------------------------------------------

_MISSING: Any = object()
_MIN_SHARED = 0.6
"""Texts that share this part of their words were reworded; others say something else."""
_NEGATIONS = frozenset({"not", "no", "never", "without", "only", "always", "must", "don", "doesn", "cannot"})


_HINTS = {
    # the default, the value that is safe, and both values in words
    "readOnlyHint": (False, True, "only reads", "may change things"),
    "destructiveHint": (True, False, "destroys nothing", "may destroy things"),
    "idempotentHint": (False, True, "may be repeated without further effect", "acts anew at each call"),
    "openWorldHint": (True, False, "stays within its own data", "reaches external systems"),
}


def compare_definitions(old: ToolDefinition, new: ToolDefinition) -> list[Change]:
    """Return everything that differs, whatever the two are called."""
    before, now = (codec.decode(codec.canonical(definition.to_wire())) for definition in (old, new))
    schemas = before.get("inputSchema", True), now.get("inputSchema", True)
    found = compare_schemas(*schemas, "input", "/inputSchema")
    found += _compare_output_schemas(before.get("outputSchema"), now.get("outputSchema"))
    required = {f"{item.pointer}/default" for item in found if item.code == "now-required"}
    found += [item for item in compare_texts(before, now) if item.pointer not in required]
    has_changed = any(item.grade != "cosmetic" or item.code == "words-changed" for item in found)
    hints = before.get("annotations", {}), now.get("annotations", {})
    found += compare_hints(*hints, has_changed=has_changed)
    if not found and before | {"name": ""} != now | {"name": ""}:
        words = "its schema is written differently and means the same"
        found.append(make_change("spelled-differently", "cosmetic", "", words))
    return found


def _compare_output_schemas(old: Any, new: Any) -> list[Change]:
    pointer = "/outputSchema"
    if old is None and new is None:
        return []
    if old is None:
        template = "its result now has a schema"
        return [make_change("result-described", "compatible", pointer, template, (), None, new)]
    if new is None:
        template = "its result no longer has a schema: readers of structured results will fail"
        return [make_change("result-undescribed", "breaking", pointer, template, (), old, None)]
    return compare_schemas(old, new, "output", pointer)


# --- texts -------------------------------------------------------------------------------------------------


def compare_texts(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    """Compare what restricts no value: texts, defaults, examples, icons, `_meta`."""
    for key in ("title", "description"):
        yield from _compare_text(old.get(key, _MISSING), new.get(key, _MISSING), f"/{key}", f"the {key}", "")
    for key in ("inputSchema", "outputSchema"):
        before, now = _annotations(old.get(key), f"/{key}"), _annotations(new.get(key), f"/{key}")
        for pointer in before.keys() & now.keys():
            yield from _compare_annotations(before[pointer], now[pointer], pointer)
    extras: dict[str, tuple[str, Grade]] = {
        "icons": ("its icons changed", "cosmetic"),
        "_meta": ("its _meta changed", "compatible"),
    }
    for key, (template, grade) in extras.items():
        if codec.canonical(old.get(key)) != codec.canonical(new.get(key)):
            yield make_change("extras-changed", grade, f"/{key}", template, (), old.get(key), new.get(key))


def _annotations(schema: Any, pointer: str) -> dict[str, dict[str, Any]]:
    """Return the annotations of every subschema, by JSON pointer."""
    found: dict[str, dict[str, Any]] = {}
    for path, node in walk(schema):
        found[pointer + to_pointer(path)] = {
            key: node[key] for key in node if key in ANNOTATIONS or key.startswith("x-")
        }
    return found


def _compare_annotations(before: Mapping[str, Any], now: Mapping[str, Any], pointer: str) -> Iterator[Change]:
    # the parameter or field that the pointer leads to, such as `filter.name`
    named = [after for before, after in pairwise(pointer.split("/")) if before == "properties"]
    label = ".".join(named).replace("~1", "/").replace("~0", "~")
    for key in sorted(before.keys() | now.keys()):
        old, new = before.get(key, _MISSING), now.get(key, _MISSING)
        if old is not _MISSING and new is not _MISSING and codec.canonical(old) == codec.canonical(new):
            continue
        here = f"{pointer}/{key}"
        if key in ("title", "description", "$comment"):
            yield from _compare_text(old, new, here, f"the {key.strip('$')}", label)
        elif key == "default" and pointer.startswith("/inputSchema") and label:
            yield _compare_default(old, new, here, label)
        else:
            grade: Grade = "compatible" if key == "deprecated" or key.startswith("x-") else "cosmetic"
            template = "{0} of {1} changed" if label else "{0} changed"
            names = (key, label) if label else (key,)
            yield make_change("note-changed", grade, here, template, names, _or_none(old), _or_none(new))


def _compare_default(old: Any, new: Any, pointer: str, label: str) -> Change:
    shown = [codec.canonical(value).decode() if value is not _MISSING else "" for value in (old, new)]
    names = (label, *shown)
    if new is _MISSING:
        template = "{0} no longer names its default, {1}"
    elif old is _MISSING:
        template = "{0} now has the default {2}"
    else:
        template = "the default of {0} was {1} and is now {2}"
    return make_change(
        "default-changed", "compatible", pointer, template, names, _or_none(old), _or_none(new)
    )


def _compare_text(old: Any, new: Any, pointer: str, noun: str, label: str) -> Iterator[Change]:
    if old == new:
        return
    subject = f"{noun} of {{0}}" if label else noun
    is_description = "description" in noun
    grade: Grade = "cosmetic"
    if new is _MISSING or new == "":
        template, grade = f"{subject} was removed", "compatible" if is_description else "cosmetic"
    elif old is _MISSING or old == "":
        template = f"{subject} is new"
    elif not isinstance(old, str) or not isinstance(new, str):
        template = f"{subject} changed"
    elif old.split() == new.split():
        template = f"{subject} differs in white space only"
    elif is_description and not _is_rewording(old, new):
        template = f"{subject} has a new meaning: models may choose and use it differently"
        grade = "compatible"
    else:
        template = f"{subject} was reworded"
    names = (label,) if label else ()
    yield make_change("words-changed", grade, pointer, template, names, _or_none(old), _or_none(new))


def _is_rewording(old: str, new: str) -> bool:
    """Return whether most words are still there, and no negation came or went."""
    first, second = (Counter(re.findall(r"\w+", text.casefold())) for text in (old, new))
    if any(first[word] != second[word] for word in _NEGATIONS):
        return False
    return 2 * (first & second).total() >= _MIN_SHARED * (first.total() + second.total())


def _or_none(value: Any) -> Any:
    return None if value is _MISSING else value


# --- hints and scopes --------------------------------------------------------------------------------------


def compare_hints(old: Mapping[str, Any], new: Mapping[str, Any], *, has_changed: bool) -> Iterator[Change]:
    """Compare annotations. `has_changed` says that texts or schemas of the tool changed too.

    Clients run a tool without asking if it says that it only reads. So a hint that gets worse breaks their
    policy, and one that gets better while the rest changes deserves a look.
    """
    for key in sorted(old.keys() | new.keys()):
        before, now = old.get(key), new.get(key)
        if before == now:
            continue
        pointer = f"/annotations/{key}"
        both_read_only = old.get("readOnlyHint") is True and new.get("readOnlyHint") is True
        if key in _HINTS and not (key == "destructiveHint" and both_read_only):
            yield _compare_hint(key, before, now, has_changed)
            continue
        template = "its title changed" if key == "title" else "the annotation {0} changed"
        if key in _HINTS:
            template += ", which has no meaning beside readOnlyHint"
        yield make_change("annotation-changed", "cosmetic", pointer, template, (key,), before, now)


def _compare_hint(key: str, before: Any, now: Any, has_changed: bool) -> Change:
    default, safe_value, safe, unsafe = _HINTS[key]
    was_safe, is_safe = ((default if value is None else value) is safe_value for value in (before, now))
    words = safe if is_safe else unsafe
    grade: Grade
    if was_safe == is_safe:
        code, grade = "hint-spelled", "cosmetic"
        template = f"it now says that it {words}, which was the default"
        if now is None:
            template = f"it no longer says that it {words}, which is the default"
    elif was_safe:
        code, grade = "hint-worse", "breaking"
        template = f"it no longer {safe}: it {words}, so clients must not run it without asking"
    else:
        code, grade = "hint-better", "compatible"
        template = f"it now says that it {words}: clients may run it without asking"
        if before is not None and has_changed:
            grade = "suspicious"
            template = f"it said that it {unsafe}; it changed, and now says that it {words}"
    return make_change(code, grade, f"/annotations/{key}", template, (), before, now)


def compare_scopes(old: Sequence[str], new: Sequence[str]) -> Iterator[Change]:
    """Compare required scopes: fewer let more callers in, more keep some out."""
    removed, added = sorted({*old} - {*new}), sorted({*new} - {*old})
    if removed:
        template = "it no longer requires the scope {0}: more callers may use it"
        names = (", ".join(removed),)
        yield make_change("scopes-dropped", "suspicious", "", template, names, [*old], [*new])
    if added:
        template = "it now requires the scope {0}: callers without it will be refused"
        yield make_change("scopes-added", "breaking", "", template, (", ".join(added),), [*old], [*new])


# --- resources and prompts --------------------------------------------------------------------------------


def _definition_of_entry(tool: Component) -> ToolDefinition:
    """Return what clients are told of a resource or a prompt as a definition, so that it can be compared. The
    arguments of a prompt are its parameters."""
    wire = tool.to_wire()
    return ToolDefinition(
        name=tool.name,
        description=wire.get("description", ""),
        input_schema=arguments_schema(wire),
        title=wire.get("title"),
        version=tool.version,
        source=tool.source,
        icons=wire.get("icons", ()),
        meta=wire.get("_meta", {}),
    )


def content_of(tool: Component) -> dict[str, Any]:
    """Return the entry of a resource or a prompt without size and date, which its content decides. The entry
    of a file whose content is fixed, as in a skill, has the digest of the content."""
    wire = {key: value for key, value in tool.to_wire().items() if key != "size"}
    if isinstance(tool, Resource) and tool.digest is not None:
        wire["digest"] = tool.digest
    if "annotations" in wire:
        kept = {key: value for key, value in wire["annotations"].items() if key != "lastModified"}
        wire = wire | {"annotations": kept}
    return wire


def compare_entries(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Change]:
    """Yield the changes of a resource, a template or a prompt, given as in a list of MCP."""
    if "uri" not in new and "uriTemplate" not in new:
        return
    yield from _compare_type(old.get("mimeType"), new.get("mimeType"))
    if old.get("name") != new.get("name"):
        template = "the name that clients show changed"
        yield make_change(
            "label-changed", "cosmetic", "/name", template, (), old.get("name"), new.get("name")
        )
    if old.get("digest") != new.get("digest"):
        template = "its content changed, or the content of another file of the skill"
        digests = old.get("digest"), new.get("digest")
        yield make_change("content-changed", "compatible", "/digest", template, (), *digests)
    hints = old.get("annotations", {}), new.get("annotations", {})
    for key in sorted({*hints[0], *hints[1]}):
        if hints[0].get(key) != hints[1].get(key):
            grade: Grade = "compatible" if key == "audience" else "cosmetic"
            values = hints[0].get(key), hints[1].get(key)
            template = "the annotation {0} changed"
            yield make_change("annotation-changed", grade, f"/annotations/{key}", template, (key,), *values)


def _compare_type(old: str | None, new: str | None) -> Iterator[Change]:
    if old == new:
        return
    grade: Grade = "breaking"
    template = "its type was {0} and is now {1}: readers of the old type may fail"
    if old is None:
        grade, template = "compatible", "its type is now known: {1}"
    elif new is None:
        grade, template = "compatible", "its type is no longer given; it was {0}"
    yield make_change("type-changed", grade, "/mimeType", template, (str(old), str(new)), old, new)


# --- suspicion ---------------------------------------------------------------------------------------------

_ADDRESS = re.compile(
    r"(?:https?|wss?|ftp)://(?:[^\s/@]*@)?([\w.:\[\]-]+)|\b(www\.[\w.-]+)|[\w+-]@((?:[\w-]+\.)+[a-z]{2,})",
    re.IGNORECASE,
)
_CONTEXT_NAME = re.compile(
    r"(?:full|user|chat|conversation|session|model|system|agent|extra|additional|side|previous|complete)*"
    r"(?:context|conversations?|history|messages|transcript|prompts?|sidenotes?|reasoning|thoughts?|"
    r"environment|memory|background)"
)
_MAX_EXCERPT = 80


def find_suspicious(old: LintedTool | None, new: LintedTool) -> Iterator[Change]:
    """Yield findings of the linter that the old definition did not have, hosts that are new, and
    parameters for the conversation that a known tool did not have."""
    found = list(_lint(new))
    known = {_key(*item) for item in _lint(old)} if found and old is not None else set()
    for rule, problem in found:
        if _key(rule, problem) in known:
            continue
        known.add(_key(rule, problem))
        summary = rule.summary.replace("{", "{{").replace("}", "}}")
        template = f"{summary[0].lower()}{summary[1:]}: {{0}}"
        pointer = f"/inputSchema/properties/{problem.parameter}" if problem.parameter else ""
        text = shorten(" ".join((problem.excerpt or problem.message).split()), _MAX_EXCERPT)
        yield make_change(rule.code, "suspicious", pointer, template, (text,))
    addresses = list(_addresses(new))
    hosts = {host for host, _, _ in _addresses(old)} if addresses and old is not None else set()
    for host, pointer, text in addresses:
        if host not in hosts:
            hosts.add(host)
            template = "it now names the address {0}"
            yield make_change("new-address", "suspicious", pointer, template, (host,), None, text)
    if old is not None and new.tool.kind == "tool":  # people fill in the arguments of prompts
        yield from _find_context_parameters(old.definition.input_schema, new.definition.input_schema)


def _find_context_parameters(old: Any, new: Any) -> Iterator[Change]:
    """Find new parameters for any text whose names invite a model to put its conversation there."""
    known = {name for _, name, _ in _list_properties(old)}
    for pointer, name, schema in _list_properties(new):
        letters = re.sub(r"[^a-z]", "", name.casefold())
        if name not in known and _CONTEXT_NAME.fullmatch(letters) and _takes_free_text(schema):
            template = "{0} is new and takes any text: by its name, models may put their conversation there"
            yield make_change("context-parameter", "suspicious", pointer, template, (name,), None, schema)


def _list_properties(schema: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield a pointer, the name and the schema of every property that an input schema declares."""
    for path, node in walk(schema):
        properties = node.get("properties")
        for name, inner in properties.items() if isinstance(properties, Mapping) else ():
            yield f"/inputSchema{to_pointer((*path, 'properties', name))}", name, inner


def _takes_free_text(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return True
    types = schema.get("type", "string")
    types = types if isinstance(types, list) else [types]
    is_limited = schema.keys() & {"enum", "const", "pattern", "format"}
    return not is_limited and not {"integer", "number", "boolean", "null"}.issuperset(types)


def _lint(linted: LintedTool) -> Iterator[tuple[Rule, Problem]]:
    for rule in SUSPICION_RULES:
        if rule.check is not None and linted.tool.kind in rule.kinds:
            for problem in rule.check(linted):
                yield rule, problem


def _key(rule: Rule, problem: Problem) -> tuple[str, str]:
    return rule.code, problem.excerpt or problem.message


def _addresses(linted: LintedTool) -> Iterator[tuple[str, str, str]]:
    """Yield every host that a text in a definition names, a pointer to its parameter, and the text. Names do
    not count: the name of a resource is its URI."""
    for text in linted.texts:
        for found in _ADDRESS.finditer(text.text) if text.kind != "name" else ():
            host = (found[1] or found[2] or found[3]).casefold().rstrip(".:-")
            pointer = f"/inputSchema/properties/{text.parameter}" if text.parameter else ""
            yield re.sub(r":(?:80|443)$", "", host), pointer, text.text
