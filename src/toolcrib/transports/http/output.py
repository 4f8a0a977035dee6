"""What goes out on one connection: answers in pieces that the socket takes, streams in chunks.

A client that does not read makes its server keep what it does not read; so large bodies are handed to the
socket piece by piece, are counted, and a stream that nobody reads is cut off. Knows bytes and flow control;
refuses to know what is in them.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

from toolcrib.protocol.gate import Gate
from toolcrib.transports.http.wire import PHRASES, SSE_HEADERS, Answer, Fields

if TYPE_CHECKING:
    from toolcrib.transports.http.lane import Connection

PIECE = 64 * 1024
MAX_UNREAD = 1024 * 1024
_LINES = {
    status: b"HTTP/1.1 %d %b\r\n" % (status, phrase) for status, phrase in PHRASES.items() if status >= 200
}
_OK_JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\ndate: %b\r\n\r\n"


class Output:
    """The writing side of a connection; a `Writer` for one answer after the other."""

    __slots__ = (
        "_closes",
        "_connection",
        "_gate",
        "_held",
        "_is_head",
        "_is_new",
        "_is_paused",
        "_left",
        "_queued",
        "_stream",
        "_transport",
        "_waiting",
        "is_idle",
    )

    def __init__(self, connection: Connection, transport: Any, gate: Gate) -> None:
        self._connection = connection
        self._transport = transport
        self._gate = gate
        self._left = memoryview(b"")
        self._held = 0
        self._is_paused = False
        self._queued: deque[bytes] = deque()
        self._waiting = 0  # bytes of what is queued
        self._stream = ""
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
            self._done()
            return
        self._transport.write(head)
        self._put(body)

    def open(self, fields: Fields = ()) -> None:
        if self.is_idle:
            return
        lines = [_LINES[200], *(b"%b: %b\r\n" % item for item in (*SSE_HEADERS, *fields))]
        lines.append(b"date: %b\r\n" % http_date())
        if self._is_new:
            lines.append(b"transfer-encoding: chunked\r\n")
        if self._closes or not self._is_new:
            lines.append(b"connection: close\r\n")
        self._stream = "chunked" if self._is_new else "plain"
        self._transport.write(b"".join(lines) + b"\r\n")

    def write(self, data: bytes) -> None:
        if self._stream not in ("chunked", "plain"):
            return
        if self._stream == "chunked":
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if self._is_paused or self._left:
            if self._waiting > MAX_UNREAD:
                self._transport.abort()  # the client does not read
            else:
                self._enqueue(data)
            return
        self._put(data)

    def finish(self) -> None:
        if not self._stream:
            return
        end = b"0\r\n\r\n" if self._stream == "chunked" else b""
        self._closes = self._closes or self._stream == "plain"
        self._stream = ""
        if self._is_paused or self._left:
            self._enqueue(end)
            self._stream = "ended"
        else:
            self._transport.write(end)
            self._done()

    # --- flow ---

    def pause(self) -> None:
        self._is_paused = True
        self._connection.wait_for_reader()

    def resume(self) -> None:
        self._is_paused = False
        self._connection.write_by = float("inf")
        self._pump()

    def lost(self) -> None:
        self._hold(b"")
        self._gate.release(self._waiting)
        self._queued.clear()
        self._waiting = 0
        self._stream = ""
        self.is_idle = True

    def _put(self, data: bytes) -> None:
        if len(data) <= PIECE:
            self._transport.write(data)
            return
        self._hold(data)
        self._pump()

    def _enqueue(self, data: bytes) -> None:
        self._queued.append(data)
        self._waiting += len(data)
        self._gate.hold(len(data))

    def _dequeue(self) -> bytes:
        data = self._queued.popleft()
        self._waiting -= len(data)
        self._gate.release(len(data))
        return data

    def _hold(self, data: bytes) -> None:
        """Keep this, and nothing else, until it is read."""
        self._gate.release(self._held)
        self._left = memoryview(data)
        self._held = len(data)
        self._gate.hold(self._held)

    def _pump(self) -> None:
        """Hand on what the socket takes now; `resume` calls again."""
        while not self._is_paused:
            if self._left:
                piece, self._left = self._left[:PIECE], self._left[PIECE:]
                self._transport.write(bytes(piece))
                if not self._left or (self._is_paused and len(self._left) < self._held // 2):
                    self._hold(bytes(self._left))  # what has gone need not be kept
            elif self._queued:
                self._put(self._dequeue())
            else:
                break
        if not self._is_paused and not self._left and not self._queued and self._stream in ("", "ended"):
            self._stream = ""
            if not self.is_idle:
                self._done()

    def _done(self) -> None:
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
