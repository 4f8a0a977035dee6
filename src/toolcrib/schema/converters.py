"""Converters: JSON into the Python values that the hints declare, and Python values into declared JSON.

A loader sees only values that the schema accepted. It raises ValueError where a well-formed value means
nothing (a date in month 13), and says where in the value that was. A dumper leaves alone what it does not
expect, for example a string where an object was declared; whether the outcome fits the schema is checked
afterwards.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
import math
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from toolcrib.names import check_schema_text
from toolcrib.options import EXTRAS
from toolcrib.schema import pydantic_types
from toolcrib.schema.render import enforced_value_schema, value_schema
from toolcrib.schema.shapes import (
    MISSING,
    Array,
    Constrained,
    Convert,
    ConverterBuilder,
    Dictionary,
    Enumeration,
    External,
    FixedArray,
    Named,
    Record,
    Scalar,
    Shape,
    Union,
    accepts_none,
    convert,
    unwrap,
    walk,
)
from toolcrib.validation import codec
from toolcrib.validation.limits import MAX_PATTERN_LENGTH
from toolcrib.validation.validator import Validator

_STANDARD_MODULES = frozenset({"builtins", "fractions", "ipaddress", "pathlib", "uuid"})


# --- loaders -----------------------------------------------------------------------------------------


def build_loader(shape: Shape) -> Convert | None:
    """Return the loader of a shape, None where values stay as they are."""
    return _LoaderBuilder().visit(shape)


def build_lenient_loader(shape: Shape) -> Convert | None:
    """Return a loader that converts values which fit the shape and leaves others as they are."""
    load = build_loader(shape)
    if load is None:
        return None
    validator = Validator(enforced_value_schema(shape, "ignore"), trusted=True)
    return lambda value: load(value) if validator.is_valid(value) else value


def runs_user_code(shape: Shape) -> bool:
    """Whether loading runs code of the tool's author: validators, constructors, `__post_init__`."""
    for item in walk(shape):
        match item:
            case External():
                return True
            case Scalar(python=python) if python is not None and python not in _SCALAR_LOADERS:
                if python.__module__.partition(".")[0] not in _STANDARD_MODULES:
                    return True
            case Record(python=cls) if not _only_stores_fields(cls):
                return True
    return False


def _only_stores_fields(cls: Any) -> bool:
    """Whether the constructor only keeps its arguments: a TypedDict, a NamedTuple, a plain dataclass."""
    if issubclass(cls, dict | tuple):
        return True
    return hasattr(cls, "__dataclass_params__") and not hasattr(cls, "__post_init__")


class ConversionError(ValueError):
    """A value that cannot be converted, with every location and reason; read like a pydantic error."""

    def __init__(self, problems: list[tuple[tuple[str | int, ...], str]]) -> None:
        super().__init__("; ".join(message for _, message in problems))
        self.problems = problems

    def errors(self, **_: bool) -> list[dict[str, Any]]:
        return [{"loc": path, "msg": message} for path, message in self.problems]


def _load_at(key: str | int, load: Convert, value: Any) -> Any:
    """Load a member or an item; an error says where it is, as seen from the object or array."""
    try:
        return load(value)
    except ValueError as raised:
        error: Any = raised
    found: list[Any] = [{"loc": (), "msg": str(error) or type(error).__name__}]
    if isinstance(error, ConversionError) or type(error).__module__.startswith("pydantic"):
        found = error.errors(include_url=False, include_input=False, include_context=False)
    raise ConversionError([((key, *item["loc"]), item["msg"]) for item in found])


