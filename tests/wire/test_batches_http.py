"""JSON-RPC batches over HTTP, on every lane: 2025-03-26 demands them, no other revision knows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.desk import make_desk
from tests.support.lanes import LANES, Served, serving
from tests.support.older import Answer, Older


@pytest.fixture(scope="module", params=LANES)
def desk(request: Any) -> Iterator[Served]:
    with serving(request.param, make_desk()) as served:
        yield served
        assert not served.complaints


@pytest.fixture
def client(desk: Served) -> Iterator[Older]:
    client = Older(desk.port, "2025-03-26")
    client.initialize()
    yield client
    client.end()
    Answer.leave_all()


def batch(*items: tuple[Any, str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages; those with the id None are notifications."""
    found = []
    for id_, method, params in items:
        message = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
        found.append({key: value for key, value in message.items() if key != "id" or value is not None})
    return found


CALLS = batch(
    (1, "tools/call", {"name": "add", "arguments": {"a": 1}}),
    (None, "notifications/initialized", {}),
    ("two", "ping", {}),
    (3, "tools/call", {"name": "missing"}),
    (4, "nonsense", {}),
)


def test_a_2025_03_26_client_sends_batches(client: Older) -> None:
    replies = client.post(CALLS).json
    assert [reply["id"] for reply in replies] == [1, "two", 3, 4]
    assert replies[0]["result"]["content"][0]["text"] == "2"
    assert [reply["error"]["code"] for reply in replies[2:]] == [-32602, -32601]


def test_calls_of_a_batch_run_side_by_side_and_tell_their_news_on_its_stream(client: Older) -> None:
    waits = {"name": "wait", "arguments": {"key": "batch", "news": 1}, "_meta": {"progressToken": "w"}}
    rings = {"name": "ring", "arguments": {"key": "batch"}}
    heard = client.post(batch((1, "tools/call", waits), (2, "tools/call", rings))).messages()
    assert [item["params"]["progress"] for item in heard[:-1]] == [1, 2]
    assert [item["result"]["content"][0]["text"] for item in heard[-1]] == ["waited for batch", "rung"]


def test_a_call_that_is_cancelled_within_its_batch_has_no_reply(client: Older) -> None:
    messages = batch(
        (1, "tools/call", {"name": "wait", "arguments": {"key": "never"}}),
        (None, "notifications/cancelled", {"requestId": 1}),
        (2, "ping", {}),
    )
    assert [reply["id"] for reply in client.post(messages).json] == [2]
    assert client.call("add", {"a": 1}, id_=1).status == 200  # the id is free again


def test_a_batch_of_notifications_is_taken_without_a_word(client: Older) -> None:
    assert client.post(batch((None, "notifications/initialized", {}), (None, "x", {}))).status == 202


def test_what_is_no_message_is_refused_in_its_place(client: Older) -> None:
    replies = client.post([1, {"jsonrpc": "2.0", "id": 5, "method": "ping"}, {"id": 6}, []]).json
    assert [reply.get("id") for reply in replies] == [None, 5, 6, None]
    assert [reply.get("error", {}).get("code") for reply in replies] == [-32600, None, -32600, -32600]


def test_a_client_without_a_session_sends_batches_too(desk: Served) -> None:
    """It speaks 2025-03-26, unless it says otherwise."""
    client = Older(desk.port)
    assert [reply["id"] for reply in client.post(CALLS).json] == [1, "two", 3, 4]
    assert client.post(CALLS, MCP_Protocol_Version="2025-06-18").code == -32600


@pytest.mark.parametrize(
    "messages", [[], batch((1, "initialize", {"protocolVersion": "2025-03-26"})), CALLS * 30]
)
def test_an_empty_or_long_batch_and_one_that_initializes_is_refused(desk: Served, messages: Any) -> None:
    answer = Older(desk.port).post(messages)
    assert (answer.status, answer.code) == (400, -32600)


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_other_revisions_know_no_batches(desk: Served, version: str) -> None:
    client = Older(desk.port, version)
    client.initialize()
    answer = client.post(CALLS)
    assert (answer.status, answer.code) == (400, -32600)
    client.end()
