"""The estimated cost of converting arguments, and its limits."""

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
from toolcrib.errors import InvalidArgumentsError, InvalidToolError
from toolcrib.schema.arguments import ToolArguments
from toolcrib.schema.converters import FREE_NS, ConversionCost, allowed_ns
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


def cost(hint: Any, value: Any) -> int:
    return ConversionCost(HintReader().shape(hint)).estimate(value)


def check_of(hint: Any, **options: Any) -> ToolArguments:
    def take(value: Any) -> int:
        return len(value)

    take.__annotations__["value"] = hint
    return Tool.from_function(take, description="Take.", **options).arguments


@pytest.mark.parametrize(
    "hint", [str, bool, Any, list[str], dict[str, str], dict, list, list[dict[str, Any]]]
)
def test_values_that_are_not_converted_cost_nothing(hint: Any) -> None:
    assert cost(hint, [{"a": ["b"]}] * 1000) == 0


@pytest.mark.parametrize(
    ("hint", "item"),
    [
        (int, 1),
        (float, 1.5),
        (decimal.Decimal, 1),
        (dt.date, "2024-01-01"),
        (dt.timedelta, "P1D"),
        (uuid.UUID, "12345678-1234-5678-1234-567812345678"),
        (re.Pattern, "a+"),
        (Colour, "r"),
        (bytes, "YQ=="),
        (Point, {"x": 1}),
        (Spot, {"x": 1, "tags": [1]}),
        (Loose, {"a": 1}),
        (Node, {"kids": [{"kids": []}]}),
        (SecretStr, "a"),
        (tuple[int, list[float]], [1, [2]]),
        (int | dt.date | None, 1),
        (list[int] | list[dt.date], [1, 2]),
        (dict[str, float], {"a": 1}),
        (dict[uuid.UUID, list[int]], {"12345678-1234-5678-1234-567812345678": [1]}),
    ],
)
def test_the_cost_of_a_list_grows_with_its_length(hint: Any, item: Any) -> None:
    none, one, many = (cost(list[hint], [item] * count) for count in (0, 1, 1000))
    assert one - none > 0
    assert 999 * (one - none) <= many <= 1001 * one + 60_000
    assert cost(set[int], [1]) > cost(list[int], [1])


@pytest.mark.parametrize(
    "hint", [list[Point], dict[str, float], tuple[int, list[int]], list[int] | list[str], Loose]
)
@pytest.mark.parametrize("value", [None, 1, "x", [], {}, [1], {"a": 1}, [[1]], [None]])
def test_the_cost_of_any_value_can_be_estimated(hint: Any, value: Any) -> None:
    assert cost(hint, value) >= 0


def test_larger_calls_may_cost_more() -> None:
    sizes = (0, 1_000, 100_000, 1_000_000, 4_000_000)
    assert [allowed_ns(size) for size in sizes] == sorted(allowed_ns(size) for size in sizes)
    assert allowed_ns(0) == FREE_NS


def test_high_costs_are_refused_and_the_limit_can_be_set() -> None:
    points = {"value": [{"x": 1, "y": 2}] * 30_000}
    with pytest.raises(InvalidArgumentsError, match=r"too much to convert .* about 44 ms .* for its size"):
        check_of(list[Point]).check(points)
    assert check_of(list[Point], max_convert_ms=100).check(points) is points
    with pytest.raises(InvalidArgumentsError, match=r"at most 10 ms \(send less"):
        check_of(list[Point], max_convert_ms=10).check(points)
    few = {"value": points["value"][:10_000]}
    assert check_of(list[Point]).check(few) is few
    long = {"value": [{"x": 1, "note": "n" * 100}] * 30_000}
    assert check_of(list[Point], extra="ignore").check(long) is long


def test_high_costs_of_repaired_text_are_refused() -> None:
    with pytest.raises(InvalidArgumentsError, match="too much to convert"):
        check_of(list[re.Pattern]).check({"value": json.dumps(["a"] * 5000)})


def test_hundreds_of_thousands_of_numbers_are_accepted() -> None:
    numbers = {"value": [1.5] * 400_000}
    assert check_of(list[float]).check(numbers) is numbers
    with pytest.raises(InvalidArgumentsError, match="too much to convert"):
        check_of(list[float]).check({"value": [1] * 2_000_000})


def test_values_that_are_not_json_have_another_error() -> None:
    with pytest.raises(InvalidArgumentsError) as refused:
        check_of(list[Point]).check({"value": [{"x": object()}] * 10_000})
    assert "too much" not in str(refused.value)


@pytest.mark.parametrize("value", [0, 0.5, -1, float("nan"), "5"])
def test_invalid_limits_are_refused(value: Any) -> None:
    with pytest.raises(InvalidToolError, match="max_convert_ms"):
        check_of(list[Point], max_convert_ms=value)


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
        (Made, {"n": 3, "more": 1}),
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


def test_lists_of_numbers_are_converted() -> None:
    floats, integers = check_of(list[float]), check_of(list[int])
    assert [type(item) for item in floats.bind({"value": [1, 2.5]})["value"]] == [float, float]
    assert integers.bind({"value": [1, 2.0]})["value"] == [1, 2]
    assert [type(item) for item in integers.bind({"value": [1, 2.0]})["value"]] == [int, int]
    with pytest.raises(InvalidArgumentsError, match=r"value\[1\]': number is too large"):
        floats.bind({"value": [1, 10**400]})


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


def test_choosing_between_options_costs_something() -> None:
    values = [{"x": 1}] * 100
    assert cost(list[Point | Spot], values) > 1.5 * cost(list[Point], values)
    assert cost(list[Point | None], values) <= cost(list[Point], values)
