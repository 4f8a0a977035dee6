"""Expanding schemas: references, drafts, recursion, and exponential growth."""

from __future__ import annotations

import time
from typing import Any

import pytest

from toolcrib.catalog.schemas import MAX_PARTS, Expansion, ExpansionError, expand


def read(schema: dict[str, Any]) -> tuple[dict[str, Any], Expansion]:
    found = expand(schema)
    return found.tree, found


def test_references_are_expanded_wherever_they_point() -> None:
    schema = {
        "type": "object",
        "$defs": {"a/b": {"type": "string"}, "list": {"type": "array", "items": {"$ref": "#/$defs/a~1b"}}},
        "properties": {
            "x": {"$ref": "#/$defs/list"},
            "y": {"$ref": "#/$defs/a%7E1b"},
            "z": {"$ref": "#/$defs/list/items"},
        },
    }
    tree, found = read(schema)
    assert tree == {
        "type": "object",
        "properties": {
            "x": {"type": "array", "items": {"type": "string"}},
            "y": {"type": "string"},
            "z": {"type": "string"},
        },
    }
    assert found.cuts == []


def test_annotations_beside_a_reference_win_and_rules_are_added() -> None:
    schema = {
        "$defs": {"n": {"type": "integer", "description": "Any"}},
        "properties": {
            "a": {"$ref": "#/$defs/n", "description": "Mine"},
            "b": {"$ref": "#/$defs/n", "minimum": 3},
        },
    }
    tree, _ = read(schema)
    assert tree["properties"]["a"] == {"type": "integer", "description": "Mine"}
    assert tree["properties"]["b"] == {"type": "integer", "minimum": 3, "description": "Any"}


def test_older_drafts_ignore_rules_beside_a_reference() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": {"n": {"type": "integer"}},
        "properties": {"b": {"$ref": "#/definitions/n", "minimum": 3, "title": "B"}},
    }
    assert read(schema)[0]["properties"]["b"] == {"type": "integer", "title": "B"}


def test_older_drafts_are_converted() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "id": "http://x.example/",
        "properties": {
            "n": {"minimum": 0, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False},
            "t": {"items": [{"type": "string"}], "additionalItems": False},
        },
        "dependencies": {"n": ["t"], "t": {"required": ["n"]}},
    }
    assert read(schema)[0] == {
        "properties": {
            "n": {"exclusiveMinimum": 0, "maximum": 9},
            "t": {"prefixItems": [{"type": "string"}], "items": False},
        },
        "dependentRequired": {"n": ["t"]},
        "dependentSchemas": {"t": {"required": ["n"]}},
    }


def test_data_that_looks_like_a_reference_is_left_alone() -> None:
    schema = {"properties": {"a": {"default": {"$ref": "#/nowhere"}, "enum": [{"$ref": "#"}]}}}
    assert read(schema)[0] == schema


def test_properties_may_be_called_like_keywords() -> None:
    schema = {"properties": {"$ref": {"type": "string"}, "id": {"type": "string"}, "$defs": {}}}
    assert read(schema)[0] == schema


def test_recursion_ends_at_the_fourth_level_and_is_noted() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    tree, found = read({"$defs": {"node": node}, "properties": {"n": {"$ref": "#/$defs/node"}}})
    step = tree["properties"]["n"]
    for _ in range(3):
        step = step["properties"]["next"]
    assert step == {}
    assert found.cuts == [(("properties", "n", *("properties", "next") * 3), "node")]
    assert found.levels == 3


def test_wide_recursion_ends_earlier() -> None:
    inner = {f"p{number}": {"$ref": "#/$defs/node"} for number in range(12)}
    schema = {"$defs": {"node": {"properties": inner}}, "properties": {"n": {"$ref": "#/$defs/node"}}}
    tree, found = read(schema)
    assert tree["properties"]["n"]["properties"]["p0"]["properties"]["p0"]["properties"]["p0"] == {}
    assert found.levels == 3
    wide = {f"p{number}": {"$ref": "#/$defs/node"} for number in range(30)}
    schema = {"$defs": {"node": {"properties": wide}}, "properties": {"n": {"$ref": "#/$defs/node"}}}
    assert read(schema)[1].levels == 2


def test_a_reference_to_the_root_is_cut_too() -> None:
    tree, found = read({"type": "object", "properties": {"again": {"$ref": "#"}}})
    assert tree["properties"]["again"]["type"] == "object"
    assert [name for _, name in found.cuts] == ["the schema"]


def test_an_exponential_schema_is_refused_at_once() -> None:
    defs: dict[str, Any] = {"d0": {"type": "string"}}
    for level in range(1, 40):
        twice = {"$ref": f"#/$defs/d{level - 1}"}
        defs[f"d{level}"] = {"properties": {"l": twice, "r": twice}}
    begin = time.process_time()
    with pytest.raises(ExpansionError, match=f"more than {MAX_PARTS} parts"):
        read({"$defs": defs, "properties": {"x": {"$ref": "#/$defs/d39"}}})
    assert time.process_time() - begin < 0.5


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$ref": "#anchor"}, "the anchor '#anchor'; only pointers are followed"),
        ({"$ref": "#/$defs/none"}, "which does not exist"),
        ({"$ref": "https://x.example/s.json"}, "outside itself"),
        (
            {"properties": {"a": {"$dynamicRef": "#x"}}},
            "/properties/a/$dynamicRef depends on where it is used",
        ),
        ({"default": float("nan")}, "not JSON"),
    ],
)
def test_unsupported_references_are_refused_with_their_location(schema: dict[str, Any], words: str) -> None:
    with pytest.raises(ExpansionError) as refusal:
        read(schema)
    assert words in str(refusal.value)


def test_the_given_schema_is_not_modified() -> None:
    schema = {"$defs": {"a": {"const": 1}}, "properties": {"x": {"$ref": "#/$defs/a"}}}
    before = repr(schema)
    tree, _ = read(schema)
    tree["properties"]["x"]["enum"].append(2)
    assert repr(schema) == before
