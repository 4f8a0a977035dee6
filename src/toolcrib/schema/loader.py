"""Shapes become loaders: checked JSON into the Python values that the hints promised.

`None` stands for "as it is", so that plain arguments cost nothing. A loader sees only what the schema let
through; it raises ValueError where a value is well-formed and still means nothing (a date in month 13), and
says where in the value that was.

Lists that are converted at once instead of item by item.

A list of pydantic models whose fields need nothing but pydantic is made by one call into its engine: half the
time of making each. What comes out is what `convert.py` makes item by item; where a value is refused, that is
asked once more, for its words.

The cost of converting arguments, known before anything is converted.

A number takes two bytes to send and 30 ns to become a float; a model takes 14 bytes and a microsecond. So a
request that is cheap to send can ask for a lot of work. `cost_of` tells how much, from the shape of a
parameter and the lengths of its lists, mostly without looking at their items. `allowance` is what a request
of a given size may cost: nothing is converted that would cost its receiver a hundred times what it cost its
sender, see "What a request may cost" in docs/testing.md. The figures are nanoseconds, measured, reading and
checking included.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
import re
from collections.abc import Callable, Iterable
from typing import Any

from toolcrib.schema import pydantic as rich
from toolcrib.schema.conversion import Conversions, Convert, apply
from toolcrib.schema.pydantic import is_pydantic
from toolcrib.schema.render import to_value_schema
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
    bare,
    children,
)
from toolcrib.validation import codec
from toolcrib.validation.validator import Validator

_FEW = 16
"""So many items are made faster one by one than an adapter is built."""


def is_bulk(shape: Record) -> bool:
    """Whether a list of these can be left to pydantic."""
    return _is_left_to_pydantic(shape, set())


def models_loader(items: Shape | None, one_by_one: Convert) -> Convert:
    """What makes a list of models, at once where it can. `one_by_one` makes each, and says what is wrong."""
    while isinstance(items, Named | Refined):
        items = items.target if isinstance(items, Named) else items.base
    if isinstance(items, Foreign) and items.load_list is not None:
        return _load_at_once(items.load_list, one_by_one)
    if not isinstance(items, Record) or not is_bulk(items):
        return one_by_one
    makers: list[Convert] = []

    def make(value: Any) -> Any:
        if not makers:
            makers.append(rich.list_maker(items.python))
        return makers[0](value)

    return _load_at_once(make, one_by_one)


def _load_at_once(make: Convert, one_by_one: Convert) -> Convert:
    def load_models(value: Any) -> Any:
        if len(value) < _FEW or type(value) is not list:
            return one_by_one(value)
        try:
            return make(value)
        except ValueError:
            return one_by_one(value)

    return load_models


def _is_left_to_pydantic(shape: Shape, seen: set[int]) -> bool:
    match shape:
        case Anything(python=None) | OneOf(members=None):
            return True
        case Scalar(python=python):
            return python in (None, int, float)
        case Array(items=items, python=python):
            return python is list and (items is None or _is_left_to_pydantic(items, seen))
        case Table(values=values, keys=None, python=python):
            return python is dict and (values is None or _is_left_to_pydantic(values, seen))
        case Either(options=options):
            # Of several forms we and pydantic may choose different ones: 5.0 is an int to us.
            some = [option for option in options if not _is_null(option)]
            return len(some) == 1 and _is_left_to_pydantic(some[0], seen)
        case Refined(base=base) | Named(target=base):
            if id(shape) in seen:
                return True
            seen.add(id(shape))
            return _is_left_to_pydantic(base, seen)
        case Record(fields=fields, python=python):
            return rich.takes_dicts(python) and all(
                item.name == item.keyword and _is_left_to_pydantic(item.shape, seen) for item in fields
            )
    return False


def _is_null(shape: Shape) -> bool:
    return isinstance(shape, Scalar) and shape.kind == "null"


class FloatsLoader:
    """Makes a list of floats."""

    __slots__ = ("_one_by_one",)

    def __init__(self, one_by_one: Convert) -> None:
        self._one_by_one = one_by_one

    def __call__(self, value: Any) -> Any:
        try:
            return list(map(float, value))
        except OverflowError:
            return self._one_by_one(value)


def integers_loader(one_by_one: Convert) -> Convert:
    """Makes a list of integers: what came, where they are."""
    whole = {int}

    def load_integers(value: Any) -> Any:
        return value if type(value) is list and whole.issuperset(map(type, value)) else one_by_one(value)

    return load_integers


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
        return FloatsLoader(one_by_one)
    if load is load_integer:
        return integers_loader(one_by_one)
    return models_loader(items, one_by_one)


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
