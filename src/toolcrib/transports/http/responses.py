"""Answers that take time: a call that runs, a stream that is listened to.

The first line of the answer is held back until there is something to say: so a short call gets plain JSON, an
error its own status, and only a call that has more to tell becomes a stream. Knows exchanges and writers;
refuses to know sockets.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from toolcrib.protocol import Exchange, Link, Reply
from toolcrib.protocol.calls import nowhere
from toolcrib.protocol.sessions import Session
from toolcrib.protocol.subscriptions import Listen
from toolcrib.transports.http.messages import Answer, Fields, Lasting, Refusal, Talk, Writer, event
from toolcrib.transports.http.sse import Stream, Streams
from toolcrib.transports.tasks import Late, Work, follow

logger = logging.getLogger("toolcrib")

HOLD_S = 15.0
"""How long the first line is held back, and how often a silent stream shows that it is alive."""
_ALIVE = b": alive\n\n"
LET_GO = b"let go"
"""Stands among what was sent before anybody could send it for the wish to let go of the stream."""


class Pulse:
    """Writes a comment now and then, so that nobody between takes a silent stream for a dead one."""

    def __init__(self, writer: Writer, is_read: Callable[[], bool] = lambda: True) -> None:
        self._writer = writer
        self._is_read = is_read
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(HOLD_S, self._beat)

    def _beat(self) -> None:
        if not self._is_read():
            return  # the writer may serve somebody else by now
        self._writer.write(_ALIVE)
        self._timer = self._loop.call_later(HOLD_S, self._beat)

    def stop(self) -> None:
        self._timer.cancel()


class LastWord(Late):
    """A request whose call has run: it says nothing more, and its answer waits for the record."""

    __slots__ = ("_writer",)
    _writer: Writer | None

    def begin(self, writer: Writer) -> None:
        self._writer = writer
        self.listen()

    def lost(self) -> None:
        self._writer = None
        self.exchange.abandon()

    def finish(self, reply: Reply) -> None:
        if self._writer is not None:
            self._writer.answer(Answer(202) if self.exchange.is_cancelled else answer_of(reply))


class Admission:
    """A request that is handled once its caller is known: checking a token may take time."""

    def __init__(self, task: asyncio.Task[Answer | None], handle: Callable[[], Answer | Talk]) -> None:
        self._task = task
        self._handle = handle
        self._writer: Writer | None = None
        self._talk: Talk | None = None

    def begin(self, writer: Writer) -> None:
        self._writer = writer
        self._task.add_done_callback(self._admitted)

    def _admitted(self, task: asyncio.Task[Answer | None]) -> None:
        writer = self._writer
        if task.cancelled() or writer is None:
            return
        try:
            outcome = task.result() or self._handle()
        except Exception:
            logger.exception("a request failed inside toolcrib")
            outcome = Refusal(500, "Internal error").answer(closes=True)
        if isinstance(outcome, Answer):
            writer.answer(outcome)
        else:
            self._talk = outcome
            outcome.begin(writer)

    def lost(self) -> None:
        self._writer = None
        self._task.cancel()
        if self._talk is not None:
            self._talk.lost()


class Conversation:
    """One request that runs. `held` is what it has sent already."""

    def __init__(self, exchange: Exchange, work: Work | Reply, link: Link, held: list[bytes]) -> None:
        self._exchange = exchange
        self._work: Work | Reply | None = work
        self._link = link
        self._held = held
        self._writer: Writer | None = None
        self._stream: Stream | None = None
        self._is_open = False
        self._is_over = False
        self._pulse: Pulse | None = None
        self._hold: asyncio.TimerHandle | None = None

    def begin(self, writer: Writer) -> None:
        self._writer = writer
        self._link.send = self._send
        self._link.close_stream = self._close_stream
        for message in self._held:
            if message is LET_GO:
                self._close_stream()
            else:
                self._send(message)
        self._held.clear()
        if isinstance(self._work, Reply):
            self._finish(self._work)
            return
        if self._work is not None:
            self._hold = asyncio.get_running_loop().call_later(HOLD_S, self._open)
            follow(self._exchange, self._work, self._finish)
            self._work.add_done_callback(self._ended)

    def lost(self) -> None:
        """The client has gone. If it cannot come back for the rest, the call ends."""
        if self._stream is not None and self._writer is not None:
            self._stream.lost(self._writer)
        self._rest()
        self._writer = None
        if self._stream is None and not self._is_over:
            self._exchange.abandon()

    def _open(self) -> None:
        if self._is_open or self._writer is None:
            return
        self._is_open = True
        self._rest()
        session = self._link.session
        if session is not None and session.id is not None:
            self._stream = streams_of(session).new()
            self._stream.open(self._writer, primes=session.revision.primes)
            self._pulse = pulse_of(self._stream, self._writer)
        else:
            self._writer.open()
            self._pulse = Pulse(self._writer)

    def _send(self, message: bytes) -> None:
        self._open()
        if self._stream is not None:
            self._stream.send(message)
        elif self._writer is not None:
            self._writer.write(event(message))

    def _close_stream(self) -> None:
        session = self._link.session
        if session is None or session.id is None or not session.revision.primes:
            return
        self._open()
        self._rest()
        self._writer = None
        if self._stream is not None:
            self._stream.let_go()

    def _finish(self, reply: Reply) -> None:
        self._is_over = True
        self._rest()
        if not self._is_open:
            if self._writer is not None:
                self._writer.answer(answer_of(reply))
            self._hang_up()
            return
        if reply.body is not None:
            self._send(reply.body)
        if self._stream is not None:
            self._stream.finish()
        elif self._writer is not None:
            self._writer.finish()
        self._hang_up()

    def _hang_up(self) -> None:
        """The connection is for the next request: nothing of this one may get into its answer, and nothing
        is kept of a reply that its client may take long to read."""
        self._writer = self._link.close_stream = None
        self._link.send = nowhere
        self._work = self._exchange.task = None

    def _ended(self, task: Work) -> None:
        """A call that was cancelled has no reply: its stream just ends."""
        self._rest()
        if self._link.session is not None:
            self._link.session.touch()
        if self._is_over:
            return
        self._is_over = True
        if self._stream is not None:
            self._stream.finish()
        elif self._writer is not None:
            if self._is_open:
                self._writer.finish()
            else:
                self._writer.answer(Answer(202 if self._exchange.is_cancelled else 503))
        if not task.cancelled():
            task.exception()  # seen; it was told of where it happened

    def _rest(self) -> None:
        if self._hold is not None:
            self._hold.cancel()
        if self._pulse is not None:
            self._pulse.stop()
            self._pulse = None


class Subscribing(Conversation, Lasting):
    """A client of 2026-07-28 that listens: one request that runs until it is ended."""

    def __init__(self, listen: Listen, work: Work | Reply, link: Link, held: list[bytes]) -> None:
        super().__init__(listen, work, link, held)
        self._listen = listen

    def end(self) -> None:
        self._listen.end()


class Listening(Lasting):
    """A legacy client that reads a stream of its session: its own, or one that it comes back to."""

    def __init__(self, session: Session, stream: Stream, after: int | None) -> None:
        self._session = session
        self._stream = stream
        self._after = after
        self._writer: Writer | None = None
        self._pulse: Pulse | None = None

    def begin(self, writer: Writer) -> None:
        self._writer = writer
        if self._after is None:
            self._stream.open(writer, primes=self._session.revision.primes)
        else:
            self._stream.resume(writer, self._after)
        streams = streams_of(self._session)
        if self._stream is streams.own:
            self._session.notify = streams.tell  # from now on, whether it reads or is to come back
        if self._stream.writer is writer:
            self._pulse = pulse_of(self._stream, writer)

    def lost(self) -> None:
        if self._pulse is not None:
            self._pulse.stop()
        if self._writer is not None:
            self._stream.lost(self._writer)
        self._session.touch()

    def end(self) -> None:
        """It may come back for the rest, with better credentials."""
        if self._writer is not None and self._stream.writer is self._writer:
            self._stream.let_go()
        self.lost()


def pulse_of(stream: Stream, writer: Writer) -> Pulse:
    """Beats as long as this writer is the stream's."""
    return Pulse(writer, lambda: stream.writer is writer)


def streams_of(session: Session) -> Streams:
    streams: Streams = session.streams
    return streams


def answer_of(reply: Reply) -> Answer:
    """A reply as an HTTP answer."""
    fields: Fields = ()
    if reply.session is not None:
        fields = ((b"mcp-session-id", reply.session.encode()),)
    if reply.status in (429, 503):
        fields = (*fields, (b"retry-after", b"1"))
    if reply.fields:
        fields = (*fields, *reply.fields)
    return Answer(reply.status, reply.body or b"", fields=fields)
