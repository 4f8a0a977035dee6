"""The structure of a JSON Schema: its subschemas and its references.

Everything that walks or rewrites a schema, or follows its references, does it here. Nothing is fetched: a
reference leads to a place in the same schema or is an error.

    for path, subschema in walk(schema): ...           # ("properties", "a", "items"), {...}
    Resolver(schema).resolve("#/$defs/User")           # the subschema, or InvalidSchemaError
    rewrite(schema, lambda node: {**node, "title": ""})
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from toolcrib.errors import InvalidSchemaError

Schema = Mapping[str, Any]
Path = tuple[str | int, ...]
"""Keywords, names and indices that lead from the root of a schema to one of its parts."""

LISTED_SCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Keywords whose value is a list of schemas. (`items` may be one in drafts before 2020-12.)"""
SINGLE_SCHEMAS = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""Keywords whose value is a schema."""
NAMED_SCHEMAS = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
"""Keywords whose value maps names to schemas."""
DATA_KEYWORDS = frozenset({"const", "default", "enum", "example", "examples"})
"""Keywords whose value is data, even where it looks like a schema."""
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
DEFINITION_PREFIX = "#/$defs/"

OBJECT = (dict, Mapping)
"""The types of a JSON object. To ask for a dict first is ten times quicker than to ask for a Mapping."""
_OBJECT_OR_BOOLEAN = (*OBJECT, bool)
_MAX_CHAIN = 100
_MAX_FORMS = 64
_OFTEN_BOOLEAN = frozenset({"additionalProperties", "items", "unevaluatedItems", "unevaluatedProperties"})
_SCHEMA_KEYWORDS = LISTED_SCHEMAS | SINGLE_SCHEMAS | NAMED_SCHEMAS


# --- subschemas --------------------------------------------------------------------------------------


def children(schema: Any) -> Iterator[tuple[Path, Any]]:
    """Yield the direct subschemas, booleans included, each with its path below `schema`."""
    if not isinstance(schema, OBJECT) or schema.keys().isdisjoint(_SCHEMA_KEYWORDS):
        return
    for key, value in schema.items():
        if key not in _SCHEMA_KEYWORDS:
            continue
        if isinstance(value, OBJECT):
            if key in NAMED_SCHEMAS:
                for name, child in value.items():
                    if isinstance(child, _OBJECT_OR_BOOLEAN):  # `dependencies` may list names instead
                        yield (key, name), child
            elif key in SINGLE_SCHEMAS:
                yield (key,), value
        elif isinstance(value, list | tuple):
            if key in LISTED_SCHEMAS or key == "items":
                for index, child in enumerate(value):
                    yield (key, index), child
        elif isinstance(value, bool) and key in SINGLE_SCHEMAS:
            yield (key,), value


def walk(schema: Any) -> Iterator[tuple[Path, Schema]]:
    """Yield a schema and all its subschemas that are objects, parents first, each with its path.

    References are not followed.
    """
    pending: list[tuple[Path, Any]] = [((), schema)]
    while pending:
        path, node = pending.pop()
        if isinstance(node, OBJECT):
            yield path, node
            pending += [((*path, *step), child) for step, child in reversed(list(children(node)))]


def map_subschemas(schema: Schema, path: Path, change: Callable[[Any, Path], Any]) -> dict[str, Any]:
    """Return a copy of a schema with `change(subschema, path)` for each of its direct subschemas.

    `additionalProperties`, `items` and the like stay true or false if they are.
    """
    copy = dict(schema)
    for key, value in copy.items():
        if key not in _SCHEMA_KEYWORDS:
            continue
        if isinstance(value, list | tuple):
            if key in LISTED_SCHEMAS or key == "items":
                copy[key] = [change(child, (*path, key, index)) for index, child in enumerate(value)]
        elif key in NAMED_SCHEMAS:
            if isinstance(value, OBJECT):
                copy[key] = {name: change(child, (*path, key, name)) for name, child in value.items()}
        elif key in SINGLE_SCHEMAS and not (isinstance(value, bool) and key in _OFTEN_BOOLEAN):
            copy[key] = change(value, (*path, key))
    return copy


def rewrite(schema: Any, change: Callable[[dict[str, Any]], Any]) -> Any:
    """Return a copy in which every subschema that is an object was replaced by `change(subschema)`.

    Subschemas are changed before the schema that holds them; what `change` gets is a copy that it may keep.
    """
    if not isinstance(schema, OBJECT):
        return schema
    return change(map_subschemas(schema, (), lambda child, _: rewrite(child, change)))


def pointer(path: Path) -> str:
    """Return a path as a JSON pointer."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


# --- references --------------------------------------------------------------------------------------


def rewrite_references(schema: Any, change: Callable[[str], str]) -> Any:
    """Return a copy in which every `$ref` was replaced by `change(reference)`."""

    def replace(node: dict[str, Any]) -> dict[str, Any]:
        reference = node.get("$ref")
        return {**node, "$ref": change(reference)} if isinstance(reference, str) else node

    return rewrite(schema, replace)


