"""The envelopes of the wire, byte by byte, and which ids a request may have."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.protocol import messages
from toolcrib.protocol.messages import INVALID_REQUEST, MAX_ID, RPCError


@pytest.mark.parametrize("value", [0, -1, 10**30, "", "a", "a" * MAX_ID, "\u00e9" * (MAX_ID // 2)])
def test_an_id_is_an_integer_or_a_short_text(value: Any) -> None:
    assert messages.check_id(value) == value


@pytest.mark.parametrize("value", ["a" * (MAX_ID + 1), "\u00e9" * (MAX_ID // 2 + 1)])
def test_an_id_is_no_longer_than_it_may_be(value: str) -> None:
    with pytest.raises(RPCError) as caught:
        messages.check_id(value)
    assert (caught.value.code, caught.value.status) == (INVALID_REQUEST, 400)
    assert caught.value.message == "Invalid request: the id is longer than 256 bytes"


@pytest.mark.parametrize("value", [None, True, 1.5, [], {}])
def test_nothing_else_is_an_id(value: Any) -> None:
    with pytest.raises(RPCError) as caught:
        messages.check_id(value)
    assert caught.value.message == "Invalid request: the id must be a string or an integer"


def test_replies_and_errors_say_whose_they_are() -> None:
    assert messages.encode_result(7, b"{}") == b'{"jsonrpc":"2.0","id":7,"result":{}}'
    assert messages.encode_result('a"b', b"{}") == b'{"jsonrpc":"2.0","id":"a\\"b","result":{}}'
    fault = RPCError(INVALID_REQUEST, "No.", data={"why": 1}, status=418)
    error = b'"error":{"code":-32600,"message":"No.","data":{"why":1}}'
    assert messages.encode_error(7, fault) == b'{"jsonrpc":"2.0","id":7,' + error + b"}"
    assert messages.encode_error(None, fault) == b'{"jsonrpc":"2.0",' + error + b"}"
    assert (
        messages.encode_error(7, RPCError(-1, "No."))
        == b'{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"No."}}'
    )


def test_a_refusal_has_the_status_of_its_fault_unless_another_is_given() -> None:
    fault = RPCError(INVALID_REQUEST, "No.", status=418)
    plain, other = messages.error_reply(7, fault), messages.error_reply(7, fault, status=200)
    assert (plain.status, plain.headers, other.status) == (418, (), 200)
    assert plain.body == other.body == messages.encode_error(7, fault)


def test_notifications_and_requests_are_written_out() -> None:
    assert messages.encode_notification("m") == b'{"jsonrpc":"2.0","method":"m"}'
    assert messages.encode_notification("m", {"a": 1}) == b'{"jsonrpc":"2.0","method":"m","params":{"a":1}}'


def test_anything_that_is_taken_without_an_answer_is_accepted() -> None:
    assert (messages.ACCEPTED.body, messages.ACCEPTED.status, messages.ACCEPTED.headers) == (None, 202, ())


def test_names_codes_and_levels_are_those_of_the_specification() -> None:
    codes = {
        name: value
        for name, value in vars(messages).items()
        if type(value) is int and value < 0 and name.isupper()
    }
    assert codes == {
        "PARSE_ERROR": -32700,
        "INVALID_REQUEST": -32600,
        "METHOD_NOT_FOUND": -32601,
        "INVALID_PARAMS": -32602,
        "INTERNAL_ERROR": -32603,
        "HEADER_MISMATCH": -32020,
        "MISSING_CAPABILITY": -32021,
        "UNSUPPORTED_VERSION": -32022,
    }
    names = ("VERSION", "CAPABILITIES", "LOG_LEVEL", "SERVER_INFO", "SUBSCRIPTION")
    assert [getattr(messages, name) for name in names] == [
        "io.modelcontextprotocol/protocolVersion",
        "io.modelcontextprotocol/clientCapabilities",
        "io.modelcontextprotocol/logLevel",
        "io.modelcontextprotocol/serverInfo",
        "io.modelcontextprotocol/subscriptionId",
    ]
    levels = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
    assert levels == messages.LEVELS
