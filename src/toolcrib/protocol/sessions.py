"""A legacy client that has shaken hands: what was agreed, what it was asked, and the table of all of them.

Knows revisions and pending questions. Refuses to know connections; the clock is given.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.context import ANONYMOUS, LOCAL, Principal, Question, Reply
from toolcrib.errors import CannotAskError
from toolcrib.http_client import fold_address
from toolcrib.protocol import messages
from toolcrib.protocol import questions as asking
from toolcrib.protocol.messages import Fault, Id
from toolcrib.protocol.revisions import NEWEST_LEGACY, Revision
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.protocol.calls import Call, Exchange

DEFAULT_LEVEL = "info"
MAX_SESSIONS = 10_000
MAX_PER_PRINCIPAL = 64
IDLE_S = 1800.0


class Session:
    """One legacy client. `notify` takes what belongs to no call; None while nobody listens."""

    def __init__(
        self,
        principal: Principal = LOCAL,
        *,
        id_: str | None = None,
        owner: str = "",
        touched: Callable[[Session], None] | None = None,
    ) -> None:
        self.id = id_
        self.principal = principal
        self.owner = owner  # whom it is counted for
        self.is_used = False  # since it was opened
        self.revision: Revision = NEWEST_LEGACY
        self.is_open = False
        self.can_ask = True
        self.capabilities: Mapping[str, Any] = {}
        self.level: str = DEFAULT_LEVEL
        self.inflight: dict[Id, Exchange] = {}
        self.notify: Callable[[bytes], None] | None = None
        self.used = 0.0
        self.streams: Any = None  # what an HTTP transport keeps for those who come back
        self._pending: dict[Id, tuple[asyncio.Future[Reply], Question]] = {}
        self._number = 0
        self._touched = touched

    @property
    def is_busy(self) -> bool:
        """Whether something of it is under way: a call, or a stream that the client reads."""
        return bool(self.inflight) or (self.streams is not None and self.streams.is_read)

    def touch(self) -> None:
        """Something of it was under way until now."""
        if self._touched is not None:
            self._touched(self)

    def open(self, revision: Revision, capabilities: Mapping[str, Any]) -> None:
        self.revision = revision
        self.capabilities = asking.abilities_of(capabilities)
        self.is_open = True

    async def ask(self, question: Question, call: Call) -> Reply:
        """Ask the client in the middle of a call and wait."""
        method, params = asking.to_wire(question)
        if not self.revision.elicits_by_url:
            params.pop("mode", None)
        elif params.get("mode") == "url":
            params["elicitationId"] = secrets.token_urlsafe(12)
        self._number += 1
        number = f"ask-{self._number}"
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._pending[number] = (future, question)
        try:
            call.link.send(codec.encode({"jsonrpc": "2.0", "id": number, "method": method, "params": params}))
            return await future
        finally:
            del self._pending[number]

    def take_reply(self, message: Mapping[str, Any]) -> None:
        """What the client answered. An answer that nobody waits for is dropped."""
        number = message.get("id")
        future, question = (
            self._pending.get(number, (None, None)) if isinstance(number, str) else (None, None)
        )
        if future is None or question is None or future.done():
            return
        error = message.get("error")
        if error is not None:
            text = error.get("message") if isinstance(error, dict) else None
            shown = text[:200] if isinstance(text, str) else "no reason given"
            future.set_exception(CannotAskError(f"The client refused to be asked: {shown}"))
            return
        reply = asking.from_wire(question, message.get("result"))
        if reply is None:
            future.set_exception(CannotAskError("The client's answer is not one to what it was asked."))
        else:
            future.set_result(reply)

    def close(self) -> None:
        """The client is gone: its calls and questions end."""
        self.can_ask = False  # code that outlives its call may still try
        for exchange in list(self.inflight.values()):
            exchange.abandon()
        for future, _ in list(self._pending.values()):
            if not future.done():
                future.set_exception(CannotAskError("The client has gone."))
        if self.streams is not None:
            self.streams.close()


class Sessions:
    """The sessions of HTTP clients: found by an id nobody can guess, bound to who opened them, capped.

    Sessions are counted per owner: a principal with credentials, or else an address. When the table is full,
    the owner with the most sessions loses the one that is missed least: never used since it was opened, or
    used longest ago. A session with a call or a reader is never lost that way.
    """

    def __init__(
        self,
        now: Callable[[], float],
        *,
        limit: int = MAX_SESSIONS,
        per_principal: int = MAX_PER_PRINCIPAL,
        idle_s: float = IDLE_S,
    ) -> None:
        self._now = now
        self._limit = limit
        self._per_principal = per_principal
        self.idle_s = idle_s
        self._sessions: OrderedDict[str, Session] = OrderedDict()  # the last used one last, see `expire`
        self._owners: dict[str, OrderedDict[str, Session]] = {}  # the same sessions, in the same order

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    def new(self, principal: Principal, address: str | None = None) -> Session:
        """A session that is not open yet. Raises Fault where there are too many."""
        self.expire()
        is_known = principal is not LOCAL and principal is not ANONYMOUS
        owner = principal.binding if is_known else f"address {fold_address(address)}"
        own: Mapping[str, Session] = self._owners.get(owner, {})
        if is_known and len(own) >= self._per_principal:
            self._drop(_least_missed(own.values()) or next(iter(own.values())))
        if len(self._sessions) >= self._limit:
            idle = _least_missed(max(self._owners.values(), key=len).values())
            if idle is None:
                raise Fault(messages.INTERNAL_ERROR, "Too many sessions: try again later", status=503)
            self._drop(idle)
        return Session(principal, id_=secrets.token_urlsafe(24), owner=owner, touched=self._touch)

    def keep(self, session: Session) -> None:
        id_ = session.id or ""
        session.used = self._now()
        self._sessions[id_] = session
        self._owners.setdefault(session.owner, OrderedDict())[id_] = session

    def find(self, id_: str, principal: Principal) -> Session | None:
        """The session of this id, if this principal opened it."""
        session = self._sessions.get(id_)
        if session is None or session.principal.binding != principal.binding:
            return None
        if not session.is_busy and self._now() - session.used > self.idle_s:
            self._drop(session)
            return None
        self._touch(session)
        return session

    def end(self, session: Session) -> None:
        self._drop(session)

    def expire(self) -> None:
        """Drop what nobody has used for long."""
        limit = self._now() - self.idle_s
        while self._sessions:
            session = next(iter(self._sessions.values()))
            if session.used >= limit:
                break
            if session.is_busy:
                self._touch(session)
            else:
                self._drop(session)

    def close(self) -> None:
        for session in list(self._sessions.values()):
            self._drop(session)

    def _touch(self, session: Session) -> None:
        if session.id is not None and session.id in self._sessions:
            session.used = self._now()
            session.is_used = True
            self._sessions.move_to_end(session.id)
            self._owners[session.owner].move_to_end(session.id)

    def _drop(self, session: Session) -> None:
        id_ = session.id or ""
        if self._sessions.pop(id_, None) is not None:
            own = self._owners[session.owner]
            del own[id_]
            if not own:
                del self._owners[session.owner]
        session.close()


def _least_missed(sessions: Iterable[Session]) -> Session | None:
    """Of sessions in the order of their last use, the one to end first; None if all are busy."""
    oldest = None
    for session in sessions:
        if not session.is_busy:
            if not session.is_used:
                return session
            oldest = oldest or session
    return oldest
