"""HTTP routes of users, beside MCP on the same port.

    @server.route("/webhooks/{shop}", methods=["POST"])
    async def webhook(request: HTTPRequest) -> dict[str, bool]:
        event = await request.json()
        return {"ok": True}

A route is behind the checks of the server: Host and Origin, credentials, limits of the head and the body,
time-outs. Rules, quotas and the audit log are about tools, and do not apply.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, unquote

from toolcrib.context import Principal
from toolcrib.dispatch.crash_log import Raised
from toolcrib.dispatch.runners import Runner, ToolSlots
from toolcrib.errors import ConfigurationError, ToolBusyError
from toolcrib.protocol.messages import RETRY_AFTER
from toolcrib.transports.http.request import Request
from toolcrib.transports.http.response import HEALTH, JSON, READY, Response, ResponseWriter, error_response

logger = logging.getLogger("toolcrib")

METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
_PARAMETER = re.compile(r"\{([A-Za-z_]\w*)\}")
_UNSAFE = re.compile(r"\.{1,2}|.*[/\\\0].*", re.DOTALL)
"""A value of a path parameter that leads out of a folder which it names a file in."""
_TEXT = b"text/plain; charset=utf-8"

Handler = Callable[["HTTPRequest"], Any]


class HTTPRequest:
    """A request to a route. The names are those of Starlette."""

    def __init__(self, request: Request, path_params: Mapping[str, str]) -> None:
        head = request.head
        self.method = head.method
        self.path = head.path
        self.path_params = dict(path_params)
        self.query_params = dict(parse_qsl(head.query, keep_blank_values=True))
        self.headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers.items()
        }
        """Headers by their names in lower case."""
        self.principal: Principal = request.principal
        self.client_address = request.address
        self._body = request.body

    async def body(self) -> bytes:
        return self._body

    async def json(self) -> Any:
        """Return the body as JSON. Raise ValueError if it is not."""
        return json.loads(self._body)


@dataclass(frozen=True, slots=True)
class HTTPResponse:
    """A response of a route. `content` is bytes or text, or else is written as JSON."""

    content: Any = b""
    status_code: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """A path, its methods, and the function that handles their requests."""

    path: str
    methods: tuple[str, ...]
    handler: Handler
    pattern: re.Pattern[str]
    slots: ToolSlots

    @classmethod
    def of(cls, path: str, methods: Iterable[str], handler: Handler) -> Route:
        if not path.startswith("/") or any(mark in path for mark in "?# "):
            hint = "a path begins with a slash: /webhook, /orders/{id}"
            raise ConfigurationError(f"must be a path, got {path!r}", key="route", hint=hint)
        if path in (HEALTH, READY):
            raise ConfigurationError(
                f"{path} is a page of the server itself", key="route", hint="use another path"
            )
        chosen = tuple(method.upper() for method in methods)
        for method in chosen:
            if method not in METHODS:
                raise ConfigurationError(
                    f"unknown method {method!r}", key="route", hint=f"use {', '.join(METHODS)}"
                )
        pieces = _PARAMETER.split(path)  # text and names in turn
        names = pieces[1::2]
        if len(set(names)) < len(names):
            raise ConfigurationError(f"{path} names a parameter twice", key="route")
        if "{" in "".join(pieces[::2]) or "}" in "".join(pieces[::2]):
            hint = "write {name}, with letters, digits and underscores"
            raise ConfigurationError(f"{path} has a parameter without a valid name", key="route", hint=hint)
        parts = [f"(?P<{piece}>[^/]+)" if at % 2 else re.escape(piece) for at, piece in enumerate(pieces)]
        slots = ToolSlots(path, label=f"Route {path}")  # its own: a route that blocks stops no other
        return cls(path, chosen, handler, re.compile("".join(parts)), slots)


def find_route(
    routes: Iterable[Route], request: Request, runner: Runner, timeout_s: float | None
) -> RouteResponse | Response | None:
    """Return the response of the first route that has the path and the method; None if none has the path."""
    allowed: list[str] = []
    head = request.head
    for route in routes:
        match = route.pattern.fullmatch(head.path)
        if match is None:
            continue
        if head.method in route.methods or (head.method == "HEAD" and "GET" in route.methods):
            params = {name: unquote(value) for name, value in match.groupdict().items()}
            if any(_UNSAFE.fullmatch(value) for value in params.values()):
                return error_response(400, "A path parameter must be one segment of a path")
            return RouteResponse(route, HTTPRequest(request, params), runner, timeout_s)
        allowed += route.methods
    if not allowed:
        return None
    names = ", ".join(dict.fromkeys(allowed))
    return error_response(405, f"Method not allowed: use {names}", ((b"allow", names.encode()),))


class RouteResponse:
    """The response of a route: its function runs when the connection is ready to write."""

    def __init__(self, route: Route, request: HTTPRequest, runner: Runner, timeout_s: float | None) -> None:
        self._route = route
        self._request = request
        self._runner = runner
        self._timeout_s = timeout_s
        self._task: asyncio.Task[None] | None = None

    def begin(self, writer: ResponseWriter) -> None:
        self._task = asyncio.ensure_future(self._run(writer))

    def lost(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def end(self) -> None:
        self.lost()

    async def _run(self, writer: ResponseWriter) -> None:
        route = self._route
        response = error_response(500, "Internal error")
        try:
            async with asyncio.timeout(self._timeout_s):
                response = _check(_to_response(await self._call()))
        except asyncio.CancelledError:
            pass  # the client has disconnected, or the handler has cancelled itself
        except ToolBusyError as error:
            response = error_response(503, str(error), RETRY_AFTER)
        except TimeoutError:
            logger.warning("Route %s took longer than %g s", route.path, self._timeout_s or 0)
            response = error_response(504, "The server took too long")
        except (Exception, SystemExit, KeyboardInterrupt):  # it must end its request, not the server
            logger.exception("Route %s failed", route.path)
        writer.respond(response)

    async def _call(self) -> Any:
        handler, request = self._route.handler, self._request
        if inspect.iscoroutinefunction(handler):
            return await handler(request)
        try:
            outcome = await self._runner.run_thread(self._route.slots, partial(handler, request), None)
        except Raised as raised:
            raise raised.error from None
        return await outcome if isinstance(outcome, Awaitable) else outcome


def _to_response(value: Any) -> Response:
    """Return the result of a route as a response; responses of Starlette will do, unless they are streams."""
    if isinstance(raw := getattr(value, "raw_headers", None), list):
        own = [(name, text) for name, text in raw if name not in (b"content-length", b"content-type")]
        kind = dict(raw).get(b"content-type", b"application/octet-stream")
        return Response(value.status_code, bytes(value.body), kind, tuple(own))
    if not isinstance(value, HTTPResponse):
        value = HTTPResponse(b"" if value is None else value, 204 if value is None else 200)
    content, kind = value.content, JSON
    if isinstance(content, bytes | bytearray | memoryview):
        body, kind = bytes(content), b"application/octet-stream"
    elif isinstance(content, str):
        body, kind = content.encode(), _TEXT
    else:
        body = json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
    headers = tuple(
        (name.lower().encode("latin-1"), text.encode("latin-1")) for name, text in value.headers.items()
    )
    return Response(value.status_code, body, value.media_type.encode() if value.media_type else kind, headers)


def _check(response: Response) -> Response:
    """Raise ValueError for a response that cannot be written, or would be read as two."""
    if not 200 <= response.status <= 599:
        raise ValueError(f"a status must be from 200 to 599, got {response.status}")
    for part in (response.content_type, *(part for pair in response.headers for part in pair)):
        if any(mark in part for mark in (b"\r", b"\n", b"\0")):
            raise ValueError("a header contains a line break")
    return response
