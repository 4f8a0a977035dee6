"""Compare two definitions of one tool: schemas, texts, hints and scopes; and find what is suspicious.

Suspicious is what somebody should look at before a model does: what the linter's rules on injected
instructions, credentials, links and hidden text report, where the old definition did not have it; a host that
was not named before; and a new parameter that invites a model to send its conversation.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from toolcrib.catalog.diff import Change, Grade, make_change
from toolcrib.catalog.diff.schemas import ANNOTATIONS, compare_schemas
from toolcrib.catalog.lint import LintedTool, Problem, Rule
from toolcrib.catalog.lint.table import SUSPICION_RULES
from toolcrib.catalog.schema_expansion import pointer as to_pointer
from toolcrib.component import Component
from toolcrib.definition import ToolDefinition
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import walk

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
        place = pointer + to_pointer(tuple(map(str, path)))
        found[place] = {key: node[key] for key in node if key in ANNOTATIONS or key.startswith("x-")}
    return found


def _label_of(pointer: str) -> str:
    """Return the parameter or field that a pointer leads to, such as `filter.name`."""
    named = [after for before, after in pairwise(pointer.split("/")) if before == "properties"]
    return ".".join(named).replace("~1", "/").replace("~0", "~")


def _compare_annotations(before: Mapping[str, Any], now: Mapping[str, Any], pointer: str) -> Iterator[Change]:
    label = _label_of(pointer)
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

    Clients run a tool without asking where it says that it only reads. So a hint that gets worse breaks their
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
        template = "its content changed, or that of another file of the skill"
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


def find_suspicious(
    old: tuple[Component, ToolDefinition] | None, new: tuple[Component, ToolDefinition]
) -> Iterator[Change]:
    """Yield what the linter reports of the new definition and not of the old one, hosts that are new, and
    parameters for the conversation that a known tool did not have."""
    found = list(_lint(*new))
    known = {_key(*item) for item in _lint(*old)} if found and old is not None else set()
    for rule, problem in found:
        if _key(rule, problem) in known:
            continue
        known.add(_key(rule, problem))
        summary = rule.summary.replace("{", "{{").replace("}", "}}")
        template = f"{summary[0].lower()}{summary[1:]}: {{0}}"
        pointer = f"/inputSchema/properties/{problem.parameter}" if problem.parameter else ""
        yield make_change(rule.code, "suspicious", pointer, template, (_excerpt(problem),))
    addresses = list(_addresses(new[1]))
    hosts = {host for host, _, _ in _addresses(old[1])} if addresses and old is not None else set()
    for host, pointer, text in addresses:
        if host not in hosts:
            hosts.add(host)
            template = "it now names the address {0}"
            yield make_change("new-address", "suspicious", pointer, template, (host,), None, text)

    if old is not None and new[0].kind == "tool":  # people fill in the arguments of prompts
        yield from _find_context_parameters(old[1].input_schema, new[1].input_schema)


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
            yield f"/inputSchema{to_pointer((*map(str, path), 'properties', name))}", name, inner


def _takes_free_text(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return True
    types = schema.get("type", "string")
    types = types if isinstance(types, list) else [types]
    is_limited = schema.keys() & {"enum", "const", "pattern", "format"}
    return not is_limited and not {"integer", "number", "boolean", "null"}.issuperset(types)


def _lint(tool: Component, definition: ToolDefinition) -> Iterator[tuple[Rule, Problem]]:
    linted = LintedTool(tool, definition)
    for rule in SUSPICION_RULES:
        if rule.check is not None and tool.kind in rule.kinds:
            for problem in rule.check(linted):
                yield rule, problem


def _key(rule: Rule, problem: Problem) -> tuple[str, str]:
    return rule.code, problem.excerpt or problem.message


def _excerpt(problem: Problem) -> str:
    text = " ".join((problem.excerpt or problem.message).split())
    return text if len(text) <= _MAX_EXCERPT else f"{text[: _MAX_EXCERPT - 3]}..."


def _addresses(definition: ToolDefinition) -> Iterator[tuple[str, str, str]]:
    """Yield every host that a text in a definition names, a pointer to the text, and the text. The name is no
    such text: that of a resource is its URI."""
    pending: list[tuple[Any, str]] = [(definition.to_wire() | {"name": ""}, "")]
    while pending:
        item, pointer = pending.pop()
        if isinstance(item, str):
            for found in _ADDRESS.finditer(item):
                host = (found[1] or found[2] or found[3]).casefold().rstrip(".:-")
                yield re.sub(r":(?:80|443)$", "", host), pointer, item
        elif isinstance(item, Mapping):
            for key, child in item.items():
                token = str(key).replace("~", "~0").replace("/", "~1")
                if key not in ("$schema", "$ref", "$id"):
                    pending.append((child, f"{pointer}/{token}"))
        elif isinstance(item, list | tuple):
            pending += [(child, f"{pointer}/{index}") for index, child in enumerate(item)]
