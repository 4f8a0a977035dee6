"""Headers that repeat what a request says: spelt so that they arrive, and only where they are allowed."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.client.http import argument_headers, headers_for, to_header
from toolcrib.validation.schema_tree import mirrored_parameters

STRING = {"type": "string", "x-mcp-header": "A"}


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


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


def test_marks_are_found_below_properties_only() -> None:
    schema = an_object(
        a=STRING, b=an_object(c={"type": "integer", "x-mcp-header": "C"}), d={"type": "string"}
    )
    assert mirrored_parameters(schema) == {("a",): "A", ("b", "c"): "C"}
    assert mirrored_parameters({"type": "object"}) == {}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "x-mcp-header": "A"},
        an_object(a={"type": "array", "items": STRING}),
        {"type": "object", "anyOf": [an_object(a=STRING)]},
        {"type": "object", "$defs": {"x": STRING}},
        {"type": "object", "if": an_object(a=STRING)},
        {"type": "object", "additionalProperties": STRING},
        an_object(a={**STRING, "type": "number"}),
        an_object(a={**STRING, "type": ["string"]}),
        an_object(a={"x-mcp-header": "A"}),
        an_object(a={"type": "string", "x-mcp-header": ""}),
        an_object(a={"type": "string", "x-mcp-header": "a b"}),
        an_object(a={"type": "string", "x-mcp-header": "a\n"}),
        an_object(a={"type": "string", "x-mcp-header": 5}),
        an_object(a=STRING, b={"type": "string", "x-mcp-header": "a"}),
    ],
)
def test_a_mark_that_must_not_be_followed_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError, match="x-mcp-header"):
        mirrored_parameters(schema)


def test_data_is_not_a_place_for_marks() -> None:
    assert (
        mirrored_parameters(
            an_object(a={"type": "string", "default": STRING, "enum": [STRING], "const": STRING})
        )
        == {}
    )


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
