"""A7: bodies and headers at their limits and far beyond: refused early, read no further, kept nowhere."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.support.clients.raw_http_client import Peer, request
from tests.support.servers.http_servers import HTTP_STACKS, Served, serving
from tests.support.servers.stdio_program import Program
from tests.wire.cases import ENVELOPE, MODERN, encode, message
from toolcrib import MCPServer
from toolcrib.transports.http.request import MAX_BODY, MAX_HEADERS

PING = encode(message("ping"))
MIB = 1024 * 1024
PIECE = b"x" * (64 * 1024)


@pytest.fixture(scope="module", params=HTTP_STACKS)
def program(request: Any) -> Iterator[Program]:
    with Program(request.param) as program:
        with Peer(program.port) as peer:
            for size in (MAX_BODY, MAX_BODY + 1):  # what is allocated once stays
                peer.post(PING.ljust(size))
        yield program
        assert "Traceback" not in program.errors


def test_a_body_of_four_mebibytes_is_taken_and_one_byte_more_is_not(site: Served) -> None:
    with site.connect() as peer:
        assert peer.post(PING.ljust(MAX_BODY - 1)).status == 200
        assert peer.post(PING.ljust(MAX_BODY)).result == {}
        response = peer.post(PING.ljust(MAX_BODY + 1))
        assert response.status == 413
        assert peer.is_closed()


def test_the_limit_holds_for_bodies_in_pieces(site: Served) -> None:
    chunked = [("Transfer-Encoding", "chunked")]
    for size, status in ((MAX_BODY, 200), (MAX_BODY + 1, 413)):
        with site.connect() as peer:
            body = PING.ljust(size)
            peer.send(request(b"", chunked))
            for start in range(0, size, 100_000):
                part = body[start : start + 100_000]
                peer.send(b"%x\r\n%b\r\n" % (len(part), part))
            peer.send(b"0\r\n\r\n")
            assert peer.read().status == status


def test_a_line_of_four_mebibytes_is_taken_and_one_byte_more_is_not(stdio: Program) -> None:
    (reply,) = stdio.replies_to(PING.ljust(MAX_BODY), expected=1)
    assert reply["result"] == {}
    (reply,) = stdio.replies_to(PING.ljust(MAX_BODY + 1), expected=1)
    assert reply["error"]["code"] == -32600
    (reply,) = stdio.replies_to(b"x" * 50_000_000, expected=1)
    assert reply["error"]["code"] == -32600


def test_fifty_megabytes_that_are_announced_are_not_read(program: Program) -> None:
    before, memory = program.read_bytes, program.memory
    with Peer(program.port) as peer:
        peer.send(request(b"", [("Content-Length", "50000000")]))
        peer.flood(PIECE, 50_000_000)
        assert peer.read().status == 413
        assert peer.is_closed()
    assert program.read_bytes - before < MIB
    assert program.memory - memory < 8 * MIB


def test_fifty_megabytes_in_pieces_are_read_to_the_limit_and_no_further(program: Program) -> None:
    before, memory = program.read_bytes, program.memory
    with Peer(program.port) as peer:
        peer.send(request(b"", [("Transfer-Encoding", "chunked")]))
        peer.flood(b"10000\r\n" + PIECE + b"\r\n", 50_000_000)
        assert peer.read().status == 413
        assert peer.is_closed()
    assert program.read_bytes - before < MAX_BODY + MIB
    assert program.memory - memory < 8 * MIB


# --- headers -----------------------------------------------------------------------------------------------


def _fill(size: int) -> list[tuple[str, str]]:
    """Headers that make a ping's whole head about this long, none of them long itself."""
    fields = [(f"X-{number}", "y" * 990) for number in range(size // 1_000)]
    missing = size - (len(request(PING, fields)) - len(PING))
    return [*fields, ("X-Last", "z" * (missing - 10))]


def test_a_head_of_almost_32_kib_is_taken_and_a_little_more_is_not(site: Served) -> None:
    with site.connect() as peer:
        assert peer.post(PING, _fill(MAX_HEADERS - 100)).result == {}
        assert peer.post(PING, _fill(MAX_HEADERS + 100)).status == 431
        assert peer.is_closed()


@pytest.mark.parametrize(
    "headers",
    [
        [("X", "y" * 33_000)],
        [("X" * 33_000, "y")],
        [("X", "y" * 100_000)],
        [("X" * 100_000, "y")],
        [("X", "y" * 1_000)] * 40,
        [("X", "y" * 30_000)] * 2,
        [(f"X-{number}", "y") for number in range(1_000)],
        [("X", "y")] * 1_000,
    ],
    ids=["long", "long name", "very long", "very long name", "same", "same long", "1,000", "1,000 same"],
)
def test_too_long_or_too_many_headers_are_refused(site: Served, headers: list[tuple[str, str]]) -> None:
    with site.connect() as peer:
        peer.send(request(PING, headers))
        assert peer.read().status == 431
        assert peer.is_closed()


@pytest.mark.parametrize("where", ["first", "behind another", "while one runs"])
def test_our_lane_does_not_keep_a_head_that_never_ends(where: str) -> None:
    with Program("own") as program, Peer(program.port) as peer:
        if where == "behind another":
            assert peer.post(PING).status == 200
        elif where == "while one runs":
            call = message("tools/call", {"name": "wait", "arguments": {"key": "never"}})
            peer.send(request(encode(call)))
        peer.send(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: ")
        much = 2 * MIB if where == "while one runs" else 20 * MIB  # it waits in the socket, or is refused
        read = program.read_bytes
        taken = peer.flood(b"y" * 16_384, much)
        before = program.memory
        assert taken < 20 * MIB
        assert program.read_bytes - read < MIB
        assert program.memory - before < MIB
        if where == "while one runs":
            with Peer(program.port) as other:
                release = message("tools/call", {"name": "release", "arguments": {"key": "never"}})
                assert other.post(encode(release)).status == 200
            assert peer.read().status == 200
        assert peer.read().status == 431
        assert peer.is_closed()


def test_streams_do_not_hold_the_memory_that_their_requests_took(site: Served) -> None:
    """All bodies of callers without credentials share the memory for twelve of this size."""
    wanted = message("subscriptions/listen", {"notifications": {}, "_meta": ENVELOPE})
    modern = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "subscriptions/listen"}
    with ExitStack() as stack:
        for _ in range(7):
            peer = stack.enter_context(site.connect())
            peer.send(request(encode(wanted).ljust(MAX_BODY), modern))
            assert peer.read_head() == 200
        for _ in range(7):
            peer = stack.enter_context(site.connect())
            peer.send(request(b" " * MAX_BODY, method="GET", path="/sse"))
            assert peer.read_head() == 200
        assert site.post(PING.ljust(MAX_BODY)).status == 200


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_calls_that_wait_hold_the_memory_of_their_arguments_only(http_stack: str) -> None:
    server, gate = MCPServer("waiting"), threading.Event()
    started = threading.Semaphore(0)

    @server.tool
    async def wait(texts: list[str]) -> int:
        """Wait for the gate."""
        started.release()
        while not gate.is_set():
            await asyncio.sleep(0.01)
        return len(texts)

    def call(texts: list[str]) -> bytes:
        params = {"name": "wait", "arguments": {"texts": texts}, "_meta": ENVELOPE}
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "wait"}
        return request(encode(message("tools/call", params)).ljust(MAX_BODY), headers)

    large = ["x" * (MIB - 1_000)] * 4
    with serving(http_stack, server) as served, ExitStack() as stack:
        stack.callback(gate.set)
        for texts, count in (([], 13), (large, 12)):
            for _ in range(count):
                stack.enter_context(served.connect()).send(call(texts))
                assert started.acquire(timeout=10)
        assert served.exchange(call(large)).status == 503
