"""Loaders: checked JSON into Python values, and the location of errors."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import pydantic
import pytest

from toolcrib.schema.converters import ConversionError, build_loader
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

        fields = [Field(name, Scalar("integer"), keyword=name) for name in ("a", "b")]
        with pytest.raises(pydantic.ValidationError) as caught:
            load(Array(Record("Model", fields, python=Model)), [{"a": 1, "b": 1}, {"a": 0, "b": 0}])
        assert [problem["loc"] for problem in caught.value.errors()] == [(1, "a"), (1, "b")]

    def test_of_every_member_of_a_union_are_told_by_the_last(self) -> None:
        with pytest.raises(ValueError, match="expected base64"):
            load(Union((Array(BYTES), BYTES)), "!")

    def test_of_what_the_schema_should_have_refused_are_plain(self) -> None:
        with pytest.raises(ValueError, match="fits none of the permitted forms"):
            load(Union((DAY, Array(DAY))), 5)
