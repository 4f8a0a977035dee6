"""What headers repeat of a body: the same, once, in the one spelling there is, or it is refused."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from toolcrib.protocol.headers import TWICE, check_headers, check_parameters
from toolcrib.protocol.messages import HEADER_MISMATCH, Fault

VERSION = "2026-07-28"


def said(method: str = "tools/call", name: bytes | None = b"add", **more: bytes) -> dict[bytes, bytes]:
    """The headers of a request; `more` goes over them, with `_` for `-`."""
    headers = {b"mcp-protocol-version": VERSION.encode(), b"mcp-method": method.encode()}
    if name is not None:
        headers[b"mcp-name"] = name
    return headers | {key.replace("_", "-").encode(): value for key, value in more.items()}


def enclosed(text: str) -> bytes:
    return b"=?base64?" + base64.b64encode(text.encode()) + b"?="


def refusal(headers: dict[bytes, bytes], method: str, params: dict[str, Any]) -> str:
    with pytest.raises(Fault) as raised:
        check_headers(headers, VERSION, method, params)
    assert raised.value.code == HEADER_MISMATCH
    return raised.value.message.removeprefix("Header mismatch: ")


@pytest.mark.parametrize(
    ("headers", "method", "params"),
    [
        (said(), "tools/call", {"name": "add"}),
        (said(mcp_method=b" tools/call\t"), "tools/call", {"name": "add"}),
        (said(name=enclosed("żółw")), "tools/call", {"name": "żółw"}),
        (said(name=" żółw".encode()), "tools/call", {"name": "żółw"}),
        (said(name=enclosed("=?base64?eA==?=")), "tools/call", {"name": "=?base64?eA==?="}),
        (said(name=b"=?base64?="), "tools/call", {"name": "=?base64?="}),
        (said(name=None), "tools/call", {}),
        (said(), "tools/call", {"name": None}),
        (said(name=None), "tools/call", {"name": 5}),
        (said("tools/list", None), "tools/list", {}),
        (said("prompts/get", b"p"), "prompts/get", {"name": "p"}),
        (said("resources/read", b"file:///x"), "resources/read", {"uri": "file:///x"}),
    ],
)
def test_headers_that_say_what_the_body_says_pass(
    headers: dict[bytes, bytes], method: str, params: dict[str, Any]
) -> None:
    check_headers(headers, VERSION, method, params)


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        (said(name=None), "Mcp-Name is missing"),
        (said(name=TWICE), "Mcp-Name is there more than once"),
        (said(name=b"sub"), "Mcp-Name differs from the body"),
        (said(name=enclosed("sub")), "Mcp-Name differs from the body"),
        (said(name=b"\xff"), "Mcp-Name is not text"),
        (said(name=b"=?base64?YWRk_?="), "Mcp-Name is not valid base64 of UTF-8"),
        (said(name=b"=?base64?YWR=?="), "Mcp-Name is not valid base64 of UTF-8"),
        (said(name=b"=?base64?/w==?="), "Mcp-Name is not valid base64 of UTF-8"),
        (said(mcp_method=b"tools/list"), "Mcp-Method differs from the body"),
        (said(mcp_method=enclosed("tools/call")), "Mcp-Method differs from the body"),
        (said(mcp_method=TWICE), "Mcp-Method is there more than once"),
        (said(mcp_protocol_version=b"2025-11-25"), "MCP-Protocol-Version differs from the body"),
        ({b"mcp-method": b"tools/call", b"mcp-name": b"add"}, "MCP-Protocol-Version is missing"),
    ],
)
def test_a_header_that_is_missing_double_or_different_is_refused(
    headers: dict[bytes, bytes], words: str
) -> None:
    assert refusal(headers, "tools/call", {"name": "add"}) == words


def test_a_name_in_a_header_does_not_stand_for_one_that_is_no_text() -> None:
    assert refusal(said(name=b"5"), "tools/call", {"name": 5}) == "Mcp-Name differs from the body"


def test_a_name_that_looks_enclosed_is_not_taken_as_it_is() -> None:
    name = "=?base64?eA==?="
    assert refusal(said(name=name.encode()), "tools/call", {"name": name}) == "Mcp-Name differs from the body"


# --- arguments ---

REGION = {("region",): "Region"}
DEEP = {("where", "region"): "Region"}


@pytest.mark.parametrize(
    ("mirrored", "arguments", "raw"),
    [
        (REGION, {"region": "eu"}, b"eu"),
        (REGION, {"region": "Łódź"}, enclosed("Łódź")),
        (REGION, {"region": 5}, b"5"),
        (REGION, {"region": 5}, b"5.0"),
        (REGION, {"region": 0.5}, b"5e-1"),
        (REGION, {"region": 10**30}, b"1" + b"0" * 30),
        (REGION, {"region": True}, b"true"),
        (REGION, {"region": False}, b"false"),
        (REGION, {"region": None}, None),
        (REGION, {}, None),
        (REGION, None, None),
        (DEEP, {"where": {"region": "eu"}}, b"eu"),
        (DEEP, {"where": "eu"}, None),
    ],
)
def test_an_argument_that_a_header_repeats_passes(
    mirrored: dict[tuple[str, ...], str], arguments: Any, raw: bytes | None
) -> None:
    check_parameters({} if raw is None else {b"mcp-param-region": raw}, mirrored, arguments)


@pytest.mark.parametrize(
    ("arguments", "raw", "words"),
    [
        ({}, b"eu", "is there, but the argument it mirrors is not"),
        ({"region": "eu"}, None, "is missing"),
        ({"region": "eu"}, TWICE, "is there more than once"),
        ({"region": "eu"}, b"us", "differs from the argument it mirrors"),
        ({"region": True}, b"True", "differs from the argument it mirrors"),
        ({"region": False}, b"true", "differs from the argument it mirrors"),
        ({"region": 5}, b"6", "differs from the argument it mirrors"),
        ({"region": 5}, b"+5", "differs from the argument it mirrors"),
        ({"region": 5}, b"0x5", "differs from the argument it mirrors"),
        ({"region": ["eu"]}, b"eu", "differs from the argument it mirrors"),
    ],
)
def test_an_argument_that_a_header_tells_differently_is_refused(
    arguments: Any, raw: bytes | None, words: str
) -> None:
    with pytest.raises(Fault) as raised:
        check_parameters({} if raw is None else {b"mcp-param-region": raw}, REGION, arguments)
    assert raised.value.message == f"Header mismatch: Mcp-Param-Region {words}"
