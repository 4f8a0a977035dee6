"""Any schema: no export crashes on it, and an exact one means exactly what the tool means.

Values are drawn to be close to the schema, so that many fit and many just do not. A value that fits the
exported schema goes back through the export and must fit the tool's; one that fits the tool's goes forward
and must fit the exported one.
"""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from tests.support.exported import forward, opened, schema_of
from toolcrib import Tool
from toolcrib.catalog.export import FORMS, export
from toolcrib.errors import DefinitionError

NAMES = st.sampled_from(["a", "b", "c", "user-id", "größe", "a b"])
PLAIN_NAMES = st.sampled_from(["a", "b", "c"])
WORDS = st.sampled_from(["", "a", "ab", "abc", "2024-01-31", "b c"])
NUMBERS = st.sampled_from([-1, 0, 1, 2, 3, 0.5, 2.0, 7])
SCALARS = st.none() | st.booleans() | NUMBERS | WORDS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])


def some(**keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=keywords)


def schemas(names: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    leaf = (
        st.booleans()
        | some(type=TYPES)
        | st.fixed_dictionaries({"type": st.lists(TYPES, min_size=1, max_size=7, unique=True)})
        | st.fixed_dictionaries({"enum": st.lists(SCALARS | VALUES, min_size=1, max_size=4)})
        | st.fixed_dictionaries({"const": VALUES})
        | st.fixed_dictionaries(
            {"type": st.just("string")},
            optional={
                "minLength": st.integers(0, 2),
                "maxLength": st.integers(1, 3),
                "pattern": st.sampled_from(["^a", "b$", "^[a-z]+$"]),
                "format": st.sampled_from(["date", "uri", "email"]),
                "description": st.just("A text"),
                "default": WORDS,
            },
        )
        | st.fixed_dictionaries(
            {"type": st.sampled_from(["integer", "number"])},
            optional={
                "minimum": NUMBERS,
                "maximum": NUMBERS,
                "exclusiveMinimum": NUMBERS,
                "exclusiveMaximum": NUMBERS,
                "multipleOf": st.sampled_from([1, 2, 0.5]),
                "enum": st.lists(NUMBERS, min_size=1, max_size=3),
            },
        )
        | st.fixed_dictionaries({"$ref": st.sampled_from(["#/$defs/x", "#/$defs/y", "#"])})
    )
    return st.recursive(leaf, lambda inner: composites(inner, names), max_leaves=8)


def composites(inner: st.SearchStrategy[Any], names: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    objects = {
        "properties": st.dictionaries(names, inner, max_size=3),
        "required": st.lists(names, max_size=2, unique=True),
        "additionalProperties": inner,
        "minProperties": st.integers(0, 2),
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, max_size=1),
        "dependentRequired": st.dictionaries(names, st.lists(names, max_size=1), max_size=1),
        "propertyNames": some(maxLength=st.just(1)),
        "unevaluatedProperties": st.booleans(),
    }
    arrays = {
        "items": inner,
        "prefixItems": several,
        "minItems": st.integers(0, 2),
        "maxItems": st.integers(0, 3),
        "uniqueItems": st.booleans(),
        "contains": inner,
        "unevaluatedItems": st.booleans(),
    }
    logic = {
        "anyOf": several,
        "oneOf": several,
        "allOf": several,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
    }
    return (
        some(type=st.just("object"), **objects)
        | some(type=st.just("array"), **arrays)
        | some(type=st.just("object"), **{**objects, "anyOf": several, "allOf": several})
        | some(type=TYPES, **logic)
        | some(**logic)
    )


@st.composite
def roots(draw: st.DrawFn, names: st.SearchStrategy[str] = NAMES) -> dict[str, Any]:
    inner = schemas(names)
    root = draw(composites(inner, names))
    assume(isinstance(root, dict))
    defs = {"x": draw(inner), "y": draw(inner)}
    return {**root, "type": "object", "$defs": defs}


def make(schema: dict[str, Any]) -> Tool:
    def handle(arguments: dict[str, Any]) -> str:
        return "done"

    tool = Tool.from_handler(handle, "any", "Any schema at all.", schema)
    try:
        tool.check()
    except DefinitionError:
        assume(False)
    return tool


@given(roots())
def test_no_schema_makes_an_export_fail(schema: dict[str, Any]) -> None:
    tool = make(schema)
    for to in FORMS:
        found = export([tool], to)
        (verdict,) = found.verdicts
        assert verdict.status in ("exact", "lossy", "refused")
        assert (verdict.reason is None) == (verdict.status != "refused")
        assert all(change.words for change in verdict.changes)
        if to in ("openai", "anthropic", "gemini-json", "bedrock", "langchain") and found.tools:
            written = schema_of(to, found.tools[0])
            jsonschema_rs.meta.validate(
                {**written, "$schema": "https://json-schema.org/draft/2020-12/schema"}
            )
            assert written["type"] == "object"
            assert "$ref" not in str(written)


@pytest.mark.parametrize("to", ["openai", "openai-loose", "anthropic", "gemini", "gemini-json", "bedrock"])
@given(data=st.data())
def test_an_exact_export_means_what_the_tool_means(to: str, data: st.DataObject) -> None:
    tool = make(data.draw(roots()))
    form, strict = to.removesuffix("-loose"), not to.endswith("-loose")
    found = export([tool], form, strict=strict)
    (verdict,) = found.verdicts
    event(f"{to}: {verdict.status}")
    if verdict.status != "exact":
        return
    schema = schema_of(form, found.tools[0])
    check = jsonschema_rs.validator_for(dict(tool.definition.input_schema), validate_formats=True)
    exported = jsonschema_rs.validator_for(schema, validate_formats=True)
    lenient = jsonschema_rs.validator_for(opened(schema) if verdict.strict else schema, validate_formats=True)
    for value in data.draw(st.lists(st.dictionaries(NAMES, VALUES, max_size=3), min_size=3, max_size=8)):
        sent = forward(found, value)
        if check.is_valid(value):
            assert any(map(lenient.is_valid, sent)), (value, sent)
        for item in (value, {"arguments": value}, *sent):
            if exported.is_valid(item):
                (call,) = found.read_call({"name": verdict.exported, "args": item})
                assert check.is_valid(call.arguments), (item, call.arguments)
