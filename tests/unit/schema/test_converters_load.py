"""Loaders: checked JSON into Python values, and the location of errors."""

from __future__ import annotations

import datetime as dt
import enum
from typing import Annotated, Any, Self

import pydantic
import pydantic.dataclasses
import pytest

from toolcrib.schema.converters import ConversionError, build_loader
from toolcrib.schema.hints import HintReader
from toolcrib.schema.shapes import (
    Array,
    Named,
    Scalar,
    Shape,
    Union,
)

TEXT = Scalar("string")
DAY = Scalar("string", "date", python=dt.date)
BYTES = Scalar("string", encoding="base64", python=bytes)


def load(shape: Shape, value: Any) -> Any:
    make = build_loader(shape)
    assert make is not None
    return make(value)


def test_a_shape_that_refers_to_itself_is_followed_as_deep_as_the_value_goes() -> None:
    tree = Named("Tree")
    tree.target = Union((Array(tree), DAY))
    assert load(tree, [["2026-01-31"], []]) == [[dt.date(2026, 1, 31)], []]


def test_all_problems_of_a_model_are_reported() -> None:
    class Model(pydantic.BaseModel):
        a: int = pydantic.Field(gt=0)
        b: int = pydantic.Field(gt=0)

    with pytest.raises(pydantic.ValidationError) as caught:
        load_hint(list[Model], [{"a": 1, "b": 1}, {"a": 0, "b": 0}])
    assert [problem["loc"] for problem in caught.value.errors()] == [(1, "a"), (1, "b")]


def test_a_value_that_the_schema_should_have_refused_is_refused() -> None:
    with pytest.raises(ValueError, match="fits none of the permitted forms"):
        load(Union((DAY, Array(DAY))), 5)


# --- pydantic classes ---


class Part(pydantic.BaseModel):
    data: bytes = b""
    number: int
    log: list[str] = []

    @pydantic.field_validator("number")
    @classmethod
    def double(cls, number: int) -> int:
        return 2 * number

    @pydantic.model_validator(mode="after")
    def note(self) -> Self:
        self.log.append("checked")
        return self


class Whole(pydantic.BaseModel):
    part: Part
    listed: list[Part]
    named: dict[str, Part]
    maybe: Part | None
    numbers: list[Annotated[int, pydantic.AfterValidator(lambda number: number + 1)]]


def load_hint(hint: Any, value: Any) -> Any:
    return load(HintReader().shape(hint), value)


def test_the_validators_of_nested_models_run_once() -> None:
    part = {"data": "text", "number": 1}
    whole = load_hint(
        Whole, {"part": part, "listed": [part], "named": {"a": part}, "maybe": part, "numbers": [1]}
    )
    for made in (whole.part, whole.listed[0], whole.named["a"], whole.maybe):
        assert (made.data, made.number, made.log) == (b"text", 2, ["checked"])
    assert whole.numbers == [2]


CALLS: list[int] = []


class Strict(pydantic.BaseModel, strict=True):
    number: int
    day: dt.date

    @pydantic.field_validator("number")
    @classmethod
    def count(cls, number: int) -> int:
        CALLS.append(number)
        return number


class StrictWhole(pydantic.BaseModel, strict=True):
    items: list[Strict]


def test_a_strict_model_is_made_of_json_at_once() -> None:
    CALLS.clear()
    item = {"number": 5, "day": "2026-02-03"}
    made = [load_hint(Strict, item), *load_hint(list[Strict], [item])]
    made += load_hint(StrictWhole, {"items": [item]}).items
    assert {(one.number, one.day) for one in made} == {(5, dt.date(2026, 2, 3))}
    assert CALLS == [5] * 3


@pydantic.dataclasses.dataclass(config=pydantic.ConfigDict(strict=True))
class Point:
    x: int


class Path(pydantic.BaseModel):
    name: bytes
    points: list[Point]


def test_a_strict_dataclass_in_a_model_is_made_before_the_model() -> None:
    assert load_hint(Path, {"name": "/wA=", "points": [{"x": 1}]}).points == [Point(1)]


# --- long lists ---


def test_a_long_list_of_numbers_is_a_list_of_floats() -> None:
    made = load_hint(list[float], [1, 2**53 + 1, -0.0, 0.5] * 100)
    assert set(map(type, made)) == {float}
    assert list(map(str, made[:4])) == ["1.0", "9007199254740992.0", "-0.0", "0.5"]


@pytest.mark.parametrize("length", [2, 200])
def test_a_number_that_is_too_large_is_located(length: int) -> None:
    with pytest.raises(ConversionError, match="number is too large") as caught:
        load_hint(list[float], [1] * (length - 1) + [10**400])
    assert caught.value.problems[0][0] == (length - 1,)


def test_a_null_that_is_a_member_stays_that_member() -> None:
    class Answer(enum.Enum):
        YES = "yes"
        UNKNOWN = None

    assert load_hint(list[Answer | None], ["yes", None]) == [Answer.YES, Answer.UNKNOWN]
    assert load_hint(list[dt.date | None], ["2026-02-03", None]) == [dt.date(2026, 2, 3), None]
