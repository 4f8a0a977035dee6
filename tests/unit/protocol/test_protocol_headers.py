"""Headers that repeat parts of a body, and how exactly."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.protocol.messages import HEADER_MISMATCH, RPCError
from toolcrib.protocol.modern import REPEATED, check_headers, check_parameters

VERSION = b"2026-07-28"
CALL = {b"mcp-protocol-version": VERSION, b"mcp-method": b"tools/call"}


@pytest.mark.parametrize(
    ("headers", "name", "words"),
    [
        ({}, "add", "MCP-Protocol-Version is missing"),
        ({b"mcp-protocol-version": VERSION}, "add", "Mcp-Method is missing"),
        ({**CALL, b"mcp-method": REPEATED}, "add", "Mcp-Method is there more than once"),
        (CALL, "add", "Mcp-Name is missing"),
        ({**CALL, b"mcp-name": REPEATED}, "add", "Mcp-Name is there more than once"),
        ({**CALL, b"mcp-name": b"sub"}, "add", "Mcp-Name differs from the body"),
        ({**CALL, b"mcp-name": b"5"}, 5, "Mcp-Name differs from the body"),
        ({**CALL, b"mcp-name": b"\xe9"}, "add", "Mcp-Name is not text"),
        ({**CALL, b"mcp-name": b"=?base64?YWR?="}, "add", "Mcp-Name is not valid base64 of UTF-8"),
    ],
)
def test_anything_that_is_wrong_with_a_header_is_said(
    headers: dict[bytes, bytes], name: Any, words: str
) -> None:
    with pytest.raises(RPCError) as caught:
        check_headers(headers, "2026-07-28", "tools/call", {"name": name})
    assert (caught.value.code, caught.value.message) == (HEADER_MISMATCH, f"Header mismatch: {words}")


def check_name(header: bytes, name: str, method: str = "tools/call") -> None:
    headers = {b"mcp-protocol-version": VERSION, b"mcp-method": method.encode(), b"mcp-name": header}
    check_headers(headers, "2026-07-28", method, {"name": name})
    check_parameters({b"mcp-param-city": header}, {("city",): "City"}, {"city": name})


@pytest.mark.parametrize("method", ["tools/call", "prompts/get"])
@pytest.mark.parametrize(
    ("header", "name"),
    [
        (b"add", "add"),
        (b" \tadd\t ", "add"),
        (b"=?base64?YWRk?=", "add"),
        (b"=?base64?PT9iYXNlNjQ/WVdSaz89?=", "=?base64?YWRk?="),
        (b"=?base64?=", "=?base64?="),  # what would open it would close it, too
        (b"=?base64?YWRk", "=?base64?YWRk"),
        (b"=?base64??=", ""),
    ],
)
def test_a_name_is_the_same_as_it_is_or_in_base64(header: bytes, name: str, method: str) -> None:
    check_name(header, name, method)


@pytest.mark.parametrize("method", ["tools/call", "prompts/get"])
@pytest.mark.parametrize(
    ("header", "name"),
    [
        (b"Xadd", "add"),
        (b"addX", "add"),
        (b"\nadd", "add"),
        (b"=?base64?YWRk?=", "=?base64?YWRk?="),  # a client that reads the header reads `add`
        (b"=?base64?=", ""),
    ],
)
def test_a_name_that_a_reader_of_headers_takes_for_another_is_refused(
    header: bytes, name: str, method: str
) -> None:
    with pytest.raises(RPCError, match=r"Mcp-Name differs from the body$"):
        check_name(header, name, method)


@pytest.mark.parametrize(
    ("headers", "arguments", "words"),
    [
        ({}, {"a": {"b": "x"}}, "is missing"),
        ({b"mcp-param-city": b"x"}, {"a": {}}, "is there, but the argument it mirrors is not"),
        ({b"mcp-param-city": b"x"}, {"a": 5}, "is there, but the argument it mirrors is not"),
        ({b"mcp-param-city": b"y"}, {"a": {"b": "x"}}, "differs from the argument it mirrors"),
        ({b"mcp-param-city": REPEATED}, {"a": {"b": "x"}}, "is there more than once"),
    ],
)
def test_anything_that_is_wrong_with_a_mirrored_argument_is_said(
    headers: dict[bytes, bytes], arguments: Any, words: str
) -> None:
    mirrored = {("a", "b"): "City"}
    with pytest.raises(RPCError) as caught:
        check_parameters(headers, mirrored, arguments)
    assert caught.value.message == f"Header mismatch: Mcp-Param-City {words}"
    check_parameters({b"mcp-param-city": b"x"}, mirrored, {"a": {"b": "x"}})
    check_parameters({}, mirrored, {"a": {"b": None}})


@pytest.mark.parametrize(("method", "key"), [("prompts/get", "name"), ("resources/read", "uri")])
def test_other_methods_have_what_they_name_in_a_header_too(method: str, key: str) -> None:
    headers = {b"mcp-protocol-version": VERSION, b"mcp-method": method.encode(), b"mcp-name": b"a"}
    check_headers(headers, "2026-07-28", method, {key: "a"})
    with pytest.raises(RPCError, match=r"Mcp-Name differs from the body$"):
        check_headers(headers, "2026-07-28", method, {key: "b"})
