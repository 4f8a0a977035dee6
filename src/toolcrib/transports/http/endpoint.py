"""The HTTP endpoint of a server: how a request is answered, by our own HTTP server and over ASGI.

Checks the host, authenticates, checks method and media types, finds the session, and passes the message to
the protocol engine. Has no sockets.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import parse_qs
from weakref import WeakSet

from toolcrib.errors import ConfigurationError
from toolcrib.protocol import Engine, PendingRequest, Reply
from toolcrib.protocol.calls import MAX_RUNNING, ToolCall
from toolcrib.protocol.messages import RETRY_AFTER, VERSION, RPCError
from toolcrib.protocol.modern import REPEATED, is_marked, is_modern_header
from toolcrib.protocol.subscriptions import Subscription
from toolcrib.transports.eager import EagerStarter
from toolcrib.transports.http.hosts import HostCheck
from toolcrib.transports.http.request import BodyBudget, Head, HeadCache, Request
from toolcrib.transports.http.response import HEALTH, READY, PendingResponse, Response, error_response, page
from toolcrib.transports.http.sse import LegacySSE, ReplayBudget, SessionStreamResponse, SessionStreams
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.transports.http.auth import AuthMiddleware
    from toolcrib.transports.http.mounts import Mount, MountedResponse

_MODERN_MARK = VERSION.partition("/")[0].encode()  # the slash may be escaped
_NOT_ALLOWED = {403: "Origin not allowed", 421: "Host not allowed"}
_LOCAL_ONLY = "Only local clients may call this server, as it does not authenticate its callers"
_BOTH = (b"application/json", b"text/event-stream")
_POST_ONLY = ((b"allow", b"POST"),)
_ALLOWED = ((b"allow", b"GET, POST, DELETE"),)


class Endpoint:
    """One server over HTTP: `path` for MCP, the paths of the older HTTP+SSE transport, and `/health` and
    `/ready` for load balancers and orchestrators."""

    def __init__(
        self,
        engine: Engine,
        hosts: HostCheck,
        *,
        path: str = "/mcp",
        auth: AuthMiddleware | None = None,
        mounts: Sequence[Mount] = (),
        is_healthy: Callable[[], bool] = lambda: True,
    ) -> None:
        if any(mount.path == path for mount in mounts):
            raise ConfigurationError(f"{path} is the path of MCP", key="mount", hint="use another path")
        self.auth = auth
        self.mounts = mounts
        self._is_healthy = is_healthy
        self._mounted: WeakSet[MountedResponse] = WeakSet()
        self.engine = engine
        self.hosts = hosts
        self.path = path
        self.is_draining = False
        self.bodies = BodyBudget()
        self.heads = HeadCache()
        self.starter: EagerStarter | None = None
        self._replay_budget = ReplayBudget()
        is_alone = not engine.settings.state.is_concurrent  # a stream and its messages stay in one process
        self._legacy_sse = LegacySSE(engine) if engine.settings.keeps_sessions and is_alone else None

    def drain(self, *, serves_rest: bool = False) -> None:
        """End the streams, and accept nothing new unless `serves_rest`."""
        self.is_draining = not serves_rest
        self.engine.drain(serves_rest=serves_rest)
        for response in list(self._mounted):
            if response.is_open:
                response.end()

    def close(self) -> None:
        if self.starter is not None:
            self.starter.close()
            self.starter = None

    def admit(self, request: Request) -> Response | Awaitable[Response | None] | None:
        """Decide by its head whether a request is handled: None, or the response that it gets instead."""
        head = request.head
        if head.allowed_at != request.local:
            if head.path in (HEALTH, READY) and head.path != self.path:
                return self._report_health(head)
            status = self.hosts.check(head.headers.get(b"host"), head.headers.get(b"origin"), request.local)
            if status:
                message = _LOCAL_ONLY if self.hosts.is_remote(request.local) else _NOT_ALLOWED[status]
                return error_response(status, message, closes=True)
            if head.method == "OPTIONS" and (preflight := self.hosts.allow_preflight(head.headers)):
                return Response(200, headers=preflight)  # before authentication: it has no credentials
            head.allowed_at = request.local
        outcome: Response | Awaitable[Response | None] | None = None
        if self.auth is not None:
            outcome = self.auth.admit(request)
        else:
            request.is_admitted = True
        if self.engine.sessions.shared is not None and not isinstance(outcome, Response):
            id_ = head.headers.get(b"mcp-session-id", b"").decode("latin-1")
            if id_ and id_ not in self.engine.sessions and not is_modern_header(head.headers):
                return self._load_session(outcome, request, id_)
        return outcome

    async def _load_session(
        self, admission: Awaitable[Response | None] | None, request: Request, id_: str
    ) -> Response | None:
        """Have a session that another process knows in the table before the request is handled."""
        refused = None if admission is None else await admission
        shared = self.engine.sessions.shared
        if refused is None and shared is not None:
            try:
                await shared.load(id_, request.principal, request.address)
            except RPCError as error:
                return error_response(error.status, error.message, RETRY_AFTER)
        return refused

    def _report_health(self, head: Head) -> Response:
        """Answer a probe. It needs no credentials, and any host name will do: probes use an IP address."""
        if head.path == HEALTH:
            return page(head.method, b'{"status":"ok"}')
        is_ready = self._is_healthy() and (self.auth is None or self.auth.is_ready)
        if self.is_draining or not is_ready:
            return page(head.method, b'{"status":"not ready"}', status=503)
        report = self.engine.settings.state.report()
        return page(head.method, codec.write({"status": "ready", **report}))

    def handle(self, request: Request) -> Reply | PendingResponse:
        """Return the response to a request that was admitted."""
        engine, pending = self.engine, self._handle_early(request)
        if pending is None:
            pending = engine.receive(request.body, request)
            request.body = b""  # it was read; the response may take its time
            if engine.running >= MAX_RUNNING and isinstance(pending, PendingRequest):
                pending.refuse()
                return self.busy()
        if not isinstance(pending, PendingRequest):
            return pending
        starter = self.starter
        if starter is None:
            starter = self.starter = EagerStarter()
        outcome = starter.start(pending)
        if isinstance(outcome, Reply) and outcome.committed is None and request.held is None:
            return outcome
        if request.reserved and isinstance(pending, ToolCall):  # it may take its time
            kept = [pending.arguments, pending.capabilities, pending.name, pending.token, pending.trace]
            self.bodies.shrink(request, len(codec.write(kept)))
        request.pending, request.outcome = pending, outcome
        return self._watch(request, request) if isinstance(pending, Subscription) else request

    def _handle_early(self, request: Request) -> Reply | PendingResponse | PendingRequest | None:
        """Handle a request that has no message for the engine, or is refused."""
        if not request.is_admitted:
            raise PermissionError("a request has to be admitted before it is handled")
        if not request.head.is_post:
            response = self._handle_others(request)
            if response is not None:
                return response
            request.head.is_post = True
        if self.is_draining:
            return self.busy()
        if self.auth is not None:
            request.issue_challenge = self.auth.challenge
        if b"mcp-session-id" in request.head.headers and not _is_modern(request.body):
            return self._find_session(request)
        return None

    def busy(self) -> Response:
        message = "The server is stopping or busy: try again later"
        return error_response(503, message, RETRY_AFTER, closes=self.is_draining)

    def _handle_others(self, request: Request) -> Reply | PendingResponse | PendingRequest | None:
        """Return the response to a request that is not a POST of a message; None if it is one."""
        head = request.head
        if head.path != self.path and head.path != self.path + "/":
            return self._handle_other_path(request)
        if head.method != "POST":
            return self._get_or_delete(request)
        return _check_accept(request, *_BOTH) or _check_type(request)

    def _handle_other_path(self, request: Request) -> Reply | PendingResponse:
        sse, head = self._legacy_sse, request.head
        if sse is not None and head.path in sse.paths:
            if head.method == "GET" and head.path == sse.paths[0]:
                if self.is_draining:
                    return self.busy()
                opened = sse.open(secrets.token_urlsafe(24), request.root, request.principal)
                return self._watch(opened, request)
            if head.method == "POST" and head.path == sse.paths[1]:
                key = parse_qs(head.query).get("session_id", [""])[0]
                return _check_type(request) or sse.post(key, request.body, request.principal)
            return error_response(405, "Method not allowed on this path")
        for mount in self.mounts:
            if mount.has(head.path):
                if self.is_draining:
                    return self.busy()
                from toolcrib.transports.http.mounts import MountedResponse  # few servers have mounts

                response = MountedResponse(mount, request, self.engine.dispatcher.timeout_s)
                self._mounted.add(response)
                return self._watch(response, request)
        return error_response(404, f"Not found; MCP is at {request.root}{self.path}")

    def _watch(self, outcome: Reply | PendingResponse, request: Request) -> Reply | PendingResponse:
        """Release the body of a request that opens a stream. End the stream when its credentials expire."""
        request.body = b""
        self.bodies.release(request)
        if self.auth is not None and not isinstance(outcome, Reply):
            self.auth.watch(outcome, request)
        return outcome

    def _find_session(self, request: Request) -> Response | None:
        """Attach the session that a legacy request names."""
        headers = request.head.headers
        id_ = headers.get(b"mcp-session-id")
        if id_ is None or is_modern_header(headers):
            return None  # sessions mean nothing to 2026-07-28
        sessions = self.engine.sessions
        session = sessions.find(id_.decode("latin-1"), request.principal)
        if session is None:
            return error_response(404, "Unknown session: initialize again")
        if session.streams is None:
            prefix = "" if sessions.shared is None else f"{sessions.process}."
            has_calls = not self.engine.settings.state.is_concurrent
            session.streams = SessionStreams(self._replay_budget, prefix=prefix, has_calls=has_calls)
        request.session = session
        request.inflight = session.inflight
        return None

    def _get_or_delete(self, request: Request) -> Reply | PendingResponse | PendingRequest:
        head = request.head
        if is_modern_header(head.headers):
            return error_response(405, "Only POST is allowed", _POST_ONLY)
        if head.method == "GET":
            return self._get(request)
        if head.method == "DELETE":
            return self._delete(request)
        return error_response(405, f"Method not allowed: {head.method[:20]}", _ALLOWED)

    def _get(self, request: Request) -> Reply | PendingResponse:
        refused = _check_accept(request, b"text/event-stream")
        if refused is not None:
            return refused
        if self.is_draining:
            return self.busy()
        refused = self._find_session(request)
        if refused is not None:
            return refused
        session = request.session
        if session is None:
            message = "A stream belongs to a session: initialize first, and send its Mcp-Session-Id"
            status = 400 if self.engine.settings.keeps_sessions else 405
            return error_response(status, message, _POST_ONLY)
        streams: SessionStreams = session.streams
        last = request.head.headers.get(b"last-event-id")
        found = None if last is None else streams.find(last)
        shared = self.engine.sessions.shared
        is_of_another = shared is not None and last is not None and last.rpartition(b"-")[0].endswith(b".0")
        if last is None or (found is None and is_of_another):  # the events of another process are not here
            if streams.own.writer is not None:
                return error_response(409, "This session has a stream already")
            ready = None if shared is None else shared.hold(session)
            return self._watch(SessionStreamResponse(session, streams.own, None, ready), request)
        if found is None:
            return error_response(400, "Unknown event id in this session")
        asked, now = found[0].principal, request.principal
        if not (
            asked.scopes <= now.scopes and asked.roles <= now.roles
        ):  # it may have results that need them
            message = "This stream requires the scopes and roles of its request"
            scopes = sorted(asked.scopes)
            return error_response(403, message, self.auth.challenge(scopes) if self.auth is not None else ())
        return self._watch(SessionStreamResponse(session, *found), request)

    def _delete(self, request: Request) -> Reply | PendingResponse | PendingRequest:
        refused = self._find_session(request)
        if refused is not None:
            return refused
        if request.session is None:
            return error_response(400, "Missing Mcp-Session-Id header")
        if (shared := self.engine.sessions.shared) is not None:
            return shared.end(request.session, request)
        self.engine.sessions.end(request.session)
        return Response(200)


def _is_modern(body: bytes) -> bool:
    """Return whether a body names 2026-07-28 itself, which has no sessions."""
    if _MODERN_MARK not in body:
        return False
    try:
        return is_marked(codec.parse(body))  # rare: parsed twice, to see where the mark stands
    except ValueError:
        return True


def _check_accept(request: Request, *needed: bytes) -> Response | None:
    accepted = request.head.headers.get(b"accept", b"*/*")
    kinds = {part.partition(b";")[0].strip().lower() for part in accepted.split(b",")}
    for kind in needed:
        if kinds.isdisjoint((kind, kind.partition(b"/")[0] + b"/*", b"*/*")):
            names = " and ".join(item.decode() for item in needed)
            return error_response(406, f"Accept must list {names}")
    return None


def _check_type(request: Request) -> Response | None:
    kind = request.head.headers.get(b"content-type", b"")
    if kind == b"application/json":
        return None
    media, _, rest = kind.partition(b";")
    charset = rest.strip().lower().replace(b'"', b"")
    if media.strip(b" \t").lower() != b"application/json" or kind == REPEATED:
        return error_response(415, "Content-Type must be application/json")
    if charset.startswith(b"charset=") and charset not in (b"charset=utf-8", b"charset=utf8"):
        return error_response(415, "JSON must be encoded in UTF-8")
    return None
