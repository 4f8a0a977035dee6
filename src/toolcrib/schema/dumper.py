"""Dumpers: Python values into declared JSON, with nothing in it that was not declared.

A dumper leaves alone what it does not expect, for example a string where an object was declared; whether
the outcome fits the schema is checked afterwards.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Iterable, Mapping
from typing import Any

from toolcrib.schema.shapes import (
    Array,
    Convert,
    ConverterBuilder,
    Dictionary,
    Enumeration,
    External,
    FixedArray,
    Record,
    Scalar,
    Shape,
    Union,
    convert,
    unwrap,
)

_MAX_INTEGER = 2**63


def build_dumper(shape: Shape) -> Convert | None:
    """Return what makes JSON data of a value; None where the codec can do it alone."""
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


def _dump_datetime(value: Any) -> Any:
    """Return a time with the offset that the format requires; without one it is local time, as in Python."""
    is_naive = isinstance(value, dt.datetime) and value.tzinfo is None
    return value.astimezone() if is_naive else value


_SCALAR_DUMPERS: dict[Any, Convert] = {decimal.Decimal: _dump_decimal, dt.datetime: _dump_datetime}


def sort_set(items: list[Any]) -> list[Any]:
    """Return the items of a set in an order that is the same in every process."""
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=repr)


# --- choosing the member of a union ------------------------------------------------------------------

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
