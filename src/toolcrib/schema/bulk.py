"""Lists that are converted at once instead of item by item.

A list of pydantic models whose fields need nothing but pydantic is made by one call into its engine: half the
time of making each. What comes out is what `convert.py` makes item by item; where a value is refused, that is
asked once more, for its words.
"""

from __future__ import annotations

from typing import Any

from toolcrib.schema import rich
from toolcrib.schema.conversion import Convert
from toolcrib.schema.shapes import (
    Anything,
    Array,
    Either,
    Foreign,
    Named,
    OneOf,
    Record,
    Refined,
    Scalar,
    Shape,
    Table,
)

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
