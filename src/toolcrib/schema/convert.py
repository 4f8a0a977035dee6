"""Shapes become converters: checked JSON into Python values, and Python values into declared JSON.

`None` stands for "as it is", so that plain arguments cost nothing. A loader sees only what the schema let
through; it raises ValueError where a value is well-formed and still means nothing (a date in month 13).
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
from collections.abc import Callable, Mapping
from typing import Any

from toolcrib import codec
from toolcrib.schema.shapes import (
    Anything,
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
    to_value_schema,
)
from toolcrib.validation import Validator

Convert = Callable[[Any], Any]


# --- loading ---------------------------------------------------------------------------------------


def loader(shape: Shape) -> Convert | None:
    """What makes a checked JSON value the Python value that the hint promised; None: nothing to do."""
    return _Loaders().of(shape)


class _Loaders:
    """Builds loaders of one shape; named shapes are built once and may be recursive."""

    def __init__(self) -> None:
        self.named: dict[int, list[Convert | None]] = {}

    def of(self, shape: Shape) -> Convert | None:
        match shape:
            case Scalar(kind=kind, python=python):
                return _scalar_loader(kind, python)
            case OneOf(values=values, members=tuple() as members):
                return _member_loader(values, members)
            case Array(items=items, python=python):
                return _array_loader(self.of(items) if items is not None else None, python)
            case Row(items=places):
                return _row_loader([self.of(item) for item in places])
            case Table(values=values_, keys=keys):
                return _table_loader(
                    self.of(keys) if keys is not None else None,
                    self.of(values_) if values_ is not None else None,
                    keys,
                )
            case Either(options=options):
                return self._either(options)
            case Refined(base=base):
                return self.of(base)
            case Record():
                return self._record(shape)
            case Named():
                return self._named(shape)
            case Foreign(load=load):
                return load
            case _:
                return None

    def _named(self, shape: Named) -> Convert | None:
        cell = self.named.get(id(shape))
        if cell is None:
            cell = self.named[id(shape)] = []
            cell.append(self.of(shape.target))
            return cell[0]
        if cell:
            return cell[0]
        waiting = cell  # the shape is being built: it refers to itself

        def load_later(value: Any) -> Any:
            load = waiting[0]
            return value if load is None else load(value)

        return load_later

    def _record(self, record: Record) -> Convert:
        if record.whole is not None:
            return record.whole
        loads = [(item.name, item.attribute or item.name, self.of(item.shape)) for item in record.fields]
        make = record.python

        def load_record(value: Any) -> Any:
            known = {
                attribute: value[name] if load is None else load(value[name])
                for name, attribute, load in loads
                if name in value
            }
            return make(**known)

        return load_record

    def _either(self, options: tuple[Shape, ...]) -> Convert | None:
        loads = [self.of(option) for option in options]
        if not any(loads):
            return None
        ranked = sorted(zip(options, loads, strict=True), key=lambda pair: _is_number(pair[0]))
        validators: list[Validator] = []

        def load_either(value: Any) -> Any:
            if not validators:
                validators.extend(Validator(to_value_schema(option), trusted=True) for option, _ in ranked)
            refusal: ValueError | None = None
            for validator, (_, load) in zip(validators, ranked, strict=True):
                if validator.is_valid(value):
                    try:
                        return value if load is None else load(value)
                    except ValueError as error:
                        refusal = error
            raise refusal or ValueError("fits none of the permitted forms")

        return load_either


def _is_number(shape: Shape) -> bool:
    """Integers are tried before numbers, or `float | int` would turn every 5 into 5.0."""
    return isinstance(shape, Scalar) and shape.kind == "number"


def _load_integer(value: Any) -> int:
    return value if type(value) is int else int(value)


def _load_bytes(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("expected base64") from None


def _load_decimal(value: Any) -> decimal.Decimal:
    return decimal.Decimal(str(value))


def _load_number(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError("number is too large") from None


_SCALAR_LOADERS: dict[Any, Convert] = {
    int: _load_integer,
    float: _load_number,
    bytes: _load_bytes,
    bytearray: lambda value: bytearray(_load_bytes(value)),
    decimal.Decimal: _load_decimal,
    dt.datetime: dt.datetime.fromisoformat,
    dt.date: dt.date.fromisoformat,
    dt.time: dt.time.fromisoformat,
    dt.timedelta: codec.parse_duration,
}


def _scalar_loader(kind: str, python: Any) -> Convert | None:
    if python is None:
        return None
    known = _SCALAR_LOADERS.get(python)
    if known is not None:
        return known
    if kind == "integer":
        return lambda value: python(int(value))
    made: Convert = python
    return made


def _member_loader(values: tuple[Any, ...], members: tuple[Any, ...]) -> Convert:
    table = {(type(value) is bool, value): member for value, member in zip(values, members, strict=True)}
    return lambda value: table[(type(value) is bool, value)]


def _array_loader(load: Convert | None, python: Any) -> Convert | None:
    if load is None:
        return None if python is list else python
    if python is list:
        return lambda value: [load(item) for item in value]
    return lambda value: python(load(item) for item in value)


def _row_loader(loads: list[Convert | None]) -> Convert:
    def load_row(value: Any) -> tuple[Any, ...]:
        return tuple(
            item if load is None else load(item) for load, item in zip(loads, value, strict=True)
        )  # fmt: skip

    return load_row


def _table_loader(load_key: Convert | None, load_value: Convert | None, keys: Shape | None) -> Convert | None:
    if isinstance(keys, Scalar) and keys.kind != "string":
        inner = load_key or (lambda value: value)

        def load_key(text: Any) -> Any:
            return inner(codec.decode(text))

    if load_key is None and load_value is None:
        return None
    key_of = load_key or (lambda value: value)
    value_of = load_value or (lambda value: value)
    return lambda value: {key_of(key): value_of(item) for key, item in value.items()}


# --- dumping ---------------------------------------------------------------------------------------


def dumper(shape: Shape) -> Convert | None:
    """What keeps only declared fields of a result; None where nothing declares fields."""
    return _Dumpers().of(shape) if _declares_fields(shape) else None


def _declares_fields(shape: Shape) -> bool:
    seen: set[int] = set()
    waiting = [shape]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Record | Foreign) or (isinstance(item, OneOf) and item.members is not None):
            return True
        if id(item) not in seen:
            seen.add(id(item))
            waiting.extend(children(item))
    return False


class _Dumpers:
    def __init__(self) -> None:
        self.named: dict[int, list[Convert]] = {}

    def of(self, shape: Shape) -> Convert:
        match shape:
            case Array(items=Shape() as items):
                dump = self.of(items)
                return lambda value: _each(value, dump)
            case Row(items=places):
                dumps = [self.of(item) for item in places]
                return lambda value: _each_of(value, dumps)
            case Table(values=Shape() as values):
                dump = self.of(values)
                return lambda value: _each_value(value, dump)
            case OneOf(values=plain, members=tuple() as members):
                return lambda value: _dump_member(value, plain, members)
            case Either(options=options):
                return self._either(options)
            case Refined(base=base):
                return self.of(base)
            case Record():
                return self._record(shape)
            case Named():
                return self._named(shape)
            case Foreign(dump=dump):
                return dump
            case Anything() | _:
                return _as_it_is

    def _named(self, shape: Named) -> Convert:
        cell = self.named.get(id(shape))
        if cell is None:
            cell = self.named[id(shape)] = []
            cell.append(self.of(shape.target))
        waiting = cell
        return cell[0] if cell else (lambda value: waiting[0](value))

    def _record(self, record: Record) -> Convert:
        python, whole = record.python, record.dump
        fields = [(item.name, item.attribute or item.name, self.of(item.shape)) for item in record.fields]

        def dump_record(value: Any) -> Any:
            if whole is not None and isinstance(value, python):
                return whole(value)
            if isinstance(value, Mapping):
                return {name: dump(value[name]) for name, _, dump in fields if name in value}
            return {
                name: dump(getattr(value, attribute))
                for name, attribute, dump in fields
                if hasattr(value, attribute)
            }

        return dump_record

    def _either(self, options: tuple[Shape, ...]) -> Convert:
        dumps = [(_python_of(option), _required_of(option), self.of(option)) for option in options]

        def dump_either(value: Any) -> Any:
            for python, _, dump in dumps:
                if isinstance(python, type) and python is not dict and _is_instance(value, python):
                    return dump(value)
            if isinstance(value, Mapping):
                for _, required, dump in dumps:
                    if required is not None and required <= value.keys():
                        return dump(value)
            return value

        return dump_either


def _is_instance(value: Any, python: Any) -> bool:
    try:
        return isinstance(value, python)
    except TypeError:  # a TypedDict
        return False


def _python_of(shape: Shape) -> Any:
    match shape:
        case Named(target=inner) | Refined(base=inner):
            return _python_of(inner)
        case Record(python=python) | Array(python=python):
            return python
        case OneOf(members=tuple() as members) if members:
            return type(members[0])
        case Row():
            return tuple
    return None


def _required_of(shape: Shape) -> set[str] | None:
    match shape:
        case Named(target=inner) | Refined(base=inner):
            return _required_of(inner)
        case Record(fields=fields):
            return {item.name for item in fields if item.required}
    return None


def _as_it_is(value: Any) -> Any:
    return value


def _dump_member(value: Any, plain: tuple[Any, ...], members: tuple[Any, ...]) -> Any:
    for member, said in zip(members, plain, strict=True):
        if value is member:
            return said
    return value


def _each(value: Any, dump: Convert) -> Any:
    return (
        value
        if isinstance(value, str | Mapping) or not hasattr(value, "__iter__")
        else [dump(item) for item in value]
    )


def _each_of(value: Any, dumps: list[Convert]) -> Any:
    if not isinstance(value, tuple | list) or len(value) != len(dumps):
        return value
    return [dump(item) for dump, item in zip(dumps, value, strict=True)]


def _each_value(value: Any, dump: Convert) -> Any:
    return {key: dump(item) for key, item in value.items()} if isinstance(value, Mapping) else value
