"""HTTP responses: complete ones, streams of events, and the writing side of a connection.

Nothing is handed to the transport while its buffer is full: it waits in an `OutputBuffer`, and the next
request is not read before the response to this one was sent. So a slow client gets its result whole. The
buffers of a server are bounded, each and together: above the limit, the client that has read nothing for
longest is cut off.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

from toolcrib.protocol import Reply
from toolcrib.protocol.messages import INVALID_REQUEST, Headers, RPCError, encode_error

if TYPE_CHECKING:
    from toolcrib.transports.http.connection import Connection
    from toolcrib.transports.http.request import Head

logger = logging.getLogger("toolcrib")

JSON = b"application/json"
SSE_HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
ALIVE_S = 15.0
"""Time between two comments in a stream, which keep proxies from closing it."""
MAX_UNREAD = 16 * 1024 * 1024
"""Unread bytes of one connection, and one message that may be of any size."""
MAX_ALL_UNREAD = 64 * 1024 * 1024
"""Unread bytes of all connections together."""
PIECE = 64 * 1024
MAX_BATCH = 32
BATCHED_SIZE = 4 * 1024
"""Replies that are written together, and the size of a body up to which it waits for that."""


class Response(Reply):
    """A reply of the HTTP transport itself: any content type, and possibly the last one on its connection."""

    __slots__ = ("closes", "content_type")

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        content_type: bytes = JSON,
        headers: Headers = (),
        *,
        closes: bool = False,
    ) -> None:
        super().__init__(body, status, headers)
        self.content_type = content_type
        self.closes = closes


def error_response(status: int, message: str, headers: Headers = (), *, closes: bool = False) -> Response:
    """Return a response that refuses a request, with a JSON-RPC error as its body."""
    body = encode_error(None, RPCError(INVALID_REQUEST, message))
    return Response(status, body, headers=headers, closes=closes)


HEALTH = "/health"
READY = "/ready"


def page(method: str, body: bytes, content_type: bytes = JSON, status: int = 200) -> Response:
    """Return a page that can only be read, and is not to be cached."""
    if method not in ("GET", "HEAD"):
        message = "Method not allowed: this page is read-only"
        return error_response(405, message, ((b"allow", b"GET, HEAD"),))
    return Response(status, body, content_type, ((b"cache-control", b"no-store"),))


def event(message: bytes, id_: bytes | None = None) -> bytes:
    """Return a message as a server-sent event."""
    if id_ is None:
        return b"event: message\ndata: " + message + b"\n\n"
    return b"event: message\nid: " + id_ + b"\ndata: " + message + b"\n\n"


class ResponseWriter(Protocol):
    """The writing side of a connection: either one response, or a stream of events. Never blocks."""

    def respond(self, reply: Reply) -> None: ...

    def open(
        self,
        status: int = 200,
        headers: Headers = SSE_HEADERS,
        length: int | None = None,
        *,
        is_events: bool = True,
        has_body: bool = True,
    ) -> None:
        """Begin a stream: of events, or a body that is written in pieces and may have a known length."""
        ...

    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None:
        """Wait until the client has taken what was written."""
        ...

    def finish(self) -> None: ...

    def cut(self) -> None:
        """Break off a response: the client sees that it is not complete."""
        ...


class PendingResponse(Protocol):
    """A response that takes time. The connection begins it, and reports when the client has disconnected."""

    def begin(self, writer: ResponseWriter) -> None: ...

    def lost(self) -> None: ...

    def end(self) -> None:
        """End a stream that the client listens to; it may have disconnected before."""
        ...


# --- unread output -----------------------------------------------------------------------------------


class OutputStore:
    """The unread output and the open streams of all clients of one server, and the date of their responses.

    `json_head` is the head of a plain response but for the length of its body. Small replies are written
    together, at the end of a turn of the event loop: a client that waits has to be woken up, which costs
    more than the write itself, and the first reply wakes a client for all of them.
    """

    def __init__(self, limit: int = MAX_ALL_UNREAD) -> None:
        self.size = 0
        self._limit = limit
        self._buffers: set[OutputBuffer] = set()  # those with unread output
        self._streams: dict[ResponseWriter, float] = {}  # the time of the last comment, oldest first
        self._timer: asyncio.TimerHandle | None = None
        self._batch: list[tuple[Any, bytes]] = []
        self.set_date()

    def set_date(self) -> None:
        """Set the date of responses to now; called about twice a second."""
        from email.utils import formatdate  # delayed: needed when a server starts

        self.date = formatdate(usegmt=True).encode()
        self.json_head = (
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %%d\r\ndate: %b\r\n\r\n"
            % self.date
        )

    def write_soon(self, transport: Any, data: bytes) -> None:
        """Write a reply in this turn of the event loop. Other writes to the transport have to `flush`."""
        batch = self._batch
        if not batch:
            asyncio.get_running_loop().call_soon(self.flush)
        batch.append((transport, data))
        if len(batch) >= MAX_BATCH:
            self.flush()

    def flush(self) -> None:
        if self._batch:
            batch, self._batch = self._batch, []
            for transport, data in batch:
                try:
                    transport.write(data)
                except RuntimeError:  # from uvloop: this client has disconnected, the others wait
                    pass

    def add(self, buffer: OutputBuffer, size: int) -> None:
        """Count what a buffer has got. Above the limit, cut off clients that have read nothing for
        longest."""
        self._buffers.add(buffer)
        self.size += size
        while self.size > self._limit and len(self._buffers) > 1:
            min(self._buffers - {buffer}, key=lambda item: item.read_at).cut()

    def remove(self, buffer: OutputBuffer, size: int) -> None:
        """Count what a buffer no longer has."""
        self.size -= size
        if not buffer.size:
            self._buffers.discard(buffer)

    def add_stream(self, writer: ResponseWriter) -> None:
        """Write a comment to this stream at intervals, so that no proxy takes it for a dead one."""
        loop = asyncio.get_running_loop()
        self._streams[writer] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(ALIVE_S, self._keep_alive)

    def remove_stream(self, writer: ResponseWriter) -> None:
        self._streams.pop(writer, None)

    def _keep_alive(self) -> None:
        """Write to the streams that are due: not to all at once, which would take long."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._streams:
            writer, written = next(iter(self._streams.items()))
            if written + ALIVE_S > now:
                self._timer = loop.call_at(written + ALIVE_S, self._keep_alive)
                return
            del self._streams[writer]
            self._streams[writer] = now
            try:
                writer.write(b": alive\n\n")
            except RuntimeError:  # as in `flush`
                pass
        self._timer = None


