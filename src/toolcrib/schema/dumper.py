"""Shapes become dumpers: Python values into declared JSON, with nothing in it that was not declared.

`None` stands for "as it is": the codec knows plain values, dates and the like by itself. A dumper is lenient
about what it meets, a dict where an object was declared, say; whether the outcome keeps to the schema is
checked afterwards.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Iterable, Mapping
from typing import Any

from toolcrib.schema.conversion import Conversions, Convert, apply
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
)

_LARGEST_INTEGER = 2**63


def dumper(shape: Shape) -> Convert | None:
    """What keeps a value to its shape; None where nothing has to be done."""
    return _Dumpers().of(shape)


class _Dumpers(Conversions):
    """Builds dumpers of one shape; named shapes are built once and may be recursive."""

    def of(self, shape: Shape) -> Convert | None:
        match shape:
            case Scalar(python=python):
                return _SCALAR_DUMPERS.get(python)
            case OneOf(values=plain, members=tuple() as members):
                return lambda value: _dump_member(value, plain, members)
            case Array(items=items, unique=unique, python=python):
                return _array_dumper(None if items is None else self.of(items), unique, python)
            case Row(items=places):
                dumps = [self.of(item) for item in places]
                return lambda value: _dump_row(value, dumps)
            case Table(values=values, keys=keys):
                return _table_dumper(
                    None if keys is None else self.of(keys), None if values is None else self.of(values)
                )
            case Either(options=options):
                return self._either(options)
            case Refined(base=base):
                return self.of(base)
            case Record():
                return self._record(shape)
            case Named():
                return self.of_named(shape)
            case Foreign(dump=dump):
                return dump
        return None

    def _record(self, record: Record) -> Convert:
        fields = [(item.name, item.attribute, self.of(item.shape)) for item in record.fields]

        def dump_record(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {
                    name: apply(dump, value[name if name in value else attribute])
                    for name, attribute, dump in fields
                    if name in value or attribute in value
                }
            found = {
                name: apply(dump, getattr(value, attribute))
                for name, attribute, dump in fields
                if attribute is not None and hasattr(value, attribute)
            }
            return found if found or _is_instance(value, record.python) else value

        return dump_record

    def _either(self, options: tuple[Shape, ...]) -> Convert | None:
        dumps = [self.of(option) for option in options]
        if not any(dumps):
            return None

        def dump_either(value: Any) -> Any:
            scores = [_likeness(option, value) for option in options]
            best = max(scores)
            return apply(dumps[scores.index(best)], value) if best > _NOT else value

        return dump_either


# --- which member of a union a value is --------------------------------------------------------------

Score = tuple[int, int]
_NOT: Score = (0, 0)
_CLASSES: dict[str, type] = {"string": str, "boolean": bool, "null": type(None)}


def _likeness(shape: Shape, value: Any) -> Score:
    """How much a value looks like it was meant for a shape: 3 its very class, 2 a kind of it, 1 perhaps."""
    match shape:
        case Named(target=inner) | Refined(base=inner):
            return _likeness(inner, value)
        case Either(options=options):
            return max(_likeness(option, value) for option in options)
        case OneOf(values=plain, members=members):
            return (3, 0) if _is_among(value, members or plain) else _NOT
        case Scalar(kind=kind, python=python):
            return _class_likeness(_CLASSES.get(kind) if python is None else python, value)
        case Record(python=python) | Foreign(python=python) if _class_likeness(python, value) > _NOT:
            return _class_likeness(python, value)
        case Record(fields=fields) if isinstance(value, Mapping):
            names = [item.name for item in fields]
            return _mapping_likeness(value, names, [item.name for item in fields if item.required])
        case Foreign(schema={"properties": properties}) if isinstance(value, Mapping):
            return _mapping_likeness(value, properties, ())  # on the way out it requires what it computes
        case Foreign(python=None):
            return (1, 0)
        case Table():
            return (2, 0) if isinstance(value, Mapping) else _NOT
        case Array(python=python) if _is_instance(value, python):
            return _class_likeness(python, value)
        case Array() | Row():
            return (1, 0) if _is_many(value) else _NOT
    return _NOT


def _class_likeness(python: Any, value: Any) -> Score:
    if type(value) is python:
        return (3, 0)
    return (2, 0) if _is_instance(value, python) else _NOT


def _mapping_likeness(value: Mapping[Any, Any], names: Iterable[str], required: Iterable[str]) -> Score:
    """A dict may stand for an object that has its keys; of several, for the one that has most."""
    known = sum(name in value for name in names)
    return (1, known) if all(name in value for name in required) else _NOT


def _is_instance(value: Any, python: Any) -> bool:
    try:
        return isinstance(value, python)
    except TypeError:  # a TypedDict, a function that makes values, nothing
        return False


def _is_many(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray | Mapping)


def _is_among(value: Any, members: tuple[Any, ...]) -> bool:
    return any(type(value) is type(member) and value == member for member in members)


# --- the single kinds --------------------------------------------------------------------------------


def _dump_decimal(value: Any) -> Any:
    """A JSON number, as published: whole numbers exactly, others to the precision of a float."""
    if not isinstance(value, decimal.Decimal):
        return value
    is_whole = value.is_finite() and value == value.to_integral_value()
    try:
        return int(value) if is_whole and value.copy_abs() < _LARGEST_INTEGER else float(value)
    except ArithmeticError:
        raise ValueError("it has no JSON form") from None


def _dump_moment(value: Any) -> Any:
    """A time with its offset, which the format insists on; one without is local, as Python has it."""
    is_naive = isinstance(value, dt.datetime) and value.tzinfo is None
    return value.astimezone() if is_naive else value


_SCALAR_DUMPERS: dict[Any, Convert] = {decimal.Decimal: _dump_decimal, dt.datetime: _dump_moment}


def _dump_member(value: Any, plain: tuple[Any, ...], members: tuple[Any, ...]) -> Any:
    for member, said in zip(members, plain, strict=True):
        if type(value) is type(member) and value == member:
            return said
    return value


def _array_dumper(dump: Convert | None, unique: bool, python: Any) -> Convert | None:
    if dump is None and not unique and python is not tuple:
        return None

    def dump_array(value: Any) -> Any:
        if not _is_many(value):
            return value
        items = list(value) if dump is None else [dump(item) for item in value]
        return _in_order(items) if unique else items

    return dump_array


def _in_order(items: list[Any]) -> list[Any]:
    """The items of a set, which has no order of its own, in one that is always the same."""
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=repr)


def _dump_row(value: Any, dumps: list[Convert | None]) -> Any:
    if not isinstance(value, tuple | list) or len(value) != len(dumps):
        return value
    return [apply(dump, item) for dump, item in zip(dumps, value, strict=True)]


def _table_dumper(dump_key: Convert | None, dump_value: Convert | None) -> Convert | None:
    if dump_key is None and dump_value is None:
        return None

    def dump_table(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {apply(dump_key, key): apply(dump_value, item) for key, item in value.items()}

    return dump_table
