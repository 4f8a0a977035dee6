"""Server-sent event streams of legacy sessions, which clients can resume, and streams that end with
credentials.

Every request proves who sent it, but a stream is one request that lasts for hours: it must end when its key
is revoked or its token expires. `CredentialWatch` checks that, while there are such streams.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from toolcrib.transports.http.response import OpenStream, ResponseWriter, event

CHECK_S = 1.0
"""Time between two checks of the credentials of open streams."""
RETRY_MS = 500
MAX_KEPT_BYTES = 4 * 1024 * 1024
"""Events kept for one session; beyond that, the oldest are dropped."""
MAX_KEPT_STREAMS = 32
MAX_SERVER_BYTES = 64 * 1024 * 1024
"""Events kept for all sessions of a server; beyond that, the oldest are dropped."""
_EVENT_BYTES = 200
"""Memory of an event besides its data."""

Credentials = TypeVar("Credentials")


class CredentialWatch(Generic[Credentials]):
    """Open streams and the credentials they were opened with; ends those whose credentials are no longer
    valid."""

    def __init__(self, is_valid: Callable[[Credentials], bool], *, every_s: float | None = None) -> None:
        self._is_valid = is_valid
        self._every_s = CHECK_S if every_s is None else every_s
        # The connection holds its stream; one that has ended disappears from here by itself.
        self._streams: WeakKeyDictionary[OpenStream, Credentials] = WeakKeyDictionary()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._streams)

    def add(self, stream: OpenStream, credentials: Credentials) -> None:
        self._streams[stream] = credentials
        if self._timer is None:
            self._schedule()

    def check(self) -> None:
        for stream, credentials in list(self._streams.items()):
            if not self._is_valid(credentials):
                del self._streams[stream]
                stream.end()

    def close(self) -> None:
        self._streams.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._every_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        try:
            self.check()
        finally:
            if self._streams:
                self._schedule()


class ReplayBudget:
    """Bounds the events kept by a group of streams: those of a session and, as `parent`, those of the
    server."""

    def __init__(self, limit: int = MAX_SERVER_BYTES, parent: ReplayBudget | None = None) -> None:
        self.limit = limit
        self.bytes = 0
        self._parent = parent
        self._streams: OrderedDict[EventStream, None] = OrderedDict()  # least recently written first

    def add(self, stream: EventStream, size: int) -> None:
        self.bytes += size
        self._streams[stream] = None
        self._streams.move_to_end(stream)
        if self._parent is not None:
            self._parent.add(stream, size)
        while self.bytes > self.limit and len(self._streams) > 1:
            next(iter(self._streams)).forget()

    def subtract(self, size: int) -> None:
        self.bytes -= size
        if self._parent is not None:
            self._parent.subtract(size)

    def remove(self, stream: EventStream, size: int) -> None:
        self.bytes -= size
        self._streams.pop(stream, None)
        if self._parent is not None:
            self._parent.remove(stream, size)


class EventStream:
    """One stream of numbered events. Written to one writer at a time, or to none while the client is away."""

    def __init__(self, name: str, budget: ReplayBudget) -> None:
        self.name = name
        self._budget = budget
        self.writer: ResponseWriter | None = None
        self.is_done = False
        self._events: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._number = 0

    def open(self, writer: ResponseWriter, *, resumable: bool) -> None:
        """Attach the first writer. With `resumable` the client first gets an empty event, to resume from."""
        self.writer = writer
        writer.open()
        if resumable:
            writer.write(b"id: %b\nretry: %d\ndata: \n\n" % (self._id(0), RETRY_MS))

    def resume(self, writer: ResponseWriter, after: int) -> None:
        """Attach the writer of a client that comes back, and write the events that it has missed."""
        if self.writer is not None:
            self.writer.finish()  # of two readers of one stream, the newer one goes on
        self.writer = writer
        writer.open()
        missed = b"".join([data for number, data in self._events if number > after])
        if missed:
            writer.write(missed)  # in one piece: a writer refuses further data of a client that does not read
        if self.is_done:
            self.finish()

    def send(self, message: bytes) -> None:
        if self.is_done:
            return
        self._number += 1
        data = event(message, self._id(self._number))
        self._events.append((self._number, data))
        self._bytes += len(data) + _EVENT_BYTES
        self._budget.add(self, len(data) + _EVENT_BYTES)
        while self._bytes > MAX_KEPT_BYTES and len(self._events) > 1:
            size = len(self._events.popleft()[1]) + _EVENT_BYTES
            self._bytes -= size
            self._budget.subtract(size)
        if self.writer is not None:
            self.writer.write(data)

    def forget(self) -> None:
        """Drop all events kept so far."""
        self._events.clear()
        self._budget.remove(self, self._bytes)
        self._bytes = 0

    @property
    def is_lost(self) -> bool:
        """Whether there is nothing to come back for."""
        return self.is_done and not self._events

    def finish(self) -> None:
        self.is_done = True
        self.release()

    def release(self) -> None:
        """End the response that is being read; the client may come back."""
        writer, self.writer = self.writer, None
        if writer is not None:
            writer.finish()

    def lost(self, writer: ResponseWriter) -> None:
        if self.writer is writer:
            self.writer = None

    def _id(self, number: int) -> bytes:
        return f"{self.name}-{number}".encode()


class SessionStreams:
    """All streams of one session. The one called `0` belongs to no request."""

    def __init__(self, server_budget: ReplayBudget | None = None) -> None:
        self._budget = ReplayBudget(MAX_KEPT_BYTES, server_budget)
        self._streams: dict[str, EventStream] = {}
        self._number = 0
        self._missed = b""
        self.own = EventStream("0", self._budget)

    @property
    def is_read(self) -> bool:
        """Whether the client reads the stream that belongs to no request."""
        return self.own.writer is not None

    def notify(self, message: bytes) -> None:
        """Send a message that belongs to no request; repeated ones are kept once while the client is away."""
        if self.is_read:
            self._missed = b""
        elif message == self._missed:
            return
        else:
            self._missed = message
        self.own.send(message)

    def new(self) -> EventStream:
        done = [name for name, stream in self._streams.items() if stream.is_done]
        for name in done[:-MAX_KEPT_STREAMS]:
            self._streams.pop(name).forget()
        self._number += 1
        stream = self._streams[str(self._number)] = EventStream(str(self._number), self._budget)
        return stream

    def find(self, last_event_id: bytes) -> tuple[EventStream, int] | None:
        """Return the stream that an event belongs to, and the number of the event."""
        name, dash, number = last_event_id.decode("latin-1").strip().rpartition("-")
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
