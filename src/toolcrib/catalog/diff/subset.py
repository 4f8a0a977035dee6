"""Whether everything that fits one schema fits another. Yes is certain; no may mean that it cannot be told.

One reading is kept throughout: where some names are declared, and others neither declared nor forbidden, the
others are not sent. Else no parameter could ever be added to an open schema. Knows branches; refuses to know
words.

Schemas taken apart: every form of value that one takes, with references followed and unions spelled out.

A schema becomes a list of branches, each for one kind of value and with plain keywords only; a value fits the
schema where it fits one of them. What cannot be put so is an UnclearError, and never guessed. Knows JSON
Schema as data; refuses to know tools, and which change is good or bad.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.errors import InvalidSchemaError
from toolcrib.validation import codec
from toolcrib.validation.validator import Validator

KINDS = ("null", "boolean", "integer", "number", "string", "array", "object")
ANNOTATIONS = frozenset(
    {
        "title",
        "description",
        "default",
        "examples",
        "example",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$comment",
    }
)
_IDENTITY = frozenset({"$schema", "$id", "$defs", "definitions", "$anchor"})
_COMBINED = ("$ref", "allOf", "anyOf", "oneOf")
MADE_OF_NAMES = ("properties", "patternProperties", "additionalProperties")
_MADE_OF_ITEMS = ("items", "prefixItems", "additionalItems")
FACTS: Mapping[str, tuple[str, ...]] = {
    "string": ("minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format"),
    "array": ("minItems", "maxItems", "uniqueItems", *_MADE_OF_ITEMS),
    "object": ("minProperties", "maxProperties", "required", *MADE_OF_NAMES),
    "null": (),
    "boolean": (),
}
OPAQUE: Mapping[str, tuple[str, ...]] = {
    "string": ("contentSchema",),
    "number": (),
    "array": (),
    "object": ("propertyNames", "dependentRequired", "dependentSchemas", "dependencies"),
    "null": (),
    "boolean": (),
}
"""What is compared as a whole, by kind of value: the same, or not comparable."""
_OPAQUE_FOR_ALL = ("not", "if", "then", "else")
_INVOLVED = frozenset(
    {
        "contains",
        "minContains",
        "maxContains",
        "unevaluatedItems",
        "unevaluatedProperties",
        "$dynamicRef",
        "$recursiveRef",
    }
)
"""What depends on its neighbours: it can be left out of account, but not be relied on."""
_LOWER = ("minLength", "minItems", "minProperties", "minimum", "exclusiveMinimum")
_UPPER = ("maxLength", "maxItems", "maxProperties", "maximum", "exclusiveMaximum")
_MOST_BRANCHES = 256
_MOST_PAIRS = 100_000
_DEEPEST = 60


class UnclearError(Exception):
    """A schema that cannot be taken apart; whoever compares it must expect the worst."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One kind of value and what must hold of it; or `values`, all that there are."""

    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    opaque: Mapping[str, Any] = field(default_factory=dict)
    values: tuple[Any, ...] | None = None


@dataclass(slots=True)
class Document:
    """A whole schema, within which references lead."""

    root: Any
    spoiled: bool = field(init=False)
    old_draft: bool = field(init=False)

    def __post_init__(self) -> None:
        top = self.root if isinstance(self.root, Mapping) else {}
        self.old_draft = "draft-0" in str(top.get("$schema", ""))
        inner = {key: value for key, value in top.items() if key != "$id"}
        self.spoiled = b'"$id"' in codec.canonical(inner)  # references may lead elsewhere than they seem to

    def follow(self, reference: Any) -> Any:
        """What a reference leads to. Raises UnclearError."""
        if self.spoiled or not isinstance(reference, str) or "%" in reference:
            raise UnclearError
        if reference != "#" and not reference.startswith("#/"):
            raise UnclearError  # an anchor, or another document
        node = self.root
        for part in reference.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isdigit() and int(key) < len(node):
                node = node[int(key)]
            else:
                raise UnclearError
        return node

    @property
    def definitions(self) -> dict[str, Any]:
        top = self.root if isinstance(self.root, Mapping) else {}
        return {key: top[key] for key in ("$schema", "$defs", "definitions") if key in top}


def branches(node: Any, document: Document, *, exact: bool) -> list[Branch]:
    """Every form of value that fits. Not `exact`: perhaps more, never fewer. Raises UnclearError."""
    found: list[Branch] = []
    for plain in _spell_out(node, document, exact, 0):
        found.extend(_split(plain, exact))
    return found


