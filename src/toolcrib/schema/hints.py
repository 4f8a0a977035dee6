"""Type hints become shapes.

Classes with fields are read by records.py; what only pydantic can describe goes to pydantic_types.py. An
unsupported hint becomes AnyValue with a finding, so that the tool works and its author learns of it.
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
from toolcrib.schema import records
from toolcrib.schema.annotations import is_alias, origin_of, resolve_alias
from toolcrib.schema.docstrings import parse_docstring
from toolcrib.schema.field_info import (
    NO_INFO,
    FieldInfo,
    constrain,
    is_pydantic_field,
    is_qualifier,
    split_annotated,
)
from toolcrib.schema.pydantic_types import Mode, external_shape
from toolcrib.schema.shapes import (
    AnyValue,
    Array,
    Constrained,
    Dictionary,
    Enumeration,
    External,
    FixedArray,
    Named,
    Scalar,
    Shape,
    Union,
)
from toolcrib.validation import codec

# JSON Schema's `time` requires an offset, its `duration` has neither fractions nor signs. Python's do not
# agree.
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
_EMPTY_FACTORIES = (int, float, str, list, dict, set)
_MAPPINGS = (
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
    """Reads the hints of one function. `unknown` has the names of types that are not supported."""

    def __init__(self, mode: Mode = "validation") -> None:
        self.mode = mode
        self._known: dict[Any, Named] = {}
        self.unknown: list[str] = []

    def read(self, hint: Any) -> tuple[Shape, FieldInfo]:
        """Return the shape of a hint, and its metadata."""
        bare, info = split_annotated(hint)
        if info is NO_INFO:
            return self.shape(bare), info
        if info.needs_pydantic:
            return external_shape(hint, self.mode), info
        shape = self.shape(bare)
        if info.bounds and isinstance(shape, External):
            return external_shape(hint, self.mode), info
        return constrain(shape, info), info

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
            return AnyValue()
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
        if hint in _MAPPINGS:
            return Dictionary(python=_mapping_maker(hint, ()))
        if issubclass(hint, enum.Enum):
            return read_enum(hint)
        if records.is_record(hint):
            return self._record(hint, hint)
        if hasattr(hint, "__get_pydantic_core_schema__"):
            return external_shape(hint, self.mode)
        for base in (pathlib.PurePath, str, int, float):
            if issubclass(hint, base):  # a subclass of a plain type is sent as that type
                return Scalar(_SCALARS[base].kind, python=hint)
        return self._unknown(hint)

    def _unknown(self, hint: Any) -> Shape:
        if isinstance(hint, str | int | float | list | tuple | dict) or is_pydantic_field(hint):
            advice = (
                "write Annotated[type, Field(...)]" if is_pydantic_field(hint) else "annotate with a type"
            )
            raise InvalidSignatureError(f"annotation {hint!r} is not a type", hint=advice)
        name = getattr(hint, "__name__", None) or str(hint)
        self.unknown.append(name)
        return AnyValue(hint)

    def _generic(self, hint: Any, origin: Any, arguments: tuple[Any, ...]) -> Shape:
        if origin is typing.Annotated or is_qualifier(origin):
            shape, info = self.read(hint)
            return Constrained(shape, {"description": info.description}) if info.description else shape
        if origin is typing.Literal:
            return read_literal(arguments)
        if origin is typing.Union or origin is types.UnionType:
            return self._union(arguments)
        if origin is tuple and hint is not typing.Tuple:  # noqa: UP006 - bare, it has any items
            return self._tuple(arguments)
        if origin in ARRAYS:
            return _array(self.shape(arguments[0]) if arguments else None, ARRAYS[origin])
        if origin in _MAPPINGS:
            return self._mapping(origin, arguments)
        if origin in _SCALARS:
            return _SCALARS[origin]  # Pattern[str], PathLike[str]
        if is_alias(origin):
            return self._named(hint, origin.__name__, lambda: self.shape(resolve_alias(hint)))
        if isinstance(origin, type) and records.is_record(origin):
            return self._record(hint, origin)
        return self._unknown(hint)

    def _record(self, hint: Any, cls: type) -> Shape:
        return self._named(hint, cls.__name__, lambda: records.read_record(hint, self.read, self.mode))

    def _named(self, key: Any, name: str, build: abc.Callable[[], Shape]) -> Shape:
        """Return a named shape, registered before it is built, so that it may refer to itself."""
        if key in self._known:
            return self._known[key]
        named = self._known[key] = Named(re.sub(r"\W+", "_", name).strip("_"))
        named.target = build()
        return named

    def _variable(self, hint: typing.TypeVar) -> Shape:
        if hint.__constraints__:
            return self._union(hint.__constraints__)
        return self.shape(hint.__bound__) if hint.__bound__ is not None else AnyValue()

    def _union(self, arguments: tuple[Any, ...]) -> Shape:
        options = tuple(self.shape(item) for item in arguments)
        if any(type(option) is AnyValue for option in options):
            return AnyValue()
        literals = [option for option in options if isinstance(option, Enumeration)]
        if len(literals) == len(options):
            return _merge_enumerations(literals)
        return options[0] if len(options) == 1 else Union(options)

    def _tuple(self, arguments: tuple[Any, ...]) -> Shape:
        if len(arguments) == 2 and arguments[1] is ...:
            return Array(self.shape(arguments[0]), python=tuple)
        return FixedArray(tuple(self.shape(item) for item in arguments))

    def _mapping(self, origin: Any, arguments: tuple[Any, ...]) -> Shape:
        if origin is collections.Counter and arguments:
            arguments = (*arguments, int)
        make = _mapping_maker(origin, arguments)
        if len(arguments) < 2:
            return Dictionary(python=make)
        keys = _key_shape(self.shape(arguments[0]))
        values = self.shape(arguments[1])
        return Dictionary(None if type(values) is AnyValue else values, keys, make)


def split_optional(hint: Any) -> tuple[Any, bool]:
    """Return the hint without `None`, and whether it had it. Metadata around the union is kept."""
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
        if len(values) == len(typing.get_args(hint)):
            return hint, False
        return (typing.Literal[values] if values else None), True
    if is_alias(hint) or is_alias(origin):
        target = resolve_alias(hint)
        inner, nullable = (target, False) if is_alias(target) else split_optional(target)
        return (inner, True) if nullable else (hint, False)
    return hint, hint is None


def _array(items: Shape | None, python: Any) -> Array:
    return Array(items, python in _SETS, python)


def _mapping_maker(origin: Any, arguments: tuple[Any, ...]) -> Any:
    """Return what makes the mapping of a dict."""
    if origin is collections.defaultdict:
        value = arguments[1] if len(arguments) == 2 else None
        factory = origin_of(value) or value
        return functools.partial(collections.defaultdict, factory if factory in _EMPTY_FACTORIES else None)
    return origin if origin in (collections.OrderedDict, collections.Counter) else dict


def _key_shape(shape: Shape) -> Shape | None:
    """Return the shape of an object's keys, which are strings in JSON; None where any will do."""
    match shape:
        case AnyValue() | Scalar(kind="string", format=None, pattern=None, python=None):
            return None
        case (
            Scalar(kind="string")
            | Constrained(base=Scalar(kind="string"))
            | External(schema={"type": "string"})
        ):
            return shape
        case Scalar(kind="integer" | "number" as kind, python=python):
            return Scalar("string", pattern=_INTEGER_KEY if kind == "integer" else _NUMBER_KEY, python=python)
        case Scalar(kind="boolean"):
            return Enumeration(("true", "false"), (True, False))
        case Enumeration():
            return _as_keys(shape)
        case Named(target=inner) | Constrained(base=Enumeration() as inner):
            return _key_shape(inner)
        case Union(options=options):
            keys = [_key_shape(option) for option in options]
            return None if None in keys else Union(tuple(key for key in keys if key is not None))
    raise InvalidSignatureError(
        "it has keys that JSON cannot represent", hint="use a list of pairs, or strings as keys"
    )


