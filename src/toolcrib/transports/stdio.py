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
import socket
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from toolcrib.processes import LineReader
from toolcrib.protocol import Engine
from toolcrib.transports.pipe import Pipe

logger = logging.getLogger("toolcrib")

MAX_LINE = 4 * 1024 * 1024
DRAIN_S = 10.0
"""Time for running calls when stdin ends, as on Ctrl-C; they are ended if stdout is no longer read."""
MAX_UNREAD = 16 * 1024 * 1024
"""Unread bytes, and one message that may be of any size."""
PAUSE_AT = 4 * 1024 * 1024
"""Unread bytes from which on nothing is read from the client, until it has read most of them."""
RESUME_AT = 1024 * 1024
_BLOCK = 64 * 1024
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
        self._ended = asyncio.Event()
        self._out = _Writer(self._overflow, self._pause)
        self.peer = make_peer(self._send)
        self._lines = LineReader(MAX_LINE)
        self._drain_s = DRAIN_S
        self._reader: Any = None

    async def run(self) -> None:
        await self._out.open(self._standard.output)
        try:
            descriptor, loop = self._standard.input, asyncio.get_running_loop()
            if _is_pipe(descriptor):
                source = os.fdopen(os.dup(descriptor), "rb", buffering=0)
                self._reader, _ = await loop.connect_read_pipe(lambda: self, source)
            else:
                near = _start_copying("toolcrib-stdin", _copy_input, os.dup(descriptor))
                self._reader, _ = await loop.create_connection(lambda: self, sock=near)
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

    def _pause(self, is_paused: bool) -> None:
        """Stop reading from a client that does not read, or go on."""
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


class _Writer(asyncio.Protocol):
    """Writes lines to a pipe, a file or a terminal; lines of one turn of the loop are written together."""

    def __init__(self, overflow: Callable[[], None], pause: Callable[[bool], None]) -> None:
        self._overflow = overflow
        self._pause = pause
        self._transport: Any = None
        self._is_copied = False
        self._waiting: list[bytes] = []
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self, descriptor: int) -> None:
        loop = asyncio.get_running_loop()
        self._is_copied = not _is_pipe(descriptor)
        if self._is_copied:

            def leave() -> None:
                with suppress(RuntimeError):  # the loop may be closed
                    loop.call_soon_threadsafe(self._leave)

            near = _start_copying("toolcrib-stdout", _copy_output, os.dup(descriptor), leave)
            self._transport, _ = await loop.create_connection(lambda: self, sock=near)
        else:
            sink = os.fdopen(os.dup(descriptor), "wb", buffering=0)
            self._transport, _ = await loop.connect_write_pipe(lambda: self, sink)
        self._transport.set_write_buffer_limits(PAUSE_AT, RESUME_AT)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        if not self._is_copied:  # else the thread may still have to write
            self._leave()

    def pause_writing(self) -> None:
        self._pause(True)

    def resume_writing(self) -> None:
        self._pause(False)

    def _leave(self) -> None:
        if not self.gone.done():
            self.gone.set_result(None)

    def write(self, data: bytes) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._flush)
        self._waiting.append(data)

    def _flush(self) -> None:
        messages, self._waiting = self._waiting, []
        if not messages or self.gone.done() or self._transport.is_closing():
            return
        data = b"".join(messages)
        unread = self._transport.get_write_buffer_size()
        self._transport.write(data)
        if unread + len(data) - len(messages[-1]) > MAX_UNREAD:
            self._overflow()

    async def close(self) -> None:
        self._flush()
        self._transport.close()
        try:
            async with asyncio.timeout(1.0):
                await asyncio.shield(self.gone)
        except TimeoutError:
            self._transport.abort()


def _is_pipe(descriptor: int) -> bool:
    """Return whether the event loop can wait for a descriptor: it cannot wait for files and terminals."""
    kind = os.fstat(descriptor).st_mode
    return WAITS_FOR_PIPES and (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind))


# --- threads, which copy what the event loop cannot wait for to a socket, or from one ------------------


def _start_copying(name: str, copy: Callable[..., None], descriptor: int, *more: Any) -> socket.socket:
    """Start a thread, and return the socket that is connected to it."""
    near, far = socket.socketpair()
    near.setblocking(False)
    threading.Thread(target=copy, args=(descriptor, far, *more), daemon=True, name=name).start()
    return near


def _copy_input(descriptor: int, far: socket.socket) -> None:
    with suppress(OSError), far, os.fdopen(descriptor, "rb", buffering=0) as source:
        while data := source.read(_BLOCK):
            far.sendall(data)  # waits while the client is not read from


def _copy_output(descriptor: int, far: socket.socket, leave: Callable[[], None]) -> None:
    with suppress(OSError), far, os.fdopen(descriptor, "wb", buffering=0) as sink:
        while data := far.recv(_BLOCK):
            rest = memoryview(data)
            while rest:
                rest = rest[sink.write(rest) or 0 :]
    leave()
