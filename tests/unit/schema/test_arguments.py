"""Arguments are checked against the published schema and become Python values."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import types
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, Field, field_validator

from toolcrib import Tool
from toolcrib.errors import InvalidArgumentsError
from toolcrib.schema.arguments import ToolArguments
from toolcrib.schema.shapes import External

pytestmark = pytest.mark.row("A9")


def check_of(function: Any, **options: Any) -> ToolArguments:
    return Tool.from_function(function, name="made", **options).arguments


def arrive(function: Any, given: Any, **options: Any) -> dict[str, Any]:
    """What a function would be called with."""
    check = check_of(function, **options)
    return check.bind(check.check(given))


def refusal(function: Any, given: Any, **options: Any) -> InvalidArgumentsError:
    with pytest.raises(InvalidArgumentsError) as refused:
        arrive(function, given, **options)
    return refused.value


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Span:
    start: int
    end: int

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise ValueError("the end comes before the start")


class Even(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def check(cls, number: int) -> int:
        if number % 2:
            raise ValueError("must be even")
        if number > 100:
            raise AssertionError("must be small")
        return number


class Strict(BaseModel):
    day: Annotated[dt.date, AfterValidator(lambda day: day)]


def whole(arguments: dict) -> None: ...


def take(number: int, when: dt.date | None = None, colour: Colour = Colour.RED, text: str = "x") -> None: ...


# --- binding ---


def test_checked_arguments_are_converted_by_their_hints() -> None:
    values = arrive(take, {"number": 5.0, "when": "2026-11-15", "colour": "red", "text": "y"})
    assert values == {"number": 5, "when": dt.date(2026, 11, 15), "colour": Colour.RED, "text": "y"}
    assert type(values["number"]) is int


def test_omitted_arguments_are_not_passed() -> None:
    assert arrive(take, {"number": 1}) == {"number": 1}
    assert arrive(lambda: None, None) == {}
    assert arrive(lambda: None, {}) == {}


def test_a_null_is_none_where_the_hint_admits_it_and_nothing_elsewhere() -> None:
    assert arrive(take, {"number": 1, "when": None, "colour": None, "text": None}) == {
        "number": 1,
        "when": None,
    }
    assert arrive(take, {"number": "1", "when": None, "text": None}) == {"number": 1, "when": None}
    assert "expected integer, got null" in str(refusal(take, {"number": None}))


def test_a_null_that_the_schema_allows_is_passed_on() -> None:
    def required(a: int | None, b: list[int | None]) -> None: ...

    assert arrive(required, {"a": None, "b": [None, 1]}) == {"a": None, "b": [None, 1]}
    assert "'b[0]': expected integer" in str(refusal(whole, {"b": [None]}, input_schema=EXPLICIT))


EXPLICIT = {
    "type": "object",
    "properties": {
        "a": {"type": ["integer", "null"]},
        "b": {"type": "array", "items": {"type": "integer"}},
        "c": {},
    },
}


def test_a_handler_of_all_arguments_gets_its_own_dict() -> None:
    given = {"a": None, "b": None, "c": None, "extra": None}
    values = arrive(whole, given, input_schema=EXPLICIT)
    assert values == {"arguments": {"a": None, "c": None, "extra": None}}
    values["arguments"]["more"] = 1
    assert given == {"a": None, "b": None, "c": None, "extra": None}
    plain = {"a": 1}
    assert arrive(whole, plain, input_schema=EXPLICIT)["arguments"] is not plain


def test_swapped_aliases_reach_the_right_parameters() -> None:
    def swap(
        a: Annotated[int, Field(alias="b")], b: Annotated[int | None, Field(alias="a")] = None
    ) -> None: ...

    assert arrive(swap, {"a": 1, "b": 2}) == {"a": 2, "b": 1}
    assert arrive(swap, {"b": 2, "a": None}) == {"a": 2, "b": None}
    assert arrive(swap, {"b": 2}) == {"a": 2}


def test_an_alias_needs_no_conversion() -> None:
    def rename(text: Annotated[str, Field(alias="class")]) -> None: ...

    assert arrive(rename, {"class": "x"}) == {"text": "x"}


def test_plain_arguments_are_passed_on_unchanged() -> None:
    given = {"text": "x"}
    assert arrive(lambda text: None, given) is given


# --- refusing ---


@pytest.mark.parametrize("given", [5, "x", [1], True, object()])
def test_arguments_are_an_object(given: Any) -> None:
    assert "arguments must be an object" in str(refusal(take, given))


def test_arguments_may_be_any_mapping() -> None:
    given = types.MappingProxyType({"number": 1})
    assert arrive(take, given) == {"number": 1}
    assert arrive(take, collections.OrderedDict(number=1)) == {"number": 1}


def test_unknown_names_are_reported_with_suggestions_and_missing_ones() -> None:
    error = refusal(take, {"Numbr": 1, "zzz": 2, "a\x1b\n": 3})
    assert str(error) == (
        "Invalid arguments for tool 'made':\n"
        "- 'Numbr': not a parameter of this tool (did you mean 'number'?)\n"
        "- 'zzz': not a parameter of this tool (it takes: colour, number, text, when)\n"
        "- 'a\\x1b\\n': not a parameter of this tool (it takes: colour, number, text, when)\n"
        "- 'number': required, but missing"
    )
    assert error.details[0] == {
        "field": "Numbr",
        "expected": "not a parameter of this tool",
        "got": "",
        "hint": "did you mean 'number'?",
    }
    assert "(it takes none)" in str(refusal(lambda: None, {"a": 1}))
    assert "'5': not a parameter" in str(refusal(take, {5: 1}))


def test_only_some_of_thousands_of_unknown_names_are_reported() -> None:
    error = refusal(take, {"x" * 100_000 + str(i): 1 for i in range(2_000)})
    assert len(error.details) == 11
    assert len(str(error)) < 3_000


def test_there_are_no_suggestions_for_very_long_names() -> None:
    known = "a" * 80
    schema = {"type": "object", "properties": {known: {}}, "additionalProperties": False}
    check = ToolArguments(name="made", schema=schema, trusted=False)
    with pytest.raises(InvalidArgumentsError, match="it takes: "):
        check.check({known + "a": 1})
    with pytest.raises(InvalidArgumentsError, match="did you mean 'aaa"):
        check.check({"a" * 60: 1})


def test_unknown_names_are_dropped_with_extra_ignore() -> None:
    assert arrive(take, {"number": 1, "zzz": 2, 5: 3}, extra="ignore") == {"number": 1}


def test_one_problem_is_reported_on_one_line() -> None:
    assert str(refusal(take, {"number": "x"})) == (
        "Invalid arguments for tool 'made': 'number': expected integer, got string 'x'"
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"number": object()}, "'number': not JSON, got object"),
        ({"text": "a", "number": b"5"}, "'number': not JSON, got bytes"),
        ({"number": 1, "colour": "\ud800"}, "'colour': not valid Unicode, got string '\\ud800'"),
        ({"number": 1, "text": ["\ud800"], "colour": {"x"}}, "'text': not valid Unicode, got an array of 1"),
        (
            {"number": {"x": ({None: [1.5, True]},)}, "colour": "\ud800"},
            "'number': has a name that is not a string, got object",
        ),
        ({"number": {"x": ([1.5, True, None], b"")}, "colour": "\ud800"}, "'number': not JSON, got object"),
    ],
)
def test_values_that_are_not_json_are_named(given: Any, words: str) -> None:
    assert words in str(refusal(take, given))


def test_odd_names_and_values_are_named_too() -> None:
    error = refusal(whole, {"a": 1, 5: True}, input_schema=EXPLICIT)
    assert str(error).endswith("'5': has a name that is not a string, got true")

    class Odd:
        def __eq__(self, other: object) -> bool:
            raise ValueError("the truth value of an array is ambiguous")

        __hash__ = None

    error = refusal(lambda a, b=None: None, {"a": Odd(), "b": 1})
    assert str(error).endswith("'a': not JSON, got Odd")


def test_problems_of_very_large_values_are_not_located() -> None:
    error = refusal(whole, {"b": ["x"] * 30_000}, input_schema=EXPLICIT)
    assert str(error).endswith("arguments do not fit the schema")


# --- repair ---


def test_repair_is_checked_again_and_may_be_turned_off() -> None:
    assert arrive(take, {"number": "5"}) == {"number": 5}
    assert "got string '5'" in str(refusal(take, {"number": "5"}, repair=False))
    assert "got string '[1]'" in str(refusal(take, {"number": "[1]"}))


def test_a_repaired_value_is_refused_where_it_is_too_deep() -> None:
    deep = "[" * 500 + "]" * 500
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}},
    }
    assert "'a': expected array" in str(refusal(lambda a=None: None, {"a": deep}, input_schema=schema))
    assert arrive(lambda a=None: None, {"a": "[[],[]]"}, input_schema=schema) == {"a": [[], []]}


def test_values_that_are_too_large_to_check_are_refused_with_the_reason() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"items": {"enum": [[], *({"k": i} for i in range(50))]}}, "b": {"$ref": "#"}},
    }
    assert arrive(lambda a=None, b=None: None, {"a": [[]]}, input_schema=schema) == {"a": [[]]}
    error = refusal(lambda a=None, b=None: None, {"a": [[]] * 30_000}, input_schema=schema)
    assert "too large to check against this schema" in str(error)
    deep: Any = {}
    for _ in range(1_000):
        deep = {"b": deep}
    assert "nested deeper than 256 levels" in str(
        refusal(lambda a=None, b=None: None, deep, input_schema=schema)
    )


# --- conversion ---


def test_messages_of_converters_are_shown_with_the_field() -> None:
    def span(span: Span) -> None: ...

    error = refusal(span, {"span": {"start": 2, "end": 1}})
    assert str(error) == (
        "Invalid arguments for tool 'made': 'span': the end comes before the start, got object"
    )


def test_messages_of_validators_are_shown_without_those_of_pydantic() -> None:
    def even(pair: Even) -> None: ...

    assert str(refusal(even, {"pair": {"number": 3}})).endswith("'pair.number': must be even")
    assert str(refusal(even, {"pair": {"number": 102}})).endswith("'pair.number': must be small")


def test_messages_of_pydantic_are_shown_without_web_addresses() -> None:
    def on(strict: Strict) -> None: ...

    error = refusal(on, {"strict": {"day": "2026-02-30"}})
    assert "'strict" in str(error)
    for word in ("http", "pydantic", "input_value", "type="):
        assert word not in str(error)


class Loud(ValueError):
    def errors(self) -> list[str]:
        return ["not what pydantic means"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (Loud("too loud"), "too loud"),
        (ValueError(), "ValueError"),
        (AssertionError(), "AssertionError"),
        (ZeroDivisionError("by zero"), "by zero"),
        (ValueError("x" * 5_000), "x" * 2_000 + ", got"),
    ],
)
def test_value_errors_of_converters_are_argument_errors(error: Exception, words: str) -> None:
    def load(value: Any) -> Any:
        raise error

    schema = {"type": "object", "properties": {"a": {}}}
    check = ToolArguments(name="made", schema=schema, shapes={"a": External({}, load, load)})
    with pytest.raises(InvalidArgumentsError) as refused:
        check.bind({"a": 1})
    assert f"'a': {words}" in str(refused.value)


def test_other_errors_of_converters_are_passed_on() -> None:
    def load(value: Any) -> Any:
        raise KeyError("secret")

    schema = {"type": "object", "properties": {"a": {}}}
    check = ToolArguments(name="made", schema=schema, shapes={"a": External({}, load, load)})
    with pytest.raises(KeyError):
        check.bind({"a": 1})


def test_the_validator_is_compiled_once() -> None:
    check = check_of(take)
    assert check.validator is check.validator
