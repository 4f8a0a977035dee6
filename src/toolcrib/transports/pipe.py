"""One peer at the other end of a pipe: messages come one after the other, and everything goes back one way.

Stdio, the in-memory client and the older HTTP+SSE transport are pipes.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable

from toolcrib.context import LOCAL, Principal
from toolcrib.protocol import Engine, Peer, PendingRequest, Reply
from toolcrib.protocol.calls import MAX_RUNNING
from toolcrib.protocol.messages import INTERNAL_ERROR, INVALID_REQUEST, RPCError, error_reply
from toolcrib.protocol.sessions import Session
from toolcrib.transports.eager import EagerStarter, follow

logger = logging.getLogger("toolcrib")


class Pipe:
    """Passes one peer's messages to the engine and sends the replies."""

    def __init__(self, engine: Engine, send: Callable[[bytes], None], principal: Principal = LOCAL) -> None:
        self._engine = engine
        self._send = send
        self._session = Session(principal)
        self._session.notify = send
        self._peer = self._make_peer(principal)
        self._starter: EagerStarter | None = None
        self._open: set[PendingRequest] = set()
        """The requests whose replies wait for something."""
        self._drained: asyncio.Future[None] | None = None
        self._is_closed = False
        engine.pipes.add(self._session)

    def feed(self, data: bytes, principal: Principal | None = None) -> None:
        """Take one message; `principal` is given where every message is authenticated by itself."""
        if self._is_closed:
            return
        if principal is not None and principal != self._peer.principal:
            self._peer = self._make_peer(principal)  # running calls keep the one they came with
        try:
            outcome = self._engine.receive(data, self._peer)
        except Exception:  # a bug of ours must not end the peer's connection
            logger.exception("a message failed inside toolcrib")
            outcome = error_reply(None, RPCError(INTERNAL_ERROR, "Internal error"))
        if isinstance(outcome, Reply):
            self._reply(outcome)
        elif self._engine.running >= MAX_RUNNING:
            outcome.refuse()
            self._reply(error_reply(outcome.id, RPCError(INTERNAL_ERROR, "Too many calls: try again later")))
        else:
            self._run(outcome)

    def refuse(self, message: str) -> None:
        """Answer input that is not a message."""
        self._reply(error_reply(None, RPCError(INVALID_REQUEST, message)))

    @property
    def is_idle(self) -> bool:
        return not self._open

    async def drain(self, timeout_s: float) -> None:
        """Wait for running requests of a peer that sends nothing more: it gives no answers."""
        self._session.end_questions()
        for subscription in self._engine.subscriptions:
            if subscription.peer.session is self._session:
                subscription.end()
        if self._open:
            self._drained = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._drained,), timeout=timeout_s)

    async def aclose(self) -> None:
        """End the requests of a peer that has gone, and send nothing more."""
        self._is_closed = True
        self._engine.pipes.discard(self._session)
        self._session.close()
        await asyncio.sleep(0)  # a task cancelled before its first step could not clean up
        for request in tuple(self._open):
            if request.task is not None:
                request.task.cancel()
        if self._open:
            self._drained = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._drained,), timeout=1.0)
        if self._starter is not None:
            self._starter.close()

    def _make_peer(self, principal: Principal) -> Peer:
        session = self._session
        return Peer(self._send, principal=principal, session=session, inflight=session.inflight, is_pipe=True)

    def _run(self, request: PendingRequest) -> None:
        if self._starter is None:
            self._starter = EagerStarter()
        outcome = self._starter.start(request)
        if isinstance(outcome, Reply) and outcome.committed is None:
            self._reply(outcome)
            return
        self._open.add(request)
        follow(request, outcome, functools.partial(self._end, request))

    def _end(self, request: PendingRequest, reply: Reply | None) -> None:
        self._open.discard(request)
        self._reply(reply)
        if not self._open and self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _reply(self, reply: Reply | None) -> None:
        if reply is not None and reply.body is not None and not self._is_closed:
            self._send(reply.body)
