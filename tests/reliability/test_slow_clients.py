"""Clients that do nothing, send slowly, or never read. Small every day, whole in the soak.

Time-outs belong to our own http_stack; a mounted application has its host's.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import time
from contextlib import suppress

import pytest

from tests.support.clients.abusive_clients import Served, Socket, call, percentile, served

IS_LONG = bool(os.environ.get("TOOLCRIB_SOAK"))
SOAK = pytest.mark.skipif(not IS_LONG, reason="a long test: python dev.py soak")
QUICK = ("--header-s", "1", "--body-idle-s", "1", "--body-s", "3", "--idle-s", "1", "--write-s", "1")
PARTIAL = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: appli"
STALLED = (
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
)

pytestmark = [pytest.mark.row("F2", "F3", "F4"), pytest.mark.usefixtures("hangs_up")]


async def honest(server: Served, is_over: asyncio.Event) -> list[float]:
    """How long honest calls take meanwhile."""
    socket = await Socket.open(server.port)
    times: list[float] = []
    while not is_over.is_set():
        times.append(await socket.add())
        await asyncio.sleep(0.02)
    socket.close()
    return times


async def open_many(port: int, count: int, data: bytes) -> list[Socket]:
    sockets: list[Socket] = []
    for start in range(0, count, 200):
        part = await asyncio.gather(*(Socket.open(port) for _ in range(min(200, count - start))))
        for socket in part:
            socket.writer.write(data)
        sockets += part
    return sockets


async def drip(sockets: list[Socket], data: bytes, seconds: float) -> None:
    """One byte a second."""
    for number in range(int(seconds)):
        await asyncio.sleep(1)
        for socket in sockets:
            if not socket.writer.is_closing():
                socket.writer.write(data[number : number + 1])


async def shed(server: Served, partial: int, stalled: int, dripping: int, limit_s: float) -> list[float]:
    silent = await open_many(server.port, partial, PARTIAL)
    bodies = await open_many(server.port, stalled, STALLED)
    drops = await open_many(server.port, dripping, PARTIAL)
    began = time.monotonic()
    dripper = asyncio.ensure_future(drip(drops, b"x" * 60, limit_s))
    is_over = asyncio.Event()
    calls = asyncio.ensure_future(honest(server, is_over))
    closed = await asyncio.gather(*(socket.is_closed(limit_s) for socket in (*silent, *bodies, *drops)))
    assert all(closed), f"{closed.count(False)} of {len(closed)} are still there"
    assert time.monotonic() - began < limit_s
    dripper.cancel()
    is_over.set()
    times = await calls
    for socket in (*silent, *bodies, *drops):
        socket.close()
    return times


async def test_f3_half_requests_are_let_go_and_honest_clients_do_not_notice() -> None:
    with served("own", *QUICK) as server:
        times = await shed(server, 100, 30, 10, 4.0)
        assert percentile(times, 0.9) < 0.25
        assert "Traceback" not in server.log


@SOAK
async def test_f3_five_thousand_half_requests_are_let_go_in_twelve_seconds() -> None:
    _raise_limit()
    with served("own") as server:
        times = await shed(server, 5000, 500, 50, 14.0)
        assert percentile(times, 0.99) < 0.25  # while five thousand sockets are opened on the same two cores
        assert percentile(times, 0.5) < 0.05


async def test_f2_idle_connections_are_closed() -> None:
    with served("own", *QUICK) as server:
        sockets = await open_many(server.port, 50, b"")
        for socket in sockets[:25]:
            await socket.add()
        closed = await asyncio.gather(*(socket.is_closed(4.0) for socket in sockets))
        assert all(closed)


@SOAK
async def test_f2_ten_thousand_idle_connections_cost_little() -> None:
    _raise_limit()
    with served("own", "--header-s", "60") as server:
        first = await Socket.open(server.port)
        await first.add()
        before = server.rss_kb
        sockets = await open_many(server.port, 9_900, b"")
        for _ in range(100):
            await asyncio.sleep(0.02)
        each = (server.rss_kb - before) / len(sockets)
        times = [await first.add() for _ in range(200)]
        assert each <= 8, f"{each:.1f} KB each"
        assert percentile(times, 0.99) < 0.05
        for socket in sockets:
            socket.abort()


async def read_nothing(server: Served, clients: int, size: int) -> list[Socket]:
    sockets = await asyncio.gather(*(Socket.open(server.port) for _ in range(clients)))
    for socket in sockets:
        socket.reader._limit = 1024  # type: ignore[attr-defined]  # so that nothing reads in the background
        socket.writer.transport.pause_reading()  # type: ignore[attr-defined]
        socket.writer.write(call("large", {"size": size}))
    return list(sockets)


async def read_rest(socket: Socket) -> int:
    """How much is still there for a client that begins to read when it is too late."""
    received = 0
    socket.writer.transport.resume_reading()  # type: ignore[attr-defined]
    with suppress(ConnectionError):
        while part := await socket.reader.read(1 << 20):
            received += len(part)
    return received


async def test_f4_who_does_not_read_is_cut_off_and_costs_little() -> None:
    with served("own", *QUICK) as server:
        before = server.rss_kb
        sockets = await read_nothing(server, 30, 10_000_000)
        await asyncio.sleep(1.0)
        assert server.rss_kb - before < 150_000
        await asyncio.sleep(1.5)
        probe = await Socket.open(server.port)
        await probe.add()
        probe.close()
        received = await asyncio.gather(*(read_rest(socket) for socket in sockets))
        assert statistics.median(received) < 10_000_000  # the last ones have begun just now
        for socket in sockets:
            socket.abort()
        assert server.rss_kb - before < 150_000


@SOAK
async def test_f4_a_hundred_clients_that_never_read_ten_megabytes() -> None:
    with served("own") as server:
        before = server.rss_kb
        sockets = await read_nothing(server, 100, 10_000_000)
        most = 0
        for _ in range(40):
            await asyncio.sleep(1)
            most = max(most, server.rss_kb - before)
        assert most < 150_000, f"{most} KB"
        for socket in sockets:
            socket.abort()


async def test_a_large_answer_arrives_whole_at_a_client_that_reads_slowly() -> None:
    with served("own") as server:
        socket = await Socket.open(server.port)
        socket.writer.write(call("large", {"size": 8_000_000}))
        await asyncio.sleep(0.5)
        status, _, body = await socket.answer()
        assert (status, body.count(b"x") >= 8_000_000, body[-1:]) == (200, True, b"}")
        await socket.add()  # the connection is still good
        socket.close()


def _raise_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 20_000 if hard == resource.RLIM_INFINITY else min(hard, 20_000)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
