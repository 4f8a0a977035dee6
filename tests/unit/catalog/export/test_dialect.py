"""Schemas for providers that support nearly all of JSON Schema."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.catalog.export.dialect import Dialect, Rewritten, rewrite_schema
from toolcrib.catalog.export.openai import OPENAI
from toolcrib.catalog.export.providers import ANTHROPIC, BEDROCK, LANGCHAIN
from toolcrib.catalog.export.verdict import RefusedError

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
SIX = ["string", "number", "boolean", "object", "array", "null"]


def of(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


def one(schema: Any, dialect: Dialect = ANTHROPIC) -> Any:
    """What becomes of the schema of a property."""
    return rewrite_schema(of({"x": schema}), dialect).schema["properties"]["x"]


def effects(found: Rewritten) -> set[str]:
    return {change.effect for change in found.changes}


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
        ({"const": "a"}, {"enum": ["a"]}),
        ({"anyOf": [TEXT, WHOLE, TEXT]}, {"anyOf": [TEXT, WHOLE]}),
        ({"anyOf": [TEXT, TEXT], "description": "A word"}, {**TEXT, "description": "A word"}),
        ({"anyOf": [TEXT, {}], "description": "Any"}, {"description": "Any"}),
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
    assert effects(rewrite_schema(of({"x": schema}), ANTHROPIC)) <= {"same"}


def test_nested_compositions_stay() -> None:
    either = {"oneOf": [TEXT, {"type": "string", "minLength": 3}]}
    assert one(either) == either
    both = {"allOf": [{"pattern": "a"}], "pattern": "b"}
    assert one(both) == {"pattern": "b", "allOf": [{"pattern": "a"}]}


@pytest.mark.parametrize("dialect", [OPENAI, ANTHROPIC, BEDROCK, LANGCHAIN])
def test_a_composition_at_the_root_is_merged_where_that_is_exact(dialect: Dialect) -> None:
    schema = {"type": "object", "allOf": [of({"a": TEXT}, required=["a"]), of({"b": WHOLE})]}
    found = rewrite_schema(schema, dialect)
    assert found.schema == of({"a": TEXT, "b": WHOLE}, required=["a"])
    assert not found.decoder.is_wrapped


@pytest.mark.parametrize("dialect", [OPENAI, ANTHROPIC, BEDROCK, LANGCHAIN])
def test_a_composition_that_cannot_be_merged_is_wrapped_and_unwrapped(dialect: Dialect) -> None:
    schema = {**of({"a": TEXT, "b": TEXT}), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    found = rewrite_schema(schema, dialect)
    assert found.schema == {"type": "object", "properties": {"arguments": schema}, "required": ["arguments"]}
    assert found.decoder.decode({"arguments": {"a": "x"}}) == {"a": "x"}
    assert found.decoder.decode({"a": "x"}) == {"a": "x"}
    assert effects(found) == {"same"}


def test_a_property_with_the_name_of_the_wrapper_is_not_unwrapped() -> None:
    found = rewrite_schema(of({"arguments": {"type": "object"}}), ANTHROPIC)
    assert found.decoder.decode({"arguments": {"a": 1}}) == {"arguments": {"a": 1}}


def test_bedrock_gets_three_keywords_at_the_root() -> None:
    schema = of({"a": TEXT}, title="T", description="About it.", additionalProperties=False)
    found = rewrite_schema(schema, BEDROCK)
    assert found.schema == of({"a": TEXT})
    assert found.notes == ("About it.",)
    assert effects(found) == {"same", "wider"}
    closed = rewrite_schema(schema, BEDROCK, is_closed=True)
    assert (closed.schema, effects(closed)) == (found.schema, {"same"})
    assert rewrite_schema(of({"a": TEXT}, minProperties=1), BEDROCK).decoder.is_wrapped


def test_property_names_are_renamed_everywhere_and_back() -> None:
    schema = of(
        {"größe": TEXT, "ok": of({"a b": WHOLE}, required=["a b"])},
        required=["größe"],
        dependentRequired={"größe": ["ok"]},
    )
    found = rewrite_schema(schema, ANTHROPIC)
    size = next(iter(found.schema["properties"]))
    inner = next(iter(found.schema["properties"]["ok"]["properties"]))
    assert size.startswith("gr__e_")
    assert found.schema["required"] == [size]
    assert found.schema["dependentRequired"] == {size: ["ok"]}
    assert found.schema["properties"]["ok"]["required"] == [inner]
    assert found.decoder.decode({size: "x", "ok": {inner: 1}}) == {"größe": "x", "ok": {"a b": 1}}
    assert rewrite_schema(schema, OPENAI).schema["required"] == ["größe"]


@pytest.mark.parametrize("rule", [{"patternProperties": {"^g": TEXT}}, {"propertyNames": {"minLength": 2}}])
def test_properties_under_a_rule_about_names_cannot_be_renamed(rule: dict[str, Any]) -> None:
    with pytest.raises(RefusedError, match="does not accept the property name 'größe'"):
        rewrite_schema(of({"größe": TEXT}, **rule), ANTHROPIC)


def test_an_unsatisfiable_schema_is_refused() -> None:
    with pytest.raises(RefusedError, match="no arguments can satisfy"):
        rewrite_schema(of({"a": TEXT}, required=["b"], additionalProperties=False), ANTHROPIC)
    with pytest.raises(RefusedError, match="no arguments can satisfy"):
        rewrite_schema({"type": "object", "not": {}}, OPENAI)


def test_a_schema_of_more_than_half_a_megabyte_is_refused() -> None:
    values = [f"{number:06}" + "x" * 60 for number in range(9_000)]
    with pytest.raises(RefusedError, match="more than 512 KiB"):
        rewrite_schema(of({"a": {"enum": values}}), ANTHROPIC)


def test_the_given_schema_is_not_modified() -> None:
    schema = of({"a": {"type": ["array", "null"], "description": "x"}}, allOf=[of({"b": {"const": 1}})])
    before = repr(schema)
    for dialect in (OPENAI, ANTHROPIC, BEDROCK, LANGCHAIN):
        rewrite_schema(schema, dialect)
    assert repr(schema) == before
