"""The small type language between annotations and JSON Schema.

Run-time hints become shapes (hints.py), and so can a syntax tree that is only read; a shape becomes a
schema (rendering.py), a loader (convert.py) and a dumper (dumper.py). Refuses to know `typing`, functions and
tools.

`python` on a shape is the Python type its values are made into; a reader of source leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from toolcrib.validation.schema_tree import Schema


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
    """A form that another engine describes: its schema, and how it loads and dumps a `python`; how it loads a
    list of them at once, if it can."""

    schema: dict[str, Any]
    load: Callable[[Any], Any]
    dump: Callable[[Any], Any]
    python: Any = None
    load_list: Callable[[Any], Any] | None = None


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


def bare(shape: Shape | None) -> Shape | None:
    """The shape behind names and further keywords."""
    while isinstance(shape, Named | Refined):
        shape = shape.target if isinstance(shape, Named) else shape.base
    return shape
