"""Loaders: checked JSON values into the Python values that the hints declare.

A loader sees only values that the schema accepted. It raises ValueError where a well-formed value means
nothing (a date in month 13), and says where in the value that was.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
import re
from collections.abc import Iterable
from typing import Any

from toolcrib.schema import pydantic_types
from toolcrib.schema.render import value_schema
from toolcrib.schema.shapes import (
    AnyValue,
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
    convert,
    unwrap,
    walk,
)
from toolcrib.validation import codec
from toolcrib.validation.validator import Validator

_STANDARD_MODULES = frozenset({"builtins", "fractions", "ipaddress", "pathlib", "uuid"})
_SMALL_LIST = 16
"""Lists of fewer models are converted faster one by one than pydantic's list adapter is built."""


def build_loader(shape: Shape) -> Convert | None:
    """Return what converts a checked JSON value, None where it stays as it is.

    Where the work depends on the size of the value, the loader is a LimitedLoader.
    """
    load = _LoaderBuilder().visit(shape)
    cost = None if load is None else ConversionCost(shape)
    return load if load is None or cost is None or not cost.grows else LimitedLoader(load, cost)


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


def _error_at(key: str | int, error: Any) -> ConversionError:
    """Return the same error as seen from the object or array that holds the value."""
    if not isinstance(error, ConversionError) and not type(error).__module__.startswith("pydantic"):
        return ConversionError([((key,), str(error) or type(error).__name__)])
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return ConversionError([((key, *item["loc"]), item["msg"]) for item in found])


def _load_at(key: str | int, load: Convert, value: Any) -> Any:
    try:
        return load(value)
    except ValueError as error:
        raise _error_at(key, error) from None


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
        load = self.visit_optional(shape.items)
        load_list = None if load is None else _list_loader(load, shape.items)
        if shape.python is list:
            return load_list
        make = _set_maker(shape.python) if shape.python in (set, frozenset) else shape.python
        return make if load_list is None else lambda value: make(load_list(value))

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
        ranked = sorted(zip(shape.options, loads, strict=True), key=lambda pair: _is_last_resort(pair[0]))
        validators: list[Validator] = []

        def load_union(value: Any) -> Any:
            if not validators:
                validators.extend(Validator(value_schema(option), trusted=True) for option, _ in ranked)
            failure = ValueError("fits none of the permitted forms")
            for validator, (_, load) in zip(validators, ranked, strict=True):
                if validator.is_valid(value):
                    try:
                        return convert(load, value)
                    except ValueError as error:
                        failure = error
            raise failure

        return load_union

    def record(self, shape: Record) -> Convert:
        loads = [(item.name, item.keyword, self.visit(item.shape)) for item in shape.fields]
        make = shape.python

        def load_record(value: Any) -> Any:
            known = {}
            for name, keyword, load in loads:
                if name in value:
                    known[keyword] = value[name] if load is None else _load_at(name, load, value[name])
            return make(**known)

        return load_record

    def external(self, shape: External) -> Convert:
        return shape.load


def _is_last_resort(shape: Shape) -> bool:
    """Whether other members of a union are tried first: 5 is an int before it is a float, text before
    bytes."""
    return isinstance(shape, Scalar) and shape.python in (float, decimal.Decimal, bytes, bytearray)


# --- scalars -----------------------------------------------------------------------------------------

_WEEKS = re.compile(r"(-?)P([0-9]+)W")
_DURATION = re.compile(r"(-?)P(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?")


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
    try:
        return re.compile(value)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"expected a regular expression: {error}") from None


def _load_duration(value: str) -> dt.timedelta:
    weeks, parts = _WEEKS.fullmatch(value), _DURATION.fullmatch(value)
    try:
        if weeks is not None:
            return dt.timedelta(weeks=int(weeks[1] + weeks[2]))
        if parts is not None and any(parts.groups()[1:]):
            days, hours, minutes, seconds = (float(part or 0) for part in parts.groups()[1:])
            span = dt.timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
            return -span if parts[1] else span
    except OverflowError:
        raise ValueError("duration is too long") from None
    raise ValueError("expected a duration such as P1DT2H30M")


