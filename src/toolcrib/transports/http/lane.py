"""Our own lane: HTTP/1.1 on httptools, no more of it than a tool server needs, and time-outs for everything.

Whoever sends slowly, reads slowly or not at all is let go. Knows sockets, bytes and time; refuses to know
what requests mean.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from toolcrib.protocol.headers import TWICE
from toolcrib.transports.http.output import Output
from toolcrib.transports.http.wire import MAX_BODY, MAX_HEADERS, Answer, Refusal, Request, Talk

if TYPE_CHECKING:
    from toolcrib.transports.http.serving import Serving

logger = logging.getLogger("toolcrib")

MAX_QUEUED = 16
"""Requests that a client may send ahead of their answers."""


class Connection(asyncio.Protocol):
    """One client's connection. Requests are answered in the order they came."""

    __slots__ = (
        "_body",
        "_headers",
        "_headers_size",
        "_is_continued",
        "_is_refused",
        "_keeps_alive",
        "_queue",
        "_serving",
        "_size",
        "_talk",
        "_url",
        "deadline",
        "local",
        "output",
        "parser",
        "stage",
        "started",
        "transport",
    )

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self.parser: Any = serving.new_parser(self)
        self.transport: Any = None
        self.output: Output | None = None
        self.local: str | None = None
        self.stage = "header"
        self.started = serving.now
        self.deadline = serving.now + serving.times.header_s
        self._talk: Talk | None = None
        self._queue: deque[tuple[Request, bool]] = deque()
        self._is_refused = False
        self._is_continued = False
        self._headers_size = 0
        self._reset()

    def _reset(self) -> None:
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self._size = 0

    # --- the connection ---

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.output = Output(self, transport, self._serving.gate)
        if not self._serving.admit(self):
            self._refuse(503, "Too many connections: try again later")
            return
        name = transport.get_extra_info("sockname")
        self.local = name[0] if isinstance(name, tuple) else None

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self._serving.forget(self)
        self._queue.clear()
        talk, self._talk = self._talk, None
        if self.output is not None:
            self.output.lost()
        if talk is not None:
            talk.lost()

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        if self.stage == "idle":
            self._enter("header", self._serving.times.header_s)
        if self.stage == "header":
            self._headers_size += len(data)
        try:
            self.parser.feed_data(data)
        except self._serving.parser_upgrade:
            self._refuse(400, "This server does not switch protocols")
        except self._serving.parser_error:
            self._refuse(400, "This is not HTTP")
        if self.stage == "header" and self._headers_size > MAX_HEADERS:
            self._refuse(431, f"Headers of more than {MAX_HEADERS} bytes")

    def pause_writing(self) -> None:
        if self.output is not None:
            self.output.pause()

    def resume_writing(self) -> None:
        if self.output is not None:
            self.output.resume()

    # --- what the parser finds ---

    def on_message_begin(self) -> None:
        if self.stage == "idle":
            self._enter("header", self._serving.times.header_s)
        self._reset()

    def on_url(self, url: bytes) -> None:
        self._url += url
        if len(self._url) > MAX_HEADERS:
            self._refuse(431, f"Headers of more than {MAX_HEADERS} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        key = name.lower()
        headers = self._headers
        headers[key] = TWICE if key in headers else value
        if len(headers) > 200:
            self._refuse(431, "More than 200 headers")

    def on_headers_complete(self) -> None:
        self._headers_size = 0
        declared = self._headers.get(b"content-length")
        if declared is not None and (not declared.isdigit() or int(declared[:20]) > MAX_BODY):
            self._refuse(413, f"A body of more than {MAX_BODY} bytes")
        elif declared != b"0" and (declared is not None or b"transfer-encoding" in self._headers):
            self.started = self._serving.now
            self._enter("body", self._serving.times.body_idle_s)
            if self._headers.get(b"expect", b"").lower() == b"100-continue" and self._talk is None:
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > MAX_BODY:
            self._refuse(413, f"A body of more than {MAX_BODY} bytes")
            return
        self._body.append(body)
        times = self._serving.times
        self.deadline = min(self._serving.now + times.body_idle_s, self.started + times.body_s)

    def on_message_complete(self) -> None:
        if self._is_refused:
            return
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        raw, _, query = self._url.partition(b"?")
        request = Request(
            self.parser.get_method().decode("latin-1"),
            raw.decode("latin-1"),
            self._headers,
            body,
            query.decode("latin-1"),
            self.local,
        )
        keeps = self.parser.should_keep_alive() and not self._serving.is_draining
        if self._talk is None and not self._queue and self.output is not None and self.output.is_idle:
            self._serve(request, keeps)
            return
        if len(self._queue) >= MAX_QUEUED:
            self._drop()
            return
        self._queue.append((request, keeps))

    # --- answering ---

    def _serve(self, request: Request, keeps: bool) -> None:
        output = self.output
        if output is None:
            return
        self._enter("busy", None)
        output.begin(keeps, request.method == "HEAD", self.parser.get_http_version() == "1.1")
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
        if closes:
            self._drop()
        elif self._queue:
            self._serving.loop.call_soon(self._serve_next)
        else:
            self._enter("idle", self._serving.times.idle_s)

    def _serve_next(self) -> None:
        if self._queue and self._talk is None and not self.transport.is_closing():
            self._serve(*self._queue.popleft())

    def expire(self) -> None:
        """The time for this stage is over."""
        if self.stage in ("header", "body") and self._talk is None:
            began = self._headers_size or self._url or self._headers
            if began:
                self._refuse(408, "The request did not come in time")
            else:
                self._drop()
        elif self.stage == "write":
            self.transport.abort()
        else:
            self._drop()

    def end(self) -> None:
        """The server stops: close as soon as there is nothing to say."""
        if self.stage in ("idle", "header"):
            self._drop()

    def enter_writing(self) -> None:
        self._enter("write", self._serving.times.write_s)

    def leave_writing(self) -> None:
        self._enter("busy", None)

    def _enter(self, stage: str, limit_s: float | None) -> None:
        self.stage = stage
        self.deadline = float("inf") if limit_s is None else self._serving.now + limit_s

    def _refuse(self, status: int, words: str) -> None:
        """Answer what cannot become a request, and hang up."""
        if self._is_refused:
            return
        self._is_refused = True
        output = self.output
        if output is not None and self._talk is None and output.is_idle and not self.transport.is_closing():
            output.begin(False, False, True)
            output.answer(Refusal(status, words).answer(closes=True))
        else:
            self._drop()

    def _drop(self) -> None:
        self._is_refused = True
        if not self.transport.is_closing():
            self.transport.close()
