"""Shapes become loaders: checked JSON into the Python values that the hints promised.

`None` stands for "as it is", so that plain arguments cost nothing. A loader sees only what the schema let
through; it raises ValueError where a value is well-formed and still means nothing (a date in month 13), and
says where in the value that was.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
import re
from collections.abc import Iterable
from typing import Any

from toolcrib.schema import bulk
from toolcrib.schema.conversion import Conversions, Convert, apply
from toolcrib.schema.cost import bound
from toolcrib.schema.rendering import to_value_schema
from toolcrib.schema.shapes import (
    Array,
    Either,
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
from toolcrib.validation import Validator

Place = tuple[str | int, ...]
_STANDARD = frozenset({"builtins", "fractions", "ipaddress", "pathlib", "uuid"})


class MisfitError(ValueError):
    """A value that a converter refuses, with every place and reason; spoken like pydantic's errors."""

    def __init__(self, problems: list[tuple[Place, str]]) -> None:
        super().__init__("; ".join(words for _, words in problems))
        self.problems = problems

    def errors(self, **_: bool) -> list[dict[str, Any]]:
        return [{"loc": place, "msg": words} for place, words in self.problems]


def _misfit(place: str | int, error: Any) -> MisfitError:
    """The same refusal seen from one level up."""
    if not isinstance(error, MisfitError) and not type(error).__module__.startswith("pydantic"):
        return MisfitError([((place,), str(error) or type(error).__name__)])
    found = error.errors(include_url=False, include_input=False, include_context=False)
    return MisfitError([((place, *item["loc"]), item["msg"]) for item in found])


def loader(shape: Shape) -> Convert | None:
    """What makes a checked JSON value the Python value that the hint promised; None: nothing to do."""
    return bound(_Loaders().of(shape), shape)


def runs_code(shape: Shape) -> bool:
    """Whether loading a shape runs code of its author: validators, constructors, `__post_init__`."""
    seen: set[int] = set()
    waiting = [shape]
    while waiting:
        item = waiting.pop()
        match item:
            case Foreign():
                return True
            case Scalar(python=python) if python not in _SCALAR_LOADERS and not _is_standard(python):
                return True
            case Record(python=cls) if not _is_filled_plainly(cls):
                return True
        if id(item) not in seen:
            seen.add(id(item))
            waiting.extend(children(item))
    return False


def _is_standard(python: Any) -> bool:
    return python is None or python.__module__.partition(".")[0] in _STANDARD


def _is_filled_plainly(cls: Any) -> bool:
    """Whether a class keeps what its constructor is given: a TypedDict, a NamedTuple, a plain dataclass."""
    if issubclass(cls, dict | tuple):
        return True
    return hasattr(cls, "__dataclass_params__") and not hasattr(cls, "__post_init__")


class _Loaders(Conversions):
    """Builds loaders of one shape; named shapes are built once and may be recursive."""

    def of(self, shape: Shape) -> Convert | None:
        match shape:
            case Scalar(python=python):
                return None if python is None else _scalar_loader(python)
            case OneOf(values=values, members=tuple() as members):
                return _member_loader(values, members)
            case Array(items=items, python=python):
                return _array_loader(None if items is None else self.of(items), python, items)
            case Row(items=places):
                return _row_loader([self.of(item) for item in places])
            case Table(values=values_, keys=keys, python=python):
                return _table_loader(
                    None if keys is None else self.of(keys),
                    None if values_ is None else self.of(values_),
                    python,
                )
            case Either(options=options):
                return self._either(options)
            case Refined(base=base):
                return self.of(base)
            case Record():
                return self._record(shape)
            case Named():
                return self.of_named(shape)
            case Foreign(load=load):
                return load
        return None

    def _record(self, record: Record) -> Convert:
        loads = [(item.name, item.keyword, self.of(item.shape)) for item in record.fields]
        make = record.python

        def load_record(value: Any) -> Any:
            known = {}
            for name, keyword, load in loads:
                if name in value:
                    known[keyword] = value[name] if load is None else _load_at(name, load, value[name])
            return make(**known)

        return load_record

    def _either(self, options: tuple[Shape, ...]) -> Convert | None:
        loads = [self.of(option) for option in options]
        if not any(loads):
            return None
        ranked = sorted(zip(options, loads, strict=True), key=lambda pair: _comes_last(pair[0]))
        validators: list[Validator] = []

        def load_either(value: Any) -> Any:
            if not validators:
                validators.extend(Validator(to_value_schema(option), trusted=True) for option, _ in ranked)
            refusal = ValueError("fits none of the permitted forms")
            for validator, (_, load) in zip(validators, ranked, strict=True):
                if validator.is_valid(value):
                    try:
                        return apply(load, value)
                    except ValueError as error:
                        refusal = error
            raise refusal

        return load_either


