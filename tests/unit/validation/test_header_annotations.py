"""B3: a mark that would make clients drop a tool is found when the tool is registered."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib import MCPServer, Tool
from toolcrib.errors import DefinitionError, InvalidSchemaError

MARK = "x-mcp-header"


def _register(schema: dict[str, Any]) -> Any:
    server = MCPServer()
    tool = Tool.from_handler(lambda arguments: "ran", "marked", "A marked tool.", schema)
    server.add(tool, strict=True)
    return server.registry.get("marked").definition.mirrored


def _marked(label: Any, kind: Any = "string") -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"type": kind, MARK: label}}}


@pytest.mark.parametrize(
    "label",
    [
        *(
            "",
            " ",
            "a b",
            "a:b",
            "a\r",
            "a\n",
            "a\r\nX: y",
            "\ra",
            "a\x00",
            "a\t",
            "a,b",
            "a;b",
            "a/b",
            "a=b",
            "a@b",
        ),
        *('"a"', "(a)", "a(", "{a}", "[a]", "<a>", "a?", "a\\b", "é", "工具", "a\u200b", "\x7f", "a" * 200),
        *(None, 1, True, [], {}, ["a"]),
    ],
)
def test_a_label_that_is_not_a_header_name_is_refused(label: Any) -> None:
    with pytest.raises(DefinitionError, match=r"is not a header name|contains a"):
        _register(_marked(label))


@pytest.mark.parametrize("label", ["a", "Region", "X-Y", "a.b", "a_b", "!#$%&'*+-.^_`|~", "0", "a" * 128])
@pytest.mark.parametrize("kind", ["string", "integer", "boolean"])
def test_a_good_label_passes(label: str, kind: str) -> None:
    assert _register(_marked(label, kind)) == {("a",): label}


@pytest.mark.parametrize("kind", ["number", "object", "array", "null", ["string", "null"], None])
def test_a_type_that_no_header_can_say_is_refused(kind: Any) -> None:
    schema = _marked("Good", kind)
    if kind is None:
        del schema["properties"]["a"]["type"]
    with pytest.raises(InvalidSchemaError, match="needs a type that fits in a header"):
        _register(schema)


@pytest.mark.parametrize("labels", [("A", "A"), ("a", "A"), ("Region", "rEGION")])
def test_two_of_one_name_are_refused_whatever_their_case(labels: tuple[str, str]) -> None:
    properties = {name: {"type": "string", MARK: label} for name, label in zip("ab", labels, strict=True)}
    with pytest.raises(InvalidSchemaError, match="twice"):
        _register({"type": "object", "properties": properties})
    deep = {"a": properties["a"], "o": {"type": "object", "properties": {"b": properties["b"]}}}
    with pytest.raises(InvalidSchemaError, match="twice"):
        _register({"type": "object", "properties": deep})


_GOOD = {"type": "string", MARK: "Good"}
_BELOW = {"type": "object", "properties": {"a": _GOOD}}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", MARK: "Good"},
        {"type": "object", "properties": {"l": {"type": "array", "items": _GOOD}}},
        {"type": "object", "properties": {"l": {"type": "array", "prefixItems": [_GOOD]}}},
        {"type": "object", "properties": {"l": {"type": "array", "items": _BELOW}}},
        {"type": "object", "allOf": [_BELOW]},
        {"type": "object", "anyOf": [_BELOW]},
        {"type": "object", "oneOf": [_BELOW]},
        {"type": "object", "not": _BELOW},
        {"type": "object", "if": _BELOW},
        {"type": "object", "then": _BELOW, "if": {}},
        {"type": "object", "else": _BELOW, "if": {}},
        {"type": "object", "properties": {"a": {"anyOf": [_GOOD, {"type": "null"}]}}},
        {"type": "object", "additionalProperties": _GOOD},
        {"type": "object", "patternProperties": {"^x": _GOOD}},
        {"type": "object", "dependentSchemas": {"a": _BELOW}},
        {"type": "object", "$defs": {"d": _GOOD}},
        {"type": "object", "$defs": {"d": _GOOD}, "properties": {"a": {"$ref": "#/$defs/d"}}},
        {"type": "object", "$defs": {"d": _BELOW}, "properties": {"a": {"$ref": "#/$defs/d"}}},
    ],
    ids=lambda schema: next(key for key in schema if key != "type"),
)
def test_a_mark_where_no_client_looks_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchemaError, match="where clients ignore it"):
        _register(schema)


def test_marks_below_properties_of_properties_pass() -> None:
    inner = {"type": "object", "properties": {"deep": {"type": "integer", MARK: "Deep"}}}
    schema = {
        "type": "object",
        "properties": {"a": _GOOD, "o": {"type": "object", "properties": {"p": inner}}},
    }
    assert _register(schema) == {("a",): "Good", ("o", "p", "deep"): "Deep"}


def test_the_word_is_not_a_mark_where_it_is_a_name_or_a_value() -> None:
    schema = {
        "type": "object",
        "properties": {
            MARK: {"type": "string"},
            "a": {
                "type": "object",
                "default": {MARK: "x"},
                "examples": [{MARK: "y"}],
                "enum": [{MARK: "z"}],
                "const": {MARK: "z"},
            },
        },
    }
    assert _register(schema) == {}


async def test_a_tool_with_a_wrong_mark_is_not_served() -> None:
    server = MCPServer()
    server.add(Tool.from_handler(lambda arguments: "ran", "bad", "A bad tool.", _marked("a b")))
    server.add(Tool.from_handler(lambda arguments: "ran", "good", "A good tool.", _marked("Good")))
    async with server:
        assert [tool.name for tool in server.list_tools()] == ["good"]
