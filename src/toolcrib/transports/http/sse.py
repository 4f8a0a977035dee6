"""The streams of a legacy session: what was sent is kept for a while, so that a client can come back for it.

Knows events and who reads them now; refuses to know calls.

Streams that last, and end soon after their reader could not open them any more.

Every request shows who sent it, and a stream is one request that goes on for hours: a key that is revoked, or
a token that ends, must end it. Looked at while there are such streams, and never else. Knows streams and
whether to go on with them; refuses to know keys and tokens.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from toolcrib.transports.http.messages import Lasting, Writer, event

LOOK_S = 1.0
"""How often it is looked whether a stream may go on."""

Shown = TypeVar("Shown")


class Attendance(Generic[Shown]):
    """Those who listen, and what each of them has shown. `is_good` says whether that would do now."""

    def __init__(self, is_good: Callable[[Shown], bool], *, every_s: float | None = None) -> None:
        self._is_good = is_good
        self._every_s = LOOK_S if every_s is None else every_s
        # Whoever serves a stream holds it; one that has ended is forgotten without anybody saying so.
        self._streams: WeakKeyDictionary[Lasting, Shown] = WeakKeyDictionary()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._streams)

    def add(self, stream: Lasting, shown: Shown) -> None:
        self._streams[stream] = shown
        if self._timer is None:
            self._arm()

    def look(self) -> None:
        """End those that may not go on."""
        for stream, shown in list(self._streams.items()):
            if not self._is_good(shown):
                del self._streams[stream]
                stream.end()

    def close(self) -> None:
        self._streams.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._every_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        try:
            self.look()
        finally:
            if self._streams:
                self._arm()


RETRY_MS = 500
MAX_KEPT_BYTES = 4 * 1024 * 1024
"""What is kept for one session: above that, what was sent first is forgotten first."""
MAX_KEPT_STREAMS = 32
MAX_SHELF_BYTES = 64 * 1024 * 1024
"""What is kept for all clients of a server together: above that, what was sent first is forgotten first."""
_EVENT_BYTES = 200
"""What an event costs besides its data."""


class Shelf:
    """What streams keep together: those of a session, and in `whole` those of a server."""

    def __init__(self, limit: int = MAX_SHELF_BYTES, whole: Shelf | None = None) -> None:
        self.limit = limit
        self.bytes = 0
        self._whole = whole
        self._streams: OrderedDict[Stream, None] = OrderedDict()  # the last written one last

    def put(self, stream: Stream, size: int) -> None:
        self.bytes += size
        self._streams[stream] = None
        self._streams.move_to_end(stream)
        if self._whole is not None:
            self._whole.put(stream, size)
        while self.bytes > self.limit and len(self._streams) > 1:
            next(iter(self._streams)).forget()

    def take(self, size: int) -> None:
        self.bytes -= size
        if self._whole is not None:
            self._whole.take(size)

    def clear(self, stream: Stream, size: int) -> None:
        self.bytes -= size
        self._streams.pop(stream, None)
        if self._whole is not None:
            self._whole.clear(stream, size)


class Stream:
    """One stream of events, numbered. Read by one writer at a time, or by none."""

    def __init__(self, name: str, shelf: Shelf) -> None:
        self.name = name
        self._shelf = shelf
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
        missed = b"".join([data for number, data in self._events if number > after])
        if missed:
            writer.write(missed)  # at once: a writer takes little more from a client that does not read
        if self.is_done:
            self.finish()

    def send(self, message: bytes) -> None:
        if self.is_done:
            return
        self._number += 1
        data = event(message, self._id(self._number))
        self._events.append((self._number, data))
        self._bytes += len(data) + _EVENT_BYTES
        self._shelf.put(self, len(data) + _EVENT_BYTES)
        while self._bytes > MAX_KEPT_BYTES and len(self._events) > 1:
            size = len(self._events.popleft()[1]) + _EVENT_BYTES
            self._bytes -= size
            self._shelf.take(size)
        if self.writer is not None:
            self.writer.write(data)

    def forget(self) -> None:
        """Keep nothing of what was sent so far."""
        self._events.clear()
        self._shelf.clear(self, self._bytes)
        self._bytes = 0

    @property
    def is_lost(self) -> bool:
        """Whether there is nothing to come back for."""
        return self.is_done and not self._events

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

    def __init__(self, shelf: Shelf | None = None) -> None:
        self._shelf = Shelf(MAX_KEPT_BYTES, shelf)
        self._streams: dict[str, Stream] = {}
        self._number = 0
        self._missed = b""
        self.own = Stream("0", self._shelf)

    @property
    def is_read(self) -> bool:
        """Whether the client reads what belongs to no request."""
        return self.own.writer is not None

    def tell(self, message: bytes) -> None:
        """Send what belongs to no request. Who is away hears of the same thing once, when they come back."""
        if self.is_read:
            self._missed = b""
        elif message == self._missed:
            return
        else:
            self._missed = message
        self.own.send(message)

    def new(self) -> Stream:
        done = [name for name, stream in self._streams.items() if stream.is_done]
        for name in done[:-MAX_KEPT_STREAMS]:
            self._streams.pop(name).forget()
        self._number += 1
        stream = self._streams[str(self._number)] = Stream(str(self._number), self._shelf)
        return stream

    def find(self, last: bytes) -> tuple[Stream, int] | None:
        """The stream that an event belonged to, and the event's number."""
        name, dash, number = last.decode("latin-1").strip().rpartition("-")
        stream = self.own if name == "0" else self._streams.get(name)
        if not dash or not (number.isascii() and number.isdigit()) or len(number) > 12:
            return None
        if stream is None or stream.is_lost:
            return None
        return stream, int(number)

    def close(self) -> None:
        for stream in (self.own, *self._streams.values()):
            stream.finish()
            stream.forget()
        self._streams.clear()
