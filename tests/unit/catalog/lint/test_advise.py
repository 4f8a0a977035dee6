"""The plain advice: one rule, one code, a place and a way out."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel

from toolcrib import Finding, Tool, samples, tool
from toolcrib.catalog.lint import inspect_tools
from toolcrib.catalog.lint.quality import list_choices
from toolcrib.sources import collect


class Order(BaseModel):
    number: int


def advice(function: Any, **options: Any) -> list[Finding]:
    made = Tool.from_function(function, **options)
    return inspect_tools([made]).findings


def codes(function: Any, **options: Any) -> list[str]:
    return [finding.code for finding in advice(function, **options)]


def find_order(number: int, units: Literal["metric", "imperial"] = "metric") -> dict[str, Any]:
    """Find one order by its number.

    Args:
        number: The order's number
        units: "metric" or "imperial"

    Returns:
        The order
    """
    return {}


@pytest.mark.requirement("C-19")
def test_a_well_documented_function_gets_no_advice() -> None:
    assert codes(find_order) == []


def test_the_sample_tools_get_no_advice() -> None:
    for made in collect(samples).tools:
        assert inspect_tools([made]).findings == []


def test_every_finding_has_a_place_a_tool_and_a_hint() -> None:
    def doIt(x):  # type: ignore[no-untyped-def]
        return x

    found = advice(doIt)
    assert len(found) >= 4
    for finding in found:
        assert finding.tool == "doIt"
        assert finding.file == __file__
        assert finding.line == doIt.__code__.co_firstlineno
        assert finding.hint
        assert finding.level in ("advice", "warning")


@pytest.mark.requirement("T-24", "A-16")
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("find_order", []),
        ("findOrder", ["name-style"]),
        ("find-order", ["name-style"]),
        ("Find", ["name-style"]),
        ("process", ["vague-name"]),
        ("run", ["vague-name"]),
        ("x", ["vague-name"]),
        ("a" * 51, ["long-name"]),
    ],
)
def test_names_are_short_descriptive_and_in_snake_case(name: str, expected: list[str]) -> None:
    assert codes(find_order, name=name) == expected


@pytest.mark.parametrize(
    ("name", "better"),
    [
        ("findOrder", "find_order"),
        ("find-Order2", "find_order2"),
        ("HTTPGet", "httpget"),
        ("2fast", "tool_2fast"),
    ],
)
def test_a_name_in_another_style_gets_a_suggestion(name: str, better: str) -> None:
    [finding] = [finding for finding in advice(find_order, name=name) if finding.code == "name-style"]
    assert finding.hint == f"call it '{better}'"


@pytest.mark.requirement("T-25")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Find one order by its number", []),
        ("Short", ["short-description"]),
        ("x" * 500, []),
        ("x" * 501, ["long-description"]),
        ("word " * 2000, ["costly-tool", "huge-description"]),
        ("Find order", ["repeats-name"]),
        ("find_order", ["repeats-name"]),
        ("This tool is for the order: find", []),
        ("A function to find the order.", ["repeats-name"]),
        ("", ["missing-description"]),
    ],
)
def test_descriptions_are_informative_and_not_too_long(text: str, expected: list[str]) -> None:
    assert codes(find_order, description=text) == expected


def test_levels_separate_warnings_from_advice() -> None:
    def levels(function: Any, **options: Any) -> dict[str, str]:
        return {finding.code: finding.level for finding in advice(function, **options)}

    assert levels(find_order, description="word " * 2000)["huge-description"] == "warning"
    assert levels(find_order, description="")["missing-description"] == "warning"
    assert levels(find_order, description="Short")["short-description"] == "advice"


def test_a_function_without_a_docstring_is_reported() -> None:
    def look_up(word: str) -> str:
        return word

    found = {finding.code: finding for finding in advice(look_up)}
    assert found["missing-docstring"].level == "warning"
    assert "missing-description" not in found


@pytest.mark.requirement("U-31", "T-25", "A-17")
def test_a_parameter_needs_a_description_and_a_type() -> None:
    def look_up(word, other: Any, third: str):  # type: ignore[no-untyped-def]
        """Look a word up in the book.

        Args:
            third: Documented
        """

    found = [(finding.code, finding.parameter, finding.level) for finding in advice(look_up)]
    assert sorted(found) == [
        ("undocumented-parameter", "other", "advice"),
        ("undocumented-parameter", "word", "advice"),
        ("untyped-parameter", "word", "warning"),
    ]


def test_the_type_of_a_context_without_a_hint_is_suggested() -> None:
    def look_up(word: str, ctx):  # type: ignore[no-untyped-def]
        """Look a word up in the book."""

    hints = [finding.hint for finding in advice(look_up) if finding.code == "untyped-parameter"]
    assert hints == ["add a type hint: `ctx: Context`"]


def test_an_explicit_schema_is_checked_in_the_same_way() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {}, "b": {"type": "string", "description": "One of: red, blue"}, "c": True},
    }

    async def handle(arguments: dict[str, Any]) -> Any:
        return {}

    found = advice(handle, name="paint_it", description="Paint the thing in a colour", input_schema=schema)
    assert {(finding.code, finding.parameter) for finding in found} == {
        ("could-be-literal", "b"),
        ("missing-required", None),
        ("undocumented-parameter", "a"),
        ("untyped-parameter", "a"),
    }
    (literal,) = (finding for finding in found if finding.code == "could-be-literal")
    assert '"enum": ["red", "blue"]' in (literal.hint or "")


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        ('"metric" or "imperial"', ["metric", "imperial"]),
        ("Units: 'metric', 'imperial', or 'kelvin'", ["metric", "imperial", "kelvin"]),
        ("One of `asc`, `desc`", ["asc", "desc"]),
        ('Either "metric" or "imperial".', ["metric", "imperial"]),
        ("One of: low, high (default: low)", ["low", "high"]),
        ("Must be 'asc' or 'desc'. Ignored for one row.", ["asc", "desc"]),
        ("Either metric or imperial", []),
        ("One of 'latest', 'stable' or a version number", []),
        ("'main', 'develop', etc.", []),
        ("Comma-separated, allowed values: a, b, c", []),
        ("One of: name, id", []),
        ("One of: 'red', 'blue', or any other colour", []),
        ("The text in `head` or `body` is searched for the words", []),
        ("A template with '%(name)s' or '%(size)s'", []),
        ('"33" or "32"', []),
        ("str | None", []),
        ("Which user: exactly one of login, number", []),
        (f"One of: red, blue. {'It explains much. ' * 30}", []),
        ("one of: a, b, or c", ["a", "b", "c"]),
        ("The order (asc|desc)", ["asc", "desc"]),
        ("asc | desc", ["asc", "desc"]),
        ("State of the issue: open, closed or all", ["open", "closed", "all"]),
        ("Allowed values are low, high", ["low", "high"]),
        ('A name, e.g. "ann" or "bob"', []),
        ("A city such as 'Rome', 'Oslo'", []),
        ("What to do. Common values: 'read', 'update'.", []),
        ("for example: red | blue", []),
        ("Path or URL", []),
        ("The user's name or the user's number", []),
        ("either a path or a URL", []),
        ('The "title"', []),
        ("", []),
    ],
)
def test_listed_choices_are_distinguished_from_examples(text: str, choices: list[str]) -> None:
    assert list_choices(text) == choices


def test_a_string_with_listed_choices_should_be_a_literal() -> None:
    def paint(colour: str, when: str) -> str:
        """Paint the thing.

        Args:
            colour: "red" or "blue"
            when: Any time
        """
        return colour

    [finding] = advice(paint)
    assert (finding.code, finding.parameter) == ("could-be-literal", "colour")
    assert finding.hint == 'use Literal["red", "blue"], so that nothing else is accepted'


def test_choices_are_not_proposed_for_secrets_parameters_and_other_defaults() -> None:
    def sign_in(api_key: str, login: str, by: str, zone: str = "local") -> str:
        """Sign in.

        Args:
            api_key: "alpha7" or "beta9"
            login: One of "password1" or "password2", the passwords of the test accounts
            by: One of "login" or "api_key"
            zone: One of "utc" or "gmt"
        """
        return login

    assert [finding.parameter for finding in advice(sign_in) if finding.code == "could-be-literal"] == []


def test_returned_data_needs_a_description() -> None:
    def count_words(text: str) -> int:
        """Count the words of a text.

        Args:
            text: Any text
        """
        return 1

    [finding] = advice(count_words)
    assert (finding.code, finding.hint) == ("undocumented-result", "add a Returns section to the docstring")


def test_text_and_records_with_fields_need_no_description() -> None:
    def as_text() -> str:
        """Tell the state of things."""
        return ""

    def as_nothing():  # type: ignore[no-untyped-def]
        """Do what has to be done."""

    def as_order() -> Order:
        """Give the order of the day."""
        return Order(number=1)

    def as_orders() -> list[Order]:
        """Give the orders of the day."""
        return []

    for function in (as_text, as_nothing, as_order, as_orders):
        assert codes(function) == []


def test_a_tool_object_is_checked_too() -> None:
    class Remember:
        name = "remember"
        description = "Remember"
        input_schema = {"type": "object", "properties": {"what": {"type": "string"}}}

        async def execute(self, arguments: dict[str, Any]) -> dict[str, Any]:
            return {"content": []}

    made = Tool.from_object(Remember())
    assert [finding.code for finding in inspect_tools([made]).findings] == [
        "missing-required",
        "repeats-name",
        "undocumented-parameter",
    ]


def test_options_of_the_decorator_count() -> None:
    @tool(description="Say what the time is")
    def clock() -> str:
        return ""

    assert codes(clock) == []
