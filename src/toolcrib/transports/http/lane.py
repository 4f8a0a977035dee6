"""Our own lane: HTTP/1.1 on httptools, no more of it than a tool server needs, and time-outs for everything.

Whoever sends slowly, reads slowly or not at all is let go. Knows sockets, bytes and time; refuses to know
what requests mean.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from toolcrib.transports.http.output import Output
from toolcrib.transports.http.wire import (
    LONG_HEAD,
    MAX_BODY,
    MAX_FIELDS,
    MAX_HEADERS,
    Answer,
    Refusal,
    Request,
    Talk,
    repeated,
)

if TYPE_CHECKING:
    from toolcrib.transports.http.serving import Serving

logger = logging.getLogger("toolcrib")

MAX_QUEUED = 16
"""Requests that a client may send ahead of their answers."""
MAX_CHUNKS = 1_000
SMALL_CHUNK = 16
"""A chunk of a byte costs as much to take as one of a thousand: so many may be small."""
LINGER_BYTES = 64 * 1024
LINGER_S = 1.0
"""Whoever is refused may still be sending; hanging up on that would lose them the answer."""
NEVER = float("inf")


class Connection(asyncio.Protocol):
    """One client's connection. Requests are answered in the order they came.

    `read_by` and `write_by` are when the client must have sent, or read, some more.
    """

    __slots__ = (
        "_body",
        "_body_by",
        "_fields",
        "_head_size",
        "_headers",
        "_is_in_head",
        "_is_refused",
        "_parser",
        "_queue",
        "_rest",
        "_serving",
        "_size",
        "_talk",
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
        self._body_by = NEVER
        self._talk: Talk | None = None
        self._queue: deque[tuple[Request, bool, bool]] = deque()
        self._is_refused = False
        self._is_in_head = False
        self._head_size = 0
        self._fields: list[tuple[bytes, bytes]] = []
        self._rest = -1  # of a body that the parser does not read
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._size = 0

    # --- the connection ---

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.output = Output(self, transport, self._serving.gate)
        name = transport.get_extra_info("sockname")
        self.local = name[0] if isinstance(name, tuple) else None
        peer = transport.get_extra_info("peername")
        self.remote = peer[0] if isinstance(peer, tuple) else None
        if not self._serving.admit(self):
            self._refuse(503, "Too many connections: try again later")

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self._serving.forget(self)
        self._queue.clear()
        talk, self._talk = self._talk, None
        self.output.lost()
        if talk is not None:
            talk.lost()

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            self._head_size += len(data)
            if self._head_size > LINGER_BYTES:
                self._drop()
            return
        if self._rest >= 0:
            self._take_rest(data)
            return
        if self._is_in_head:
            self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except self._serving.parser_upgrade as upgrade:
            self._take_unread(data[upgrade.args[0] :])
        except self._serving.parser_error:
            self._refuse(400, "This is not HTTP")
        if self._is_in_head and self._head_size > MAX_HEADERS:
            self._refuse_head()

    def pause_writing(self) -> None:
        self.output.pause()

    def resume_writing(self) -> None:
        self.output.resume()

    # --- what the parser finds ---

    def on_message_begin(self) -> None:
        self._is_in_head = True
        self._head_size = 0
        self._fields = []
        self.read_by = self._serving.now + self._serving.times.header_s
        self._url = b""
        self._headers = {}
        self._body = []
        self._size = 0

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self.read_by = NEVER
        fields = self._fields
        headers = self._headers = dict(fields)
        if len(headers) != len(fields):
            headers.clear()
            for key, value in fields:
                headers[key] = repeated(key, headers[key], value) if key in headers else value
        size = sum([len(key) + len(value) + 4 for key, value in fields])
        if len(fields) > MAX_FIELDS or len(self._url) + size > MAX_HEADERS:
            self._refuse_head()
            return
        declared = self._headers.get(b"content-length")
        if declared is None and b"transfer-encoding" not in self._headers:
            return
        if declared is not None and (not declared.isdigit() or int(declared[:20]) > MAX_BODY):
            self._refuse(413, f"A body of more than {MAX_BODY} bytes")
            return
        now, times = self._serving.now, self._serving.times
        self._body_by = now + times.body_s
        self.read_by = now + times.body_idle_s
        is_expecting = self._headers.get(b"expect", b"").lower() == b"100-continue"
        if is_expecting and self._talk is None and self.output.is_idle:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        if self._is_refused:
            return
        self._size += len(body)
        if self._size > MAX_BODY:
            self._refuse(413, f"A body of more than {MAX_BODY} bytes")
            return
        self._body.append(body)
        if len(self._body) > MAX_CHUNKS + self._size // SMALL_CHUNK:
            self._refuse(400, "The body comes in too many small chunks")
            return
        self.read_by = min(self._serving.now + self._serving.times.body_idle_s, self._body_by)

    def on_message_complete(self) -> None:
        if self._is_refused or self._parser.should_upgrade():
            return
        self._complete(self._parser.should_keep_alive())

    def _take_unread(self, data: bytes) -> None:
        """A request that offers to switch protocols: we stay with this one, and read its body ourselves."""
        declared = self._headers.get(b"content-length", b"0")
        if not declared.isdigit() or b"transfer-encoding" in self._headers or self._method() == "CONNECT":
            self._refuse(400, "This server does not switch protocols")
            return
        self._rest = int(declared)
        self._take_rest(data)

    def _take_rest(self, data: bytes) -> None:
        body, more = data[: self._rest], data[self._rest :]
        self._rest -= len(body)
        if body:
            self.on_body(body)
        if self._rest == 0:
            self._rest = -1
            self._complete(keeps=True)
            self._parser = self._serving.new_parser(self)
            if more:
                self.data_received(more)

    def _complete(self, keeps: bool) -> None:
        """A whole request is here."""
        self.read_by = NEVER
        path, query = self._serving.read_url(self._url)
        request = Request(
            self._method(),
            path,
            self._headers,
            self._body[0] if len(self._body) == 1 else b"".join(self._body),
            query,
            self.local,
            remote=self.remote,
        )
        self._url = b""
        keeps = keeps and not self._serving.is_draining
        is_new = self._parser.get_http_version() == "1.1"
        if self._talk is None and not self._queue and self.output.is_idle:
            self._serve(request, keeps, is_new)
        elif len(self._queue) >= MAX_QUEUED:
            self._drop()
        else:
            self._queue.append((request, keeps, is_new))

    def _method(self) -> str:
        method: bytes = self._parser.get_method()
        return method.decode("latin-1")

    # --- answering ---

    def _serve(self, request: Request, keeps: bool, is_new: bool) -> None:
        output = self.output
        output.begin(keeps, request.method == "HEAD", is_new)
        try:
            outcome = self._serving.endpoint.handle(request)
        except Exception:
            logger.exception("a request failed inside toolcrib")
            outcome = Refusal(500, "Internal error").answer(closes=True)
        if isinstance(outcome, Answer):
            output.answer(outcome)
        else:
            self._talk = outcome
            outcome.begin(output)

    def answered(self, closes: bool) -> None:
        """The answer has gone out whole. The next request, if one is here, else silence."""
        self._talk = None
        if closes and self._is_refused:
            self._linger()
        elif closes or (self._serving.is_draining and not self._queue):
            self._drop()
        elif self._queue:
            self._serving.loop.call_soon(self._serve_next)
        elif self.read_by == NEVER:
            self.read_by = self._serving.now + self._serving.times.idle_s

    def _serve_next(self) -> None:
        if self._queue and self._talk is None and not self.transport.is_closing():
            self._serve(*self._queue.popleft())

    # --- ending ---

    def expire(self, write_by: float) -> None:
        """Something should have come, or gone, by now; `write_by` is the limit for what is to be read."""
        if self.write_by < write_by or self._is_refused:
            self.transport.abort()
        elif self._url or self._is_in_head:
            self._refuse(408, "The request did not come in time")
        else:
            self._drop()

    def end(self) -> None:
        """The server stops: hang up, unless there is something to say."""
        if self._talk is None and not self._queue and self.output.is_idle:
            self._drop()

    def wait_for_reader(self) -> None:
        self.write_by = self._serving.now + self._serving.times.write_s

    def _refuse_head(self) -> None:
        self._refuse(431, LONG_HEAD)

    def _refuse(self, status: int, words: str) -> None:
        """Answer what cannot become a request, and hang up."""
        if self._is_refused:
            return
        if self._talk is None and not self._queue and self.output.is_idle and not self.transport.is_closing():
            self._is_refused = True
            self.output.begin(False, False, True)
            self.output.answer(Refusal(status, words).answer(closes=True))
        else:
            self._drop()

    def _linger(self) -> None:
        self._head_size = 0
        self.read_by = self._serving.now + LINGER_S
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _drop(self) -> None:
        self._is_refused = True
        self.read_by = NEVER
        self.wait_for_reader()
        if not self.transport.is_closing():
            self.transport.close()