class OutputBuffer:
    """The unread output of one client, first in, first out. `on_cut` is called when it is thrown away."""

    __slots__ = ("_data", "_on_cut", "_store", "read_at")

    def __init__(self, store: OutputStore, on_cut: Callable[[], None]) -> None:
        self.read_at = 0.0  # when the client last took something, or could have
        self._store = store
        self._on_cut: Callable[[], None] | None = on_cut
        self._data = bytearray()

    @property
    def size(self) -> int:
        return len(self._data)

    def append(self, data: bytes | memoryview) -> None:
        """Keep output, or cut the client off if it has more than the limit to read already."""
        if not self._data:
            self.read_at = time.monotonic()
        elif len(self._data) > MAX_UNREAD:
            self.cut()
            return
        self._data += data
        self._store.add(self, len(data))

    def take(self, limit: int) -> bytes:
        """Return the next bytes, at most `limit` of them."""
        self.read_at = time.monotonic()
        with memoryview(self._data) as data:
            taken = bytes(data[:limit])
        del self._data[:limit]
        self._store.remove(self, len(taken))
        return taken

    def cut(self) -> None:
        """Throw away the output and call `on_cut`."""
        on_cut = self._on_cut
        self.close()
        if on_cut is not None:
            on_cut()

    def close(self) -> None:
        """Keep nothing more, and drop the callback."""
        size, self._data = len(self._data), bytearray()
        self._store.remove(self, size)
        self._on_cut = None


# --- the writing side of a connection ----------------------------------------------------------------

_LINES = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode())
    for status in HTTPStatus
    if status >= 200
}


