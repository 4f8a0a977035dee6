"""Two schemas as one that exactly the values fit that fit both; or None where no such one can be written.

Knows what keywords mean together. Refuses to guess: what it cannot merge exactly it does not merge.
"""

from __future__ import annotations

import math
from typing import Any

from toolcrib.catalog.export.keywords import (
    ANNOTATIONS,
    CONTENT,
    Node,
    identify,
    is_anything,
    is_nothing,
    nothing,
    type_of,
    types_of,
)

_MOST_BRANCHES = 16
_HIGHEST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_LOWEST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_ALONE = frozenset(
    {
        "contains",
        "dependentSchemas",
        "format",
        "if",
        "maxContains",
        "minContains",
        "not",
        "oneOf",
        "pattern",
        "patternProperties",
        "propertyNames",
    }
)
"""Keywords that two schemas must agree on, or that only one of them may have."""


def merge(one: Node, other: Node) -> Node | None:
    """Both at once. Annotations of the first win, but for descriptions, which add up."""
    if is_nothing(one) or is_nothing(other):
        return nothing()
    if not other:
        return one
    if not one:
        return other
    if any(key in node for node in (one, other) for key in ("unevaluatedProperties", "unevaluatedItems")):
        return None
    if ("if" in one) and ("if" in other):
        return None
    if "contains" in one and "contains" in other:
        return None
    merged = {**other, **one}
    for key in one.keys() & other.keys():
        if key in _ALONE and identify(one[key]) != identify(other[key]):
            return None
    for step in (_merge_types, _merge_objects, _merge_arrays, _merge_unions):
        if not step(one, other, merged):
            return nothing() if is_nothing(merged) else None
    _merge_limits(one, other, merged)
    _merge_words(one, other, merged)
    if "multipleOf" in one and "multipleOf" in other:
        factors = (one["multipleOf"], other["multipleOf"])
        if factors[0] != factors[1]:
            if not all(isinstance(factor, int) for factor in factors):
                return None
            merged["multipleOf"] = math.lcm(*factors)
    return merged


def _empty(merged: Node) -> bool:
    merged.clear()
    merged.update(nothing())
    return False


def _merge_types(one: Node, other: Node, merged: Node) -> bool:
    if "type" in one and "type" in other:
        kinds = meet_types(types_of(one), types_of(other))
        if not kinds:
            return _empty(merged)
        merged["type"] = kinds[0] if len(kinds) == 1 else kinds
    if "enum" in one and "enum" in other:
        common = {identify(value) for value in other["enum"]}
        merged["enum"] = [value for value in one["enum"] if identify(value) in common]
        if not merged["enum"]:
            return _empty(merged)
    return True


def meet_types(one: list[str], other: list[str]) -> list[str]:
    """The types that are in both lists, an integer being a number."""
    found = []
    for kind in one:
        if kind in other or (kind == "integer" and "number" in other):
            found.append(kind)
        elif kind == "number" and "integer" in other:
            found.append("integer")
    return list(dict.fromkeys(found))


def _merge_limits(one: Node, other: Node, merged: Node) -> None:
    for keywords, choose in ((_HIGHEST, max), (_LOWEST, min)):
        for keyword in keywords:
            if keyword in one and keyword in other:
                merged[keyword] = choose(one[keyword], other[keyword])
    if one.get("uniqueItems") or other.get("uniqueItems"):
        merged["uniqueItems"] = True
    required = [*one.get("required", ()), *other.get("required", ())]
    if required:
        merged["required"] = list(dict.fromkeys(required))
    if "dependentRequired" in one and "dependentRequired" in other:
        both = {name: list(names) for name, names in one["dependentRequired"].items()}
        for name, names in other["dependentRequired"].items():
            both[name] = list(dict.fromkeys([*both.get(name, ()), *names]))
        merged["dependentRequired"] = both


