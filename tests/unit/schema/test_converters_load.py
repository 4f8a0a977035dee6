"""Loaders: checked JSON into Python values, and the location of errors."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from typing import Annotated, Any, Self

import pydantic
import pydantic.dataclasses
import pytest

from toolcrib.schema.converters import ConversionError, build_loader
from toolcrib.schema.hints import HintReader
from toolcrib.schema.shapes import (
    AnyValue,
    Array,
    Constrained,
    Dictionary,
    Enumeration,
    Field,
    FixedArray,
    Named,
    Record,
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


@pytest.mark.parametrize(
    "shape",
    [
        AnyValue(),
        TEXT,
        Scalar("boolean"),
        Enumeration(("a",)),
        Array(),
        Array(TEXT),
        Dictionary(),
        Dictionary(TEXT, TEXT),
        Union((TEXT, Scalar("null"))),
        Constrained(TEXT, {"maxLength": 3}),
        Named("N", Array(TEXT)),
    ],
)
def test_plain_shapes_have_no_loader(shape: Shape) -> None:
    assert build_loader(shape) is None


def test_a_shape_that_refers_to_itself_is_followed_as_deep_as_the_value_goes() -> None:
    tree = Named("Tree")
    tree.target = Union((Array(tree), DAY))
    assert load(tree, [["2026-01-31"], []]) == [[dt.date(2026, 1, 31)], []]


def test_a_plain_shape_that_refers_to_itself_is_left_as_it_is() -> None:
    tree = Named("Tree")
    tree.target = Array(tree)
    assert load(tree, [[], [[]]]) == [[], [[]]]


def test_only_fields_that_are_there_are_given_to_the_constructor() -> None:
    @dataclasses.dataclass
    class Made:
        a: int = 1
        b: int = 2

    record = Record("Made", [Field("x", TEXT, keyword="a"), Field("b", TEXT, keyword="b")], python=Made)
    assert load(record, {"x": 5, "unknown": 6}) == Made(5)


class TestRefusals:
    @pytest.mark.parametrize(
        ("shape", "value", "place"),
        [
            (Array(BYTES), ["aGk=", "!"], (1,)),
            (Array(BYTES, python=tuple), ["!"], (0,)),
            (FixedArray((TEXT, BYTES)), ["a", "!"], (1,)),
            (Dictionary(BYTES), {"k": "!"}, ("k",)),
            (Dictionary(keys=BYTES), {"!": 1}, ("!",)),
            (Array(Dictionary(FixedArray((BYTES,)))), [{}, {"k": ["!"]}], (1, "k", 0)),
            (Record("R", [Field("f", BYTES, keyword="f")], python=dict), {"f": "!"}, ("f",)),
        ],
    )
    def test_say_where_they_are(self, shape: Shape, value: Any, place: tuple[Any, ...]) -> None:
        with pytest.raises(ConversionError) as caught:
            load(shape, value)
        assert caught.value.errors() == [{"loc": place, "msg": "expected base64"}]
        assert str(caught.value) == "expected base64"

    def test_without_words_are_named_by_their_kind(self) -> None:
        def refuse(**_: Any) -> None:
            raise ValueError

        record = Record("R", [], python=refuse)
        with pytest.raises(ConversionError) as caught:
            load(Array(record), [{}])
        assert caught.value.errors() == [{"loc": (0,), "msg": "ValueError"}]

    def test_of_several_fields_of_a_model_are_all_told(self) -> None:
        class Model(pydantic.BaseModel):
            a: int = pydantic.Field(gt=0)
            b: int = pydantic.Field(gt=0)

        with pytest.raises(pydantic.ValidationError) as caught:
            load_hint(list[Model], [{"a": 1, "b": 1}, {"a": 0, "b": 0}])
        assert [problem["loc"] for problem in caught.value.errors()] == [(1, "a"), (1, "b")]

    def test_of_every_member_of_a_union_are_told_by_the_last(self) -> None:
        with pytest.raises(ValueError, match="expected base64"):
            load(Union((Array(BYTES), BYTES)), "!")

    def test_of_what_the_schema_should_have_refused_are_plain(self) -> None:
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
