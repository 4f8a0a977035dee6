"""Output of a connection: in pieces that the socket takes, counted, and cut off where nobody reads."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolcrib.protocol import Reply
from toolcrib.transports.http.request import Head
from toolcrib.transports.http.response import MAX_BATCH, MAX_UNREAD, PIECE, Output, OutputStore, Response

POST = Head("POST", "/mcp", {})


def begin(output: Output, head: Head) -> None:
    output.is_idle, output.closes, output.head = False, False, head


class Store(OutputStore):
    """Without a loop there are no signs of life, and replies are written at once."""

    def add_stream(self, writer: Any) -> None: ...

    def write_soon(self, transport: Any, data: bytes) -> None:
        transport.write(data)


class Wire:
    """A socket that takes `room` bytes, then asks to wait. Connection and transport in one."""

    def __init__(self, room: float = float("inf")) -> None:
        self.room = room
        self.data = b""
        self.events: list[str] = []
        self.write_by = 0.0
        self.store = Store()
        self.output = Output(self, self, self.store)  # type: ignore[arg-type]
        begin(self.output, POST)

    def write(self, data: bytes) -> None:
        self.data += data
        self.room -= len(data)
        if self.room <= 0:
            self.output.pause()

    def read(self, room: float) -> None:
        """The client reads: there is room again."""
        self.room = room
        self.output.resume()

    def abort(self) -> None:
        self.events.append("aborted")

    def wait_for_reader(self) -> None:
        self.write_by = 1.0

    def responded(self, closes: bool) -> None:
        self.events.append("closes" if closes else "answered")


def body_of(data: bytes) -> bytes:
    return data.partition(b"\r\n\r\n")[2]


def unchunked(data: bytes) -> bytes:
    body, rest = b"", body_of(data)
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return body


def test_a_small_answer_goes_out_at_once() -> None:
    wire = Wire()
    wire.output.respond(Reply(b"{}"))
    assert wire.data.startswith(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n")
    assert (body_of(wire.data), wire.events) == (b"{}", ["answered"])
    wire.output.respond(Response(200, b"again"))  # nobody asked
    assert wire.events == ["answered"]


@pytest.mark.parametrize(("status", "line"), [(404, b"404 Not Found"), (599, b"599 Unknown")])
def test_other_answers_say_what_they_are(status: int, line: bytes) -> None:
    wire = Wire()
    wire.output.respond(Response(status, b"x", b"text/plain", ((b"allow", b"POST"),), closes=True))
    assert wire.data.startswith(b"HTTP/1.1 " + line)
    for field in (b"content-type: text/plain", b"allow: POST", b"connection: close", b"content-length: 1"):
        assert field in wire.data
    assert wire.events == ["closes"]


def test_a_head_request_gets_the_head_alone() -> None:
    wire = Wire()
    begin(wire.output, Head("HEAD", "/mcp", {}))
    wire.output.respond(Response(405, b"12345"))
    assert b"content-length: 5" in wire.data
    assert body_of(wire.data) == b""


def test_a_large_answer_is_handed_over_as_it_is_read_and_counted_until_then() -> None:
    wire = Wire(room=10 * PIECE)
    whole = bytes(range(256)) * 8192  # 2 MiB
    wire.output.respond(Response(200, whole))
    assert wire.store.size > 0
    assert wire.events == []
    while not wire.events:
        assert len(wire.data) < len(whole) + 200
        wire.read(3 * PIECE)
    assert body_of(wire.data) == whole
    assert (wire.store.size, wire.events) == (0, ["answered"])


def test_a_stream_is_sent_in_chunks_and_ends_with_an_empty_one() -> None:
    wire = Wire()
    wire.output.write(b"too early")
    wire.output.open()
    wire.output.write(b"one")
    wire.output.write(b"two")
    wire.output.finish()
    wire.output.write(b"too late")
    wire.output.finish()
    assert b"transfer-encoding: chunked" in wire.data
    assert body_of(wire.data) == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
    assert wire.events == ["answered"]


def test_for_an_old_client_a_stream_ends_with_its_connection() -> None:
    wire = Wire()
    begin(wire.output, Head("POST", "/mcp", {}, is_http11=False))
    wire.output.open()
    wire.output.write(b"one")
    wire.output.finish()
    assert b"connection: close" in wire.data
    assert b"chunked" not in wire.data
    assert (body_of(wire.data), wire.events) == (b"one", ["closes"])


def test_events_wait_for_a_slow_reader_in_order_and_the_end_waits_with_them() -> None:
    wire = Wire(room=1)
    wire.output.open()
    events = [b"%d" % number * 50 for number in range(20)] + [b"x" * 3 * PIECE, b"last"]
    for event in events:
        wire.output.write(event)
    assert wire.events == []
    wire.output.finish()
    wire.output.write(b"too late")
    while not wire.events:
        wire.read(PIECE // 2)
    assert unchunked(wire.data) == b"".join(events)
    assert (wire.store.size, wire.events) == (0, ["answered"])


def test_one_large_event_is_let_through_and_a_stream_that_nobody_reads_is_cut_off() -> None:
    wire = Wire(room=1)
    wire.output.open()
    wire.output.write(b"small")
    wire.output.write(b"x" * 2 * MAX_UNREAD)  # a result has the size it has
    assert wire.events == []
    wire.output.write(b"one more")
    assert wire.events == ["aborted"]
    wire.output.lost()
    assert wire.store.size == 0


def test_many_small_events_that_nobody_reads_are_bounded_and_cheap() -> None:
    wire = Wire(room=1)
    wire.output.open()
    for _ in range(100_000):
        wire.output.write(b"y" * 400)
        if wire.events:
            break
    assert wire.events == ["aborted"]
    assert len(wire.data) < 200
    assert wire.store.size < 2 * MAX_UNREAD
    wire.output.lost()
    assert wire.store.size == 0


def test_anything_that_was_not_read_is_forgotten_with_the_connection() -> None:
    wire = Wire(room=PIECE)
    wire.output.respond(Response(200, b"x" * 10 * PIECE))
    assert wire.store.size >= 9 * PIECE
    wire.output.lost()
    wire.output.lost()
    assert (wire.store.size, wire.output.is_idle) == (0, True)
    sent: Any = wire.data
    wire.output.open()
    wire.output.write(b"more")
    assert wire.data == sent


# --- replies that are written together ---------------------------------------------------------------


class Batched(Wire):
    """One of several connections of a server that writes replies together."""

    def __init__(self, store: OutputStore) -> None:
        super().__init__()
        self.output = Output(self, self, store)  # type: ignore[arg-type]
        begin(self.output, POST)


def test_the_small_replies_of_one_turn_are_written_together() -> None:
    async def answer() -> None:
        store = OutputStore()
        wires = [Batched(store) for _ in range(3)]
        for number, wire in enumerate(wires):
            wire.output.respond(Reply(b"%d" % number))
        assert [wire.data for wire in wires] == [b"", b"", b""]
        assert [wire.events for wire in wires] == [["answered"]] * 3
        await asyncio.sleep(0)
        assert [body_of(wire.data) for wire in wires] == [b"0", b"1", b"2"]
        begin(wires[0].output, POST)
        wires[0].output.respond(Reply(b"next"))
        await asyncio.sleep(0)
        assert wires[0].data.endswith(b"next")

    asyncio.run(answer())


def test_many_replies_do_not_wait_for_the_end_of_the_turn() -> None:
    async def answer() -> None:
        store = OutputStore()
        wires = [Batched(store) for _ in range(MAX_BATCH + 1)]
        for wire in wires:
            wire.output.respond(Reply(b"{}"))
        assert [bool(wire.data) for wire in wires] == [True] * MAX_BATCH + [False]
        await asyncio.sleep(0)
        assert wires[-1].data

    asyncio.run(answer())


@pytest.mark.parametrize("second", ["large", "stream"])
def test_anything_that_follows_a_reply_on_its_connection_stays_behind_it(second: str) -> None:
    async def answer() -> None:
        wire = Batched(OutputStore())
        wire.output.respond(Reply(b"first"))
        begin(wire.output, POST)
        if second == "large":
            wire.output.respond(Reply(b"x" * (PIECE + 1)))
        else:
            wire.output.open()
        assert wire.data.count(b"HTTP/1.1") == 2
        assert body_of(wire.data).startswith(b"firstHTTP/1.1")

    asyncio.run(answer())
