"""The way in for callers who have to say who they are, and the pages that stand outside of it.

Asks the policy's doorkeeper about every request before anything else is looked at, on every path: the old
pair, sessions and figures included. Knows requests and answers; refuses to know keys and tokens.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from toolcrib.context import Principal
from toolcrib.errors import ConfigurationError
from toolcrib.policy.auth import ANONYMOUS, Doorkeeper, Pass, Refused
from toolcrib.protocol.headers import TWICE
from toolcrib.transports.http.messages import Answer, Fields, Lasting, Refusal, Request
from toolcrib.transports.http.sse import Attendance

if TYPE_CHECKING:
    from toolcrib.policy.enforcer import PolicyEnforcer

_READ_ONLY = ((b"allow", b"GET, HEAD"),)
_KNOWN = (Principal, Refused)


class Reception:
    """One server's way in. `open` has to be awaited before anybody comes."""

    def __init__(
        self, enforcer: PolicyEnforcer, name: str, *, host: str, port: int, path: str, workers: int = 1
    ) -> None:
        self._enforcer = enforcer
        self._name = name
        self._host = host
        self._port = port
        self._path = path
        self._workers = workers
        self._keeper: Doorkeeper | None = None
        self._attendance: Attendance[Pass] | None = None
        self._telemetry = enforcer.telemetry
        telemetry = enforcer.policy.telemetry
        shows = self._telemetry is not None and telemetry is not None and telemetry.prometheus
        self._figures = telemetry.metrics_path if telemetry is not None and shows else None
        if self._figures in (path, f"{path}/"):
            words = f"is where the server itself is: nobody could call at {path}"
            hint = 'choose another, such as "/metrics"'
            raise enforcer.policy.error_at("telemetry.metrics_path", words, hint)
        self._is_open = telemetry is not None and telemetry.metrics_open
        self._scope = "" if telemetry is None else telemetry.metrics_scope

    async def open(self, port: int) -> None:
        """`port` is the one that is really listened on."""
        auth = self._enforcer.policy.auth
        if auth is None or self._keeper is not None:
            return
        host = f"[{self._host}]" if ":" in self._host else self._host
        resource = f"http://{host}:{port}{self._path}"
        try:
            keeper = Doorkeeper(
                auth,
                resource=resource,
                path=self._path,
                name=self._name,
                twice=TWICE,
                workers=self._workers,
            )
            await keeper.open()
        except ConfigurationError as error:
            raise self._enforcer.policy.error_from("auth.keys", error) from None
        self._keeper = keeper
        self._attendance = Attendance(keeper.is_good)

    async def close(self) -> None:
        if self._attendance is not None:
            self._attendance.close()
            self._attendance = None
        if self._keeper is not None:
            await self._keeper.close()
            self._keeper = None

    def challenge(self, scopes: Sequence[str]) -> Fields:
        """Headers for a caller who has to come back with these scopes."""
        return () if self._keeper is None else self._keeper.challenge(scopes)

    def admit(self, request: Request) -> Answer | Awaitable[Answer | None] | None:
        """Find out who sends a request. None: it may be handled; else what is answered instead."""
        keeper = self._keeper
        if keeper is None:
            if self._enforcer.policy.auth is not None:  # not open yet, or closed already: nobody can be known
                return self._refuse(Refused(503, "The server is starting or stopping", (), 1.0))
            request.is_admitted = True
            return self._show_figures(request) if request.path == self._figures else None
        if request.path != self._path:
            document = keeper.document(request.path)
            if document is not None:
                return _page(request, b"application/json", document)
            if request.path == self._figures and self._is_open:
                return self._show_figures(request)
        who = keeper.identify(request.headers, request.remote)
        if isinstance(who, _KNOWN):
            return self._let_in(who, keeper, request)
        return self._wait(who, keeper, request)

    async def _wait(
        self, who: Awaitable[Principal | Refused], keeper: Doorkeeper, request: Request
    ) -> Answer | None:
        return self._let_in(await who, keeper, request)

    def _let_in(self, who: Principal | Refused, keeper: Doorkeeper, request: Request) -> Answer | None:
        if isinstance(who, Refused):
            return self._refuse(who)
        is_looking = request.path == self._figures
        if is_looking and (refused := self._guard_figures(who, keeper)) is not None:
            return self._refuse(refused)
        wait_s = keeper.meter(who)
        if wait_s is not None:
            return self._refuse(Refused(429, "Too many requests: try again later", (), wait_s))
        request.principal, request.is_admitted = who, True
        return self._show_figures(request) if is_looking else None

    def attend(self, stream: Lasting, request: Request) -> None:
        """End this stream when the credentials of its request are good no longer."""
        shown = None if self._keeper is None else self._keeper.follow(request.headers)
        if shown is not None and self._attendance is not None:
            self._attendance.add(stream, shown)

    def _refuse(self, refused: Refused) -> Answer:
        if self._telemetry is not None:
            self._telemetry.count_refusal(str(refused.status))
        fields = refused.fields
        if refused.retry_after_s is not None:
            fields = (*fields, (b"retry-after", b"%d" % max(1, math.ceil(refused.retry_after_s))))
        return Refusal(refused.status, refused.words, fields).answer()

    def _guard_figures(self, who: Principal, keeper: Doorkeeper) -> Refused | None:
        """Figures name tools that not everybody may know of, so they are for those who were given a scope."""
        if who is ANONYMOUS:
            return keeper.ask()
        if self._scope in who.scopes:
            return None
        words = f"The figures are for callers with the scope {self._scope}"
        return Refused(403, words, keeper.challenge([self._scope]))

    def _show_figures(self, request: Request) -> Answer:
        assert self._telemetry is not None  # nosec B101  # without one there is no such path
        return _page(request, *self._telemetry.exposition())


def _page(request: Request, kind: bytes, body: bytes) -> Answer:
    if request.method not in ("GET", "HEAD"):
        return Refusal(405, "This page is only read", _READ_ONLY).answer()
    return Answer(200, body, kind, ((b"cache-control", b"no-store"),))
