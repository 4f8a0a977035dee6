"""Run-time type hints become shapes.

Knows `typing`. Classes with fields are handed to records.py, what only pydantic can say to rich.py. A hint
that nobody knows becomes Anything with a finding: the tool works, its author is told.
"""

from __future__ import annotations

import collections
import collections.abc as abc
import datetime as dt
import decimal
import enum
import inspect
import ipaddress
import pathlib
import re
import types
import typing
import uuid
from typing import Any, ClassVar

from toolcrib.errors import InvalidSignatureError
from toolcrib.schema import records, rich
from toolcrib.schema.notes import Notes, refine, split_annotated
from toolcrib.schema.shapes import Anything, Array, Either, Named, OneOf, Row, Scalar, Shape, Table

_SCALARS: dict[Any, Scalar] = {
    str: Scalar("string"),
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
    dt.time: Scalar("string", "time", python=dt.time),
    dt.timedelta: Scalar("string", "duration", python=dt.timedelta),
    uuid.UUID: Scalar("string", "uuid", python=uuid.UUID),
    decimal.Decimal: Scalar("number", python=decimal.Decimal),
    pathlib.Path: Scalar("string", python=pathlib.Path),
    pathlib.PurePath: Scalar("string", python=pathlib.PurePath),
    pathlib.PurePosixPath: Scalar("string", python=pathlib.PurePosixPath),
    re.Pattern: Scalar("string", "regex", python=re.compile),
    ipaddress.IPv4Address: Scalar("string", "ipv4", python=ipaddress.IPv4Address),
    ipaddress.IPv6Address: Scalar("string", "ipv6", python=ipaddress.IPv6Address),
}
_ARRAYS: dict[Any, Any] = {
    list: list,
    set: set,
    frozenset: frozenset,
    collections.deque: collections.deque,
    abc.Sequence: list,
    abc.MutableSequence: list,
    abc.Collection: list,
    abc.Iterable: list,
    abc.Iterator: list,
    abc.Generator: list,
    abc.AsyncIterator: list,
    abc.AsyncIterable: list,
    abc.AsyncGenerator: list,
    abc.Set: frozenset,
    abc.MutableSet: set,
}
_TABLES = (
    dict,
    abc.Mapping,
    abc.MutableMapping,
    collections.OrderedDict,
    collections.defaultdict,
    collections.Counter,
)
_QUALIFIERS = {typing.Required, typing.NotRequired, typing.Final, ClassVar, getattr(typing, "ReadOnly", None)}


