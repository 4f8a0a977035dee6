"""The ASGI lane: an application for uvicorn, or to be mounted in Starlette, FastAPI and the like.

Read, idle and write time-outs are its host's affair. Knows ASGI; refuses to know messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from toolcrib.transports.http.endpoint import FREE_BYTES, BodyBudget, Endpoint
from toolcrib.transports.http.messages import (
    LONG_HEAD,
    MAX_BODY,
    MAX_FIELDS,
    MAX_HEADERS,
    SSE_HEADERS,
    TOO_LARGE,
    Answer,
    Fields,
    Refusal,
    Request,
    Talk,
    repeated,
)
from toolcrib.transports.http.output import MAX_MEMORY, PIECE, Unread, UnreadStore

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class ASGIApp:
    """`open` is awaited before the first request, `close` at the end of the host's life."""

    def __init__(
        self,
        endpoint: Callable[[], Endpoint],
        open_: Callable[[], Awaitable[None]],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self._endpoint = endpoint
        self._open = open_
        self._close = close
        self._unread = UnreadStore()
        self._is_open = False
        self._lock = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            if not self._is_open:
                await self._start()
            await self._serve(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    async def _start(self) -> None:
        """Mounted applications hear nothing of their host's life: they start with their first request."""
        async with self._lock:
            if not self._is_open:
                await self._open()
                self._is_open = True

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    await self._start()
                except Exception as error:
                    await send({"type": "lifespan.startup.failed", "message": str(error)})
                    return
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                self._is_open = False
                await self._close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        writer = _Writer(send, self._unread)
        headers = _read_headers(scope)
        if headers is None:
            writer.answer(Refusal(431, LONG_HEAD).answer(closes=True))
            await writer.flush()
            writer.close()
            return
        local, client = scope.get("server"), scope.get("client")
        request = Request(
            scope["method"],
            _path_of(scope),
            headers,
            b"",
            scope.get("query_string", b"").decode("latin-1"),
            local[0] if local else None,
            scope.get("root_path", ""),
            client[0] if client else None,
        )
        endpoint = self._endpoint()
        try:
            refusal = endpoint.admit(request)
            if refusal is not None and not isinstance(refusal, Answer):
                refusal = await refusal
            if refusal is None:
                refusal = await _read_body(request, receive, endpoint.bodies)
            outcome = refusal or endpoint.handle(request)
            request.body = b""
            if isinstance(outcome, Answer):
                writer.answer(outcome)
                del outcome, refusal  # a large body is in a file now
                await writer.flush()
            else:
                await writer.run(outcome, receive)
        except _GoneError:
            pass
        finally:
            writer.close()
            endpoint.bodies.release(request)


class _GoneError(Exception):
    """The client has gone before its request was complete."""


class _Writer:
    """Takes what is answered and sends it in order, as fast as the host takes it."""

    def __init__(self, send: Send, store: UnreadStore) -> None:
        self._send = send
        self._start: MutableMapping[str, Any] | None = None
        self._unread = Unread(store, self._cut)
        self._bell = asyncio.Event()
        self._is_done = False
        self._is_cut = False

    async def run(self, talk: Talk, receive: Receive) -> None:
        gone = asyncio.ensure_future(_wait_gone(receive))
        gone.add_done_callback(lambda _: self._bell.set())
        try:
            talk.begin(self)
            while not gone.done() and not self._is_cut:
                self._bell.clear()
                await self.flush()
                if self._is_done:
                    return
                await self._bell.wait()
        finally:
            gone.cancel()
            if self._is_cut or not self._is_done:
                talk.lost()

    async def flush(self) -> None:
        """Send what is there, and the end if it has come."""
        start, self._start = self._start, None
        if start is not None:
            await self._send(start)
        is_last = False
        while self._unread.size:
            body = self._unread.take(PIECE)
            is_last = self._is_done and not self._unread.size
            await self._send({"type": "http.response.body", "body": body, "more_body": not is_last})
        if self._is_done and not is_last and not self._is_cut:
            await self._send({"type": "http.response.body", "body": b""})

    def answer(self, answer: Answer) -> None:
        if self._is_done:
            return
        headers = [(b"content-length", b"%d" % len(answer.body)), *answer.fields]
        if answer.body:
            headers.append((b"content-type", answer.kind))
            self._unread.append(answer.body)
        if answer.closes:
            headers.append((b"connection", b"close"))
        self._start = {"type": "http.response.start", "status": answer.status, "headers": headers}
        self.finish()

    def open(self, fields: Fields = ()) -> None:
        self._start = {"type": "http.response.start", "status": 200, "headers": [*SSE_HEADERS, *fields]}
        self._bell.set()

    def write(self, data: bytes) -> None:
        if self._is_done or self._is_cut:
            return
        if self._unread.size > MAX_MEMORY:
            self._unread.cut()  # the client does not read
            return
        self._unread.append(data)
        self._bell.set()

    def finish(self) -> None:
        self._is_done = True
        self._bell.set()

    def close(self) -> None:
        self._unread.close()

    def _cut(self) -> None:
        self._is_cut = True
        self._bell.set()


async def _wait_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _path_of(scope: Scope) -> str:
    """The path below where the application is mounted."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    if root and path.startswith(root):
        path = path[len(root) :]
    return path or "/"


def _read_headers(scope: Scope) -> dict[bytes, bytes] | None:
    """The headers, or None where there are too many."""
    headers: dict[bytes, bytes] = {}
    size = len(scope["path"])
    for name, value in scope["headers"]:
        key = name.lower()
        headers[key] = repeated(key, headers[key], value) if key in headers else value
        size += len(name) + len(value) + 4
    return None if size > MAX_HEADERS or len(scope["headers"]) > MAX_FIELDS else headers


async def _read_body(request: Request, receive: Receive, bodies: BodyBudget) -> Answer | None:
    """Read the body into the request, or return the answer that refuses it. Raises _GoneError."""
    declared = request.headers.get(b"content-length", b"0")
    if declared.isdigit():
        if len(declared) > 20 or int(declared) > MAX_BODY:
            return Refusal(413, TOO_LARGE).answer(closes=True)
        refusal = bodies.reserve(request, int(declared))
        if refusal is not None:
            return refusal
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _GoneError
        part = message.get("body", b"")
        size += len(part)
        if size > MAX_BODY:
            return Refusal(413, TOO_LARGE).answer(closes=True)
        if size > FREE_BYTES:
            refusal = bodies.reserve(request, MAX_BODY)
            if refusal is not None:
                return refusal
        parts.append(part)
        if not message.get("more_body"):
            request.body = b"".join(parts)
            return None
