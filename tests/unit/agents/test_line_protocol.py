"""The line protocol: calls told from words, however what is printed was cut."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from toolcrib import Result
from toolcrib.agents.gemini_cli import Item, ModelOutputReader, result_line
from toolcrib.agents.provider import Token, ToolAnswer, ToolCall
from toolcrib.content import text_block


def read(*chunks: bytes, limit: int = 4096) -> list[Item]:
    """What comes out, with neighbouring words joined."""
    reader = ModelOutputReader(limit)
    found: list[Item] = []
    for item in [*(item for chunk in chunks for item in reader.feed(chunk)), *reader.feed(b"", is_end=True)]:
        if isinstance(item, Token) and found and isinstance(found[-1], Token):
            found[-1] = Token(found[-1].text + item.text)
        else:
            found.append(item)
    return found


CALL = b'{"tool_call": {"name": "add", "args": {"a": 1}}}\n'


def test_text_is_passed_on_before_its_line_ends() -> None:
    reader = ModelOutputReader()
    assert list(reader.feed(b"Let me")) == [Token("Let me")]
    assert list(reader.feed(b" see {")) == [Token(" see {")]
    assert list(reader.feed(b"\n{")) == [Token("\n")]  # this brace may begin a call


def test_a_call_may_be_indented_and_needs_no_line_end_at_the_end() -> None:
    assert read(b"  " + CALL) == [ToolCall("call_1", "add", {"a": 1})]
    assert read(CALL.strip()) == [ToolCall("call_1", "add", {"a": 1})]
    assert read(CALL.replace(b"\n", b"\r\n")) == [ToolCall("call_1", "add", {"a": 1})]


def test_arguments_may_be_left_out_or_be_called_arguments() -> None:
    assert read(b'{"tool_call": {"name": "now"}}\n') == [ToolCall("call_1", "now", {})]
    line = b'{"tool_call": {"name": "add", "arguments": {"a": 1}}}\n'
    assert read(line) == [ToolCall("call_1", "add", {"a": 1})]


def test_other_objects_are_text() -> None:
    for line in (b"{}\n", b"{\n", b'{"tool_calls": []}\n', b'{"tool_call": {}, "and": 1}\n', b"[1]\n"):
        assert read(line) == [Token(line.decode())]


def test_a_call_that_cannot_be_read_says_why() -> None:
    [call] = read(b'{"tool_call": {"name": "add", "args": {"a": 1}\n')
    assert isinstance(call, ToolCall)
    assert call.flaw is not None
    assert "not JSON" in call.flaw
    [call] = read(b'{"tool_call": {"name": "add", "args": {"a": 1, "a": 2}}}\n')
    assert isinstance(call, ToolCall)
    assert call.flaw is not None
    assert "twice" in call.flaw


def test_a_line_that_is_too_long_is_text() -> None:
    call = b'{"tool_call": {"name": "add", "args": {"a": "' + b"x" * 9000 + b'"}}}\n'
    for line in (call, b"{" + b"x" * 9000 + b"\n"):
        assert read(line[:5000], line[5000:], CALL) == [
            Token(line.decode()),
            ToolCall("call_1", "add", {"a": 1}),
        ]


PIECES = [
    CALL,
    b"{",
    b"}\n",
    b"word ",
    b"\n",
    "é€😀".encode(),
    b"\xff",
    b'{"tool_call": 1}\n',
    b'  {"tool_call"',
]


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.lists(st.integers(1, 60), max_size=20))
def test_the_size_of_chunks_makes_no_difference(pieces: list[bytes], sizes: list[int]) -> None:
    data = b"".join(pieces)
    chunks, start = [], 0
    for size in sizes:
        chunks.append(data[start : start + size])
        start += size
    assert read(*chunks, data[start:]) == read(data)


def test_results_go_back_as_one_line_each() -> None:
    call = ToolCall("call_1", "add", {})
    data = Result([text_block("3")], 3, is_structured=True)
    assert json.loads(result_line(ToolAnswer(call, data))) == {
        "tool_result": {"name": "add", "ok": True, "result": 3}
    }
    words = Result([text_block("two\nlines")])
    assert result_line(ToolAnswer(call, words)).count(b"\n") == 1
    failed = Result([text_block("no")], is_error=True)
    assert json.loads(result_line(ToolAnswer(call, failed))) == {
        "tool_result": {"name": "add", "ok": False, "error": "no"}
    }