_SCALAR_LOADERS: dict[Any, Convert] = {
    int: load_integer,
    float: load_number,
    bytes: _load_bytes,
    bytearray: lambda value: bytearray(_load_bytes(value)),
    decimal.Decimal: lambda value: decimal.Decimal(str(value)),
    dt.datetime: dt.datetime.fromisoformat,
    dt.date: dt.date.fromisoformat,
    dt.time: dt.time.fromisoformat,
    dt.timedelta: _load_duration,
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


# --- lists -------------------------------------------------------------------------------------------


def _list_loader(load: Convert, items: Shape | None) -> Convert:
    def load_each(value: Iterable[Any]) -> list[Any]:
        try:
            return [load(item) for item in value]
        except ValueError:  # once more, to find out which item it was
            return [_load_at(index, load, item) for index, item in enumerate(value)]

    if load is load_number:
        return FloatListLoader(load_each)
    if load is load_integer:
        integers = {int}
        return lambda value: (
            value if type(value) is list and integers.issuperset(map(type, value)) else load_each(value)
        )
    items = unwrap(items)
    if isinstance(items, External) and items.load_list is not None:
        return _load_at_once(items.load_list, load_each)
    if isinstance(items, Record) and loads_at_once(items):
        cls, makers = items.python, list[Convert]()

        def make(value: Any) -> Any:
            if not makers:
                makers.append(pydantic_types.list_maker(cls))
            return makers[0](value)

        return _load_at_once(make, load_each)
    return load_each


class FloatListLoader:
    """Makes a list of floats."""

    __slots__ = ("_load_each",)

    def __init__(self, load_each: Convert) -> None:
        self._load_each = load_each

    def __call__(self, value: Any) -> Any:
        try:
            return list(map(float, value))
        except OverflowError:
            return self._load_each(value)


def _load_at_once(load_list: Convert, load_each: Convert) -> Convert:
    """Load a list of models by one call into pydantic, in half the time of loading each."""

    def load(value: Any) -> Any:
        if len(value) < _SMALL_LIST or type(value) is not list:
            return load_each(value)
        try:
            return load_list(value)
        except ValueError:
            return load_each(value)  # for its error message

    return load


def loads_at_once(shape: Record) -> bool:
    """Whether pydantic makes the same models of a list as we would one by one."""
    return all(map(_is_left_to_pydantic, walk(shape)))


def _is_left_to_pydantic(shape: Shape) -> bool:
    match shape:
        case AnyValue(python=None) | Enumeration(members=None) | Constrained() | Named():
            return True
        case Scalar(python=python):
            return python in (None, int, float)
        case Array(python=python) | Dictionary(keys=None, python=python):
            return python in (list, dict)
        case Union(options=options):
            # Of several options we and pydantic may choose different ones: 5.0 is an int to us.
            return sum(not (isinstance(item, Scalar) and item.kind == "null") for item in options) == 1
        case Record(fields=fields, python=cls):
            return pydantic_types.takes_dicts(cls) and all(item.name == item.keyword for item in fields)
    return False


def _set_maker(python: Any) -> Convert:
    def make_set(items: Iterable[Any]) -> Any:
        try:
            return python(items)
        except TypeError:
            raise ValueError("expected items that a set can hold: no arrays, no objects") from None

    return make_set


# --- the cost of conversion --------------------------------------------------------------------------

FREE_NS = 5_000_000
"""What the arguments of any call may cost: 3,000 small models, or 120,000 numbers."""
_OTHER_SCALAR_NS = 3_000
_SCALAR_NS: dict[Any, int] = {
    None: 0,
    int: 40,
    float: 40,
    bytes: 250,
    bytearray: 300,
    decimal.Decimal: 450,
    dt.datetime: 250,
    dt.date: 200,
    dt.time: 200,
    dt.timedelta: 2_500,
    re.compile: 50_000,
}
_PATTERN_CHARACTER_NS = 2_000
_SCALAR_TYPES = ("string", "integer", "number", "boolean")


def allowed_ns(size: int) -> int:
    """Return what converting a request of so many bytes may cost.

    A number takes two bytes to send and 40 ns to convert, a model 14 bytes and a microsecond. No request
    may cost its receiver a hundred times what it costs its sender: about 60 us, 1 ns for each of the first
    150,000 bytes and 0.2 ns for others. Reading the request takes a part of that too.
    """
    return min(FREE_NS + 75 * size, 15_000_000 + 14 * size)


class ConversionCost:
    """An upper bound for the work of converting a value, in nanoseconds, known before it is converted.

    The shape tells what an object, an array and an item cost, the JSON of the value how many there are.
    """

    __slots__ = ("_is_flat", "_per_array", "_per_byte", "_per_item", "_per_object", "grows")

    def __init__(self, shape: Shape) -> None:
        self._per_object = self._per_array = self._per_byte = 0
        self._per_item = _cost_of_scalar(shape)
        parts = list(walk(shape))
        listed = {id(unwrap(part.items)) for part in parts if isinstance(part, Array)}
        for part in parts:
            self._add(part, id(part) in listed)
        if self._per_object or self._per_item:
            self._per_array = max(self._per_array, 250)
        growing = [part for part in parts if isinstance(part, Array | Dictionary | Named | External)]
        self.grows = self._per_byte > 0 or len(growing) > 0
        """Whether the cost depends on the size of the value."""
        is_list = isinstance(unwrap(shape), Array) and not self._per_byte
        self._is_flat = is_list and sum(map(_is_container, parts)) == 1
        """Whether values are lists of scalars, whose length tells the cost."""

    def _add(self, shape: Shape, is_listed: bool) -> None:
        match shape:
            case Scalar(python=python) if python is re.compile:
                self._per_byte = _PATTERN_CHARACTER_NS
            case Array(items=items, python=python):
                self._per_item = max(self._per_item, _cost_of_scalar(items) + (0 if python is list else 300))
            case FixedArray(items=items):
                per_array = 600 + sum(150 + _cost_of_scalar(item) for item in items)
                self._per_array = max(self._per_array, per_array)
            case Dictionary(keys=keys, values=values):
                per_item = _cost_of_scalar(keys) + _cost_of_scalar(values)
                self._per_item = max(self._per_item, per_item and per_item + 150)
            case Record(fields=fields, python=python):
                per_object, per_field = (1_400, 400) if pydantic_types.is_pydantic(python) else (600, 200)
                if is_listed and loads_at_once(shape):
                    per_object, per_field = 1_200, 100
                per_object += sum(per_field + _cost_of_scalar(item.shape) for item in fields)
                self._per_object = max(self._per_object, per_object)
            case External() if _is_container(shape):
                self._per_object = max(self._per_object, 2_500)
                self._per_item = max(self._per_item, 60)

    def estimate(self, value: Any) -> int:
        """Return how many nanoseconds converting a value takes, at most."""
        kind = type(value)
        if kind is list and self._is_flat:
            return self._per_array + self._per_item * len(value)
        if kind is not dict and kind is not list and not self._per_byte:
            return self._per_item
        try:
            data = codec.write(value)
        except (TypeError, ValueError, ArithmeticError, RecursionError):
            return 0  # it is not JSON, which the validator reports
        objects, arrays, commas = data.count(b"{"), data.count(b"["), data.count(b",")
        total = self._per_object * objects + self._per_array * arrays + self._per_byte * len(data)
        return total + self._per_item * (objects + arrays + commas)

    def least_bytes(self, value: Any) -> int:
        """Return how many bytes a value takes as JSON at least, as far as its length tells."""
        return 2 * len(value) if self._is_flat and type(value) is list else 0


def _cost_of_scalar(shape: Shape | None) -> int:
    """Return the cost of a scalar, 0 for other shapes."""
    shape = unwrap(shape)
    match shape:
        case Scalar(python=python) if getattr(python, "__qualname__", "") == "UUID":
            return 1_300
        case Scalar(python=python):
            return _SCALAR_NS.get(python, _OTHER_SCALAR_NS)
        case Enumeration(members=tuple()):
            return 250
        case Union(options=options):
            most = max(map(_cost_of_scalar, options))
            return most and most + 400 * len(options)
        case External() if not _is_container(shape):
            return _OTHER_SCALAR_NS
    return 0


def _is_container(shape: Shape) -> bool:
    if isinstance(shape, External):
        return shape.schema.get("type") not in _SCALAR_TYPES
    return isinstance(shape, Array | FixedArray | Dictionary | Record)


class LimitedLoader:
    """A loader of values whose cost depends on their size."""

    __slots__ = ("cost", "load")

    def __init__(self, load: Convert, cost: ConversionCost) -> None:
        self.load = load
        self.cost = cost

    def __call__(self, value: Any) -> Any:
        return self.load(value)