class HintReader:
    """Turns the hints of one function into shapes; remembers what was named and what was unknown."""

    def __init__(self) -> None:
        self.named: dict[Any, Named] = {}
        self.unknown: list[str] = []

    def read(self, hint: Any) -> tuple[Shape, Notes]:
        """The shape of a hint, and what is said beside it."""
        bare, notes = split_annotated(hint)
        if notes.needs_pydantic:
            return rich.foreign(hint), notes
        return refine(self.shape(bare), notes), notes

    def shape(self, hint: Any) -> Shape:
        try:
            known = _SCALARS.get(hint)
        except TypeError:  # unhashable
            known = None
        if known is not None:
            return known
        origin = typing.get_origin(hint)
        if origin is not None:
            return self._generic(hint, origin, typing.get_args(hint))
        if hint in (Any, object, inspect.Parameter.empty):
            return Anything()
        if isinstance(hint, typing.TypeVar):
            return self._variable(hint)
        if isinstance(hint, typing.NewType):
            return self.shape(hint.__supertype__)
        if type(hint).__name__ == "TypeAliasType":
            return self._alias(hint, hint.__name__, lambda: self.shape(hint.__value__))
        if isinstance(hint, type):
            return self._class(hint)
        return self._unknown(hint)

    def _class(self, hint: type) -> Shape:
        if hint in _ARRAYS:
            return Array(None, _is_set(hint), _ARRAYS[hint])
        if hint is tuple:
            return Array(None, python=tuple)
        if hint in _TABLES:
            return Table()
        if issubclass(hint, enum.Enum):
            return _enumeration(hint)
        if records.is_record(hint):
            return self._alias(hint, hint.__name__, lambda: records.read_record(hint, self.read))
        if hasattr(hint, "__get_pydantic_core_schema__"):
            return rich.foreign(hint)
        for base in (pathlib.PurePath, str, int, float):
            if issubclass(hint, base):  # a subclass of a plain type travels as that type
                plain = _SCALARS[base]
                return Scalar(plain.kind, python=hint)
        return self._unknown(hint)

    def _unknown(self, hint: Any) -> Shape:
        if isinstance(hint, str | int | float | bool | list | tuple | dict):
            raise InvalidSignatureError(f"annotation {hint!r} is not a type", hint="annotate with a type")
        name = getattr(hint, "__name__", None) or str(hint)
        self.unknown.append(name)
        return Anything(hint)

    def _generic(self, hint: Any, origin: Any, arguments: tuple[Any, ...]) -> Shape:
        if origin is typing.Annotated:
            return self.read(hint)[0]
        if origin is typing.Literal:
            return _literal(arguments)
        if origin is typing.Union or origin is types.UnionType:
            return self._union(arguments)
        if origin in _ARRAYS:
            items = self.shape(arguments[0]) if arguments else None
            return Array(items, _is_set(origin), _ARRAYS[origin])
        if origin is tuple:
            return self._tuple(arguments)
        if origin in _TABLES:
            return self._table(arguments)
        if origin in _QUALIFIERS:
            return self.shape(arguments[0])
        if origin is type:
            return self._unknown(hint)
        if type(origin).__name__ == "TypeAliasType":
            return self._alias(hint, origin.__name__, lambda: self.shape(origin.__value__[arguments]))
        if isinstance(origin, type) and records.is_record(origin):
            return self._alias(hint, origin.__name__, lambda: records.read_record(hint, self.read))
        return self._unknown(hint)

    def _alias(self, key: Any, name: str, build: Any) -> Shape:
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
        literals = [option for option in options if isinstance(option, OneOf)]
        if any(type(option) is Anything for option in options):
            return Anything()
        if len(literals) > 1 and len(literals) == len(options):
            return _merge_literals(literals)
        return options[0] if len(options) == 1 else Either(options)

    def _tuple(self, arguments: tuple[Any, ...]) -> Shape:
        if len(arguments) == 2 and arguments[1] is ...:
            return Array(self.shape(arguments[0]), python=tuple)
        return Row(tuple(self.shape(item) for item in arguments if item != ()))

    def _table(self, arguments: tuple[Any, ...]) -> Shape:
        if len(arguments) < 2:
            return Table()  # Counter[str] and the like: values are not told
        key, value = arguments[:2]
        keys = None if key in (str, Any, object) else self.shape(key)
        if isinstance(keys, Anything):
            keys = None
        values = self.shape(value)
        return Table(None if type(values) is Anything else values, keys)


def split_optional(hint: Any) -> tuple[Any, bool]:
    """The hint without `None`, and whether `None` was in it. Metadata around the union is kept."""
    if typing.get_origin(hint) is typing.Annotated:
        inner, nullable = split_optional(hint.__origin__)
        return (typing.Annotated[(inner, *hint.__metadata__)], nullable) if nullable else (hint, False)
    if type(hint).__name__ == "TypeAliasType" and split_optional(hint.__value__)[1]:
        return split_optional(hint.__value__)
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint, hint is None or hint is type(None)
    rest = tuple(item for item in typing.get_args(hint) if item is not type(None))
    if len(rest) == len(typing.get_args(hint)):
        return hint, False
    return typing.Union[rest], True  # noqa: UP007 - built from a tuple


def _is_set(hint: Any) -> bool:
    return hint in (set, frozenset, abc.Set, abc.MutableSet)


def _literal(values: tuple[Any, ...]) -> OneOf:
    members = tuple(values)
    plain = tuple(_plain_value(value) for value in values)
    return OneOf(plain, None if plain == members else members)


def _merge_literals(options: list[OneOf]) -> OneOf:
    values = tuple(value for option in options for value in option.values)
    members = tuple(member for option in options for member in (option.members or option.values))
    return OneOf(values, members)


def _plain_value(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        value = value.value
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _enumeration(hint: type[enum.Enum]) -> Shape:
    if issubclass(hint, enum.Flag):
        return Scalar("integer", python=hint)
    members = tuple(hint)
    values = tuple(member.value for member in members)
    if not all(value is None or isinstance(value, str | int | float | bool) for value in values):
        values = tuple(member.name for member in members)  # values that JSON cannot say go by name
    return OneOf(values, members)
