"""Responses that take time: a call that runs, or a stream that a client listens to.

The head of the response is held back until there is something to send. So a short call gets plain JSON, an
error gets its own status, and only a call that sends messages, or takes long, becomes a stream.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from toolcrib.protocol import PendingRequest, Reply
from toolcrib.protocol.sessions import Session
from toolcrib.protocol.subscriptions import Subscription
from toolcrib.transports.eager import AwaitingRecord, ReplyTask, follow
from toolcrib.transports.http.request import Request
from toolcrib.transports.http.response import (
    OpenStream,
    PendingResponse,
    Response,
    ResponseWriter,
    error_response,
    event,
)
from toolcrib.transports.http.sse import EventStream, SessionStreams

logger = logging.getLogger("toolcrib")

HOLD_S = 15.0
"""How long the head of a response is held back, and the time between two keep-alive comments of a stream."""


class KeepAlive:
    """Writes a comment at intervals, so that no proxy takes a silent stream for a dead one."""

    def __init__(self, writer: ResponseWriter, is_read: Callable[[], bool] = lambda: True) -> None:
        self._writer = writer
        self._is_read = is_read
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(HOLD_S, self._write)

    def _write(self) -> None:
        if not self._is_read():
            return  # the writer may serve another response by now
        self._writer.write(b": alive\n\n")
        self._timer = self._loop.call_later(HOLD_S, self._write)

    def stop(self) -> None:
        self._timer.cancel()

    @classmethod
    def of_stream(cls, stream: EventStream, writer: ResponseWriter) -> KeepAlive:
        """Return one that writes as long as this writer is the stream's."""
        return cls(writer, lambda: stream.writer is writer)


class RecordedResponse(AwaitingRecord):
    """A call that has run and sends nothing but its reply, which waits for the audit record."""

    __slots__ = ("_writer",)
    _writer: ResponseWriter | None

    def begin(self, writer: ResponseWriter) -> None:
        self._writer = writer
        self.wait()

    def lost(self) -> None:
        self._writer = None
        self.request.abandon()

    def finish(self, reply: Reply) -> None:
        if self._writer is not None:
            self._writer.respond(Response(202) if self.request.is_cancelled else reply)


class PendingAdmission:
    """A request that is handled once its caller is authenticated, as checking a token may take time."""

    def __init__(
        self, task: asyncio.Task[Response | None], handle: Callable[[], Reply | PendingResponse]
    ) -> None:
        self._task = task
        self._handle = handle
        self._writer: ResponseWriter | None = None
        self._response: PendingResponse | None = None

    def begin(self, writer: ResponseWriter) -> None:
        self._writer = writer
        self._task.add_done_callback(self._continue)

    def _continue(self, task: asyncio.Task[Response | None]) -> None:
        writer = self._writer
        if task.cancelled() or writer is None:
            return
        try:
            outcome = task.result() or self._handle()
        except Exception:
            logger.exception("a request failed inside toolcrib")
            outcome = error_response(500, "Internal error", closes=True)
        if isinstance(outcome, Reply):
            writer.respond(outcome)
        else:
            self._response = outcome
            outcome.begin(writer)

    def lost(self) -> None:
        self._writer = None
        self._task.cancel()
        if self._response is not None:
            self._response.lost()


def start_admission(admission: Awaitable[Response | None]) -> asyncio.Task[Response | None]:
    """Return a task that waits for an admission, and refuses the request if that fails."""

    async def wait() -> Response | None:
        try:
            return await admission
        except Exception:
            logger.exception("a request failed inside toolcrib")
            return error_response(500, "Internal error", closes=True)

    return asyncio.get_running_loop().create_task(wait())


