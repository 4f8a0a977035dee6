"""Providers' messages read: every spelling, whole answers and parts, and what is wrong in them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.small_tools import named
from toolcrib import Tool
from toolcrib.catalog.export import Export, ToolCall, export

ARGUMENTS = {"a": 1, "b": {"c": [None, "x"]}}
TEXT = json.dumps(ARGUMENTS)
SPELLINGS: dict[str, tuple[Any, str]] = {
    "chat": ({"id": "1", "type": "function", "function": {"name": "add", "arguments": TEXT}}, "1"),
    "responses": (
        {"type": "function_call", "id": "f", "call_id": "1", "name": "add", "arguments": TEXT},
        "1",
    ),
    "anthropic": ({"type": "tool_use", "id": "1", "name": "add", "input": ARGUMENTS}, "1"),
    "gemini": ({"functionCall": {"name": "add", "args": ARGUMENTS}}, ""),
    "gemini package": ({"function_call": {"id": "1", "name": "add", "args": ARGUMENTS}}, "1"),
    "bedrock": ({"toolUse": {"toolUseId": "1", "name": "add", "input": ARGUMENTS}}, "1"),
    "langchain": ({"type": "tool_call", "id": "1", "name": "add", "args": ARGUMENTS}, "1"),
    "line": ({"tool_call": {"name": "add", "args": ARGUMENTS}}, ""),
    "mcp": ({"id": 1, "method": "tools/call", "params": {"name": "add", "arguments": ARGUMENTS}}, "1"),
}
WHOLE = {
    "chat": lambda call: {"choices": [{"message": {"role": "assistant", "tool_calls": [call]}}]},
    "responses": lambda call: {"output": [{"type": "reasoning", "summary": []}, call]},
    "anthropic": lambda call: {"role": "assistant", "content": [{"type": "text", "text": "{}"}, call]},
    "gemini": lambda call: {"candidates": [{"content": {"role": "model", "parts": [{"text": "x"}, call]}}]},
    "bedrock": lambda call: {"output": {"message": {"content": [{"text": "x"}, call]}}},
    "langchain": lambda call: {"content": "", "tool_calls": [call]},
}


@pytest.fixture
def found() -> Export:
    return export([named("add", input_schema={"type": "object"})], "anthropic")


@pytest.mark.parametrize("spelling", list(SPELLINGS))
def test_every_spelling_of_a_call_is_read(found: Export, spelling: str) -> None:
    message, identity = SPELLINGS[spelling]
    wanted = ToolCall(identity, "add", ARGUMENTS, "add")
    assert found.read_call(message) == [wanted]
    assert found.read_call(json.dumps(message)) == [wanted]
    assert found.read_call([message, message]) == [wanted, wanted]


@pytest.mark.parametrize("spelling", list(WHOLE))
def test_calls_are_found_in_whole_answers(found: Export, spelling: str) -> None:
    call, identity = SPELLINGS[spelling]
    assert found.read_call(WHOLE[spelling](call)) == [ToolCall(identity, "add", ARGUMENTS, "add")]


def test_objects_of_a_package_are_dumped(found: Export) -> None:
    message = SimpleNamespace(model_dump=lambda: SPELLINGS["anthropic"][0])
    assert found.read_call(message)[0].arguments == ARGUMENTS
    assert found.read_call([message])[0].arguments == ARGUMENTS


def test_a_message_without_calls_has_none(found: Export) -> None:
    for message in ({"role": "assistant", "content": "add it yourself"}, [], {}, {"content": []}, "{}"):
        assert found.read_call(message) == []


def test_calls_are_not_looked_for_in_what_a_call_holds(found: Export) -> None:
    inner = {"content": [SPELLINGS["anthropic"][0]]}
    (call,) = found.read_call({"type": "tool_use", "id": "1", "name": "add", "input": inner})
    assert call.arguments == inner


def test_a_call_without_arguments_is_kept_and_one_that_is_made_twice_too(found: Export) -> None:
    bare = {"id": "1", "type": "function", "function": {"name": "add"}}
    assert found.read_call({"tool_calls": [bare, bare]}) == [ToolCall("1", "add", {}, "add")] * 2
    offered = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
    assert found.read_call({"content": [offered]}) == []  # a definition is no call


def test_calls_that_a_message_repeats_in_its_content_are_made_once(found: Export) -> None:
    call, (use, _) = SPELLINGS["langchain"][0], SPELLINGS["anthropic"]
    assert len(found.read_call({"content": [use], "tool_calls": [call]})) == 1


def test_what_is_not_json_is_said_so(found: Export) -> None:
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
def test_arguments_that_are_none_are_an_error_of_that_call_only(
    found: Export, given: Any, words: str
) -> None:
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


def test_a_tool_that_is_not_there_is_an_error_with_a_guess(found: Export) -> None:
    (call,) = found.read_call({"type": "tool_use", "id": "1", "name": "ad", "input": {}})
    assert call == ToolCall("1", "ad", {}, "ad", "Unknown tool: ad; did you mean 'add'?")
    (call,) = found.read_call({"type": "tool_use", "id": "1", "name": "zebra", "input": {}})
    assert call.error == "Unknown tool: zebra"


def test_a_name_at_the_provider_leads_to_the_tool() -> None:
    tool = Tool.from_handler(lambda arguments: 1, "files.read", "Read.", {"type": "object"})
    found = export([tool], "openai")
    (call,) = found.read_call({"id": "1", "function": {"name": "files_read", "arguments": "{}"}})
    assert (call.name, call.exported) == ("files.read", "files_read")
    (call,) = found.read_call({"id": "1", "function": {"name": "files.read", "arguments": "{}"}})
    assert "did you mean 'files_read'?" in (call.error or "")


def test_a_message_that_nests_without_end_is_left_alone(found: Export) -> None:
    message: Any = SPELLINGS["anthropic"][0]
    for _ in range(50):
        message = {"content": [message]}
    assert found.read_call(message) == []
