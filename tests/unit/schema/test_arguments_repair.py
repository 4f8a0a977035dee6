"""Repair of common mistakes that models make in arguments."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.schema.arguments import Repairer

INT = {"type": "integer"}
LIST = {"type": "array", "items": INT}


def repair(value: Any, schema: Any, **defs: Any) -> Any:
    return Repairer({"properties": {"a": schema}, "$defs": defs}).repair({"a": value})["a"]


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("5", INT, 5),
        (" 5 ", INT, 5),
        ("5.0", INT, 5.0),
        ("-1e3", {"type": "number"}, -1000.0),
        ("true", {"type": "boolean"}, True),
        ("null", {"type": ["integer", "null"]}, None),
        ("[1, 2]", LIST, [1, 2]),
        ('["1", "2"]', LIST, [1, 2]),
        ('{"b": "1"}', {"type": "object", "properties": {"b": INT}}, {"b": 1}),
        ("9" * 40, INT, int("9" * 40)),
        ("5", {"enum": [1, 5]}, 5),
        ("5", {"const": 5}, 5),
        ("5", {"anyOf": [INT, {"type": "null"}]}, 5),
        ("5", {"oneOf": [INT, False]}, 5),
        ("5", {"allOf": [{}, INT]}, 5),
        ("5", {"$ref": "#/$defs/n"}, 5),
        ("[[1]]", {"type": "array"}, [[1]]),
    ],
)
def test_a_string_is_decoded_where_no_string_is_allowed(text: str, schema: Any, value: Any) -> None:
    repaired = repair(text, schema, n=INT)
    assert repaired == value
    assert type(repaired) is type(value)


@pytest.mark.parametrize("text", ["5", "[1]", '{"a": 1}', "null", "true"])
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string"},
        {"type": ["integer", "string"]},
        {},
        True,
        {"enum": [1, "5"]},
        {"const": "5"},
        {"anyOf": [INT, {"type": "string"}]},
        {"oneOf": [INT, {}]},
        {"allOf": [{}, {"minLength": 1}]},
        {"not": INT},
        {"minimum": 3},
        {"$ref": "#/$defs/s"},
        {"$ref": "#/$defs/missing"},
        {"$ref": "#/$defs/yes"},
        {"$ref": "#anchor"},
        {"$ref": "#/properties/a"},
        {"anyOf": [{"$ref": "#/$defs/s"}]},
    ],
)
def test_a_string_is_kept_where_strings_are_allowed(text: str, schema: Any) -> None:
    assert repair(text, schema, s={"type": "string"}, yes=True) is text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "five",
        "0x10",
        "1e999",
        "NaN",
        "True",
        "[1",
        '"5"',
        '"[1]"',
        "\ud800",
        "5 5",
        " " * (1 << 20) + "5",
    ],
)
def test_a_string_that_is_not_json_is_kept(text: str) -> None:
    assert repair(text, INT) is text


@pytest.mark.parametrize("value", [5, 5.5, None, True, [1], {"b": 2}, b"5"])
def test_other_values_are_kept(value: Any) -> None:
    assert repair(value, LIST) is value


def test_a_value_without_mistakes_is_returned_itself() -> None:
    value = {"a": [1, 2], "b": {"c": "x"}, "d": "free"}
    schema = {
        "properties": {"a": LIST, "b": {"properties": {"c": {"type": "string"}}}},
        "additionalProperties": {"type": "string"},
    }
    assert Repairer(schema).repair(value) is value


def test_the_given_value_is_not_changed() -> None:
    value = {"a": ["1"], "b": {"c": "2"}}
    schema = {"properties": {"a": LIST, "b": {"properties": {"c": INT}}}}
    assert Repairer(schema).repair(value) == {"a": [1], "b": {"c": 2}}
    assert value == {"a": ["1"], "b": {"c": "2"}}


def test_additional_properties_are_repaired_by_their_schema() -> None:
    schema = {"properties": {"a": {"type": "string"}}, "additionalProperties": INT}
    assert Repairer(schema).repair({"a": "1", "b": "1"}) == {"a": "1", "b": 1}
    assert Repairer({"additionalProperties": False}).repair({"b": "1"}) == {"b": "1"}


def test_properties_that_a_pattern_may_describe_are_kept() -> None:
    schema = {
        "properties": {"a": INT},
        "patternProperties": {"^s_": {"type": ["string", "integer"]}},
        "additionalProperties": INT,
    }
    assert Repairer(schema).repair({"a": "1", "s_b": "1", "c": "1"}) == {"a": 1, "s_b": "1", "c": "1"}


def test_items_of_a_tuple_are_repaired_by_position() -> None:
    row = {"prefixItems": [INT, {"type": "string"}], "items": {"type": "boolean"}}
    assert repair(["1", "1", "true", "false"], row) == [1, "1", True, False]
    assert repair(["1", "1", "true"], {"prefixItems": [INT]}) == [1, "1", "true"]
    old = {"items": [INT, {"type": "string"}], "additionalItems": {"type": "boolean"}}
    assert repair(["1", "1", "true"], old) == [1, "1", True]


def test_the_only_possible_option_is_followed() -> None:
    thing = {"type": "object", "properties": {"n": INT}}
    maybe = {"anyOf": [{"$ref": "#/$defs/thing"}, {"type": "null"}]}
    assert repair({"n": "1"}, maybe, thing=thing) == {"n": 1}
    assert repair({"n": "1"}, {"oneOf": [maybe, {"type": "array"}, False]}, thing=thing) == {"n": 1}
    assert repair(["1"], {"anyOf": [thing, {"type": ["array", "null"], "items": INT}]}) == [1]
    either = {"anyOf": [thing, {"type": "object", "properties": {"n": {"type": "string"}}}]}
    assert repair({"n": "1"}, either) == {"n": "1"}
    assert repair({"n": "1"}, {"anyOf": [thing, True]}) == {"n": "1"}
    assert repair({"n": "1"}, {"properties": {"n": INT}, "anyOf": [{"required": ["n"]}]}) == {"n": 1}


def test_recursive_schemas_are_followed_to_a_limited_depth() -> None:
    schema = {"properties": {"next": {"$ref": "#/$defs/node"}}, "$defs": {}}
    schema["$defs"]["node"] = {"type": "object", "properties": {"v": INT, "next": {"$ref": "#/$defs/node"}}}
    assert Repairer(schema).repair({"next": {"v": "1", "next": {"v": "2"}}}) == {
        "next": {"v": 1, "next": {"v": 2}}
    }
    deep: Any = {"v": "1"}
    for _ in range(100):
        deep = {"next": deep}
    assert Repairer(schema).repair(deep) is deep


def test_references_in_a_circle_end() -> None:
    circle = {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}
    assert repair({"n": "1"}, {"$ref": "#/$defs/a"}, **circle) == {"n": "1"}
    forms = {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}
    assert repair({"n": "1"}, {"$ref": "#/$defs/a"}, **forms) == {"n": "1"}


def test_very_many_values_are_not_repaired() -> None:
    many = ["1"] * 30_000
    assert repair(many, LIST) is many
    assert repair(["1"] * 10_000, LIST) == [1] * 10_000
    wide = {"additionalProperties": LIST}
    value = {str(i): ["1"] * 4_500 for i in range(4)}
    repaired = Repairer(wide).repair(value)
    assert [type(items[0]) for items in repaired.values()] == [int, int, str, str]
