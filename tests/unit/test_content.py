"""Results of a tool besides plain data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcrib import Audio, File, Image, Link, MCPServer, Message, Result, ToolError
from toolcrib.content import text_block


def test_media_are_base64_with_a_type() -> None:
    assert Image(b"\x89PNG").to_block() == {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}
    assert Audio(b"abc").to_block() == {"type": "audio", "data": "YWJj", "mimeType": "audio/wav"}
    assert Image(b"", mime_type="image/webp").to_block()["mimeType"] == "image/webp"


def test_media_are_read_from_files_when_they_are_sent(tmp_path: Path) -> None:
    file = tmp_path / "chart.jpg"
    image = Image(path=file)
    file.write_bytes(b"abc")
    assert image.to_block() == {"type": "image", "data": "YWJj", "mimeType": "image/jpeg"}
    assert Audio(path=str(tmp_path / "unknown")).mime_type == "audio/wav"
    with pytest.raises(FileNotFoundError):
        Audio(path=tmp_path / "missing").to_block()


@pytest.mark.parametrize("kind", [Image, Audio, File])
def test_media_take_data_or_a_path(kind: type[Image] | type[Audio] | type[File], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"{kind.__name__} takes either data or path"):
        kind()
    with pytest.raises(ValueError, match="either data or path"):
        kind(b"", path=tmp_path)
    with pytest.raises(TypeError, match=rf"{kind.__name__} takes bytes, got .*; for a file, use .*\(path="):
        kind(tmp_path)  # type: ignore[arg-type]


def test_a_file_is_text_where_its_type_is(tmp_path: Path) -> None:
    file = tmp_path / "data.json"
    file.write_text('{"a": 1}')
    assert File(path=file).to_block() == {
        "type": "resource",
        "resource": {"uri": file.resolve().as_uri(), "mimeType": "application/json", "text": '{"a": 1}'},
    }
    assert File("größe").to_block()["resource"] == {
        "uri": "file:///unnamed",
        "mimeType": "text/plain",
        "text": "größe",
    }
    assert File("a,b", mime_type="text/csv", uri="data:own").to_block()["resource"]["uri"] == "data:own"


def test_a_text_file_that_is_not_utf8_is_sent_in_base64() -> None:
    resource = File(b"caf\xe9", mime_type="text/plain").to_block()["resource"]
    assert resource == {"uri": "file:///unnamed", "mimeType": "text/plain", "blob": "Y2Fm6Q=="}


def test_any_other_file_is_base64() -> None:
    assert File(b"abc").to_block()["resource"] == {
        "uri": "file:///unnamed",
        "mimeType": "application/octet-stream",
        "blob": "YWJj",
    }


def test_a_link_says_what_is_known() -> None:
    assert Link("https://example.org", "home").to_block() == {
        "type": "resource_link",
        "uri": "https://example.org",
        "name": "home",
    }
    assert Link("file:///a", "a", description="An a", mime_type="text/plain", size=0).to_block() == {
        "type": "resource_link",
        "uri": "file:///a",
        "name": "a",
        "description": "An a",
        "mimeType": "text/plain",
        "size": 0,
    }


def test_a_result_is_spelled_as_mcp_does() -> None:
    assert Result().to_json() == {"content": [], "isError": False}
    assert Result.of("two", 2).to_json() == {
        "content": [{"type": "text", "text": "two"}],
        "structuredContent": 2,
        "isError": False,
    }
    assert Result.of("", None).to_json()["structuredContent"] is None
    result = Result([text_block("no")], is_error=True, meta={"a": 1}, error=ToolError("no"))
    assert result.to_json() == {
        "content": [{"type": "text", "text": "no"}],
        "isError": True,
        "_meta": {"a": 1},
    }


def test_the_text_of_a_result_is_all_its_text() -> None:
    blocks = [text_block("a"), {"type": "image", "data": "", "mimeType": ""}, text_block("b"), {}]
    assert Result(blocks).text == "a\nb"


def test_results_are_compared_by_what_travels() -> None:
    assert Result(error=ToolError("a")) == Result(error=ToolError("b"))
    assert Result([text_block("a")]) != Result([text_block("b")])
    assert Result.of("a", 1) != Result([text_block("a")], 1)
    assert "ToolError" not in repr(Result(error=ToolError("a")))
    assert Result().content is not Result().content


async def test_tools_hand_back_media_alone_and_among_words() -> None:
    server = MCPServer()
    server.add(lambda: Image(b"png"), name="picture")
    server.add(lambda: ["See:", Image(b"png"), {"a": 1}], name="report")
    assert [block["type"] for block in (await server.call("picture")).content] == ["image"]
    report = await server.call("report")
    assert [block["type"] for block in report.content] == ["text", "image", "text"]
    assert report.content[2]["text"] == '{"a":1}'


@pytest.mark.parametrize("role", ["system", "User", "", None])
def test_messages_are_by_the_user_or_the_assistant(role: Any) -> None:
    with pytest.raises(ValueError, match="use user or assistant"):
        Message("Hello", role=role)
    assert Message("Hello", role="assistant").role == "assistant"
