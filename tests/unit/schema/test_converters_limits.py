"""Limits on the values that are converted in one call, and lists that are converted at once."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import json
import re
import uuid
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from toolcrib import Tool
from toolcrib.errors import InvalidArgumentsError
from toolcrib.schema.arguments import ToolArguments
from toolcrib.schema.converters import MAX_CHOSEN, MAX_CONVERTED, MAX_NUMBERS, MAX_PATTERNS, find_limit
from toolcrib.schema.hints import HintReader


class Point(BaseModel):
    x: float
    y: float = 0.0


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int = 1


class Node(BaseModel):
    kids: list[Node] = []


class Colour(enum.Enum):
    red = "r"


@dataclass
class Spot:
    x: int
    tags: list[int] | None = None


def check_of(hint: Any, **options: Any) -> ToolArguments:
    def take(value: Any) -> int:
        return len(value)

    take.__annotations__["value"] = hint
    return Tool.from_function(take, description="Take.", **options).arguments


@pytest.mark.parametrize("hint", [list[str], dict[str, str], dict, Any])
def test_values_that_are_not_converted_have_no_limit(hint: Any) -> None:
    values = {"value": ["a"] * 1_500_000}
    if hint in (list[str], Any):
        assert check_of(hint).check(values) is values
    assert not check_of(hint).loaders


@pytest.mark.parametrize("hint", [int, dt.date, tuple[int, float]])
def test_a_single_value_has_no_limit(hint: Any) -> None:
    assert find_limit(HintReader().shape(hint)) is None


@pytest.mark.parametrize(
    ("hint", "limit"),
    [
        (list[int], MAX_NUMBERS),
        (set[float], MAX_CONVERTED),
        (list[int | None], MAX_NUMBERS),
        (list[decimal.Decimal], MAX_CONVERTED),
        (list[dt.timedelta], MAX_CONVERTED),
        (dict[uuid.UUID, list[int]], MAX_CONVERTED),
        (list[Colour], MAX_CONVERTED),
        (list[Point], MAX_CONVERTED),
        (Node, MAX_CONVERTED),
        (list[SecretStr], MAX_CONVERTED),
        (list[tuple[int, float]], MAX_CONVERTED),
        (list[Point | None], MAX_CONVERTED),
        (list[Point | Spot], MAX_CHOSEN),
        (list[int | dt.date | None], MAX_CHOSEN),
        (list[re.Pattern], MAX_PATTERNS),
    ],
)
def test_how_many_values_are_converted_depends_on_their_types(hint: Any, limit: int) -> None:
    assert find_limit(HintReader().shape(hint)) == limit


def test_too_many_values_are_refused() -> None:
    points = {"value": [{"x": 1, "y": 2}] * 30_000}
    with pytest.raises(InvalidArgumentsError, match="'value': more than 40000 values are too many"):
        check_of(list[Point]).check(points)
    few = {"value": points["value"][:10_000]}
    assert check_of(list[Point]).check(few) is few


def test_too_many_values_in_repaired_text_are_refused() -> None:
    with pytest.raises(InvalidArgumentsError, match="values are too many to convert"):
        check_of(list[re.Pattern]).check({"value": json.dumps(["a"] * 33)})


def test_long_regular_expressions_are_refused() -> None:
    check = check_of(re.Pattern)
    assert check.bind(check.check({"value": "a" * 256}))
    with pytest.raises(InvalidArgumentsError, match="of at most 256 characters"):
        check.bind(check.check({"value": "a" * 257}))


def test_hundreds_of_thousands_of_numbers_are_accepted() -> None:
    numbers = {"value": [1.5] * 400_000}
    assert check_of(list[float]).check(numbers) is numbers
    with pytest.raises(InvalidArgumentsError, match="values are too many to convert"):
        check_of(list[float]).check({"value": [1] * 1_000_001})
    with pytest.raises(InvalidArgumentsError, match="values are too many to convert"):
        check_of(list[list[float]]).check({"value": [[1] * 500_000] * 2})


def test_values_that_are_not_json_have_another_error() -> None:
    with pytest.raises(InvalidArgumentsError) as refused:
        check_of(list[Point]).check({"value": [{"x": object()}] * 10_000})
    assert "too many" not in str(refused.value)


# --- lists that are made at once ------------------------------------------------------------------------


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    n: int
    f: float


class Aliased(BaseModel):
    n: int = Field(1, alias="N")


class ByName(BaseModel):
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)
    n: int = Field(1, alias="N")


class Checked(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def small(cls, value: int) -> int:
        if value > 9:
            raise ValueError("it is too large")
        return value


class Made(BaseModel):
    n: int

    def __init__(self, n: int) -> None:
        super().__init__(n=n + 1)


class Rich(BaseModel):
    point: Point | None = None
    points: list[Point] = []
    names: dict[str, int] = {}
    when: dt.date | None = None


@pytest.mark.parametrize(
    ("model", "item"),
    [
        (Point, {"x": 1, "extra": 2}),
        (Strict, {"n": 5, "f": 1}),
        (Aliased, {"N": 3, "n": 4}),
        (ByName, {"n": 4}),
        (Checked, {"n": 3}),
        (Made, {"n": 3}),
        (Node, {"kids": [{"kids": []}, {}]}),
        (Rich, {"point": {"x": 2}, "points": [{"x": 1}], "names": {"a": 1}, "when": "2024-01-02"}),
        (Loose, {"a": 1, "b": 2}),
        (Annotated[Point, Field(description="A point")], {"x": 1.5}),
    ],
)
def test_a_long_list_of_models_equals_a_short_one(model: Any, item: dict[str, Any]) -> None:
    check = check_of(list[model], extra="ignore")
    few, many = ({"value": [item] * count} for count in (1, 100))
    assert check.bind(check.check(many))["value"] == check.bind(check.check(few))["value"] * 100


@pytest.mark.parametrize("model", [Checked, Annotated[Checked, Field(title="x")]])
def test_the_index_of_an_invalid_model_is_reported(model: Any) -> None:
    check = check_of(list[model])
    items = [{"n": 1}] * 50 + [{"n": 10}] + [{"n": 1}] * 50
    with pytest.raises(InvalidArgumentsError, match=r"'value\[50\].n': .*it is too large"):
        check.bind(check.check({"value": items}))


@pytest.mark.parametrize(
    ("hint", "item"),
    [
        (tuple[float, float], [12.34, 56.78]),
        (tuple[str, int, int, float, float], ["abc", 1, 2, 1.5, 2.5]),
        (Point | None, {"x": 1.5, "y": 2.5}),
    ],
)
def test_five_thousand_small_rows_are_accepted(hint: Any, item: Any) -> None:
    check = check_of(list[hint])
    assert len(check.bind(check.check({"value": [item] * 5_000}))["value"]) == 5_000
