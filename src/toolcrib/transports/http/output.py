"""The writing side of an HTTP connection: responses in pieces that the socket takes, streams in chunks.

Nothing is handed to the transport while its buffer is full: it waits in an `OutputBuffer`, and the next
request is not read before the response to this one was sent. The buffer keeps up to 1 MiB in memory and the
rest in a temporary file: a slow client gets its result whole, and clients that never read cost neither memory
nor time of others. The files of a server are bounded together: above the limit, the client that has read
nothing for longest is cut off.
"""

from __future__ import annotations

import io
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

from toolcrib.protocol import Reply
from toolcrib.transports.http.response import JSON, PHRASES, SSE_HEADERS, Response

if TYPE_CHECKING:
    from toolcrib.transports.http.connection import Connection
    from toolcrib.transports.http.request import Head

logger = logging.getLogger("toolcrib")

MAX_MEMORY = 1024 * 1024
"""Bytes kept in memory for one client."""
MAX_FILES = 1024 * 1024 * 1024
"""Bytes kept in the files of all clients together."""
MAX_WITHOUT_FILES = 32 * 1024 * 1024
"""The same, if no temporary file can be created and memory has to be used."""
PIECE = 64 * 1024


class BufferStore:
    """The output buffers of all clients of one server."""

    def __init__(self, limit: int = MAX_FILES, memory_limit: int = MAX_WITHOUT_FILES) -> None:
        self.size = 0
        self.memory = 0  # the part of `size` in memory, where no file could be created
        self._limit = limit
        self._memory_limit = memory_limit
        self._buffers: set[OutputBuffer] = set()
        self._is_warned = False

    def open_file(self) -> IO[bytes]:
        """Return a file that is deleted when it is closed. Raise OSError."""
        import tempfile  # needed for large responses to slow clients only

        return tempfile.TemporaryFile(prefix="toolcrib-", buffering=0)

    def warn(self, error: OSError) -> None:
        if not self._is_warned:
            self._is_warned = True
            logger.warning("cannot create a temporary file, so unread output is kept in memory: %s", error)

    def add(self, buffer: OutputBuffer, size: int, in_memory: bool) -> None:
        self._buffers.add(buffer)
        self.size += size
        self.memory += size if in_memory else 0
        while self.size > self._limit and self._cut(buffer, [*self._buffers]):
            pass
        while self.memory > self._memory_limit and self._cut(
            buffer, [item for item in self._buffers if item.is_in_memory]
        ):
            pass

    def remove(self, buffer: OutputBuffer, size: int, in_memory: bool) -> None:
        self._buffers.discard(buffer)
        self.size -= size
        self.memory -= size if in_memory else 0

    @staticmethod
    def _cut(newest: OutputBuffer, buffers: list[OutputBuffer]) -> bool:
        """Cut off the client that has read nothing for longest, other than the newest one."""
        others = [item for item in buffers if item is not newest]
        if not others:
            return False
        min(others, key=lambda item: item.read_at).cut()
        return True


class OutputBuffer:
    """The unread output of one client, first in, first out. `on_cut` is called when it is thrown away."""

    __slots__ = (
        "_file",
        "_offset",
        "_on_cut",
        "_parts",
        "_store",
        "_stored",
        "is_in_memory",
        "read_at",
        "size",
    )

    def __init__(self, store: BufferStore, on_cut: Callable[[], None]) -> None:
        self.size = 0
        self.read_at = 0.0  # when the client last took something, or could have
        self.is_in_memory = False
        self._store = store
        self._on_cut: Callable[[], None] | None = on_cut
        self._parts: deque[bytes] = deque()
        self._file: IO[bytes] | None = None
        self._offset = 0
        self._stored = 0

    def append(self, data: bytes | memoryview) -> None:
        if not self.size:
            self.read_at = time.monotonic()
        self.size += len(data)
        if self._file is None and self.size <= MAX_MEMORY:
            self._parts.append(bytes(data))  # a view would keep all of what it is a part of
        else:
            self._write(data)

    def take(self, limit: int) -> bytes:
        """Return the next bytes, at most `limit` of them."""
        self.read_at = time.monotonic()
        if self._parts:
            part = self._parts.popleft()
            if len(part) > limit:
                self._parts.appendleft(part[limit:])
                part = part[:limit]
            self.size -= len(part)
            return part
        if self._file is None:
            return b""
        self._file.seek(self._offset)
        data = self._file.read(limit)
        self._offset += len(data)
        self.size -= len(data)
        if not self.size:
            self.clear()
        return data

    def clear(self) -> None:
        self._parts.clear()
        self.size = self._offset = 0
        if self._file is not None:
            self._file.close()
            self._file = None
            self._store.remove(self, self._stored, self.is_in_memory)
            self._stored, self.is_in_memory = 0, False

    def cut(self) -> None:
        """Throw away the output and call `on_cut`."""
        self.clear()
        if self._on_cut is not None:
            self._on_cut()

    def close(self) -> None:
        """Keep nothing more, and refer to nobody."""
        self.clear()
        self._on_cut = None

    def _write(self, data: bytes | memoryview) -> None:
        try:
            if self._file is None:
                self._file = self._store.open_file()
            self._file.seek(0, io.SEEK_END)
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._store.warn(error)
            if self._stored:  # in a file that takes no more
                self.cut()
                return
            if self._file is not None:
                self._file.close()
            self._file, self.is_in_memory = io.BytesIO(data), True
        self._stored += len(data)
        self._store.add(self, len(data), self.is_in_memory)


