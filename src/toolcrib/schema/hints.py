"""Run-time type hints become shapes.

Knows `typing`. Classes with fields are handed to records.py, what only pydantic can say to rich.py. A hint
that nobody knows becomes Anything with a finding: the tool works, its author is told.
"""

from __future__ import annotations

import collections
import collections.abc as abc
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import inspect
import ipaddress
import os
import pathlib
import re
import types
import typing
import uuid
from typing import Any

from toolcrib.errors import InvalidSignatureError
from toolcrib.schema import pydantic as rich
from toolcrib.schema import records
from toolcrib.schema.annotations import is_alias, origin_of, unalias
from toolcrib.schema.enums import merge_literals, name_keys, read_enum, read_literal
from toolcrib.schema.notes import SILENCE, Notes, is_field, is_qualifier, refine, split_annotated
from toolcrib.schema.shapes import (
    Anything,
    Array,
    Either,
    Foreign,
    Named,
    OneOf,
    Refined,
    Row,
    Scalar,
    Shape,
    Table,
)

# JSON Schema's `time` insists on an offset, its `duration` has neither fractions nor signs. Python's differ.
_TIME = r"^[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?(Z|[+-][0-9]{2}:[0-9]{2})?$"
_DURATION = "^-?P[0-9DHMSTW.]+$"

_SCALARS: dict[Any, Scalar] = {
    str: Scalar("string"),
    typing.LiteralString: Scalar("string"),
    int: Scalar("integer", python=int),
    float: Scalar("number", python=float),
    bool: Scalar("boolean"),
    type(None): Scalar("null"),
    None: Scalar("null"),
    bytes: Scalar("string", encoding="base64", python=bytes),
    bytearray: Scalar("string", encoding="base64", python=bytearray),
    complex: Scalar("string", python=complex),
    dt.datetime: Scalar("string", "date-time", python=dt.datetime),
    dt.date: Scalar("string", "date", python=dt.date),
    dt.time: Scalar("string", pattern=_TIME, python=dt.time),
    dt.timedelta: Scalar("string", pattern=_DURATION, python=dt.timedelta),
    uuid.UUID: Scalar("string", "uuid", python=uuid.UUID),
    decimal.Decimal: Scalar("number", python=decimal.Decimal),
    fractions.Fraction: Scalar("string", python=fractions.Fraction),
    pathlib.Path: Scalar("string", python=pathlib.Path),
    pathlib.PurePath: Scalar("string", python=pathlib.PurePath),
    pathlib.PurePosixPath: Scalar("string", python=pathlib.PurePosixPath),
    os.PathLike: Scalar("string", python=pathlib.Path),
    re.Pattern: Scalar("string", "regex", python=re.compile),
    ipaddress.IPv4Address: Scalar("string", "ipv4", python=ipaddress.IPv4Address),
    ipaddress.IPv6Address: Scalar("string", "ipv6", python=ipaddress.IPv6Address),
    ipaddress.IPv4Network: Scalar("string", python=ipaddress.IPv4Network),
    ipaddress.IPv6Network: Scalar("string", python=ipaddress.IPv6Network),
}
ARRAYS: dict[Any, Any] = {
    list: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    collections.deque: collections.deque,
    abc.Sequence: list,
    abc.MutableSequence: list,
    abc.Collection: list,
    abc.Iterable: list,
    abc.Iterator: iter,
    abc.Generator: iter,
    abc.AsyncIterator: list,
    abc.AsyncIterable: list,
    abc.AsyncGenerator: list,
    abc.Set: frozenset,
    abc.MutableSet: set,
}
_SETS = (set, frozenset)
_STARTS_EMPTY = (int, float, str, list, dict, set)
_TABLES = (
    dict,
    abc.Mapping,
    abc.MutableMapping,
    collections.OrderedDict,
    collections.defaultdict,
    collections.Counter,
)
_INTEGER_KEY = "^-?[0-9]+$"
_NUMBER_KEY = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"


