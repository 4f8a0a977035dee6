"""Relations between JSON Schemas: the types and values they name, what they accept, and plain forms of them.

    covers({"type": "number"}, {"type": "integer"})                  # True
    flatten({"allOf": [{"type": "string"}, {"maxLength": 5}]})       # {"type": "string", "maxLength": 5}

The validation engine decides; where it cannot tell, or would take too long, the answer is None.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
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

_COMPOSITIONS = frozenset({"allOf", "anyOf", "if", "oneOf"})
_MAX_CASES = 256
"""With more combinations, one question to the engine can take seconds."""
_MAX_NESTED_CASES = 8


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


# --- flattening --------------------------------------------------------------------------------------------


def flatten(node: Node) -> Node | None:
    """Return an equivalent schema without compositions: a plain one, or `anyOf` of such.

    None where the engine cannot write it. Annotations and the order of properties are those of the parts.
    """
    canonical = canonical_form(node)
    if canonical is None:
        return None
    found = _restore(canonical.to_json_schema(), [node])
    branches = found.get("anyOf", [found])
    has_siblings = "anyOf" in found and not found.keys() <= {"anyOf", "$defs", "definitions", *ANNOTATIONS}
    is_flat = all(branch.keys().isdisjoint(_COMPOSITIONS) for branch in branches if branch is not found)
    is_flat = is_flat and found.keys().isdisjoint(_COMPOSITIONS - {"anyOf"})
    return found if is_flat and not has_siblings else None


def _restore(node: Any, sources: list[Any]) -> Node:
    """Return a schema in canonical form with the annotations of the schemas that it was made of."""
    conjuncts = [part for source in sources for part in _parts(source, ("allOf",))]
    annotations: Node = {}
    for part in reversed(conjuncts):
        annotations |= {key: value for key, value in part.items() if key in ANNOTATIONS}
    texts = [part["description"] for part in conjuncts if isinstance(part.get("description"), str)]
    if texts:
        annotations["description"] = "\n".join(dict.fromkeys(texts))
    parts = [part for source in sources for part in _parts(source, ("allOf", "anyOf", "oneOf"))]
    return {**_restore_parts(node, parts), **annotations}


def _parts(node: Any, keywords: tuple[str, ...]) -> Iterator[Node]:
    if isinstance(node, Mapping):
        yield dict(node)
        for keyword in keywords:
            for part in node.get(keyword, ()):
                yield from _parts(part, keywords)


def _restore_parts(node: Any, parts: list[Node]) -> Node:
    if isinstance(node, bool):
        return {} if node else nothing()
    keys = sorted(node.keys() - {"$schema", "const"}, key=lambda key: (key != "type", key))
    found = {key: node[key] for key in keys}
    if "const" in node:
        found["enum"] = [node["const"]]
        if node["const"] == {}:  # a closed object without properties
            found = {"type": "object", "properties": {}, "additionalProperties": False}
    if "anyOf" in found:
        found["anyOf"] = [_restore_parts(branch, parts) for branch in found["anyOf"]]
    for keyword in ("items", "additionalProperties"):
        if isinstance(found.get(keyword), Mapping):
            found[keyword] = _restore(found[keyword], [part.get(keyword) for part in parts])
    if "prefixItems" in found:
        found["prefixItems"] = [
            _restore(item, [part["prefixItems"][index] for part in parts if _has_item(part, index)])
            for index, item in enumerate(found["prefixItems"])
        ]
    if found.get("type") == "object":
        _restore_properties(found, parts)
    return found


def _has_item(part: Node, index: int) -> bool:
    return len(part.get("prefixItems", ())) > index


def _restore_properties(found: Node, parts: list[Node]) -> None:
    """Restore the order of properties, those of any value, and a closed object, which lists its names."""
    declared: dict[str, list[Any]] = {}
    for part in parts:
        for name, schema in part.get("properties", {}).items():
            declared.setdefault(name, []).append(schema)
    properties = dict(found.get("properties", {}))
    names = found.get("propertyNames", {})
    if isinstance(names, Mapping) and names.keys() & {"const", "enum"}:
        del found["propertyNames"]
        allowed = names.get("enum", [names.get("const")])
        properties = {name: properties.get(name, True) for name in allowed}
        found["additionalProperties"] = False
    elif "patternProperties" not in found:  # what accepts any value was left out
        rest = found.get("additionalProperties", True)
        free = [name for name, schemas in declared.items() if all(map(is_anything, schemas))]
        properties |= {name: rest for name in free if name not in properties}
    if properties or declared:
        order = [*(name for name in declared if name in properties), *properties]
        found["properties"] = {
            name: _restore(properties[name], declared.get(name, [])) for name in dict.fromkeys(order)
        }


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
