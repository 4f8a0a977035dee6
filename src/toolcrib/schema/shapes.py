"""Shapes: the small typed form between annotations and JSON Schema.

Type hints become shapes (hints.py). A shape becomes a JSON Schema (render.py), a loader that makes Python
values of JSON, and a dumper that makes JSON of Python values (both converters.py). To add a shape, add it
to _METHODS and `children`, and a method to those three.

`python` on a shape is the Python type that values are converted to.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Literal, TypeVar

from toolcrib.options import Extra
from toolcrib.validation.schema_tree import Schema

T = TypeVar("T")
Convert = Callable[[Any], Any]


class Missing:
    """The type of MISSING: no default, as opposed to a default of None."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()


class Shape:
    """The form of a JSON value."""

    __slots__ = ()


@dataclass(slots=True, eq=False)
class AnyValue(Shape):
    """Any JSON value. `python` is a class that is not supported."""

    python: Any = None


@dataclass(slots=True, eq=False)
class Scalar(Shape):
    kind: Literal["string", "integer", "number", "boolean", "null"]
    format: str | None = None
    pattern: str | None = None
    encoding: str | None = None
    python: Any = None


@dataclass(slots=True, eq=False)
class Enumeration(Shape):
    """A fixed set of values. `members` are what they are converted to, in the same order."""

    values: tuple[Any, ...]
    members: tuple[Any, ...] | None = None


@dataclass(slots=True, eq=False)
class Array(Shape):
    items: Shape | None = None
    unique: bool = False
    python: Any = list


@dataclass(slots=True, eq=False)
class FixedArray(Shape):
    """An array of fixed length, with a shape for each item."""

    items: tuple[Shape, ...]


@dataclass(slots=True, eq=False)
class Dictionary(Shape):
    """An object with any keys. `keys` is the shape of a key, which in JSON is always a string."""

    values: Shape | None = None
    keys: Shape | None = None
    python: Any = dict


@dataclass(slots=True, eq=False)
class Union(Shape):
    options: tuple[Shape, ...]


@dataclass(slots=True, eq=False)
class Constrained(Shape):
    """A shape with further schema keywords: bounds, a pattern, a description, examples."""

    base: Shape
    keywords: dict[str, Any]


@dataclass(slots=True, eq=False)
class Field:
    """A member of a record, or a parameter of a function.

    `name` is the key in JSON, `keyword` the name in the constructor, `attribute` the name on the finished
    object (None for a value that only the constructor takes).
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
    """An object with known fields, made into a `python` by keywords.

    A `closed` one publishes that it has no other fields. Calls may have others only if it is `open`.
    """

    name: str
    fields: list[Field] = field(default_factory=list)
    description: str = ""
    closed: bool = False
    python: Any = None
    open: bool = False


@dataclass(slots=True, eq=False)
class Named(Shape):
    """A shape that others may refer to, itself included. Rendered in place where it is used once."""

    name: str
    target: Shape = field(default_factory=AnyValue)


@dataclass(slots=True, eq=False)
class External(Shape):
    """A shape that pydantic describes, loads and dumps. `load_list` loads a list of them at once.

    `make_enforced` returns the schema that values are checked against (render.py).
    """

    schema: dict[str, Any]
    load: Convert
    dump: Convert
    python: Any = None
    load_list: Convert | None = None
    make_enforced: Callable[[Extra], dict[str, Any]] | None = None


# --- visiting ----------------------------------------------------------------------------------------


class ShapeVisitor(ABC, Generic[T]):
    """Calls the method for the class of a shape: `scalar(shape)`, `array(shape)`, see _METHODS.

    A method that a visitor does not have means `nothing()`. Constrained and Named are looked through.
    """

    def visit(self, shape: Shape) -> T:
        method: Callable[[Shape], T] | None = getattr(self, _METHODS[type(shape)], None)
        return self.nothing() if method is None else method(shape)

    def visit_optional(self, shape: Shape | None) -> T:
        return self.nothing() if shape is None else self.visit(shape)

    @abstractmethod
    def nothing(self) -> T: ...

    def constrained(self, shape: Constrained) -> T:
        return self.visit(shape.base)

    def named(self, shape: Named) -> T:
        return self.visit(shape.target)


_METHODS: dict[type[Shape], str] = {
    AnyValue: "any_value",
    Scalar: "scalar",
    Enumeration: "enumeration",
    Array: "array",
    FixedArray: "fixed_array",
    Dictionary: "dictionary",
    Union: "union",
    Record: "record",
    External: "external",
    Constrained: "constrained",
    Named: "named",
}


class ConverterBuilder(ShapeVisitor[Convert | None]):
    """Builds the converter of a shape, None where values stay as they are. Shapes may be recursive."""

    def __init__(self) -> None:
        self._named: dict[int, list[Convert | None]] = {}

    def nothing(self) -> Convert | None:
        return None

    def named(self, shape: Named) -> Convert | None:
        cell = self._named.get(id(shape))
        if cell is None:
            cell = self._named[id(shape)] = []
            cell.append(self.visit(shape.target))
        elif not cell:  # the shape is being built: it refers to itself
            return lambda value: convert(cell[0], value)
        return cell[0]


def convert(converter: Convert | None, value: Any) -> Any:
    return value if converter is None else converter(value)


def children(shape: Shape) -> Iterator[Shape]:
    """Yield the shapes that a shape consists of."""
    match shape:
        case Array(items=Shape() as items):
            yield items
        case FixedArray(items=items):
            yield from items
        case Dictionary(values=values, keys=keys):
            yield from (child for child in (values, keys) if child is not None)
        case Union(options=options):
            yield from options
        case Constrained(base=base):
            yield base
        case Record(fields=fields):
            yield from (item.shape for item in fields)
        case Named(target=target):
            yield target


def walk(shape: Shape) -> Iterator[Shape]:
    """Yield a shape and all that it consists of, each once."""
    seen: set[int] = set()
    pending = [shape]
    while pending:
        item = pending.pop()
        if id(item) not in seen:
            seen.add(id(item))
            yield item
            pending.extend(children(item))


def unwrap(shape: Shape | None) -> Shape | None:
    """Return the shape behind names and further keywords."""
    while isinstance(shape, Named | Constrained):
        shape = shape.target if isinstance(shape, Named) else shape.base
    return shape


# --- null --------------------------------------------------------------------------------------------


def accepts_none(shape: Shape) -> bool:
    """Whether null is among the values of a shape."""
    match unwrap(shape):
        case AnyValue() | Scalar(kind="null"):
            return True
        case Enumeration(values=values):
            return None in values
        case Union(options=options):
            return any(map(accepts_none, options))
        case External(schema=schema):
            return "$ref" not in schema and accepts_null(schema)
    return False


def accepts_null(schema: Schema) -> bool:
    """Whether a schema allows null, judged without following references; also where it allows anything."""
    kind = schema.get("type")
    if kind is not None:
        return kind == "null" or (isinstance(kind, list) and "null" in kind)
    if "enum" in schema:
        return None in schema["enum"]
    if "const" in schema:
        return schema["const"] is None
    for keyword in ("anyOf", "oneOf"):
        if isinstance(schema.get(keyword), list):
            return any(item is True or (item is not False and accepts_null(item)) for item in schema[keyword])
    return True
