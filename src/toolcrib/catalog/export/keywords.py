"""JSON Schema's keywords by what they hold and which values they are about.

Knows the vocabulary of 2020-12, and equality of JSON values. Refuses to know what is done with it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

Node = dict[str, Any]

TYPES = ("null", "boolean", "number", "string", "array", "object")
"""All of them: an integer is a number too."""

NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})
"""Their value maps names to schemas."""
SWITCHES = frozenset({"additionalProperties", "items", "unevaluatedItems", "unevaluatedProperties"})
"""Their value is a schema, left as true or false where it is that."""

ABOUT: Mapping[str, frozenset[str]] = {
    "string": frozenset(
        {
            "contentEncoding",
            "contentMediaType",
            "contentSchema",
            "format",
            "maxLength",
            "minLength",
            "pattern",
        }
    ),
    "number": frozenset({"exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"}),
    "array": frozenset(
        {
            "contains",
            "items",
            "maxContains",
            "maxItems",
            "minContains",
            "minItems",
            "prefixItems",
            "unevaluatedItems",
            "uniqueItems",
        }
    ),
    "object": frozenset(
        {
            "additionalProperties",
            "dependentRequired",
            "dependentSchemas",
            "maxProperties",
            "minProperties",
            "patternProperties",
            "properties",
            "propertyNames",
            "required",
            "unevaluatedProperties",
        }
    ),
}
"""Keywords that say something about values of one type only. (A `format` can be about numbers too.)"""
TYPE_OF = {keyword: kind for kind, keywords in ABOUT.items() for keyword in keywords}

LOGIC = frozenset({"allOf", "anyOf", "else", "if", "not", "oneOf", "then"})
ANNOTATIONS = frozenset(
    {"default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly"}
)
CONTENT = frozenset({"contentEncoding", "contentMediaType", "contentSchema"})
"""They describe and refuse nothing."""
KNOWN = frozenset(TYPE_OF) | LOGIC | ANNOTATIONS | {"enum", "type"}


def nothing() -> Node:
    """The schema that nothing fits."""
    return {"not": {}}


def is_nothing(node: Any) -> bool:
    return node is False or (isinstance(node, dict) and node.get("not") == {})


def is_anything(node: Any) -> bool:
    return node is True or (isinstance(node, dict) and not node.keys() - ANNOTATIONS)


def types_of(node: Node) -> list[str]:
    """The types that a schema names itself; none where it names none."""
    kind = node.get("type")
    return [kind] if isinstance(kind, str) else list(kind or ())


def type_of(value: Any) -> str:
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


def identify(value: Any) -> Hashable:
    """The same for values that JSON Schema takes for equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return (type_of(value), value)
    if isinstance(value, list):
        return ("array", tuple(identify(item) for item in value))
    if isinstance(value, dict):
        return ("object", frozenset((key, identify(item)) for key, item in value.items()))
    return ("number", value)