def inline_definitions(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema in which definitions that are referred to once replace the reference."""
    definitions: Mapping[str, Any] = schema.get("$defs", {})
    counts = Counter(str(node["$ref"]) for _, node in walk(schema) if "$ref" in node)
    once = {
        reference: item
        for name, item in definitions.items()
        if counts[reference := f"{DEFINITION_PREFIX}{name}"] == 1
    }

    def place(node: dict[str, Any]) -> dict[str, Any]:
        definition = once.get(str(node.get("$ref")))
        if definition is None:
            return node
        return {**rewrite(definition, place), **{key: item for key, item in node.items() if key != "$ref"}}

    root = {key: item for key, item in schema.items() if key != "$defs"}
    placed: dict[str, Any] = rewrite(root, place)
    kept = {
        name: rewrite(item, place)
        for name, item in definitions.items()
        if f"{DEFINITION_PREFIX}{name}" not in once
    }
    return {**placed, "$defs": kept} if kept else placed


class Resolver:
    """Resolves the references of one schema: JSON pointers, anchors, and `#` for the schema itself."""

    __slots__ = ("_anchors", "root")

    def __init__(self, root: Schema) -> None:
        self.root = root
        self._anchors: dict[str, Any] | None = None

    def resolve(self, reference: str) -> Any:
        """Return the part of the schema that a reference points to, or raise InvalidSchemaError."""
        if not reference.startswith("#"):
            raise InvalidSchemaError(
                f"Schema refers to {reference[:100]!r}, outside itself",
                hint="copy the referenced schema into $defs",
            )
        fragment = unquote(reference[1:])
        if not fragment:
            return self.root
        if fragment[0] == "/":
            return self._resolve_pointer(fragment, reference)
        if self._anchors is None:
            self._anchors = _find_anchors(self.root)
        if fragment not in self._anchors:
            raise _not_found(reference)
        return self._anchors[fragment]

    def follow(self, schema: Any) -> Any:
        """Return the schema at the end of a chain of `$ref`; keywords beside a `$ref` are not looked at.

        Where a reference cannot be resolved, or the chain has no end, return the schema that has it.
        """
        for _ in range(_MAX_CHAIN):
            reference = schema.get("$ref") if isinstance(schema, Mapping) else None
            if not isinstance(reference, str):
                break
            try:
                schema = self.resolve(reference)
            except InvalidSchemaError:
                break
        return schema

    def forms(self, schema: Any) -> list[Schema]:
        """Return the forms that a value may have: references resolved, alternatives side by side."""
        found: list[Schema] = []
        waiting, seen = [schema], set()
        while waiting and len(found) < _MAX_FORMS:
            item = waiting.pop(0)
            item = {} if item is True else item
            if not isinstance(item, Mapping) or id(item) in seen:
                continue
            seen.add(id(item))
            below = [form for keyword in ("anyOf", "oneOf", "allOf") for form in item.get(keyword, ())]
            target = self.follow(item)
            if target is not item:
                below.append(target)
            if not ("$ref" in item or below) or "properties" in item or "type" in item:
                found.append(item)
            waiting += below
        return found

    def _resolve_pointer(self, pointer: str, reference: str) -> Any:
        node: Any = self.root
        is_schema = True  # else it maps names to schemas
        for token in pointer[1:].split("/"):
            name = token.replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping) and name in node:
                if is_schema and name in DATA_KEYWORDS:
                    raise InvalidSchemaError(f"Schema refers to {reference[:100]!r}, which is data")
                node = node[name]
                is_schema = not (is_schema and name in NAMED_SCHEMAS)
            elif isinstance(node, list | tuple) and name.isdecimal() and int(name) < len(node):
                node = node[int(name)]
            else:
                raise _not_found(reference)
        return node


def _not_found(reference: str) -> InvalidSchemaError:
    return InvalidSchemaError(f"Schema refers to {reference[:100]!r}, which does not exist")


def _find_anchors(root: Schema) -> dict[str, Any]:
    anchors: dict[str, Any] = {}
    for _, node in walk(root):
        for keyword in ("$anchor", "$dynamicAnchor", "$id", "id"):
            name = node.get(keyword)
            if not isinstance(name, str) or (keyword.endswith("id") and not name.startswith("#")):
                continue
            if anchors.setdefault(name.lstrip("#"), node) is not node:
                raise InvalidSchemaError(f"Schema has the anchor {name[:100]!r} twice")
    return anchors


# --- arguments that clients repeat in HTTP headers: properties marked with `x-mcp-header` ---------------

HEADER_MARK = "x-mcp-header"
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}")
_HEADER_TYPES = ("string", "integer", "boolean")

Mirrored = dict[tuple[str, ...], str]


def mirrored_parameters(schema: Mapping[str, Any]) -> Mirrored:
    """Return the path of every marked property, with the label of its header.

    Raises InvalidSchemaError for a wrong mark: clients would drop the tool.
    """
    found: Mirrored = {}
    _find_mirrored(schema, (), found)
    if sum(HEADER_MARK in node for _, node in walk(schema)) != len(found):
        raise InvalidSchemaError(
            f"'{HEADER_MARK}' is used where clients ignore it",
            hint="mark properties of the root, or of objects below its properties",
        )
    seen: dict[str, str] = {}
    for label in found.values():
        if label.lower() in seen:
            raise InvalidSchemaError(
                f"'{HEADER_MARK}' names {label!r} twice", hint="case makes no difference"
            )
        seen[label.lower()] = label
    return found


def _find_mirrored(schema: Any, path: tuple[str, ...], found: Mirrored) -> None:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return
    for name, value in properties.items():
        if not isinstance(value, Mapping):
            continue
        here = (*path, name)
        if HEADER_MARK in value:
            label, where = value[HEADER_MARK], f"'{HEADER_MARK}' of '{'.'.join(here)}'"
            if not isinstance(label, str) or _HEADER_NAME.fullmatch(label) is None:
                raise InvalidSchemaError(f"{where} is not a header name: {label!r:.80}")
            if value.get("type") not in _HEADER_TYPES:
                hint = f"one of {', '.join(_HEADER_TYPES)}"
                raise InvalidSchemaError(f"{where} needs a type that fits in a header", hint=hint)
            found[here] = label
        _find_mirrored(value, here, found)
