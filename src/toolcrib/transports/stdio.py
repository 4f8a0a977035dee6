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
from typing import Any

from toolcrib.protocol import Engine
from toolcrib.transports.lines import LineReader
from toolcrib.transports.pipe import Pipe

logger = logging.getLogger("toolcrib")

MAX_LINE = 4 * 1024 * 1024
DRAIN_S = 10.0
"""Time for running calls when stdin ends, as on Ctrl-C; they are ended where nobody reads stdout any more."""
MAX_UNREAD = 16 * 1024 * 1024


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


async def serve_stdio(engine: Engine, standard: StandardStreams | None = None) -> None:
    """Serve one client until it closes its end."""
    own = standard or StandardStreams()
    try:
        await _Session(engine, own).run()
    finally:
        if standard is None:
            own.restore()


class _Session(asyncio.Protocol):
    def __init__(self, engine: Engine, standard: StandardStreams) -> None:
        self._standard = standard
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._out = _Writer(standard.output, self._overflow)
        self._pipe = Pipe(engine, self._send)
        self._lines = LineReader(MAX_LINE)
        self._drain_s = DRAIN_S
        self._reader: asyncio.ReadTransport | None = None

    async def run(self) -> None:
        await self._out.open()
        try:
            await self._open_reader()
            await self._ended.wait()
            self._take(self._lines.end())
            ending = asyncio.ensure_future(self._pipe.drain(self._drain_s))
            self._out.gone.add_done_callback(lambda _: ending.cancel())
            await asyncio.wait([ending])
        finally:
            await self._pipe.aclose()
            if self._reader is not None:
                self._reader.close()
            await self._out.close()

    async def _open_reader(self) -> None:
        if not _is_pipe(self._standard.input):
            threading.Thread(target=self._read_file, daemon=True, name="toolcrib-stdin").start()
            return
        source = os.fdopen(os.dup(self._standard.input), "rb", buffering=0)
        self._reader, _ = await self._loop.connect_read_pipe(lambda: self, source)

    def _read_file(self) -> None:
        """Read a file or a terminal on a thread: the event loop cannot wait for those."""
        while True:
            try:
                data = os.read(self._standard.input, 65536)
            except OSError:
                data = b""  # it is closed
            if not data:
                self._loop.call_soon_threadsafe(self._end)
                return
            self._loop.call_soon_threadsafe(self.data_received, data)

    def _end(self) -> None:
        self._ended.set()

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
            self._pipe.refuse(f"Invalid request: a line of more than {MAX_LINE} bytes")
        elif line and not line.isspace():
            self._pipe.feed(line)

    def eof_received(self) -> bool:
        self._ended.set()
        return False

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self._ended.set()


class _Writer(asyncio.BaseProtocol):
    """Writes lines to a pipe, a file or a terminal; those of one turn of the loop are written together."""

    def __init__(self, descriptor: int, overflow: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._overflow = overflow
        self._transport: Any = None  # of a pipe
        self._waiting: list[bytes] = []
        self.gone: asyncio.Future[None] = self._loop.create_future()

    async def open(self) -> None:
        if _is_pipe(self._descriptor):
            sink = os.fdopen(os.dup(self._descriptor), "wb", buffering=0)
            self._transport, _ = await self._loop.connect_write_pipe(lambda: self, sink)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self.gone.set_result(None)

    def write(self, data: bytes) -> None:
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(data)

    def _flush(self) -> None:
        data, self._waiting = b"".join(self._waiting), []
        if self._transport is None:
            while data:
                data = data[os.write(self._descriptor, data) :]
        elif data and not self._transport.is_closing():
            self._transport.write(data)
            if self._transport.get_write_buffer_size() > MAX_UNREAD:
                self._overflow()

    async def close(self) -> None:
        self._flush()
        if self._transport is not None:
            self._transport.close()
            try:
                async with asyncio.timeout(1.0):
                    await asyncio.shield(self.gone)
            except TimeoutError:
                self._transport.abort()


def _is_pipe(descriptor: int) -> bool:
    """Return whether the event loop can wait for a descriptor: it cannot wait for files and terminals."""
    kind = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)
