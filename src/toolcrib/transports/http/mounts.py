"""ASGI applications beside MCP, on the same port.

    server.mount("/console", app)             # any ASGI application

    @server.route("/hook", methods=["POST"])  # a route of Starlette, with the extra `routes`
    async def hook(request): ...

An application is behind the checks of the server: Host and Origin, credentials, limits of the head and the
body. Its response has to begin within the deadline of tools, and then may go on: files and streams are
written as fast as the client reads. Rules, quotas and the audit log are about tools, and do not apply.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from toolcrib.errors import ConfigurationError
from toolcrib.protocol.messages import Headers
from toolcrib.protocol.modern import REPEATED
from toolcrib.transports.http.request import Request
from toolcrib.transports.http.response import HEALTH, READY, Response, ResponseWriter, error_response

logger = logging.getLogger("toolcrib")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_FIELD_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD_VALUE = re.compile(rb"[^\r\n\0]*")
_OURS = frozenset({b"connection", b"content-length", b"date", b"keep-alive", b"transfer-encoding"})
_BODILESS = (204, 304)


@dataclass(frozen=True, slots=True)
class Mount:
    """An application and the path that it is mounted at, without a slash at the end."""

    path: str
    app: Application

    @classmethod
    def at(cls, path: str, app: Application | None) -> Mount:
        check_path(path)
        if not callable(app):
            raise ConfigurationError("must be an ASGI application", key="mount")
        return cls(path.rstrip("/"), app)

    def has(self, path: str) -> bool:
        return path == self.path or path.startswith(f"{self.path}/")


def check_path(path: str) -> None:
    """Raise ConfigurationError for a path that cannot be served."""
    if not path.startswith("/") or any(mark in path for mark in "?# "):
        hint = "a path begins with a slash: /webhook, /orders/{id}"
        raise ConfigurationError(f"must be a path, got {path!r:.80}", key="route", hint=hint)
    if path in (HEALTH, READY):
        text = f"{path} is a page of the server itself"
        raise ConfigurationError(text, key="route", hint="use another path")


def make_route(path: str, function: Any, methods: Iterable[str]) -> Any:
    """Return a route of Starlette. Raise ConfigurationError for one that is invalid, or without Starlette."""
    try:
        from starlette.routing import Route  # an extra
    except ImportError:
        hint = "pip install 'toolcrib[routes]', or mount an ASGI application: server.mount(path, app)"
        raise ConfigurationError("needs Starlette", key="route", hint=hint) from None
    check_path(path)
    try:
        return Route(path, function, methods=list(methods))
    except ValueError as error:
        raise ConfigurationError(str(error), key="route") from None


def collect_mounts(mounts: Sequence[Mount], routes: Sequence[Any]) -> list[Mount]:
    """Return all applications, those with the longest path first. The routes are one application."""
    if routes:
        from starlette.applications import Starlette

        app = Starlette(routes=routes)
        for mount in mounts:
            if not mount.path:
                app.router.default = mount.app
        mounts = [*(mount for mount in mounts if mount.path), Mount("", app)]
    return sorted(mounts, key=lambda mount: -len(mount.path))


class MountedResponse:
    """The response of an application: it runs from when the connection is ready to write until its end, or
    until the client has disconnected."""

    def __init__(self, mount: Mount, request: Request, timeout_s: float | None) -> None:
        self._mount = mount
        self._scope = _make_scope(mount, request)
        self._body: bytes | None = request.body
        self._timeout_s = timeout_s
        self._deadline = asyncio.timeout(timeout_s)
        self._sends_body = request.head.method != "HEAD"
        self._task: asyncio.Task[None] | None = None
        self._writer: ResponseWriter | None = None
        self._start: tuple[int, Headers, int | None] | None = None  # status, headers, length
        self._left: int | None = None  # of a declared length
        self._over = asyncio.Event()
        self.is_open = False
        """Whether its head was sent."""

    def begin(self, writer: ResponseWriter) -> None:
        self._writer = writer
        self._task = asyncio.ensure_future(self._run(writer))
        _RUNNING.add(self._task)
        self._task.add_done_callback(_RUNNING.discard)

    def lost(self) -> None:
        self._writer = None
        self._over.set()
        if self._task is not None:
            self._task.cancel()

    def end(self) -> None:
        """End a stream that goes on, because the server stops or the credentials are no longer valid."""
        if self._writer is not None:
            self._writer.cut()

    async def _run(self, writer: ResponseWriter) -> None:
        status, message = 500, "Internal error"
        try:
            async with self._deadline:
                await self._mount.app(self._scope, self._receive, self._send)
            if not self._over.is_set():
                logger.error("The application at %s ended without a response", self._mount.path or "/")
        except asyncio.CancelledError:
            pass  # the client has disconnected, or the application has cancelled itself
        except GeneratorExit:
            raise
        except BaseException as error:  # SystemExit too: it ends its request, not the server
            if isinstance(error, TimeoutError) and self._deadline.expired():
                logger.warning("The application at %s took too long", self._mount.path or "/")
                status, message = 504, "The server took too long"
            elif isinstance(code := getattr(error, "status_code", None), int) and 400 <= code <= 499:
                status, message = code, str(getattr(error, "detail", ""))  # an HTTPException of Starlette
            else:
                logger.exception("The application at %s failed", self._mount.path or "/")
        if self._over.is_set():
            return
        self._over.set()
        if self.is_open:
            writer.cut()  # the client must not take a part for the whole
        else:
            writer.respond(error_response(status, message))

    async def _receive(self) -> Message:
        body, self._body = self._body, None
        if body is None:
            await self._over.wait()
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": body, "more_body": False}

    async def _send(self, message: Message) -> None:
        kind = message["type"]
        if self._over.is_set() or self._writer is None:
            raise OSError("the client has disconnected, or the response is complete")
        if kind == "http.response.start" and self._start is None:
            self._start = _read_start(message)
        elif kind == "http.response.body" and self._start is not None:
            await self._send_body(
                bytes(message.get("body", b"")), bool(message.get("more_body")), self._start
            )
        else:
            raise RuntimeError(f"unexpected ASGI message {kind!r}")

    async def _send_body(self, body: bytes, has_more: bool, start: tuple[int, Headers, int | None]) -> None:
        status, headers, length = start
        writer = self._writer
        if writer is None:
            return
        has_body = self._sends_body and status not in _BODILESS
        if not self.is_open:
            self._left = len(body) if length is None and not has_more else length
        if has_body and self._left is not None:
            self._left -= len(body)
            if self._left < 0 or (self._left and not has_more):
                raise RuntimeError("the body does not have the declared length")
        if not self.is_open:
            self.is_open = True
            self._deadline.reschedule(None)
            if has_body and not has_more:
                self._writer = None
                self._over.set()
                kind = dict(headers).get(b"content-type", b"application/octet-stream")
                others = tuple(pair for pair in headers if pair[0] != b"content-type")
                writer.respond(Response(status, body, kind, others))
                return
            length = None if status in _BODILESS else length
            writer.open(status, headers, length, is_events=False, has_body=has_body)
        if has_body and body:
            writer.write(body)
            await writer.drain()
        if not has_more and not self._over.is_set():
            self._writer = None
            self._over.set()
            writer.finish()


_RUNNING: set[asyncio.Task[None]] = set()
"""What an application does after its response is referred to by nothing else."""


def _make_scope(mount: Mount, request: Request) -> Scope:
    """Return the scope of a request, made of the scope of the ASGI server if there is one."""
    head, given = request.head, request.scope
    path = head.path if given is not None else unquote(head.path)
    own: Scope = {
        "type": "http",
        "http_version": "1.1" if head.is_http11 else "1.0",
        "method": head.method,
        "scheme": "http",
        "raw_path": head.path.encode("latin-1"),
        "query_string": head.query.encode("latin-1"),
        "headers": [(name, value) for name, value in head.headers.items() if value != REPEATED],
        "client": (request.address, 0) if request.address else None,
        "server": (request.local, None) if request.local else None,
    }
    state: Mapping[str, Any] = (given or {}).get("state", {})
    return {
        **(own if given is None else given),
        "asgi": {"version": "3.0", "spec_version": "2.4"},  # sending to a client that is gone raises OSError
        "path": request.root + path,
        "root_path": request.root + mount.path,
        "state": {**state, "principal": request.principal},
        "extensions": {},
    }


def _read_start(message: Message) -> tuple[int, Headers, int | None]:
    """Return the status, the headers and the declared length. Raise ValueError for a head that cannot be
    written, or would be read as two."""
    status = message["status"]
    if not isinstance(status, int) or not 200 <= status <= 599:
        raise ValueError(f"a status must be from 200 to 599, got {status!r}")
    headers = [(bytes(name).lower(), bytes(value)) for name, value in message.get("headers", ())]
    for name, value in headers:
        if not _FIELD_NAME.fullmatch(name) or not _FIELD_VALUE.fullmatch(value):
            raise ValueError(f"invalid header {name!r:.80}")
    length = dict(headers).get(b"content-length")
    kept = tuple(pair for pair in headers if pair[0] not in _OURS)
    return status, kept, None if length is None else int(length)
