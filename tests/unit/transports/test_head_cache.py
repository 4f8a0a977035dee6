"""Heads that repeat are parsed once, and requests with a cached head are treated as all others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from toolcrib import MCPServer
from toolcrib.transports.http.connection import LINGER_IDLE_S, Connection
from toolcrib.transports.http.endpoint import Endpoint
from toolcrib.transports.http.hosts import HostCheck
from toolcrib.transports.http.request import MAX_CACHED_HEAD, MAX_HEADERS, Head, HeadCache
from toolcrib.transports.http.response import error_response
from toolcrib.transports.http.server import HTTPServer

BODY = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


class Socket:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_closed = False

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 8000 if name == "sockname" else 50_000)

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def is_closing(self) -> bool:
        return self.is_closed

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.is_closed = True

    abort = pause_reading = resume_reading = close


class Client:
    """One connection to an endpoint, without a network."""

    def __init__(self, server: HTTPServer) -> None:
        self.socket = Socket()
        self.responses: list[bytes] = []
        self.connection = Connection(server)
        self.connection.connection_made(self.socket)

    async def send(self, data: bytes) -> list[bytes]:
        """Send bytes in one piece; return the status lines of the responses."""
        self.connection.get_buffer(-1)[: len(data)] = data
        self.connection.buffer_updated(len(data))
        for _ in range(5):
            await asyncio.sleep(0)
        written, self.socket.written = b"".join(self.socket.written), []
        self.responses += written.split(b"HTTP/1.1 ")[1:]
        return [part.partition(b"\r\n")[0] for part in written.split(b"HTTP/1.1 ")[1:]]


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Endpoint, HTTPServer]]:
    async with MCPServer("shop") as shop:
        endpoint = Endpoint(shop.transports.engine, HostCheck("127.0.0.1"))
        yield endpoint, HTTPServer(endpoint)
        endpoint.close()


def post(*lines: bytes, body: bytes = BODY) -> bytes:
    own = (b"Host: 127.0.0.1", b"Content-Type: application/json", b"Content-Length: %d" % len(body))
    return b"\r\n".join((b"POST /mcp HTTP/1.1", *own, *lines)) + b"\r\n\r\n" + body


async def test_a_head_that_repeats_is_parsed_once() -> None:
    async with running() as (endpoint, server):
        client = Client(server)
        assert await client.send(post()) == [b"200 OK"]
        assert [*endpoint.heads] == [post().partition(BODY)[0]]
        client.connection._parser = None  # it is not needed any more
        for _ in range(3):
            assert await client.send(post()) == [b"200 OK"]
        other = Client(server)
        other.connection._parser = None
        assert await other.send(post()) == [b"200 OK"]


async def test_pieces_and_pipelined_requests_are_served_with_a_cached_head() -> None:
    async with running() as (_, server):
        client, request = Client(server), post()
        assert await client.send(request) == [b"200 OK"]
        assert await client.send(request[:100]) == []
        assert await client.send(request[100:]) == [b"200 OK"]
        assert await client.send(request * 3) == [b"200 OK"] * 3
        assert await client.send(request + request[:-5]) == [b"200 OK"]
        assert await client.send(request[-5:]) == [b"200 OK"]
        assert await client.send(request) == [b"200 OK"]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (post(b"Transfer-Encoding: chunked"), b"400 Bad Request"),
        (post().replace(b"Host: 127.0.0.1", b"Host: evil.example"), b"421 Misdirected Request"),
        (post(b"Origin: https://evil.example"), b"403 Forbidden"),
        (post().replace(b"application/json", b"text/plain"), b"415 Unsupported Media Type"),
        (post(b"Accept: text/html"), b"406 Not Acceptable"),
        (post(body=b"{"), b"400 Bad Request"),
    ],
)
async def test_anything_that_is_refused_once_is_refused_again(request_: bytes, status: bytes) -> None:
    async with running() as (_, server):
        for _ in range(3):
            assert await Client(server).send(request_) == [status]


async def test_heads_that_cannot_be_told_apart_by_their_bytes_are_not_cached() -> None:
    async with running() as (endpoint, server):
        chunked = post(b"Transfer-Encoding: chunked").replace(b"Content-Length: 40\r\n", b"")
        for request in (
            chunked.replace(BODY, b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)),
            b"\r\n" + post(),
            post(b"Expect: 100-continue"),
            post(b"X-Long: " + b"x" * MAX_CACHED_HEAD),
        ):
            await Client(server).send(request)
            assert not endpoint.heads


async def test_a_client_that_closes_is_closed_with_a_cached_head_too() -> None:
    async with running() as (endpoint, server):
        for _ in range(2):
            client = Client(server)
            assert await client.send(post(b"Connection: close")) == [b"200 OK"]
            assert client.socket.is_closed
        assert len(endpoint.heads) == 1
        server.is_draining = True
        client = Client(server)
        assert await client.send(post()) == [b"200 OK"]
        assert client.socket.is_closed


async def test_a_request_does_not_overtake_one_that_came_before_it() -> None:
    async with running() as (_, server):
        client = Client(server)
        listing = post(b"X-First: yes", body=BODY.replace(b"ping", b"tools/list"))
        assert await client.send(post()) == [b"200 OK"]
        connection = client.connection
        connection.data_received(post() + listing)  # the second one waits for the next turn of the loop
        await client.send(post())
        bodies = [part.partition(b"\r\n\r\n")[2] for part in client.responses]
        assert [b'"tools"' in body for body in bodies] == [False, False, True, False]


async def test_the_rest_of_a_body_is_not_a_request_of_its_own() -> None:
    async with running() as (_, server):
        client, inner = Client(server), post()
        assert await client.send(inner) == [b"200 OK"]
        connection = client.connection
        outer = post(b"X-First: yes", body=b" " * 10 + inner)
        connection.data_received(inner + outer[: -len(inner)])
        assert await client.send(inner) == [b"200 OK", b"400 Bad Request"]


async def test_empty_lines_between_requests_neither_cost_time_nor_stop_the_clock() -> None:
    async with running() as (_, server):
        client = Client(server)
        assert await client.send(post() + b"\r\n") == [b"200 OK"]
        assert client.connection.read_by < float("inf")
        fed: list[bytes] = []
        client.connection._parser = type("Parser", (), {"feed_data": staticmethod(fed.append)})()
        assert await client.send(b"\r\n\r\n" * 1000) == []
        assert not fed


async def test_a_refused_request_in_pieces_leaves_the_connection_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running() as (endpoint, server):
        monkeypatch.setattr(endpoint, "admit", lambda _: error_response(401, "Who are you?"))
        client = Client(server)
        assert await client.send(post()[:-30]) == []
        assert await client.send(post()[-30:] + post()) == [b"401 Unauthorized"] * 2


def chunked(*lines: bytes) -> bytes:
    head = post(b"Transfer-Encoding: chunked", *lines).replace(b"Content-Length: %d\r\n" % len(BODY), b"")
    return head.replace(BODY, b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY))


@pytest.mark.parametrize("request_", [post(b"Expect: 100-continue"), chunked()], ids=["expect", "chunked"])
@pytest.mark.parametrize("takes_time", [False, True])
async def test_a_refused_request_whose_body_came_with_it_leaves_the_connection_open(
    monkeypatch: pytest.MonkeyPatch, request_: bytes, takes_time: bool
) -> None:
    async def refuse_later() -> Any:
        return error_response(401, "Who are you?")

    def refuse(_: Any) -> Any:
        return refuse_later() if takes_time else error_response(401, "Who are you?")

    async with running() as (endpoint, server):
        with monkeypatch.context() as patch:
            patch.setattr(endpoint, "admit", refuse)
            client = Client(server)
            assert await client.send(request_) == [b"401 Unauthorized"]
            assert not client.socket.is_closed
            head, _, body = request_.partition(b"\r\n\r\n")
            impatient = Client(server)
            assert await impatient.send(head + b"\r\n\r\n" + body[:5]) == [b"401 Unauthorized"]
            assert b"connection: close" in impatient.responses[0]
        assert await client.send(post()) == [b"200 OK"]


@pytest.mark.parametrize("rest", [post(), b"no HTTP", post() * 2], ids=["request", "garbage", "requests"])
async def test_input_behind_a_body_in_chunks_is_read_until_the_client_has_its_response(rest: bytes) -> None:
    async with running() as (_, server):
        client = Client(server)
        assert await client.send(chunked() + rest) == [b"200 OK"]
        assert b"connection: close" in client.responses[0]
        assert not client.socket.is_closed  # closing with unread input would reset the connection
        assert await client.send(post()) == []
        server.now += LINGER_IDLE_S + 0.1
        client.connection.expire()
        assert client.socket.is_closed


async def test_empty_lines_before_requests_with_a_cached_head_do_not_add_up() -> None:
    async with running() as (_, server):
        client = Client(server)
        assert await client.send(post()) == [b"200 OK"]
        for _ in range(MAX_HEADERS // 8 + 1):
            client.connection.data_received(b"\r\n" * 4)
            client.connection.get_buffer(-1)[: len(post())] = post()
            client.connection.buffer_updated(len(post()))
        assert await client.send(post(b"X-Other: yes")[:50]) == [b"200 OK"] * (MAX_HEADERS // 8 + 1)
        assert await client.send(post(b"X-Other: yes")[50:]) == [b"200 OK"]


async def test_a_reply_that_waits_to_be_written_is_not_lost_when_the_server_stops() -> None:
    async with running() as (_, server):
        client = Client(server)
        data = post()
        client.connection.get_buffer(-1)[: len(data)] = data
        client.connection.buffer_updated(len(data))
        assert client.socket.written == []  # it is written at the end of this turn of the loop
        client.connection.end()
        assert client.socket.is_closed
        assert b"".join(client.socket.written).startswith(b"HTTP/1.1 200 OK")


# --- heads that differ in the name of what they ask for ---

HEAD = b"POST /mcp HTTP/1.1\r\nHost: a\r\nMcp-Name: %b\r\nContent-Length: 5\r\n\r\n"


def cached(name: bytes = b"orders://1", **headers: bytes) -> HeadCache:
    heads = HeadCache()
    known = Head(
        "POST", "/mcp", {b"host": b"a", b"mcp-name": name, b"content-length": b"5"} | headers, length=5
    )
    known.is_post = True
    heads.store_bytes(HEAD % name, known)
    return heads


def test_a_head_with_another_name_is_not_parsed_again() -> None:
    found = cached().find_renamed(HEAD % b"orders://2")
    assert found is not None
    assert found.headers == {b"host": b"a", b"mcp-name": b"orders://2", b"content-length": b"5"}
    assert (found.length, found.is_post) == (5, True)


@pytest.mark.parametrize(
    "name", [b"", b" a", b"a ", b"a b", b"a\tb", b"a\x00b", b"\xc3\xa4", b"a\nHost: b"], ids=repr
)
def test_a_name_that_is_not_plain_is_left_to_the_parser(name: bytes) -> None:
    assert cached().find_renamed(HEAD % name) is None


def test_any_other_difference_is_left_to_the_parser() -> None:
    other = (HEAD % b"orders://2").replace(b"Host: a", b"Host: b")
    assert cached().find_renamed(other) is None
    assert cached().find_renamed(b"POST /mcp HTTP/1.1\r\nHost: a\r\n\r\n") is None
