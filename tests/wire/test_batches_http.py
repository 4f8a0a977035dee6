"""Calls in JSON-RPC batches over HTTP, on both stacks: they run side by side, and there are not too many.

What batches are otherwise is in `test_batches`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.feature_server import make_desk
from tests.support.http_servers import HTTP_STACKS, Served, serving
from tests.support.legacy_client import Answer, Older
from toolcrib.protocol.engine import MAX_BATCH_CALLS


@pytest.fixture(scope="module", params=HTTP_STACKS)
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


def call(id_: int, name: str, token: str | None = None, **arguments: Any) -> dict[str, Any]:
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}


def test_calls_run_side_by_side_and_tell_their_news_on_the_stream_of_their_batch(client: Older) -> None:
    """The first ends because the second does something."""
    heard = client.post([call(1, "wait", "w", key="batch", news=1), call(2, "ring", key="batch")]).messages()
    assert [item["params"]["progress"] for item in heard[:-1]] == [1, 2]
    assert [item["result"]["content"][0]["text"] for item in heard[-1]] == ["waited for batch", "rung"]


def test_a_call_that_is_cancelled_within_its_batch_has_no_reply(client: Older) -> None:
    stop = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    replies = client.post([call(1, "wait", key="never"), stop, call(2, "add", a=1)]).json
    assert [reply["id"] for reply in replies] == [2]
    assert client.call("add", {"a": 1}, id_=1).status == 200  # the id is free again


def test_a_call_of_a_batch_is_cancelled_by_another_request(client: Older) -> None:
    answer = client.post([call(1, "wait", "w", key="not this one", news=1), call(2, "add", a=1)])
    assert answer.event() is not None
    client.cancel(1)
    (replies,) = answer.messages()
    assert [reply["id"] for reply in replies] == [2]


def test_a_batch_has_so_many_calls_and_no_more(client: Older) -> None:
    calls = [call(number, "add", a=number) for number in range(MAX_BATCH_CALLS + 1)]
    assert len(client.post(calls[1:]).json) == MAX_BATCH_CALLS
    refused = client.post(calls)
    assert (refused.status, refused.code) == (400, -32600)
    assert "more than 20 calls" in refused.json["error"]["message"]
