"""Sessions of legacy clients: the agreed revision, open questions, and the table of HTTP sessions."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.context import ANONYMOUS, LOCAL, Principal, Question, Reply
from toolcrib.errors import CannotAskError
from toolcrib.http_client import fold_address
from toolcrib.protocol import messages, questions
from toolcrib.protocol.messages import Id, RPCError
from toolcrib.protocol.revisions import NEWEST_LEGACY, Revision
from toolcrib.protocol.session_ids import SealedSession, SessionIds
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.protocol.calls import Peer, PendingRequest
    from toolcrib.protocol.shared_sessions import SharedSessions

DEFAULT_LEVEL = "info"
MAX_SESSIONS = 10_000
MAX_PER_PRINCIPAL = 64
IDLE_S = 1800.0
MAX_SUBSCRIBED = 100
MAX_SUBSCRIBED_URI = 4_096
"""Bytes of memory that a URI takes which a client has subscribed to."""
MAX_SUBSCRIBED_BYTES = 32_768
"""The same for all URIs of a session or a stream."""
MAX_UNKNOWN_BYTES = 8 * 1024 * 1024
"""The same for all sessions of callers without credentials."""


class Session:
    """One legacy client. `notify` sends messages that belong to no call; None while the client cannot read
    them.

    The session counts for `owner`; an HTTP transport keeps `streams`, to resume them. Other processes can
    open its id until `until_s`.
    """

    def __init__(
        self,
        principal: Principal = LOCAL,
        *,
        id_: str | None = None,
        owner: str = "",
        touched: Callable[[Session], None] | None = None,
        until_s: float = 0.0,
        question_ids: Iterator[str] | None = None,
    ) -> None:
        self.id = id_
        self.until_s = until_s
        self.principal = principal
        self.owner = owner
        self.is_used = False  # since it was opened
        self.revision: Revision = NEWEST_LEGACY
        self.is_open = False
        self.can_ask = True
        self.capabilities: Mapping[str, Any] = {}
        self.level: str = DEFAULT_LEVEL
        self.version = 0  # of the settings that several processes share: level and URIs
        self.subscribed: set[str] = set()
        """URIs of resources whose changes the client wants to know."""
        self._unknown: UnknownBytes | None = None
        self.inflight: dict[Id, PendingRequest] = {}
        self.notify: Callable[[bytes], None] | None = None
        self.used = 0.0
        self.streams: Any = None
        self._pending: dict[Id, tuple[asyncio.Future[Reply], Question]] = {}
        self._question_ids = question_ids or (f"ask-{number}" for number in itertools.count(1))
        self._touched = touched

    @property
    def is_busy(self) -> bool:
        """Whether a call runs, or the client reads a stream."""
        return bool(self.inflight) or (self.streams is not None and self.streams.is_read)

    def touch(self) -> None:
        """Note that the session was in use until now."""
        if self._touched is not None:
            self._touched(self)

    def open(self, revision: Revision, capabilities: Mapping[str, Any]) -> None:
        self.revision = revision
        self.capabilities = questions.relevant_capabilities(capabilities)
        self.is_open = True

    def subscribe(self, uri: str, unknown: UnknownBytes) -> None:
        """Add a URI to those subscribed to. Raise RPCError if it takes too much memory."""
        if uri in self.subscribed:
            return
        check_subscribed((*self.subscribed, uri))
        if not has_credentials(self.principal):
            self._unknown = unknown
            unknown.take(sys.getsizeof(uri))
        self.subscribed.add(uri)

    def unsubscribe(self, uri: str) -> None:
        if uri in self.subscribed:
            self.subscribed.discard(uri)
            if self._unknown is not None:
                self._unknown.used -= sys.getsizeof(uri)

    async def ask(self, question: Question, peer: Peer) -> Reply:
        """Send a question during a call, and wait for the answer."""
        method, params = questions.to_wire(question)
        if not self.revision.url_elicitation:
            params.pop("mode", None)
        elif params.get("mode") == "url":
            params["elicitationId"] = secrets.token_urlsafe(12)
        id_ = next(self._question_ids)
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._pending[id_] = (future, question)
        try:
            peer.send(codec.encode({"jsonrpc": "2.0", "id": id_, "method": method, "params": params}))
            return await future
        finally:
            del self._pending[id_]

    def receive_answer(self, message: Mapping[str, Any]) -> None:
        """Take the answer to a question. An unexpected one is dropped."""
        id_ = message.get("id")
        future, question = self._pending.get(id_, (None, None)) if isinstance(id_, str) else (None, None)
        if future is None or question is None or future.done():
            return
        error = message.get("error")
        if error is not None:
            text = error.get("message") if isinstance(error, dict) else None
            shown = text[:200] if isinstance(text, str) else "no reason given"
            future.set_exception(CannotAskError(f"The client refused to be asked: {shown}"))
            return
        reply = questions.from_wire(question, message.get("result"))
        if reply is None:
            future.set_exception(CannotAskError("The client sent an answer that does not fit the question."))
        else:
            future.set_result(reply)

    def close(self) -> None:
        """End the calls and questions of a client that has gone."""
        for uri in list(self.subscribed):
            self.unsubscribe(uri)
        for request in list(self.inflight.values()):
            request.abandon()
        self.end_questions()
        if self.streams is not None:
            self.streams.close()

    def end_questions(self) -> None:
        """Ask nothing more, and end the questions that are open."""
        self.can_ask = False  # code that outlives its call may still try
        for future, _ in list(self._pending.values()):
            if not future.done():
                future.set_exception(CannotAskError("The client has gone."))


def has_credentials(principal: Principal) -> bool:
    """Whether a principal has credentials, and is not shared by all callers without."""
    return principal is not LOCAL and principal is not ANONYMOUS


class UnknownBytes:
    """The memory that callers without credentials may take for subscriptions, all together."""

    used = 0

    def take(self, size: int) -> None:
        if self.used + size > MAX_UNKNOWN_BYTES:
            raise RPCError(messages.INTERNAL_ERROR, "Too many subscriptions: try again later", status=503)
        self.used += size


def check_subscribed(uris: Collection[str]) -> None:
    """Raise RPCError for more URIs than one client may subscribe to."""
    sizes = [sys.getsizeof(uri) for uri in uris]
    if (
        len(sizes) > MAX_SUBSCRIBED
        or sum(sizes) > MAX_SUBSCRIBED_BYTES
        or max(sizes, default=0) > MAX_SUBSCRIBED_URI
    ):
        each = f"{MAX_SUBSCRIBED_URI:,} bytes each and {MAX_SUBSCRIBED_BYTES:,} bytes in all"
        raise messages.invalid_params(
            f"at most {MAX_SUBSCRIBED} subscriptions to resources, with URIs of {each}"
        )


class Sessions:
    """The sessions of HTTP clients: found by an unguessable id, bound to the principal that opened them,
    capped.

    Sessions are counted per owner: a principal with credentials, or else an address. When the table is full,
    the owner with the most sessions loses one: never used since it was opened, or used longest ago. A session
    with a running call or an open stream is never dropped that way.

    With several processes (`shared`) the table is a cache: a session that was dropped can be opened again.
    """

    def __init__(
        self,
        now: Callable[[], float],
        ids: SessionIds | None = None,
        *,
        limit: int = MAX_SESSIONS,
        per_principal: int = MAX_PER_PRINCIPAL,
        idle_s: float = IDLE_S,
    ) -> None:
        self._now = now
        self._limit = limit
        self._per_principal = per_principal
        self.idle_s = idle_s
        self.ids = ids or SessionIds()
        self.process = secrets.token_hex(8)
        """The name of this process, in the ids of its sessions."""
        self.question_ids: Iterator[str] | None = None
        """The ids of all questions; None if each session has its own, for other processes send no answers."""
        self.shared: SharedSessions | None = None
        self._sessions: OrderedDict[str, Session] = OrderedDict()  # least recently used first
        self._owners: dict[str, OrderedDict[str, Session]] = {}  # the same, by owner

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    def __contains__(self, id_: str) -> bool:
        return id_ in self._sessions

    def open(
        self,
        principal: Principal,
        address: str | None,
        revision: Revision,
        capabilities: Mapping[str, Any],
    ) -> Session:
        """Open a session. Raise RPCError if there are too many."""
        self.expire()
        kept = questions.relevant_capabilities(capabilities)
        id_, sealed = self.ids.seal(self.process, revision, kept, principal.binding)
        return self.keep(id_, sealed, principal, address)

    def keep(self, id_: str, sealed: SealedSession, principal: Principal, address: str | None) -> Session:
        """Add a session to the table. Raise RPCError if there are too many."""
        is_known = has_credentials(principal)
        owner = principal.binding if is_known else f"address {fold_address(address)}"
        own: Mapping[str, Session] = self._owners.get(owner, {})
        if is_known and len(own) >= self._per_principal:
            self.end(_evictable(own.values()) or next(iter(own.values())))
        if len(self._sessions) >= self._limit:
            idle = _evictable(max(self._owners.values(), key=len).values())
            if idle is None:
                raise RPCError(messages.INTERNAL_ERROR, "Too many sessions: try again later", status=503)
            self.end(idle)
        session = Session(
            principal,
            id_=id_,
            owner=owner,
            touched=self._touch,
            until_s=sealed.until_s,
            question_ids=self.question_ids,
        )
        session.open(sealed.revision, sealed.capabilities)
        session.used = self._now()
        self._sessions[id_] = session
        self._owners.setdefault(owner, OrderedDict())[id_] = session
        return session

    def get(self, id_: str) -> Session | None:
        """Return the session of this id if it is in the table, for any principal."""
        return self._sessions.get(id_)

    def find(self, id_: str, principal: Principal) -> Session | None:
        """Return the session of this id if this principal opened it."""
        session = self._sessions.get(id_)
        if session is None or session.principal.binding != principal.binding:
            return None
        if not session.is_busy and self._is_over(session):
            self.end(session)
            return None
        self._touch(session)
        return session

    def _is_over(self, session: Session) -> bool:
        if self.shared is not None:
            return self.ids.is_over(session.until_s)  # for the other processes, too
        return self._now() - session.used > self.idle_s

    def expire(self) -> None:
        """Drop idle sessions."""
        limit = self._now() - self.idle_s
        while self._sessions:
            session = next(iter(self._sessions.values()))
            if session.used >= limit:
                break
            if session.is_busy:
                self._touch(session)
            else:
                self.end(session)

    def drain(self, *, keeps_questions: bool) -> None:
        """End the streams that belong to no call, and the questions unless they are kept."""
        for session in self:
            if session.streams is not None:
                session.streams.own.finish()
            if not keeps_questions:
                session.end_questions()

    def close(self) -> None:
        for session in self:
            self.end(session)

    def _touch(self, session: Session) -> None:
        if session.id is not None and session.id in self._sessions:
            session.used = self._now()
            session.is_used = True
            self._sessions.move_to_end(session.id)
            self._owners[session.owner].move_to_end(session.id)

    def end(self, session: Session) -> None:
        id_ = session.id or ""
        if self._sessions.pop(id_, None) is not None:
            own = self._owners[session.owner]
            del own[id_]
            if not own:
                del self._owners[session.owner]
        session.close()


def _evictable(sessions: Iterable[Session]) -> Session | None:
    """Return the session to drop first, of sessions in the order of their last use; None if all are busy."""
    oldest = None
    for session in sessions:
        if not session.is_busy:
            if not session.is_used:
                return session
            oldest = oldest or session
    return oldest