class HintReader:
    """Turns the hints of one function into shapes; remembers what was named and what was unknown."""

    def __init__(self, mode: rich.Mode = "validation") -> None:
        self.mode = mode
        self.named: dict[Any, Named] = {}
        self.unknown: list[str] = []

    def read(self, hint: Any) -> tuple[Shape, Notes]:
        """The shape of a hint, and what is said beside it."""
        bare, notes = split_annotated(hint)
        if notes is SILENCE:
            return self.shape(bare), notes
        if notes.needs_pydantic:
            return rich.foreign(hint, self.mode), notes
        shape = self.shape(bare)
        if notes.bounds and isinstance(shape, Foreign):
            return rich.foreign(hint, self.mode), notes
        return refine(shape, notes), notes

    def shape(self, hint: Any) -> Shape:
        try:
            known = _SCALARS.get(hint)
        except TypeError:  # unhashable
            known = None
        if known is not None:
            return known
        origin = origin_of(hint)
        if origin is not None:
            return self._generic(hint, origin, typing.get_args(hint))
        if hint is Any or hint is object or hint is inspect.Parameter.empty:
            return Anything()
        if isinstance(hint, type):
            return self._class(hint)
        if isinstance(hint, typing.TypeVar):
            return self._variable(hint)
        if isinstance(hint, typing.NewType):
            return self.shape(hint.__supertype__)
        if isinstance(hint, dataclasses.InitVar):
            return self.shape(hint.type)
        if is_alias(hint):
            return self._named(hint, hint.__name__, lambda: self.shape(hint.__value__))
        return self._unknown(hint)

    def _class(self, hint: type) -> Shape:
        if hint in ARRAYS:
            return _array(None, ARRAYS[hint])
        if hint in _TABLES:
            return Table(python=_table_maker(hint, ()))
        if issubclass(hint, enum.Enum):
            return read_enum(hint)
        if records.is_record(hint):
            return self._record(hint, hint)
        if hasattr(hint, "__get_pydantic_core_schema__"):
            return rich.foreign(hint, self.mode)
        for base in (pathlib.PurePath, str, int, float):
            if issubclass(hint, base):  # a subclass of a plain type travels as that type
                return Scalar(_SCALARS[base].kind, python=hint)
        return self._unknown(hint)

    def _unknown(self, hint: Any) -> Shape:
        if isinstance(hint, str | int | float | list | tuple | dict) or is_field(hint):
            advice = "write Annotated[type, Field(...)]" if is_field(hint) else "annotate with a type"
            raise InvalidSignatureError(f"annotation {hint!r} is not a type", hint=advice)
        name = getattr(hint, "__name__", None) or str(hint)
        self.unknown.append(name)
        return Anything(hint)

    def _generic(self, hint: Any, origin: Any, arguments: tuple[Any, ...]) -> Shape:
        if origin is typing.Annotated or is_qualifier(origin):
            shape, notes = self.read(hint)
            return Refined(shape, {"description": notes.description}) if notes.description else shape
        if origin is typing.Literal:
            return read_literal(arguments)
        if origin is typing.Union or origin is types.UnionType:
            return self._union(arguments)
        if origin is tuple and hint is not typing.Tuple:  # noqa: UP006 - bare, it has no places
            return self._tuple(arguments)
        if origin in ARRAYS:
            return _array(self.shape(arguments[0]) if arguments else None, ARRAYS[origin])
        if origin in _TABLES:
            return self._table(origin, arguments)
        if origin in _SCALARS:
            return _SCALARS[origin]  # Pattern[str], PathLike[str]
        if is_alias(origin):
            return self._named(hint, origin.__name__, lambda: self.shape(unalias(hint)))
        if isinstance(origin, type) and records.is_record(origin):
            return self._record(hint, origin)
        return self._unknown(hint)

    def _record(self, hint: Any, cls: type) -> Shape:
        return self._named(hint, cls.__name__, lambda: records.read_record(hint, self.read, self.mode))

    def _named(self, key: Any, name: str, build: abc.Callable[[], Shape]) -> Shape:
        """A named shape, registered before it is built, so that it may refer to itself."""
        if key in self.named:
            return self.named[key]
        named = self.named[key] = Named(re.sub(r"\W+", "_", name).strip("_"))
        named.target = build()
        return named

    def _variable(self, hint: typing.TypeVar) -> Shape:
        if hint.__constraints__:
            return self._union(hint.__constraints__)
        return self.shape(hint.__bound__) if hint.__bound__ is not None else Anything()

    def _union(self, arguments: tuple[Any, ...]) -> Shape:
        options = tuple(self.shape(item) for item in arguments)
        if any(type(option) is Anything for option in options):
            return Anything()
        literals = [option for option in options if isinstance(option, OneOf)]
        if len(literals) == len(options):
            return merge_literals(literals)
        return options[0] if len(options) == 1 else Either(options)

    def _tuple(self, arguments: tuple[Any, ...]) -> Shape:
        if len(arguments) == 2 and arguments[1] is ...:
            return Array(self.shape(arguments[0]), python=tuple)
        return Row(tuple(self.shape(item) for item in arguments))

    def _table(self, origin: Any, arguments: tuple[Any, ...]) -> Shape:
        if origin is collections.Counter and arguments:
            arguments = (*arguments, int)
        make = _table_maker(origin, arguments)
        if len(arguments) < 2:
            return Table(python=make)
        keys = _key_shape(self.shape(arguments[0]))
        values = self.shape(arguments[1])
        return Table(None if type(values) is Anything else values, keys, make)