class _LoaderBuilder(ConverterBuilder):
    def scalar(self, shape: Scalar) -> Convert | None:
        return None if shape.python is None else _scalar_loader(shape.python)

    def enumeration(self, shape: Enumeration) -> Convert | None:
        if shape.members is None:
            return None
        pairs = zip(shape.values, shape.members, strict=True)
        table = {(type(value) is bool, value): member for value, member in pairs}  # True is not 1
        return lambda value: table[(type(value) is bool, value)]

    def array(self, shape: Array) -> Convert | None:
        load_list = self._list(shape.items)
        if shape.python is list:
            return load_list
        make = _set_maker(shape.python) if shape.python in (set, frozenset) else shape.python
        return make if load_list is None else lambda value: make(load_list(value))

    def _list(self, items: Shape | None) -> Convert | None:
        model = unwrap(items)
        if isinstance(model, External):
            return model.load_list
        load = self.visit_optional(items)
        return None if load is None else _list_loader(load)

    def fixed_array(self, shape: FixedArray) -> Convert:
        loads = [self.visit(item) for item in shape.items]

        def load_items(value: Any) -> tuple[Any, ...]:
            pairs = enumerate(zip(loads, value, strict=True))
            return tuple(item if load is None else _load_at(i, load, item) for i, (load, item) in pairs)

        return load_items

    def dictionary(self, shape: Dictionary) -> Convert | None:
        load_key, load_value = self.visit_optional(shape.keys), self.visit_optional(shape.values)
        python = shape.python
        if load_key is None and load_value is None:
            return None if python is dict else python

        def load_dictionary(value: Any) -> Any:
            loaded = {}
            for key, item in value.items():
                new_key = key if load_key is None else _load_at(key, load_key, key)
                loaded[new_key] = item if load_value is None else _load_at(key, load_value, item)
            return loaded if python is dict else python(loaded)

        return load_dictionary

    def union(self, shape: Union) -> Convert | None:
        loads = [self.visit(option) for option in shape.options]
        if not any(loads):
            return None
        if _is_optional(shape):
            load = next(filter(None, loads))
            return lambda value: None if value is None else load(value)
        pairs = zip(shape.options, loads, strict=True)  # 5 is an int before it is a float, text before bytes
        last = (float, decimal.Decimal, bytes, bytearray)
        ranked = sorted(pairs, key=lambda pair: isinstance(pair[0], Scalar) and pair[0].python in last)
        validators: list[Validator] = []

        def load_union(value: Any) -> Any:
            if not validators:  # an option that has all names of the value comes before one that drops some
                for extra in EXTRAS:
                    schemas = (enforced_value_schema(option, extra) for option, _ in ranked)
                    validators.extend(Validator(schema, trusted=True) for schema in schemas)
            failure = ValueError("fits none of the permitted forms")
            for validator, (_, load) in zip(validators, ranked * 2, strict=True):
                if validator.is_valid(value):
                    try:
                        return convert(load, value)
                    except ValueError as error:
                        failure = error
            raise failure

        return load_union

    def record(self, shape: Record) -> Convert:
        make: Callable[..., Any] = shape.python
        loads = [(item.name, item.keyword, self.visit(item.shape)) for item in shape.fields]

        def load_record(value: Any) -> Any:
            known = {}
            for name, keyword, load in loads:
                if name in value:
                    known[keyword] = value[name] if load is None else _load_at(name, load, value[name])
            return make(**known)

        return load_record

    def external(self, shape: External) -> Convert | None:
        return shape.load


def _is_optional(shape: Union) -> bool:
    """Whether a union has one option besides null: then nothing has to be chosen."""
    others = [item for item in shape.options if not (isinstance(item, Scalar) and item.kind == "null")]
    return len(others) == 1 and not accepts_none(others[0])


_WEEKS = re.compile(r"(-?)P([0-9]+)W")


def load_integer(value: Any) -> int:
    return value if type(value) is int else int(value)


