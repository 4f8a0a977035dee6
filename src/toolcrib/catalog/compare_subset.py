"""Whether everything that fits one schema fits another. Yes is certain; no may mean that it cannot be told.

One reading is kept throughout: where some names are declared, and others neither declared nor forbidden, the
others are not sent. Else no parameter could ever be added to an open schema. Knows branches; refuses to know
words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from toolcrib import codec
from toolcrib.catalog.compare_forms import Branch, Document, UnclearError, branches, is_number
from toolcrib.errors import InvalidSchemaError
from toolcrib.validation import Validator

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