def _merge_words(one: Node, other: Node, merged: Node) -> None:
    texts = [node["description"] for node in (one, other) if isinstance(node.get("description"), str)]
    if len(texts) == 2 and texts[1] not in texts[0]:
        merged["description"] = "\n".join(texts)
    for keyword in CONTENT:
        if keyword in one and keyword in other and one[keyword] != other[keyword]:
            merged.pop(keyword)  # they only describe


def _merge_objects(one: Node, other: Node, merged: Node) -> bool:
    for first, second in ((one, other), (other, one)):
        # What one schema says of all other names is about the names of the other schema too.
        if is_anything(first.get("additionalProperties", True)):
            continue
        if "patternProperties" in second or ("patternProperties" in first and second.get("properties")):
            return False
    properties: dict[str, Any] = {}
    for name in dict.fromkeys((*one.get("properties", ()), *other.get("properties", ()))):
        both = merge(_said_of(one, name), _said_of(other, name))
        if both is None:
            return False
        properties[name] = both
    if properties:
        merged["properties"] = properties
    if "additionalProperties" in one and "additionalProperties" in other:
        rest = merge(_as_node(one["additionalProperties"]), _as_node(other["additionalProperties"]))
        if rest is None:
            return False
        merged["additionalProperties"] = False if is_nothing(rest) else rest or True
    return True


def _said_of(node: Node, name: str) -> Node:
    if name in node.get("properties", ()):
        found: Node = node["properties"][name]
        return found
    return _as_node(node.get("additionalProperties", True))


def _as_node(schema: Any) -> Node:
    if isinstance(schema, bool):
        return {} if schema else nothing()
    node: Node = schema
    return node


def _merge_arrays(one: Node, other: Node, merged: Node) -> bool:
    sides = [node for node in (one, other) if "items" in node or "prefixItems" in node]
    if len(sides) < 2:
        return True
    if "prefixItems" not in one and "prefixItems" not in other:
        items = merge(_as_node(one["items"]), _as_node(other["items"]))
        if items is None:
            return False
        merged["items"] = False if is_nothing(items) else items
        return True
    keys = ("items", "prefixItems")
    return [identify(one.get(key)) for key in keys] == [identify(other.get(key)) for key in keys]


def _merge_unions(one: Node, other: Node, merged: Node) -> bool:
    for keyword in ("anyOf", "allOf"):
        if keyword in one and keyword in other:
            if keyword == "allOf":
                merged["allOf"] = [*one["allOf"], *other["allOf"]]
                continue
            if identify(one["anyOf"]) == identify(other["anyOf"]):
                continue
            if len(one["anyOf"]) * len(other["anyOf"]) > _MOST_BRANCHES:
                return False
            branches = [merge(first, second) for first in one["anyOf"] for second in other["anyOf"]]
            if any(branch is None for branch in branches):
                return False
            merged["anyOf"] = [branch for branch in branches if not is_nothing(branch)]
            if not merged["anyOf"]:
                return _empty(merged)
    return True


def are_apart(one: Node, other: Node) -> bool:
    """Whether it is plain that no value fits both: by type, by choices, or by a property that tells them."""
    kinds = types_of(one), types_of(other)
    if all(kinds) and not meet_types(*kinds):
        return True
    if "enum" in one and "enum" in other:
        mine = {identify(value) for value in one["enum"]}
        return not any(identify(value) in mine for value in other["enum"])
    for first, second in ((one, other), (other, one)):
        if "enum" in first and types_of(second):
            return not any(meet_types([type_of(value)], types_of(second)) for value in first["enum"])
    if kinds != (["object"], ["object"]):
        return False
    shared = set(one.get("required", ())) & set(other.get("required", ()))
    mine, theirs = one.get("properties", {}), other.get("properties", {})
    return any(are_apart(mine[name], theirs[name]) for name in shared if name in mine and name in theirs)


def without_words(node: Node) -> Node:
    return {key: value for key, value in node.items() if key not in ANNOTATIONS}
