"""Dumpers: Python values into declared JSON."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import AfterValidator, BaseModel, computed_field

from tests.support.definitions.hints import emit
from toolcrib.errors import InvalidResultError
from toolcrib.schema.converters import build_dumper
from toolcrib.schema.shapes import External, Scalar
from toolcrib.validation import codec

UTC = dt.UTC


class Colour(enum.Enum):
    RED = "r"


@dataclasses.dataclass
class Base:
    a: int


@dataclasses.dataclass
class Sub(Base):
    b: int = 2


class Small(TypedDict, total=False):
    a: int


class Large(TypedDict, total=False):
    a: int
    b: int


@pytest.mark.parametrize(
    ("hint", "value", "sent"),
    [
        (decimal.Decimal, decimal.Decimal("1.50"), 1.5),
        (decimal.Decimal, decimal.Decimal("12"), 12),
        (decimal.Decimal, decimal.Decimal("1E+30"), 1e30),
        (list[decimal.Decimal], [3, 0.5], [3, 0.5]),
        (dt.datetime, dt.datetime(2026, 1, 31, 9, tzinfo=UTC), "2026-01-31T09:00:00Z"),
        (dt.time, dt.time(9, 30), "09:30:00"),
        (dt.timedelta, dt.timedelta(seconds=-1.5), "-PT1.5S"),
        (dt.timedelta, dt.timedelta(days=2, hours=1), "P2DT3600S"),
        (complex, 1j, "1j"),
        (collections.deque[int], collections.deque([1]), [1]),
        (list[int], (1, 2), [1, 2]),
        (tuple[int, ...], (1, 2), [1, 2]),
        (set[str], {"b", "a"}, ["a", "b"]),
        (set[Any], {1, "a"}, ["a", 1]),
        (dict[bool, decimal.Decimal], {True: decimal.Decimal("0.5")}, {"true": 0.5}),
        (dict[str, Colour], {"a": Colour.RED}, {"a": "r"}),
        (dict[Colour, int], collections.OrderedDict({Colour.RED: 1}), {"r": 1}),
    ],
)
def test_values_are_dumped_as_published(hint: Any, value: Any, sent: Any) -> None:
    assert emit(hint, value) == sent


def test_the_values_of_a_generator_are_dumped_as_a_list() -> None:
    halves = (decimal.Decimal("0.5") for _ in range(2))
    assert emit(list[decimal.Decimal], halves) == [0.5, 0.5]


NOON = dt.datetime(2026, 7, 1, 12)


class Dated(BaseModel):
    when: dt.datetime


class Labelled(Dated):
    """Described by pydantic, because of its computed field."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def label(self) -> str:
        return "x"


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (dt.datetime, NOON),
        (Any, NOON),
        (list[dt.datetime], [NOON]),
        (dict[str, dt.datetime], {"when": NOON}),
        (dict, {"when": NOON}),
        (Dated, Dated(when=NOON)),
        (Labelled, Labelled(when=NOON)),
        (dt.datetime | None, NOON),
    ],
)
def test_a_time_gets_no_offset_that_nobody_wrote(hint: Any, value: Any) -> None:
    text = codec.encode_text(emit(hint, value))
    assert "2026-07-01T12:00:00" in text
    assert "12:00:00Z" not in text
    assert "12:00:00+" not in text


def test_the_offset_of_a_time_is_kept() -> None:
    rome = dt.timezone(dt.timedelta(hours=2))
    assert emit(dt.datetime, NOON.replace(tzinfo=rome)) == "2026-07-01T12:00:00+02:00"
    assert emit(dt.datetime, NOON.replace(tzinfo=dt.UTC)) == "2026-07-01T12:00:00Z"


class TestUnions:
    @pytest.mark.parametrize(
        ("hint", "value", "sent"),
        [
            (Base | Sub, Sub(1), {"a": 1, "b": 2}),
            (Base | int, Sub(1), {"a": 1}),
            (Base | None, None, None),
            (Base | str, "text", "text"),
            (Base | dict[str, Any], {"a": 1, "free": 2}, {"a": 1, "free": 2}),
            (Base | dict[str, Any], Sub(1), {"a": 1}),
            (Small | Large, {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2}),
            (Base | Colour, Colour.RED, "r"),
            (Colour | Literal["x"] | int, "x", "x"),
            (list[Base] | Base, [Sub(1)], [{"a": 1}]),
            (list[Base] | Base, (Sub(1),), [{"a": 1}]),
            (tuple[Base, int] | int, (Sub(1), 2), [{"a": 1}, 2]),
            (decimal.Decimal | str, decimal.Decimal("0.5"), 0.5),
            (decimal.Decimal | float, 0.25, 0.25),
            (dt.datetime | int, dt.datetime(2026, 1, 31, tzinfo=UTC), "2026-01-31T00:00:00Z"),
            (bool | decimal.Decimal, True, True),
            (list[Base | None] | Annotated[Base, "one"], [None, Sub(1)], [None, {"a": 1}]),
            (dict[str, decimal.Decimal] | None, {"a": decimal.Decimal("0.5")}, {"a": 0.5}),
            (Base | (Colour | None), Colour.RED, "r"),
            (
                Annotated[int, AfterValidator(lambda value: value)] | Base,
                5,
                5,
            ),
        ],
    )
    def test_a_value_is_dumped_by_the_union_member_of_its_class(
        self, hint: Any, value: Any, sent: Any
    ) -> None:
        assert emit(hint, value) == sent

    @pytest.mark.parametrize(
        ("hint", "value"), [(Base | Colour, 5), (Base | list[Base], {"b": 1}), (tuple[Base, int] | None, 5)]
    )
    def test_a_value_of_no_member_is_refused(self, hint: Any, value: Any) -> None:
        with pytest.raises(InvalidResultError):
            emit(hint, value)

    def test_of_unions_look_inside(self) -> None:
        from toolcrib.schema.shapes import Enumeration, Union

        inner = Union((Enumeration(("r",), (Colour.RED,)), Scalar("null")))
        dump = build_dumper(Union((Scalar("integer", python=int), inner)))
        assert dump is not None
        assert (dump(Colour.RED), dump(5), dump("?")) == ("r", 5, "?")

    def test_prefer_a_class_to_a_guess(self) -> None:
        from toolcrib.schema.shapes import Union

        guess = External({}, lambda value: value, lambda value: "guessed")
        sure = External({}, lambda value: value, lambda value: "sure", python=Base)
        dump = build_dumper(Union((guess, sure)))
        assert dump is not None
        assert (dump(Sub(1)), dump(5)) == ("sure", "guessed")


@pytest.mark.parametrize(
    "hint", [decimal.Decimal, tuple[int, ...], set[int], dict[bool, int], tuple[int, int]]
)
def test_other_values_are_left_for_the_schema_to_refuse(hint: Any) -> None:
    with pytest.raises(InvalidResultError, match="it does not fit the output schema"):
        emit(hint, "text")


def test_a_tuple_of_another_length_is_left_for_the_schema_to_refuse() -> None:
    with pytest.raises(InvalidResultError, match="length of at least 2"):
        emit(tuple[Base, int], [Base(1)])
