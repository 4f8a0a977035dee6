"""Tools, calls and results checked with LangChain's own converter, tools and messages."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.messages.utils import convert_to_messages
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_json_schema, convert_to_openai_tool

from toolcrib import Result
from toolcrib.catalog.export import ToolCall
from toolcrib.content import text_block

from .conftest import Offer

pytestmark = pytest.mark.parametrize("offer", ["langchain"], indirect=True)


def test_the_converter_accepts_every_tool_without_loss(offer: Offer) -> None:
    for tool in offer.tools:
        converted = convert_to_openai_tool(tool)["function"]
        assert converted["name"] == tool["title"]
        assert converted.get("description") == tool.get("description")
        rest = {key: value for key, value in tool.items() if key not in ("title", "description")}
        assert converted["parameters"] == rest
        assert convert_to_json_schema(tool) == tool


def test_a_structured_tool_accepts_the_schema(offer: Offer) -> None:
    for _, _, tool in offer.pairs():

        def run(**arguments: Any) -> str:
            return str(sorted(arguments))

        made = StructuredTool(
            name=tool["title"], description=tool.get("description", ""), args_schema=tool, func=run
        )
        converted = convert_to_openai_tool(made)["function"]
        assert converted["name"] == tool["title"]
        assert converted["parameters"]["properties"] == tool["properties"]


def test_calls_round_trip(offer: Offer) -> None:
    def send(name: str, arguments: dict[str, Any]) -> AIMessage:
        call = {"name": name, "args": arguments, "id": "call_1", "type": "tool_call"}
        return AIMessage(content="Well.", tool_calls=[call])

    offer.check_round_trips(send)


def test_results_become_tool_messages(offer: Offer) -> None:
    call = ToolCall("call_1", "closed", {"a": 1}, "closed")
    for result in (Result.of("two", 2), Result([text_block("no")], is_error=True)):
        told = offer.found.result_for(call, result)
        (message,) = convert_to_messages([told])
        assert isinstance(message, ToolMessage)
        assert message.status == ("error" if result.is_error else "success")
        rest = {key: value for key, value in told.items() if key != "role"}
        assert ToolMessage(**rest).tool_call_id == "call_1"
