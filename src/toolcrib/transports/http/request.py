"""HTTP requests: parsed heads, the response while a request runs, and the memory for bodies.

A head is parsed once. Clients send the same head again with every call on a connection, byte for byte, so
`HeadCache` maps these bytes to the parsed head and to the checks that depend on nothing else. On Python 3.11
that saves 12 of 35 us per call: httptools calls back into Python for every header.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy
from typing import Any

from toolcrib.context import ANONYMOUS, LOCAL, Principal
from toolcrib.protocol import Peer, PendingRequest, Reply
from toolcrib.protocol.messages import RETRY_AFTER, Headers
from toolcrib.protocol.modern import REPEATED
from toolcrib.transports.eager import ReplyTask, WaitingForThread, follow
from toolcrib.transports.http.response import Response, ResponseWriter, error_response, event
from toolcrib.transports.http.sse import EventStream

HOLD_S = 15.0
"""How long the head of a response is held back."""
MAX_BODY = 4 * 1024 * 1024
MAX_HEADERS = 32 * 1024
MAX_FIELDS = 200
TOO_LARGE = f"Request body larger than {MAX_BODY} bytes"
LONG_HEAD = f"Headers of more than {MAX_HEADERS} bytes, or more than {MAX_FIELDS} of them"

FREE_BYTES = 16 * 1024
"""A body up to this size does not count against the budget for bodies."""
MAX_BODIES = 48 * 1024 * 1024
MAX_CACHED_HEADS = 512
MAX_CACHED_HEAD = 2 * 1024
_NAME_LINES = (b"\r\nMcp-Name: ", b"\r\nmcp-name: ")
_VISIBLE = bytes(range(0x21, 0x7F))


class Head:
    """The parsed head of a request. Many requests may share one, so it never changes.

    Names of headers are in lower case; a header that came twice has the value `REPEATED`. The last two
    attributes remember checks of the endpoint: `allowed_at` is the local address at which Host and Origin
    were accepted, and `is_post` says that this is a POST to the endpoint with acceptable media types. `cors`
    are headers of every response to it.
    """

    __slots__ = (
        "allowed_at",
        "cors",
        "headers",
        "is_http11",
        "is_post",
        "keeps_alive",
        "length",
        "method",
        "path",
        "query",
    )

    def __init__(
        self,
        method: str,
        path: str,
        headers: Mapping[bytes, bytes],
        query: str = "",
        *,
        length: int = 0,
        is_http11: bool = True,
        keeps_alive: bool = True,
        cors: Headers = (),
    ) -> None:
        self.cors = cors
        self.method = method
        self.path = path
        self.headers = headers
        self.query = query
        self.length = length
        self.is_http11 = is_http11
        self.keeps_alive = keeps_alive
        self.allowed_at: Any = _NOWHERE
        self.is_post = False


_NOWHERE = object()


class HeadCache(dict[Hashable, Head]):
    """Heads by the bytes, or the ASGI scope values, that they were parsed from. Bounded in number and
    size.

    Heads of 2026-07-28 name what they ask for, so that the heads of one client differ in one line: for 4,096
    resources, parsing them took a third of a read. A head is therefore also found without that line.
    """

    def store(self, key: Hashable, size: int, head: Head) -> None:
        if size <= MAX_CACHED_HEAD:
            if len(self) >= MAX_CACHED_HEADS:
                self.clear()
            self[key] = head

    def store_bytes(self, raw: bytes, head: Head) -> None:
        """Keep the head that these bytes were parsed to, also for other values of Mcp-Name."""
        self.store(raw, len(raw), head)
        parts = _split_name(raw)
        if parts is not None and head.headers.get(b"mcp-name") == parts[2]:  # else it is there twice
            self.store(parts[:2], len(raw), head)

    def find_renamed(self, raw: bytes) -> Head | None:
        """Return the head of these bytes if they differ from a known head in the value of Mcp-Name only."""
        parts = _split_name(raw)
        known = None if parts is None else self.get(parts[:2])
        if known is None or parts is None:
            return None
        head = copy(known)
        head.headers = {**known.headers, b"mcp-name": parts[2]}
        return head


def _split_name(raw: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Return the bytes of a head before and after the value of Mcp-Name, and the value, if that is plain."""
    for name in _NAME_LINES:
        start = raw.find(name)
        if start >= 0:
            start += len(name)
            end = raw.find(b"\r\n", start)
            value = raw[start:end]
            return None if value.translate(None, _VISIBLE) or not value else (raw[:start], raw[end:], value)
    return None


