"""What an HTTP request to a server comes to: the one function behind both lanes.

Guard, method, media types, session; then the engine. Knows HTTP as data and the engine; refuses to know
sockets.

Memory for request bodies of callers who have not said who they are: one budget for all of them.

A caller with a key or token may send bodies of any allowed size. Bodies of all others count, above
`FREE_BYTES`, from the moment their size is known until their request is answered; those beyond the budget are
refused.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Awaitable
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from toolcrib.context import ANONYMOUS, LOCAL, Principal
from toolcrib.protocol import Engine, Link, Reply
from toolcrib.protocol.calls import nowhere
from toolcrib.protocol.headers import TWICE
from toolcrib.protocol.messages import VERSION
from toolcrib.protocol.modern import is_marked
from toolcrib.protocol.revisions import LEGACY
from toolcrib.protocol.subscriptions import Listen
from toolcrib.transports.http.hosts import Guard
from toolcrib.transports.http.legacy_sse import Pair
from toolcrib.transports.http.messages import Answer, Lasting, Refusal, Request, Talk
from toolcrib.transports.http.responses import (
    LET_GO,
    Conversation,
    LastWord,
    Listening,
    Subscribing,
    answer_of,
    streams_of,
)
from toolcrib.transports.http.sse import Shelf, Streams
from toolcrib.transports.tasks import start
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.transports.http.auth import Reception

FREE_BYTES = 16 * 1024
MAX_BYTES = 48 * 1024 * 1024


def is_known(principal: Principal) -> bool:
    """Whether the caller has shown credentials."""
    return principal is not LOCAL and principal is not ANONYMOUS


class BodyBudget:
    """Bytes of bodies that one server keeps for unknown callers."""

    def __init__(self, limit: int = MAX_BYTES) -> None:
        self.used = 0
        self._limit = limit

    def reserve(self, request: Request, size: int) -> Answer | None:
        """Count a body of this size until `release`, or return the answer that refuses it."""
        if size <= FREE_BYTES or request.reserved or is_known(request.principal):
            return None
        if self.used + size > self._limit:
            words = "Too many large requests without credentials at once: try again later"
            return Refusal(503, words, ((b"retry-after", b"1"),)).answer(closes=True)
        request.reserved = size
        self.used += size
        return None

    def shrink(self, request: Request) -> None:
        """Count what the body has in the end: of one in chunks that was not known before."""
        self.used -= request.reserved - len(request.body)
        request.reserved = len(request.body)

    def release(self, request: Request) -> None:
        self.used -= request.reserved
        request.reserved = 0


_MAX_KEPT = 256
_MODERN_MARK = VERSION.partition("/")[0].encode()  # the slash may be escaped
_GUARDED = {403: "This origin may not talk to the server", 421: "This server does not go by that name"}
_AWAY = "This server can be called from its own machine only, since nobody has to say who they are"
_POST_ONLY = ((b"allow", b"POST"),)
_ALLOWED = ((b"allow", b"GET, POST, DELETE"),)


class Endpoint:
    """One server's HTTP face: `path` for MCP, and the old pair beside it."""

    def __init__(
        self,
        engine: Engine,
        guard: Guard,
        *,
        path: str = "/mcp",
        pair: bool = True,
        reception: Reception | None = None,
    ) -> None:
        self.reception = reception
        self.engine = engine
        self.guard = guard
        self.path = path
        self.is_draining = False
        self.bodies = BodyBudget()
        self._accepts: dict[bytes, tuple[bool, bool]] = {}
        self._shelf = Shelf()
        self._pair = Pair(engine) if pair and engine.keeps_sessions else None

    def admit(self, request: Request) -> Answer | Awaitable[Answer | None] | None:
        """Decide by the head of a request whether it is handled: None, or the answer that it gets instead."""
        headers = request.headers
        verdict = self.guard.check(headers.get(b"host"), headers.get(b"origin"), request.local)
        if verdict:
            words = _AWAY if self.guard.is_away(request.local) else _GUARDED[verdict]
            return Refusal(verdict, words).answer(closes=True)
        if self.reception is not None:
            return self.reception.admit(request)
        request.is_admitted = True
        return None

    def handle(self, request: Request) -> Answer | Talk:
        """The answer to a request that was admitted, or what becomes one."""
        if not request.is_admitted:
            raise PermissionError("a request has to be admitted before it is handled")
        headers = request.headers
        if request.path != self.path and request.path != self.path + "/":
            return self._handle_elsewhere(request)
        if request.method == "POST":
            return self._post(request)
        version = headers.get(b"mcp-protocol-version")
        if version is not None and version.decode("latin-1").strip() not in LEGACY:
            return Refusal(405, "Only POST is served", _POST_ONLY).answer()
        if request.method == "GET":
            return self._get(request)
        if request.method == "DELETE":
            return self._delete(request)
        return Refusal(405, f"{request.method[:20]} is not served", _ALLOWED).answer()

    def busy(self) -> Answer:
        words = "The server is stopping or busy: try again later"
        return Refusal(503, words, ((b"retry-after", b"1"),)).answer(closes=self.is_draining)

    def _handle_elsewhere(self, request: Request) -> Answer | Talk:
        pair = self._pair
        if pair is not None and request.path in pair.paths:
            if request.method == "GET" and request.path == pair.paths[0]:
                if self.is_draining:
                    return self.busy()
                opened = pair.open(secrets.token_urlsafe(24), request.root, request.principal)
                return self._attend(opened, request)
            if request.method == "POST" and request.path == pair.paths[1]:
                refusal = _check_type(request)
                key = parse_qs(request.query).get("session_id", [""])[0]
                return refusal or pair.post(key, request.body, request.principal)
            return Refusal(405, "This path takes another method").answer()
        return Refusal(404, f"There is nothing here; MCP is at {self.path}").answer()

    def _attend(self, outcome: Answer | Talk, request: Request) -> Answer | Talk:
        """A stream that lasts ends with the credentials of its request."""
        if self.reception is not None and isinstance(outcome, Lasting):
            self.reception.attend(outcome, request)
        return outcome

    # --- the endpoint ---

    def _post(self, request: Request) -> Answer | Talk:
        headers = request.headers
        json, stream = self._read_accept(headers.get(b"accept", b"*/*"))
        if not (json and stream):
            return Refusal(406, "Accept must list application/json and text/event-stream").answer()
        refusal = _check_type(request)
        if refusal is not None:
            return refusal
        if self.is_draining:
            return self.busy()
        held: list[bytes] = []
        link = Link(held.append, principal=request.principal, headers=headers, address=request.remote)
        if self.reception is not None:
            link.challenge = self.reception.challenge
        if b"mcp-session-id" in headers and not _is_modern(request.body):
            found = self._find_session(link)
            if found is not None:
                return found
        outcome = self.engine.receive(request.body, link)
        if isinstance(outcome, Reply):
            return answer_of(outcome)
        if self.engine.gate.is_overrun:
            outcome.refuse()
            return self.busy()
        link.close_stream = functools.partial(held.append, LET_GO)
        work = start(outcome, LastWord)
        if isinstance(work, LastWord):
            if not held and link.session is None:
                link.send, link.close_stream = nowhere, None
                return work
            work = outcome.task = work.as_task()
        if isinstance(work, Reply) and not held:
            return answer_of(work)
        if isinstance(outcome, Listen):
            return self._attend(Subscribing(outcome, work, link, held), request)
        return Conversation(outcome, work, link, held)

    def _find_session(self, link: Link) -> Answer | None:
        """Give the link its session, if the request names one. A session's id means nothing to 2026-07-28."""
        headers = link.headers or {}
        id_ = headers.get(b"mcp-session-id")
        if id_ is None:
            return None
        version = headers.get(b"mcp-protocol-version")
        if version is not None and version.decode("latin-1").strip() not in LEGACY:
            return None
        session = self.engine.sessions.find(id_.decode("latin-1"), link.principal)
        if session is None:
            return Refusal(404, "There is no such session: initialize again").answer()
        if session.streams is None:
            session.streams = Streams(self._shelf)
        link.session = session
        link.inflight = session.inflight
        return None

    def _get(self, request: Request) -> Answer | Talk:
        if not self._read_accept(request.headers.get(b"accept", b"*/*"))[1]:
            return Refusal(406, "Accept must list text/event-stream").answer()
        if self.is_draining:
            return self.busy()
        link = Link(principal=request.principal, headers=request.headers)
        refusal = self._find_session(link)
        if refusal is not None:
            return refusal
        session = link.session
        if session is None:
            words = "A stream belongs to a session: initialize first, and send its Mcp-Session-Id"
            return Refusal(405 if not self.engine.keeps_sessions else 400, words, _POST_ONLY).answer()
        streams = streams_of(session)
        last = request.headers.get(b"last-event-id")
        if last is None:
            if streams.own.writer is not None:
                return Refusal(409, "This session has its stream already").answer()
            return self._attend(Listening(session, streams.own, None), request)
        found = streams.find(last)
        if found is None:
            return Refusal(400, "There is no such event in this session").answer()
        return self._attend(Listening(session, *found), request)

    def _delete(self, request: Request) -> Answer:
        link = Link(principal=request.principal, headers=request.headers)
        refusal = self._find_session(link)
        if refusal is not None:
            return refusal
        if link.session is None:
            return Refusal(400, "Which session? Send its Mcp-Session-Id").answer()
        self.engine.sessions.end(link.session)
        return Answer(200)

    def _read_accept(self, value: bytes) -> tuple[bool, bool]:
        """Whether JSON and whether events are accepted."""
        found = self._accepts.get(value)
        if found is None:
            kinds = {part.partition(b";")[0].strip().lower() for part in value.split(b",")}
            json = bool(kinds & {b"application/json", b"application/*", b"*/*"})
            stream = bool(kinds & {b"text/event-stream", b"text/*", b"*/*"})
            found = (json, stream)
            if len(self._accepts) >= _MAX_KEPT:
                self._accepts.clear()
            if len(value) <= _MAX_KEPT:
                self._accepts[value] = found
        return found


def _is_modern(body: bytes) -> bool:
    """Whether a body says itself that it is of 2026-07-28, which knows no sessions."""
    if _MODERN_MARK not in body:
        return False
    try:
        return is_marked(codec.parse(body))  # rare: read twice, to know where the mark stands
    except ValueError:
        return True


def _check_type(request: Request) -> Answer | None:
    kind = request.headers.get(b"content-type", b"")
    if kind == b"application/json":
        return None
    media, _, rest = kind.partition(b";")
    charset = rest.strip().lower().replace(b'"', b"")
    if media.strip(b" \t").lower() != b"application/json" or kind == TWICE:
        return Refusal(415, "Content-Type must be application/json").answer()
    if charset.startswith(b"charset=") and charset not in (b"charset=utf-8", b"charset=utf8"):
        return Refusal(415, "JSON comes in UTF-8").answer()
    return None
