"""JSON-RPC batches: 2025-03-26 demands them, over every transport; no other revision knows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.http_servers import Served
from tests.support.stdio_program import Program
from tests.wire.cases import METHOD, OMIT, PARAMS, REQUEST, call, encode, legacy, message, modern
from tests.wire.speech import open_session

OLD = "2025-03-26"
PING = message("ping", id_=1)
Send = Callable[[Any], Any]


@pytest.fixture(scope="module")
def pipe() -> Iterator[Program]:
    with Program("stdio") as program:
        assert program.ask([PING])["error"]["code"] == REQUEST  # it is not known yet who speaks
        start = legacy("initialize", protocolVersion=OLD, capabilities={})
        assert program.ask(start)["result"]["protocolVersion"] == OLD
        yield program
        assert "Traceback" not in program.errors


@pytest.fixture(params=["session", "sessionless", "silent about its version", "stdio"])
def send(request: Any, site: Served, pipe: Program) -> Iterator[Send]:
    """Sends over every transport; None where nothing comes back."""

    def write(items: Any) -> Any:
        replies = pipe.replies_to(encode(items), expected=1 if _has_reply(items) else 0)
        assert len(replies) <= 1
        return replies[0] if replies else None

    if request.param == "stdio":
        yield write
        return
    with site.connect() as peer:
        headers = {} if request.param.startswith("silent") else {"MCP-Protocol-Version": OLD}
        if request.param == "session":
            headers["Mcp-Session-Id"] = open_session(peer, OLD)

        def post(items: Any) -> Any:
            response = peer.post(encode(items), headers)
            assert response.status == (202 if not response.body else 400 if response.code == REQUEST else 200)
            return response.json if response.body else None

        yield post


def _has_reply(items: list[Any]) -> bool:
    return not items or any(not isinstance(item, dict) or "id" in item for item in items)


def test_replies_come_together_in_the_order_of_the_requests(send: Send) -> None:
    notice = message("notifications/initialized", id_=OMIT)
    calls = [call("legacy", "echo", {"value": 5}) | {"id": "three"}, call("legacy", "add", {}) | {"id": 4}]
    replies = send([PING, notice, message("nothing", id_=2), *calls, message("tools/list", id_=5)])
    assert [reply["id"] for reply in replies] == [1, 2, "three", 4, 5]
    assert replies[0]["result"] == {}
    assert replies[1]["error"]["code"] == METHOD
    assert replies[2]["result"]["content"][0]["text"] == '{"echo":5}'
    assert replies[3]["error"]["code"] == PARAMS
    assert "tools" in replies[4]["result"]


def test_a_batch_of_notifications_has_no_reply(send: Send) -> None:
    notice = message("notifications/initialized", id_=OMIT)
    assert send([notice, notice]) is None


@pytest.mark.parametrize(
    ("items", "count"),
    [
        ([1, None, "x"], 3),
        ([[PING]], 1),
        ([{}], 1),
        ([{"jsonrpc": "2.0", "id": None, "method": "ping"}], 1),
        ([{"jsonrpc": "1.0", "method": "ping"}], 1),
    ],
)
def test_what_is_no_message_is_refused_by_itself(send: Send, items: list[Any], count: int) -> None:
    replies = send([*items, PING])
    assert [reply["error"]["code"] for reply in replies[:-1]] == [REQUEST] * count
    assert all("id" not in reply for reply in replies[:-1])
    assert replies[-1] == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.parametrize(
    "items",
    [
        [],
        [legacy("initialize", protocolVersion=OLD, capabilities={}), PING],
        [modern(), PING],
        [message("ping", id_=number) for number in range(101)],
    ],
    ids=["empty", "with initialize", "with a modern request", "too long"],
)
def test_some_batches_are_refused_as_a_whole(send: Send, items: list[Any]) -> None:
    reply = send(items)
    assert reply["error"]["code"] == REQUEST
    assert "id" not in reply


def test_a_hundred_messages_are_taken(send: Send) -> None:
    assert len(send([message("ping", id_=number) for number in range(100)])) == 100


def test_two_calls_of_one_id_are_both_answered(send: Send) -> None:
    one = call("legacy", "echo", {"value": 1})
    replies = send([one, one])
    assert [reply["id"] for reply in replies] == [7, 7]
    assert "result" in replies[0]
    assert "result" in replies[1] or replies[1]["error"]["code"] == REQUEST
    assert "result" in send([one])[0]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_other_sessions_take_no_batches(site: Served, version: str) -> None:
    with site.connect() as peer:
        session = open_session(peer, version)
        response = peer.post(encode([PING]), {"Mcp-Session-Id": session})
        assert (response.status, response.code) == (400, REQUEST)