def _load_at(place: str | int, load: Convert, value: Any) -> Any:
    try:
        return load(value)
    except ValueError as error:
        raise _misfit(place, error) from None


def _comes_last(shape: Shape) -> bool:
    """What would take a value from a better fit: 5 is no float where it may be an int, text no bytes."""
    return isinstance(shape, Scalar) and shape.python in (float, decimal.Decimal, bytes, bytearray)


# --- scalars -----------------------------------------------------------------------------------------

_WEEKS = re.compile(r"(-?)P([0-9]+)W")
_PARTS = re.compile(r"(-?)P(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?")


def load_integer(value: Any) -> int:
    return value if type(value) is int else int(value)


def load_number(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError("number is too large") from None


def _load_decimal(value: Any) -> decimal.Decimal:
    return decimal.Decimal(str(value))


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
    weeks, parts = _WEEKS.fullmatch(value), _PARTS.fullmatch(value)
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
    decimal.Decimal: _load_decimal,
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
    made: Convert = python
    return made


def _member_loader(values: tuple[Any, ...], members: tuple[Any, ...]) -> Convert:
    table = {(type(value) is bool, value): member for value, member in zip(values, members, strict=True)}
    return lambda value: table[(type(value) is bool, value)]


# --- containers --------------------------------------------------------------------------------------


def _array_loader(load: Convert | None, python: Any, items: Shape | None) -> Convert | None:
    load_all = None if load is None else _list_loader(load, items)
    if python is list:
        return load_all
    make = _set_maker(python) if python in (set, frozenset) else python
    return make if load_all is None else lambda value: make(load_all(value))


def _list_loader(load: Convert, items: Shape | None) -> Convert:
    def one_by_one(value: Any) -> Any:
        return _load_each(load, value)

    if load is load_number:
        return bulk.FloatsLoader(one_by_one)
    if load is load_integer:
        return bulk.integers_loader(one_by_one)
    return bulk.models_loader(items, one_by_one)


def _set_maker(python: Any) -> Convert:
    def make_set(items: Iterable[Any]) -> Any:
        try:
            return python(items)
        except TypeError:
            raise ValueError("expected items that a set can hold: no arrays, no objects") from None

    return make_set


def _load_each(load: Convert, value: Iterable[Any]) -> list[Any]:
    try:
        return [load(item) for item in value]
    except ValueError:  # once more, to say which it was
        return [_load_at(index, load, item) for index, item in enumerate(value)]


def _row_loader(loads: list[Convert | None]) -> Convert:
    def load_row(value: Any) -> tuple[Any, ...]:
        pairs = enumerate(zip(loads, value, strict=True))
        return tuple(item if load is None else _load_at(index, load, item) for index, (load, item) in pairs)

    return load_row


def _table_loader(load_key: Convert | None, load_value: Convert | None, python: Any) -> Convert | None:
    if load_key is None and load_value is None:
        return None if python is dict else python

    def load_table(value: Any) -> Any:
        loaded = {}
        for key, item in value.items():
            made = key if load_key is None else _load_at(key, load_key, key)
            loaded[made] = item if load_value is None else _load_at(key, load_value, item)
        return loaded if python is dict else python(loaded)

    return load_table