# --- references, unions and intersections --------------------------------------------------------------


def _spell_out(node: Any, document: Document, exact: bool, depth: int) -> list[dict[str, Any]]:
    """The schema as alternatives without references and combinations."""
    if node is True:
        return [{}]
    if node is False:
        return []
    if not isinstance(node, Mapping) or depth > _DEEPEST:
        raise UnclearError
    own = {
        key: value
        for key, value in node.items()
        if key not in ANNOTATIONS and key not in _IDENTITY and key not in _COMBINED
    }
    if own.keys() & _INVOLVED:
        if exact:
            raise UnclearError
        own = {key: value for key, value in own.items() if key not in _INVOLVED}
    found = [own]
    if "$ref" in node:
        if document.old_draft and own:
            raise UnclearError  # where what stands beside a reference is ignored
        found = _cross(found, _spell_out(document.follow(node["$ref"]), document, exact, depth + 1))
    for part in _listed(node, "allOf"):
        found = _cross(found, _spell_out(part, document, exact, depth + 1))
    for keyword in ("anyOf", "oneOf"):
        if keyword not in node:
            continue
        parts = [_spell_out(part, document, exact, depth + 1) for part in _listed(node, keyword)]
        if keyword == "oneOf" and exact and not _are_apart(parts):
            raise UnclearError  # a value that fits two of them fits none
        found = _cross(found, [form for part in parts for form in part])
    return found


def _listed(node: Mapping[str, Any], keyword: str) -> list[Any]:
    value = node.get(keyword, [])
    if not isinstance(value, list):
        raise UnclearError
    return value


