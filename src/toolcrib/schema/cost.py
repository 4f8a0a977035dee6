"""The cost of converting arguments, known before anything is converted.

A number takes two bytes to send and 30 ns to become a float; a model takes 14 bytes and a microsecond. So a
request that is cheap to send can ask for a lot of work. `cost_of` tells how much, from the shape of a
parameter and the lengths of its lists, mostly without looking at their items. `allowance` is what a request
of a given size may cost: nothing is converted that would cost its receiver a hundred times what it cost its
sender, see "What a request may cost" in docs/testing.md. The figures are nanoseconds, measured, reading and
checking included.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Callable
from typing import Any

from toolcrib import codec
from toolcrib.schema.bulk import is_bulk
from toolcrib.schema.conversion import Convert
from toolcrib.schema.rich import is_pydantic
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
    bare,
)

FREE_NS = 5_000_000
"""What any call may cost: 3,000 small models, 120,000 numbers."""

Measure = Callable[[Any], int]
Cost = int | Measure
"""Nanoseconds, or what finds them out for a value."""

_SCALARS: dict[Any, int] = {
    int: 40,
    float: 40,
    bytes: 250,
    bytearray: 300,
    decimal.Decimal: 450,
    dt.datetime: 250,
    dt.date: 200,
    dt.time: 200,
    dt.timedelta: 2_500,
}
_OTHER_SCALAR = 3_000
_MEMBER = 250


class Bounded:
    """A loader of values whose cost depends on their size. `is_flat`: they are lists, of items that cost the
    same."""

    __slots__ = ("cost", "is_flat", "load")

    def __init__(self, load: Convert, cost: Measure, *, is_flat: bool) -> None:
        self.load = load
        self.cost = cost
        self.is_flat = is_flat

    def __call__(self, value: Any) -> Any:
        return self.load(value)

    def least_bytes(self, value: Any) -> int:
        """What a value takes as JSON at least, as far as that is seen at once."""
        return 2 * len(value) if self.is_flat and type(value) is list else 0


def bound(load: Convert | None, shape: Shape) -> Convert | None:
    """The loader of a shape, with its cost where that depends on the value."""
    cost = None if load is None else cost_of(shape)
    if load is None or not callable(cost):
        return load
    is_flat = isinstance(shape, Array) and shape.items is not None and not callable(cost_of(shape.items))
    return Bounded(load, cost, is_flat=is_flat)


def allowance(size: int) -> int:
    """What converting a request of so many bytes may cost. Sending takes about 60 us, 1 ns for each of the
    first 150,000 bytes, 0.2 ns for others; reading it takes a part of the hundredfold too."""
    return min(FREE_NS + 75 * size, 15_000_000 + 14 * size)


def cost_of(shape: Shape) -> Cost:
    return _Costs().of(shape)


def _measure(cost: Cost, value: Any) -> int:
    return cost(value) if callable(cost) else cost


class _Costs:
    """Finds the cost of one shape; named shapes are looked at once and may be recursive."""

    def __init__(self) -> None:
        self._named: dict[tuple[int, bool], list[Cost]] = {}

    def of(self, shape: Shape) -> Cost:
        match shape:
            case Scalar(python=python):
                return self.scalar(python)
            case OneOf(members=tuple()):
                return _MEMBER
            case Array(items=items, python=python):
                return self.array(items, python)
            case Row(items=items):
                return _sum(600 + 150 * len(items), list(enumerate(map(self.of, items))), list)
            case Table(keys=keys, values=values):
                return self.table(keys, values)
            case Either(options=options):
                return _highest(400 * len(options), [self.of(option) for option in options])
            case Refined(base=base):
                return self.of(base)
            case Record():
                return self.record(shape, is_listed=False)
            case Named():
                return self.named(shape)
            case Foreign():
                return self.foreign(shape, 2_500)
        return 0

    def scalar(self, python: Any) -> Cost:
        if python is None:
            return 0
        if python is re.compile:
            return lambda value: 50_000 + 2_000 * len(value) if type(value) is str else 0
        if getattr(python, "__qualname__", "") == "UUID":
            return 1_300
        return _SCALARS.get(python, _OTHER_SCALAR)

    def array(self, items: Shape | None, python: Any) -> Cost:
        extra = 0 if python is list else 300
        each = 0 if items is None else self.listed(items)
        if callable(each) and isinstance(bare(items), Foreign):  # a list of them is made at once
            return lambda value: each(value) + extra * len(value) if type(value) is list else 0
        if callable(each):
            return lambda value: (
                250 + extra * len(value) + sum(map(each, value)) if type(value) is list else 0
            )
        if not each + extra:
            return 0
        return lambda value: 250 + (each + extra) * len(value) if type(value) is list else 0

    def listed(self, items: Shape) -> Cost:
        """The cost of an item: a list of models is converted at once, where that is possible."""
        if isinstance(items, Named):
            return self.named(items, is_listed=True)
        if isinstance(items, Refined):
            return self.listed(items.base)
        if isinstance(items, Foreign):
            return self.foreign(items, 0)
        return self.record(items, is_listed=True) if isinstance(items, Record) else self.of(items)

    def table(self, keys: Shape | None, values: Shape | None) -> Cost:
        by_key, by_value = (0 if shape is None else self.of(shape) for shape in (keys, values))
        if not callable(by_key) and not callable(by_value):
            each = by_key + by_value
            return (lambda value: (150 + each) * len(value) if type(value) is dict else 0) if each else 0
        return lambda value: (
            sum(150 + _measure(by_key, key) + _measure(by_value, item) for key, item in value.items())
            if type(value) is dict
            else 0
        )

    def record(self, shape: Record, *, is_listed: bool) -> Cost:
        fields = [(item.name, self.listed(item.shape)) for item in shape.fields]
        if is_listed and is_bulk(shape):
            own = 1_200 + 100 * len(fields)
        elif is_pydantic(shape.python):
            own = 1_400 + 400 * len(fields)
        else:
            own = 600 + 200 * len(fields)
        return _sum(own, fields, dict)

    def named(self, shape: Named, *, is_listed: bool = False) -> Cost:
        key = (id(shape), is_listed)
        cell = self._named.get(key)
        if cell is None:
            cell = self._named[key] = []
            cell.append(self.listed(shape.target) if is_listed else self.of(shape.target))
        elif not cell:  # it refers to itself
            return lambda value: _measure(cell[0], value)
        return cell[0]

    def foreign(self, shape: Foreign, own: int) -> Cost:
        """What only pydantic makes: told from its JSON, which is made for pydantic too."""
        if shape.schema.get("type") in ("string", "integer", "number", "boolean"):
            return _OTHER_SCALAR
        return lambda value: own + _cost_of_json(value)


def _cost_of_json(value: Any) -> int:
    if type(value) is not dict and type(value) is not list:
        return _OTHER_SCALAR
    try:
        data = codec.write(value)
    except (TypeError, ValueError, ArithmeticError, RecursionError):
        return 0  # it is not JSON, which is found out soon
    return 1_200 * data.count(b"{") + 250 * data.count(b"[") + 60 * data.count(b",")


def _sum(own: int, parts: list[tuple[Any, Cost]], kind: type[Any]) -> Cost:
    """The cost of something with parts, all of which may be there."""
    own += sum(cost for _, cost in parts if not callable(cost))
    growing = [(key, cost) for key, cost in parts if callable(cost)]
    if not growing:
        return own

    def measure(value: Any) -> int:
        if not isinstance(value, kind):
            return own
        total = own
        for key, cost in growing:
            if key < len(value) if kind is list else key in value:
                total += cost(value[key])
        return total

    return measure


def _highest(own: int, costs: list[Cost]) -> Cost:
    if not any(costs):
        return 0
    fixed = max((cost for cost in costs if not callable(cost)), default=0)
    growing = [cost for cost in costs if callable(cost)]
    if not growing:
        return own + fixed
    return lambda value: own + max(fixed, *(cost(value) for cost in growing))
