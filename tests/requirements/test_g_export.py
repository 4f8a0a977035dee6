"""Wishes of users about exports: schemas that providers take, names that fit and lead back, items lists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.definitions.exported_schemas import schema_of
from toolcrib import Tool
from toolcrib.catalog.export import EXPORTERS, export

PROVIDERS = [name for name, form in EXPORTERS.items() if form.maps_names]
PERMISSIVE = {"type": ["string", "number", "boolean", "object", "array", "null"]}
SCHEMA = {
    "type": "object",
    "$defs": {
        "unit": {"type": "string", "enum": ["m", "km"]},
        "place": {
            "type": "object",
            "properties": {"unit": {"$ref": "#/$defs/unit"}, "near": {"$ref": "#/$defs/place"}},
        },
    },
    "properties": {
        "from": {"$ref": "#/$defs/place"},
        "via": {"type": "array"},
        "note": {"type": ["string", "null"]},
        "extra": PERMISSIVE,
        "speed": {"const": 3},
    },
    "anyOf": [{"required": ["from"]}, {"required": ["via"]}],
}


def made(name: str, schema: dict[str, Any] | None = None) -> Tool:
    return Tool.from_handler(lambda arguments: None, name, "Find a way.", schema or {"type": "object"})


def walk(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from walk(value)
    elif isinstance(node, list):
        for item in node:
            yield from walk(item)


@pytest.mark.requirement("G-04")
@pytest.mark.parametrize("to", PROVIDERS)
def test_exported_schemas_have_no_references_no_type_lists_items_and_no_union_on_top(to: str) -> None:
    found = export([made("route", SCHEMA)], to)
    schema = schema_of(to, found.tools[0])
    assert schema["type"] == "object"
    assert not schema.keys() & {"anyOf", "oneOf", "allOf", "enum", "not"}
    for node in walk(schema):
        assert not node.keys() & {"$ref", "$defs", "definitions", "const"}
        assert isinstance(node.get("type", ""), str | dict)
        if node.get("type") == "array":
            assert isinstance(node["items"], dict)
    (call,) = found.read_call({"tool_call": {"name": "route", "args": {"arguments": {"via": [1]}}}})
    assert call.arguments == {"via": [1]}


@pytest.mark.requirement("G-04")
def test_the_permissive_type_of_the_catalog_reaches_providers_as_any_value() -> None:
    schema = {"type": "object", "properties": {"value": PERMISSIVE}, "required": ["value"]}
    (tool,) = export([made("keep", schema)], "gemini").tools
    assert tool["parametersJsonSchema"]["properties"]["value"] == {}
    (tool,) = export([made("keep", schema)], "anthropic").tools
    assert tool["input_schema"]["properties"]["value"] == {}


@pytest.mark.requirement("G-04")
@pytest.mark.parametrize("to", PROVIDERS)
def test_one_schema_that_cannot_be_exported_does_not_spoil_the_rest(to: str) -> None:
    anchored = {"type": "object", "$defs": {"x": {"$anchor": "a"}}, "properties": {"x": {"$ref": "#a"}}}
    found = export([made("one"), made("two", anchored), made("three")], to)
    assert list(found.names) == ["one", "three"]
    assert "anchor" in found.skipped["two"]


@pytest.mark.requirement("G-07")
@pytest.mark.parametrize("to", PROVIDERS)
def test_names_fit_are_cut_before_the_mark_and_lead_back(to: str) -> None:
    stem = "mcp_a_server_with_a_very_long_name_that_its_owner_is_proud_of_and_a_tool_called_"
    names = [f"{stem}{end}" for end in ("read", "write", "read.all", "read/all", "read all")]
    names += ["files.read", "files/read", "files_read", "größe", "1st"]
    found = export([made(name) for name in names], to)
    assert sorted(found.names.values()) == sorted(names)
    assert all(re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}", name) for name in found.names)
    assert [found.route(exported) for exported in found.names] == list(found.names.values())
    assert found.names["files_read"] == "files_read"
    again = export([made(name) for name in reversed(names)], to)
    assert dict(again.names) == dict(found.names)


@pytest.mark.requirement("X-18")
@pytest.mark.parametrize("to", PROVIDERS)
def test_a_bare_list_gets_the_items_that_providers_insist_on(to: str) -> None:
    def take(values: list) -> None:  # type: ignore[type-arg]
        """Take values."""

    tool = Tool.from_function(take)
    assert tool.definition.input_schema["properties"]["values"] == {"type": "array"}
    assert export([tool], "mcp").tools[0]["inputSchema"]["properties"]["values"] == {"type": "array"}
    written = schema_of(to, export([tool], to).tools[0])["properties"]["values"]
    assert written["type"] == "array"
    assert isinstance(written["items"], dict)
