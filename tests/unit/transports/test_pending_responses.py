"""Responses that take time: when they become streams, and what happens when the client disconnects."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.clients.transcripts import Paper, Voice, receive
from tests.support.servers.feature_server import make_desk
from toolcrib.protocol import Reply
from toolcrib.transports.http import request as http_request
from toolcrib.transports.http.endpoint import Endpoint
from toolcrib.transports.http.hosts import HostCheck
from toolcrib.transports.http.request import Head, Request
from toolcrib.transports.http.response import PendingResponse, Response

MODERN = "2026-07-28"


class Client:
    """Hands requests to an endpoint."""

    def __init__(self, endpoint: Endpoint, version: str) -> None:
        self.endpoint = endpoint
        self.voice = Voice(version, {})
        self.session: str | None = None

    def send(self, message: Any = None, method: str = "POST", **more: str) -> Response | PendingResponse:
        fields = {"Host": "127.0.0.1", "Content-Type": "application/json", "Accept": "*/*"}
        fields |= self.voice.headers(message, self.session) | more
        encoded = {name.lower().replace("_", "-").encode(): value.encode() for name, value in fields.items()}
        body = b"" if message is None else json.dumps(message).encode()
        return receive(self.endpoint, Request(Head(method, "/mcp", encoded), body))

    def initialize(self) -> None:
        answer = self.send(self.voice.request("initialize", {"protocolVersion": self.voice.version}))
        assert isinstance(answer, Reply)
        self.session = dict(answer.headers)[b"mcp-session-id"].decode()

    def call(self, tool: str, _token: Any = None, **arguments: Any) -> PendingResponse:
        meta = {} if _token is None else {"progressToken": _token}
        params = {"name": tool, "arguments": arguments}
        response = self.send(self.voice.request("tools/call", params, **meta))
        assert not isinstance(response, Response)
        return response

    async def ask(self, tool: str, **arguments: Any) -> bytes:
        """The whole answer to a call that ends by itself."""
        outcome = self.send(self.voice.request("tools/call", {"name": tool, "arguments": arguments}))
        if isinstance(outcome, Reply):
            return outcome.body
        written = begin(outcome)
        await turn()
        return answered(written).body

    def cancel(self) -> None:
        """Cancel the last request."""
        params = {"requestId": self.voice.number}
        self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    server = make_desk()
    async with server:
        yield Endpoint(server.transports.engine, HostCheck("127.0.0.1"))


@pytest.fixture(params=[MODERN, "2025-11-25"])
def client(request: Any, endpoint: Endpoint) -> Client:
    client = Client(endpoint, request.param)
    if request.param != MODERN:
        client.initialize()
    return client


async def turn(times: int = 20) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


def begin(response: PendingResponse) -> Paper:
    written = Paper()
    response.begin(written)
    return written


def answered(written: Paper) -> Response:
    assert written.answered is not None
    return written.answered


async def test_a_call_without_messages_gets_a_plain_response(client: Client) -> None:
    written = begin(client.call("wait", key="k"))
    await turn()
    assert written.text == b""
    await client.ask("ring", key="k")
    await turn()
    assert b"waited for k" in answered(written).body


async def test_a_call_that_takes_long_becomes_a_stream(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_request, "HOLD_S", 0.01)
    written = begin(client.call("wait", key="k"))
    async with asyncio.timeout(5):
        while not written.text:
            await asyncio.sleep(0.005)
    assert written.text.startswith(b"200 text/event-stream\n")


async def test_a_disconnect_before_any_message_cancels_the_call(client: Client) -> None:
    response = client.call("wait", key="k")
    written = begin(response)
    await turn()
    response.lost()
    await asyncio.sleep(0.01)
    assert b'\\"k\\"' in await client.ask("cancelled")
    assert not written.is_done


async def test_a_disconnect_in_mid_stream_cancels_a_call_that_cannot_be_resumed(client: Client) -> None:
    response = client.call("wait", "t", key="k", news=1)
    begin(response)
    await turn()
    response.lost()
    await asyncio.sleep(0.01)
    assert (b'\\"k\\"' in await client.ask("cancelled")) == (client.session is None)


async def test_a_cancelled_call_without_messages_gets_an_empty_response(
    endpoint: Endpoint,
) -> None:
    client = Client(endpoint, "2025-11-25")
    client.initialize()
    written = begin(client.call("wait", key="k"))
    client.cancel()
    await asyncio.sleep(0.01)
    assert (answered(written).status, answered(written).body) == (202, b"")


async def test_cancelling_a_call_in_mid_stream_ends_its_stream(endpoint: Endpoint) -> None:
    client = Client(endpoint, "2025-11-25")
    client.initialize()
    written = begin(client.call("wait", "t", key="k", news=1))
    await turn()
    client.cancel()
    await asyncio.sleep(0.01)
    assert written.is_done
    assert b'"result"' not in written.text


async def test_of_two_readers_of_a_stream_the_newer_one_goes_on(endpoint: Endpoint) -> None:
    client = Client(endpoint, "2025-11-25")
    client.initialize()
    readers = [begin(client.call("wait", "t", key="k", news=1))]
    await turn()
    for _ in range(2):
        response = client.send(method="GET", Last_Event_ID="1-1")
        assert not isinstance(response, Reply)
        readers.append(begin(response))
    assert [reader.is_done for reader in readers] == [True, True, False]
    client.send(method="DELETE")
    assert readers[2].is_done


async def test_messages_sent_before_there_is_a_writer_come_first(client: Client) -> None:
    """A tool that runs at once has told its news before there was anybody to write to."""
    await client.ask("steps", count=0)  # from now on it is known to need no waiting
    written = begin(client.call("steps", "t", count=2))
    assert written.is_done
    assert written.text.count(b"notifications/progress") == 2
    assert written.text.rstrip().endswith(b"}")
