"""Authentication of HTTP requests, and the pages that are served before it: OAuth metadata and metrics.

Every request passes here first, on every path: MCP, sessions, the older HTTP+SSE transport and metrics. A
stream is one request that lasts for hours, so it is ended when its key is revoked or its token expires.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from toolcrib.context import Principal
from toolcrib.errors import ConfigurationError
from toolcrib.policy.auth import ANONYMOUS, Authenticator, Rejection
from toolcrib.protocol.messages import Headers
from toolcrib.protocol.modern import REPEATED
from toolcrib.state.base import StateUnavailable
from toolcrib.transports.http.request import Request
from toolcrib.transports.http.response import PendingResponse, Response, error_response, page

if TYPE_CHECKING:
    from toolcrib.policy.enforcer import PolicyEnforcer

logger = logging.getLogger("toolcrib")

_KNOWN = (Principal, Rejection)
CHECK_S = 1.0
"""Time between two checks of the credentials of open streams."""


class AuthMiddleware:
    """Authentication for one server. `open` has to be awaited before the first request."""

    def __init__(
        self, enforcer: PolicyEnforcer, name: str, *, host: str, path: str, workers: int = 1
    ) -> None:
        self._enforcer = enforcer
        self._name = name
        self._host = host
        self._path = path
        self._workers = workers
        self._authenticator: Authenticator | None = None
        # The connection holds its stream; one that has ended disappears from here by itself.
        self._streams: WeakKeyDictionary[PendingResponse, Any] = WeakKeyDictionary()
        self._checking: asyncio.Task[None] | None = None
        self._telemetry = enforcer.telemetry
        telemetry = enforcer.policy.telemetry
        shows = self._telemetry is not None and telemetry is not None and telemetry.prometheus
        self._metrics_path = telemetry.metrics_path if telemetry is not None and shows else None
        if self._metrics_path in (path, f"{path}/"):
            message = f"must differ from the path of the server, {path}"
            hint = 'choose another, such as "/metrics"'
            raise enforcer.policy.error_at("telemetry.metrics_path", message, hint)
        self._is_open = telemetry is not None and telemetry.metrics_open
        self._scope = "" if telemetry is None else telemetry.metrics_scope

    async def open(self, port: int) -> None:
        """Prepare to authenticate. `port` is the one that the server listens on."""
        auth = self._enforcer.policy.auth
        if auth is None or self._authenticator is not None:
            return
        host = f"[{self._host}]" if ":" in self._host else self._host
        resource = f"http://{host}:{port}{self._path}"
        try:
            authenticator = Authenticator(
                auth,
                resource=resource,
                path=self._path,
                name=self._name,
                repeated=REPEATED,
                workers=self._workers,
                keys=self._enforcer.storage.engine.keys if auth.keys_in_state else None,
                on_keys=partial(self._enforcer.storage.note, "keys"),
            )
            await authenticator.open()
        except ConfigurationError as error:
            raise self._enforcer.policy.error_from("auth.keys", error) from None
        except StateUnavailable as error:
            raise self._enforcer.policy.error_at("auth.keys", f"keys cannot be read: {error}") from None
        self._authenticator = authenticator
        self._checking = asyncio.create_task(self._check_streams(authenticator))

    @property
    def is_ready(self) -> bool:
        return self._authenticator is not None or self._enforcer.policy.auth is None

    async def close(self) -> None:
        if self._checking is not None:
            self._checking.cancel()
            self._checking = None
        self._streams.clear()
        if self._authenticator is not None:
            await self._authenticator.close()
            self._authenticator = None

    def challenge(self, scopes: Sequence[str]) -> Headers:
        """Return headers that ask the client to come back with these scopes."""
        return () if self._authenticator is None else self._authenticator.challenge(scopes)

    def admit(self, request: Request) -> Response | Awaitable[Response | None] | None:
        """Authenticate a request. Return None, or the response that it gets instead of being handled."""
        authenticator = self._authenticator
        if authenticator is None:
            if self._enforcer.policy.auth is not None:  # not open yet, or closed already
                return self._refuse(Rejection(503, "The server is starting or stopping", (), 1.0))
            request.is_admitted = True
            return self._show_metrics(request) if request.head.path == self._metrics_path else None
        if request.head.path != self._path:
            document = authenticator.metadata(request.head.path)
            if document is not None:
                return page(request.head.method, document)
            if request.head.path == self._metrics_path and self._is_open:
                return self._show_metrics(request)
        who = authenticator.authenticate(request.head.headers, request.address)
        if isinstance(who, _KNOWN):
            return self._accept(who, authenticator, request)
        return self._wait(who, authenticator, request)

    async def _wait(
        self, who: Awaitable[Principal | Rejection], authenticator: Authenticator, request: Request
    ) -> Response | None:
        return self._accept(await who, authenticator, request)

    def _accept(
        self, who: Principal | Rejection, authenticator: Authenticator, request: Request
    ) -> Response | None:
        if isinstance(who, Rejection):
            return self._refuse(who)
        is_metrics = request.head.path == self._metrics_path
        if is_metrics and (rejection := self._check_metrics_access(who, authenticator)) is not None:
            return self._refuse(rejection)
        wait_s = authenticator.count_request(who)
        if wait_s is not None:
            return self._refuse(Rejection(429, "Too many requests: try again later", (), wait_s))
        request.principal, request.is_admitted = who, True
        return self._show_metrics(request) if is_metrics else None

    def watch(self, stream: PendingResponse, request: Request) -> None:
        """End this stream when the credentials of its request are no longer valid."""
        authenticator = self._authenticator
        if authenticator and (credentials := authenticator.credential_of(request.head.headers)):
            self._streams[stream] = credentials

    async def _check_streams(self, authenticator: Authenticator) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            try:
                for stream, credentials in list(self._streams.items()):
                    if not authenticator.is_valid(credentials):
                        del self._streams[stream]
                        stream.end()
            except Exception:
                logger.exception("the credentials of open streams cannot be checked")

    def _refuse(self, rejection: Rejection) -> Response:
        if self._telemetry is not None:
            self._telemetry.count_refusal(str(rejection.status))
        headers = rejection.headers
        if rejection.retry_after_s is not None:
            headers = (*headers, (b"retry-after", b"%d" % max(1, math.ceil(rejection.retry_after_s))))
        return error_response(rejection.status, rejection.message, headers)

    def _check_metrics_access(self, who: Principal, authenticator: Authenticator) -> Rejection | None:
        """Refuse callers without the scope for metrics, which name tools that not everybody may see."""
        if who is ANONYMOUS:
            return authenticator.require_credentials()
        if self._scope in who.scopes:
            return None
        message = f"Metrics require the scope {self._scope}"
        return Rejection(403, message, authenticator.challenge([self._scope]))

    def _show_metrics(self, request: Request) -> Response:
        assert self._telemetry is not None  # there is no such path without it  # noqa: S101
        content_type, text = self._telemetry.exposition()
        return page(request.head.method, text, content_type)
