"""Shapes written as JSON Schema.

What is used twice, or refers to itself, goes to `$defs`; everything else stands in its place. Knows the
keywords. Adds none that its author did not ask for.
"""

from __future__ import annotations

from typing import Any

from toolcrib.schema.shapes import (
    MISSING,
    Array,
    Either,
    Field,
    Foreign,
    Named,
    OneOf,
    Record,
    Refined,
    Row,
    Scalar,
    Shape,
    Table,
    children,
)
from toolcrib.validation import codec

_DEFINITION = "#/$defs/"
_LEAVES = frozenset({Scalar, OneOf})
"""What most shapes are: nothing has to be looked for in them."""


def to_schema(fields: list[Field]) -> dict[str, Any]:
    """The schema of a tool's arguments, as the documents spell it."""
    renderer = _Renderer([item.shape for item in fields])
    return renderer.finish(renderer.fields_schema(fields))


def to_value_schema(shape: Shape) -> dict[str, Any]:
    """The schema of one value."""
    renderer = _Renderer([shape])
    return renderer.finish(renderer.render(shape))


def join_descriptions(here: str, own: str | None) -> str:
    """What a value is for in this place, and what its class says that it is."""
    return f"{here}\n\n{own}" if own and own != here else here


class _Renderer:
    """Writes shapes as JSON Schema; what is used twice or refers to itself goes to `$defs`."""

    def __init__(self, roots: list[Shape]) -> None:
        self.names = _name_shared(roots)
        self.adopted: dict[tuple[str, bytes], str] = {}
        self.definitions: dict[str, Any] = {}

    def finish(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {**schema, "$defs": self.definitions} if self.definitions else schema

    def fields_schema(self, fields: list[Field]) -> dict[str, Any]:
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {item.name: self._field_schema(item) for item in fields},
        }
        required = [item.name for item in fields if item.required]
        if required:
            schema["required"] = required
        return schema

    def _field_schema(self, item: Field) -> dict[str, Any]:
        shape = item.shape
        schema = _scalar_schema(shape) if type(shape) is Scalar else self.render(shape)
        if item.description:
            schema["description"] = join_descriptions(item.description, schema.get("description"))
        if item.default is not MISSING:
            schema["default"] = item.default
        return schema

    def render(self, shape: Shape) -> dict[str, Any]:
        if type(shape) is Scalar:  # as most are
            return _scalar_schema(shape)
        match shape:
            case OneOf(values=values):
                return _enum_schema(values)
            case Array():
                return self._array_schema(shape)
            case Row():
                return self._row_schema(shape)
            case Table():
                return self._table_schema(shape)
            case Either(options=options):
                return {"anyOf": [self.render(option) for option in options]}
            case Refined(base=base, keywords=keywords):
                return {**self.render(base), **keywords}
            case Record():
                return self._record_schema(shape)
            case Named():
                return self._named_schema(shape)
            case Foreign(schema=foreign):
                return self._foreign_schema(foreign)
            case _:
                return {}

    def _array_schema(self, shape: Array) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "array"}
        if shape.items is not None and (inner := self.render(shape.items)):
            schema["items"] = inner
        if shape.unique:
            schema["uniqueItems"] = True
        return schema

    def _row_schema(self, shape: Row) -> dict[str, Any]:
        count = len(shape.items)
        if not count:
            return {"type": "array", "maxItems": 0}
        places = [self.render(item) for item in shape.items]
        return {"type": "array", "prefixItems": places, "minItems": count, "maxItems": count}

    def _table_schema(self, shape: Table) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object"}
        if shape.keys is not None:
            names = self.render(shape.keys)
            names.pop("type", None)  # a key is a string, that goes without saying
            if names:
                schema["propertyNames"] = names
        if shape.values is not None and (inner := self.render(shape.values)):
            schema["additionalProperties"] = inner
        return schema

    def _record_schema(self, record: Record) -> dict[str, Any]:
        schema = self.fields_schema(record.fields)
        if record.closed:
            schema["additionalProperties"] = False
        if record.description:
            schema["description"] = record.description
        return schema

    def _named_schema(self, shape: Named) -> dict[str, Any]:
        name = self.names.get(id(shape))
        if name is None:
            return self.render(shape.target)
        if name not in self.definitions:
            self.definitions[name] = {}  # stands in while the target refers to itself
            self.definitions[name] = self.render(shape.target)
        return {"$ref": f"{_DEFINITION}{name}"}

    def _foreign_schema(self, foreign: dict[str, Any]) -> dict[str, Any]:
        """Another engine's schema, its `$defs` moved to the root, each once, under names that are free."""
        inner = foreign.get("$defs", {})
        names: dict[str, str] = {}
        for name in inner:
            meaning = (name, codec.canonical(_reachable(name, inner)))
            if meaning not in self.adopted:
                self.adopted[meaning] = _free_name(name, {*self.names.values(), *self.adopted.values()})
            names[name] = self.adopted[meaning]
        for name, definition in inner.items():
            self.definitions[names[name]] = _rename_references(definition, names)
        body = {key: value for key, value in foreign.items() if key != "$defs"}
        renamed: dict[str, Any] = _rename_references(body, names)
        return renamed


