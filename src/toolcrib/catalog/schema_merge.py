"""Merge two JSON Schemas into one that accepts what both accept, and ask the engine how two relate.

    merge({"type": "string"}, {"maxLength": 5})     # {"type": "string", "maxLength": 5}
    merge({"pattern": "a"}, {"pattern": "b"})       # None: no single schema says both

Schemas are dicts in the vocabulary of 2020-12. Nothing is guessed: without an exact result there is none.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Any

from toolcrib.errors import InvalidSchemaError
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import Resolver, walk
from toolcrib.validation.validator import canonicalize

Node = dict[str, Any]
"""A schema, or a part of one."""

TYPES = ("null", "boolean", "number", "string", "array", "object")
"""All JSON types; an integer is a number too."""
ANNOTATIONS = frozenset(
    {"default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"}
)
CONTENT = frozenset({"contentEncoding", "contentMediaType", "contentSchema"})
"""Keywords that describe strings and reject nothing."""

_MAX_ALTERNATIVES = 16
_MAX_CASES = 256
"""With more combinations, one question to the engine can take seconds."""
_MAX_NESTED_CASES = 8
_LOWER_LIMITS = ("min", "exclusiveMin")
_UPPER_LIMITS = ("max", "exclusiveMax")
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")
_ONE_ONLY = ("if", "then", "else", "contains", "minContains", "maxContains")
_MERGED = (
    ANNOTATIONS
    | CONTENT
    | {
        "$comment",
        "additionalProperties",
        "allOf",
        "anyOf",
        "dependentRequired",
        "enum",
        "items",
        "multipleOf",
    }
    | {"prefixItems", "properties", "required", "type", "uniqueItems"}
)
"""Keywords that two schemas may both have, besides limits. Of any other they must have the same value."""


def nothing() -> Node:
    """Return the schema that no value is valid for."""
    return {"not": {}}


def is_nothing(node: Any) -> bool:
    return node is False or (isinstance(node, dict) and node.get("not") == {})


def is_anything(node: Any) -> bool:
    return node is True or (isinstance(node, dict) and not node.keys() - ANNOTATIONS)


def types_of(node: Node) -> list[str]:
    """Return the types that a schema names in `type`; an empty list where it names none."""
    named = node.get("type")
    return [named] if isinstance(named, str) else list(named or ())


def type_of(value: Any) -> str:
    """Return the JSON type of a value: "integer" for every number without a fraction."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def identity(value: Any) -> Hashable:
    """Return a key that is the same for values that JSON Schema takes as equal, such as 1 and 1.0."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return (type_of(value), value)
    if isinstance(value, list):
        return ("array", tuple(identity(item) for item in value))
    if isinstance(value, dict):
        return ("object", frozenset((key, identity(item)) for key, item in value.items()))
    return ("number", value)


def common_types(one: list[str], other: list[str]) -> list[str]:
    """Return the types that are in both lists; an integer is a number."""
    found = []
    for name in one:
        if name in other or (name == "integer" and "number" in other):
            found.append(name)
        elif name == "number" and "integer" in other:
            found.append("integer")
    return list(dict.fromkeys(found))


class _NotMergeableError(Exception):
    """No single schema says what both say."""


class _NothingError(Exception):
    """No value is valid for both."""


def merge(one: Node, other: Node) -> Node | None:
    """Return one schema for the values that both accept, or None where there is no exact one.

    Annotations of the first win, except that descriptions are joined.
    """
    if is_nothing(one) or is_nothing(other):
        return nothing()
    try:
        return _merge(one, other)
    except _NothingError:
        return nothing()
    except _NotMergeableError:
        return None


def _merge(one: Node, other: Node) -> Node:
    if not one or not other:
        return one or other
    if any(keyword in node for node in (one, other) for keyword in _UNEVALUATED):
        raise _NotMergeableError
    for keyword in one.keys() & other.keys():
        is_merged = keyword in _MERGED or keyword.startswith((*_LOWER_LIMITS, *_UPPER_LIMITS))
        if keyword in _ONE_ONLY or (not is_merged and identity(one[keyword]) != identity(other[keyword])):
            raise _NotMergeableError
    merged = {**other, **one}
    _merge_types(one, other, merged)
    _merge_limits(one, other, merged)
    _merge_objects(one, other, merged)
    _merge_arrays(one, other, merged)
    _merge_alternatives(one, other, merged)
    texts = [node["description"] for node in (one, other) if isinstance(node.get("description"), str)]
    if len(texts) == 2 and texts[1] not in texts[0]:
        merged["description"] = "\n".join(texts)
    for keyword in CONTENT & one.keys() & other.keys():
        if one[keyword] != other[keyword]:
            del merged[keyword]
    return merged


def _merge_types(one: Node, other: Node, merged: Node) -> None:
    if "type" in one and "type" in other:
        types = common_types(types_of(one), types_of(other))
        if not types:
            raise _NothingError
        merged["type"] = types[0] if len(types) == 1 else types
    if "enum" in one and "enum" in other:
        common = {identity(value) for value in other["enum"]}
        merged["enum"] = [value for value in one["enum"] if identity(value) in common]
        if not merged["enum"]:
            raise _NothingError


def _merge_limits(one: Node, other: Node, merged: Node) -> None:
    both = one.keys() & other.keys()
    for prefixes, choose in ((_LOWER_LIMITS, max), (_UPPER_LIMITS, min)):
        for keyword in both:
            if keyword.startswith(prefixes):
                merged[keyword] = choose(one[keyword], other[keyword])
    if one.get("uniqueItems") or other.get("uniqueItems"):
        merged["uniqueItems"] = True
    required = [*one.get("required", ()), *other.get("required", ())]
    if required:
        merged["required"] = list(dict.fromkeys(required))
    if "dependentRequired" in both:
        needs = {name: list(names) for name, names in one["dependentRequired"].items()}
        for name, names in other["dependentRequired"].items():
            needs[name] = list(dict.fromkeys([*needs.get(name, ()), *names]))
        merged["dependentRequired"] = needs
    if "multipleOf" in both and one["multipleOf"] != other["multipleOf"]:
        factors = (one["multipleOf"], other["multipleOf"])
        if not all(isinstance(factor, int) for factor in factors):
            raise _NotMergeableError
        merged["multipleOf"] = math.lcm(*factors)


def _merge_objects(one: Node, other: Node, merged: Node) -> None:
    for first, second in ((one, other), (other, one)):
        # `additionalProperties` of one schema applies to the names that only the other declares.
        if is_anything(first.get("additionalProperties", True)):
            continue
        if "patternProperties" in second or ("patternProperties" in first and second.get("properties")):
            raise _NotMergeableError
    names = dict.fromkeys((*one.get("properties", ()), *other.get("properties", ())))
    if names:
        merged["properties"] = {
            name: _merge_exactly(_schema_of(one, name), _schema_of(other, name)) for name in names
        }
    if "additionalProperties" in one and "additionalProperties" in other:
        rest = _merge_exactly(_as_node(one["additionalProperties"]), _as_node(other["additionalProperties"]))
        merged["additionalProperties"] = False if is_nothing(rest) else rest or True


def _merge_exactly(one: Node, other: Node) -> Node:
    found = merge(one, other)
    if found is None:
        raise _NotMergeableError
    return found


def _schema_of(node: Node, name: str) -> Node:
    """Return what an object schema says about the property `name`."""
    return _as_node(node.get("properties", {}).get(name, node.get("additionalProperties", True)))


def _as_node(schema: Any) -> Node:
    if isinstance(schema, bool):
        return {} if schema else nothing()
    node: Node = schema
    return node


def _merge_arrays(one: Node, other: Node, merged: Node) -> None:
    if not all("items" in node or "prefixItems" in node for node in (one, other)):
        return
    if "prefixItems" in one or "prefixItems" in other:
        keys = ("items", "prefixItems")
        if [identity(one.get(key)) for key in keys] != [identity(other.get(key)) for key in keys]:
            raise _NotMergeableError
        return
    if isinstance(one["items"], list) or isinstance(other["items"], list):
        raise _NotMergeableError
    items = _merge_exactly(_as_node(one["items"]), _as_node(other["items"]))
    merged["items"] = False if is_nothing(items) else items


def _merge_alternatives(one: Node, other: Node, merged: Node) -> None:
    if "allOf" in one and "allOf" in other:
        merged["allOf"] = [*one["allOf"], *other["allOf"]]
    if "anyOf" not in one or "anyOf" not in other or identity(one["anyOf"]) == identity(other["anyOf"]):
        return
    if len(one["anyOf"]) * len(other["anyOf"]) > _MAX_ALTERNATIVES:
        raise _NotMergeableError
    pairs = [
        _merge_exactly(_as_node(first), _as_node(second))
        for first in one["anyOf"]
        for second in other["anyOf"]
    ]
    merged["anyOf"] = [pair for pair in pairs if not is_nothing(pair)]
    if not merged["anyOf"]:
        raise _NothingError


# --- asking the validation engine --------------------------------------------------------------------------


def covers(outer: Any, inner: Any) -> bool | None:
    """Return whether every value valid for `inner` is valid for `outer`; None where it is not known."""
    if is_nothing(inner) or is_anything(outer):
        return True
    wider, narrower = canonical_form(outer), canonical_form(inner)
    if wider is None or narrower is None:
        return None
    try:
        return {"yes": True, "no": False}.get(wider.covers(narrower).value)
    except ValueError:  # the engine cannot combine them
        return None


def are_disjoint(one: Any, other: Any) -> bool:
    """Return whether the engine proves that no value is valid for both schemas."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        definitions = {key: one[key] for key in ("$schema", "$defs", "definitions") if key in one}
        both = canonical_form({"allOf": [one, other], **definitions})
        return both is not None and both.satisfiability().value == "no"
    return is_nothing(one) or is_nothing(other)


