"""The pieces of JSON-RPC: ids as they came, replies, errors and what is told without being asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcrib.protocol.exchange import Exchange, Link
from toolcrib.protocol.messages import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    MAX_ID,
    Fault,
    check_id,
    error_bytes,
    notification_bytes,
    refusal,
    request_bytes,
    result_bytes,
)
from toolcrib.protocol.parameters import check_cursor, check_token, named_call, register


@pytest.mark.parametrize("value", [0, -1, 2**70, "", "a", "ż", "x" * MAX_ID])
def test_an_id_goes_back_as_it_came(value: Any) -> None:
    assert check_id(value) == value
    assert json.loads(result_bytes(value, b"{}")) == {"jsonrpc": "2.0", "id": value, "result": {}}


@pytest.mark.parametrize("value", [None, True, 1.0, [], {}, "x" * (MAX_ID + 1), "ż" * MAX_ID])
def test_what_is_no_id_is_refused(value: Any) -> None:
    with pytest.raises(Fault) as raised:
        check_id(value)
    assert raised.value.code == INVALID_REQUEST


def test_an_error_says_what_there_is_to_say() -> None:
    assert json.loads(error_bytes(None, Fault(-1, "no"))) == {
        "jsonrpc": "2.0",
        "error": {"code": -1, "message": "no"},
    }
    assert json.loads(error_bytes("a", Fault(-1, "no", data={"x": 1}))) == {
        "jsonrpc": "2.0",
        "id": "a",
        "error": {"code": -1, "message": "no", "data": {"x": 1}},
    }


def test_a_refusal_has_the_status_of_its_fault_unless_another_is_given() -> None:
    fault = Fault(-1, "no", status=404)
    assert refusal(1, fault).status == 404
    assert refusal(1, fault, status=200).status == 200


def test_what_is_told_has_parameters_only_where_it_has_some() -> None:
    assert json.loads(notification_bytes("n")) == {"jsonrpc": "2.0", "method": "n"}
    assert json.loads(notification_bytes("n", {})) == {"jsonrpc": "2.0", "method": "n", "params": {}}
    assert json.loads(request_bytes("q", "m", {"a": 1})) == {
        "jsonrpc": "2.0",
        "id": "q",
        "method": "m",
        "params": {"a": 1},
    }


# --- parameters ---


def test_a_call_names_a_tool_and_may_leave_its_arguments_out() -> None:
    assert named_call({"name": "add"}) == ("add", None)
    assert named_call({"name": "", "arguments": {"a": 1}}) == ("", {"a": 1})


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "name is required"),
        ({"name": 5}, "name is required"),
        ({"name": "add", "arguments": None}, "arguments must be an object"),
        ({"name": "add", "arguments": []}, "arguments must be an object"),
    ],
)
def test_a_call_that_is_none_is_refused(params: dict[str, Any], words: str) -> None:
    with pytest.raises(Fault, match=words) as raised:
        named_call(params)
    assert (raised.value.code, raised.value.status) == (INVALID_PARAMS, 200)


def test_a_cursor_and_a_token_are_what_they_may_be_or_not_there() -> None:
    assert check_cursor({}) is None
    assert check_cursor({"cursor": ""}) == ""
    assert check_token({}) is None
    assert [check_token({"progressToken": value}) for value in ("", 0)] == ["", 0]


@pytest.mark.parametrize("value", [None, 5, [], True])
def test_a_cursor_that_is_no_text_is_refused(value: Any) -> None:
    with pytest.raises(Fault, match="cursor must be a string"):
        check_cursor({"cursor": value})


@pytest.mark.parametrize("value", [None, 5.0, [], True])
def test_a_token_that_is_neither_text_nor_whole_is_refused(value: Any) -> None:
    with pytest.raises(Fault, match="progressToken must be a string or an integer"):
        check_token({"progressToken": value})


def test_an_id_is_under_way_once() -> None:
    link = Link(inflight={})
    first = Exchange(link, 1)
    register(first)
    with pytest.raises(Fault, match="a request of this id is under way"):
        register(Exchange(link, 1))
    first.close()
    register(Exchange(link, 1))


def test_who_cannot_cancel_by_id_may_use_one_twice() -> None:
    link = Link()
    for _ in range(2):
        register(Exchange(link, 1))
