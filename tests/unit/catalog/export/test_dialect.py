"""Input schemas in the dialects of providers: the same meaning, or a note about what was lost."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.catalog.export.dialect import (
    Dialect,
    NotStrictError,
    Rewritten,
    SkippedError,
    rewrite_schema,
)
from toolcrib.catalog.export.formats import (
    ANTHROPIC,
    BEDROCK,
    GEMINI,
    OPENAI,
    OPENAI_STRICT,
    check_strict_limits,
)

TEXT, WHOLE, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}
SIX = ["string", "number", "boolean", "object", "array", "null"]
OPEN_DIALECTS = [OPENAI, ANTHROPIC, BEDROCK]


def of(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        **({"required": [*required]} if required else {}),
        **more,
    }


def one(schema: Any, dialect: Dialect = ANTHROPIC) -> Any:
    """What becomes of the schema of a property."""
    return rewrite_schema(of({"x": schema}), dialect).schema["properties"]["x"]


def noted(schema: Any, dialect: Dialect) -> tuple[Any, list[str]]:
    """What becomes of the schema of a required property, and the notes about it."""
    found = rewrite_schema(of({"x": schema}, "x"), dialect)
    return found.schema["properties"]["x"], [note.removeprefix("/properties/x: ") for note in found.notes]


def strict(schema: dict[str, Any], **options: Any) -> Rewritten:
    found = rewrite_schema(schema, OPENAI_STRICT, **options)
    check_strict_limits(found.schema)
    return found


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": SIX}, {}),
        ({"type": ["string", "integer", "number"]}, {"anyOf": [TEXT, {"type": "number"}]}),
        (
            {"type": ["string", "null"], "minLength": 1, "description": "A word"},
            {"description": "A word", "anyOf": [{"type": "string", "minLength": 1}, {"type": "null"}]},
        ),
        ({"type": ["array", "null"]}, {"anyOf": [{"type": "array", "items": {}}, {"type": "null"}]}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"enum": ["a", 1, None]}, {"anyOf": [{**TEXT, "enum": ["a"]}, {**WHOLE, "enum": [1]}, NULL]}),
        ({"type": ["string", "null"], "enum": ["a", None]}, {"anyOf": [{**TEXT, "enum": ["a"]}, NULL]}),
        (True, {}),
        (False, {"not": {}}),
        ({"allOf": [{"type": "string"}, {"minLength": 2}]}, {"type": "string", "minLength": 2}),
        ({"type": "array", "items": False}, {"type": "array", "maxItems": 0, "items": {}}),
        (
            {"type": "array", "prefixItems": [TEXT, WHOLE], "items": False},
            {"type": "array", "prefixItems": [TEXT, WHOLE], "maxItems": 2, "items": {}},
        ),
        ({"type": "string", "x-mcp-header": "A", "minLength": 0}, TEXT),
        (
            {"type": "string", "pattern": "^a", "format": "date"},
            {"type": "string", "pattern": "^a", "format": "date"},
        ),
    ],
)
def test_rewritten_schemas_mean_the_same(schema: Any, written: Any) -> None:
    assert one(schema) == written
    assert rewrite_schema(of({"x": schema}), ANTHROPIC).notes == ()


def test_nested_compositions_stay() -> None:
    either = {"oneOf": [TEXT, {"type": "string", "minLength": 3}]}
    assert one(either) == either
    both = {"allOf": [{"pattern": "a"}], "pattern": "b"}
    assert one(both) == {"pattern": "b", "allOf": [{"pattern": "a"}]}


@pytest.mark.parametrize("dialect", OPEN_DIALECTS)
def test_a_composition_at_the_root_is_merged_where_that_is_exact(dialect: Dialect) -> None:
    schema = {"type": "object", "allOf": [of({"a": TEXT}, "a"), of({"b": WHOLE})]}
    found = rewrite_schema(schema, dialect)
    assert found.schema == of({"a": TEXT, "b": WHOLE}, "a")
    assert not found.decoder.is_wrapped


@pytest.mark.parametrize("dialect", OPEN_DIALECTS)
def test_a_composition_that_cannot_be_merged_is_wrapped_and_unwrapped(dialect: Dialect) -> None:
    schema = {**of({"a": TEXT, "b": TEXT}), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    found = rewrite_schema(schema, dialect)
    assert found.schema == {"type": "object", "properties": {"arguments": schema}, "required": ["arguments"]}
    assert found.decoder.decode({"arguments": {"a": "x"}}) == {"a": "x"}
    assert found.decoder.decode({"a": "x"}) == {"a": "x"}
    assert found.notes == ()


def test_a_property_with_the_name_of_the_wrapper_is_not_unwrapped() -> None:
    found = rewrite_schema(of({"arguments": {"type": "object"}}), ANTHROPIC)
    assert found.decoder.decode({"arguments": {"a": 1}}) == {"arguments": {"a": 1}}


def test_bedrock_gets_three_keywords_at_the_root() -> None:
    schema = of({"a": TEXT}, title="T", description="About it.", additionalProperties=False)
    found = rewrite_schema(schema, BEDROCK)
    assert found.schema == of({"a": TEXT})
    assert found.description == "About it."
    assert found.notes == ("/: additionalProperties: left out",)
    closed = rewrite_schema(schema, BEDROCK, is_closed=True)
    assert (closed.schema, closed.notes) == (found.schema, ())
    assert rewrite_schema(of({"a": TEXT}, minProperties=1), BEDROCK).decoder.is_wrapped


def test_property_names_are_renamed_everywhere_and_back() -> None:
    schema = of(
        {"größe": TEXT, "ok": of({"a b": WHOLE}, "a b")},
        "größe",
        dependentRequired={"größe": ["ok"]},
    )
    found = rewrite_schema(schema, ANTHROPIC)
    size = next(iter(found.schema["properties"]))
    inner = next(iter(found.schema["properties"]["ok"]["properties"]))
    assert size == "gr__e"
    assert found.schema["required"] == [size]
    assert found.schema["dependentRequired"] == {size: ["ok"]}
    assert found.schema["properties"]["ok"]["required"] == [inner]
    assert found.decoder.decode({size: "x", "ok": {inner: 1}}) == {"größe": "x", "ok": {"a b": 1}}
    assert rewrite_schema(schema, OPENAI).schema["required"] == ["größe"]


@pytest.mark.parametrize("rule", [{"patternProperties": {"^g": TEXT}}, {"propertyNames": {"minLength": 2}}])
def test_properties_under_a_rule_about_names_cannot_be_renamed(rule: dict[str, Any]) -> None:
    with pytest.raises(SkippedError, match="the property name 'größe' is not accepted"):
        rewrite_schema(of({"größe": TEXT}, **rule), ANTHROPIC)


def test_a_schema_of_more_than_half_a_megabyte_is_refused() -> None:
    values = [f"{number:06}" + "x" * 60 for number in range(9_000)]
    with pytest.raises(SkippedError, match="more than 512 KiB"):
        rewrite_schema(of({"a": {"enum": values}}), ANTHROPIC)


def test_the_given_schema_is_not_modified() -> None:
    schema = of({"a": {"type": ["array", "null"], "description": "x"}}, allOf=[of({"b": {"const": 1}})])
    before = repr(schema)
    for dialect in (OPENAI, ANTHROPIC, BEDROCK):
        rewrite_schema(schema, dialect)
    assert repr(schema) == before


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


def test_a_property_name_stays_readable_where_nothing_else_can_have_it() -> None:
    inner = {"type": "array", "items": of({"user-id": TEXT}, additionalProperties=False)}
    found = rewrite_schema(of({"user-id": TEXT, "members": inner}, "user-id"), GEMINI)
    assert found.schema["required"] == ["user_id"]
    sent = {"user_id": "a", "members": [{"user_id": "b"}]}
    assert found.decoder.decode(sent) == {"user-id": "a", "members": [{"user-id": "b"}]}


# --- what a provider does not support ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "written", "notes"),
    [
        (
            {"type": "array", "items": TEXT, "uniqueItems": True, "description": "Labels"},
            {"type": "array", "items": TEXT, "description": "Labels (uniqueItems: true)"},
            ["uniqueItems: only in the description"],
        ),
        ({**TEXT, "examples": ["a"]}, {**TEXT, "description": 'Examples: ["a"]'}, []),
        (
            {**TEXT, "enum": ["a", ""]},
            {**TEXT, "description": 'Enum: ["a",""]'},
            ["enum: only in the description"],
        ),
        ({"oneOf": [TEXT, WHOLE]}, {"anyOf": [TEXT, WHOLE]}, []),
        (
            {"oneOf": [of({"a": TEXT}, "a"), of({"b": TEXT}, "b")]},
            {
                "anyOf": [of({"a": TEXT}, "a"), of({"b": TEXT}, "b")],
                "description": "Exactly one of the alternatives",
            },
            ["oneOf: only in the description"],
        ),
        (
            {"type": "object", "patternProperties": {"^a": TEXT}, "additionalProperties": False},
            {"type": "object", "description": 'PatternProperties: {"^a":{"type":"string"}}'},
            ["patternProperties: only in the description"],
        ),
    ],
)
def test_unsupported_rules_go_into_the_description_for_gemini(schema: Any, written: Any, notes: Any) -> None:
    assert noted(schema, GEMINI) == (written, notes)


def test_gemini_keeps_what_it_supports() -> None:
    closed = of({"a": TEXT}, "a", additionalProperties=False)
    pair = {"type": "array", "prefixItems": [TEXT, WHOLE], "items": {}, "minItems": 2}
    for schema in (closed, pair, {**TEXT, "default": "x"}, {"enum": [1, 5], "type": "integer"}):
        assert noted(schema, GEMINI) == (schema, [])
    assert one({"type": SIX}, GEMINI) == {}


def test_recursion_is_cut_with_a_note() -> None:
    schema = of({"next": {"$ref": "#"}})
    found = rewrite_schema(schema, ANTHROPIC)
    assert found.notes == (
        "/properties/next/properties/next/properties/next: 'the schema' contains itself: "
        "from level 4 on any value is accepted",
    )


# --- strict mode -------------------------------------------------------------------------------------------


def test_optional_properties_are_nullable_and_null_means_left_out() -> None:
    found = strict(of({"a": WHOLE, "b": {**TEXT, "description": "B", "default": "x"}}, "a"))
    assert found.schema == {
        "type": "object",
        "properties": {"a": WHOLE, "b": {"description": 'B (default: "x")', "anyOf": [TEXT, NULL]}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    assert found.decoder.decode({"a": 1, "b": None}) == {"a": 1}
    assert found.decoder.decode({"a": 1, "b": "y"}) == {"a": 1, "b": "y"}
    assert found.notes == ()


def test_nulls_are_removed_at_every_depth_and_in_every_alternative() -> None:
    circle = of({"kind": {"const": "circle"}, "label": TEXT}, "kind")
    line = of({"kind": {"const": "line"}, "label": {"type": ["string", "null"]}}, "kind", "label")
    found = strict(of({"shapes": {"type": "array", "items": {"oneOf": [circle, line]}}}, "shapes"))
    sent = {"shapes": [{"kind": "circle", "label": None}, {"kind": "line", "label": None}]}
    assert found.decoder.decode(sent) == {"shapes": [{"kind": "circle"}, {"kind": "line", "label": None}]}


def test_a_nullable_optional_property_is_strict_only_with_null_as_default() -> None:
    assert strict(of({"a": {"type": ["string", "null"], "default": None}}))
    with pytest.raises(
        NotStrictError, match="/properties/a is nullable and optional, which are not the same"
    ):
        strict(of({"a": {"type": ["string", "null"]}}))


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({}, "/properties/x accepts any value"),
        ({"type": SIX}, "/properties/x accepts any value"),
        ({"type": "array"}, "/properties/x/items accepts any value"),
        ({"type": "object"}, "/properties/x is an object with any properties"),
        ({"type": "object", "additionalProperties": TEXT}, "/properties/x accepts undeclared properties"),
        (of({}, additionalProperties=True), "/properties/x accepts undeclared properties"),
        (of({"a": TEXT}, "b"), "/properties/x requires 'b' and does not declare it"),
        ({"minLength": 2}, "/properties/x has no type"),
        ({**TEXT, "not": {"enum": ["a"]}}, "/properties/x has not"),
        (
            {**of({"a": TEXT}), "anyOf": [of({"a": TEXT}, "a"), of({"b": TEXT}, "b")]},
            "/properties/x has rules beside alternatives",
        ),
    ],
)
def test_the_reason_why_a_schema_is_not_strict_is_given(schema: Any, reason: str) -> None:
    with pytest.raises(NotStrictError) as refusal:
        strict(of({"x": schema}, "x"))
    assert str(refusal.value) == reason


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (of({"a": {**TEXT, "enum": [str(number) for number in range(1_001)]}}), "1001 enum values in all"),
        (
            of({"a": {**TEXT, "enum": ["x" * 99 + str(number) for number in range(251)]}}),
            "strict mode allows 15000",
        ),
        (of({"x" * 120_001: TEXT}), "characters in names and enum values"),
    ],
)
def test_the_limits_of_strict_mode_are_checked(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotStrictError, match=reason):
        strict(schema)


def test_eleven_levels_of_objects_are_too_many_and_ten_are_not() -> None:
    def nest(levels: int) -> dict[str, Any]:
        return TEXT if not levels else of({"in": nest(levels - 1)}, "in")

    assert strict(nest(10))
    with pytest.raises(NotStrictError, match="11 levels of objects"):
        strict(nest(11))
