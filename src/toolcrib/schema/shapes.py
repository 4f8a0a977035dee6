"""The small type language between annotations and JSON Schema.

Run-time hints become shapes (hints.py), and so can a syntax tree that is only read; a shape becomes a
schema here, and a converter in convert.py. Knows JSON Schema. Refuses to know `typing`, functions, tools.

`python` on a shape is the Python type its values are made into; a reader of source leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from toolcrib.bounds import Schema


class Missing:
    """The type of MISSING: no default, which is something else than a default of None."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()


class Shape:
    """One form that a JSON value may take."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class Anything(Shape):
    """Any JSON value. `python` is a class that nothing is known of."""

    python: Any = None


@dataclass(slots=True, eq=False)
class Scalar(Shape):
    kind: Literal["string", "integer", "number", "boolean", "null"]
    format: str | None = None
    pattern: str | None = None
    encoding: str | None = None
    python: Any = None


@dataclass(slots=True, eq=False)
class OneOf(Shape):
    """A fixed set of values. `members` are what they are made into, in the same order."""

    values: tuple[Any, ...]
    members: tuple[Any, ...] | None = None


@dataclass(slots=True, eq=False)
class Array(Shape):
    items: Shape | None = None
    unique: bool = False
    python: Any = list


@dataclass(slots=True, eq=False)
class Row(Shape):
    """An array of fixed length, each place with a form of its own."""

    items: tuple[Shape, ...]


@dataclass(slots=True, eq=False)
class Table(Shape):
    """An object with free keys. `keys` is the form of a key, which in JSON is always a string."""

    values: Shape | None = None
    keys: Shape | None = None
    python: Any = dict


@dataclass(slots=True, eq=False)
class Either(Shape):
    options: tuple[Shape, ...]


@dataclass(slots=True, eq=False)
class Refined(Shape):
    """A shape with further schema keywords: bounds, a pattern, a description, examples."""

    base: Shape
    keywords: dict[str, Any]


@dataclass(slots=True, eq=False)
class Field:
    """One member of a record, or one parameter.

    `name` is the key in JSON, `keyword` what the constructor calls it, `attribute` where the finished object
    keeps it; a keyword that is only for the constructor has none.
    """

    name: str
    shape: Shape
    required: bool = True
    default: Any = MISSING
    description: str = ""
    keyword: str = ""
    attribute: str | None = None


@dataclass(slots=True, eq=False)
class Record(Shape):
    """An object with known fields, made into a `python` by keywords. `closed` refuses others."""

    name: str
    fields: list[Field] = field(default_factory=list)
    description: str = ""
    closed: bool = False
    python: Any = None


@dataclass(slots=True, eq=False)
class Named(Shape):
    """A shape that others refer to, itself included. Rendered in place where used once."""

    name: str
    target: Shape = field(default_factory=Anything)


@dataclass(slots=True, eq=False)
class Foreign(Shape):
    """A form that another engine describes: its schema, and how it loads and dumps a `python`."""

    schema: dict[str, Any]
    load: Callable[[Any], Any]
    dump: Callable[[Any], Any]
    python: Any = None


def children(shape: Shape) -> Iterator[Shape]:
    match shape:
        case Array(items=Shape() as items):
            yield items
        case Row(items=items):
            yield from items
        case Table(values=values, keys=keys):
            yield from (child for child in (values, keys) if child is not None)
        case Either(options=options):
            yield from options
        case Refined(base=base):
            yield base
        case Record(fields=fields):
            yield from (item.shape for item in fields)
        case Named(target=target):
            yield target


def admits_none(shape: Shape) -> bool:
    """Whether null is among the values of a shape."""
    match shape:
        case Anything() | Scalar(kind="null"):
            return True
        case OneOf(values=values):
            return None in values
        case Either(options=options):
            return any(admits_none(option) for option in options)
        case Refined(base=base):
            return admits_none(base)
        case Named(target=target):
            return admits_none(target)
        case Foreign(schema=schema):
            return "$ref" not in schema and admits_null(schema)
    return False


def to_schema(fields: list[Field]) -> dict[str, Any]:
    """The schema of a tool's arguments, as the documents spell it."""
    renderer = _Renderer([item.shape for item in fields])
    return renderer.finish(renderer.fields_schema(fields))


