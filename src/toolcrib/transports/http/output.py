"""The writing side of an HTTP connection: answers in pieces that the socket takes, streams in chunks.

Nothing is handed to the transport while its buffer is full: that waits in `Unread`, and the next request is
not read before the answer to this one has gone out.

Output that a client has not read yet: up to 1 MiB in memory, more than that in a temporary file.

A result has the size it has, and a client that reads slowly still gets it whole. Keeping it in a file means
that clients which never read cost neither memory nor anybody else's time. All files of a server together are
bounded: above the limit, the client that has read nothing for longest is cut off.
"""

from __future__ import annotations

import io
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

from toolcrib.transports.http.messages import PHRASES, SSE_HEADERS, Answer, Fields

if TYPE_CHECKING:
    from toolcrib.transports.http.connection import Connection

logger = logging.getLogger("toolcrib")

MAX_MEMORY = 1024 * 1024
"""Bytes kept in memory for one client."""
MAX_FILES = 1024 * 1024 * 1024
"""Bytes kept in the files of all clients together."""
MAX_WITHOUT_FILES = 32 * 1024 * 1024
"""The same, where no temporary file can be made and memory has to serve."""


class UnreadStore:
    """The files of all clients of one server."""

    def __init__(self, limit: int = MAX_FILES, memory_limit: int = MAX_WITHOUT_FILES) -> None:
        self.size = 0
        self.memory = 0  # the part of `size` that is in memory, for want of a file
        self._limit = limit
        self._memory_limit = memory_limit
        self._holders: set[Unread] = set()
        self._is_warned = False

    def open_file(self) -> IO[bytes]:
        """A file that is gone when it is closed. Raises OSError."""
        import tempfile  # only a server with a large answer and a slow reader needs it

        return tempfile.TemporaryFile(prefix="toolcrib-", buffering=0)

    def warn(self, error: OSError) -> None:
        if not self._is_warned:
            self._is_warned = True
            logger.warning("unread output is kept in memory, since no temporary file can be used: %s", error)

    def add(self, holder: Unread, size: int, in_memory: bool) -> None:
        self._holders.add(holder)
        self.size += size
        self.memory += size if in_memory else 0
        while self.size > self._limit and self._cut(holder, [*self._holders]):
            pass
        while self.memory > self._memory_limit and self._cut(
            holder, [item for item in self._holders if item.is_in_memory]
        ):
            pass

    def remove(self, holder: Unread, size: int, in_memory: bool) -> None:
        self._holders.discard(holder)
        self.size -= size
        self.memory -= size if in_memory else 0

    @staticmethod
    def _cut(newest: Unread, holders: list[Unread]) -> bool:
        """Cut off the client that has read nothing for longest, other than the newest one."""
        others = [item for item in holders if item is not newest]
        if not others:
            return False
        min(others, key=lambda item: item.read_at).cut()
        return True


class Unread:
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

    def __init__(self, store: UnreadStore, on_cut: Callable[[], None]) -> None:
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
        """The next bytes, at most `limit` of them."""
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
        """Throw away what is there, and say so."""
        self.clear()
        if self._on_cut is not None:
            self._on_cut()

    def close(self) -> None:
        """Keep nothing more, and hold nobody."""
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


PIECE = 64 * 1024
_LINES = {
    status: b"HTTP/1.1 %d %b\r\n" % (status, phrase) for status, phrase in PHRASES.items() if status >= 200
}
_OK_JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\ndate: %b\r\n\r\n"


class Output:
    """The writing side of a connection; a `Writer` for one answer after the other."""

    __slots__ = (
        "_closes",
        "_connection",
        "_is_chunked",
        "_is_ending",
        "_is_head",
        "_is_new",
        "_is_paused",
        "_is_stream",
        "_transport",
        "_unread",
        "is_idle",
    )

    def __init__(self, connection: Connection, transport: Any, store: UnreadStore) -> None:
        self._connection: Any = connection
        self._transport: Any = transport
        self._unread = Unread(store, transport.abort)
        self._is_paused = False
        self._is_stream = False
        self._is_chunked = False
        self._is_ending = False  # everything was written; what is unread still has to go
        self._closes = False
        self._is_head = False
        self._is_new = True
        self.is_idle = True

    def begin(self, keeps_alive: bool, is_head: bool, is_new: bool) -> None:
        """Another answer begins. `is_new`: the client knows HTTP/1.1."""
        self.is_idle = False
        self._closes = not keeps_alive
        self._is_head = is_head
        self._is_new = is_new

    def answer(self, answer: Answer) -> None:
        if self.is_idle:
            return
        body = answer.body
        if answer.closes:
            self._closes = True
        if answer.status == 200 and body and not (answer.fields or self._closes or self._is_head):
            head = _OK_JSON % (len(body), http_date())
        else:
            head = self._head(answer)
        if self._is_head:
            body = b""
        if len(body) <= PIECE:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._put(body)
        self._end()

    def open(self, fields: Fields = ()) -> None:
        if self.is_idle:
            return
        lines = [_LINES[200], *(b"%b: %b\r\n" % item for item in (*SSE_HEADERS, *fields))]
        lines.append(b"date: %b\r\n" % http_date())
        if self._is_new:
            lines.append(b"transfer-encoding: chunked\r\n")
        else:
            self._closes = True
        if self._closes:
            lines.append(b"connection: close\r\n")
        self._is_stream, self._is_chunked = True, self._is_new
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
        self._connection = self._transport = None  # they lead back here, and the collector comes rarely

    def _put(self, data: bytes) -> None:
        """Hand over what the socket takes now; `resume` goes on with the rest."""
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
        """The answer is written. It is over when the client has taken it, but for a buffer's worth."""
        if self._is_paused or self._unread.size:
            self._is_ending = True
        else:
            self._is_ending = False
            self.is_idle = True
            self._connection.answered(self._closes)

    def _head(self, answer: Answer) -> bytes:
        line = _LINES.get(answer.status) or b"HTTP/1.1 %d Unknown\r\n" % answer.status
        lines = [line, b"content-length: %d\r\ndate: %b\r\n" % (len(answer.body), http_date())]
        if answer.body:
            lines.append(b"content-type: %b\r\n" % answer.kind)
        lines += [b"%b: %b\r\n" % item for item in answer.fields]
        if self._closes:
            lines.append(b"connection: close\r\n")
        return b"".join(lines) + b"\r\n"


_date = (0, b"")


def http_date() -> bytes:
    """Now, as HTTP writes it; made once a second."""
    global _date
    now = int(time.time())
    if _date[0] != now:
        from email.utils import formatdate  # only a server that speaks HTTP needs it

        _date = (now, formatdate(now, usegmt=True).encode())
    return _date[1]