class Request(Peer):
    """One HTTP request: the peer of its message for the protocol engine, and the response while it runs.

    The head of the response is held back until there is something to send. So a short call gets plain JSON,
    an error gets its own status, and only a call that sends messages, or takes long, becomes a stream. The
    stream of a session can be resumed by its client.

    `scope` comes from the ASGI server, if there is one.
    `local` is the address that the client connected to. `principal` is known once the request `is_admitted`;
    `admission` is the task that decides that, if it takes time. `reserved` are the bytes that the body takes
    of the budget. `held` are messages that were sent before there was a connection to write to.
    """

    __slots__ = (
        "__weakref__",
        "_hold_timer",
        "_phase",
        "_stream",
        "_writer",
        "admission",
        "body",
        "head",
        "held",
        "is_admitted",
        "issue_challenge",
        "local",
        "outcome",
        "pending",
        "reserved",
        "scope",
    )
    pending: PendingRequest | None
    """The request that runs, whose outcome is sent after its messages."""
    outcome: Reply | ReplyTask | WaitingForThread | None
    _writer: ResponseWriter | None
    _stream: EventStream | None
    _hold_timer: asyncio.TimerHandle | None

    def __init__(
        self,
        head: Head,
        body: bytes = b"",
        local: str | None = None,
        remote: str | None = None,
        scope: Mapping[str, Any] | None = None,
    ) -> None:
        # As in Peer, without a second call.
        self.principal: Principal = LOCAL
        self.headers = head.headers
        self.session = None
        self.inflight = None
        self.is_pipe = False
        self.address = remote
        self.head = head
        self.body = body
        self.local = local
        self.scope = scope
        self.is_admitted = False
        self.admission: asyncio.Task[Response | None] | None = None
        self.reserved = 0
        self.issue_challenge: Callable[[Sequence[str]], Headers] | None = None
        self.held: list[bytes | None] | None = None  # None among them: close_stream
        self._phase = _NEW

    @property
    def root(self) -> str:
        """The path below which the application is mounted; the path of the head does not repeat it."""
        return "" if self.scope is None else str(self.scope.get("root_path", ""))

    def challenge(self, scopes: Sequence[str]) -> Headers:
        return () if self.issue_challenge is None else self.issue_challenge(scopes)

    def send(self, message: bytes) -> None:
        if self._phase == _NEW:
            self._hold(message)
        elif self._phase != _OVER:
            self._open()
            if self._stream is not None:
                self._stream.send(message)
            elif self._writer is not None:
                self._writer.write(event(message))

    def close_stream(self) -> None:
        if self._phase == _NEW:
            self._hold(None)
        elif self._phase != _OVER and self.session is not None and self.session.revision.resumable_streams:
            self._open()
            if self._stream is not None:  # else nobody could come back for the rest
                self._writer = None
                self._stream.release()

    def _hold(self, message: bytes | None) -> None:
        if self.held is None:
            self.held = [message]
        else:
            self.held.append(message)

    # --- the response ---

    def begin(self, writer: ResponseWriter) -> None:
        pending, outcome = self.pending, self.outcome
        self._writer, self._stream, self._hold_timer, self._phase = writer, None, None, _BEGUN
        held, self.held = self.held, None
        for message in held or ():
            if message is None:
                self.close_stream()
            else:
                self.send(message)
        if outcome is not None and pending is not None:
            if self._phase == _BEGUN and not isinstance(outcome, Reply):
                self._hold_timer = outcome.get_loop().call_later(HOLD_S, self._open)
            follow(pending, outcome, self._finish)

    def lost(self) -> None:
        """Note that the client has disconnected. A call whose client cannot come back for the rest is
        cancelled."""
        self._stop_timer()
        writer, self._writer = self._writer, None
        if self._stream is not None and writer is not None:
            self._stream.lost(writer)
        elif self._stream is None and self.pending is not None:
            self.pending.abandon()

    def end(self) -> None:
        if self.pending is not None:
            self.pending.end()

    def _open(self) -> None:
        """Make the response a stream, unless it is one."""
        if self._phase != _BEGUN or self._writer is None:
            return
        self._phase = _OPEN
        self._stop_timer()
        if self.session is not None and self.session.streams.has_calls:
            self._stream = self.session.streams.new(self.principal)
            self._stream.open(self._writer, resumable=self.session.revision.resumable_streams)
        else:
            self._writer.open()

    def _finish(self, reply: Reply | None) -> None:
        """Send the reply, or end the response of a call that was cancelled."""
        self._stop_timer()
        if self._phase == _OPEN and reply is not None and reply.body is not None:
            self.send(reply.body)
        phase, self._phase = self._phase, _OVER
        # Nothing is kept of a reply that its client may take long to read, and nothing of this request may
        # get into the next response of its connection.
        writer, self._writer = self._writer, None
        if self.pending is not None:
            self.pending.task = None
        self.pending = self.outcome = None
        if self.session is not None:
            self.session.touch()
        if self._stream is not None:
            self._stream.finish()
        elif writer is not None and phase == _OPEN:
            writer.finish()
        elif writer is not None:
            writer.respond(Response(202) if reply is None else reply)

    def _stop_timer(self) -> None:
        if self._hold_timer is not None:
            self._hold_timer.cancel()
            self._hold_timer = None


_NEW, _BEGUN, _OPEN, _OVER = range(4)
"""The phases of a response: not begun, the head held back, a stream, and done."""


def collect_headers(fields: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return headers by name, which must be in lower case already."""
    headers = dict(fields)
    if len(headers) != len(fields):
        headers.clear()
        for key, value in fields:
            if key not in headers:
                headers[key] = value
            else:  # a list is continued; repeating any other header is ambiguous
                headers[key] = headers[key] + b", " + value if key == b"accept" else REPEATED
    return headers


class BodyBudget:
    """Memory for the request bodies of callers without credentials: one budget for all of them.

    A caller with a key or token may send bodies of any allowed size. All other bodies count, above
    `FREE_BYTES`, from the moment their size is known until they are read; then the arguments of a call count
    until it is answered. Those beyond the budget are refused.
    """

    def __init__(self, limit: int = MAX_BODIES) -> None:
        self.used = 0
        self._limit = limit

    def reserve(self, request: Request, size: int) -> Response | None:
        """Count a body of this size until `release`, or return the response that refuses it."""
        if size <= FREE_BYTES or request.reserved:
            return None
        if request.principal is not LOCAL and request.principal is not ANONYMOUS:
            return None
        if self.used + size > self._limit:
            message = "Too many large requests without credentials at once: try again later"
            return error_response(503, message, RETRY_AFTER, closes=True)
        request.reserved = size
        self.used += size
        return None

    def shrink(self, request: Request, size: int) -> None:
        """Count the real size of a body that is complete, or what is kept of one that was read."""
        self.used -= request.reserved - size
        request.reserved = size

    def release(self, request: Request) -> None:
        self.used -= request.reserved
        request.reserved = 0