_LINES = {
    status: b"HTTP/1.1 %d %b\r\n" % (status, phrase) for status, phrase in PHRASES.items() if status >= 200
}
_OK_JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\ndate: %b\r\n\r\n"


class Output:
    """A `ResponseWriter` for one response of a connection after the other.

    To begin a response, the connection sets `is_idle`, `closes` and `head` (of the request).
    """

    __slots__ = (
        "_connection",
        "_is_chunked",
        "_is_ending",
        "_is_paused",
        "_is_stream",
        "_transport",
        "_unread",
        "closes",
        "head",
        "is_idle",
    )

    head: Head

    def __init__(self, connection: Connection, transport: Any, store: BufferStore) -> None:
        self._connection: Any = connection
        self._transport: Any = transport
        self._unread = OutputBuffer(store, transport.abort)
        self._is_paused = False
        self._is_stream = False
        self._is_chunked = False
        self._is_ending = False  # everything was written; what is unread still has to go
        self.closes = False
        self.is_idle = True

    def respond(self, reply: Reply) -> None:
        if self.is_idle:
            return
        body = reply.body or b""
        if type(reply) is Reply and reply.status == 200 and body and not (reply.headers or self.closes):
            head = _OK_JSON % (len(body), http_date())
        else:
            head = self._format_head(reply, body)
        if self.head.method == "HEAD":
            body = b""
        if len(body) <= PIECE:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._put(body)
        if self._is_paused or self._unread.size:
            self._is_ending = True
        else:
            self.is_idle = True
            self._connection.responded(self.closes)

    def open(self) -> None:
        if self.is_idle:
            return
        lines = [_LINES[200], *(b"%b: %b\r\n" % item for item in SSE_HEADERS)]
        lines.append(b"date: %b\r\n" % http_date())
        if self.head.is_http11:
            lines.append(b"transfer-encoding: chunked\r\n")
        else:
            self.closes = True
        if self.closes:
            lines.append(b"connection: close\r\n")
        self._is_stream, self._is_chunked = True, self.head.is_http11
        self._transport.write(b"".join(lines) + b"\r\n")

    def write(self, data: bytes) -> None:
        if not self._is_stream:
            return
        if self._unread.size > MAX_MEMORY:
            self._transport.abort()  # the client does not read
            return
        self._put(b"%x\r\n%b\r\n" % (len(data), data) if self._is_chunked else data)

    def finish(self) -> None:
        if not self._is_stream:
            return
        self._is_stream = False
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
        if self._is_ending:
            self._end()

    def lost(self) -> None:
        self._unread.close()
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
        lines = [line, b"content-length: %d\r\ndate: %b\r\n" % (len(body), http_date())]
        if body:
            lines.append(b"content-type: %b\r\n" % content_type)
        lines += [b"%b: %b\r\n" % item for item in reply.headers]
        if self.closes:
            lines.append(b"connection: close\r\n")
        return b"".join(lines) + b"\r\n"


_date = (0, b"")


def http_date() -> bytes:
    """Return the current time in the format of HTTP; formatted once a second."""
    global _date
    now = int(time.time())
    if _date[0] != now:
        from email.utils import formatdate  # only a server that speaks HTTP needs it

        _date = (now, formatdate(now, usegmt=True).encode())
    return _date[1]
