"""What models get wrong is mended, and nothing else is touched."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.schema.arguments import Repairer

INT = {"type": "integer"}
LIST = {"type": "array", "items": INT}


def mend(value: Any, schema: Any, **defs: Any) -> Any:
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
def test_a_string_that_cannot_be_meant_as_one_is_decoded(text: str, schema: Any, value: Any) -> None:
    mended = mend(text, schema, n=INT)
    assert mended == value
    assert type(mended) is type(value)


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
def test_what_may_be_a_string_is_never_touched(text: str, schema: Any) -> None:
    assert mend(text, schema, s={"type": "string"}, yes=True) is text


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
def test_a_string_that_spells_nothing_stays(text: str) -> None:
    assert mend(text, INT) is text


@pytest.mark.parametrize("value", [5, 5.5, None, True, [1], {"b": 2}, b"5"])
def test_whatever_is_no_string_stays(value: Any) -> None:
    assert mend(value, LIST) is value


def test_nothing_to_mend_gives_the_very_same_value() -> None:
    value = {"a": [1, 2], "b": {"c": "x"}, "d": "free"}
    schema = {
        "properties": {"a": LIST, "b": {"properties": {"c": {"type": "string"}}}},
        "additionalProperties": {"type": "string"},
    }
    assert Repairer(schema).repair(value) is value


def test_the_callers_value_is_left_as_it_is() -> None:
    value = {"a": ["1"], "b": {"c": "2"}}
    schema = {"properties": {"a": LIST, "b": {"properties": {"c": INT}}}}
    assert Repairer(schema).repair(value) == {"a": [1], "b": {"c": 2}}
    assert value == {"a": ["1"], "b": {"c": "2"}}


def test_other_names_are_mended_by_what_is_said_of_them() -> None:
    schema = {"properties": {"a": {"type": "string"}}, "additionalProperties": INT}
    assert Repairer(schema).repair({"a": "1", "b": "1"}) == {"a": "1", "b": 1}
    assert Repairer({"additionalProperties": False}).repair({"b": "1"}) == {"b": "1"}


def test_names_that_a_pattern_may_mean_are_left_alone() -> None:
    schema = {
        "properties": {"a": INT},
        "patternProperties": {"^s_": {"type": ["string", "integer"]}},
        "additionalProperties": INT,
    }
    assert Repairer(schema).repair({"a": "1", "s_b": "1", "c": "1"}) == {"a": 1, "s_b": "1", "c": "1"}


def test_the_first_items_of_a_row_are_mended_by_their_place() -> None:
    row = {"prefixItems": [INT, {"type": "string"}], "items": {"type": "boolean"}}
    assert mend(["1", "1", "true", "false"], row) == [1, "1", True, False]
    assert mend(["1", "1", "true"], {"prefixItems": [INT]}) == [1, "1", "true"]
    old = {"items": [INT, {"type": "string"}], "additionalItems": {"type": "boolean"}}
    assert mend(["1", "1", "true"], old) == [1, "1", True]


def test_of_several_forms_the_only_one_that_fits_is_followed() -> None:
    thing = {"type": "object", "properties": {"n": INT}}
    maybe = {"anyOf": [{"$ref": "#/$defs/thing"}, {"type": "null"}]}
    assert mend({"n": "1"}, maybe, thing=thing) == {"n": 1}
    assert mend({"n": "1"}, {"oneOf": [maybe, {"type": "array"}, False]}, thing=thing) == {"n": 1}
    assert mend(["1"], {"anyOf": [thing, {"type": ["array", "null"], "items": INT}]}) == [1]
    either = {"anyOf": [thing, {"type": "object", "properties": {"n": {"type": "string"}}}]}
    assert mend({"n": "1"}, either) == {"n": "1"}
    assert mend({"n": "1"}, {"anyOf": [thing, True]}) == {"n": "1"}
    assert mend({"n": "1"}, {"properties": {"n": INT}, "anyOf": [{"required": ["n"]}]}) == {"n": 1}


def test_structures_that_refer_to_themselves_are_mended_to_some_depth() -> None:
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
    assert mend({"n": "1"}, {"$ref": "#/$defs/a"}, **circle) == {"n": "1"}
    forms = {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}
    assert mend({"n": "1"}, {"$ref": "#/$defs/a"}, **forms) == {"n": "1"}


def test_more_than_any_model_writes_is_not_looked_at() -> None:
    many = ["1"] * 30_000
    assert mend(many, LIST) is many
    assert mend(["1"] * 10_000, LIST) == [1] * 10_000
    wide = {"additionalProperties": LIST}
    value = {str(i): ["1"] * 4_500 for i in range(4)}
    mended = Repairer(wide).repair(value)
    assert [type(items[0]) for items in mended.values()] == [int, int, str, str]
