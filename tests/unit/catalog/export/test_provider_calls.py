"""Reading calls from providers' messages, and writing results for them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.definitions.small_tools import named
from toolcrib import File, Image, Link, Result, Tool
from toolcrib.catalog.export import EXPORTERS, Export, ToolCall, export
from toolcrib.catalog.export.base import result_text
from toolcrib.content import text_block

ARGUMENTS = {"a": 1, "b": {"c": [None, "x"]}}
TEXT = json.dumps(ARGUMENTS)
CALL_FORMS: dict[str, tuple[Any, str]] = {
    "chat": ({"id": "1", "type": "function", "function": {"name": "add", "arguments": TEXT}}, "1"),
    "responses": (
        {"type": "function_call", "id": "f", "call_id": "1", "name": "add", "arguments": TEXT},
        "1",
    ),
    "anthropic": ({"type": "tool_use", "id": "1", "name": "add", "input": ARGUMENTS}, "1"),
    "gemini": ({"functionCall": {"name": "add", "args": ARGUMENTS}}, ""),
    "gemini package": ({"function_call": {"id": "1", "name": "add", "args": ARGUMENTS}}, "1"),
    "bedrock": ({"toolUse": {"toolUseId": "1", "name": "add", "input": ARGUMENTS}}, "1"),
    "line": ({"tool_call": {"name": "add", "args": ARGUMENTS}}, ""),
    "mcp": ({"id": 1, "method": "tools/call", "params": {"name": "add", "arguments": ARGUMENTS}}, "1"),
}
WHOLE = {
    "chat": lambda call: {"choices": [{"message": {"role": "assistant", "tool_calls": [call]}}]},
    "responses": lambda call: {"output": [{"type": "reasoning", "summary": []}, call]},
    "anthropic": lambda call: {"role": "assistant", "content": [{"type": "text", "text": "{}"}, call]},
    "gemini": lambda call: {"candidates": [{"content": {"role": "model", "parts": [{"text": "x"}, call]}}]},
    "bedrock": lambda call: {"output": {"message": {"content": [{"text": "x"}, call]}}},
}


@pytest.fixture
def found() -> Export:
    return export([named("add", input_schema={"type": "object"})], "anthropic")


@pytest.mark.parametrize("form", list(CALL_FORMS))
def test_every_provider_s_form_of_a_call_is_read(found: Export, form: str) -> None:
    message, identity = CALL_FORMS[form]
    wanted = ToolCall(identity, "add", ARGUMENTS, "add")
    assert found.read_call(message) == [wanted]
    assert found.read_call(json.dumps(message)) == [wanted]
    assert found.read_call([message, message]) == [wanted, wanted]


@pytest.mark.parametrize("form", list(WHOLE))
def test_calls_are_found_in_whole_answers(found: Export, form: str) -> None:
    call, identity = CALL_FORMS[form]
    assert found.read_call(WHOLE[form](call)) == [ToolCall(identity, "add", ARGUMENTS, "add")]


def test_objects_of_a_provider_s_package_are_converted(found: Export) -> None:
    message = SimpleNamespace(model_dump=lambda: CALL_FORMS["anthropic"][0])
    assert found.read_call(message)[0].arguments == ARGUMENTS
    assert found.read_call([message])[0].arguments == ARGUMENTS


def test_a_message_without_calls_has_none(found: Export) -> None:
    for message in ({"role": "assistant", "content": "add it yourself"}, [], {}, {"content": []}, "{}"):
        assert found.read_call(message) == []


def test_calls_inside_the_arguments_of_a_call_are_ignored(found: Export) -> None:
    inner = {"content": [CALL_FORMS["anthropic"][0]]}
    (call,) = found.read_call({"type": "tool_use", "id": "1", "name": "add", "input": inner})
    assert call.arguments == inner


def test_calls_without_arguments_and_repeated_calls_are_kept(found: Export) -> None:
    bare = {"id": "1", "type": "function", "function": {"name": "add"}}
    assert found.read_call({"tool_calls": [bare, bare]}) == [ToolCall("1", "add", {}, "add")] * 2
    offered = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
    assert found.read_call({"content": [offered]}) == []  # a definition is no call


def test_invalid_json_is_an_error(found: Export) -> None:
    with pytest.raises(ValueError, match="the message is not JSON"):
        found.read_call("I would rather not")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("{'a': 1}", "the arguments are not JSON"),
        ('{"a": 1', "the arguments are not JSON"),
        ('{"a": 1, "a": 2}', "an object has a key twice"),
        ("[1]", "the arguments must be an object, not list"),
        ([1], "the arguments must be an object, not list"),
    ],
)
def test_invalid_arguments_are_an_error_of_that_call_only(found: Export, given: Any, words: str) -> None:
    bad = {"id": "1", "function": {"name": "add", "arguments": given}}
    good = {"id": "2", "function": {"name": "add", "arguments": "{}"}}
    first, second = found.read_call({"tool_calls": [bad, good]})
    assert (first.id, first.name, first.arguments) == ("1", "add", {})
    assert words in (first.error or "")
    assert second == ToolCall("2", "add", {}, "add")


@pytest.mark.parametrize("given", ["", "  ", None, {}])
def test_no_arguments_are_an_empty_object(found: Export, given: Any) -> None:
    (call,) = found.read_call({"id": "1", "function": {"name": "add", "arguments": given}})
    assert (call.arguments, call.error) == ({}, None)


def test_an_unknown_tool_is_an_error_with_a_suggestion(found: Export) -> None:
    (call,) = found.read_call({"type": "tool_use", "id": "1", "name": "ad", "input": {}})
    assert call == ToolCall("1", "ad", {}, "ad", "Unknown tool: ad; did you mean 'add'?")
    (call,) = found.read_call({"type": "tool_use", "id": "1", "name": "zebra", "input": {}})
    assert call.error == "Unknown tool: zebra"


@pytest.mark.requirement("G-07")
def test_an_exported_name_is_mapped_to_the_tool() -> None:
    tool = Tool.from_handler(lambda arguments: 1, "files.read", "Read.", {"type": "object"})
    found = export([tool], "openai")
    (call,) = found.read_call({"id": "1", "function": {"name": "files_read", "arguments": "{}"}})
    assert (call.name, call.exported) == ("files.read", "files_read")
    (call,) = found.read_call({"id": "1", "function": {"name": "files.read", "arguments": "{}"}})
    assert "did you mean 'files_read'?" in (call.error or "")


def test_a_message_that_is_nested_too_deep_has_no_calls(found: Export) -> None:
    message: Any = CALL_FORMS["anthropic"][0]
    for _ in range(50):
        message = {"content": [message]}
    assert found.read_call(message) == []


# --- results ---------------------------------------------------------------------------------------------

CALL = ToolCall("1", "files.read", {}, "files_read")
GOOD = Result.of("two", {"n": 2})
BAD = Result([text_block("no such file")], is_error=True)


@pytest.mark.parametrize(
    ("to", "good", "bad"),
    [
        (
            "openai",
            {"role": "tool", "tool_call_id": "1", "content": "two"},
            {"role": "tool", "tool_call_id": "1", "content": "Error: no such file"},
        ),
        (
            "openai-responses",
            {"type": "function_call_output", "call_id": "1", "output": "two"},
            {"type": "function_call_output", "call_id": "1", "output": "Error: no such file"},
        ),
        (
            "anthropic",
            {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "two"}]},
            {
                "type": "tool_result",
                "tool_use_id": "1",
                "content": [{"type": "text", "text": "no such file"}],
                "is_error": True,
            },
        ),
        (
            "gemini",
            {"functionResponse": {"id": "1", "name": "files_read", "response": {"output": {"n": 2}}}},
            {"functionResponse": {"id": "1", "name": "files_read", "response": {"error": "no such file"}}},
        ),
        (
            "bedrock",
            {"toolResult": {"toolUseId": "1", "content": [{"text": "two"}], "status": "success"}},
            {"toolResult": {"toolUseId": "1", "content": [{"text": "no such file"}], "status": "error"}},
        ),
        (
            "prompt",
            {"tool_result": {"name": "files_read", "ok": True, "result": {"n": 2}}},
            {"tool_result": {"name": "files_read", "ok": False, "error": "no such file"}},
        ),
    ],
)
def test_results_have_the_form_that_the_provider_expects(to: str, good: object, bad: object) -> None:
    found = export([named("one")], to)
    assert found.result_for(CALL, GOOD) == good
    assert found.result_for(CALL, BAD) == bad


def test_every_format_can_write_a_result() -> None:
    for to in EXPORTERS:
        assert export([], to).result_for(CALL, GOOD)


def test_blocks_that_are_not_text_are_named_in_text() -> None:
    blocks = [
        text_block("look"),
        Image(b"x").to_block(),
        Link("desk://1", "letter").to_block(),
        File("inside", uri="desk://2").to_block(),
        File(b"\x00", uri="desk://3", mime_type="application/zip").to_block(),
    ]
    assert result_text(Result(blocks)).splitlines() == [
        "look",
        "[image image/png, not shown]",
        "[letter: desk://1]",
        "inside",
        "[application/zip at desk://3, not shown]",
    ]


def test_data_without_blocks_becomes_json_text() -> None:
    assert result_text(Result([], {"a": [1]}, is_structured=True)) == '{"a":[1]}'
    assert result_text(Result([], None, is_structured=True)) == "null"
    assert result_text(Result()) == ""


def test_images_are_sent_where_the_provider_supports_them() -> None:
    result = Result([Image(b"PNG").to_block(), Image(b"TIFF", mime_type="image/tiff").to_block()])
    told = export([], "anthropic").result_for(CALL, result)["content"]
    assert [block["type"] for block in told] == ["image", "text"]
    told = export([], "bedrock").result_for(CALL, result)["toolResult"]["content"]
    assert told[0] == {"image": {"format": "png", "source": {"bytes": b"PNG"}}}
