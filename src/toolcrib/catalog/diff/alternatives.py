"""Take JSON Schemas apart for a comparison.

A schema becomes a list of alternatives without references and unions, each for one type of value where that
is possible. A value is valid for the schema if it is valid for one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.catalog import schema_merge
from toolcrib.catalog.schema_merge import (
    TYPES,
    are_disjoint,
    canonical_form,
    identity,
    is_nothing,
    merge,
    type_of,
)
from toolcrib.errors import InvalidSchemaError
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import Resolver

ANNOTATIONS = schema_merge.ANNOTATIONS | {"$comment", "example"}
_IDENTITY = frozenset({"$schema", "$id", "$defs", "definitions", "$anchor"})
_DEFINITIONS = ("$schema", "$defs", "definitions")
_OBJECT = frozenset(
    {"type", "properties", "required", "additionalProperties", "minProperties", "maxProperties"}
)
_ARRAY = frozenset({"type", "items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems"})
_INDEPENDENT = frozenset(
    {
        "contains",
        "dependencies",
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
_MAX_DEPTH = 40
_MAX_ALTERNATIVES = 64


class Document:
    """A whole schema: what its references lead to, and its parts as schemas of their own."""

    def __init__(self, root: Any) -> None:
        self.root = root
        top = root if isinstance(root, Mapping) else {}
        self.definitions = {key: top[key] for key in _DEFINITIONS if key in top}
        self._resolver = Resolver(top)
        inner = codec.canonical({key: value for key, value in top.items() if key != "$id"})
        # With these, a reference depends on where it stands.
        self._is_scoped = any(word in inner for word in (b'"$id"', b'"$dynamicRef"', b'"$recursiveRef"'))
        self._ignores_siblings = "draft-0" in str(top.get("$schema", ""))

    def alternatives(self, node: Any) -> list[Any]:
        """Return schemas that together accept what `node` does, with references followed and `allOf` merged.

        One that cannot be split exactly is returned as it is.
        """
        if self._is_scoped:
            return [node]
        try:
            found = self._split(node, 0)
        except (InvalidSchemaError, AttributeError, KeyError, RecursionError, TypeError, ValueError):
            return [node]
        return [node] if found is None else found

    def _split(self, node: Any, depth: int) -> list[Any] | None:
        if is_nothing(node):
            return []
        if node is True:
            return [{}]
        if not isinstance(node, Mapping) or depth > _MAX_DEPTH:
            return None
        own = {key: value for key, value in node.items() if key not in ANNOTATIONS and key not in _IDENTITY}
        parts = own.pop("allOf", [])
        if "$ref" in own:
            target = self._resolver.resolve(own.pop("$ref"))
            if self._ignores_siblings:
                own, parts = {}, []
            parts = [target, *parts]
        if not parts and "anyOf" not in own and "oneOf" not in own:
            types = own.get("type")
            return [{**own, "type": name} for name in types] if isinstance(types, list) else [own]
        rest = {key: value for key, value in own.items() if key not in ("anyOf", "oneOf")}
        found: list[Any] | None = [rest]
        for part in parts:
            found = self._combine(found, [part], depth)
        for keyword in ("anyOf", "oneOf"):
            if keyword in own:
                if keyword == "oneOf" and not self._are_disjoint(own[keyword]):
                    return None
                found = self._combine(found, own[keyword], depth)
        return found

    def _combine(self, found: list[Any] | None, parts: list[Any], depth: int) -> list[Any] | None:
        """Merge each of `found` with each alternative of the parts."""
        alternatives: list[Any] = []
        for part in parts:
            split = self._split(part, depth + 1)
            if split is None:
                return None
            alternatives += split
        if found is None or len(found) * len(alternatives) > _MAX_ALTERNATIVES:
            return None
        merged = [merge(one, other) for one in found for other in alternatives]
        return None if None in merged else [node for node in merged if not is_nothing(node)]

    def _are_disjoint(self, parts: list[Any]) -> bool:
        """Return whether at most one part of a `oneOf` accepts a value, so that it is the same as `anyOf`."""
        schemas = [self.standalone(part) for part in parts]
        pairs = [(one, other) for index, one in enumerate(schemas) for other in schemas[index + 1 :]]
        return None not in schemas and all(are_disjoint(*pair) for pair in pairs)

    def standalone(self, node: Any) -> Any:
        """Return a part as a schema of its own, or None where its references would lead elsewhere then."""
        if node is self.root or not isinstance(node, Mapping):
            return node
        text = codec.canonical([node, self.definitions])
        local = text.count(b'"$ref":"#/$defs/') + text.count(b'"$ref":"#/definitions/')
        if self._is_scoped or local != text.count(b'"$ref"'):
            return None
        return {**node, **self.definitions}


# --- alternatives ------------------------------------------------------------------------------------------


def union_of(nodes: list[Any]) -> Any:
    if len(nodes) == 1:
        return nodes[0]
    return {"anyOf": nodes} if nodes else False


def pair_alternatives(before: list[Any], now: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Pair objects and arrays that can be compared part by part: by tag, or else by position."""
    for is_plain in (_is_plain_object, _is_plain_array):
        old, new = [node for node in before if is_plain(node)], [node for node in now if is_plain(node)]
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


def _is_plain_object(node: Any) -> bool:
    required = node.get("required", []) if _is_plain(node, "object", _OBJECT) else None
    is_list = isinstance(required, list) and all(isinstance(name, str) for name in required)
    return is_list and isinstance(node.get("properties", {}), Mapping)


def _is_plain_array(node: Any) -> bool:
    if not _is_plain(node, "array", _ARRAY):
        return False
    is_old = isinstance(node.get("items"), list)
    return isinstance(node.get("prefixItems", []), list) and not (is_old and "prefixItems" in node)


def _is_plain(node: Any, name: str, keywords: frozenset[str]) -> bool:
    if not isinstance(node, Mapping) or node.get("type") != name:
        return False
    return node.keys() <= keywords | _INDEPENDENT and b'"$ref"' not in _other_rules(node)


def items_of(node: Mapping[str, Any]) -> tuple[list[Any], Any]:
    """Return the schemas of the first items, and the one of all others."""
    items = node.get("items", True)
    if isinstance(items, list):  # before 2020-12
        return items, node.get("additionalItems", True)
    return node.get("prefixItems", []), items


# --- describing values -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Values:
    """The types of values that a schema accepts, the values it lists, and the rules for values of a type."""

    types: list[str]
    listed: list[Any]
    rules: Mapping[str, list[Mapping[str, Any]]]

    @classmethod
    def of(cls, node: Any, document: Document) -> Values | None:
        """Describe a schema by its canonical form; None where there is none."""
        canonical = canonical_form(document.standalone(node))
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
