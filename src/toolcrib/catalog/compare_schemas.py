"""Compare two JSON Schemas of a tool and grade every difference.

Grades: cosmetic (nobody notices), compatible (callers need not change), breaking (some callers will fail),
suspicious (somebody should look before a model does).

Arguments: everything that was accepted must still be accepted. Results: nothing may come that could not come
before. References are expanded, and recursion is compared once. Plain objects and arrays are compared part
by part, so that a difference has a readable path; about everything else the validation engine is asked
whether one schema covers the other. Where it does not know, the change may break callers and is graded
breaking.

One reading is not strict: where an object declares some properties and says nothing about others, the others
are assumed not to be sent. Otherwise no parameter could ever be added to an open schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from toolcrib.catalog import schemas
from toolcrib.catalog.schemas import (
    ExpansionError,
    canonical_form,
    covers,
    expand,
    flatten,
    is_anything,
    is_nothing,
)
from toolcrib.errors import NO_LOCATION, Location
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import Schema
from toolcrib.validation.schema_tree import pointer as to_pointer

Grade = Literal["cosmetic", "compatible", "breaking", "suspicious"]
GRADES: tuple[Grade, ...] = ("cosmetic", "compatible", "breaking", "suspicious")
"""From the least to the worst."""
_MAX_VALUE = 100
_MAX_NAME = 120
_CONTEXT = 30
"""Characters that are shown before the first difference of two long values."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one tool. `message` is `template` with the quoted `names`, which come from definitions.

    `old` and `new` are shortened JSON. `tool` and `source`, where it is written now, or was, are empty until
    the tool is known.
    """

    code: str
    grade: Grade
    pointer: str
    template: str
    names: tuple[str, ...] = ()
    old: str | None = None
    new: str | None = None
    tool: str = ""
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


def make_change(
    code: str,
    grade: Grade,
    pointer: str,
    template: str,
    names: tuple[str, ...] = (),
    old: Any = None,
    new: Any = None,
) -> Change:
    """Make a change of two JSON values, of which long ones are shown from the first difference."""
    before, now = (None if value is None else codec.canonical(value).decode() for value in (old, new))
    if before is not None and now is not None and max(len(before), len(now)) > _MAX_VALUE:
        same = next(
            (i for i, (a, b) in enumerate(zip(before, now, strict=False)) if a != b),
            min(len(before), len(now)),
        )
        start = max(0, same - _CONTEXT)
        before, now = (f"...{text[start:]}" if start else text for text in (before, now))
    names = tuple(shorten(name, _MAX_NAME) for name in names)
    before, now = (None if text is None else shorten(text, _MAX_VALUE) for text in (before, now))
    return Change(code, grade, pointer, template, names, before, now)


def shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


# --- comparing -------------------------------------------------------------------------------------------

Use = Literal["input", "output"]

ANNOTATIONS = schemas.ANNOTATIONS | {"$comment", "example"}
_PARTS = frozenset({"$schema", "additionalProperties", "items", "prefixItems", "properties", "required"})
"""Keywords that are compared part by part, and the vocabulary."""
_UNCHECKED = frozenset({"contentEncoding", "contentMediaType", "format"})
"""Keywords that tell how to read a value. A validator checks some formats, and of strings only."""
_WORDS = {
    # what changed: about arguments, and about results
    "added": ("{} is new and optional", "{} is new"),
    "added-required": ("{} is new and required: callers that do not send it will fail", "{} is new"),
    "changed": ("{} now rejects some values", "{} may now have other values"),
    "changed-safely": ("{} now accepts more values", "{} now has fewer values"),
    "incomparable": ("{} changed in a way that cannot be compared: it may break callers",) * 2,
    "names-closed": ("{} no longer accepts undeclared names",) * 2,
    "names-opened": ("{} now accepts undeclared names",) * 2,
    "now-optional": ("{} is now optional", "{} may now be missing: readers that rely on it will fail"),
    "now-required": ("{} is now required: callers that do not send it will fail", "{} is now always present"),
    "removed": (
        "{} was removed: callers that still send it will fail",
        "{} was removed: readers that use it will fail",
    ),
}
_COMPOSITIONS = frozenset({"allOf", "anyOf", "enum", "oneOf"})
_BREAKS_BOTH = frozenset({"changed", "incomparable", "removed"})
_BREAKS_CALLERS = frozenset({"added-required", "names-closed", "now-required"})
_BREAKS_READERS = frozenset({"names-opened", "now-optional"})
_RECURSION = "toolcrib: recursion to "
_MISSING: Any = object()


def compare_schemas(old: Any, new: Any, use: Use, pointer: str) -> list[Change]:
    """Return everything that changed except texts. `pointer` leads to the schema in its definition."""
    if codec.canonical(old) == codec.canonical(new):
        return []
    if use == "input":
        old, new = _with_properties(old), _with_properties(new)
    comparison, root = _Comparison(use), _Location(pointer, "")
    try:
        before, now = (expand(schema, (1,), _RECURSION).tree for schema in (old, new))
        found = comparison.compare(before, now, root)
    except (ExpansionError, AttributeError, KeyError, RecursionError, TypeError, ValueError):
        # It cannot be expanded, or is not a valid schema: definitions of other servers may be anything.
        found = comparison.compare_values([old], [new], set(), root)
    # Alternatives of a union have the same pointers, and may have the same differences.
    unique = {(item.code, item.grade, item.pointer, item.template, item.names): item for item in found}
    return list(unique.values())


def _with_properties(schema: Any) -> Any:
    """Arguments are declared one by one: a tool that declares none takes none."""
    is_bare = isinstance(schema, Mapping) and schema.get("type") == "object" and "properties" not in schema
    return {**schema, "properties": {}} if is_bare else schema


@dataclass(frozen=True, slots=True)
class _Location:
    """A place in both schemas: a JSON pointer, and a label such as `orders[].id`."""

    pointer: str
    label: str

    def property(self, name: str) -> _Location:
        label = f"{self.label}.{name}" if self.label else name
        return _Location(self.pointer + to_pointer(("properties", name)), label)

    def part(self, *steps: str, suffix: str) -> _Location:
        return _Location("/".join((self.pointer, *steps)), self.label + suffix)


class _Comparison:
    """The comparison of one pair of schemas."""

    def __init__(self, use: Use) -> None:
        self.is_input = use == "input"

    def compare(self, old: Any, new: Any, at: _Location) -> list[Change]:
        """Return what changed at a location and below it. Without a breaking difference, nothing breaks."""
        if codec.canonical(old) == codec.canonical(new):
            return []
        before, now = _alternatives(old), _alternatives(new)
        ends, ends_now = ([node for node in nodes if _ends_recursion(node)] for nodes in (before, now))
        if _union_of(ends) != _union_of(ends_now):
            return [self._change("incomparable", at)]
        before, now = ([node for node in nodes if not _ends_recursion(node)] for nodes in (before, now))
        if len(before) + len(now) > 2:
            one, other = _union_of(before), _union_of(now)
            if _covers(one, other) and _covers(other, one):
                return list(self._compare_unchecked(before, now, at))
        pairs = list(_pair_alternatives(before, now))
        found = self.compare_values(before, now, {id(node) for pair in pairs for node in pair}, at)
        for first, second in pairs:
            compare = self._compare_objects if first["type"] == "object" else self._compare_arrays
            found += compare(first, second, at)
        return found

    # --- values: everything that is not a pair of plain objects or arrays ---

    def compare_values(
        self, before: list[Any], now: list[Any], paired: set[int], at: _Location
    ) -> list[Change]:
        """Compare alternatives that are not paired with all alternatives of the other side."""
        old = _union_of([node for node in before if id(node) not in paired])
        new = _union_of([node for node in now if id(node) not in paired])
        is_accepted, is_expected = _covers(_union_of(now), old), _covers(_union_of(before), new)
        found = list(self._compare_unchecked(before, now, at))
        if is_accepted and is_expected:
            return found
        is_safe = is_accepted if self.is_input else is_expected
        changed = list(self._compare_keywords(_union_of(before), _union_of(now), at))
        found += [replace(item, grade="compatible") for item in changed] if is_safe else changed
        if is_safe and not found:
            words = _WORDS["changed-safely"][not self.is_input]
            found.append(self._change("changed", at, words=words, breaks=False, old=old, new=new))
        elif not is_safe and not any(item.grade == "breaking" for item in found):
            code = "changed" if is_safe is False else "incomparable"
            found.append(self._change(code, at, old=old, new=new))
        return found

    def _compare_keywords(self, old: Any, new: Any, at: _Location) -> Iterator[Change]:
        """Compare keywords one at a time, by the values of the type that each accepts. Nothing is said of
        schemas that are unions, or where only one lists its values."""
        old, new = _plain_form(old), _plain_form(new)
        if old is None or new is None or ("enum" in old) != ("enum" in new):
            return
        for key in sorted((old.keys() | new.keys()) - ANNOTATIONS - _PARTS - _INDEPENDENT - _UNCHECKED):
            one, other = ({name: node[name] for name in ("type", key) if name in node} for node in (old, new))
            is_safe = bool(_covers(other, one) if self.is_input else _covers(one, other))
            yield from self._compare_keyword(key, old.get(key, _MISSING), new.get(key, _MISSING), is_safe, at)

    def _compare_unchecked(self, before: list[Any], now: list[Any], at: _Location) -> Iterator[Change]:
        """Compare keywords that tell how to read a value, and that may not be checked."""
        for key in sorted(_UNCHECKED):
            old, new = _first(key, before), _first(key, now)
            is_safe = (new if self.is_input else old) is _MISSING
            yield from self._compare_keyword(key, old, new, is_safe, at)

    def _compare_keyword(
        self, key: str, before: Any, now: Any, is_safe: bool, at: _Location
    ) -> Iterator[Change]:
        if before == now:
            return
        words = f"the {key} of {{}} was {{1}} and is now {{2}}"
        if before is _MISSING:
            words = f"the {key} of {{}} is now {{1}}"
        elif now is _MISSING:
            words = f"the {key} of {{}}, {{1}}, was removed"
        names = [_show(value) for value in (before, now) if value is not _MISSING]
        here = replace(at, pointer=f"{at.pointer}/{key}")
        old, new = (None if value is _MISSING else value for value in (before, now))
        yield self._change(f"{key}-changed", here, *names, words=words, breaks=not is_safe, old=old, new=new)

    # --- arrays and objects ---

    def _compare_arrays(self, old: Schema, new: Schema, at: _Location) -> list[Change]:
        found = list(self._compare_keywords(old, new, at))
        first, second = old.get("prefixItems", []), new.get("prefixItems", [])
        rest, beyond = old.get("items", True), new.get("items", True)
        for index in range(max(len(first), len(second))):
            before = first[index] if index < len(first) else rest
            now = second[index] if index < len(second) else beyond
            found += self.compare(before, now, at.part("prefixItems", str(index), suffix=f"[{index}]"))
        return found + self.compare(rest, beyond, at.part("items", suffix="[]"))

    def _compare_objects(self, old: Schema, new: Schema, at: _Location) -> list[Change]:
        before, now = old.get("properties", {}), new.get("properties", {})
        required, required_now = {*old.get("required", ())}, {*new.get("required", ())}
        removed = [name for name in before if name not in now]
        added = [name for name in now if name not in before]
        found = list(self._compare_keywords(old, new, at))
        found += [self._change("removed", at.property(name), old=before[name]) for name in removed]
        for name in added:
            found += self._compare_added(old, now[name], name in required_now, at.property(name))
        for name in sorted(required ^ required_now):
            if name not in added or name in required:
                code = "now-required" if name in required_now else "now-optional"
                found.append(self._change(code, at.property(name)))
        for name in before.keys() & now.keys():
            found += self.compare(before[name], now[name], at.property(name))
        return found + self._compare_other_names(old, new, at)

    def _compare_added(self, old: Schema, schema: Any, is_required: bool, at: _Location) -> Iterator[Change]:
        code = "added-required" if is_required and self.is_input else "added"
        yield self._change(code, at, new=schema)
        others = old.get("additionalProperties", "properties" not in old)
        if self.is_input:
            is_safe, words = _covers(schema, others), "{} accepted other values while it was not declared"
        else:
            is_safe = is_nothing(others) or _covers(others, schema)
            words = "{} had other values while it was not declared"
        if not is_safe:
            yield self._change("changed", at, words=words, old=others, new=schema)

    def _compare_other_names(self, old: Schema, new: Schema, at: _Location) -> list[Change]:
        """Compare the rules for names that are not declared."""
        before, now = old.get("additionalProperties", True), new.get("additionalProperties", True)
        is_closed, was_closed = is_nothing(now), is_nothing(before)
        here = at.part("additionalProperties", suffix=".*" if at.label else "*")
        if not is_closed and not was_closed:
            return self.compare(before, now, here)
        if is_closed == was_closed:
            return []
        code = "names-closed" if is_closed else "names-opened"
        return [self._change(code, replace(here, label=at.label))]

    def _change(
        self,
        code: str,
        at: _Location,
        *names: str,
        words: str | None = None,
        breaks: bool | None = None,
        old: Any = None,
        new: Any = None,
    ) -> Change:
        """Make a change; `{}` in its words is replaced by the location."""
        subject = "{0}" if at.label else "the input"
        if not self.is_input:
            subject = "{0} of the result" if at.label else "the result"
        if breaks is None:
            breaks = code in _BREAKS_BOTH or code in (_BREAKS_CALLERS if self.is_input else _BREAKS_READERS)
        template = (words or _WORDS[code][not self.is_input]).replace("{}", subject, 1)
        grade: Grade = "breaking" if breaks else "compatible"
        return make_change(code, grade, at.pointer, template, (at.label, *names), old, new)


def _first(key: str, nodes: list[Any]) -> Any:
    """Return the value of a keyword in the first of some schemas that has it."""
    return next((node[key] for node in nodes if isinstance(node, Mapping) and key in node), _MISSING)


def _show(value: Any) -> str:
    return value if isinstance(value, str) else codec.canonical(value).decode()


# --- taking schemas apart -----------------------------------------------------------------------------------

_OBJECT = frozenset(
    {"type", "properties", "required", "additionalProperties", "minProperties", "maxProperties"}
)
_ARRAY = frozenset({"type", "items", "prefixItems", "minItems", "maxItems", "uniqueItems"})
_INDEPENDENT = frozenset(
    {
        "contains",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "if",
        "maxContains",
        "minContains",
        "not",
        "propertyNames",
        "then",
    }
)
"""Keywords that mean the same whatever else a schema says."""


def _alternatives(node: Any) -> list[Any]:
    """Return schemas of one type that together accept the same, or the schema itself."""
    if is_nothing(node):
        return []
    if not isinstance(node, Mapping):
        return [{}]
    own = {key: value for key, value in node.items() if key not in ANNOTATIONS}
    if own.keys() & {"allOf", "oneOf"} or ("anyOf" in own and len(own) > 1):
        flat = None if _RECURSION.encode() in codec.canonical(own) else flatten(own)
        if flat is None:
            return [own]
        own = {key: value for key, value in flat.items() if key not in ANNOTATIONS}
    if "anyOf" in own:
        return [item for part in own["anyOf"] for item in _alternatives(part)]
    types = own.get("type")
    return [{**own, "type": name} for name in types] if isinstance(types, list) else [own]


def _ends_recursion(node: Any) -> bool:
    values = node.get("enum") if node.keys() == {"enum"} else None
    return bool(values and isinstance(values[0], str) and values[0].startswith(_RECURSION))


def _covers(outer: Any, inner: Any) -> bool | None:
    """Return whether one schema covers another; what begins again in either is not known."""
    is_known = is_nothing(inner) or is_anything(outer)
    if not is_known and _RECURSION.encode() in codec.canonical([outer, inner]):
        return None
    return covers(outer, inner)


def _union_of(nodes: list[Any]) -> Any:
    if len(nodes) == 1:
        return nodes[0]
    return {"anyOf": nodes} if nodes else False


def _pair_alternatives(before: list[Any], now: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Pair objects and arrays that can be compared part by part: by tag, or else by position."""
    for name, keywords in (("object", _OBJECT), ("array", _ARRAY)):
        old, new = ([node for node in nodes if _is_plain(node, name, keywords)] for nodes in (before, now))
        pairs, rest = [], []
        for node in old:
            twin = next((other for other in new if _tag(other) == _tag(node)), None)
            if twin is None:
                rest.append(node)
            else:
                new.remove(twin)
                pairs.append((node, twin))
        if len(rest) == len(new):
            pairs += zip(rest, new, strict=True)
        yield from (pair for pair in pairs if _other_rules(pair[0]) == _other_rules(pair[1]))


