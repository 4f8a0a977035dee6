"""One peer at the other end of a pipe: messages in one after the other, whatever goes back out by one way.

Stdio, the in-memory client and the old HTTP+SSE pair are pipes. Knows the engine and tasks; refuses to know
where the bytes go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from toolcrib.context import LOCAL, Principal
from toolcrib.protocol import Engine, Exchange, Link, Reply
from toolcrib.protocol.calls import Call
from toolcrib.protocol.messages import INTERNAL_ERROR, INVALID_REQUEST, Fault, refusal
from toolcrib.protocol.sessions import Session
from toolcrib.transports.tasks import begin, follow

logger = logging.getLogger("toolcrib")


class Pipe:
    """Feeds one peer's messages to the engine and sends what comes of them."""

    def __init__(self, engine: Engine, send: Callable[[bytes], None], principal: Principal = LOCAL) -> None:
        self._engine = engine
        self._send = send
        self._session = Session(principal)
        self._session.notify = send
        self._link = self._make_link(principal)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_closed = False
        engine.pipes.add(self._session)

    def feed(self, data: bytes, principal: Principal | None = None) -> None:
        """Take one message; of `principal`, where every message shows anew who sent it."""
        if self._is_closed:
            return
        if principal is not None and principal != self._link.principal:
            self._link = self._make_link(principal)  # calls under way keep the one they came by
        try:
            outcome = self._engine.receive(data, self._link)
        except Exception:  # a flaw of ours must not end the peer's connection
            logger.exception("a message failed inside toolcrib")
            outcome = refusal(None, Fault(INTERNAL_ERROR, "Internal error"))
        if isinstance(outcome, Reply):
            self._reply(outcome)
        elif self._engine.gate.is_overrun:
            outcome.refuse()
            id_ = outcome.id if isinstance(outcome, Call) else None  # a batch has none of its own
            self._reply(refusal(id_, Fault(INTERNAL_ERROR, "Too many calls: try again later")))
        else:
            self._run(outcome)

    def refuse(self, words: str) -> None:
        """Answer something that is no message at all."""
        self._reply(refusal(None, Fault(INVALID_REQUEST, words)))

    @property
    def is_idle(self) -> bool:
        return not self._tasks

    async def drain(self, timeout_s: float) -> None:
        """Wait for what is under way, but not for long."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)

    async def aclose(self) -> None:
        """The peer is gone: end its calls, send nothing more."""
        self._is_closed = True
        self._engine.pipes.discard(self._session)
        self._session.close()
        await asyncio.sleep(0)  # what has not begun could not clean up
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)

    def _make_link(self, principal: Principal) -> Link:
        session = self._session
        return Link(self._send, principal=principal, session=session, inflight=session.inflight, is_pipe=True)

    def _run(self, exchange: Exchange) -> None:
        outcome = begin(exchange)
        if isinstance(outcome, Reply):
            self._reply(outcome)
            return
        follow(exchange, outcome, self._reply)
        self._tasks.add(outcome)
        outcome.add_done_callback(self._tasks.discard)

    def _reply(self, reply: Reply) -> None:
        if reply.body is not None and not self._is_closed:
            self._send(reply.body)