class CallResponse:
    """The response to a request that runs."""

    def __init__(self, pending: PendingRequest, outcome: ReplyTask | Reply, request: Request) -> None:
        self._pending = pending
        self._outcome: ReplyTask | Reply | None = outcome
        self._request = request
        self._session = request.session if request.session and request.session.id is not None else None
        self._writer: ResponseWriter | None = None
        self._stream: EventStream | None = None
        self._is_open = False
        self._is_over = False
        self._keep_alive: KeepAlive | None = None
        self._hold: asyncio.TimerHandle | None = None

    def begin(self, writer: ResponseWriter) -> None:
        self._writer = writer
        request, outcome = self._request, self._outcome
        request.response = self
        held, request.held = request.held, None
        for message in held or ():
            if message is None:
                self.close_stream()
            else:
                self.send(message)
        if isinstance(outcome, Reply):
            self._finish(outcome)
        elif outcome is not None:
            self._hold = outcome.get_loop().call_later(HOLD_S, self._open)
            follow(self._pending, outcome, self._finish)
            outcome.add_done_callback(self._ended)

    def lost(self) -> None:
        """Note that the client has disconnected. If it cannot come back for the rest, the call is
        cancelled."""
        if self._stream is not None and self._writer is not None:
            self._stream.lost(self._writer)
        self._stop_timers()
        self._writer = None
        if self._stream is None and not self._is_over:
            self._pending.abandon()

    def send(self, message: bytes) -> None:
        self._open()
        if self._stream is not None:
            self._stream.send(message)
        elif self._writer is not None:
            self._writer.write(event(message))

    def close_stream(self) -> None:
        if self._session is None or not self._session.revision.resumable_streams:
            return
        self._open()
        self._stop_timers()
        self._writer = None
        if self._stream is not None:
            self._stream.release()

    def _open(self) -> None:
        if self._is_open or self._writer is None:
            return
        self._is_open = True
        self._stop_timers()
        if self._session is not None:
            self._stream = streams_of(self._session).new()
            self._stream.open(self._writer, resumable=self._session.revision.resumable_streams)
            self._keep_alive = KeepAlive.of_stream(self._stream, self._writer)
        else:
            self._writer.open()
            self._keep_alive = KeepAlive(self._writer)

    def _finish(self, reply: Reply) -> None:
        self._is_over = True
        self._stop_timers()
        if self._is_open:
            if reply.body is not None:
                self.send(reply.body)
            self._end_stream()
        elif self._writer is not None:
            self._writer.respond(reply)
        # The connection is for the next request now: nothing of this one may get into its response, and
        # nothing is kept of a reply that its client may take long to read.
        self._request.discard_messages()
        self._writer = self._outcome = self._pending.task = None

    def _ended(self, task: ReplyTask) -> None:
        """End the response of a call that was cancelled: it has no reply."""
        self._stop_timers()
        if self._request.session is not None:
            self._request.session.touch()
        if self._is_over:
            return
        self._is_over = True
        if self._is_open or self._stream is not None:
            self._end_stream()
        elif self._writer is not None:
            self._writer.respond(Response(202 if self._pending.is_cancelled else 503))
        self._request.discard_messages()
        if not task.cancelled():
            task.exception()  # mark it as seen; it was logged where it happened

    def _end_stream(self) -> None:
        if self._stream is not None:
            self._stream.finish()
        elif self._writer is not None:
            self._writer.finish()

    def _stop_timers(self) -> None:
        if self._hold is not None:
            self._hold.cancel()
        if self._keep_alive is not None:
            self._keep_alive.stop()
            self._keep_alive = None


class SubscriptionResponse(CallResponse, OpenStream):
    """The response to subscriptions/listen: a stream that runs until it is ended."""

    def __init__(self, subscription: Subscription, outcome: ReplyTask | Reply, request: Request) -> None:
        super().__init__(subscription, outcome, request)
        self._subscription = subscription

    def end(self) -> None:
        self._subscription.end()


class SessionStreamResponse(OpenStream):
    """A stream of a legacy session that its client reads: the session's own, or one that it resumes."""

    def __init__(self, session: Session, stream: EventStream, after: int | None) -> None:
        self._session = session
        self._stream = stream
        self._after = after
        self._writer: ResponseWriter | None = None
        self._keep_alive: KeepAlive | None = None

    def begin(self, writer: ResponseWriter) -> None:
        self._writer = writer
        if self._after is None:
            self._stream.open(writer, resumable=self._session.revision.resumable_streams)
        else:
            self._stream.resume(writer, self._after)
        streams = streams_of(self._session)
        if self._stream is streams.own:
            self._session.notify = streams.notify  # from now on, also while the client is away
        if self._stream.writer is writer:
            self._keep_alive = KeepAlive.of_stream(self._stream, writer)

    def lost(self) -> None:
        if self._keep_alive is not None:
            self._keep_alive.stop()
        if self._writer is not None:
            self._stream.lost(self._writer)
        self._session.touch()

    def end(self) -> None:
        """End the stream; the client may resume it, with valid credentials."""
        if self._writer is not None and self._stream.writer is self._writer:
            self._stream.release()
        self.lost()


def streams_of(session: Session) -> SessionStreams:
    streams: SessionStreams = session.streams
    return streams
