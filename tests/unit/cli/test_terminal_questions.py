"""Forms at the terminal: how typed words become values, and which values are refused."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.cli.questions import find_problem, list_titles, parse_value

COLOURS = {"oneOf": [{"const": "#f00", "title": "Red"}, {"const": "#0f0", "title": "Green"}]}
SEVERAL = {"type": "array", "items": {"anyOf": COLOURS["oneOf"]}, "minItems": 1}


@pytest.mark.parametrize(
    ("schema", "titles"),
    [
        ({"type": "string"}, {}),
        ({"type": "string", "enum": ["a", "b"]}, {}),
        ({"type": "string", **COLOURS}, {"#f00": "Red", "#0f0": "Green"}),
        (SEVERAL, {"#f00": "Red", "#0f0": "Green"}),
        ({"enum": "nonsense", "items": 5}, {}),
        ({"oneOf": [5, {}]}, {}),
    ],
)
def test_choices_may_have_titles(schema: dict[str, Any], titles: dict[str, str]) -> None:
    assert list_titles(schema) == titles


@pytest.mark.parametrize(
    ("word", "schema", "value"),
    [
        ("17", {"type": "string"}, "17"),
        ("17", {"type": "integer"}, 17),
        ("1.5", {"type": "number"}, 1.5),
        ("old", {"type": "integer"}, "old"),
        ("Yes", {"type": "boolean"}, True),
        ("n", {"type": "boolean"}, False),
        ("maybe", {"type": "boolean"}, "maybe"),
        ("red", {"type": "string", **COLOURS}, "#f00"),
        ("#0f0", {"type": "string", **COLOURS}, "#0f0"),
        ("red, #0f0,", SEVERAL, ["#f00", "#0f0"]),
        ("", SEVERAL, []),
    ],
)
def test_typed_words_are_converted_by_the_field(word: str, schema: dict[str, Any], value: Any) -> None:
    assert parse_value(word, schema, list_titles(schema)) == value


@pytest.mark.parametrize(
    ("value", "schema", "fits"),
    [
        (5, {"type": "integer", "minimum": 3}, True),
        (2, {"type": "integer", "minimum": 3}, False),
        ("x", {"type": "string", "format": "email"}, False),
        ("#f00", {"type": "string", **COLOURS}, True),
        ("#00f", {"type": "string", **COLOURS}, False),
        (["#f00"], SEVERAL, True),
        ([], SEVERAL, False),
        ("anything", {"type": "no such type"}, True),
        ("anything", {"pattern": "("}, True),
    ],
)
def test_an_invalid_value_is_found_before_it_is_sent(value: Any, schema: dict[str, Any], fits: bool) -> None:
    assert (find_problem(value, schema) is None) is fits
