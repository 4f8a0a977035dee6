"""Schemas for providers that support a subset of JSON Schema: OpenAI's strict mode and Gemini."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib import Tool
from toolcrib.catalog.export import export
from toolcrib.catalog.export.dialect import Dialect, Rewritten, rewrite_schema
from toolcrib.catalog.export.gemini import GEMINI, GEMINI_JSON, to_openapi
from toolcrib.catalog.export.openai import OPENAI_STRICT, check_strict_limits
from toolcrib.catalog.export.verdict import NotStrictError, RefusedError

TEXT, WHOLE, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}
SIX = ["string", "number", "boolean", "object", "array", "null"]


def of(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), **more}


def strict(schema: dict[str, Any], **options: Any) -> Rewritten:
    found = rewrite_schema(schema, OPENAI_STRICT, **options)
    check_strict_limits(found.schema)
    return found


def one(schema: Any, dialect: Dialect) -> tuple[Any, set[str]]:
    """What becomes of the schema of a property, and what that does."""
    found = rewrite_schema(of({"x": schema}, "x"), dialect)
    return found.schema["properties"]["x"], {change.effect for change in found.changes} - {"same"}


# --- strict --------------------------------------------------------------------------------------------


def test_optional_properties_are_nullable_and_null_means_left_out() -> None:
    found = strict(of({"a": WHOLE, "b": {**TEXT, "description": "B", "default": "x"}}, "a"))
    assert found.schema == {
        "type": "object",
        "properties": {
            "a": WHOLE,
            "b": {"description": 'B (default: "x")', "anyOf": [TEXT, NULL]},
        },
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    assert found.decoder.decode({"a": 1, "b": None}) == {"a": 1}
    assert found.decoder.decode({"a": 1, "b": "y"}) == {"a": 1, "b": "y"}
    assert {change.effect for change in found.changes} == {"same"}


def test_nulls_are_removed_at_every_depth_and_in_every_alternative() -> None:
    circle = of({"kind": {"const": "circle"}, "label": TEXT}, "kind")
    line = of({"kind": {"const": "line"}, "label": {"type": ["string", "null"]}}, "kind", "label")
    schema = of({"shapes": {"type": "array", "items": {"oneOf": [circle, line]}}}, "shapes")
    found = strict(schema)
    sent = {"shapes": [{"kind": "circle", "label": None}, {"kind": "line", "label": None}]}
    assert found.decoder.decode(sent) == {"shapes": [{"kind": "circle"}, {"kind": "line", "label": None}]}


def test_a_nullable_optional_property_is_strict_only_with_null_as_default() -> None:
    assert strict(of({"a": {"type": ["string", "null"], "default": None}}))
    with pytest.raises(
        NotStrictError, match="/properties/a is nullable and optional, which are not the same"
    ):
        strict(of({"a": {"type": ["string", "null"]}}))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({}, "/properties/x accepts any value"),
        ({"type": SIX}, "/properties/x accepts any value"),
        ({"type": "array"}, "/properties/x/items accepts any value"),
        ({"type": "object"}, "/properties/x is an object with any properties"),
        ({"type": "object", "additionalProperties": TEXT}, "/properties/x accepts undeclared properties"),
        (of({}, additionalProperties=True), "/properties/x accepts undeclared properties"),
        (of({"a": TEXT}, "b"), "/properties/x requires 'b' and does not declare it"),
    ],
)
def test_the_reason_why_a_schema_is_not_strict_is_given(schema: Any, words: str) -> None:
    with pytest.raises(NotStrictError) as refusal:
        strict(of({"x": schema}, "x"))
    assert str(refusal.value) == words


@pytest.mark.parametrize(
    ("schema", "written", "effects"),
    [
        ({"enum": ["a", 1, None]}, {"anyOf": [{**TEXT, "enum": ["a"]}, {**WHOLE, "enum": [1]}, NULL]}, set()),
        ({"const": 2.5}, {"type": "number", "enum": [2.5]}, set()),
        ({**TEXT, "pattern": "^a", "format": "uuid"}, {**TEXT, "pattern": "^a", "format": "uuid"}, set()),
        (
            {**TEXT, "format": "uri", "minLength": 3},
            {**TEXT, "description": "In the format uri; at least 3 characters"},
            {"wider"},
        ),
        ({"allOf": [WHOLE, {"minimum": 2}]}, {**WHOLE, "minimum": 2}, set()),
        ({"anyOf": [TEXT, WHOLE], "description": "D"}, {"anyOf": [TEXT, WHOLE], "description": "D"}, set()),
        ({"oneOf": [TEXT, WHOLE]}, {"anyOf": [TEXT, WHOLE]}, set()),
        (
            {"type": "array", "prefixItems": [TEXT, TEXT], "items": False},
            {"type": "array", "items": TEXT, "maxItems": 2},
            set(),
        ),
        ({"type": "boolean", "enum": [True, False]}, {"type": "boolean"}, set()),
        ({**TEXT, "enum": ["a", 1, "a", "bbb"], "maxLength": 2}, {**TEXT, "enum": ["a"]}, set()),
        ({"minLength": 2}, {**TEXT, "description": "At least 2 characters"}, {"narrower", "wider"}),
    ],
)
def test_the_subset_of_strict_mode(schema: Any, written: Any, effects: set[str]) -> None:
    assert one(schema, OPENAI_STRICT) == (written, effects)


def test_overlapping_alternatives_of_one_of_are_only_described() -> None:
    either = {"oneOf": [of({"a": TEXT}, "a"), of({"b": TEXT}, "b")]}
    found, effects = one(either, GEMINI_JSON)
    assert len(found["anyOf"]) == 2
    assert found["description"] == "Exactly one of the alternatives"
    assert effects == {"wider"}


def test_siblings_of_a_union_are_merged_into_every_alternative() -> None:
    schema = {**of({"a": TEXT, "b": TEXT}), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    found = strict(of({"x": schema}, "x"))
    first, second = found.schema["properties"]["x"]["anyOf"]
    assert first["properties"] == {"a": TEXT, "b": {"anyOf": [TEXT, NULL]}}
    assert second["properties"] == {"a": {"anyOf": [TEXT, NULL]}, "b": TEXT}
    assert found.decoder.decode({"x": {"a": None, "b": "y"}}) == {"x": {"b": "y"}}


def test_a_union_at_the_root_is_wrapped() -> None:
    schema = {**of({"a": TEXT, "b": TEXT}), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    found = strict(schema)
    assert found.schema["required"] == ["arguments"]
    assert found.schema["additionalProperties"] is False
    assert found.decoder.decode({"arguments": {"a": "x", "b": None}}) == {"a": "x"}


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (of({"a": {**TEXT, "enum": [str(number) for number in range(1_001)]}}), "1001 enum values in all"),
        (
            of({"a": {**TEXT, "enum": ["x" * 99 + str(number) for number in range(251)]}}),
            "strict mode allows 15000",
        ),
        (of({"x" * 120_001: TEXT}), "characters in names and enum values"),
    ],
)
def test_the_limits_of_strict_mode_are_checked(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(NotStrictError, match=words):
        strict(schema)


def test_a_schema_of_more_than_five_thousand_properties_is_not_strict() -> None:
    with pytest.raises(NotStrictError, match="5001 properties"):
        check_strict_limits(of({f"p{number}": WHOLE for number in range(5_001)}))


def test_eleven_levels_of_objects_are_too_many_and_ten_are_not() -> None:
    def nest(levels: int) -> dict[str, Any]:
        return TEXT if not levels else of({"in": nest(levels - 1)}, "in")

    assert strict(nest(10))
    with pytest.raises(NotStrictError, match="11 levels of objects"):
        strict(nest(11))


# --- Gemini --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "written", "effects"),
    [
        ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}, set()),
        (
            {"type": ["string", "integer"], "description": "D"},
            {"anyOf": [{"type": "STRING", "description": "D"}, {"type": "INTEGER"}]},
            set(),
        ),
        (
            {"type": ["string", "integer", "null"]},
            {"anyOf": [{"type": "STRING", "nullable": True}, {"type": "INTEGER", "nullable": True}]},
            set(),
        ),
        ({"enum": ["a", "b"]}, {"type": "STRING", "enum": ["a", "b"], "format": "enum"}, set()),
        ({"enum": [3, 1, 2]}, {"type": "INTEGER", "minimum": 1, "maximum": 3}, set()),
        ({"enum": [1, 5]}, {"type": "INTEGER", "description": "One of 1, 5"}, {"wider"}),
        ({"enum": ["a", ""]}, {"type": "STRING", "description": 'One of "a", ""'}, {"wider"}),
        (
            {**WHOLE, "exclusiveMinimum": 0, "exclusiveMaximum": 9.5},
            {"type": "INTEGER", "minimum": 1, "maximum": 9},
            set(),
        ),
        (
            {"type": "number", "exclusiveMinimum": 0, "minimum": 2},
            {"type": "NUMBER", "minimum": 2, "description": "More than 0"},
            {"wider"},
        ),
        ({**TEXT, "format": "date-time"}, {"type": "STRING", "format": "date-time"}, set()),
        ({**TEXT, "format": "date"}, {"type": "STRING", "description": "In the format date"}, {"wider"}),
        (
            {**WHOLE, "format": "int32", "default": 5},
            {"type": "INTEGER", "format": "int32", "description": "Default: 5"},
            set(),
        ),
        ({"type": "object"}, {"type": "OBJECT"}, set()),
        (
            {"type": "object", "additionalProperties": WHOLE},
            {"type": "OBJECT", "description": "Other properties: integer"},
            {"wider"},
        ),
        ({"type": "null"}, {"type": "NULL"}, set()),
        ({"anyOf": [NULL]}, {"type": "NULL"}, set()),
    ],
)
def test_schemas_for_gemini(schema: Any, written: Any, effects: set[str]) -> None:
    found, done = one(schema, GEMINI)
    assert (to_openapi(found), done) == (written, effects)


def test_any_value_becomes_a_union_for_gemini() -> None:
    found, effects = one({"type": SIX, "description": "Whatever"}, GEMINI)
    written = to_openapi(found)
    assert written.keys() == {"anyOf"}
    assert [form["type"] for form in written["anyOf"]] == ["STRING", "NUMBER", "BOOLEAN", "OBJECT", "ARRAY"]
    assert all(form["nullable"] for form in written["anyOf"])
    assert written["anyOf"][0]["description"] == "Whatever"
    assert "items" in written["anyOf"][4]
    assert effects == {"narrower"}
    assert one({"type": SIX}, GEMINI_JSON) == ({}, set())


def test_arrays_always_have_items() -> None:
    for dialect in (GEMINI, GEMINI_JSON):
        assert "items" in one({"type": "array"}, dialect)[0]


def test_property_names_are_mapped_and_back() -> None:
    schema = of({"user-id": TEXT, "user_id": TEXT, "free": {"type": "object"}}, "user-id")
    found = rewrite_schema(schema, GEMINI)
    (renamed,) = found.schema["required"]
    assert renamed.startswith("user_id_")
    sent = {renamed: "a", "user_id": "b", "free": {"user_id": "data"}}
    assert found.decoder.decode(sent) == {"user-id": "a", "user_id": "b", "free": {"user_id": "data"}}


@pytest.mark.parametrize("dialect", [GEMINI, GEMINI_JSON], ids=["gemini", "gemini-json"])
def test_a_property_name_stays_readable_where_nothing_else_can_have_it(dialect: Dialect) -> None:
    inner = {"type": "array", "items": of({"user-id": TEXT}, additionalProperties=False)}
    found = rewrite_schema(of({"user-id": TEXT, "members": inner}, "user-id"), dialect)
    assert found.schema["required"] == ["user_id"]
    sent = {"user_id": "a", "members": [{"user_id": "b"}]}
    assert found.decoder.decode(sent) == {"user-id": "a", "members": [{"user-id": "b"}]}


@pytest.mark.parametrize(
    "free",
    [
        {},
        {"type": "array"},
        {"type": ["null", "object"]},
        {"type": "object", "additionalProperties": TEXT},
        {"anyOf": [TEXT, {"type": "object"}]},
        {"not": TEXT},
        of({"a": TEXT}, additionalProperties=True),
    ],
    ids=str,
)
def test_data_is_not_mistaken_for_a_renamed_property(free: Any) -> None:
    found = rewrite_schema(of({"user-id": TEXT, "free": free}, "user-id"), GEMINI)
    (renamed,) = found.schema["required"]
    sent = {renamed: "a", "free": [{"user_id": "data"}]}
    assert found.decoder.decode(sent) == {"user-id": "a", "free": [{"user_id": "data"}]}


def test_gemini_json_keeps_more_keywords() -> None:
    closed = of({"a": TEXT}, "a", additionalProperties=False)
    assert one(closed, GEMINI_JSON) == (closed, set())
    pair = {"type": "array", "prefixItems": [TEXT, WHOLE], "items": {}, "minItems": 2}
    assert one(pair, GEMINI_JSON) == (pair, set())
    assert one({**TEXT, "default": "x"}, GEMINI_JSON) == ({**TEXT, "default": "x"}, set())


@pytest.mark.parametrize("dialect", [OPENAI_STRICT, GEMINI, GEMINI_JSON])
def test_unsupported_rules_go_into_the_description(dialect: Dialect) -> None:
    tags = {"type": "array", "items": TEXT, "uniqueItems": True, "description": "Labels"}
    found, effects = one(tags, dialect)
    assert found["description"] == "Labels (no item twice)"
    assert effects == {"wider"}


@pytest.mark.parametrize("dialect", [OPENAI_STRICT, GEMINI, GEMINI_JSON])
def test_too_many_alternatives_are_described_instead_of_written(dialect: Dialect) -> None:
    many = {"anyOf": [of({f"p{number}": TEXT}, f"p{number}") for number in range(60)]}
    found = rewrite_schema(of({"x": {**of({"a": TEXT}), **many}}, "x"), dialect)
    assert found.schema["properties"]["x"]["type"] == "object"
    assert "one of these alternatives" in found.schema["properties"]["x"]["description"].lower()


def test_unsatisfiable_properties_are_left_out_or_refused() -> None:
    never = {"anyOf": [{"allOf": [TEXT, WHOLE]}]}
    assert "x" not in rewrite_schema(of({"x": never, "a": TEXT}), GEMINI).schema["properties"]
    with pytest.raises(RefusedError):
        rewrite_schema(of({"x": never}, "x"), GEMINI)


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ([3, 1, 2], {"minimum": 1, "maximum": 3}),
        ([1, 3], {}),
        ([0, 10**12], {}),  # not counted from one to the other
        ([6.1e16, 115542815], {}),
    ],
)
def test_consecutive_integers_become_a_range_and_others_do_not(
    values: list[Any], written: dict[str, Any]
) -> None:
    found = rewrite_schema(of({"a": {"type": "integer", "enum": values}}), GEMINI).schema["properties"]["a"]
    assert {key: found[key] for key in ("minimum", "maximum") if key in found} == written


def test_a_rule_of_one_alternative_is_described_there() -> None:
    table = {"type": "object", "propertyNames": {"maxLength": 3}, "description": "By code"}
    found, effects = one({"anyOf": [table, TEXT], "description": "Both"}, GEMINI_JSON)
    assert found == {
        "description": "Both",
        "anyOf": [
            {"type": "object", "description": "By code (property names: string, at most 3 characters)"},
            TEXT,
        ],
    }
    assert effects == {"wider"}


def test_an_item_that_cannot_be_is_where_an_array_ends() -> None:
    rows = {"type": "array", "prefixItems": [{"type": "string"}, False, {"type": "integer"}]}
    tool = Tool.from_handler(
        lambda arguments: None, "t", "T.", {"type": "object", "properties": {"rows": rows}}
    )
    found = export([tool], "gemini-json")
    written = found.tools[0]["parametersJsonSchema"]["properties"]["rows"]
    assert (written["prefixItems"], written["maxItems"]) == ([{"type": "string"}], 1)


def test_recursion_that_ends_inside_one_of_is_a_loss_in_both_directions() -> None:
    schema = {"type": "object", "properties": {"a": {"oneOf": [{"$ref": "#"}, {"required": ["b"]}]}}}
    (verdict,) = export([Tool.from_handler(lambda arguments: None, "t", "T.", schema)], "anthropic").verdicts
    assert {"wider", "narrower"} <= {change.effect for change in verdict.losses}
