"""B6: two requests of one id at the same time: both are answered, or the second is refused; nobody hangs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.clients.raw_http_client import request
from tests.support.servers.http_servers import Served
from tests.support.servers.stdio_program import Program
from tests.wire.cases import REQUEST, call, encode, headers_for
from tests.wire.sending import open_session


def _wait(era: str, key: str) -> Any:
    return call(era, "wait", {"key": key})


@pytest.mark.parametrize("place", ["modern", "sessionless", "session"])
def test_one_id_twice_over_http(site: Served, place: str) -> None:
    era = "modern" if place == "modern" else "legacy"
    key = f"{site.http_stack}-{place}"
    with site.connect() as first, site.connect() as second, site.connect() as other:
        headers = {"Mcp-Session-Id": open_session(other)} if place == "session" else {}
        body = encode(_wait(era, key))
        if era == "modern":
            headers = headers_for(body)
        first.send(request(body, headers))
        if place == "session":
            _await_refusal(second, encode(call(era, "echo", {"value": 1})), headers)
        else:
            second.send(request(body, headers))
        other.post(encode(call("legacy", "release", {"key": key}) | {"id": "release"}))
        answers = [first.read()] if place == "session" else [first.read(), second.read()]
        for answer in answers:
            assert answer.messages[-1]["id"] == 7
            assert answer.result["content"][0]["text"] == f"waited for {key}"
        again = second.post(body, headers)
        assert again.result["content"][0]["text"] == f"waited for {key}"


def _await_refusal(peer: Any, body: bytes, headers: dict[str, str]) -> None:
    """The second is refused as soon as the first, on another connection, has arrived."""
    for _ in range(1_000):
        response = peer.post(body, headers)
        if response.code == REQUEST:
            assert (response.status, response.json["id"]) == (400, 7)
            return
    raise AssertionError("both were taken")


def test_two_clients_may_use_the_same_ids(site: Served) -> None:
    key = f"{site.http_stack}-two"
    with site.connect() as first, site.connect() as second, site.connect() as other:
        for peer in (first, second):
            session = open_session(other)
            peer.send(request(encode(_wait("legacy", key)), {"Mcp-Session-Id": session}))
        other.post(encode(call("legacy", "release", {"key": key})))
        for peer in (first, second):
            assert peer.read().messages[-1]["result"]["content"][0]["text"] == f"waited for {key}"


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_one_id_twice_over_stdio(stdio: Program, era: str) -> None:
    stdio.send(encode(_wait(era, era)))
    (refused,) = stdio.replies_to(encode(call(era, "echo", {"value": 1})), expected=1)
    assert (refused["id"], refused["error"]["code"]) == (7, REQUEST)
    stdio.send(encode(call(era, "release", {"key": era}) | {"id": "release"}))
    replies = {reply["id"]: reply for reply in (stdio.read(), stdio.read())}
    assert replies[7]["result"]["content"][0]["text"] == f"waited for {era}"
    assert replies["release"]["result"]["content"][0]["text"] == "released"
    (answered,) = stdio.replies_to(encode(call(era, "echo", {"value": 1})), expected=1)
    assert answered["result"]["isError"] is False


def test_ids_of_other_types_are_others(stdio: Program) -> None:
    stdio.send(encode(_wait("modern", "types") | {"id": 8}))
    (answered,) = stdio.replies_to(encode(call("modern", "echo", {"value": 1}) | {"id": "8"}), expected=1)
    assert answered["id"] == "8"
    stdio.send(encode(call("modern", "release", {"key": "types"}) | {"id": "r"}))
    assert {stdio.read()["id"], stdio.read()["id"]} == {8, "r"}