def split_optional(hint: Any) -> tuple[Any, bool]:
    """The hint without `None`, and whether `None` was in it. Metadata around the union is kept."""
    if type(hint) is type:
        return hint, hint is types.NoneType
    origin = origin_of(hint)
    if origin is typing.Annotated:
        inner, nullable = split_optional(hint.__origin__)
        return (typing.Annotated[(inner, *hint.__metadata__)], nullable) if nullable else (hint, False)
    if origin is typing.Union or origin is types.UnionType:
        parts = [split_optional(item) for item in typing.get_args(hint) if item is not type(None)]
        if len(parts) == len(typing.get_args(hint)) and not any(nullable for _, nullable in parts):
            return hint, False
        rest = tuple(item for item, _ in parts if item is not None)
        return typing.Union[rest], True  # noqa: UP007 - built from a tuple
    if origin is typing.Literal:
        values = tuple(value for value in typing.get_args(hint) if value is not None)
        return (hint, False) if len(values) == len(typing.get_args(hint)) else (_literal(values), True)
    if is_alias(hint) or is_alias(origin):
        meant = unalias(hint)
        inner, nullable = (meant, False) if is_alias(meant) else split_optional(meant)
        return (inner, True) if nullable else (hint, False)
    return hint, hint is None


def _literal(values: tuple[Any, ...]) -> Any:
    return typing.Literal[values] if values else None


def _array(items: Shape | None, python: Any) -> Array:
    return Array(items, python in _SETS, python)


def _table_maker(origin: Any, arguments: tuple[Any, ...]) -> Any:
    """What makes a dict the mapping that was asked for."""
    if origin is collections.defaultdict:
        value = arguments[1] if len(arguments) == 2 else None
        made = origin_of(value) or value
        return functools.partial(collections.defaultdict, made if made in _STARTS_EMPTY else None)
    return origin if origin in (collections.OrderedDict, collections.Counter) else dict


def _key_shape(shape: Shape) -> Shape | None:
    """The form of an object's keys, which are strings whatever they stand for; None where any will do."""
    match shape:
        case Anything() | Scalar(kind="string", format=None, pattern=None, python=None):
            return None
        case Scalar(kind="string") | Refined(base=Scalar(kind="string")) | Foreign(schema={"type": "string"}):
            return shape
        case Scalar(kind="integer" | "number" as kind, python=python):
            return Scalar("string", pattern=_INTEGER_KEY if kind == "integer" else _NUMBER_KEY, python=python)
        case Scalar(kind="boolean"):
            return OneOf(("true", "false"), (True, False))
        case OneOf():
            return name_keys(shape)
        case Named(target=inner) | Refined(base=OneOf() as inner):
            return _key_shape(inner)
        case Either(options=options):
            keys = [_key_shape(option) for option in options]
            return None if None in keys else Either(tuple(key for key in keys if key is not None))
    raise InvalidSignatureError(
        "it has keys that JSON cannot have", hint="use a list of pairs, or keys that are text"
    )
