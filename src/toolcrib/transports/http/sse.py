"""Streams of server-sent events that clients of older revisions read.

A stream of a session can be resumed: its events are numbered and kept for a while. The HTTP+SSE transport of
2024-11-05 is one stream that carries everything, and a path to post to.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from typing import Any

from toolcrib.context import LOCAL, Principal
from toolcrib.protocol import Engine
from toolcrib.protocol.messages import RETRY_AFTER
from toolcrib.protocol.sessions import MAX_PER_PRINCIPAL, Session
from toolcrib.transports.http.response import Response, ResponseWriter, error_response, event
from toolcrib.transports.pipe import Pipe

RETRY_MS = 500
MAX_KEPT_BYTES = 4 * 1024 * 1024
"""Events kept for one session; beyond that, the oldest are dropped."""
MAX_KEPT_STREAMS = 32
MAX_SERVER_BYTES = 64 * 1024 * 1024
"""Events kept for all sessions of a server; beyond that, the oldest are dropped."""
MAX_LEGACY_STREAMS = 1_000
_EVENT_BYTES = 200
"""Memory of an event besides its data."""


class ReplayBudget:
    """Bounds the events that all sessions of a server keep."""

    def __init__(self, limit: int = MAX_SERVER_BYTES) -> None:
        self.limit = limit
        self.bytes = 0
        self._sessions: OrderedDict[SessionStreams, None] = OrderedDict()  # least recently written first

    def add(self, streams: SessionStreams, size: int) -> None:
        self.bytes += size
        self._sessions[streams] = None
        self._sessions.move_to_end(streams)
        while self.bytes > self.limit and next(iter(self._sessions)).drop_oldest(keeps_last=streams):
            pass

    def subtract(self, streams: SessionStreams, size: int, *, is_empty: bool) -> None:
        self.bytes -= size
        if is_empty:
            self._sessions.pop(streams, None)


class SessionStreams:
    """All streams of one session, and their latest events. The stream `own` belongs to no request.

    The names of streams begin with `prefix`, which tells processes apart. `has_calls` says whether the
    streams of calls are among them; else they cannot be resumed.
    """

    def __init__(
        self, budget: ReplayBudget | None = None, *, prefix: str = "", has_calls: bool = True
    ) -> None:
        self.has_calls = has_calls
        self._prefix = prefix
        self._budget = budget or ReplayBudget()
        self._events: deque[tuple[EventStream, int, bytes]] = deque()
        self._bytes = 0
        self._streams: dict[str, EventStream] = {}
        self._number = 0
        self._missed = b""
        self.own = EventStream(f"{prefix}0", self)

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

    def new(self, principal: Principal = LOCAL) -> EventStream:
        """Return the stream of a request of this principal."""
        done = [name for name, stream in self._streams.items() if stream.is_done]
        for name in done[:-MAX_KEPT_STREAMS]:
            del self._streams[name]
        self._number += 1
        name = f"{self._prefix}{self._number}"
        stream = self._streams[name] = EventStream(name, self, principal)
        return stream

    def find(self, last_event_id: bytes) -> tuple[EventStream, int] | None:
        """Return the stream that an event belongs to, and the number of the event."""
        name, dash, number = last_event_id.decode("latin-1").strip().rpartition("-")
        stream = self.own if name == self.own.name else self._streams.get(name)
        if not dash or not (number.isascii() and number.isdigit()) or len(number) > 12:
            return None
        if stream is None or (stream.is_done and not self.events_of(stream, -1)):
            return None
        return stream, int(number)

    def keep(self, stream: EventStream, number: int, data: bytes) -> None:
        size = len(data) + _EVENT_BYTES
        self._events.append((stream, number, data))
        self._bytes += size
        self._budget.add(self, size)
        while self._bytes > MAX_KEPT_BYTES and self.drop_oldest(keeps_last=self):
            pass

    def events_of(self, stream: EventStream, after: int) -> list[bytes]:
        return [data for owner, number, data in self._events if owner is stream and number > after]

    def drop_oldest(self, *, keeps_last: SessionStreams | None = None) -> bool:
        """Drop the oldest event; return False if it is the only one of a session that keeps its last."""
        if len(self._events) <= (keeps_last is self):
            return False
        size = len(self._events.popleft()[2]) + _EVENT_BYTES
        self._bytes -= size
        self._budget.subtract(self, size, is_empty=not self._events)
        return True

    def close(self) -> None:
        for stream in (self.own, *self._streams.values()):
            stream.finish()
        self._streams.clear()
        while self.drop_oldest():
            pass


class EventStream:
    """One stream of numbered events. Written to one writer at a time, or to none while the client is away."""

    def __init__(self, name: str, session: SessionStreams, principal: Principal = LOCAL) -> None:
        self.name = name
        self.principal = principal
        self._session = session
        self.writer: ResponseWriter | None = None
        self.is_done = False
        self._number = 0

    def open(self, writer: ResponseWriter, *, resumable: bool) -> None:
        """Attach the first writer. With `resumable` the client first gets an empty event, to resume from."""
        self.writer = writer
        writer.open()
        if resumable:
            writer.write(b"id: %b-0\nretry: %d\ndata: \n\n" % (self.name.encode(), RETRY_MS))

    def resume(self, writer: ResponseWriter, after: int) -> None:
        """Attach the writer of a client that comes back, and write the events that it has missed."""
        self.release()  # of two readers of one stream, the newer one goes on
        self.writer = writer
        writer.open()
        if missed := b"".join(self._session.events_of(self, after)):
            writer.write(missed)  # in one piece: a writer refuses further data of a client that does not read
        if self.is_done:
            self.finish()

    def send(self, message: bytes) -> None:
        if self.is_done:
            return
        self._number += 1
        data = event(message, f"{self.name}-{self._number}".encode())
        self._session.keep(self, self._number, data)
        if self.writer is not None:
            self.writer.write(data)

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


class SessionStreamResponse:
    """A stream of a session that its client reads: the session's own, or one that it resumes. It opens once
    this process is `ready`."""

    def __init__(
        self,
        session: Session,
        stream: EventStream,
        after: int | None,
        ready: asyncio.Future[None] | None = None,
    ) -> None:
        self._session = session
        self._stream = stream
        self._after = after
        self._ready = ready
        self._writer: ResponseWriter | None = None
        self._is_open = False

    def begin(self, writer: ResponseWriter) -> None:
        self._writer = writer
        if self._ready is None:
            self._open(writer)
        else:
            self._ready.add_done_callback(lambda _: self._open(writer))

    def _open(self, writer: ResponseWriter) -> None:
        if self._is_open or self._writer is None:
            return
        self._is_open = True
        if self._after is None:
            self._stream.release()  # another one may have opened it meanwhile: the newer one goes on
            self._stream.open(writer, resumable=self._session.revision.resumable_streams)
        else:
            self._stream.resume(writer, self._after)
        if self._stream is self._session.streams.own:
            self._session.notify = self._session.streams.notify  # from now on, also while the client is away

    def lost(self) -> None:
        if self._writer is not None:
            self._stream.lost(self._writer)
        self._writer = None
        self._session.touch()

    def end(self) -> None:
        """End the stream; the client may resume it, with valid credentials."""
        if self._writer is not None:
            self._open(self._writer)
        if self._writer is not None and self._stream.writer is self._writer:
            self._stream.release()
        self.lost()


class LegacySSE:
    """The HTTP+SSE transport of 2024-11-05: its open streams, by an unguessable id."""

    paths = ("/sse", "/messages")

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._streams: dict[str, LegacyStream] = {}
        self._closing: set[asyncio.Task[Any]] = set()

    def open(self, key: str, root: str = "", principal: Principal = LOCAL) -> Response | LegacyStream:
        """Return a stream whose client posts below `root`, or the response that refuses it."""
        if principal is not LOCAL:  # callers with credentials cannot take the places of others
            own = sum(item.principal.binding == principal.binding for item in self._streams.values())
            if own >= MAX_PER_PRINCIPAL:
                return error_response(429, "Too many sessions: end one first", RETRY_AFTER)
        if len(self._streams) >= MAX_LEGACY_STREAMS:
            return error_response(503, "Too many sessions: try again later", RETRY_AFTER)
        stream = self._streams[key] = LegacyStream(self, key, root + self.paths[1], principal)
        return stream

    def post(self, key: str, body: bytes, principal: Principal = LOCAL) -> Response:
        stream = self._streams.get(key)
        if stream is None or stream.pipe is None or stream.principal.binding != principal.binding:
            return error_response(404, "Unknown session")
        stream.pipe.feed(body, principal)  # a token may have fewer scopes than the one that opened the stream
        return Response(202)

    def forget(self, stream: LegacyStream) -> None:
        self._streams.pop(stream.key, None)
        if stream.pipe is not None:
            task = asyncio.get_running_loop().create_task(stream.pipe.aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


class LegacyStream:
    """One client of the HTTP+SSE transport, and the stream that carries everything to it."""

    def __init__(self, transport: LegacySSE, key: str, path: str, principal: Principal) -> None:
        self.key = key
        self.principal = principal
        self.pipe: Pipe | None = None
        self._path = path
        self._transport = transport
        self._writer: ResponseWriter | None = None

    def begin(self, writer: ResponseWriter) -> None:
        self._writer = writer
        writer.open()
        writer.write(f"event: endpoint\ndata: {self._path}?session_id={self.key}\n\n".encode())
        self.pipe = Pipe(self._transport.engine, lambda message: writer.write(event(message)), self.principal)

    def lost(self) -> None:
        self._writer = None
        self._transport.forget(self)

    def end(self) -> None:
        writer = self._writer
        self.lost()
        if writer is not None:
            writer.finish()