def load_number(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError("number is too large") from None


def _load_bytes(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("expected base64") from None


def _load_pattern(value: str) -> re.Pattern[str]:
    if len(value) > MAX_PATTERN_LENGTH:
        raise ValueError(f"expected a regular expression of at most {MAX_PATTERN_LENGTH} characters")
    try:
        return re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"expected a regular expression: {error}") from None


def _load_duration(value: str) -> dt.timedelta:
    try:
        if weeks := _WEEKS.fullmatch(value):
            return dt.timedelta(weeks=int(weeks[1] + weeks[2]))
        return codec.convert(value, dt.timedelta)
    except (OverflowError, ValueError):
        raise ValueError("expected a duration of at most 999999999 days, such as P1DT2H30M") from None


_SCALAR_LOADERS: dict[Any, Convert] = {
    int: load_integer,
    float: load_number,
    bytes: _load_bytes,
    bytearray: lambda value: bytearray(_load_bytes(value)),
    decimal.Decimal: lambda value: decimal.Decimal(str(value)),
    dt.datetime: lambda value: dt.datetime.fromisoformat(value.upper()),  # `z` is permitted
    dt.date: dt.date.fromisoformat,
    dt.time: dt.time.fromisoformat,
    dt.timedelta: _load_duration,
    uuid.UUID: lambda value: codec.convert(value, uuid.UUID),
    re.compile: _load_pattern,
}


def _scalar_loader(python: Any) -> Convert:
    known = _SCALAR_LOADERS.get(python)
    if known is not None:
        return known
    if issubclass(python, int):
        return lambda value: python(int(value))
    constructor: Convert = python
    return constructor


_INTEGERS = frozenset({int})
_LONG_LIST = 100
"""Numbers of longer lists are converted by the codec: half a million integers in 12 ms instead of 18."""


def _list_loader(load: Convert) -> Convert:
    def load_each(value: Iterable[Any]) -> list[Any]:
        try:
            return [load(item) for item in value]
        except ValueError:  # once more, to find out which item it was
            return [_load_at(index, load, item) for index, item in enumerate(value)]

    def load_floats(value: Any) -> list[Any]:
        try:
            return list(map(float, value)) if len(value) < _LONG_LIST else codec.convert(value, list[float])
        except (OverflowError, ValueError):
            return load_each(value)

    def load_integers(value: Any) -> Any:
        is_kept = type(value) is list and _INTEGERS.issuperset(map(type, value))
        return value if is_kept else load_each(value)

    if load is load_number:
        return load_floats
    return load_integers if load is load_integer else load_each


def _set_maker(python: Any) -> Convert:
    def make_set(items: Iterable[Any]) -> Any:
        try:
            return python(items)
        except TypeError:
            raise ValueError("expected items that a set can hold: no arrays, no objects") from None

    return make_set


# --- limits ------------------------------------------------------------------------------------------
# Some bytes of JSON become a model, which takes a hundred times longer to make than to send.

MAX_NUMBERS = 1_000_000
MAX_CONVERTED = 40_000
MAX_CHOSEN = 5_000
"""Values that are compared with the options of a union one by one."""
MAX_PATTERNS = 32


_LEAVES = (Scalar, Enumeration, Union, Constrained)


def find_limit(shape: Shape) -> int | None:
    """Return how many values of an argument are converted in one call, None if it never has many."""
    parts = list(walk(shape))
    has_many = any(isinstance(part, Array | Dictionary | Named | External) for part in parts)
    return min(map(_limit_of, parts)) if has_many else None


def is_flat(shape: Shape) -> bool:
    """Whether an argument is a list of single values: its length is their number."""
    containers = [part for part in walk(shape) if not isinstance(part, _LEAVES)]
    return len(containers) == 1 and isinstance(containers[0], Array)


def _limit_of(shape: Shape) -> int:
    match shape:
        case Scalar(python=re.compile):
            return MAX_PATTERNS
        case Union() if not _is_optional(shape):
            return MAX_CHOSEN
        case Scalar(python=python) if python not in (None, int, float):
            return MAX_CONVERTED
        case Enumeration(members=tuple()) | FixedArray() | Record() | External() | Array(unique=True):
            return MAX_CONVERTED
    return MAX_NUMBERS


# --- dumpers -----------------------------------------------------------------------------------------

_MAX_INTEGER = 2**63


def build_dumper(shape: Shape) -> Convert | None:
    """Return the dumper of a shape, None where the codec can convert values alone."""
    return _DumperBuilder().visit(shape)


class _DumperBuilder(ConverterBuilder):
    def scalar(self, shape: Scalar) -> Convert | None:
        return _SCALAR_DUMPERS.get(shape.python)

    def enumeration(self, shape: Enumeration) -> Convert | None:
        if shape.members is None:
            return None
        pairs = list(zip(shape.members, shape.values, strict=True))

        def dump_member(value: Any) -> Any:
            return next((plain for member, plain in pairs if _is_same(value, member)), value)

        return dump_member

    def array(self, shape: Array) -> Convert | None:
        dump, unique = self.visit_optional(shape.items), shape.unique
        if dump is None and not unique and shape.python is not tuple:
            return None

        def dump_array(value: Any) -> Any:
            if not _is_collection(value):
                return value
            items = list(value) if dump is None else [dump(item) for item in value]
            return sort_set(items) if unique else items

        return dump_array

    def fixed_array(self, shape: FixedArray) -> Convert:
        dumps = [self.visit(item) for item in shape.items]

        def dump_items(value: Any) -> Any:
            if not isinstance(value, tuple | list) or len(value) != len(dumps):
                return value
            return [convert(dump, item) for dump, item in zip(dumps, value, strict=True)]

        return dump_items

    def dictionary(self, shape: Dictionary) -> Convert | None:
        dump_key, dump_value = self.visit_optional(shape.keys), self.visit_optional(shape.values)
        if dump_key is None and dump_value is None:
            return None

        def dump_dictionary(value: Any) -> Any:
            if not isinstance(value, Mapping):
                return value
            return {convert(dump_key, key): convert(dump_value, item) for key, item in value.items()}

        return dump_dictionary

    def union(self, shape: Union) -> Convert | None:
        dumps = [self.visit(option) for option in shape.options]
        if not any(dumps):
            return None

        def dump_union(value: Any) -> Any:
            matches = [_match(option, value) for option in shape.options]
            best = max(matches)
            return convert(dumps[matches.index(best)], value) if best > _NO_MATCH else value

        return dump_union

    def record(self, shape: Record) -> Convert:
        fields = [(item.name, item.attribute, self.visit(item.shape)) for item in shape.fields]

        def dump_record(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {
                    name: convert(dump, value[name if name in value else attribute])
                    for name, attribute, dump in fields
                    if name in value or attribute in value
                }
            found = {
                name: convert(dump, getattr(value, attribute))
                for name, attribute, dump in fields
                if attribute is not None and hasattr(value, attribute)
            }
            return found if found or _is_instance(value, shape.python) else value

        return dump_record

    def external(self, shape: External) -> Convert:
        return shape.dump


def _dump_decimal(value: Any) -> Any:
    """Return a JSON number, as published: integers exactly, others to the precision of a float."""
    if not isinstance(value, decimal.Decimal):
        return value
    is_integer = value.is_finite() and value == value.to_integral_value()
    try:
        return int(value) if is_integer and value.copy_abs() < _MAX_INTEGER else float(value)
    except ArithmeticError:
        raise ValueError("it has no JSON form") from None


_SCALAR_DUMPERS: dict[Any, Convert] = {decimal.Decimal: _dump_decimal}


def sort_set(items: list[Any]) -> list[Any]:
    """Return the items of a set in an order that is the same in every process."""
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=repr)


_Score = tuple[int, int]
_NO_MATCH: _Score = (0, 0)
_CLASSES: dict[str, type] = {"string": str, "boolean": bool, "null": type(None)}


def _match(shape: Shape, value: Any) -> _Score:
    """Return how well a value matches: 3 its class, 2 a subclass, 1 possibly; then how many keys it has."""
    match unwrap(shape):
        case Union(options=options):
            return max(_match(option, value) for option in options)
        case Enumeration(values=values, members=members):
            return (3, 0) if any(_is_same(value, member) for member in members or values) else _NO_MATCH
        case Scalar(kind=kind, python=python):
            return _match_class(_CLASSES.get(kind) if python is None else python, value)
        case Array(python=python) if _is_instance(value, python):
            return _match_class(python, value)
        case Array() | FixedArray():
            return (1, 0) if _is_collection(value) else _NO_MATCH
        case Dictionary():
            return (2, 0) if isinstance(value, Mapping) else _NO_MATCH
        case Record(python=python) | External(python=python) if _is_instance(value, python):
            return _match_class(python, value)
        case Record(fields=fields) if isinstance(value, Mapping):
            is_complete = all(item.name in value for item in fields if item.required)
            return (1, sum(item.name in value for item in fields)) if is_complete else _NO_MATCH
        case External(schema={"properties": properties}) if isinstance(value, Mapping):
            return (1, sum(name in value for name in properties))  # it requires computed fields too
        case External(python=None):
            return (1, 0)
    return _NO_MATCH


def _match_class(python: Any, value: Any) -> _Score:
    if type(value) is python:
        return (3, 0)
    return (2, 0) if _is_instance(value, python) else _NO_MATCH


def _is_instance(value: Any, python: Any) -> bool:
    try:
        return isinstance(value, python)
    except TypeError:  # a TypedDict, a function that makes values, None
        return False


def _is_collection(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray | Mapping)


def _is_same(value: Any, member: Any) -> bool:
    return type(value) is type(member) and value == member


# --- defaults ----------------------------------------------------------------------------------------

UNKNOWN_DEFAULT: Final = object()
"""A default whose value is not known, because the function was read and not imported."""
_PLAIN_TYPES = (str, int, float, bool)
_MAX_SIMPLE_TEXT = 1_000
_TYPES_OF_KIND = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,)}


