"""One HTTP/1.1 connection: requests in, responses out, one after the other, with time-outs.

A request that arrives in one piece, with a head that was seen before, is served at once. All others are
parsed by httptools, one request at a time. Credentials are checked when the head is complete, before any of
the body is kept. While a request is served, what the client sends next is held unparsed; above `MAX_HELD`
bytes the socket is not read until the response has been taken. So a connection costs one request, one
response and a little more, whatever its client does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from toolcrib.protocol import Reply
from toolcrib.transports.http.request import (
    FREE_BYTES,
    LONG_HEAD,
    MAX_BODY,
    MAX_FIELDS,
    MAX_HEADERS,
    TOO_LARGE,
    Head,
    Request,
    collect_headers,
)
from toolcrib.transports.http.response import Output, PendingResponse, Response, error_response

if TYPE_CHECKING:
    from toolcrib.transports.http.server import HTTPServer

logger = logging.getLogger("toolcrib")

SLICE = 4 * 1024
"""Bytes of a head, or of a body in chunks, that are parsed before limits are checked."""
MAX_HELD = 32 * 1024
"""Bytes that a client may send ahead of its responses."""
MAX_CHUNKS = 1_000
SMALL_CHUNK = 16
"""A chunk of one byte costs as much as one of a thousand, so the number of small chunks is bounded."""
CHUNK_FRAME = 32
"""Bytes around a chunk: its size, line ends, and a short extension."""
LINGER_BYTES = 64 * 1024
LINGER_IDLE_S = 1.0
LINGER_S = 5.0
"""A refused client may still be sending its body; closing the connection at once could lose the response."""
NEVER = float("inf")

_READY, _RECEIVING, _ADMITTING, _SERVING = range(4)
"""The states of a connection: the next byte begins a request, a request has begun, its caller has to be
authenticated before the body is read, and a response is due."""


class Connection(asyncio.BufferedProtocol):
    """One client's connection. `read_by` and `write_by` are when the client must have sent, or read, more."""

    __slots__ = (
        "_body",
        "_body_by",
        "_body_left",
        "_buffer",
        "_chunks",
        "_complete",
        "_fed",
        "_fields",
        "_head_end",
        "_held",
        "_is_last",
        "_is_reading_paused",
        "_is_refused",
        "_linger_by",
        "_linger_bytes",
        "_parser",
        "_pending",
        "_receiving",
        "_refusal",
        "_server",
        "_serving",
        "_size",
        "_state",
        "_surplus",
        "_url",
        "local",
        "output",
        "read_by",
        "remote",
        "transport",
        "write_by",
    )

    output: Output
    transport: Any

    def __init__(self, server: HTTPServer) -> None:
        self._server = server
        self._parser: Any = server.new_parser(self)
        self.local: str | None = None
        self.remote: str | None = None
        self.read_by = server.now + server.timeouts.header_s
        self.write_by = NEVER
        self._buffer = server.read_buffer
        self._state = _READY
        self._held = b""  # input that has to wait
        self._is_reading_paused = False
        # The request that is being received.
        self._fed = 0  # its bytes so far
        self._head_end = b""  # the bytes that its head ended with: all of it, if it came in one piece
        self._url = b""
        self._fields: list[tuple[bytes, bytes]] = []
        self._receiving: Request | None = None  # from the end of its head on
        self._refusal: Response | None = None  # what it gets instead of being handled
        self._body: bytes | bytearray = b""
        self._chunks = 0  # the pieces that the body came in
        self._size = 0
        self._body_left = 0  # of a declared length; negative for a body in chunks
        self._body_by = NEVER
        self._complete: Request | None = None
        # The request that is being served.
        self._serving: Request | None = None
        self._pending: PendingResponse | None = None
        self._is_last = False  # nothing after what was received so far is a request
        self._is_refused = False
        self._surplus = 0  # bytes behind the last request
        self._linger_by = NEVER
        self._linger_bytes = LINGER_BYTES

    # --- the connection ---

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.output = Output(self, transport, self._server.output_store)
        self.output.head = _NO_HEAD
        name = transport.get_extra_info("sockname")
        self.local = name[0] if isinstance(name, tuple) else None
        peer = transport.get_extra_info("peername")
        self.remote = peer[0] if isinstance(peer, tuple) else None
        if not self._server.admit(self):
            self._refuse(503, "Too many connections: try again later")

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self._server.forget(self)
        self._is_last, self._state = True, _SERVING
        for request in (self._serving, self._receiving):
            if request is not None:
                self._server.endpoint.bodies.release(request)
                if request.admission is not None:
                    request.admission.cancel()
        self._serving = self._receiving = self._complete = self._parser = None
        self._fields = []
        self._held = self._body = self._head_end = b""
        pending, self._pending = self._pending, None
        self.output.lost()
        if pending is not None:
            pending.lost()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        data = self._buffer[:size].tobytes()
        if self._state == _READY and not self._held:
            end = data.find(b"\r\n\r\n") + 4
            heads = self._server.endpoint.heads
            head = heads.get(data[:end]) or heads.find_renamed(data[:end])
            if head is not None and end + head.length == size:
                self.read_by = NEVER
                self._fed = 0  # of empty lines before it
                self._is_last = not head.keeps_alive or self._server.is_draining
                self._serve(Request(head, data[end:], self.local, self.remote), None)
                return
        self.data_received(data)

    def data_received(self, data: bytes) -> None:
        if self._receiving is not None:
            self._head_end = b""  # the request has not come in one piece
        if self._held:
            self._hold(data)
        else:
            self._parse(data)

    def pause_writing(self) -> None:
        self.output.pause()
        self._pause_reading()

    def resume_writing(self) -> None:
        if len(self._held) <= MAX_HELD:
            self._resume_reading()
        self.output.resume()

    # --- input ---

    def _parse(self, data: bytes) -> None:
        """Parse up to the end of one request, and serve it; hold the rest, so that others have a turn."""
        if self._state == _READY:  # empty lines before a request mean nothing, but count
            self._fed += len(data)
            data = data.lstrip(b"\r\n")
            self._fed -= len(data)
        while data:
            if self._is_last:
                self._discard(len(data))
                return
            if self._state >= _ADMITTING:
                self._hold(data)
                return
            size = self._find_size(data)
            piece, data = data[:size], data[size:]
            is_body = self._receiving is not None
            self._feed(piece)
            request, self._complete = self._complete, None
            if request is not None:
                refusal, self._refusal = self._refusal, None
                self._fed = 0
                if data and self._is_last:
                    self._discard(len(data))
                elif data:
                    self._hold(data)
                self._serve(request, refusal)
                return
            # If the body of a refused request has come with its head, or little of it is to come, the
            # connection can be used again.
            if self._refusal is not None and (is_body or not data):
                waiting = self._receiving
                can_wait = waiting is not None and b"expect" not in waiting.head.headers
                if self._rest_size > FREE_BYTES or not can_wait:
                    self._end_with(self._refusal, self._rest_size)

    def _find_size(self, data: bytes) -> int:
        """Return how much of the input to parse: not beyond a head or a body, as the parser cannot stop."""
        if self._receiving is not None:
            return self._body_left if self._body_left > 0 else SLICE
        before = b"" if self._state == _READY else self._head_end[-3:]
        end = (before + data[:SLICE]).find(b"\r\n\r\n") if before else data.find(b"\r\n\r\n", 0, SLICE)
        size = SLICE if end < 0 else end + 4 - len(before)
        self._head_end = before + data[:size]
        return size

    def _feed(self, piece: bytes) -> None:
        self._fed += len(piece)
        try:
            self._parser.feed_data(piece)
        except self._server.parser_upgrade:
            self._decline_upgrade()
        except self._server.parser_error:
            if self._complete is None:
                self._refuse(400, "Malformed HTTP request")
            self._is_last = self._is_refused = True
        if self._state == _RECEIVING and self._complete is None:
            overhead = self._fed - self._size - CHUNK_FRAME * self._chunks
            if overhead > MAX_HEADERS or len(self._fields) > MAX_FIELDS:
                self._refuse(431, LONG_HEAD)

    @property
    def _rest_size(self) -> int:
        """Bytes of a body that may still come."""
        return self._body_left if self._body_left > 0 else MAX_BODY

    def _hold(self, data: bytes) -> None:
        self._held += data
        if len(self._held) <= MAX_HELD:
            return
        if self._serving is None or self._serving.is_admitted:
            self._pause_reading()
        else:  # the client is refused, does not read that, and goes on sending
            self._drop()

    def _continue(self) -> None:
        """Parse what was held."""
        if self.transport.is_closing():
            return
        data, self._held = self._held, b""
        self._parse(data)
        if len(self._held) <= MAX_HELD:
            self._resume_reading()

    def _pause_reading(self) -> None:
        if not self._is_reading_paused and not self.transport.is_closing():
            self._is_reading_paused = True
            self.transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._is_reading_paused and not self.transport.is_closing():
            self._is_reading_paused = False
            self.transport.resume_reading()

    def _discard(self, size: int) -> None:
        """Drop input that comes after the last request; it is read so that the client reads its response."""
        self._surplus += size
        if self._linger_by != NEVER:
            self.read_by = min(self._server.now + LINGER_IDLE_S, self._linger_by)
            if self._surplus > self._linger_bytes:
                self._drop()

    # --- called by the parser ---

    def on_message_begin(self) -> None:
        if self._is_last or self._complete is not None:
            # Behind a body in chunks, whose end is known to the parser only.
            self._is_last = self._is_refused = True
            return
        self._state = _RECEIVING
        self._fields = []
        self._url = b""
        self._body = b""
        self._chunks = self._size = self._body_left = 0
        self.read_by = self._server.now + self._server.timeouts.header_s

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name.lower(), value.strip()))

    def on_headers_complete(self) -> None:
        parser = self._parser
        if self._is_last or parser.should_upgrade():
            return
        fields = self._fields
        self._fields = []  # from here on for trailers, which are ignored
        if len(fields) > MAX_FIELDS or self._fed > MAX_HEADERS:
            self._refuse(431, LONG_HEAD)
            return
        version = parser.get_http_version()
        if version not in ("1.1", "1.0"):
            self._refuse(505, "Only HTTP/1.1 and HTTP/1.0 are supported")
            return
        self.read_by = NEVER
        headers = collect_headers(fields)
        path, _, query = self._url.decode("latin-1").partition("?")
        method: bytes = parser.get_method()
        cors = self._server.endpoint.hosts.cors(headers)
        head = Head(method.decode("latin-1"), path, headers, query, is_http11=version == "1.1", cors=cors)
        request = self._receiving = Request(head, b"", self.local, self.remote)
        declared = headers.get(b"content-length")
        if declared is not None:
            if not declared.isdigit():
                self._refuse(400, "Content-Length must be a number")
                return
            self._body_left = head.length = int(declared[:20])
            if self._body_left > MAX_BODY:
                self._body_left = 0
                self._refuse(413, TOO_LARGE)
                return
        encoding = headers.get(b"transfer-encoding")
        if encoding is not None and (not head.is_http11 or encoding.lower() != b"chunked"):
            self._refuse(400, "Transfer-Encoding must be chunked, and only on HTTP/1.1")
            return
        if declared is not None or encoding is not None:
            self._wait_for_body()
        self._admit(request)

    def _wait_for_body(self) -> None:
        now, timeouts = self._server.now, self._server.timeouts
        self._body_by, self.read_by = now + timeouts.body_s, now + timeouts.body_idle_s

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        self._body_left -= len(body)
        if self._is_last or self._refusal is not None:
            return
        if self._size > MAX_BODY:
            self._refuse(413, TOO_LARGE)
            return
        self._chunks += 1
        if self._chunks == 1:
            self._body = body
        else:
            if self._chunks == 2:
                self._body = bytearray(self._body)
            self._body += body
        if self._chunks > MAX_CHUNKS + self._size // SMALL_CHUNK:
            self._refuse(400, "Too many small chunks in the request body")
            return
        self.read_by = min(self._server.now + self._server.timeouts.body_idle_s, self._body_by)
        if self._size > FREE_BYTES and self._receiving is not None and not self._receiving.reserved:
            self._refusal = self._server.endpoint.bodies.reserve(self._receiving, MAX_BODY)

    def on_message_complete(self) -> None:
        request, self._receiving = self._receiving, None
        if self._is_last or request is None:
            return
        self.read_by = NEVER
        request.head.keeps_alive = self._parser.should_keep_alive()
        self._is_last = not request.head.keeps_alive or self._server.is_draining
        request.body = bytes(self._body)
        self._body = b""
        if request.reserved:
            self._server.endpoint.bodies.shrink(request, len(request.body))
        if self._refusal is None and request.admission is None:
            self._remember_head(request)
        self._complete = request

    def _remember_head(self, request: Request) -> None:
        """Cache the head of a request that came in one piece, so that its next occurrence is not parsed.

        The bytes up to the first empty line are the head if the parser saw no other line ends than the search
        for that line does.
        """
        head, raw = request.head, self._head_end
        if (
            len(raw) == self._fed - len(request.body)
            and len(request.body) == head.length <= FREE_BYTES
            and raw.endswith(b"\r\n\r\n")
            and raw.count(b"\n") == raw.count(b"\r\n")
            and b"expect" not in head.headers
            and b"transfer-encoding" not in head.headers
        ):
            self._server.endpoint.heads.store_bytes(raw, head)

    def _admit(self, request: Request) -> None:
        """Decide whether this request is let in, before its body is kept."""
        endpoint = self._server.endpoint
        try:
            outcome = endpoint.admit(request)
        except Exception:
            outcome = _internal_error()
        if outcome is None and self._body_left > FREE_BYTES:
            outcome = endpoint.bodies.reserve(request, self._body_left)
        if outcome is not None and not isinstance(outcome, Response):
            request.admission = self._server.loop.create_task(_admit_later(outcome))
            request.admission.add_done_callback(self._admitted)
            self._state = _ADMITTING
            return
        self._refusal = outcome
        if b"expect" in request.head.headers:
            self._ask_for_body(request)

    def _admitted(self, admission: asyncio.Task[Response | None]) -> None:
        """Continue with a body that had to wait. One that was complete by then is served later."""
        request = self._receiving
        if request is None or admission is not request.admission or admission.cancelled():
            return
        request.admission = None
        self._state = _RECEIVING
        self._refusal = admission.result()
        if self._refusal is not None and not self._held:
            self._end_with(self._refusal, self._rest_size)
            return
        self._ask_for_body(request)
        self._wait_for_body()
        self._continue()

    def _ask_for_body(self, request: Request) -> None:
        """Send `100 Continue` to a client that waits for it."""
        headers = request.head.headers
        has_body = self._body_left > 0 or b"transfer-encoding" in headers
        is_waiting = has_body and headers.get(b"expect", b"").lower() == b"100-continue"
        if is_waiting and request.head.is_http11 and self._refusal is None:
            self._server.output_store.flush()
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _decline_upgrade(self) -> None:
        """Stay with HTTP/1.1: the parser stopped behind the head, and gets it again without the upgrade."""
        method: bytes = self._parser.get_method()
        if self._is_last or method == b"CONNECT":
            self._refuse(400, "CONNECT is not supported")
            return
        if self._fed > MAX_HEADERS:
            self._refuse(431, LONG_HEAD)
            return
        lines = [b"%b %b HTTP/%b" % (method, self._url, self._parser.get_http_version().encode())]
        lines += [b"%b: %b" % field for field in self._fields if field[0] != b"upgrade"]
        self._parser = self._server.new_parser(self)
        self._fed, self._head_end = 0, b""
        self._feed(b"\r\n".join(lines) + b"\r\n\r\n")

    # --- responding ---

    def _serve(self, request: Request, refusal: Response | None) -> None:
        """Respond to a request that is complete. One with a head that was seen before is admitted here."""
        output, endpoint = self.output, self._server.endpoint
        output.is_idle, output.closes, output.head = False, self._is_last, request.head
        self._state, self._serving = _SERVING, request
        response: Any = refusal
        try:
            if response is None and request.admission is None:
                if not request.is_admitted:
                    response = endpoint.admit(request)
                if response is None:
                    response = endpoint.handle(request)
                elif not isinstance(response, Response):
                    request.admission = self._server.loop.create_task(_admit_later(response))
                    response = None
        except Exception:
            response = _internal_error()
        if response is None and request.admission is not None:
            request.admission.add_done_callback(self._serve_admitted)
            return
        if isinstance(response, Reply):
            output.respond(response)
        else:
            self._pending = response
            response.begin(output)

    def _serve_admitted(self, admission: asyncio.Task[Response | None]) -> None:
        request = self._serving
        if request is not None and not admission.cancelled():
            request.admission = None
            self._serve(request, admission.result())

    def responded(self, closes: bool) -> None:
        """Continue with the next request, if there is one: the response was written."""
        self._pending = None
        request, self._serving = self._serving, None
        if request is not None and request.reserved:
            self._server.endpoint.bodies.release(request)
        if closes or self._is_last:
            self._is_last = True
            if self._is_refused or self._surplus:
                self._linger_by = self._server.now + LINGER_S
                self.read_by = self._server.now + LINGER_IDLE_S
                self._server.output_store.flush()
                if self.transport.can_write_eof() and not self.transport.is_closing():
                    self.transport.write_eof()
            else:
                self._drop()
        elif self._server.is_draining and not self._held:
            self._drop()
        else:
            self._state = _READY
            self.read_by = self._server.now + self._server.timeouts.idle_s
            if self._held:
                self._server.loop.call_soon(self._continue)

    # --- ending ---

    def expire(self) -> None:
        """Act on a time-out: the client has not sent, or not read, in time."""
        if self.write_by < self._server.now or self._linger_by != NEVER:
            self.transport.abort()
        elif self._state >= _ADMITTING:
            self.read_by = NEVER  # the client waits for us
        elif self._state == _RECEIVING:
            self._refuse(408, "The request did not arrive in time")
        else:
            self._drop()

    def end(self, *, serves_rest: bool = False) -> None:
        """Close the connection when the server stops, unless a response is due; with `serves_rest`, also
        unless its first request is still to come, or a part of one has come."""
        is_unused = self._state == _RECEIVING or self.output.head is _NO_HEAD
        if self._state < _ADMITTING and not (serves_rest and is_unused):
            self._drop()

    def wait_for_reader(self) -> None:
        self.write_by = self._server.now + self._server.timeouts.write_s

    def _refuse(self, status: int, message: str) -> None:
        """Respond to input that cannot become a request, and close the connection."""
        self._end_with(error_response(status, message, closes=True))

    def _end_with(self, response: Response, more: int = 0) -> None:
        """Make this the last response, whatever else the client sends: `more` bytes of it are read."""
        if self._is_last or self.transport.is_closing():
            return
        self._is_last = self._is_refused = True
        response.closes = True
        request = self._receiving or Request(_NO_HEAD)
        self._receiving = self._refusal = None
        self._held = self._body = b""
        self._linger_bytes = LINGER_BYTES + more
        self._resume_reading()
        self._serve(request, response)

    def _drop(self) -> None:
        self._is_last, self._state = True, _SERVING
        self._held = b""
        self.read_by = NEVER
        self.wait_for_reader()
        self._server.output_store.flush()
        if not self.transport.is_closing():
            self.transport.close()


_NO_HEAD = Head("", "", {})


async def _admit_later(admission: Awaitable[Response | None]) -> Response | None:
    """Wait for an admission; a request is refused if that fails."""
    try:
        return await admission
    except Exception:
        return _internal_error()


def _internal_error() -> Response:
    logger.exception("a request failed inside toolcrib")
    return error_response(500, "Internal error", closes=True)
