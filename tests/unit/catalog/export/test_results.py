"""Results in each provider's words."""

from __future__ import annotations

import pytest

from tests.support.small_tools import named
from toolcrib import File, Image, Link, Result
from toolcrib.catalog.export import EXPORTERS, ToolCall, export
from toolcrib.catalog.export.calls import result_text
from toolcrib.content import text_block

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
def test_a_result_is_told_as_the_provider_wants_it(to: str, good: object, bad: object) -> None:
    found = export([named("one")], to)
    assert found.result_for(CALL, GOOD) == good
    assert found.result_for(CALL, BAD) == bad


def test_every_form_has_an_answer() -> None:
    for to in EXPORTERS:
        assert export([], to).result_for(CALL, GOOD)


def test_what_is_not_text_is_named_where_only_text_can_be_told() -> None:
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


def test_data_without_words_is_told_as_json() -> None:
    assert result_text(Result([], {"a": [1]}, is_structured=True)) == '{"a":[1]}'
    assert result_text(Result([], None, is_structured=True)) == "null"
    assert result_text(Result()) == ""


def test_pictures_are_shown_to_those_who_can_see() -> None:
    result = Result([Image(b"PNG").to_block(), Image(b"TIFF", mime_type="image/tiff").to_block()])
    told = export([], "anthropic").result_for(CALL, result)["content"]
    assert [block["type"] for block in told] == ["image", "text"]
    told = export([], "bedrock").result_for(CALL, result)["toolResult"]["content"]
    assert told[0] == {"image": {"format": "png", "source": {"bytes": b"PNG"}}}