def render_default(shape: Shape, value: Any) -> Any:
    """Return a default as JSON data.

    Raise ValueError or TypeError where it has no JSON form, or one that must not be published: it depends
    on the machine, is secret, or has characters that a reader does not see.
    """
    kind = type(value)
    if kind is bool or kind is int or (kind is float and math.isfinite(value)):
        return value
    if kind is str and len(value) <= _MAX_SIMPLE_TEXT and value.isascii() and value.isprintable():
        return value
    if kind not in _PLAIN_TYPES:
        if isinstance(value, dt.datetime) and value.tzinfo is None:
            raise ValueError("a time without a zone depends on the machine")
        if isinstance(shape, External) and shape.schema.get("writeOnly"):
            raise ValueError("a secret is not published")
        dump = build_dumper(shape)
        value = codec.decode(codec.encode(pydantic_types.to_plain(value if dump is None else dump(value))))
    codec.check_finite(value)
    check_schema_text({"default": value}, "The default")
    return value


def is_valid_default(shape: Shape, plain: Any) -> bool:
    """Whether a default fits its own schema. Common ones are compared without the engine."""
    if isinstance(shape, Scalar) and shape.format is None and shape.pattern is None:
        return type(plain) in _TYPES_OF_KIND.get(shape.kind, ())
    if (plain == [] and isinstance(shape, Array)) or (plain == {} and isinstance(shape, Dictionary)):
        return True
    if isinstance(shape, Enumeration) and all(type(item) is str and item.isascii() for item in shape.values):
        return plain in shape.values
    schema = value_schema(shape)
    return not schema or Validator(schema, trusted=True).is_valid(plain)


def published_default(shape: Shape, value: Any) -> Any:
    """Return a default as JSON data, or MISSING where it is None, cannot be published or does not fit."""
    if value is None or value is MISSING:
        return MISSING
    try:
        plain = render_default(shape, value)
    except (TypeError, ValueError, RecursionError):
        return MISSING
    return plain if is_valid_default(shape, plain) else MISSING
