"""Shapes as JSON Schema.

A shape that is used twice or refers to itself goes to `$defs`; every other one is written in place. No
keyword is added that the author did not ask for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.definition import join_descriptions
from toolcrib.options import Extra
from toolcrib.schema.shapes import (
    MISSING,
    Array,
    Constrained,
    Dictionary,
    Enumeration,
    External,
    Field,
    FixedArray,
    Named,
    Record,
    Scalar,
    Shape,
    ShapeVisitor,
    Union,
    children,
)
from toolcrib.schema.shapes import walk as walk_shape
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import DEFINITION_PREFIX, Schema, rewrite_references, walk
from toolcrib.validation.validator import DATE_TIME_PATTERN

_JSON_TYPES: dict[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}
_LEAVES = frozenset({Scalar, Enumeration})


def arguments_schema(fields: list[Field]) -> dict[str, Any]:
    """Return the schema of a tool's arguments."""
    renderer = _Renderer([item.shape for item in fields])
    return renderer.finish(renderer.object_schema(fields))


def value_schema(shape: Shape) -> dict[str, Any]:
    """Return the schema of one value."""
    renderer = _Renderer([shape])
    return renderer.finish(renderer.visit(shape))


def enforced_value_schema(shape: Shape, extra: Extra) -> dict[str, Any]:
    """Return the schema that a value is checked against, see `enforced_schema`."""
    renderer = _Renderer([shape], extra)
    return renderer.finish(renderer.visit(shape))


def enforced_schema(schema: Schema, shapes: Mapping[str, Shape], extra: Extra) -> Schema:
    """Return the schema that arguments are checked against; `schema` is the published one of `shapes`.

    Unless `extra` is "ignore", it refuses unknown names in nested objects, which the published one does not
    say. It accepts a time without an offset, although the published format has one.
    """
    parts = [part for shape in shapes.values() for part in walk_shape(shape)]
    if not any(isinstance(part, Record | External) for part in parts) and not any(
        type(part) is Scalar and part.format == "date-time" for part in parts
    ):
        return schema
    renderer = _Renderer(list(shapes.values()), extra)
    rendered = {name: renderer.visit(shape) for name, shape in shapes.items()}
    return renderer.finish({**schema, "properties": {**schema["properties"], **rendered}})