def _name_shared(roots: list[Shape]) -> dict[int, str]:
    """Names for the shapes that are met more than once, by identity."""
    names: dict[int, str] = {}
    waiting = [
        shape
        for shape in roots
        if type(shape) not in _LEAVES and not (type(shape) is Array and type(shape.items) in _LEAVES)
    ]
    if not waiting:
        return names  # as of most tools
    seen: set[int] = set()
    while waiting:
        shape = waiting.pop()
        if isinstance(shape, Named):
            if id(shape) in seen:
                if id(shape) not in names:
                    names[id(shape)] = _free_name(shape.name, set(names.values()))
                continue
            seen.add(id(shape))
        waiting.extend(children(shape))
    return names


def _free_name(name: str, taken: set[str]) -> str:
    free, number = name, 2
    while free in taken:
        free, number = f"{name}{number}", number + 1
    return free


def _reachable(name: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """A definition with everything it refers to: what it means, whoever else has the same name."""
    found: dict[str, Any] = {}
    waiting = [name]
    while waiting:
        key = waiting.pop()
        if key not in found:
            found[key] = definitions[key]
            waiting.extend(_references(definitions[key]))
    return found


def _references(node: Any) -> list[str]:
    """The names of all definitions that a schema refers to."""
    if isinstance(node, dict):
        inner = [name for value in node.values() for name in _references(value)]
        target = _target(node)
        return inner if target is None else [target, *inner]
    return [name for item in node for name in _references(item)] if isinstance(node, list) else []


def _target(node: dict[str, Any]) -> str | None:
    reference = node.get("$ref")
    is_local = isinstance(reference, str) and reference.startswith(_DEFINITION)
    return str(reference).removeprefix(_DEFINITION) if is_local else None


def _rename_references(node: Any, names: dict[str, str]) -> Any:
    if isinstance(node, dict):
        renamed = {key: _rename_references(value, names) for key, value in node.items()}
        target = _target(node)
        return renamed if target is None else {**renamed, "$ref": f"{_DEFINITION}{names[target]}"}
    return [_rename_references(item, names) for item in node] if isinstance(node, list) else node


def _scalar_schema(shape: Scalar) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": shape.kind}
    if shape.format is not None:
        schema["format"] = shape.format
    if shape.pattern is not None:
        schema["pattern"] = shape.pattern
    if shape.encoding is not None:
        schema["contentEncoding"] = shape.encoding
    return schema


_JSON_TYPES: dict[type, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}


def _enum_schema(values: tuple[Any, ...]) -> dict[str, Any]:
    kinds = {_JSON_TYPES.get(type(value)) for value in values}
    if len(kinds) == 1 and None not in kinds:
        return {"type": kinds.pop(), "enum": list(values)}
    return {"enum": list(values)}
