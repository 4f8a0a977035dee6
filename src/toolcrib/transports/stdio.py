"""MCP over standard input and output: one message per line.

Standard output belongs to the protocol, whatever a tool prints: before anything is served, the file
descriptors 0 and 1 are moved away. From then on, output to 1 goes to standard error and 0 is empty, for child
processes too.
"""

from __future__ import annotations

import asyncio
import io
import logging
import os
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Protocol

from toolcrib.processes.lines import LineReader
from toolcrib.protocol import Engine
from toolcrib.transports.pipe import Pipe

logger = logging.getLogger("toolcrib")

MAX_LINE = 4 * 1024 * 1024
DRAIN_S = 10.0
"""Time for running calls when stdin ends, as on Ctrl-C; they are ended where nobody reads stdout any more."""
MAX_UNREAD = 16 * 1024 * 1024
"""Unread bytes, and one message that may be of any size."""
PAUSE_AT = 4 * 1024 * 1024
"""Unread bytes from which on nothing is read from the client, until it has read most of them."""
RESUME_AT = 1024 * 1024
_READ_AHEAD = 16
"""Blocks that a thread reads while the event loop is busy."""
WAITS_FOR_PIPES = sys.platform != "win32"
"""Whether the event loop can wait for the pipes of standard streams; else, threads do."""


