"""Walking and rewriting schemas, and following their references."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.errors import InvalidSchemaError
from toolcrib.validation.schema_tree import Resolver, children, rewrite, rewrite_references, walk
from toolcrib.validation.validator import canonicalize

STRING = {"type": "string"}


def test_children_are_the_subschemas_of_every_keyword() -> None:
    schema = {
        "properties": {"a": STRING, "enum": True},
        "dependencies": {"a": ["b"], "b": {}},
        "anyOf": [{}, False],
        "items": [{}],
        "additionalItems": {},
        "additionalProperties": False,
        "not": {},
        "enum": [{"not": {}}],
        "default": {"properties": {"x": {}}},
        "allOf": 5,
        "x-own": {"not": {}},
    }
    assert [path for path, _ in children(schema)] == [
        ("properties", "a"),
        ("properties", "enum"),
        ("dependencies", "b"),
        ("anyOf", 0),
        ("anyOf", 1),
        ("items", 0),
        ("additionalItems",),
        ("additionalProperties",),
        ("not",),
    ]
    assert list(children(True)) == list(children({"type": "object"})) == []


def test_walk_yields_parents_first_in_the_order_of_the_schema() -> None:
    schema = {"properties": {"a": {"items": STRING}, "b": True}, "$defs": {"c": STRING}}
    assert [path for path, _ in walk(schema)] == [
        (),
        ("properties", "a"),
        ("properties", "a", "items"),
        ("$defs", "c"),
    ]


def test_rewrite_changes_inner_schemas_first_and_leaves_data_and_the_original_alone() -> None:
    schema = {"properties": {"title": {"title": "x", "anyOf": [{"title": "y"}]}}, "default": {"title": "z"}}

    def drop_title(node: dict[str, Any]) -> Any:
        node.pop("title", None)
        return node if node else True

    assert rewrite(schema, drop_title) == {
        "properties": {"title": {"anyOf": [True]}},
        "default": {"title": "z"},
    }
    assert schema["properties"]["title"]["title"] == "x"
    assert rewrite(False, drop_title) is False


def test_references_are_rewritten_where_they_are_references() -> None:
    schema = {
        "properties": {"$ref": {"$ref": "#/a"}},
        "items": [{"$ref": "#/b", "title": "t"}],
        "const": {"$ref": "#/c"},
    }
    assert rewrite_references(schema, lambda text: text.upper()) == {
        "properties": {"$ref": {"$ref": "#/A"}},
        "items": [{"$ref": "#/B", "title": "t"}],
        "const": {"$ref": "#/c"},
    }


@pytest.mark.parametrize(
    "reference",
    ["#/$defs/a~1b~0c", "#/$defs/a~1b%7E0c", "#/%24defs/a~1b~0c", "#/allOf/0", "#/properties/default", "#n"],
)
def test_a_reference_is_a_pointer_or_an_anchor(reference: str) -> None:
    target = {"$anchor": "n"}
    root = {"$defs": {"a/b~c": target}, "properties": {"default": target}, "allOf": [target]}
    assert Resolver(root).resolve(reference) is target
    assert Resolver(root).resolve("#") is root


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("#/$defs/b", "does not exist"),
        ("#x", "does not exist"),
        ("#/allOf/1", "does not exist"),
        ("#/allOf/x", "does not exist"),
        ("#/allOf/²", "does not exist"),
        ("#/type/a", "does not exist"),
        ("#/$defs/a/default", "which is data"),
        ("#/$defs/a/enum/0", "which is data"),
        ("other.json#/a", "outside itself"),
        ("", "outside itself"),
    ],
)
def test_a_reference_that_leads_nowhere_is_an_error(reference: str, message: str) -> None:
    root = {"type": "object", "$defs": {"a": {"default": {}, "enum": [{}]}}, "allOf": [{}]}
    with pytest.raises(InvalidSchemaError, match=message):
        Resolver(root).resolve(reference)


def test_an_anchor_may_be_set_once() -> None:
    with pytest.raises(InvalidSchemaError, match="anchor 'x' twice"):
        Resolver({"$defs": {"a": {"$anchor": "x"}, "b": {"$dynamicAnchor": "x"}}}).resolve("#x")
    root = {"$defs": {"a": {"$anchor": "x"}, "b": {"default": {"$anchor": "x"}, "$id": "a.json"}}}
    assert Resolver(root).resolve("#x") is root["$defs"]["a"]


def test_old_drafts_spell_anchors_as_ids() -> None:
    root: dict[str, Any] = {"$defs": {"a": {"$id": "#new"}, "b": {"id": "#old"}}}
    assert Resolver(root).resolve("#new") is root["$defs"]["a"]
    assert Resolver(root).resolve("#old") is root["$defs"]["b"]


def test_a_chain_of_references_is_followed_to_its_end() -> None:
    root = {
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": STRING, "c": {"$ref": "#/$defs/c"}, "d": {"$ref": "x"}}
    }
    resolver = Resolver(root)
    assert resolver.follow({"$ref": "#/$defs/a"}) is STRING
    assert resolver.follow(STRING) is STRING
    assert resolver.follow(True) is True
    assert resolver.follow(root["$defs"]["c"]) is root["$defs"]["c"]
    assert resolver.follow(root["$defs"]["d"]) is root["$defs"]["d"]


def test_schemas_are_compared_by_the_engine() -> None:
    number, integer = {"type": "number"}, {"type": "integer"}
    assert canonicalize(number).covers(canonicalize(integer)).value == "yes"
    for bad in ({"type": 5}, {"$ref": "https://example.org/a.json"}, {"$ref": "#/$defs/a"}):
        with pytest.raises(InvalidSchemaError):
            canonicalize(bad)
