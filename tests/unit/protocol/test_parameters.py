"""The shapes that both eras ask of parameters, and the words for those that are none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from toolcrib.protocol.calls import Exchange, Link, check_cursor, check_token, named_call, register
from toolcrib.protocol.messages import INVALID_PARAMS, INVALID_REQUEST, Fault

Check = Callable[[Mapping[str, Any]], Any]
NAMELESS = "name is required, and must be a string"
NO_OBJECT = "arguments must be an object"
NO_CURSOR = "cursor must be a string"
NO_TOKEN = "progressToken must be a string or an integer"


@pytest.mark.parametrize(
    ("check", "params", "found"),
    [
        (named_call, {"name": "add"}, ("add", None)),
        (named_call, {"name": "", "arguments": {}}, ("", {})),
        (named_call, {"name": "add", "arguments": {"a": 1}, "more": 5}, ("add", {"a": 1})),
        (check_cursor, {}, None),
        (check_cursor, {"cursor": ""}, ""),
        (check_token, {}, None),
        (check_token, {"progressToken": "a"}, "a"),
        (check_token, {"progressToken": 0}, 0),
    ],
)
def test_what_has_the_right_shape_is_taken(check: Check, params: Mapping[str, Any], found: Any) -> None:
    assert check(params) == found


@pytest.mark.parametrize(
    ("check", "params", "words"),
    [
        (named_call, {}, NAMELESS),
        (named_call, {"name": None}, NAMELESS),
        (named_call, {"name": 5, "arguments": {}}, NAMELESS),
        (named_call, {"name": "add", "arguments": None}, NO_OBJECT),
        (named_call, {"name": "add", "arguments": [1]}, NO_OBJECT),
        (check_cursor, {"cursor": None}, NO_CURSOR),
        (check_cursor, {"cursor": 5}, NO_CURSOR),
        (check_token, {"progressToken": None}, NO_TOKEN),
        (check_token, {"progressToken": True}, NO_TOKEN),
        (check_token, {"progressToken": 1.5}, NO_TOKEN),
    ],
)
def test_what_has_not_is_refused_in_words(check: Check, params: Mapping[str, Any], words: str) -> None:
    with pytest.raises(Fault) as caught:
        check(params)
    fault = caught.value
    assert (fault.code, fault.message, fault.status) == (INVALID_PARAMS, f"Invalid params: {words}", 200)


def test_an_id_is_under_way_once() -> None:
    link = Link(inflight={})
    first, again, other = Exchange(link, 1), Exchange(link, 1), Exchange(link, "1")
    register(first)
    register(other)
    with pytest.raises(Fault) as caught:
        register(again)
    words = "Invalid request: a request of this id is under way"
    assert (caught.value.code, caught.value.message) == (INVALID_REQUEST, words)
    assert link.inflight == {1: first, "1": other}
    first.close()
    register(again)


def test_where_nothing_can_be_cancelled_nothing_is_noted() -> None:
    register(Exchange(Link(), 1))
    register(Exchange(Link(), 1))
