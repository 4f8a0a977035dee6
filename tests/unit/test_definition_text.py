"""Hard rules for the words a model reads."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.errors import DefinitionError
from toolcrib.names import MAX_DESCRIPTION_BYTES, check_schema_text, check_text, find_hidden


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Plain words,\n\twith lines and tabs.",
        "Windows\r\nlines",
        "Größe, 寸法, размер",
        "family: 👨‍👩‍👧",
        "نمی\u200cخواهم",
        "\u2764\ufe0f",
    ],
)
def test_readable_text_passes(text: str) -> None:
    assert find_hidden(text) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a\x00b", "control character U+0000"),
        ("a\x1b[31m", "control character U+001B"),
        ("a\rb", "control character U+000D"),
        ("ä\x07", "control character U+0007"),
        ("a\u202eb", "invisible character U+202E"),
        ("a\u200bb", "invisible character U+200B"),
        ("a\U000e0041", "invisible character U+E0041"),
        ("a\ue000", "private-use character U+E000"),
        ("a\ud800", "surrogate character U+D800"),
        ("a\u2028b", "line-breaking character U+2028"),
        ("a\u3164b", "invisible character U+3164"),
        ("\u200da", "invisible character U+200D"),
        ("a\u200db", "invisible character U+200D"),
        ("a \ufe0f", "invisible character U+FE0F"),
    ],
)
def test_anything_that_a_reader_cannot_see_is_named(text: str, found: str) -> None:
    assert find_hidden(text) == found
    with pytest.raises(DefinitionError, match=f"The title contains an? {found.replace('+', '.')}") as caught:
        check_text(text, "The title", "mine")
    assert caught.value.tool == "mine"
    assert caught.value.hint


def test_a_text_has_a_longest_length_in_bytes() -> None:
    check_text("ä" * (MAX_DESCRIPTION_BYTES // 2), "The text")
    for text in ("a" * (MAX_DESCRIPTION_BYTES + 1), "ä" * (MAX_DESCRIPTION_BYTES // 2 + 1)):
        with pytest.raises(DefinitionError, match="The text is longer than 64 KiB"):
            check_text(text, "The text")


def test_a_schema_has_a_longest_length_in_all() -> None:
    words = "a" * MAX_DESCRIPTION_BYTES
    check_schema_text({"enum": [words] * 15}, "The schema")
    with pytest.raises(DefinitionError, match="The schema has more than 1024 KiB of text"):
        check_schema_text({"enum": [words] * 17}, "The schema")


@pytest.mark.parametrize(
    "schema",
    [
        {"description": "a\u200b"},
        {"properties": {"a\u200b": {}}},
        {"enum": [1, ["a\u200b"]]},
        {"anyOf": ({"title": "a\u200b"},)},
        {5: {"const": "a\u200b"}},
    ],
)
def test_every_text_inside_a_schema_is_looked_at(schema: Any) -> None:
    with pytest.raises(DefinitionError, match="The schema contains an invisible character"):
        check_schema_text(schema, "The schema")
    check_schema_text({"properties": {"a": {"default": [1, None, "b"]}}}, "The schema")