class Output:
    """A `ResponseWriter` for one response of a connection after the other.

    To begin a response, the connection sets `is_idle`, `closes` and `head` (of the request).
    """

    __slots__ = (
        "_connection",
        "_drained",
        "_is_chunked",
        "_is_ending",
        "_is_paused",
        "_is_stream",
        "_store",
        "_transport",
        "_unread",
        "closes",
        "head",
        "is_idle",
    )

    head: Head

    def __init__(self, connection: Connection, transport: Any, store: OutputStore) -> None:
        self._connection: Any = connection
        self._transport: Any = transport
        self._store = store
        self._unread = OutputBuffer(store, transport.abort)
        self._is_paused = False
        self._is_stream = False
        self._is_chunked = False
        self._is_ending = False  # everything was written; what is unread still has to go
        self._drained: asyncio.Future[None] | None = None
        self.closes = False
        self.is_idle = True

    def respond(self, reply: Reply) -> None:
        if self.is_idle:
            return
        body = reply.body or b""
        is_plain = type(reply) is Reply and reply.status == 200 and body and not reply.headers
        if is_plain and not self.closes and not self.head.cors:
            head = self._store.json_head % len(body)
        else:
            head = self._format_head(reply, body)
            if self.head.method == "HEAD":
                body = b""
        if len(body) <= BATCHED_SIZE:
            self._store.write_soon(self._transport, head + body)
        else:
            self._store.flush()
            if len(body) <= PIECE:
                head, body = head + body, b""
            self._transport.write(head)
            self._put(body)
        if self._is_paused or self._unread.size:
            self._is_ending = True
        else:  # as in `_end`, without a call
            self.is_idle = True
            self._connection.responded(self.closes)

    def open(
        self,
        status: int = 200,
        headers: Headers = SSE_HEADERS,
        length: int | None = None,
        *,
        is_events: bool = True,
        has_body: bool = True,
    ) -> None:
        if self.is_idle:
            return
        line = _LINES.get(status) or b"HTTP/1.1 %d Unknown\r\n" % status
        lines = [line, *(b"%b: %b\r\n" % item for item in (*headers, *self.head.cors))]
        lines.append(b"date: %b\r\n" % self._store.date)
        self._is_chunked = has_body and length is None and self.head.is_http11
        if length is not None:
            lines.append(b"content-length: %d\r\n" % length)
        elif self._is_chunked:
            lines.append(b"transfer-encoding: chunked\r\n")
        elif has_body:
            self.closes = True
        if self.closes:
            lines.append(b"connection: close\r\n")
        self._is_stream = True
        if is_events:
            self._store.add_stream(self)
        self._store.flush()
        self._transport.write(b"".join(lines) + b"\r\n")

    def write(self, data: bytes) -> None:
        if not self._is_stream:
            return
        self._put(b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data)

    async def drain(self) -> None:
        if self._is_paused or self._unread.size:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained

    def cut(self) -> None:
        if not self.is_idle:
            self._transport.abort()

    def finish(self) -> None:
        if not self._is_stream:
            return
        self._is_stream = False
        self._store.remove_stream(self)
        if self._is_chunked:
            self._put(b"0\r\n\r\n")
        self._end()

    # --- flow ---

    def pause(self) -> None:
        self._is_paused = True
        self._connection.wait_for_reader()

    def resume(self) -> None:
        self._is_paused = False
        self._connection.write_by = float("inf")
        while not self._is_paused and self._unread.size:
            self._transport.write(self._unread.take(PIECE))
        if self._drained is not None and not self._is_paused:
            if not self._drained.done():  # the response was not cancelled
                self._drained.set_result(None)
            self._drained = None
        if self._is_ending:
            self._end()

    def lost(self) -> None:
        self._unread.close()
        self._store.remove_stream(self)
        self._is_stream = self._is_ending = False
        self.is_idle = True
        self._connection = self._transport = None  # breaks a reference cycle

    def _put(self, data: bytes) -> None:
        """Write what the socket takes now; `resume` goes on with the rest."""
        if not self._is_paused and len(data) <= PIECE:
            self._transport.write(data)
            return
        rest = memoryview(data)
        while rest and not self._is_paused:
            self._transport.write(bytes(rest[:PIECE]))
            rest = rest[PIECE:]
        if rest:
            self._unread.append(rest)

    def _end(self) -> None:
        """End the response once the client has taken it, but for what the socket buffers."""
        if self._is_paused or self._unread.size:
            self._is_ending = True
        else:
            self._is_ending = False
            self.is_idle = True
            self._connection.responded(self.closes)

    def _format_head(self, reply: Reply, body: bytes) -> bytes:
        content_type = JSON
        if isinstance(reply, Response):
            content_type = reply.content_type
            self.closes = self.closes or reply.closes
        line = _LINES.get(reply.status) or b"HTTP/1.1 %d Unknown\r\n" % reply.status
        lines = [line, b"content-length: %d\r\ndate: %b\r\n" % (len(body), self._store.date)]
        if body:
            lines.append(b"content-type: %b\r\n" % content_type)
        lines += [b"%b: %b\r\n" % item for item in (*reply.headers, *self.head.cors)]
        if self.closes:
            lines.append(b"connection: close\r\n")
        return b"".join(lines) + b"\r\n"
