"""Metadata in `Annotated[...]`: bounds, descriptions, titles and examples."""

from __future__ import annotations

import datetime as dt
import decimal
import re
from typing import Annotated, Any, Literal

import annotated_types as at
import msgspec
import pydantic
import pytest
import typing_extensions
from pydantic import Field

from tests.support.definitions.hints import receive, schema_of
from toolcrib import DefinitionError, InvalidArgumentsError

Age = typing_extensions.TypeAliasType("Age", Annotated[int, Field(ge=0, description="in years")])


class Unit:
    """Metadata that toolcrib knows nothing of; its `ge` is a method, and no bound."""

    def ge(self) -> None: ...


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (Annotated[int, "words"], {"type": "integer", "description": "words"}),
        (Annotated[int, "first", "last"], {"type": "integer", "description": "last"}),
        (Annotated[int, typing_extensions.Doc("words")], {"type": "integer", "description": "words"}),
        (Annotated[int, Field(description="words")], {"type": "integer", "description": "words"}),
        (
            Annotated[int, "words", msgspec.Meta(ge=1)],
            {"type": "integer", "minimum": 1, "description": "words"},
        ),
        (Annotated[int, Field(ge=1, lt=9)], {"type": "integer", "minimum": 1, "exclusiveMaximum": 9}),
        (Annotated[int, at.Gt(1), at.Le(9)], {"type": "integer", "exclusiveMinimum": 1, "maximum": 9}),
        (Annotated[int, at.Interval(ge=1, le=9)], {"type": "integer", "minimum": 1, "maximum": 9}),
        (Annotated[int, at.MultipleOf(3)], {"type": "integer", "multipleOf": 3}),
        (pydantic.PositiveInt, {"type": "integer", "exclusiveMinimum": 0}),
        (pydantic.conint(ge=1), {"type": "integer", "minimum": 1}),
        (Annotated[int, pydantic.Strict()], {"type": "integer"}),
        (Annotated[float, msgspec.Meta(gt=0.5)], {"type": "number", "exclusiveMinimum": 0.5}),
        (Annotated[decimal.Decimal, Field(ge=decimal.Decimal("0.5"))], {"type": "number", "minimum": 0.5}),
        (Annotated[str, at.Len(1, 4)], {"type": "string", "minLength": 1, "maxLength": 4}),
        (Annotated[str, Field(pattern="^a")], {"type": "string", "pattern": "^a"}),
        (Annotated[str, re.compile("^a")], {"type": "string", "pattern": "^a"}),
        (pydantic.constr(max_length=3), {"type": "string", "maxLength": 3}),
        (Annotated[list, at.MinLen(2)], {"type": "array", "minItems": 2}),
        (Annotated[tuple[int, str], at.MaxLen(2)], None),
        (Annotated[dict, Field(max_length=2)], {"type": "object", "maxProperties": 2}),
        (
            Annotated[int | str, Field(ge=1, max_length=3)],
            {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "maxLength": 3}]},
        ),
        (Annotated[Literal[1, 5], at.Ge(1)], {"type": "integer", "enum": [1, 5]}),
        (Age, {"type": "integer", "minimum": 0, "description": "in years"}),
        (
            Annotated[Age, at.Le(120)],
            {"type": "integer", "minimum": 0, "description": "in years", "maximum": 120},
        ),
        (Annotated[int, Unit()], {"type": "integer"}),
        (Annotated[int, None], {"type": "integer"}),
        (
            Annotated[
                int, Field(title="T", examples=[1], deprecated=True, json_schema_extra={"x-unit": "m"})
            ],
            {"type": "integer", "title": "T", "examples": [1], "deprecated": True, "x-unit": "m"},
        ),
        (
            list[Annotated[int, "of these"]],
            {"type": "array", "items": {"type": "integer", "description": "of these"}},
        ),
    ],
)
def test_metadata_becomes_schema_keywords(hint: Any, schema: dict[str, Any] | None) -> None:
    found = schema_of(hint)
    if schema is None:
        assert found["maxItems"] == 2
    else:
        assert found == schema


