"""Compare two JSON Schemas of a tool and grade every difference.

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

from toolcrib.catalog import schema_algebra
from toolcrib.catalog.diff import Change, Grade, make_change
from toolcrib.catalog.schema_algebra import (
    TYPES,
    canonical_form,
    covers,
    flatten,
    identity,
    is_anything,
    is_nothing,
    type_of,
)
from toolcrib.catalog.schema_expansion import ExpansionError, expand
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import Schema

Use = Literal["input", "output"]

ANNOTATIONS = schema_algebra.ANNOTATIONS | {"$comment", "example"}
_LIMITS = {
    "minimum": "minimum",
    "exclusiveMinimum": "exclusive minimum",
    "minLength": "minimum length",
    "minItems": "minimum number of items",
    "minProperties": "minimum number of properties",
    "maximum": "maximum",
    "exclusiveMaximum": "exclusive maximum",
    "maxLength": "maximum length",
    "maxItems": "maximum number of items",
    "maxProperties": "maximum number of properties",
}
_RULES = {
    **_LIMITS,
    "pattern": "pattern",
    "format": "format",
    "multipleOf": "step",
    "uniqueItems": "uniqueness",
}
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
    "type-narrowed": ("{} no longer accepts ", "{} is no longer "),
    "type-widened": ("{} now also accepts ", "{} may now be "),
    "value-added": ("{} now also accepts {1}", "{} now also has the value {1}"),
    "value-removed": ("{} no longer accepts {1}", "{} no longer has the value {1}"),
}
_BREAKS_BOTH = frozenset({"changed", "incomparable", "removed"})
_BREAKS_CALLERS = frozenset(
    {"added-required", "names-closed", "now-required", "type-narrowed", "value-removed"}
)
_BREAKS_READERS = frozenset({"names-opened", "now-optional", "type-widened", "value-added"})
_NO_LIMIT = {"minItems": 0, "minProperties": 0, "uniqueItems": False}
_RECURSION = "toolcrib: recursion to "
_MAX_VALUES = 5
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
        token = name.replace("~", "~0").replace("/", "~1")
        label = f"{self.label}.{name}" if self.label else name
        return _Location(f"{self.pointer}/properties/{token}", label)

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
        unchecked = list(self._compare_unchecked(before, now, at))
        if is_accepted and is_expected:
            return unchecked
        found = list(self._describe_values(_Values.of(_union_of(before)), _Values.of(_union_of(now)), at))
        is_safe = is_accepted if self.is_input else is_expected
        if is_safe:
            found = [replace(item, grade="compatible") for item in found]
            if not found:
                words = _WORDS["changed-safely"][not self.is_input]
                found = [self._change("changed", at, words=words, breaks=False, old=old, new=new)]
        elif not any(item.grade == "breaking" for item in found):
            code = "changed" if is_safe is False else "incomparable"
            found.append(self._change(code, at, old=old, new=new))
        return found + unchecked

    def _describe_values(self, old: _Values | None, new: _Values | None, at: _Location) -> Iterator[Change]:
        if old is None or new is None:
            return
        yield from self._describe_types(old.types, new.types, at)
        yield from self._describe_enums(old, new, at)
        for name in ("string", "integer", "number", "array", "object"):
            if len(old.rules.get(name, ())) == 1 and len(new.rules.get(name, ())) == 1:
                yield from self._compare_rules(old.rules[name][0], new.rules[name][0], at)

    def _describe_types(self, old: list[str], new: list[str], at: _Location) -> Iterator[Change]:
        removed = [name for name in old if name not in new and not (name == "integer" and "number" in new)]
        added = [name for name in new if name not in old and not (name == "integer" and "number" in old)]
        if old and new and not set(old) & set(new):
            words = "{} was " + " or ".join(old) + " and is now " + " or ".join(new)
            is_breaking = bool(removed if self.is_input else added)
            yield self._change("type-changed", at, words=words, breaks=is_breaking, old=old, new=new)
            return
        for code, types in (("type-narrowed", removed), ("type-widened", added)):
            if types:
                words = _WORDS[code][not self.is_input] + " or ".join(types)
                yield self._change(code, at, words=words, old=old, new=new)

    def _describe_enums(self, old: _Values, new: _Values, at: _Location) -> Iterator[Change]:
        if old.listed and new.listed:
            removed = [value for value in old.listed if not new.may_be(value)]
            added = [value for value in new.listed if not old.may_be(value)]
            for code, values in (("value-removed", removed), ("value-added", added)):
                if values:
                    yield self._change(code, at, _list(values), old=old.listed, new=new.listed)
        elif any(old.may_be(value) for value in new.listed):
            words = "{} now only accepts {1}" if self.is_input else "{} now only has the value {1}"
            yield self._change("value-removed", at, _list(new.listed), words=words, new=new.listed)
        elif any(new.may_be(value) for value in old.listed):
            words = "{} is no longer limited to {1}"
            yield self._change("value-added", at, _list(old.listed), words=words, old=old.listed)

    def _compare_rules(self, old: Schema, new: Schema, at: _Location) -> Iterator[Change]:
        """Compare limits and other keywords of one type."""
        for key in _RULES:
            before, now = (
                _MISSING if node.get(key) == _NO_LIMIT.get(key) else node.get(key, _MISSING)
                for node in (old, new)
            )
            yield from self._compare_rule(key, before, now, at)

    def _compare_unchecked(self, before: list[Any], now: list[Any], at: _Location) -> Iterator[Change]:
        """Compare keywords that tell how to read a value, and that no validator checks."""
        for key in ("contentEncoding", "contentMediaType"):
            yield from self._compare_rule(key, _first(key, before), _first(key, now), at)
        old, new = (_first("format", [node for node in nodes if _is_number(node)]) for nodes in (before, now))
        yield from self._compare_rule("format", old, new, at)

    def _compare_rule(self, key: str, before: Any, now: Any, at: _Location) -> Iterator[Change]:
        if before == now:
            return
        noun = _RULES.get(key, key)
        is_breaking = _is_narrower(key, before, now) if self.is_input else _is_narrower(key, now, before)
        words = f"the {noun} of {{}} was {{1}} and is now {{2}}"
        if before is _MISSING:
            words = f"the {noun} of {{}} is now {{1}}"
        elif now is _MISSING:
            words = f"the {noun} of {{}}, {{1}}, was removed"
        names = [_show(value) for value in (before, now) if value is not _MISSING]
        code = "bound-changed" if key in _LIMITS else f"{key}-changed"
        here = replace(at, pointer=f"{at.pointer}/{key}")
        old, new = (None if value is _MISSING else value for value in (before, now))
        yield self._change(code, here, *names, words=words, breaks=is_breaking, old=old, new=new)

    # --- arrays and objects ---

    def _compare_arrays(self, old: Schema, new: Schema, at: _Location) -> list[Change]:
        found = list(self._compare_rules(old, new, at))
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
        found = list(self._compare_rules(old, new, at))
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
        """Compare what holds for names that are not declared."""
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
        """Make a change; `{}` in its words stands for the location."""
        subject = "{0}" if at.label else "the input"
        if not self.is_input:
            subject = "{0} of the result" if at.label else "the result"
        if breaks is None:
            breaks = code in _BREAKS_BOTH or code in (_BREAKS_CALLERS if self.is_input else _BREAKS_READERS)
        template = (words or _WORDS[code][not self.is_input]).replace("{}", subject, 1)
        grade: Grade = "breaking" if breaks else "compatible"
        return make_change(code, grade, at.pointer, template, (at.label, *names), old, new)


def _is_narrower(key: str, before: Any, now: Any) -> bool:
    """Return whether a keyword lets less through than before, or something else."""
    if now is _MISSING:
        return False
    if before is _MISSING or key not in _LIMITS:
        return True
    try:
        return bool(now < before) if key.startswith(("max", "exclusiveMax")) else bool(now > before)
    except TypeError:
        return True


def _is_number(node: Any) -> bool:
    return isinstance(node, Mapping) and node.get("type") in ("integer", "number")


def _first(key: str, nodes: list[Any]) -> Any:
    """Return the value of a keyword in the first of some schemas that has it."""
    return next((node[key] for node in nodes if isinstance(node, Mapping) and key in node), _MISSING)


def _show(value: Any) -> str:
    return value if isinstance(value, str) else codec.canonical(value).decode()


def _list(values: list[Any]) -> str:
    shown = ", ".join(codec.canonical(value).decode() for value in values[:_MAX_VALUES])
    more = len(values) - _MAX_VALUES
    return f"{shown} and {more} more" if more > 0 else shown


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


@dataclass(frozen=True, slots=True)
class _Values:
    """The types of values that a schema accepts, the values it lists, and the rules for values of a type."""

    types: list[str]
    listed: list[Any]
    rules: Mapping[str, list[Mapping[str, Any]]]

    @classmethod
    def of(cls, node: Any) -> _Values | None:
        """Describe a schema by its canonical form; None where there is none."""
        canonical = canonical_form(node)
        if canonical is None:
            return None
        schema = canonical.to_json_schema()
        listed: list[Any] = []
        rules: dict[str, list[Mapping[str, Any]]] = {}
        parts: list[Any] = [schema] if isinstance(schema, bool) else schema.get("anyOf", [schema])
        for part in parts:
            if is_nothing(part):
                continue
            if "$ref" in part:
                return None
            if "const" in part or "enum" in part:
                listed += part.get("enum", [part.get("const")])
                continue
            types = part.get("type", list(TYPES))
            for name in [types] if isinstance(types, str) else types:
                rules.setdefault(name, []).append(part)
        found = {*rules, *map(type_of, listed)}
        types = sorted(found - {"integer"} if "number" in found else found)
        return cls(types, [value for value in listed if value is not None], rules)

    def may_be(self, value: Any) -> bool:
        """Return whether a value is listed, or others of its type are accepted."""
        name = type_of(value)
        is_free = name in self.rules or (name == "integer" and "number" in self.rules)
        return is_free or identity(value) in map(identity, self.listed)
