"""Tools, calls and results checked with botocore's own validation."""

from __future__ import annotations

import re
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator

from toolcrib import Image, Result
from toolcrib.catalog.export import ToolCall
from toolcrib.content import text_block

from .conftest import ExportedTools

pytestmark = pytest.mark.parametrize("exported_tools", ["bedrock"], indirect=True)


@pytest.fixture(scope="module")
def model() -> Any:
    return botocore.session.Session().get_service_model("bedrock-runtime")


def complaints(shape: Any, value: Any) -> str:
    report = ParamValidator().validate(value, shape)
    return str(report.generate_report())


def test_a_request_with_every_tool_is_valid(exported_tools: ExportedTools, model: Any) -> None:
    request = {
        "modelId": "m",
        "messages": [{"role": "user", "content": [{"text": "Hello"}]}],
        "toolConfig": {"tools": exported_tools.tools},
    }
    assert complaints(model.operation_model("Converse").input_shape, request) == ""
    assert complaints(model.operation_model("ConverseStream").input_shape, request) == ""


def test_names_and_descriptions_match_the_service_model(exported_tools: ExportedTools, model: Any) -> None:
    rule = model.shape_for("ToolName").metadata
    for tool in exported_tools.tools:
        spec = tool["toolSpec"]
        assert re.fullmatch(rule["pattern"], spec["name"])
        assert rule["min"] <= len(spec["name"]) <= rule["max"]
        assert spec.get("description", "x").strip()
        assert spec["inputSchema"]["json"].keys() <= {"type", "properties", "required"}
        assert spec["inputSchema"]["json"]["type"] == "object"


def test_calls_round_trip(exported_tools: ExportedTools, model: Any) -> None:
    def send(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        use = {"toolUse": {"toolUseId": "tooluse_1", "name": name, "input": arguments}}
        message = {"role": "assistant", "content": [{"text": "Well."}, use]}
        assert complaints(model.shape_for("Message"), message) == ""
        return {"output": {"message": message}, "stopReason": "tool_use"}

    exported_tools.check_round_trips(send)


def test_results_are_valid(exported_tools: ExportedTools, model: Any) -> None:
    call = ToolCall("tooluse_1", "closed", {"a": 1}, "closed")
    results = [
        Result([text_block("two"), Image(b"PNG").to_block()]),
        Result([], {"a": 1}, is_structured=True),
        Result([], [1], is_structured=True),
        Result([text_block("no")], is_error=True),
        Result(),
    ]
    blocks = [exported_tools.found.result_for(call, result) for result in results]
    assert complaints(model.shape_for("Message"), {"role": "user", "content": blocks}) == ""
    assert blocks[1]["toolResult"]["content"] == [{"json": {"a": 1}}]
    assert blocks[3]["toolResult"]["status"] == "error"