def canonical_form(schema: Any) -> Any:
    """Return the engine's canonical form of a schema, or None where it has none or would take too long."""
    try:
        return _canonicalize(codec.canonical(schema))
    except (InvalidSchemaError, RecursionError, TypeError, ValueError):
        return None


@lru_cache(maxsize=256)
def _canonicalize(text: bytes) -> Any:
    schema = codec.decode(text)
    resolver = Resolver(schema if isinstance(schema, Mapping) else {})
    is_complex = any(_count_cases(node, resolver, 0) > _MAX_CASES for _, node in walk(schema))
    return None if is_complex else canonicalize(schema)


def _count_cases(node: Any, resolver: Resolver, depth: int) -> int:
    """Count the combinations of alternatives that a schema has at one place: the engine writes them out."""
    if not isinstance(node, Mapping) or depth > _MAX_NESTED_CASES:
        return 1
    options = [len(node.get(key, ())) for key in ("dependentRequired", "dependentSchemas", "dependencies")]
    total: int = 2 ** min(sum(options) + ("if" in node), _MAX_CASES.bit_length())
    parts = [[part] for part in (*node.get("allOf", ()), node.get("not"))]
    parts += [node[key] for key in ("anyOf", "oneOf") if key in node]
    if isinstance(node.get("$ref"), str):
        parts.append([resolver.resolve(node["$ref"])])
    for alternatives in parts:
        if total <= _MAX_CASES:
            total *= max(1, sum(_count_cases(part, resolver, depth + 1) for part in alternatives))
    return total
