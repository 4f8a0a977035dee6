"""Answers that take time: when they become streams, and what becomes of them when the client goes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.feature_server import make_desk
from tests.support.transcripts import Paper, Voice, receive
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
        talk = self.send(self.voice.request("tools/call", params, **meta))
        assert not isinstance(talk, Response)
        return talk

    async def ask(self, tool: str, **arguments: Any) -> bytes:
        """The whole answer to a call that ends by itself."""
        outcome = self.send(self.voice.request("tools/call", {"name": tool, "arguments": arguments}))
        if isinstance(outcome, Reply):
            return outcome.body
        paper = begin(outcome)
        await turn()
        return answered(paper).body

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


def begin(talk: PendingResponse) -> Paper:
    paper = Paper()
    talk.begin(paper)
    return paper


def answered(paper: Paper) -> Response:
    assert paper.answered is not None
    return paper.answered


async def test_a_call_without_news_is_answered_when_it_ends(client: Client) -> None:
    paper = begin(client.call("wait", key="k"))
    await turn()
    assert paper.text == b""
    await client.ask("ring", key="k")
    await turn()
    assert b"waited for k" in answered(paper).body


async def test_a_call_that_takes_long_becomes_a_stream(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_request, "HOLD_S", 0.01)
    paper = begin(client.call("wait", key="k"))
    async with asyncio.timeout(5):
        while not paper.text:
            await asyncio.sleep(0.005)
    assert paper.text.startswith(b"200 text/event-stream\n")


async def test_who_goes_before_anything_was_told_ends_its_call(client: Client) -> None:
    talk = client.call("wait", key="k")
    paper = begin(talk)
    await turn()
    talk.lost()
    await asyncio.sleep(0.01)
    assert b'\\"k\\"' in await client.ask("cancelled")
    assert not paper.is_done


async def test_who_goes_in_mid_stream_ends_its_call_unless_it_can_come_back(client: Client) -> None:
    talk = client.call("wait", "t", key="k", news=1)
    begin(talk)
    await turn()
    talk.lost()
    await asyncio.sleep(0.01)
    assert (b'\\"k\\"' in await client.ask("cancelled")) == (client.session is None)


async def test_a_call_that_is_cancelled_before_it_told_anything_is_answered_with_nothing(
    endpoint: Endpoint,
) -> None:
    client = Client(endpoint, "2025-11-25")
    client.initialize()
    paper = begin(client.call("wait", key="k"))
    client.cancel()
    await asyncio.sleep(0.01)
    assert (answered(paper).status, answered(paper).body) == (202, b"")


async def test_a_call_that_is_cancelled_in_mid_stream_ends_its_stream(endpoint: Endpoint) -> None:
    client = Client(endpoint, "2025-11-25")
    client.initialize()
    paper = begin(client.call("wait", "t", key="k", news=1))
    await turn()
    client.cancel()
    await asyncio.sleep(0.01)
    assert paper.is_done
    assert b'"result"' not in paper.text


async def test_of_two_readers_of_a_stream_the_newer_one_goes_on(endpoint: Endpoint) -> None:
    client = Client(endpoint, "2025-11-25")
    client.initialize()
    readers = [begin(client.call("wait", "t", key="k", news=1))]
    await turn()
    for _ in range(2):
        talk = client.send(method="GET", Last_Event_ID="1-1")
        assert not isinstance(talk, Reply)
        readers.append(begin(talk))
    assert [reader.is_done for reader in readers] == [True, True, False]
    client.send(method="DELETE")
    assert readers[2].is_done


async def test_what_has_come_while_a_call_was_begun_is_told_first(client: Client) -> None:
    """A tool that runs at once has told its news before there was anybody to write to."""
    await client.ask("steps", count=0)  # from now on it is known to need no waiting
    paper = begin(client.call("steps", "t", count=2))
    assert paper.is_done
    assert paper.text.count(b"notifications/progress") == 2
    assert paper.text.rstrip().endswith(b"}")
