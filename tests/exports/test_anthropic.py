"""Tools, calls and results checked with Anthropic's own package."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import TypeAdapter

from tests.support.system.lazy_import import Later
from toolcrib import Image, Result
from toolcrib.catalog.export import ToolCall
from toolcrib.content import text_block

from .conftest import ExportedTools

types = Later("anthropic.types")
pytestmark = pytest.mark.parametrize("exported_tools", ["anthropic"], indirect=True)


def walk(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for item in node.values():
            yield from walk(item)
    elif isinstance(node, list):
        for item in node:
            yield from walk(item)


def test_tools_match_the_types_of_the_package(exported_tools: ExportedTools) -> None:
    TypeAdapter(list[types.ToolParam]).validate_python(exported_tools.tools)
    for tool in exported_tools.tools:
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool["name"])


def test_schemas_have_nothing_that_the_service_rejects(exported_tools: ExportedTools) -> None:
    for tool in exported_tools.tools:
        schema = tool["input_schema"]
        assert schema["type"] == "object"
        assert not schema.keys() & {"oneOf", "anyOf", "allOf"}
        for node in walk(schema):
            assert "$ref" not in node
            for name in node["properties"] if isinstance(node.get("properties"), dict) else ():
                assert re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name)


def test_calls_round_trip(exported_tools: ExportedTools) -> None:
    def send(name: str, arguments: dict[str, Any]) -> Any:
        block = types.ToolUseBlock.model_validate(
            {"id": "toolu_1", "input": arguments, "name": name, "type": "tool_use"}
        )
        words = {"type": "text", "text": "I will call it."}
        return types.Message.model_validate(
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "stop_reason": "tool_use",
                "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1},
                "content": [words, block.model_dump(exclude_unset=True)],
            }
        )

    exported_tools.check_round_trips(send)


def test_results_match_the_types_of_the_package(exported_tools: ExportedTools) -> None:
    call = ToolCall("toolu_1", "closed", {"a": 1}, "closed")
    picture = Image(b"PNG").to_block()
    results = [
        Result([text_block("two"), picture]),
        Result([], {"a": 1}, is_structured=True),
        Result([text_block("no")], is_error=True),
        Result(),
    ]
    blocks = [exported_tools.found.result_for(call, result) for result in results]
    for block in blocks:
        TypeAdapter(types.ToolResultBlockParam).validate_python(block)
    assert blocks[0]["content"][1]["source"]["data"] == base64.b64encode(b"PNG").decode()
    assert blocks[2]["is_error"] is True
