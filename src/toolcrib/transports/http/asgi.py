"""The ASGI lane: an application for uvicorn, or to be mounted in Starlette, FastAPI and the like.

Read, idle and write time-outs are its host's affair. Knows ASGI; refuses to know messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from toolcrib.transports.http.endpoint import Endpoint
from toolcrib.transports.http.wire import (
    LONG_HEAD,
    MAX_BODY,
    MAX_FIELDS,
    MAX_HEADERS,
    SSE_HEADERS,
    Answer,
    Fields,
    Refusal,
    Request,
    Talk,
    repeated,
)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
MAX_UNREAD = 1024 * 1024


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
        headers = _read_headers(scope)
        if headers is None:
            await _send_answer(Refusal(431, LONG_HEAD).answer(closes=True), send)
            return
        try:
            body = await _read_body(headers, receive)
        except _TooLargeError:
            too_large = Refusal(413, f"A body of more than {MAX_BODY} bytes").answer(closes=True)
            await _send_answer(too_large, send)
            return
        if body is None:
            return  # the client has gone
        local, client = scope.get("server"), scope.get("client")
        request = Request(
            scope["method"],
            _path_of(scope),
            headers,
            body,
            scope.get("query_string", b"").decode("latin-1"),
            local[0] if local else None,
            scope.get("root_path", ""),
            client[0] if client else None,
        )
        outcome = self._endpoint().handle(request)
        if isinstance(outcome, Answer):
            await _send_answer(outcome, send)
        else:
            await _Writer(send).run(outcome, receive)


class _TooLargeError(Exception):
    pass


class _Writer:
    """Takes what a talk writes and sends it in order, as fast as the host takes it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._messages: list[MutableMapping[str, Any]] = []
        self._unread = 0
        self._bell = asyncio.Event()
        self._is_done = False
        self._is_cut = False

    async def run(self, talk: Talk, receive: Receive) -> None:
        gone = asyncio.ensure_future(_wait_gone(receive))
        gone.add_done_callback(lambda _: self._bell.set())
        try:
            talk.begin(self)
            while not gone.done():
                messages, self._messages, self._unread = self._messages, [], 0
                for message in messages:
                    await self._send(message)
                if self._is_done and not self._messages:
                    return
                if not self._messages:
                    self._bell.clear()
                    await self._bell.wait()
        finally:
            gone.cancel()
            if self._is_cut or not self._is_done:
                talk.lost()

    def answer(self, answer: Answer) -> None:
        if not self._is_done:
            self._put(*_messages_of(answer))
            self._is_done = True

    def open(self, fields: Fields = ()) -> None:
        headers = [*SSE_HEADERS, *fields]
        self._put({"type": "http.response.start", "status": 200, "headers": headers})

    def write(self, data: bytes) -> None:
        if self._is_done:
            return
        if self._unread > MAX_UNREAD:
            self.finish()  # the client does not read
            self._is_cut = True
            return
        self._unread += len(data)
        self._put({"type": "http.response.body", "body": data, "more_body": True})

    def finish(self) -> None:
        if not self._is_done:
            self._put({"type": "http.response.body", "body": b""})
            self._is_done = True

    def _put(self, *messages: MutableMapping[str, Any]) -> None:
        self._messages += messages
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


async def _read_body(headers: dict[bytes, bytes], receive: Receive) -> bytes | None:
    declared = headers.get(b"content-length", b"0")
    if declared.isdigit() and int(declared[:20]) > MAX_BODY:
        raise _TooLargeError
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size > MAX_BODY:
            raise _TooLargeError
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)


def _messages_of(answer: Answer) -> list[MutableMapping[str, Any]]:
    headers = [(b"content-length", b"%d" % len(answer.body)), *answer.fields]
    if answer.body:
        headers.append((b"content-type", answer.kind))
    if answer.closes:
        headers.append((b"connection", b"close"))
    return [
        {"type": "http.response.start", "status": answer.status, "headers": headers},
        {"type": "http.response.body", "body": answer.body},
    ]


async def _send_answer(answer: Answer, send: Send) -> None:
    for message in _messages_of(answer):
        await send(message)
