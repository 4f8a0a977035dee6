"""The writing side of an HTTP connection: answers in pieces that the socket takes, streams in chunks.

Nothing is handed to the transport while its buffer is full: that waits in `Unread`, and the next request is
not read before the answer to this one has gone out.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from toolcrib.transports.http.unread import MAX_MEMORY, Unread, UnreadStore
from toolcrib.transports.http.wire import PHRASES, SSE_HEADERS, Answer, Fields

if TYPE_CHECKING:
    from toolcrib.transports.http.lane import Connection

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
