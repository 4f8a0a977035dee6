"""What a tool can hand back besides plain data."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Audio, File, Image, Link, MCPServer, Result


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_media_say_their_type_and_carry_their_bytes(tmp_path: Path) -> None:
    picture = tmp_path / "chart.jpeg"
    picture.write_bytes(b"jpeg")
    assert Image(b"png").to_block() == {"type": "image", "data": encoded(b"png"), "mimeType": "image/png"}
    assert Image(path=picture).to_block() == {
        "type": "image",
        "data": encoded(b"jpeg"),
        "mimeType": "image/jpeg",
    }
    assert Audio(b"x", mime_type="audio/ogg").to_block()["mimeType"] == "audio/ogg"
    assert Audio(b"x").to_block()["type"] == "audio"


@pytest.mark.parametrize("kind", [Image, Audio, File])
def test_media_take_either_data_or_a_path(kind: Any) -> None:
    with pytest.raises(ValueError, match="either data or path"):
        kind()
    with pytest.raises(ValueError, match="either data or path"):
        kind(b"x", path="x")


def test_a_file_is_text_where_its_type_is_and_base64_elsewhere(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("hello")
    assert File("words").to_block()["resource"] == {
        "uri": "file:///unnamed",
        "mimeType": "text/plain",
        "text": "words",
    }
    assert File(path=notes).to_block()["resource"] == {
        "uri": notes.resolve().as_uri(),
        "mimeType": "text/plain",
        "text": "hello",
    }
    blob = File(b"\x00", uri="crib://x").to_block()["resource"]
    assert blob == {"uri": "crib://x", "mimeType": "application/octet-stream", "blob": encoded(b"\x00")}
    assert File(b"{}", mime_type="application/json").to_block()["resource"]["text"] == "{}"


def test_a_link_says_what_is_known() -> None:
    assert Link("https://example.org", "home").to_block() == {
        "type": "resource_link",
        "uri": "https://example.org",
        "name": "home",
    }
    full = Link("https://example.org/a", "a", "The letter", "text/plain", 1).to_block()
    assert full["description"] == "The letter"
    assert (full["mimeType"], full["size"]) == ("text/plain", 1)


def test_a_result_is_spelt_as_mcp_spells_it() -> None:
    assert Result().to_json() == {"content": [], "isError": False}
    said = Result.of("two", 2)
    assert said.text == "two"
    assert said.to_json() == {
        "content": [{"type": "text", "text": "two"}],
        "structuredContent": 2,
        "isError": False,
    }
    assert Result(is_structured=True).to_json()["structuredContent"] is None
    assert Result(meta={"a": 1}).to_json()["_meta"] == {"a": 1}
    assert (
        Result([{"type": "image"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]).text
        == "a\nb"
    )


async def test_tools_hand_back_media_alone_and_among_words() -> None:
    server = MCPServer()
    server.add(lambda: Image(b"png"), name="picture")
    server.add(lambda: ["See:", Image(b"png"), {"a": 1}], name="report")
    assert [block["type"] for block in (await server.call("picture")).content] == ["image"]
    report = await server.call("report")
    assert [block["type"] for block in report.content] == ["text", "image", "text"]
    assert report.content[2]["text"] == '{"a":1}'