def _tag(node: Mapping[str, Any]) -> bytes:
    """Return what tells an alternative from others: properties with a fixed value, or else everything."""
    fixed = {
        name: schema
        for name, schema in node.get("properties", {}).items()
        if isinstance(schema, Mapping) and ("const" in schema or len(schema.get("enum", ())) == 1)
    }
    return codec.canonical(fixed or node)


def _other_rules(node: Mapping[str, Any]) -> bytes:
    """Return the rules that are not compared part by part. They do not matter where both sides have them."""
    return codec.canonical({key: node[key] for key in node if key in _INDEPENDENT})


def _is_plain(node: Any, name: str, keywords: frozenset[str]) -> bool:
    if node.get("type") != name or not node.keys() <= keywords | _INDEPENDENT:
        return False
    return _RECURSION.encode() not in _other_rules(node)  # the same rule on something else


def _plain_form(node: Any) -> Mapping[str, Any] | None:
    """Return a schema with a type or a list of values; None for a union, or if it has no such form."""
    if not isinstance(node, Mapping) or "type" not in node or node.keys() & _COMPOSITIONS:
        canonical = canonical_form(node)
        node = None if canonical is None else canonical.to_json_schema()
    if not isinstance(node, Mapping) or node.keys() & {"$ref", "anyOf", "not"}:
        return None
    return {"enum": [node["const"]]} if "const" in node else node