class StandardStreams:
    """The standard streams of the process, moved out of the reach of tools."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self.input = os.dup(0)
        self.output = os.dup(1)
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        os.dup2(2, 1)
        self._stdin = sys.stdin
        sys.stdin = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")

    def restore(self) -> None:
        """Give them back, for code that runs after the server."""
        try:
            sys.stdout.flush()
        except (OSError, ValueError):
            pass
        os.dup2(self.input, 0)
        os.dup2(self.output, 1)
        os.close(self.input)
        os.close(self.output)
        sys.stdin = self._stdin


class Peer(Protocol):
    """Takes the messages of the client: a `Pipe`, or what passes them on to another process."""

    def feed(self, line: bytes, /) -> None: ...

    def refuse(self, message: str, /) -> None: ...

    async def drain(self, timeout_s: float, /) -> None: ...

    async def aclose(self) -> None: ...


async def serve_stdio(engine: Engine, standard: StandardStreams | None = None) -> None:
    """Serve one client until it closes its end."""
    own = standard or StandardStreams()
    try:
        await StdioConnection(own, lambda send: Pipe(engine, send)).run()
    finally:
        if standard is None:
            own.restore()


class StdioConnection(asyncio.Protocol):
    """The client at the other end of the standard streams."""

    def __init__(
        self, standard: StandardStreams, make_peer: Callable[[Callable[[bytes], None]], Peer]
    ) -> None:
        self._standard = standard
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._out = _Writer(standard.output, self._overflow, self._pause)
        self.peer = make_peer(self._send)
        self._lines = LineReader(MAX_LINE)
        self._drain_s = DRAIN_S
        self._reader: asyncio.ReadTransport | None = None
        self._may_read = threading.Event()
        self._may_read.set()

    async def run(self) -> None:
        await self._out.open()
        try:
            if _is_pipe(self._standard.input):
                source = os.fdopen(os.dup(self._standard.input), "rb", buffering=0)
                self._reader, _ = await self._loop.connect_read_pipe(lambda: self, source)
            else:
                _start_thread("toolcrib-stdin", self._read_on_thread, self._standard.input)
            await self._ended.wait()
            self._take(self._lines.end())
            ending = asyncio.ensure_future(self.peer.drain(self._drain_s))
            self._out.gone.add_done_callback(lambda _: ending.cancel())
            await asyncio.wait([ending])
        finally:
            await self.peer.aclose()
            if self._reader is not None:
                self._reader.close()
            await self._out.close()

    def _read_on_thread(self, descriptor: int) -> None:
        """Read what the event loop cannot wait for, from a descriptor that nobody else closes meanwhile."""
        room = threading.Semaphore(_READ_AHEAD)

        def take(data: bytes) -> None:
            room.release()
            self.data_received(data)

        with (
            suppress(RuntimeError),
            os.fdopen(descriptor, "rb", buffering=0) as source,
        ):  # the loop may be closed
            while data := _read(source):
                room.acquire()
                self._may_read.wait()
                self._loop.call_soon_threadsafe(take, data)
            self._loop.call_soon_threadsafe(self._ended.set)

    def _pause(self, is_paused: bool) -> None:
        """Stop reading from a client that does not read, or go on."""
        if is_paused:
            self._may_read.clear()
        else:
            self._may_read.set()
        if self._reader is not None and is_paused:
            self._reader.pause_reading()
        elif self._reader is not None:
            self._reader.resume_reading()

    def _overflow(self) -> None:
        logger.warning("the client does not read its messages; stopping")
        self._drain_s = 0.0
        self._ended.set()

    def _send(self, message: bytes) -> None:
        self._out.write(message + b"\n")

    def data_received(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            self._take(line)

    def _take(self, line: bytes | None) -> None:
        if line is None:
            self.peer.refuse(f"Invalid request: a line of more than {MAX_LINE} bytes")
        elif line and not line.isspace():
            self.peer.feed(line)

    def eof_received(self) -> bool:
        self._ended.set()
        return False

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self._ended.set()


class _Writer(asyncio.BaseProtocol):
    """Writes lines to a pipe, a file or a terminal; those of one turn of the loop are written together.

    What the event loop cannot wait for is written on a thread, so that a client that does not read blocks
    nothing else.
    """

    def __init__(self, descriptor: int, overflow: Callable[[], None], pause: Callable[[bool], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._overflow = overflow
        self._pause = pause
        self._is_paused = False
        self._transport: Any = None  # of a pipe
        self._queue: SimpleQueue[bytes] = SimpleQueue()  # for the thread, which ends at b""
        self._queued = self._written = 0
        self._waiting: list[bytes] = []
        self.gone: asyncio.Future[None] = self._loop.create_future()

    async def open(self) -> None:
        if _is_pipe(self._descriptor):
            sink = os.fdopen(os.dup(self._descriptor), "wb", buffering=0)
            self._transport, _ = await self._loop.connect_write_pipe(lambda: self, sink)
            self._transport.set_write_buffer_limits(PAUSE_AT, RESUME_AT)
        else:
            _start_thread("toolcrib-stdout", self._write_on_thread, self._descriptor)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self._leave()

    def pause_writing(self) -> None:
        self._pause(True)

    def resume_writing(self) -> None:
        self._pause(False)

    def _note_written(self, size: int) -> None:
        self._written += size
        if self._is_paused and self._queued - self._written <= RESUME_AT:
            self._is_paused = False
            self._pause(False)

    def _leave(self) -> None:
        if not self.gone.done():
            self.gone.set_result(None)

    def _write_on_thread(self, descriptor: int) -> None:
        with suppress(RuntimeError, OSError), os.fdopen(descriptor, "wb", buffering=0) as sink:
            while data := self._queue.get():
                rest = memoryview(data)
                while rest:
                    rest = rest[sink.write(rest) or 0 :]
                self._loop.call_soon_threadsafe(self._note_written, len(data))
        with suppress(RuntimeError):  # the loop may be closed
            self._loop.call_soon_threadsafe(self._leave)

    def write(self, data: bytes) -> None:
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(data)

    def _flush(self) -> None:
        messages, self._waiting = self._waiting, []
        if not messages or self.gone.done():
            return
        data = b"".join(messages)
        if self._transport is None:
            unread = self._queued - self._written
            self._queued += len(data)
            self._queue.put(data)
            if unread + len(data) > PAUSE_AT and not self._is_paused:
                self._is_paused = True
                self._pause(True)
        elif not self._transport.is_closing():
            unread = self._transport.get_write_buffer_size()
            self._transport.write(data)
        else:
            return
        if unread + len(data) - len(messages[-1]) > MAX_UNREAD:
            self._overflow()

    async def close(self) -> None:
        self._flush()
        if self._transport is not None:
            self._transport.close()
        self._queue.put(b"")
        try:
            async with asyncio.timeout(1.0):
                await asyncio.shield(self.gone)
        except TimeoutError:
            if self._transport is not None:
                self._transport.abort()


def _is_pipe(descriptor: int) -> bool:
    """Return whether the event loop can wait for a descriptor: it cannot wait for files and terminals."""
    kind = os.fstat(descriptor).st_mode
    return WAITS_FOR_PIPES and (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind))


def _start_thread(name: str, work: Callable[[int], None], descriptor: int) -> None:
    threading.Thread(target=work, args=(os.dup(descriptor),), daemon=True, name=name).start()


def _read(source: io.RawIOBase) -> bytes:
    try:
        return source.read(65536) or b""
    except OSError:
        return b""  # it is closed
