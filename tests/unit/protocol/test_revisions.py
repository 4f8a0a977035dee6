"""Definitions and results, cut to what each revision knows."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from toolcrib import MCPServer, Result
from toolcrib.definition import ToolDefinition
from toolcrib.protocol.revisions import LEGACY, MODERN, Revision
from toolcrib.validation.validator import Validator, check_schema

DEFINITION = ToolDefinition(
    "t",
    "Words.",
    {"type": "object", "properties": {}},
    {"type": "array", "items": {"type": "number"}},
    title="T",
    annotations={"readOnlyHint": True},
    returns="The numbers",
    raises=(("OSError", "when it rains"),),
    icons=[{"src": "https://x.example/i.png"}],
    meta={"x.example/a": 1},
)
ALL = (MODERN, *LEGACY.values())


@pytest.mark.parametrize(
    ("version", "keys"),
    [
        ("2024-11-05", {"name", "description", "inputSchema"}),
        ("2025-03-26", {"name", "description", "inputSchema", "annotations"}),
        (
            "2025-06-18",
            {"name", "description", "inputSchema", "annotations", "title", "outputSchema", "_meta"},
        ),
        (
            "2025-11-25",
            {"name", "description", "inputSchema", "annotations", "title", "outputSchema", "_meta", "icons"},
        ),
    ],
)
def test_each_revision_lists_the_fields_it_knows(version: str, keys: set[str]) -> None:
    assert LEGACY[version].shape_tool(DEFINITION).keys() == keys


def test_the_newest_lists_everything_as_it_is() -> None:
    wire = MODERN.shape_tool(DEFINITION)
    assert wire["outputSchema"] == {"type": "array", "items": {"type": "number"}}
    assert (wire["icons"], wire["_meta"]) == (DEFINITION.icons, DEFINITION.meta)


def test_where_no_output_schema_goes_out_its_words_go_into_the_description() -> None:
    description = LEGACY["2025-03-26"].shape_tool(DEFINITION)["description"]
    assert "Returns: The numbers" in description
    assert "OSError: when it rains" in description
    assert MODERN.shape_tool(DEFINITION)["description"] == "Words."


def wrapped(schema: dict[str, Any]) -> Any:
    return LEGACY["2025-11-25"].shape_tool(ToolDefinition("t", output_schema=schema))["outputSchema"]


def test_an_output_that_is_not_an_object_is_advertised_below_a_key() -> None:
    inner = {"type": "array", "items": {"type": "number"}}
    assert wrapped(inner) == {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    assert wrapped({"type": "object", "properties": {}}) == {"type": "object", "properties": {}}


def test_definitions_stay_at_the_root_and_references_lead_to_where_things_went() -> None:
    schema = {
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
        "anyOf": [{"$ref": "#/$defs/node"}, {"type": "array", "items": {"$ref": "#"}}],
    }
    made = wrapped(schema)
    assert made["$defs"] == schema["$defs"]
    assert made["properties"]["result"]["anyOf"] == [
        {"$ref": "#/$defs/node"},
        {"type": "array", "items": {"$ref": "#/properties/result"}},
    ]
    check_schema(made)


def shaped(revision: Revision, result: Result, schema: dict[str, Any] | None = None) -> Any:
    return revision.shape_result(result, schema)


def test_data_that_is_not_an_object_goes_as_it_is_or_below_a_key() -> None:
    result = Result.of("3", 3)
    assert shaped(MODERN, result)["structuredContent"] == 3
    assert shaped(LEGACY["2025-06-18"], result)["structuredContent"] == {"result": 3}
    assert "structuredContent" not in shaped(LEGACY["2025-03-26"], result)


def test_an_object_is_wrapped_only_where_its_schema_was() -> None:
    result = Result.of("{}", {"a": 1})
    assert shaped(LEGACY["2025-11-25"], result)["structuredContent"] == {"a": 1}
    schema = {"anyOf": [{"type": "object"}, {"type": "integer"}]}
    assert shaped(LEGACY["2025-11-25"], result, schema)["structuredContent"] == {"result": {"a": 1}}


def test_a_null_is_data_too() -> None:
    assert shaped(MODERN, Result.of("null", None))["structuredContent"] is None
    assert shaped(LEGACY["2025-11-25"], Result.of("null", None))["structuredContent"] == {"result": None}


@pytest.mark.parametrize("revision", ALL, ids=lambda revision: revision.name)
def test_blocks_that_a_revision_does_not_know_become_text(revision: Revision) -> None:
    link = {"type": "resource_link", "uri": "https://x.example/a", "name": "a"}
    sound = {"type": "audio", "data": "AA==", "mimeType": "audio/wav"}
    text = {"type": "text", "text": "hello"}
    kinds = [block["type"] for block in shaped(revision, Result([link, sound, text]))["content"]]
    expected = [
        "resource_link" if revision.structured_output else "text",
        "audio" if revision.audio else "text",
        "text",
    ]
    assert kinds == expected


@pytest.mark.parametrize("revision", ALL, ids=lambda revision: revision.name)
def test_an_error_says_so(revision: Revision) -> None:
    assert shaped(revision, Result([], is_error=True))["isError"] is True
    assert shaped(revision, Result([]))["isError"] is False


class Order(BaseModel):
    number: int


@pytest.mark.parametrize("hint", [str | dict, dict | str, dict[str, Any] | str | None, str | Order])
@pytest.mark.parametrize("revision", [MODERN, *LEGACY.values()], ids=lambda item: item.name)
async def test_text_is_text_where_the_hint_has_text_and_data(hint: Any, revision: Revision) -> None:
    def find():
        return "No such order."

    find.__annotations__["return"] = hint
    server = MCPServer("shop")
    server.add(find)
    definition = server.registry.get("find").definition
    wire = shaped(revision, await server.call("find", {}), definition.output_schema)
    assert wire["content"] == [{"type": "text", "text": "No such order."}]
    if schema := revision.shape_tool(definition).get("outputSchema"):
        assert Validator(schema, trusted=False).is_valid(wire["structuredContent"])
    else:
        assert "structuredContent" not in wire