def _cross(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if len(first) * len(second) > _MOST_BRANCHES:
        raise UnclearError
    return [both for one in first for other in second if (both := _meet(one, other)) is not None]


def _meet(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any] | None:
    """What fits both; None where nothing does. UnclearError: that takes more than plain keywords."""
    if not one or not other:
        return one or other
    kinds = _common_kinds(one, other)
    if not kinds:
        return None
    met = {**one, **other, "type": sorted(kinds)}
    first, second = _values_of(one), _values_of(other)
    if first is not None or second is not None:
        met.pop("const", None)
        met["enum"] = _pick(first, second) if first is not None and second is not None else first or second
    for group in (MADE_OF_NAMES, _MADE_OF_ITEMS):
        if any(key in one for key in group) and any(key in other for key in group):
            _meet_group(met, one, other, group[0], group[1:])
    for key in one.keys() & other.keys() - {"type", "enum", "const", *MADE_OF_NAMES, *_MADE_OF_ITEMS}:
        met[key] = _meet_value(key, one[key], other[key])
    if any(key in one for key in ("if", "then", "else")) and any(
        key in other for key in ("if", "then", "else")
    ):
        raise UnclearError
    return met


def _meet_group(
    met: dict[str, Any], one: dict[str, Any], other: dict[str, Any], main: str, others: tuple[str, ...]
) -> None:
    """Keywords that mean something only together: met where each side has but the main one."""
    if any(key in side for key in others for side in (one, other)):
        raise UnclearError
    if main == "items":
        met[main] = {"allOf": [one[main], other[main]]}
        return
    names = {**one[main], **other[main]}
    both = one[main].keys() & other[main].keys()
    met[main] = names | {name: {"allOf": [one[main][name], other[main][name]]} for name in both}


def _meet_value(key: str, one: Any, other: Any) -> Any:
    if key == "required" and isinstance(one, list) and isinstance(other, list):
        return sorted({*map(str, one), *map(str, other)})
    if key in (*_LOWER, *_UPPER) and is_number(one) and is_number(other):
        return max(one, other) if key in _LOWER else min(one, other)
    if codec.canonical(one) != codec.canonical(other):
        raise UnclearError
    return one


def _pick(values: list[Any], among: list[Any]) -> list[Any]:
    """The values that are in both lists."""
    known = {codec.canonical(value) for value in among}
    picked = [value for value in values if codec.canonical(value) in known]
    rest = [value for value in values if codec.canonical(value) not in known]
    if not _are_distinct(rest, among):
        raise UnclearError  # 1 and 1.0, somewhere
    return picked


# --- kinds ---------------------------------------------------------------------------------------------


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def kinds_of(plain: Mapping[str, Any]) -> frozenset[str]:
    """The kinds of value that a schema's own `type` allows. A number that must be whole is an integer."""
    said = plain.get("type")
    if said is None:
        return frozenset(KINDS) - {"integer"}
    kinds = frozenset(said) if isinstance(said, list) else frozenset([said])
    if not all(isinstance(kind, str) and kind in KINDS for kind in kinds):
        raise UnclearError
    return kinds - {"integer"} if "number" in kinds else kinds


def _common_kinds(one: Mapping[str, Any], other: Mapping[str, Any]) -> frozenset[str]:
    """The kinds that both allow; an integer is a number."""
    first, second = kinds_of(one), kinds_of(other)
    whole = {"integer"} if {"integer", "number"} <= first | second else frozenset[str]()
    return (first & second) | whole


def _values_of(plain: Mapping[str, Any]) -> list[Any] | None:
    """The values that are listed, where they are."""
    listed = plain.get("enum")
    if listed is not None and not isinstance(listed, list):
        raise UnclearError
    if "const" not in plain:
        return listed
    return [plain["const"]] if listed is None else _pick([plain["const"]], listed)


def _split(plain: dict[str, Any], exact: bool) -> Iterator[Branch]:
    """One branch for each kind of value."""
    values = _values_of(plain)
    kinds = kinds_of(plain)
    if values is not None:
        rest = plain.keys() - {"type", "enum", "const"}
        if exact and any(key in rest for key in _CONSTRAINTS):
            raise UnclearError  # some of the values may not fit after all
        fitting = tuple(value for value in values if _is_of(value, kinds))
        if fitting:
            yield Branch("values", values=fitting)
        return
    shared = {key: plain[key] for key in _OPAQUE_FOR_ALL if key in plain}
    for kind in sorted(kinds):
        if kind in ("null", "boolean") and not (shared and exact):
            yield Branch("values", values=(None,) if kind == "null" else (False, True))
            continue
        family = "number" if kind == "integer" else kind
        facts = {key: plain[key] for key in FACTS[family] if key in plain}
        opaque = shared | {key: plain[key] for key in OPAQUE[family] if key in plain}
        yield Branch(kind, facts, opaque)


_CONSTRAINTS = frozenset(
    {
        *_OPAQUE_FOR_ALL,
        *(key for keys in FACTS.values() for key in keys),
        *(key for keys in OPAQUE.values() for key in keys),
    }
)


def kind_of(value: Any) -> str:
    """The kind of one JSON value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _is_of(value: Any, kinds: frozenset[str]) -> bool:
    kind = kind_of(value)
    return kind in kinds or (kind == "integer" and "number" in kinds)


# --- alternatives that exclude each other ----------------------------------------------------------------


def _are_apart(parts: list[list[dict[str, Any]]]) -> bool:
    """Whether no value fits two of the parts, as far as can be seen."""
    return all(
        _is_apart(one, other)
        for index, first in enumerate(parts)
        for second in parts[index + 1 :]
        for one in first
        for other in second
    )


def _is_apart(one: dict[str, Any], other: dict[str, Any]) -> bool:
    common = _common_kinds(one, other)
    if not common:
        return True
    values, others = _values_of(one), _values_of(other)
    if values is not None and others is not None:
        return _are_distinct(values, others)
    if common != {"object"}:
        return False
    required = set(_listed(one, "required")) & set(_listed(other, "required"))
    return any(
        _are_distinct(first, second)
        for name in required
        if (first := _marks(one, name)) is not None and (second := _marks(other, name)) is not None
    )


def _marks(plain: dict[str, Any], name: Any) -> list[Any] | None:
    """The values by which a property tells a record's kind."""
    node = plain.get("properties", {}).get(name)
    return _values_of(node) if isinstance(node, Mapping) and "$ref" not in node else None


def _are_distinct(first: list[Any], second: list[Any]) -> bool:
    """Whether two lists have no value in common; 1 and 1.0 are one."""
    if len(first) * len(second) > _MOST_PAIRS:
        raise UnclearError
    return not any(kind_of(one) == kind_of(other) and one == other for one in first for other in second)


_MOST_STEPS = 20_000
_LONGEST_LIST = 2_000
_MISSING = object()


class Comparer:
    """Compares the parts of one schema with those of another, in both directions."""

    def __init__(self, old: Any, new: Any) -> None:
        self.old, self.new = Document(old), Document(new)

    def relate(self, old: Any, new: Any) -> tuple[bool, bool]:
        """Whether what fits the old fits the new, and whether what fits the new fits the old."""
        return (
            _Subset(self.old, self.new).holds(old, new),
            _Subset(self.new, self.old).holds(new, old),
        )


class _Subset:
    """One question: is what fits a part of `inner` always right for a part of `outer`?"""

    def __init__(self, inner: Document, outer: Document) -> None:
        self.inner, self.outer = inner, outer
        self.steps = 0
        self.depth = 0
        self.open: dict[tuple[bytes, bytes], int] = {}
        definitions = outer.definitions
        self.is_plain = not (inner.spoiled or outer.spoiled or _leads_elsewhere(definitions))
        self.has_same = codec.canonical(inner.definitions) == codec.canonical(definitions)

    def holds(self, inner: Any, outer: Any) -> bool:
        try:
            return self._holds(inner, outer)
        except (UnclearError, RecursionError, TypeError, ValueError, AttributeError):
            return False  # what is no schema at all cannot be compared either

    def _holds(self, inner: Any, outer: Any) -> bool:
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise UnclearError
        if outer is True or outer == {} or inner is False:
            return True
        if self._is_same(inner, outer):
            return True
        key = codec.canonical(inner), codec.canonical(outer)
        if key in self.open:
            # Records that hold records of their own kind: it holds for the outer one if it does for all that
            # is in it, and values end somewhere. Not where nothing was opened on the way.
            return self.depth > self.open[key]
        self.open[key] = self.depth
        try:
            return self._compare(inner, outer)
        finally:
            del self.open[key]

    def _is_same(self, inner: Any, outer: Any) -> bool:
        if codec.canonical(inner) != codec.canonical(outer):
            return False
        if not _refers(inner) or (inner is self.inner.root and outer is self.outer.root):
            return True
        return self.is_plain and self.has_same and not _leads_elsewhere(inner)

    def _compare(self, inner: Any, outer: Any) -> bool:
        left = branches(inner, self.inner, exact=False)
        try:
            right = branches(outer, self.outer, exact=True)
        except UnclearError:
            # Of a schema that is too involved to be taken apart, it can still be asked whether values fit.
            return all(branch.values is not None and self._all_fit(branch.values, outer) for branch in left)
        return all(self._is_covered(branch, right, outer) for branch in left)

    def _is_covered(self, branch: Branch, right: list[Branch], outer: Any) -> bool:
        if branch.values is None:
            return any(self._covers(other, branch) for other in right)
        listed = {codec.canonical(value) for other in right for value in other.values or ()}
        rest = tuple(value for value in branch.values if codec.canonical(value) not in listed)
        return self._all_fit(rest, outer)

    def _all_fit(self, values: tuple[Any, ...], outer: Any) -> bool:
        if not values:
            return True
        if len(values) > _LONGEST_LIST or not isinstance(outer, Mapping):
            return False
        if outer is not self.outer.root and not (self.is_plain and not _leads_elsewhere(outer)):
            return False  # a reference would lead elsewhere from here than from where it stands
        try:
            validator = Validator({**outer, **self.outer.definitions})
        except (InvalidSchemaError, ValueError, TypeError):
            return False
        return all(validator.excess(value) is None and validator.is_valid(value) for value in values)

    def _covers(self, outer: Branch, inner: Branch) -> bool:
        if outer.values is not None:
            return False  # the other has more values than can be listed
        if inner.kind != outer.kind and (inner.kind, outer.kind) != ("integer", "number"):
            return False
        for key, value in outer.opaque.items():
            if key not in inner.opaque or not self._is_same(inner.opaque[key], value):
                return False
        match outer.kind:
            case "string":
                return _covers_text(inner.facts, outer.facts)
            case "array":
                return self._covers_array(inner.facts, outer.facts)
            case "object":
                return self._covers_object(inner.facts, outer.facts)
            case "null" | "boolean":
                return True
        return _covers_number(inner, outer)

    def _covers_array(self, inner: Mapping[str, Any], outer: Mapping[str, Any]) -> bool:
        if not covers_bounds(inner, outer, "minItems", "maxItems"):
            return False
        if outer.get("uniqueItems", False) is not False and inner.get("uniqueItems") is not True:
            return False
        (first, first_rest), (second, second_rest) = places_in(inner), places_in(outer)
        pairs = [
            (_at(first, first_rest, index), _at(second, second_rest, index))
            for index in range(max(len(first), len(second)))
        ]
        return self._all_inside([*pairs, (first_rest, second_rest)])

    def _covers_object(self, inner: Mapping[str, Any], outer: Mapping[str, Any]) -> bool:
        needed, asked = set(inner.get("required", ())), set(outer.get("required", ()))
        least = {**inner, "minProperties": max(inner.get("minProperties", 0), len(needed))}
        if not asked <= needed or not covers_bounds(least, outer, "minProperties", "maxProperties"):
            return False
        patterns, others = inner.get("patternProperties", {}), outer.get("patternProperties", {})
        if others and not self._is_same(patterns, others):
            return False
        first, second = inner.get("properties", {}), outer.get("properties", {})
        rest: Any = inner.get("additionalProperties", _MISSING)
        is_silent = rest is _MISSING and not patterns and "properties" in inner
        rest = True if rest is _MISSING or patterns else rest
        beyond = outer.get("additionalProperties", True)
        names = [name for name in {**first, **second} if name in first or not is_silent]
        pairs = [(first.get(name, rest), second.get(name, beyond)) for name in names]
        return self._all_inside([*pairs, (rest, beyond)])

    def _all_inside(self, pairs: list[tuple[Any, Any]]) -> bool:
        self.depth += 1
        try:
            return all(self._holds(inner, outer) for inner, outer in pairs)
        finally:
            self.depth -= 1


def _refers(node: Any) -> bool:
    text = codec.canonical(node)
    return b'"$ref"' in text or b'"$dynamicRef"' in text or b'"$recursiveRef"' in text


def _leads_elsewhere(node: Any) -> bool:
    """Whether a reference in it leads to a place that is not among the definitions."""
    text = codec.canonical(node)
    if b'"$dynamicRef"' in text or b'"$recursiveRef"' in text:
        return True
    return text.count(b'"$ref":"#/$defs/') + text.count(b'"$ref":"#/definitions/') != text.count(b'"$ref"')


# --- facts of one kind -----------------------------------------------------------------------------------


def _covers_text(inner: Mapping[str, Any], outer: Mapping[str, Any]) -> bool:
    words = ("pattern", "format", "contentEncoding", "contentMediaType")
    return covers_bounds(inner, outer, "minLength", "maxLength") and all(
        key not in outer or inner.get(key, _MISSING) == outer[key] for key in words
    )


def covers_bounds(inner: Mapping[str, Any], outer: Mapping[str, Any], least: str, most: str) -> bool:
    if least in outer and not _number(inner.get(least, 0)) >= _number(outer[least]):
        return False
    return most not in outer or (most in inner and _number(inner[most]) <= _number(outer[most]))


def _covers_number(inner: Branch, outer: Branch) -> bool:
    whole = inner.kind == "integer"
    if "format" in outer.facts and inner.facts.get("format") != outer.facts["format"]:
        return False
    first, second = number_bounds(inner.facts, whole), number_bounds(outer.facts, whole)
    if first[0] < second[0] or first[1] > second[1]:
        return False
    if "multipleOf" not in outer.facts:
        return True
    step, asked = inner.facts.get("multipleOf", 1 if whole else None), outer.facts["multipleOf"]
    if isinstance(step, int) and isinstance(asked, int) and asked > 0:
        return step % asked == 0
    return step == asked and step is not None


Bound = tuple[float, int]


def number_bounds(facts: Mapping[str, Any], whole: bool) -> tuple[Bound, Bound]:
    """The least and the greatest number; the second part says on which side of it. An integer above 0 is at
    least 1."""
    low: Bound = (-math.inf, 0)
    high: Bound = (math.inf, 0)
    if "minimum" in facts:
        low = max(low, (_number(facts["minimum"]), 0))
    if "exclusiveMinimum" in facts:
        low = max(low, (_number(facts["exclusiveMinimum"]), 1))
    if "maximum" in facts:
        high = min(high, (_number(facts["maximum"]), 0))
    if "exclusiveMaximum" in facts:
        high = min(high, (_number(facts["exclusiveMaximum"]), -1))
    if whole and low[0] != -math.inf:
        low = (math.floor(low[0]) + 1, 0) if low[1] else (math.ceil(low[0]), 0)
    if whole and high[0] != math.inf:
        high = (math.ceil(high[0]) - 1, 0) if high[1] else (math.floor(high[0]), 0)
    return low, high


def _number(value: Any) -> float:
    if not is_number(value):
        raise UnclearError
    return value  # type: ignore[no-any-return]


def places_in(facts: Mapping[str, Any]) -> tuple[list[Any], Any]:
    """The schemas of the first items, and that of all others."""
    items = facts.get("items", True)
    if isinstance(items, list):  # as older drafts write it
        return items, facts.get("additionalItems", True)
    first = facts.get("prefixItems", [])
    if not isinstance(first, list):
        raise UnclearError
    return first, items


def _at(first: list[Any], rest: Any, index: int) -> Any:
    return first[index] if index < len(first) else rest