def to_value_schema(shape: Shape) -> dict[str, Any]:
    """The schema of one value."""
    renderer = _Renderer([shape])
    return renderer.finish(renderer.render(shape))


class _Renderer:
    """Writes shapes as JSON Schema; what is used twice or refers to itself goes to `$defs`."""

    def __init__(self, roots: list[Shape]) -> None:
        self.shared: dict[int, str] = {}
        self.definitions: dict[str, Any] = {}
        self._find_shared(roots)

    def _find_shared(self, roots: list[Shape]) -> None:
        seen: set[int] = set()
        waiting = list(roots)
        while waiting:
            shape = waiting.pop()
            if isinstance(shape, Named):
                if id(shape) in seen:
                    self._share(shape)
                    continue
                seen.add(id(shape))
            waiting.extend(children(shape))

    def _share(self, shape: Named) -> None:
        if id(shape) not in self.shared:
            taken = set(self.shared.values())
            name, number = shape.name, 2
            while name in taken:
                name, number = f"{shape.name}{number}", number + 1
            self.shared[id(shape)] = name

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
        schema = self.render(item.shape)
        if item.description:
            own = schema.get("description")  # of the class: what it is, beside what it is for here
            both = own and own != item.description
            schema["description"] = f"{item.description}\n\n{own}" if both else item.description
        if item.default is not MISSING:
            schema["default"] = item.default
        return schema

    def render(self, shape: Shape) -> dict[str, Any]:
        match shape:
            case Scalar():
                return _scalar_schema(shape)
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
        name = self.shared.get(id(shape))
        if name is None:
            return self.render(shape.target)
        if name not in self.definitions:
            self.definitions[name] = {}  # stands in while the target refers to itself
            self.definitions[name] = self.render(shape.target)
        return {"$ref": f"#/$defs/{name}"}

    def _foreign_schema(self, foreign: dict[str, Any]) -> dict[str, Any]:
        """Another engine's schema, its `$defs` moved to the root under names that are free."""
        inner = foreign.get("$defs")
        if not inner:
            return dict(foreign)
        taken = {*self.shared.values(), *self.definitions}
        names: dict[str, str] = {}
        for name, definition in inner.items():
            new, number = name, 2
            while new in taken and self.definitions.get(new) != definition:
                new, number = f"{name}{number}", number + 1
            names[name] = new
            taken.add(new)
        for name, definition in inner.items():
            self.definitions[names[name]] = _rename_refs(definition, names)
        body = {key: value for key, value in foreign.items() if key != "$defs"}
        renamed: dict[str, Any] = _rename_refs(body, names)
        return renamed


def _rename_refs(node: Any, names: dict[str, str]) -> Any:
    if isinstance(node, dict):
        renamed = {key: _rename_refs(value, names) for key, value in node.items()}
        reference = node.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/$defs/"):
            renamed["$ref"] = f"#/$defs/{names.get(reference[8:], reference[8:])}"
        return renamed
    if isinstance(node, list):
        return [_rename_refs(item, names) for item in node]
    return node


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


def admits_null(schema: Schema) -> bool:
    """Whether a schema itself speaks of null (or of nothing in particular, which includes it)."""
    kind = schema.get("type")
    if kind is not None:
        return kind == "null" or (isinstance(kind, list) and "null" in kind)
    if "enum" in schema:
        return None in schema["enum"]
    if "const" in schema:
        return schema["const"] is None
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list):
            return any(item is True or (item is not False and admits_null(item)) for item in schema[keyword])
    return True
