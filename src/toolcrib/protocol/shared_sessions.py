"""Legacy sessions of a server with several processes: settings in the store, and messages between processes.

Every process can open the id of a session. What the id does not say (log level, subscribed URIs, the process
with the GET stream, whether the session has ended) is one value in the store, read when a process first opens
the id. Changes are published. Answers to questions go to the process that asked.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from toolcrib.context import Principal
from toolcrib.protocol.calls import Peer, PendingRequest
from toolcrib.protocol.messages import (
    ACCEPTED,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Id,
    Reply,
    RPCError,
    encode_result,
    error_reply,
)
from toolcrib.protocol.sessions import DEFAULT_LEVEL, Session, check_subscribed
from toolcrib.state.base import Check, Space, StateUnavailable, Write
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.protocol.engine import Engine

logger = logging.getLogger("toolcrib")

TOPIC = "session"
SEND_S = 1.0
"""How long another process may take to acknowledge: one that was idle looks four times a second."""
LOAD_S = 0.25
"""How long a request waits for the settings of its session; they are used when they come."""
MAX_SENDING = 100
MAX_CANCELLED = 1_000
"""Cancellations that are published together."""
COALESCE_S = 0.01
MAX_NOTICE = 65_536
KEEP_S = 10.0
"""How long a message that is too long for a notice waits to be taken."""
_TRIES = 10
_MESSAGES = Space("message", 64, 64 * 2**20, 8 * 2**20, 4, when_full="refuse", durable=False)
_SETTINGS = Space("setting", 100_000, 64 * 2**20, 65_536, 1_000, when_full="evict", durable=False)
_ASKED = re.compile(r"ask-([0-9a-f]{16})-[0-9]{1,12}")


class SharedWork(PendingRequest):
    """A message whose reply waits for the store or for another process."""

    def __init__(self, peer: Peer, id_: Id | None, work: Coroutine[Any, Any, Reply]) -> None:
        super().__init__(peer, "" if id_ is None else id_)
        self._reply_id = id_
        self._work = work

    async def run(self) -> Reply:
        try:
            return await self._work
        except RPCError as error:
            return error_reply(self._reply_id, error, status=error.status)

    def close(self) -> None:
        super().close()
        self._work.close()  # no effect if it was awaited


class SharedSessions:
    """Keeps the sessions of this process in step with those of others. Used on the event loop that serves."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sessions = engine.sessions
        self._state = engine.settings.state
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sending = 0
        self._is_down = False
        self._cancelled: list[tuple[str, Id]] = []
        self._loading: dict[str, Mapping[str, Any]] = {}
        """The newest settings of sessions that are being opened."""
        self.process = self._sessions.process = self._state.engine.process
        self._sessions.question_ids = (f"ask-{self.process}-{number}" for number in count(1))
        bus = self._state.bus
        self._unsubscribe = [bus.subscribe(topic, self._receive) for topic in (TOPIC, self.process)]

    def close(self) -> None:
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        for task in self._tasks:
            task.cancel()

    # --- opening, and settings ---

    async def load(self, id_: str, principal: Principal, address: str | None) -> None:
        """Put the session of an id into the table, with its settings, if this principal may use it. Raise
        RPCError if there are too many."""
        sealed = self._sessions.ids.open(id_, principal.binding)
        if sealed is None:
            return
        self._loading.setdefault(id_, {})
        await asyncio.wait([self._start(self._refresh(id_))], timeout=LOAD_S)
        settings = self._loading.pop(id_, {})
        if "ended" not in settings and id_ not in self._sessions:
            self._apply(self._sessions.keep(id_, sealed, principal, address), settings)

    async def _refresh(self, id_: str) -> None:
        self._take(id_, (await self._read(id_))[0])

    def _take(self, id_: str, settings: Mapping[str, Any]) -> None:
        """Use settings that were read or published, if this process has the session."""
        session = self._sessions.get(id_)
        if session is not None:
            self._apply(session, settings)
        elif id_ in self._loading and settings.get("version", 0) > self._loading[id_].get("version", 0):
            self._loading[id_] = settings

    async def _read(self, id_: str) -> tuple[dict[str, Any], int]:
        item = await self._state.engine.values.get(_SETTINGS, id_)
        self._is_down = False
        return ({}, 0) if item is None else (codec.decode(item.value), item.version)

    def end(self, session: Session, peer: Peer) -> SharedWork:
        """Return the request that ends a session in all processes."""

        async def end() -> Reply:
            self._sessions.end(session)
            await self._change(session, {"ended": True})
            return Reply(None)

        return SharedWork(peer, None, end())

    def hold(self, session: Session) -> asyncio.Task[None]:
        """Note that the client reads the GET stream of a session here. When that is done, the session has all
        settings that were acknowledged before."""
        changing = self._start(self._change(session, {"holder": self.process}))
        return self._start(asyncio.wait([changing], timeout=LOAD_S))

    def save(self, peer: Peer, id_: Id, session: Session, change: Mapping[str, str]) -> SharedWork:
        """Return the request that keeps a change: "level", "subscribe" or "unsubscribe". It is answered when
        the process with the GET stream has it."""

        async def save() -> Reply:
            settings = await self._change(session, change)
            if (holder := settings.get("holder", self.process)) != self.process:
                await self._state.bus.send(holder, _encode(session, settings=settings), SEND_S)
            return Reply(encode_result(id_, b"{}"))

        return SharedWork(peer, id_, save())

    async def _change(self, session: Session, change: Mapping[str, Any]) -> dict[str, Any]:
        """Change the settings of a session and publish them. Raise RPCError if they cannot be kept."""
        id_ = session.id or ""
        left_s = self._sessions.ids.left_s(session.until_s)
        try:
            for _ in range(_TRIES):
                settings, version = await self._read(id_)
                uris = [uri for uri in settings.get("uris", ()) if uri != change.get("unsubscribe")]
                if "subscribe" in change and change["subscribe"] not in uris:
                    uris.append(change["subscribe"])
                    check_subscribed(uris)
                settings |= {key: change[key] for key in ("level", "holder", "ended") if key in change}
                settings |= {"uris": uris, "version": settings.get("version", session.version) + 1}
                write = Write(_SETTINGS, id_, codec.write(settings), left_s, session.owner)
                if await self._state.engine.values.commit([write], [Check(_SETTINGS, id_, version)]):
                    self._apply(session, settings)
                    self._state.bus.publish(TOPIC, _encode(session, settings=settings))
                    return settings
        except StateUnavailable as error:
            self._warn(error)
        text = "The settings of the session cannot be kept: try again later"
        raise RPCError(INTERNAL_ERROR, text, status=503)

    def _apply(self, session: Session, settings: Mapping[str, Any]) -> None:
        """Give a session its settings, if they are newer than those that it has."""
        if settings.get("version", 0) <= session.version:
            return
        session.version = settings["version"]
        if "ended" in settings:
            self._sessions.end(session)
            return
        session.level = settings.get("level", DEFAULT_LEVEL)
        for uri in session.subscribed.difference(settings["uris"]):
            session.unsubscribe(uri)
        with suppress(RPCError):  # no memory for more
            for uri in settings["uris"]:
                session.subscribe(uri, self._engine.unknown_bytes)
        if session.notify is not None and settings.get("holder", self.process) != self.process:
            session.notify = None  # the client reads the GET stream elsewhere
            session.streams.own.release()

    # --- messages that another process waits for ---

    def forward_answer(self, peer: Peer, message: Mapping[str, Any]) -> SharedWork | None:
        """Return what sends an answer to the process that asked; None if that is this one."""
        id_, session = message.get("id"), peer.session
        asked = _ASKED.fullmatch(id_) if isinstance(id_, str) else None
        if asked is None or asked[1] == self.process or session is None or session.id is None:
            return None
        if self._sending >= MAX_SENDING:
            raise RPCError(INTERNAL_ERROR, "Too many answers at once: try again later", status=503)
        data = _encode(session, answer=message)
        return SharedWork(peer, None, self._send_answer(asked[1], data, session.owner))

    async def _send_answer(self, process: str, data: bytes, owner: str) -> Reply:
        self._sending += 1
        try:
            if len(data) > MAX_NOTICE:
                key = secrets.token_hex(16)
                await self._state.engine.values.commit([Write(_MESSAGES, key, data, KEEP_S, owner)])
                data = codec.write({"stored": key})
            if await self._state.bus.send(process, data, SEND_S):
                return ACCEPTED
        except StateUnavailable as error:
            logger.warning("an answer was not forwarded: %s", error)
            text = "The answer cannot be forwarded: try again later"
            raise RPCError(INTERNAL_ERROR, text, status=503) from None
        finally:
            self._sending -= 1
        text = "The process that asked does not respond, and may have ended: make the call again"
        raise RPCError(INVALID_REQUEST, text, status=404)

    def cancel(self, session: Session, request: Id) -> None:
        """Cancel a request of a session that another process runs, if it still does."""
        if session.id is not None and len(self._cancelled) < MAX_CANCELLED:
            if not self._cancelled:
                self._loop.call_later(COALESCE_S, self._publish_cancelled)
            self._cancelled.append((session.id, request))

    def _publish_cancelled(self) -> None:
        cancelled, self._cancelled = self._cancelled, []
        self._state.bus.publish(TOPIC, codec.write({"cancelled": cancelled}))

    # --- messages from other processes ---

    def _receive(self, data: bytes | None) -> None:
        """Take a notice, on any thread."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._handle, data)

    def _handle(self, data: bytes | None) -> None:
        if data is None:
            for each in self._sessions:
                self._start(self._refresh(each.id or ""))
            return
        message = codec.decode(data)
        if "stored" in message:
            self._start(self._fetch(message["stored"]))
        for id_, request in message.get("cancelled", ()):
            self._cancel_here(id_, request)
        id_ = message.get("session", "")
        if "settings" in message:
            self._take(id_, message["settings"])
        elif "answer" in message and (session := self._sessions.get(id_)) is not None:
            session.receive_answer(message["answer"])

    async def _fetch(self, key: str) -> None:
        """Take a message that is too long for a notice."""
        values = self._state.engine.values
        item = await values.get(_MESSAGES, key)
        if item is not None:
            await values.commit([Write(_MESSAGES, key, None, None)])
            self._handle(item.value)

    def _cancel_here(self, id_: str, request: Id) -> None:
        session = self._sessions.get(id_)
        if session is not None and request in session.inflight:
            session.inflight[request].cancel()

    def _warn(self, error: Exception) -> None:
        """Log a failure of the store, once until it works again."""
        if not self._is_down:
            self._is_down = True
            logger.warning("the settings of sessions are not available: %s", error)

    def _start(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[None]:
        async def run() -> None:
            try:
                await work
            except (StateUnavailable, RPCError) as error:
                self._warn(error)

        task = self._loop.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _encode(session: Session, **content: Any) -> bytes:
    return codec.write({"session": session.id, **content})
