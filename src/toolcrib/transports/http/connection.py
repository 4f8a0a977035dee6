"""One HTTP/1.1 connection, on httptools: requests in, answers out, one after the other, with time-outs.

The credentials of a request are checked when its head is complete, before any of its body is kept. While a
request is answered, what the client sends next is held as it came and not parsed; above `MAX_HELD` bytes the
socket is not read until the answer has been taken. So a connection costs one request, one answer and a little
more, whatever its client sends or does not read.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import deque
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from toolcrib.transports.http.endpoint import FREE_BYTES
from toolcrib.transports.http.messages import (
    LONG_HEAD,
    MAX_BODY,
    MAX_FIELDS,
    MAX_HEADERS,
    TOO_LARGE,
    Answer,
    Refusal,
    Request,
    Talk,
    repeated,
)
from toolcrib.transports.http.output import Output
from toolcrib.transports.http.responses import Admission

if TYPE_CHECKING:
    from toolcrib.transports.http.server import Serving

logger = logging.getLogger("toolcrib")

SLICE = 4 * 1024
"""Bytes that are parsed at a time: the parser cannot be stopped between two requests."""
MAX_HELD = 32 * 1024
"""Bytes that a client may send ahead of its answers."""
MAX_CHUNKS = 1_000
SMALL_CHUNK = 16
"""A chunk of a byte costs as much to take as one of a thousand: so many may be small."""
CHUNK_FRAME = 32
"""Bytes around a chunk: its size, line ends, and a short extension."""
LINGER_BYTES = 64 * 1024
LINGER_IDLE_S = 1.0
LINGER_S = 5.0
"""A client that is refused may still be sending its body; closing at once could lose it the answer."""
NEVER = float("inf")

Turn = tuple[Request, Answer | Talk | None, bool, bool]
"""A request, what it gets instead of being handled, whether the connection stays, whether it is HTTP/1.1."""
_NO_REQUEST = Request("", "", {})


class Connection(asyncio.BufferedProtocol):
    """One client's connection.

    `read_by` and `write_by` are when the client must have sent, or read, some more.
    """

    __slots__ = (
        "_admission",
        "_answering",
        "_body",
        "_body_by",
        "_body_left",
        "_buffer",
        "_chunks",
        "_fed",
        "_fields",
        "_has_served",
        "_is_in_message",
        "_is_last",
        "_is_new",
        "_is_reading_paused",
        "_is_refused",
        "_linger_by",
        "_linger_bytes",
        "_parser",
        "_queue",
        "_refusal",
        "_request",
        "_serving",
        "_size",
        "_surplus",
        "_talk",
        "_unparsed",
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

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._parser = serving.new_parser(self)
        self.local: str | None = None
        self.remote: str | None = None
        self.read_by = serving.now + serving.times.header_s
        self.write_by = NEVER
        # What is read into, input that is not parsed yet, and whether the socket is read.
        self._buffer = serving.read_buffer()
        self._unparsed = b""
        self._is_reading_paused = False
        # The message that is being received.
        self._is_in_message = False
        self._fed = 0  # its bytes so far
        self._url = b""
        self._fields: list[tuple[bytes, bytes]] = []
        self._request: Request | None = None  # from the end of its head on
        self._refusal: Answer | None = None  # what it gets instead of being served
        self._admission: asyncio.Task[Answer | None] | None = None
        self._is_new = True  # HTTP/1.1
        self._body: bytes | bytearray = b""
        self._chunks = 0  # the pieces that the body came in
        self._size = 0
        self._body_left = 0  # of a declared length; negative for a body in chunks
        self._body_by = NEVER
        # The messages to answer.
        self._queue: deque[Turn] = deque()
        self._answering: Request | None = None
        self._talk: Talk | None = None
        self._is_last = False  # nothing after what was received so far is a request
        self._is_refused = False
        self._has_served = False  # in this turn of the loop
        self._surplus = 0  # bytes behind the last request
        self._linger_by = NEVER
        self._linger_bytes = LINGER_BYTES

    # --- the connection ---

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.output = Output(self, transport, self._serving.unread)
        name = transport.get_extra_info("sockname")
        self.local = name[0] if isinstance(name, tuple) else None
        peer = transport.get_extra_info("peername")
        self.remote = peer[0] if isinstance(peer, tuple) else None
        if not self._serving.admit(self):
            self._refuse(503, "Too many connections: try again later")

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self._serving.forget(self)
        self._is_last = True
        for request in (self._answering, self._request, *(turn[0] for turn in self._queue)):
            if request is not None:
                self._serving.endpoint.bodies.release(request)
        self._answering = self._request = self._parser = None
        self._queue.clear()
        self._fields = []
        self._unparsed = self._body = b""
        if self._admission is not None:
            self._admission.cancel()
        talk, self._talk = self._talk, None
        self.output.lost()
        if talk is not None:
            talk.lost()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        self.data_received(self._buffer[:size].tobytes())

    def data_received(self, data: bytes) -> None:
        if self._is_last:
            self._discard(len(data))
        elif self._unparsed or not self.output.is_idle or self._admission is not None or self._queue:
            self._hold(data)
        elif len(data) > SLICE:
            self._parse(data)
        else:
            self._has_served = False
            if rest := self._feed(data):
                self._hold(rest)
                self._go_on_soon()

    def pause_writing(self) -> None:
        self.output.pause()
        self._pause_reading()

    def resume_writing(self) -> None:
        if len(self._unparsed) <= MAX_HELD:
            self._resume_reading()
        self.output.resume()

    # --- input ---

    def _parse(self, data: bytes) -> None:
        """Parse until the input is used up, or until a request was served: then others have a turn."""
        self._has_served = False
        while data and not self._is_last:
            if self._has_served or self._is_busy:
                self._hold(data)
                self._go_on_soon()
                break
            size = max(SLICE, self._body_left)
            data = self._feed(data[:size]) + data[size:]

    def _feed(self, piece: bytes) -> bytes:
        """Parse one piece; return what was not used of it."""
        rest = b""
        if self._is_in_message:
            self._fed += len(piece)
        try:
            self._parser.feed_data(piece)
        except self._serving.parser_upgrade as upgrade:
            rest = piece[upgrade.args[0] :]
            self._decline_upgrade()
        except self._serving.parser_error:
            self._refuse(400, "Malformed HTTP request")
        if self._queue:
            self._go_on_soon()
        if self._is_in_message:
            overhead = self._fed - self._size - CHUNK_FRAME * self._chunks
            if overhead > MAX_HEADERS or len(self._fields) > MAX_FIELDS:
                self._refuse(431, LONG_HEAD)
            elif self._refusal is not None and not self._is_rest_small:
                self._end_with(self._refusal, self._rest_size)
        return rest

    @property
    def _rest_size(self) -> int:
        """How much may still come of a body."""
        return self._body_left if self._body_left > 0 else MAX_BODY

    @property
    def _is_rest_small(self) -> bool:
        """Whether to wait for the rest of a refused request, so that its connection can be used again."""
        request = self._request
        return self._rest_size <= FREE_BYTES and request is not None and b"expect" not in request.headers

    @property
    def _is_busy(self) -> bool:
        """Whether something has to be done before more is parsed."""
        return not self.output.is_idle or self._admission is not None or bool(self._queue)

    def _hold(self, data: bytes) -> None:
        self._unparsed += data
        if len(self._unparsed) <= MAX_HELD:
            return
        if self._answering is None or self._answering.is_admitted:
            self._pause_reading()
        else:  # it gets refusals, reads none of them, and sends on
            self._drop()

    def _pause_reading(self) -> None:
        if not self._is_reading_paused and not self.transport.is_closing():
            self._is_reading_paused = True
            self.transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._is_reading_paused and not self.transport.is_closing():
            self._is_reading_paused = False
            self.transport.resume_reading()

    def _discard(self, size: int) -> None:
        """What comes after the last request is read, so that the client gets to reading its answer."""
        self._surplus += size
        if self._linger_by != NEVER:
            self.read_by = min(self._serving.now + LINGER_IDLE_S, self._linger_by)
            if self._surplus > self._linger_bytes:
                self._drop()

    # --- called by the parser ---

    def on_message_begin(self) -> None:
        self._is_in_message = True
        self._fed = 0
        self._fields = []
        self._url = b""
        self._body = b""
        self._chunks = self._size = self._body_left = 0
        self.read_by = self._serving.now + self._serving.times.header_s

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name.lower(), value.strip()))

    def on_headers_complete(self) -> None:
        parser = self._parser
        if self._is_last or parser.should_upgrade():
            return
        fields = self._fields
        self._fields = []  # from here on for trailers, which are not looked at
        headers = dict(fields)
        if len(headers) != len(fields):
            headers.clear()
            for key, value in fields:
                headers[key] = repeated(key, headers[key], value) if key in headers else value
        # A head that came in one piece is not too long.
        if len(fields) > MAX_FIELDS or (self._fed and self._is_head_long(fields)):
            self._refuse(431, LONG_HEAD)
            return
        self._is_new = parser.get_http_version() == "1.1"
        if not self._is_new and parser.get_http_version() != "1.0":
            self._refuse(505, "Only HTTP/1.1 and HTTP/1.0 are served")
            return
        self.read_by = NEVER
        path, query = self._serving.read_url(self._url)
        method: bytes = parser.get_method()
        request = self._request = Request(
            method.decode("latin-1"), path, headers, b"", query, self.local, remote=self.remote
        )
        declared = headers.get(b"content-length")
        if declared is not None:
            if not declared.isdigit():
                self._refuse(400, "Content-Length must be a number")
                return
            self._body_left = int(declared[:20])
            if self._body_left > MAX_BODY:
                self._body_left = 0
                self._refuse(413, TOO_LARGE)
                return
        if b"transfer-encoding" in headers and (
            not self._is_new or headers[b"transfer-encoding"].lower() != b"chunked"
        ):
            self._refuse(400, "Transfer-Encoding must be chunked, and only on HTTP/1.1")
            return
        if declared is not None or b"transfer-encoding" in headers:
            now, times = self._serving.now, self._serving.times
            self._body_by = now + times.body_s
            self.read_by = now + times.body_idle_s
        self._admit(request)

    def _is_head_long(self, fields: list[tuple[bytes, bytes]]) -> bool:
        return len(self._url) + sum([len(key) + len(value) + 4 for key, value in fields]) > MAX_HEADERS

    def on_body(self, body: bytes) -> None:
        if self._is_last or self._refusal is not None:
            return
        self._size += len(body)
        self._body_left -= len(body)
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
        self.read_by = min(self._serving.now + self._serving.times.body_idle_s, self._body_by)
        if self._size > FREE_BYTES and self._request is not None and not self._request.reserved:
            self._refusal = self._serving.endpoint.bodies.reserve(self._request, MAX_BODY)

    def on_message_complete(self) -> None:
        self._is_in_message = False
        request, self._request = self._request, None
        if self._is_last or request is None:
            return
        keeps = self._parser.should_keep_alive() and not self._serving.is_draining
        self._is_last = not keeps
        self.read_by = NEVER
        request.body = bytes(self._body)
        self._body = b""
        if request.reserved:
            self._serving.endpoint.bodies.shrink(request)
        outcome: Answer | Talk | None = self._refusal
        self._refusal = None
        if self._admission is not None:
            handle = functools.partial(self._serving.endpoint.handle, request)
            outcome = Admission(self._admission, handle)
            self._admission = None
        turn = (request, outcome, keeps, self._is_new)
        if self._has_served or self._queue or not self.output.is_idle:
            self._queue.append(turn)
        else:
            self._has_served = True
            self._serve(*turn)

    # --- one request ---

    def _admit(self, request: Request) -> None:
        """Decide whether this request is let in, before its body is kept."""
        endpoint = self._serving.endpoint
        try:
            outcome = endpoint.admit(request)
        except Exception:
            outcome = self._fail()
        if outcome is None and self._body_left > FREE_BYTES:
            outcome = endpoint.bodies.reserve(request, self._body_left)
        if outcome is not None and not isinstance(outcome, Answer):
            self._admission = self._serving.loop.create_task(_wait_for(outcome))
            self._admission.add_done_callback(self._admitted)
            return
        self._refusal = outcome
        if b"expect" in request.headers:
            self._continue(request)

    def _admitted(self, admission: asyncio.Task[Answer | None]) -> None:
        """Go on with a body that had to wait; a request that is complete waits by itself."""
        if admission is not self._admission or admission.cancelled():
            return
        self._admission = None
        self._refusal = admission.result()
        if self._refusal is not None:
            self._end_with(self._refusal, self._rest_size)
            return
        if self._request is not None:
            self._continue(self._request)
        self._wait_for_rest()
        self._go_on()

    def _continue(self, request: Request) -> None:
        """Ask for the body, where the client waits for that."""
        has_body = self._body_left > 0 or b"transfer-encoding" in request.headers
        is_waiting = has_body and request.headers.get(b"expect", b"").lower() == b"100-continue"
        if is_waiting and self._is_new and self._refusal is None and not self._is_busy:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _decline_upgrade(self) -> None:
        """Stay with HTTP/1.1: the parser has stopped behind the head, and gets it again without the offer."""
        method: bytes = self._parser.get_method()
        if self._is_last or method == b"CONNECT":
            self._refuse(400, "CONNECT is not served")
            return
        if self._is_head_long(self._fields):
            self._refuse(431, LONG_HEAD)
            return
        lines = [b"%b %b HTTP/%b" % (method, self._url, self._parser.get_http_version().encode())]
        lines += [b"%b: %b" % field for field in self._fields if field[0] != b"upgrade"]
        self._parser = self._serving.new_parser(self)
        self._feed(b"\r\n".join(lines) + b"\r\n\r\n")

    # --- answering ---

    def _serve(self, request: Request, outcome: Answer | Talk | None, keeps: bool, is_new: bool) -> None:
        output = self.output
        output.begin(keeps, request.method == "HEAD", is_new)
        self._answering = request
        if outcome is None:
            try:
                outcome = self._serving.endpoint.handle(request)
            except Exception:
                outcome = self._fail()
            request.body = b""  # read; the answer may take its time
        if isinstance(outcome, Answer):
            output.answer(outcome)
        else:
            self._talk = outcome
            outcome.begin(output)

    def _fail(self) -> Answer:
        logger.exception("a request failed inside toolcrib")
        return Refusal(500, "Internal error").answer(closes=True)

    def answered(self, closes: bool) -> None:
        """The answer has been taken: go on with the next request, if one is here."""
        self._talk = None
        request, self._answering = self._answering, None
        if request is not None and request.reserved:
            self._serving.endpoint.bodies.release(request)
        if closes or (self._is_last and not self._queue):
            self._is_last = True
            if self._is_refused or self._surplus:
                self._linger()
            else:
                self._drop()
        elif self._queue or self._unparsed:
            self._go_on_soon()
        elif self._serving.is_draining:
            self._drop()
        elif self._is_in_message:
            self._wait_for_rest()
        else:
            self.read_by = self._serving.now + self._serving.times.idle_s

    def _wait_for_rest(self) -> None:
        now, times = self._serving.now, self._serving.times
        if self._request is None:
            self.read_by = now + times.header_s
        else:
            self._body_by, self.read_by = now + times.body_s, now + times.body_idle_s

    def _go_on_soon(self) -> None:
        """In the next turn of the loop, unless the end of an answer is waited for anyway."""
        if self.output.is_idle and self._admission is None:
            self._serving.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """Answer the next request, or parse what was held."""
        if self.transport.is_closing():
            return
        if self._queue:
            if self.output.is_idle:
                self._serve(*self._queue.popleft())
            return
        data, self._unparsed = self._unparsed, b""
        if data and not self._is_last:
            self._parse(data)
        if len(self._unparsed) <= MAX_HELD:
            self._resume_reading()

    # --- ending ---

    def expire(self) -> None:
        """Something should have come, or gone, by now."""
        if self.write_by < self._serving.now or self._linger_by != NEVER:
            self.transport.abort()
        elif self._is_busy:
            self.read_by = NEVER  # the client waits for us
        elif self._is_in_message:
            self._refuse(408, "The request did not arrive in time")
        else:
            self._drop()

    def end(self) -> None:
        """The server stops: hang up, unless there is something to say."""
        if not self._is_busy:
            self._drop()

    def wait_for_reader(self) -> None:
        self.write_by = self._serving.now + self._serving.times.write_s

    def _refuse(self, status: int, words: str) -> None:
        """Answer something that cannot become a request, and hang up."""
        self._end_with(Refusal(status, words).answer(closes=True))

    def _end_with(self, answer: Answer, more: int = 0) -> None:
        """Make this the last answer, whatever else the client sends: `more` bytes of it are read."""
        if self._is_last or self.transport.is_closing():
            return
        self._is_last = self._is_refused = True
        answer.closes = True
        request = self._request or _NO_REQUEST
        self._request = self._refusal = None
        self._is_in_message = False
        self._unparsed = self._body = b""
        self._linger_bytes = LINGER_BYTES + more
        self._resume_reading()
        turn = (request, answer, False, True)
        if self.output.is_idle and not self._queue:
            self._serve(*turn)
        else:
            self._queue.append(turn)

    def _linger(self) -> None:
        self._linger_by = self._serving.now + LINGER_S
        self.read_by = self._serving.now + LINGER_IDLE_S
        if self.transport.can_write_eof() and not self.transport.is_closing():
            self.transport.write_eof()

    def _drop(self) -> None:
        self._is_last = True
        self._unparsed = b""
        self.read_by = NEVER
        self.wait_for_reader()
        if not self.transport.is_closing():
            self.transport.close()


async def _wait_for(admission: Awaitable[Answer | None]) -> Answer | None:
    try:
        return await admission
    except Exception:
        logger.exception("a request failed inside toolcrib")
        return Refusal(500, "Internal error").answer(closes=True)
