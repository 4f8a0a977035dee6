"""The cost of one connection. Clients that pipeline and never read, large bodies without a key,
trailers without end, offers to switch protocols, and requests behind the last one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket as sockets
import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clients.abusive_clients import HTTP_STACKS, Served, Socket, call, post, served
from tests.support.servers.key_server import Ring

IS_LONG = bool(os.environ.get("TOOLCRIB_SOAK"))
KB, MB = 1, 1024
"""In the unit of `rss_kb`."""
MAX_BODY = 4 * 1024 * 1024
PING = post({"jsonrpc": "2.0", "id": 1, "method": "ping"})
UPGRADE = PING.replace(b"Host:", b"Connection: Upgrade\r\nUpgrade: h2c\r\nHost:", 1)

pytestmark = [pytest.mark.row("F3", "F4"), pytest.mark.usefixtures("hangs_up")]


@pytest.fixture
def ring(tmp_path: Path) -> Ring:
    ring = Ring(tmp_path)
    ring.make("ana")
    return ring


def connect(port: int) -> sockets.socket:
    """A socket whose answers nobody reads, with as little as possible kept by the system."""
    raw = sockets.socket()
    raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    raw.connect(("127.0.0.1", port))
    raw.setblocking(False)
    return raw


@contextlib.contextmanager
def flooding(port: int, connections: int, data: bytes, seconds: float) -> Iterator[list[sockets.socket]]:
    """Send as much as is taken on all connections, reading nothing."""
    raws = [connect(port) for _ in range(connections)]
    end = time.monotonic() + seconds
    for raw in raws:
        rest = data
        while time.monotonic() < end:
            try:
                sent = raw.send(rest)
            except BlockingIOError:
                break
            except OSError:
                break
            rest = rest[sent:] or data
    try:
        yield raws
    finally:
        for raw in raws:
            raw.close()


async def most_memory(server: Served, seconds: float) -> int:
    """The most memory in use, in KB, while this time passes."""
    most, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        most = max(most, server.rss_kb)
        await asyncio.sleep(0.02)
    return most


def pump(port: int, data: bytes, seconds: float) -> int:
    """How many bytes are taken of a client that goes on sending and never reads."""
    raw, total, end = connect(port), 0, time.monotonic() + seconds
    rest = data
    with raw:
        while time.monotonic() < end:
            try:
                sent = raw.send(rest)
            except BlockingIOError:
                time.sleep(0.005)
                continue
            except OSError:
                break
            total += sent
            rest = rest[sent:] or data
    return total


async def warm(server: Served) -> int:
    """Memory in use after a first request, in KB."""
    await (await Socket.open(server.port)).ask(PING)
    return server.rss_kb


async def pumped(server: Served, data: bytes, seconds: float) -> int:
    """By how many KB memory grows, at most, while one client sends and never reads."""
    before = await warm(server)
    sender = threading.Thread(target=pump, args=(server.port, data, seconds))
    sender.start()
    most = await most_memory(server, seconds + 0.2)
    sender.join()
    return most - before


# --- answers that are not read ----------------------------------------------------------------------------


async def test_a_client_that_pipelines_and_never_reads_costs_less_than_two_megabytes() -> None:
    with served("own") as server:
        for data in (PING * 500, call("large", {"size": 60_000}) * 50, b"GET / HTTP/1.1\r\n\r\n" * 4000):
            assert await pumped(server, data, 0.5) < 2 * MB
        assert "Traceback" not in server.log


async def test_refusals_that_are_not_read_cost_no_more(ring: Ring) -> None:
    with served("own", "--keys", str(ring.file)) as server:
        assert await pumped(server, PING * 500, 1.0) < 2 * MB
        before = await warm(server)
        with flooding(server.port, 100, PING * 1000, 3.0):
            most = await most_memory(server, 0.3)
        assert most - before < 25 * MB  # a quarter of what 400 connections may cost


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
async def test_a_hundred_clients_that_do_not_read_cost_little_and_delay_nobody(http_stack: str) -> None:
    with served(http_stack) as server:
        bystander = await Socket.open(server.port)
        await bystander.add()
        before = await warm(server)
        raws = [connect(server.port) for _ in range(100)]
        for raw in raws:
            raw.send(call("large", {"size": 10_000_000 if IS_LONG else 4_000_000}))
        memory = asyncio.ensure_future(most_memory(server, 4.0 if IS_LONG else 1.0))
        times = [await bystander.add() for _ in range(30)]
        assert statistics.median(times) < 0.25, times
        assert await memory - before < 150 * MB
        for raw in raws:
            raw.close()
        assert "Traceback" not in server.log


@pytest.mark.parametrize("kind", ["pings", "upgrades"])
async def test_a_hundred_clients_that_pipeline_and_do_not_read_delay_nobody(kind: str) -> None:
    with served("own") as server:
        bystander = await Socket.open(server.port)
        await bystander.add()
        with flooding(server.port, 100, (PING if kind == "pings" else UPGRADE) * 1000, 3.0):
            times = [await bystander.add() for _ in range(20)]
        assert statistics.median(times) < 0.25, times


async def test_a_client_that_pipelines_much_and_reads_gets_every_answer() -> None:
    with served("own") as server:
        client = await Socket.open(server.port)
        count = 40
        client.writer.write(call("large", {"size": 8_000_000}) + padded(PING, 150_000) * count)
        assert len((await client.answer())[2]) > 8_000_000
        for _ in range(count):
            assert (await client.answer())[0] == 200


async def test_a_client_that_reads_late_gets_every_answer_it_pipelined_for() -> None:
    with served("own") as server:
        client = await Socket.open(server.port)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.writer.write(b"".join(call("large", {"size": 40_000 + number}) for number in range(60)))
        await asyncio.sleep(0.3)
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for number in range(60):
            status, _, body = await client.answer()
            text = json.loads(body)["result"]["content"][0]["text"]
            assert (status, len(text)) == (200, 40_000 + number)


# --- bodies -----------------------------------------------------------------------------------------------


def padded(request: bytes, size: int) -> bytes:
    """The same request with so many blanks around its message."""
    head_, _, body = request.partition(b"\r\n\r\n")
    length = b"Content-Length: %d" % (len(body) + size)
    lines = [length if line.startswith(b"Content-Length") else line for line in head_.split(b"\r\n")]
    return b"\r\n".join(lines) + b"\r\n\r\n" + b" " * size + body


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
async def test_uploads_that_break_off_leave_nothing_behind(http_stack: str) -> None:
    with served(http_stack) as server:
        before = await warm(server)
        for _ in range(15):
            raw = sockets.create_connection(("127.0.0.1", server.port))
            raw.sendall(head(MAX_BODY) + b"x" * (MAX_BODY - 1))
            raw.close()
        await (await Socket.open(server.port)).ask(PING)
        assert server.rss_kb - before < 20 * MB  # of sixty


async def test_a_body_in_small_chunks_costs_what_it_has() -> None:
    with served("own") as server:
        before = await warm(server)
        client = await Socket.open(server.port)
        start = head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        client.writer.write(start + b"10\r\n0123456789abcdef\r\n" * (3_000_000 // 16))
        assert await most_memory(server, 1.5) - before < 6 * MB


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
async def test_a_refused_upload_in_chunks_reads_its_refusal(http_stack: str, ring: Ring) -> None:
    with served(http_stack, "--keys", str(ring.file)) as server:
        start = head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        body = (b"10000\r\n" + b"x" * 65536 + b"\r\n") * 60 + b"0\r\n\r\n"

        def upload() -> bytes:
            with sockets.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
                raw.sendall(start + body)  # all of it, before anything is read
                return raw.recv(100)

        assert (await asyncio.to_thread(upload)).startswith(b"HTTP/1.1 401")


async def test_a_client_that_waits_to_be_asked_for_its_body_is_refused_at_once(ring: Ring) -> None:
    with served("own", "--keys", str(ring.file)) as server:
        client = await Socket.open(server.port)
        async with asyncio.timeout(2):
            assert (await client.ask(head(5, "Expect: 100-continue")))[0] == 401
        good = await Socket.open(server.port)
        body = PING.partition(b"\r\n\r\n")[2]
        good.writer.write(head(len(body), "Expect: 100-continue", f"X-API-Key: {ring['ana']}"))
        assert (await good.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
        assert (await good.ask(body))[0] == 200


async def test_small_bodies_in_chunks_hold_little_of_the_budget() -> None:
    with served("own") as server:
        body = call("slow", {"seconds": 2}).partition(b"\r\n\r\n")[2].ljust(17_000)
        start = call("slow").partition(b"\r\n\r\n")[0].replace(b"Content-Length", b"X-Length")
        chunked = start + b"\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        for _ in range(20):
            (await Socket.open(server.port)).writer.write(chunked)
        await server.says("slow begun", 20)
        client = await Socket.open(server.port)
        assert (await client.ask(padded(PING, 20_000)))[0] == 200


def head(size: int, *lines: str) -> bytes:
    fields = ["POST /mcp HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *lines]
    return "\r\n".join([*fields, f"Content-Length: {size}"]).encode() + b"\r\n\r\n"


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
async def test_credentials_are_looked_at_before_the_body(http_stack: str, ring: Ring) -> None:
    with served(http_stack, "--keys", str(ring.file)) as server:
        client = await Socket.open(server.port)
        status, _, _ = await client.ask(head(MAX_BODY))  # and not a byte of it
        assert status == 401
        small = await Socket.open(server.port)
        for _ in range(3):  # a small body is waited for, so that the connection can be used again
            small.writer.write(head(5))
            await asyncio.sleep(0.02)
            assert (await small.ask(b"12345"))[0] == 401
        good = await Socket.open(server.port)
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode().ljust(MAX_BODY)
        status, _, _ = await good.ask(head(len(body), f"X-API-Key: {ring['ana']}") + body)
        assert status == 200


@pytest.mark.parametrize(
    ("http_stack", "keyed"),
    [
        ("own", True),
        ("asgi", False),
        pytest.param("own", False, marks=pytest.mark.long),
        pytest.param("asgi", True, marks=pytest.mark.long),
    ],
)
async def test_bodies_of_400_unknown_clients_cost_less_than_a_hundred_megabytes(
    http_stack: str, keyed: bool, ring: Ring
) -> None:
    with served(http_stack, *(("--keys", str(ring.file)) if keyed else ())) as server:
        before = await warm(server)
        with flooding(server.port, 400, head(MAX_BODY) + b"x" * (MAX_BODY - 1), 20.0):
            most = await most_memory(server, 1.0)
            assert most - before < 100 * MB, f"{(most - before) // MB} MB"
            probe = await Socket.open(server.port)
            status, _, _ = await probe.ask(PING)  # small requests are served as ever
            assert status == (401 if keyed else 200)
        if not keyed:  # and large ones, as soon as there is room
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode().ljust(MAX_BODY)
            for _ in range(100):
                client = await Socket.open(server.port)
                status, _, _ = await client.ask(head(len(body)) + body)
                if status == 200:
                    break
                assert status == 503
            assert status == 200
        assert "Traceback" not in server.log


async def test_a_large_request_behind_a_slow_call_waits_in_the_socket() -> None:
    with served("own") as server:
        client = await Socket.open(server.port)
        await client.ask(PING)
        before = server.rss_kb
        client.writer.write(call("slow", {"seconds": 1.5}))
        await asyncio.to_thread(server.wait_for, "slow begun")
        client.writer.write(padded(call("add", {"a": 1, "b": 2}), MAX_BODY - 10_000) * 4)
        assert await most_memory(server, 0.7) - before < 2 * MB
        assert (await client.answer())[0] == 200
        for _ in range(4):
            assert (await client.answer())[0] == 200


# --- heads ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [b"T: x\r\n", b"T: " + b"x" * 100_000], ids=["many", "one without end"])
async def test_trailers_count_as_headers(line: bytes) -> None:
    with served("own") as server:
        client = await Socket.open(server.port)
        start = head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n"
        before = await warm(server)
        client.writer.write(start + line * (40_000_000 // len(line)))
        assert (await client.answer())[0] == 431
        assert server.rss_kb - before < 2 * MB


@pytest.mark.parametrize("value", ["gzip, chunked", "identity", "chunked, chunked"])
async def test_other_transfer_encodings_are_refused(value: str) -> None:
    with served("own") as server:
        client = await Socket.open(server.port)
        data = head(0).replace(b"Content-Length: 0", f"Transfer-Encoding: {value}".encode()) + b"0\r\n\r\n"
        assert (await client.ask(data))[0] == 400


@pytest.mark.parametrize("extension", [b";" + b"x" * 60_000, b";x=y" * 15_000])
async def test_extensions_of_chunks_count_as_headers(extension: bytes) -> None:
    with served("own") as server:
        client = await Socket.open(server.port)
        start = head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        client.writer.write(start + b"2" + extension + b"\r\n{}\r\n")
        assert (await client.answer())[0] == 431


async def test_heads_of_thousands_of_fields_cost_little() -> None:
    with served("own") as server:
        before = await warm(server)
        raws = [connect(server.port) for _ in range(100)]
        for raw in raws:
            raw.send(b"POST /mcp HTTP/1.1\r\n" + b"a:\r\n" * 8_000)
        assert await most_memory(server, 0.5) - before < 25 * MB
        for raw in raws:
            assert raw.recv(100).startswith(b"HTTP/1.1 431")
            raw.close()


async def test_offers_to_switch_protocols_are_declined_one_after_the_other() -> None:
    with served("own") as server:
        client = await Socket.open(server.port)
        client.writer.write(UPGRADE * 2000)
        for _ in range(2000):
            status, _, body = await client.answer()
            assert (status, json.loads(body)["result"]) == (200, {})
        chunked = UPGRADE.partition(b"\r\n\r\n")[0].replace(b"Content-Length", b"X-Length")
        body = PING.partition(b"\r\n\r\n")[2]
        client.writer.write(
            chunked + b"\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        )
        assert (await client.answer())[0] == 200
        assert (await client.ask(b"CONNECT a:1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"))[0] == 400
        assert "Traceback" not in server.log


async def test_a_refused_head_with_an_offer_is_not_served() -> None:
    with served("own") as server:
        client = await Socket.open(server.port)
        long = call("slow", {"seconds": 0}).replace(
            b"Host:", b"Connection: Upgrade\r\nUpgrade: h2c\r\n" + b"X-Y: " + b"z" * 33_000 + b"\r\nHost:", 1
        )
        assert (await client.ask(long))[0] == 431
        assert await client.is_closed(3)
        assert "slow begun" not in server.log
        assert "Traceback" not in server.log


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
async def test_a_blank_behind_a_header_is_not_part_of_it(http_stack: str) -> None:
    with served(http_stack) as server:
        client = await Socket.open(server.port)
        for name in (b"Content-Length", b"Content-Type", b"Host", b"Accept"):
            before, _, after = PING.partition(name + b": ")
            value, _, rest = after.partition(b"\r\n")
            data = before + name + b": " + value + b" \t\r\n" + rest
            assert (await client.ask(data))[0] == 200, name


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
async def test_a_request_that_closes_is_answered_whatever_comes_behind_it(http_stack: str) -> None:
    with served(http_stack) as server:
        last = call("slow", {"seconds": 0.3}).replace(b"Host:", b"Connection: close\r\nHost:", 1)
        for behind in (call("chatter", {"seconds": 0}), b"garbage\r\n\r\n", UPGRADE):
            for at_once in (True, False):
                client = await Socket.open(server.port)
                client.writer.write(last + behind if at_once else last)
                if not at_once:
                    await asyncio.sleep(0.05)
                    client.writer.write(behind)
                if http_stack == "own":  # a host may cut the answer off
                    status, fields, body = await client.answer()
                    assert (status, fields["connection"], b"slept" in body) == (200, "close", True)
                assert await client.is_closed(3)
        assert "chatter begun" not in server.log
        assert "Traceback" not in server.log


@pytest.mark.parametrize("version", ["2.0", "3.0", "0.9"])
async def test_other_versions_of_http_are_not_served(version: str) -> None:
    with served("own") as server:
        client = await Socket.open(server.port)
        status, fields, _ = await client.ask(
            call("slow", {"seconds": 0}).replace(b"HTTP/1.1", b"HTTP/" + version.encode(), 1)
        )
        assert (status, fields["connection"]) in ((505, "close"), (400, "close"))
        assert await client.is_closed(3)
        assert "slow begun" not in server.log
