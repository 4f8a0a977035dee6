"""Type hints become shapes.

Classes with fields become records: dataclasses, TypedDicts, NamedTuples and attrs. The description of a field
comes from the field itself, else from the `Attributes:` or `Args:` section of the docstring of the class, or
of the class it was inherited from. Pydantic describes its own classes and types, see pydantic_types.py. An
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
from toolcrib.schema import pydantic_types
from toolcrib.schema.annotations import (
    NO_INFO,
    FieldInfo,
    arguments_by_class,
    constrain,
    is_alias,
    is_pydantic_field,
    is_qualifier,
    origin_of,
    resolve_alias,
    resolve_class_hints,
    split_annotated,
    substitute,
)
from toolcrib.schema.converters import published_default
from toolcrib.schema.docstrings import parse_class, parse_docstring
from toolcrib.schema.pydantic_types import Mode, external_shape
from toolcrib.schema.shapes import (
    MISSING,
    AnyValue,
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
    Union,
)
from toolcrib.validation import codec
from toolcrib.validation.validator import DATE_TIME_PATTERN, DURATION_PATTERN, TIME_PATTERN

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
    dt.time: Scalar("string", pattern=TIME_PATTERN, python=dt.time),
    dt.timedelta: Scalar("string", pattern=DURATION_PATTERN, python=dt.timedelta),
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
# A result has the offset that its author gave it, or none, which the format `date-time` does not permit.
_RESULT_SCALARS: dict[Any, Scalar] = {
    **_SCALARS,
    dt.datetime: Scalar("string", pattern=DATE_TIME_PATTERN, python=dt.datetime),
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
_MAPPINGS: dict[Any, Any] = {
    dict: dict,
    abc.Mapping: dict,
    abc.MutableMapping: dict,
    collections.OrderedDict: collections.OrderedDict,
    collections.defaultdict: collections.defaultdict,
    collections.Counter: collections.Counter,
}
_EMPTY_FACTORIES = (int, float, str, list, dict, set)
_INTEGER_KEY = "^-?[0-9]+$"
_NUMBER_KEY = r"^-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"


class HintReader:
    """Reads the hints of one function. `unknown` has the names of types that are not supported."""

    def __init__(self, mode: Mode = "validation") -> None:
        self.mode = mode
        self._scalars = _SCALARS if mode == "validation" else _RESULT_SCALARS
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
            known = self._scalars.get(hint)
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
            return self._mapping(hint, ())
        if issubclass(hint, enum.Enum):
            return read_enum(hint)
        if is_record(hint):
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
            if len(arguments) == 2 and arguments[1] is ...:
                return Array(self.shape(arguments[0]), python=tuple)
            return FixedArray(tuple(self.shape(item) for item in arguments))
        if origin in ARRAYS:
            return _array(self.shape(arguments[0]) if arguments else None, ARRAYS[origin])
        if origin in _MAPPINGS:
            return self._mapping(origin, arguments)
        if origin in _SCALARS:
            return _SCALARS[origin]  # Pattern[str], PathLike[str]
        if is_alias(origin):
            return self._named(hint, origin.__name__, lambda: self.shape(resolve_alias(hint)))
        if isinstance(origin, type) and is_record(origin):
            return self._record(hint, origin)
        return self._unknown(hint)

    def _record(self, hint: Any, cls: type) -> Shape:
        return self._named(hint, cls.__name__, _FieldReader(hint, self).build)

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

    def _mapping(self, origin: Any, arguments: tuple[Any, ...]) -> Shape:
        if origin is collections.Counter and arguments:
            arguments = (*arguments, int)
        make = _MAPPINGS[origin]
        if origin is collections.defaultdict:
            factory = (origin_of(arguments[1]) or arguments[1]) if arguments else None
            make = functools.partial(make, factory if factory in _EMPTY_FACTORIES else None)
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
        case Enumeration(values=values, members=members):
            keys = tuple(value if isinstance(value, str) else codec.encode_text(value) for value in values)
            return Enumeration(keys, members or values)
        case Named(target=inner) | Constrained(base=Enumeration() as inner):
            return _key_shape(inner)
        case Union(options=options):
            found = [_key_shape(option) for option in options]
            return None if None in found else Union(tuple(key for key in found if key is not None))
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
    keywords = {"minimum": 0, "maximum": sum(bits.values()), "description": description}
    return Constrained(Scalar("integer", python=cls), keywords)


def _merge_enumerations(options: list[Enumeration]) -> Enumeration:
    """Return one set of the values of several, each once."""
    pairs = {
        (type(value), value): member
        for option in options
        for value, member in zip(option.values, option.members or option.values, strict=True)
    }
    values, members = tuple(value for _, value in pairs), tuple(pairs.values())
    return Enumeration(values, None if _are_same(values, members) else members)


def _are_same(values: tuple[Any, ...], members: tuple[Any, ...]) -> bool:
    """Whether no value has to be converted. Equality is not enough: an IntEnum equals its value."""
    return all(value is member for value, member in zip(values, members, strict=True))


def _plain_value(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        value = value.value if type(value.value) in _PLAIN else value.name
    return value.decode("latin-1") if isinstance(value, bytes) else value


# --- classes with fields -----------------------------------------------------------------------------

_CONTAINERS = (list, dict, set, frozenset, tuple)


def is_record(hint: type) -> bool:
    return (
        dataclasses.is_dataclass(hint)
        or is_typeddict(hint)
        or hasattr(hint, "__attrs_attrs__")
        or pydantic_types.is_pydantic(hint)
        or (issubclass(hint, tuple) and hasattr(hint, "_fields"))
    )


def is_typeddict(hint: type) -> bool:
    """Whether this is a TypedDict of typing, or of typing_extensions, which is not loaded for it."""
    return typing.is_typeddict(hint) or type(hint).__name__ == "_TypedDictMeta"


def constant_of(factory: abc.Callable[[], Any]) -> Any:
    """Return the value of a default factory if it is an empty container, else None.

    Other factories are not called for a definition: they may count, or tell the time.
    """
    return factory() if factory in _CONTAINERS else None


class _FieldReader:
    """Reads the fields of one class: on input what the constructor takes, on output what the object has."""

    def __init__(self, hint: Any, reader: HintReader) -> None:
        self.hint = hint
        self.cls: Any = origin_of(hint) or hint
        self.reader = reader
        self.is_input = reader.mode == "validation"
        self.arguments = arguments_by_class(hint)
        self.docs = parse_class(self.cls)

    def build(self) -> Shape:
        if pydantic_types.is_pydantic(self.cls):
            pydantic_types.fields_of(self.cls)  # complains about a class that is not complete
            return external_shape(self.hint, self.reader.mode)
        is_closed = getattr(self.cls, "__closed__", None)
        further = getattr(self.cls, "__extra_items__", typing.Never)  # of a TypedDict
        has_further = further is not typing.Never and type(further).__name__ != "NoExtraItemsType"
        return Record(
            self.cls.__name__,
            list(self.fields()),
            self.docs.description,
            is_closed is True,
            self.cls,
            is_closed is False or has_further,
        )

    def fields(self) -> abc.Iterator[Field]:
        self.hints = resolve_class_hints(self.cls)
        if is_typeddict(self.cls):
            return self.typed_dict()
        if dataclasses.is_dataclass(self.cls):
            return self.dataclass()
        if hasattr(self.cls, "__attrs_attrs__"):
            return self.attrs()
        return self.named_tuple()

    def field(self, name: str, hint: Any, default: Any = MISSING, *, description: str = "") -> Field:
        shape, info = self.reader.read(hint)
        if default is MISSING:
            default = info.default if info.factory is None else constant_of(info.factory)
        return Field(
            info.alias or name,
            shape,
            required=default is MISSING if info.required is None else info.required,
            default=published_default(shape, default) if self.is_input else MISSING,
            description=description or info.description or self.docs.fields.get(name, ""),
            keyword=name,
            attribute=name,
        )

    def hint_of(self, name: str) -> Any:
        """Return the hint of a field, with the arguments of the class that declares it."""
        hint = self.hints.get(name, Any)
        for cls, arguments in self.arguments.items():
            if arguments and name in inspect.get_annotations(cls):
                return substitute(hint, arguments)
        return hint

    def typed_dict(self) -> abc.Iterator[Field]:
        for name in self.hints:
            default = MISSING if name in self.cls.__required_keys__ else None
            yield self.field(name, self.hint_of(name), default)

    def dataclass(self) -> abc.Iterator[Field]:
        for item in self.cls.__dataclass_fields__.values():
            hint = self.hint_of(item.name)
            is_init_only = isinstance(hint, dataclasses.InitVar)
            if hint is typing.ClassVar or origin_of(hint) is typing.ClassVar:
                continue
            if is_init_only if not self.is_input else not item.init:
                continue
            default: Any = MISSING
            if item.default is not dataclasses.MISSING:
                default = item.default
            elif item.default_factory is not dataclasses.MISSING:
                default = constant_of(item.default_factory)
            description = item.metadata.get("description", "")
            made = self.field(item.name, hint, default, description=description)
            made.attribute = None if is_init_only else item.name
            yield made

    def attrs(self) -> abc.Iterator[Field]:
        for item in self.cls.__attrs_attrs__:
            if self.is_input and not item.init:
                continue
            default: Any = MISSING
            if type(item.default).__name__ == "Factory":
                default = None if item.default.takes_self else constant_of(item.default.factory)
            elif getattr(item.default, "name", None) != "NOTHING":
                default = item.default
            description = item.metadata.get("description", "")
            made = self.field(item.name, self.hint_of(item.name), default, description=description)
            made.name = made.keyword = item.alias
            yield made

    def named_tuple(self) -> abc.Iterator[Field]:
        for name in self.cls._fields:
            yield self.field(name, self.hint_of(name), self.cls._field_defaults.get(name, MISSING))
