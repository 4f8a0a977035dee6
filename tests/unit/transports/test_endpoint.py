"""The endpoint: what a request comes to before any message is read, and whose session it may use."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.clients.transcripts import receive
from tests.support.servers.feature_server import make_desk
from toolcrib.context import Principal
from toolcrib.protocol import Reply
from toolcrib.protocol.calls import MAX_RUNNING
from toolcrib.protocol.sessions import Sessions
from toolcrib.transports.http.endpoint import Endpoint
from toolcrib.transports.http.hosts import HostCheck
from toolcrib.transports.http.request import MAX_CACHED_HEAD, MAX_CACHED_HEADS, Head, HeadCache, Request
from toolcrib.transports.http.response import PendingResponse, Response

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}},
}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "missing", "arguments": {}}}
HEADERS = {
    b"host": b"127.0.0.1",
    b"content-type": b"application/json",
    b"accept": b"application/json, text/event-stream",
}


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    server = make_desk()
    async with server:
        yield Endpoint(server.transports.engine, HostCheck("127.0.0.1"))


def send(
    endpoint: Endpoint, message: Any = None, method: str = "POST", path: str = "/mcp", **headers: str
) -> Response | PendingResponse:
    fields = {name.lower().replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    body = b"" if message is None else json.dumps(message).encode()
    path, _, query = path.partition("?")
    who = Principal(headers.get("X_Name", "nobody"))
    request = Request(Head(method, path, {**HEADERS, **fields}, query), body, scope={"root_path": "/at"})
    request.principal = who
    return receive(endpoint, request)


def status(outcome: Response | PendingResponse) -> int:
    assert isinstance(outcome, Reply)
    return outcome.status


async def test_a_call_above_the_limit_of_calls_is_told_to_come_back(endpoint: Endpoint) -> None:
    endpoint.engine.running = MAX_RUNNING - 1
    assert status(send(endpoint, CALL)) == 200
    endpoint.engine.running = MAX_RUNNING
    answer = send(endpoint, CALL)
    assert isinstance(answer, Response)
    assert (answer.status, dict(answer.headers)[b"retry-after"]) == (503, b"1")


def open_session(endpoint: Endpoint, name: str) -> str:
    answer = send(endpoint, INITIALIZE, X_Name=name)
    assert isinstance(answer, Reply)
    return dict(answer.headers)[b"mcp-session-id"].decode()


def test_a_session_is_for_anyone_who_opened_it(endpoint: Endpoint) -> None:
    session = open_session(endpoint, "ada")
    for method, message in (("POST", PING), ("GET", None), ("DELETE", None)):
        assert status(send(endpoint, message, method, X_Name="eve", Mcp_Session_Id=session)) == 404
        assert status(send(endpoint, message, method, Mcp_Session_Id=session)) == 404
    assert status(send(endpoint, PING, X_Name="ada", Mcp_Session_Id=session)) == 200


def test_everybody_has_a_share_of_sessions(endpoint: Endpoint) -> None:
    endpoint.engine.sessions = Sessions(lambda: 0.0, limit=4, per_principal=2)
    mine = [open_session(endpoint, "ada") for _ in range(3)]
    assert [status(send(endpoint, PING, X_Name="ada", Mcp_Session_Id=item)) for item in mine] == [
        404,
        200,
        200,
    ]
    theirs = {name: open_session(endpoint, name) for name in ("eve", "bob", "dan")}
    assert status(send(endpoint, PING, X_Name="ada", Mcp_Session_Id=mine[1])) == 404
    for name, item in theirs.items():
        assert status(send(endpoint, PING, X_Name=name, Mcp_Session_Id=item)) == 200


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_the_path_may_end_with_a_slash(endpoint: Endpoint, path: str) -> None:
    assert status(send(endpoint, PING, path=path)) == 200


@pytest.mark.parametrize("path", ["/", "/mcp/x", "/MCP", "//mcp", "/mcp%2f"])
def test_elsewhere_there_is_nothing(endpoint: Endpoint, path: str) -> None:
    assert status(send(endpoint, PING, path=path)) == 404


@pytest.mark.parametrize("method", ["PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "BREW" * 100])
def test_other_methods_are_told_which_there_are(endpoint: Endpoint, method: str) -> None:
    answer = send(endpoint, PING, method)
    assert isinstance(answer, Reply)
    assert (answer.status, answer.headers) == (405, ((b"allow", b"GET, POST, DELETE"),))
    assert len(answer.body) < 200


def test_anyone_who_comes_while_the_server_stops_is_told_to_come_later(endpoint: Endpoint) -> None:
    session = open_session(endpoint, "ada")
    endpoint.is_draining = True
    for answer in (
        send(endpoint, PING),
        send(endpoint, method="GET", X_Name="ada", Mcp_Session_Id=session),
        send(endpoint, method="GET", path="/sse"),
    ):
        assert isinstance(answer, Reply)
        assert (answer.status, answer.closes) == (503, True)
        assert (b"retry-after", b"1") in answer.headers


def test_the_cache_of_heads_is_bounded_in_number_and_size() -> None:
    heads, head = HeadCache(), Head("POST", "/mcp", {})
    for number in range(2 * MAX_CACHED_HEADS + 1):
        heads.store(number, 100, head)
        assert len(heads) <= MAX_CACHED_HEADS
    heads.store("long", MAX_CACHED_HEAD + 1, head)
    assert "long" not in heads


def test_a_server_that_keeps_no_sessions_says_so() -> None:
    server = make_desk(keeps_sessions=False)
    endpoint = Endpoint(server.transports.engine, HostCheck("127.0.0.1"))
    assert status(send(endpoint, INITIALIZE)) == 200
    assert status(send(endpoint, PING, Mcp_Session_Id="anything")) == 404
