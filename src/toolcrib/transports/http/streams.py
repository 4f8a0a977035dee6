"""The streams of a legacy session: what was sent is kept for a while, so that a client can come back for it.

Knows events and who reads them now; refuses to know calls.
"""

from __future__ import annotations

from collections import deque

from toolcrib.transports.http.wire import Writer, event

RETRY_MS = 500
MAX_KEPT_BYTES = 4 * 1024 * 1024
MAX_KEPT_STREAMS = 32


class Stream:
    """One stream of events, numbered. Read by one writer at a time, or by none."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.writer: Writer | None = None
        self.is_done = False
        self._events: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._number = 0

    def open(self, writer: Writer, *, primes: bool) -> None:
        """The first reader. Newer clients get an empty event first, to know where to come back to."""
        self.writer = writer
        writer.open()
        if primes:
            writer.write(b"id: %b\nretry: %d\ndata: \n\n" % (self._id(0), RETRY_MS))

    def resume(self, writer: Writer, after: int) -> None:
        """A reader that comes back: first what it has missed, then what comes."""
        if self.writer is not None:
            self.writer.finish()  # a client that reads twice reads on in the newer one
        self.writer = writer
        writer.open()
        for number, data in self._events:
            if number > after:
                writer.write(data)
        if self.is_done:
            self.finish()

    def send(self, message: bytes) -> None:
        self._number += 1
        data = event(message, self._id(self._number))
        self._events.append((self._number, data))
        self._bytes += len(data)
        while self._bytes > MAX_KEPT_BYTES and len(self._events) > 1:
            self._bytes -= len(self._events.popleft()[1])
        if self.writer is not None:
            self.writer.write(data)

    def finish(self) -> None:
        self.is_done = True
        self.let_go()

    def let_go(self) -> None:
        """End what the reader reads; it may come back."""
        writer, self.writer = self.writer, None
        if writer is not None:
            writer.finish()

    def lost(self, writer: Writer) -> None:
        if self.writer is writer:
            self.writer = None

    def _id(self, number: int) -> bytes:
        return f"{self.name}-{number}".encode()


class Streams:
    """All streams of one session. The one called `0` belongs to no request."""

    def __init__(self) -> None:
        self._streams: dict[str, Stream] = {}
        self._number = 0
        self.own = Stream("0")

    def new(self) -> Stream:
        done = [name for name, stream in self._streams.items() if stream.is_done]
        for name in done[:-MAX_KEPT_STREAMS]:
            del self._streams[name]
        self._number += 1
        stream = self._streams[str(self._number)] = Stream(str(self._number))
        return stream

    def find(self, last: bytes) -> tuple[Stream, int] | None:
        """The stream that an event belonged to, and the event's number."""
        name, dash, number = last.decode("latin-1").strip().rpartition("-")
        stream = self.own if name == "0" else self._streams.get(name)
        if not dash or stream is None or not (number.isascii() and number.isdigit()) or len(number) > 12:
            return None
        return stream, int(number)

    def close(self) -> None:
        for stream in (self.own, *self._streams.values()):
            stream.finish()
        self._streams.clear()
