"""The shapes that both eras ask of parameters, and the words for those that are none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from toolcrib.protocol.calls import Peer, PendingRequest, read_call, read_token
from toolcrib.protocol.lists import read_cursor
from toolcrib.protocol.messages import INVALID_PARAMS, INVALID_REQUEST, RPCError

Check = Callable[[Mapping[str, Any]], Any]
NAMELESS = "name is required, and must be a string"
NO_OBJECT = "arguments must be an object"
NO_CURSOR = "cursor must be a string"
NO_TOKEN = "progressToken must be a string or an integer"


@pytest.mark.parametrize(
    ("check", "params", "found"),
    [
        (read_call, {"name": "add"}, ("add", None)),
        (read_call, {"name": "", "arguments": {}}, ("", {})),
        (read_call, {"name": "add", "arguments": {"a": 1}, "more": 5}, ("add", {"a": 1})),
        (read_cursor, {}, None),
        (read_cursor, {"cursor": ""}, ""),
        (read_token, {}, None),
        (read_token, {"progressToken": "a"}, "a"),
        (read_token, {"progressToken": 0}, 0),
    ],
)
def test_anything_that_has_the_right_shape_is_taken(
    check: Check, params: Mapping[str, Any], found: Any
) -> None:
    assert check(params) == found


@pytest.mark.parametrize(
    ("check", "params", "words"),
    [
        (read_call, {}, NAMELESS),
        (read_call, {"name": None}, NAMELESS),
        (read_call, {"name": 5, "arguments": {}}, NAMELESS),
        (read_call, {"name": "add", "arguments": None}, NO_OBJECT),
        (read_call, {"name": "add", "arguments": [1]}, NO_OBJECT),
        (read_cursor, {"cursor": None}, NO_CURSOR),
        (read_cursor, {"cursor": 5}, NO_CURSOR),
        (read_token, {"progressToken": None}, NO_TOKEN),
        (read_token, {"progressToken": True}, NO_TOKEN),
        (read_token, {"progressToken": 1.5}, NO_TOKEN),
    ],
)
def test_anything_that_has_not_is_refused_in_words(
    check: Check, params: Mapping[str, Any], words: str
) -> None:
    with pytest.raises(RPCError) as caught:
        check(params)
    fault = caught.value
    assert (fault.code, fault.message, fault.status) == (INVALID_PARAMS, f"Invalid params: {words}", 200)


def test_an_id_is_under_way_once() -> None:
    link = Peer(inflight={})
    first, again, other = PendingRequest(link, 1), PendingRequest(link, 1), PendingRequest(link, "1")
    first.register()
    other.register()
    with pytest.raises(RPCError) as caught:
        again.register()
    words = "Invalid request: a request with this id is in progress"
    assert (caught.value.code, caught.value.message) == (INVALID_REQUEST, words)
    assert link.inflight == {1: first, "1": other}
    first.close()
    again.register()


def test_where_nothing_can_be_cancelled_nothing_is_noted() -> None:
    PendingRequest(Peer(), 1).register()
    PendingRequest(Peer(), 1).register()