# --- Literal and Enum --------------------------------------------------------------------------------

_PLAIN = (str, int, float, bool, type(None))


def read_literal(values: tuple[Any, ...]) -> Enumeration:
    plain = tuple(_plain_value(value) for value in values)
    return Enumeration(plain, None if _are_same(plain, values) else values)


def read_enum(cls: type[enum.Enum]) -> Shape:
    """Return the shape of an Enum. Members whose values JSON cannot represent are sent by name."""
    members = tuple(cls)
    if not members:
        raise InvalidSignatureError(f"the enum {cls.__name__} has no members", hint="give it some")
    if issubclass(cls, enum.Flag):
        return _read_flag(cls, members)
    values = tuple(member.value for member in members)
    if not all(type(value) in _PLAIN for value in values):
        values = tuple(member.name for member in members)
    by_name = {member.name: value for member, value in zip(members, values, strict=True)}
    docs = parse_docstring(cls.__dict__.get("__doc__"))
    lines = [
        f"- {by_name[item.name]}: {item.description}" for item in docs.attributes if item.name in by_name
    ]
    description = "\n".join([docs.description, *lines] if docs.description else lines)
    shape = Enumeration(values, members)
    return Constrained(shape, {"description": description}) if description else shape


def _read_flag(cls: type[enum.Enum], members: tuple[enum.Enum, ...]) -> Shape:
    """Return an integer, the sum of the bits, with the names of the bits in its description."""
    bits = {member.name: member.value for member in members}
    description = "sum of " + ", ".join(f"{value} ({name})" for name, value in bits.items())
    all_bits = functools.reduce(lambda one, other: one | other, bits.values())
    keywords = {"minimum": 0, "maximum": all_bits, "description": description}
    return Constrained(Scalar("integer", python=cls), keywords)


def _merge_enumerations(options: abc.Iterable[Enumeration]) -> Enumeration:
    """Return one set of the values of several, each once."""
    pairs = {
        (type(value), value): member
        for option in options
        for value, member in zip(option.values, option.members or option.values, strict=True)
    }
    values = tuple(value for _, value in pairs)
    members = tuple(pairs.values())
    return Enumeration(values, None if _are_same(values, members) else members)


def _as_keys(option: Enumeration) -> Enumeration:
    """Return the same set as keys of an object, which are strings."""
    keys = tuple(value if isinstance(value, str) else codec.encode_text(value) for value in option.values)
    return Enumeration(keys, option.members or option.values)


def _are_same(values: tuple[Any, ...], members: tuple[Any, ...]) -> bool:
    """Whether no value has to be converted. Equality is not enough: an IntEnum equals its value."""
    return all(value is member for value, member in zip(values, members, strict=True))


def _plain_value(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        value = value.value if type(value.value) in _PLAIN else value.name
    return value.decode("latin-1") if isinstance(value, bytes) else value