@pytest.mark.parametrize(
    ("hint", "bad"),
    [
        (Annotated[int, Field(ge=1)], 0),
        (Annotated[str, at.Len(1, 2)], "abc"),
        (Annotated[int, at.Predicate(lambda value: value % 2 == 0)], 3),
        (at.LowerCase[str], "ABC"),
        (Annotated[dt.date, Field(gt=dt.date(2026, 1, 1))], "2025-12-31"),
        (Annotated[dt.timedelta, at.Le(dt.timedelta(hours=1))], "PT2H"),
        (Annotated[decimal.Decimal, Field(max_digits=3)], 12.345),
        (Annotated[pydantic.SecretStr, Field(min_length=8)], "short"),
    ],
)
def test_bounds_that_no_schema_can_express_are_enforced(hint: Any, bad: Any) -> None:
    with pytest.raises(InvalidArgumentsError, match="'x'"):
        receive(hint, bad)


@pytest.mark.skipif("ascii_only" not in vars(pydantic.StringConstraints), reason="newer than this pydantic")
def test_bounds_of_newer_versions_of_pydantic_are_enforced() -> None:
    with pytest.raises(InvalidArgumentsError, match="'x'"):
        receive(Annotated[str, pydantic.StringConstraints(ascii_only=True)], "ä")


def test_metadata_that_changes_values_is_applied() -> None:
    stripped = Annotated[str, pydantic.StringConstraints(strip_whitespace=True, to_lower=True)]
    assert receive(stripped, " A ") == "a"
    assert receive(Annotated[int, pydantic.AfterValidator(lambda value: value + 1)], 1) == 2
    assert receive(list[Annotated[int, pydantic.BeforeValidator(lambda value: value * 2)]], [1, 2]) == [2, 4]


@pytest.mark.parametrize(
    "hint",
    [
        Annotated[str, Field(ge=3)],
        Annotated[int, at.MinLen(3)],
        Annotated[bool, at.Ge(1)],
        Annotated[Any, Field(ge=3)],
        Annotated[int | float, Field(min_length=3)],
    ],
)
def test_a_bound_that_does_not_apply_is_refused(hint: Any) -> None:
    with pytest.raises(DefinitionError, match="cannot bound this type"):
        schema_of(hint)


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (Annotated[str, Field(pattern="(?=a)b")], "not a pattern that runs in linear time"),
        (Annotated[str, Field(pattern="(")], "not a pattern"),
        (
            Annotated[str, pydantic.StringConstraints(pattern="(?=a)b", strip_whitespace=True)],
            "regex parse error",
        ),
        (Annotated[int, Field(json_schema_extra={"type": "nonsense"})], "nonsense"),
        (Annotated[int, Field(examples=[object()])], "a value of type object has no JSON form"),
    ],
)
def test_metadata_without_a_valid_schema_is_refused(hint: Any, words: str) -> None:
    with pytest.raises(DefinitionError, match=rf"Parameter 'x' of tool 'taking'.*({words})"):
        schema_of(hint)


def test_examples_are_published_as_json() -> None:
    hint = Annotated[dt.date, Field(examples=[dt.date(2026, 1, 31)])]
    assert schema_of(hint)["examples"] == ["2026-01-31"]


def test_a_callable_that_makes_a_schema_is_left_to_pydantic() -> None:
    def mark(schema: dict[str, Any]) -> None:
        schema["x-marked"] = True

    assert schema_of(Annotated[int, Field(json_schema_extra=mark)]) == {"type": "integer", "x-marked": True}


def test_an_alias_that_is_a_choice_is_left_to_pydantic() -> None:
    hint = Annotated[int, Field(validation_alias=pydantic.AliasChoices("a", "b"))]
    assert schema_of(hint) == {"type": "integer"}
