"""Tools, calls and results checked with Google's own package."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.system.lazy_import import Later
from toolcrib import Result
from toolcrib.catalog.export import ToolCall
from toolcrib.content import text_block

from .conftest import ExportedTools

types = Later("google.genai.types")
pytestmark = pytest.mark.parametrize("exported_tools", ["gemini"], indirect=True)


def test_declarations_match_the_types_of_the_package(exported_tools: ExportedTools) -> None:
    declared = [types.FunctionDeclaration.model_validate(tool) for tool in exported_tools.tools]
    tool = types.Tool(function_declarations=declared)
    assert len(tool.function_declarations or ()) == len(exported_tools.tools)
    for found, sent in zip(declared, exported_tools.tools, strict=True):
        assert found.model_dump(by_alias=True, exclude_unset=True, mode="json") == sent


def without_places(node: Any) -> Any:
    """The service takes `prefixItems`; the package's class for schemas, which it never sends, lacks them."""
    if isinstance(node, dict):
        return {key: without_places(item) for key, item in node.items() if key != "prefixItems"}
    return [without_places(item) for item in node] if isinstance(node, list) else node


def test_the_package_can_read_the_json_schemas(exported_tools: ExportedTools) -> None:
    for tool in exported_tools.tools:
        schema = types.JSONSchema.model_validate(without_places(tool["parametersJsonSchema"]))
        assert types.Schema.from_json_schema(json_schema=schema).type == types.Type.OBJECT


def test_calls_round_trip(exported_tools: ExportedTools) -> None:
    def send(name: str, arguments: dict[str, Any]) -> Any:
        part = types.Part(function_call=types.FunctionCall(id="7", name=name, args=arguments))
        content = types.Content(role="model", parts=[types.Part(text="Well."), part])
        return types.GenerateContentResponse(candidates=[types.Candidate(content=content)])

    exported_tools.check_round_trips(send)


def test_results_match_the_types_of_the_package(exported_tools: ExportedTools) -> None:
    call = ToolCall("7", "files.read/all", {}, "files_read_all")
    for result in (Result.of("two", 2), Result([text_block("no")], is_error=True), Result()):
        part = types.Part.model_validate(exported_tools.found.result_for(call, result))
        assert part.function_response is not None
        assert (part.function_response.id, part.function_response.name) == ("7", "files_read_all")
        assert ("error" in (part.function_response.response or {})) == result.is_error
    unnamed = exported_tools.found.result_for(ToolCall("", "closed", {}, "closed"), Result())
    assert "id" not in unnamed["functionResponse"]