class _Renderer(ShapeVisitor[dict[str, Any]]):
    def __init__(self, roots: list[Shape], extra: Extra | None = None) -> None:
        """`extra` is None for schemas to publish."""
        self._extra = extra
        self._names = _name_shared(roots)
        self._adopted: dict[tuple[str, bytes], str] = {}
        self._definitions: dict[str, Any] = {}

    def nothing(self) -> dict[str, Any]:
        return {}

    def finish(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {**schema, "$defs": self._definitions} if self._definitions else schema

    def object_schema(self, fields: list[Field]) -> dict[str, Any]:
        properties = {}
        for item in fields:
            shape = item.shape
            schema = self.scalar(shape) if type(shape) is Scalar else self.visit(shape)  # faster for most
            if item.description:
                schema["description"] = join_descriptions(item.description, schema.get("description"))
            if item.default is not MISSING:
                schema["default"] = item.default
            properties[item.name] = schema
        rendered: dict[str, Any] = {"type": "object", "properties": properties}
        required = [item.name for item in fields if item.required]
        if required:
            rendered["required"] = required
        return rendered

    def scalar(self, shape: Scalar) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": shape.kind}
        if shape.format == "date-time" and self._extra is not None:
            schema["pattern"] = DATE_TIME_PATTERN
        elif shape.format is not None:
            schema["format"] = shape.format
        if shape.pattern is not None:
            schema["pattern"] = shape.pattern
        if shape.encoding is not None:
            schema["contentEncoding"] = shape.encoding
        return schema

    def enumeration(self, shape: Enumeration) -> dict[str, Any]:
        kinds = {_JSON_TYPES.get(type(value)) for value in shape.values}
        if len(kinds) == 1 and None not in kinds:
            return {"type": kinds.pop(), "enum": list(shape.values)}
        return {"enum": list(shape.values)}

    def array(self, shape: Array) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "array"}
        if items := self.visit_optional(shape.items):
            schema["items"] = items
        if shape.unique:
            schema["uniqueItems"] = True
        return schema

    def fixed_array(self, shape: FixedArray) -> dict[str, Any]:
        count = len(shape.items)
        if not count:
            return {"type": "array", "maxItems": 0}
        items = [self.visit(item) for item in shape.items]
        return {"type": "array", "prefixItems": items, "minItems": count, "maxItems": count}

    def dictionary(self, shape: Dictionary) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object"}
        names = self.visit_optional(shape.keys)
        names.pop("type", None)  # a key is always a string
        if names:
            schema["propertyNames"] = names
        if values := self.visit_optional(shape.values):
            schema["additionalProperties"] = values
        return schema

    def union(self, shape: Union) -> dict[str, Any]:
        return {"anyOf": [self.visit(option) for option in shape.options]}

    def constrained(self, shape: Constrained) -> dict[str, Any]:
        return {**self.visit(shape.base), **shape.keywords}

    def record(self, shape: Record) -> dict[str, Any]:
        schema = self.object_schema(shape.fields)
        if shape.closed or (self._extra == "refuse" and not shape.open):
            schema["additionalProperties"] = False
        if shape.description:
            schema["description"] = shape.description
        return schema

    def named(self, shape: Named) -> dict[str, Any]:
        name = self._names.get(id(shape))
        if name is None:
            return self.visit(shape.target)
        if name not in self._definitions:
            self._definitions[name] = {}  # a placeholder while the target refers to itself
            self._definitions[name] = self.visit(shape.target)
        return {"$ref": f"{DEFINITION_PREFIX}{name}"}

    def external(self, shape: External) -> dict[str, Any]:
        """Return pydantic's schema, its `$defs` moved to the root, each once, under names that are free."""
        schema = shape.schema
        if self._extra is not None and shape.make_enforced is not None:
            schema = shape.make_enforced(self._extra)
        definitions = schema.get("$defs", {})
        new_names: dict[str, str] = {}
        for name in definitions:
            key = (name, codec.canonical(_reachable(name, definitions)))
            if key not in self._adopted:
                self._adopted[key] = _free_name(name, {*self._names.values(), *self._adopted.values()})
            new_names[f"{DEFINITION_PREFIX}{name}"] = f"{DEFINITION_PREFIX}{self._adopted[key]}"
        renamed = rewrite_references(schema, lambda reference: new_names.get(reference, reference))
        for name, definition in renamed.pop("$defs", {}).items():
            self._definitions[new_names[f"{DEFINITION_PREFIX}{name}"][len(DEFINITION_PREFIX) :]] = definition
        return dict(renamed)


def _name_shared(roots: list[Shape]) -> dict[int, str]:
    """Name the shapes that are used more than once; keys are their ids."""
    names: dict[int, str] = {}
    seen: set[int] = set()
    pending = [shape for shape in roots if type(shape) not in _LEAVES and not _is_flat(shape)]
    while pending:
        shape = pending.pop()
        if isinstance(shape, Named):
            if id(shape) in seen:
                if id(shape) not in names:
                    names[id(shape)] = _free_name(shape.name, set(names.values()))
                continue
            seen.add(id(shape))
        pending.extend(children(shape))
    return names


def _is_flat(shape: Shape) -> bool:
    return type(shape) is Array and type(shape.items) in _LEAVES


def _reachable(name: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return a definition with every definition that it refers to: two of one name may be different."""
    found: dict[str, Any] = {}
    pending = [name]
    while pending:
        key = pending.pop()
        if key in definitions and key not in found:
            found[key] = definitions[key]
            references = (str(node.get("$ref", "")) for _, node in walk(definitions[key]))
            pending += [reference.removeprefix(DEFINITION_PREFIX) for reference in references]
    return found


def _free_name(name: str, taken: set[str]) -> str:
    free, number = name, 2
    while free in taken:
        free, number = f"{name}{number}", number + 1
    return free
