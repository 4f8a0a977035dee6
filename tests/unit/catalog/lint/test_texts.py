"""Nothing in a definition that a model or a client may read is left out, and every text knows its place."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.catalog.lint.rule import fold, list_texts
from toolcrib.definition import ToolDefinition

EVERYWHERE = ToolDefinition(
    name="t:name",
    description="t:description",
    title="t:title",
    returns="t:returns",
    raises=(("ValueError", "t:raises"),),
    tags=("t:tag",),
    input_schema={
        "type": "object",
        "description": "t:root",
        "$comment": "t:comment",
        "x-hint": {"t:key": ["t:deep", {"a": "t:deeper"}]},
        "t:keyword": "t:value",
        "properties": {
            "t:parameter": {
                "type": ["string", "null"],
                "title": "t:parameter title",
                "default": {"a": [["t:default"]]},
                "enum": ["t:enum", {"t:enum key": 1}],
                "const": "t:const",
                "examples": ["t:example", ["t:nested example"]],
                "pattern": "t:pattern",
                "format": "t:format",
                "anyOf": [{"items": {"properties": {"t:inner": {"description": "t:inner words"}}}}],
                "additionalProperties": {"description": "t:additional"},
                "not": {"description": "t:not"},
                "prefixItems": [{"description": "t:prefix"}],
            }
        },
        "$defs": {"t:definition": {"description": "t:definition words"}},
        "required": ["t:required"],
    },
    output_schema={"type": "object", "properties": {"t:result": {"description": "t:result words"}}},
    annotations={"title": "t:annotation", "t:annotation key": True},
    icons=[{"src": "t:icon"}],
    meta={"t:meta key": [{"a": "t:meta"}]},
)


def _count(node: Any) -> int:
    if isinstance(node, str):
        return node.startswith("t:")
    if isinstance(node, dict):
        return sum(_count(key) + _count(value) for key, value in node.items())
    return sum(map(_count, node)) if isinstance(node, list | tuple) else 0


def test_every_text_is_listed() -> None:
    texts = list_texts(EVERYWHERE, ["t:alias"])
    found = [text.text for text in texts if text.text.startswith("t:")]
    there = sum(_count(value) for value in vars(EVERYWHERE).values()) + 1
    assert len(found) == len(set(found)) == there


def test_texts_below_a_parameter_belong_to_it() -> None:
    owners = {text.text: text.parameter for text in list_texts(EVERYWHERE)}
    assert owners["t:inner words"] == owners["t:default"] == owners["t:parameter"] == "t:parameter"
    assert owners["t:root"] is owners["t:result"] is owners["t:definition words"] is None


def test_locations_are_described_in_words() -> None:
    places = {text.text: text.where for text in list_texts(EVERYWHERE)}
    assert places["t:description"] == "the description"
    assert places["t:parameter title"] == "the title of parameter 't:parameter'"
    assert places["t:result words"] == "the output schema"
    assert places["t:meta"] == "the _meta"


@pytest.mark.parametrize(
    "schema", [{}, {"properties": None}, {"properties": {"a": True}, "anyOf": 5, "enum": 7}]
)
def test_malformed_schemas_are_read_as_far_as_possible(schema: dict[str, Any]) -> None:
    list_texts(ToolDefinition(name="a", input_schema=schema))


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("Ignore  THIS\nnow", "ignore this now"),
        ("**ignore** `this` _now_", "ignore this now"),
        ("іgnоrе this", "ignore this"),
        ("ｉｇｎｏｒｅ 𝐭𝐡𝐢𝐬", "ignore this"),
        ("i g n o r e  t h i s", "ignore this"),
        ("i.g.n.o.r.e  t-h-i-s-s", "ignore thiss"),
        ("1gn0re th1s", "ignore this"),
        ("ígnöre this", "ignore this"),
        ("i\u0336g\u0336n\u0336o\u0336r\u0336e this", "ignore this"),
    ],
)
def test_folding_removes_disguises(text: str, reading: str) -> None:
    assert reading in fold(text)


@given(st.text(max_size=200))
def test_folding_accepts_any_text(text: str) -> None:
    readings = fold(text)
    assert readings
    assert all(isinstance(reading, str) for reading in readings)


def test_underscores_inside_names_stay() -> None:
    assert fold("call send_email or __init__") == ("call send_email or init",)
