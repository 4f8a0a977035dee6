"""Tools, calls and results checked with OpenAI's own package."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.support.definitions.exported_schemas import is_strict_tool, name_of, schema_of
from tests.support.system.lazy_import import Later
from toolcrib import Result
from toolcrib.catalog.export import ToolCall

from .conftest import ExportedTools

chat = Later("openai.types.chat")
responses = Later("openai.types.responses")
own = Later("openai.lib._pydantic")

STRICT_KEYWORDS = frozenset(
    {"additionalProperties", "anyOf", "description", "enum", "format", "items", "maxItems", "maximum"}
    | {"exclusiveMaximum", "exclusiveMinimum", "minItems", "minimum", "multipleOf", "pattern", "properties"}
    | {"required", "title", "type"}
)
FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
NOT_ON_TOP = {"oneOf", "anyOf", "allOf", "enum", "not", "const"}


def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    inner = [*node.get("properties", {}).values(), *node.get("anyOf", ())]
    for item in [*inner, *([node["items"]] if "items" in node else [])]:
        yield from walk(item)


@pytest.mark.parametrize("exported_tools", ["openai"], indirect=True)
def test_chat_tools_match_the_types_of_the_package(exported_tools: ExportedTools) -> None:
    TypeAdapter(list[chat.ChatCompletionFunctionToolParam]).validate_python(exported_tools.tools)
    assert all(tool.keys() == {"type", "function"} for tool in exported_tools.tools)
    assert all("strict" in tool["function"] for tool in exported_tools.tools)


@pytest.mark.parametrize("exported_tools", ["openai-responses"], indirect=True)
def test_responses_tools_match_the_types_of_the_package(exported_tools: ExportedTools) -> None:
    TypeAdapter(list[responses.FunctionToolParam]).validate_python(exported_tools.tools)


@pytest.mark.parametrize("exported_tools", ["openai", "openai-responses"], indirect=True)
def test_strict_schemas_keep_the_published_rules(exported_tools: ExportedTools) -> None:
    strict = [schema_of(exported_tools.to, tool) for tool in exported_tools.tools if is_strict_tool(tool)]
    assert len(strict) > 15
    for schema in strict:
        assert schema["type"] == "object"
        assert not schema.keys() & NOT_ON_TOP
        untouched = copy.deepcopy(schema)
        assert own._ensure_strict_json_schema(copy.deepcopy(schema), path=(), root=untouched) == untouched
        for node in walk(schema):
            assert node.keys() <= STRICT_KEYWORDS
            assert isinstance(node.get("type", ""), str)
            assert "type" in node or "anyOf" in node
            if node.get("type") == "object":
                assert node["additionalProperties"] is False
                assert node["required"] == list(node["properties"])
            if node.get("type") == "array":
                assert node["items"]
            assert node.get("format", "date") in FORMATS


@pytest.mark.parametrize("exported_tools", ["openai", "openai-responses"], indirect=True)
def test_other_schemas_keep_the_rules_for_every_tool(exported_tools: ExportedTools) -> None:
    for item, _, tool in exported_tools.pairs():
        schema = schema_of(exported_tools.to, tool)
        assert not schema.keys() & NOT_ON_TOP
        assert "properties" in schema
        assert is_strict_tool(tool) != (
            exported_tools.found.notes.get(item.name, ("",))[0].startswith("not strict: ")
        )


@pytest.mark.parametrize("exported_tools", ["openai"], indirect=True)
def test_chat_calls_round_trip(exported_tools: ExportedTools) -> None:
    def send(name: str, arguments: dict[str, Any]) -> Any:
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = chat.ChatCompletionMessageFunctionToolCall.model_validate(
            {"id": "call_1", "type": "function", "function": function}
        )
        message = chat.ChatCompletionMessage(role="assistant", tool_calls=[call], content=None)
        choice = {"index": 0, "finish_reason": "tool_calls", "message": message.model_dump()}
        return chat.ChatCompletion.model_validate(
            {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        )

    exported_tools.check_round_trips(send)


@pytest.mark.parametrize("exported_tools", ["openai-responses"], indirect=True)
def test_responses_calls_round_trip(exported_tools: ExportedTools) -> None:
    def send(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        call = responses.ResponseFunctionToolCall(
            call_id="call_1", id="fc_1", name=name, arguments=json.dumps(arguments), type="function_call"
        )
        return responses.Response.model_construct(output=[call]).model_dump(exclude_unset=True)

    exported_tools.check_round_trips(send)
    (call,) = exported_tools.found.read_call(send(name_of(exported_tools.to, exported_tools.tools[0]), {}))
    assert call.id == "call_1"


@pytest.mark.parametrize(("to", "shape"), [("openai", "chat"), ("openai-responses", "responses")])
def test_results_match_the_types_of_the_package(to: str, shape: str) -> None:
    exported_tools = ExportedTools(to)
    call = ToolCall("call_1", "closed", {"a": 1}, "closed")
    for result in (Result.of("two", 2), Result([], {"a": 1}, is_structured=True), Result(is_error=True)):
        results = exported_tools.found.result_for(call, result)
        if shape == "chat":
            TypeAdapter(chat.ChatCompletionToolMessageParam).validate_python(results)
        else:
            TypeAdapter(responses.response_input_item_param.FunctionCallOutput).validate_python(results)
