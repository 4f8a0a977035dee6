"""Escaping of untrusted text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.cli.text import Styled, join, one_line, safe, safe_json, style, width_of


@given(st.text())
def test_safe_text_has_no_control_characters(text: str) -> None:
    assert all(
        letter in "\n\t" or letter.isprintable() or letter.isspace()
        for letter in safe(text)
        if ord(letter) < 0x100
    )
    assert "\r" not in safe(text)
    assert safe(safe(text)) == safe(text)
    safe(text).encode()
    assert "\n" not in one_line(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x7f\x9b", "\\x7f\\x9b"),
        ("\u202e\ufeff", "\\u202e\\ufeff"),
        ("\ud800", "\\ud800"),
        ("line\r\nnext\rover", "line\nnext\\x0dover"),
        ("ä\r\nb\rc", "ä\nb\\x0dc"),
        ("a\U000e0041\u3164\u034fb", "a\\U000e0041\\u3164\\u034fb"),
        ("日本 ümlaut 👩‍👧 ❤️ क्‍ष", "日本 ümlaut 👩‍👧 ❤️ क्‍ष"),
        ("a\u200db \u200c é\u200d\u200d", "a\\u200db \\u200c é\u200d\\u200d"),
        ("a\ufe0f\ufe0f \ufe0f", "a\ufe0f\\ufe0f \\ufe0f"),
        ("\ufe0f", "\\ufe0f"),
    ],
)
def test_harmless_text_is_kept_and_the_rest_escaped(text: str, shown: str) -> None:
    assert safe(text) == shown


@given(st.text())
def test_escaped_json_has_the_same_value(text: str) -> None:
    data = json.dumps(text, ensure_ascii=False)
    assert json.loads(safe_json(data)) == text
    assert not set(safe_json(data)) & set("\x1b\x7f\x9b\u202e\u200b\U000e0041")


def test_changed_styled_text_is_escaped_again() -> None:
    red = style("a\x1b", fg="red")
    assert red == "\x1b[31ma\\x1b\x1b[0m"
    assert type(join(red, "\x1b")) is Styled
    assert join(red, "\x1b") == f"{red}\\x1b"
    assert type(f"{red}!") is str
    assert join(f"{red}") == safe(str(red))


@pytest.mark.parametrize(
    ("text", "width"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("a\u00a0b", 3), ("é", 1), ("", 0)]
)
def test_the_width_of_a_text_is_in_columns(text: str, width: int) -> None:
    assert width_of(text) == width
