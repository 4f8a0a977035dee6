"""Headers that repeat what a request says: spelt so that they arrive, and only where they are allowed."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.client.http import argument_headers, headers_for, to_header


@given(st.text())
def test_any_text_survives_a_header(value: str) -> None:
    sent = to_header(value)
    assert sent.isascii()
    assert sent.isprintable() or not sent
    assert sent == sent.strip()
    if sent.startswith("=?base64?") and sent.endswith("?="):
        assert base64.b64decode(sent[9:-2], validate=True).decode() == value
    else:
        assert sent == value


def test_a_request_names_what_it_calls() -> None:
    assert headers_for("v", "tools/call", {"name": "x"})["mcp-name"] == "x"
    assert headers_for("v", "resources/read", {"uri": "file:///x"})["mcp-name"] == "file:///x"
    assert "mcp-name" not in headers_for("v", "tools/list", {"name": "x"})
    assert "mcp-name" not in headers_for("v", "tools/call", {"name": 5})


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("x y", "x y"),
        ("", ""),
        (5, "5"),
        (-5, "-5"),
        (5.0, "5"),
        (True, "true"),
        (False, "false"),
        ("é", "=?base64?w6k=?="),
        (None, None),
        (5.5, None),
        ([1], None),
        ({}, None),
    ],
)
def test_an_argument_is_spelt_for_its_header(value: Any, sent: str | None) -> None:
    headers = argument_headers({("o", "a"): "A"}, {"o": {"a": value}})
    assert headers == ({} if sent is None else {"mcp-param-a": sent})


def test_an_argument_that_is_not_there_has_no_header() -> None:
    assert argument_headers({("o", "a"): "A", ("b",): "B"}, {"o": 5}) == {}
