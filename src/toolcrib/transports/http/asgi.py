"""The ASGI application, for uvicorn, or mounted in Starlette, FastAPI and the like.

    tools = server.asgi()
    app = FastAPI(lifespan=tools.lifespan)
    app.mount("/tools", tools)

The ASGI server has the time-outs for reading and writing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from toolcrib.protocol import Reply
from toolcrib.protocol.messages import Headers
from toolcrib.transports.eager import EagerStarter
from toolcrib.transports.http.endpoint import Endpoint
from toolcrib.transports.http.mounts import Message, Receive, Scope, Send
from toolcrib.transports.http.request import (
    FREE_BYTES,
    LONG_HEAD,
    MAX_BODY,
    MAX_FIELDS,
    MAX_HEADERS,
    TOO_LARGE,
    BodyBudget,
    Head,
    Request,
    collect_headers,
)
from toolcrib.transports.http.response import (
    JSON,
    PIECE,
    SSE_HEADERS,
    OutputBuffer,
    OutputStore,
    PendingResponse,
    Response,
    error_response,
)


class ASGIApp:
    """`open` is awaited before the first request, `close` when the server shuts down.

    A mounted application gets no lifespan events. Its host can run `lifespan`; else it opens with the first
    request, and closes when the event loop ends.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        open_: Callable[[], Awaitable[None]],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self._endpoint = endpoint
        self._open = open_
        self._close = close
        self._store = OutputStore()
        self._is_open = False
        self._lock = asyncio.Lock()
        self._loop_end: AsyncGenerator[None, None] | None = None

    @asynccontextmanager
    async def lifespan(self, _: object = None) -> AsyncIterator[None]:
        """Open the server and close it at the end: the lifespan of an application that it is mounted in."""
        await self._start()
        try:
            yield
        finally:
            await self._stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            if not self._is_open:
                await self._start()
                self._loop_end = self._stop_with_loop()
                await anext(self._loop_end)
            await self._serve(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._run_lifespan(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    async def _start(self) -> None:
        async with self._lock:
            if not self._is_open:
                await self._open()
                self._endpoint.starter = EagerStarter()
                self._store = OutputStore()  # its timer belongs to the running loop
                self._is_open = True

    async def _stop(self) -> None:
        self._is_open = False
        await self._close()
        self._endpoint.close()

    async def _stop_with_loop(self) -> AsyncGenerator[None, None]:
        """Stop when the event loop ends: asyncio closes the generators that are still suspended then."""
        try:
            yield
        finally:
            await self._stop()

    async def _run_lifespan(self, receive: Receive, send: Send) -> None:
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
                await self._stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoint
        head = self._read_head(scope)
        if head is None:
            await _send_reply(send, error_response(431, LONG_HEAD, closes=True))
            return
        server, client = scope.get("server"), scope.get("client")
        request = Request(
            head,
            b"",
            server[0] if server else None,
            client[0] if client else None,
            scope,
        )
        try:
            outcome: Any = endpoint.admit(request)
            if outcome is not None and not isinstance(outcome, Reply):
                outcome = await outcome
            if outcome is None:
                outcome = await _read_body(request, receive, endpoint.bodies) or endpoint.handle(request)
            request.body = b""
            if isinstance(outcome, Reply) and len(outcome.body or b"") <= PIECE:
                await _send_reply(send, outcome, head.cors)
                return
            writer = _Writer(send, self._store, head.cors)
            try:
                if isinstance(outcome, Reply):
                    writer.respond(outcome)
                    del outcome  # the writer has a copy of the body
                    await writer.flush()
                else:
                    await writer.run(outcome, receive)
            finally:
                writer.close()
        except _DisconnectedError:
            pass
        finally:
            if request.reserved:
                endpoint.bodies.release(request)

    def _read_head(self, scope: Scope) -> Head | None:
        """Return the head of a request, or None if it is too long. A head that was seen before is not read
        again."""
        fields = scope["headers"]
        try:
            key = (scope["method"], scope["path"], scope.get("root_path"), scope.get("query_string"), *fields)
            head = self._endpoint.heads.get(key)
        except TypeError:  # some servers give lists instead of tuples
            key, head = None, None
        if head is not None:
            return head
        size = len(scope["path"]) + sum([len(name) + len(value) + 4 for name, value in fields])
        if size > MAX_HEADERS or len(fields) > MAX_FIELDS:
            return None
        headers = collect_headers([(name.lower(), value) for name, value in fields])
        path: str = scope["path"]
        path = path.removeprefix(scope.get("root_path", "")) or "/"
        query = scope.get("query_string", b"").decode("latin-1")
        head = Head(scope["method"], path, headers, query, cors=self._endpoint.hosts.cors(headers))
        if key is not None:
            self._endpoint.heads.store(key, size, head)
        return head


class _DisconnectedError(Exception):
    """The client has disconnected before its request was complete."""


def _head_of(reply: Reply, body: bytes, cors: Headers) -> Message:
    headers = [(b"content-length", b"%d" % len(body)), *reply.headers, *cors]
    if body:
        headers.append((b"content-type", reply.content_type if isinstance(reply, Response) else JSON))
    if isinstance(reply, Response) and reply.closes:
        headers.append((b"connection", b"close"))
    return {"type": "http.response.start", "status": reply.status, "headers": headers}


async def _send_reply(send: Send, reply: Reply, cors: Headers = ()) -> None:
    body = reply.body or b""
    await send(_head_of(reply, body, cors))
    await send({"type": "http.response.body", "body": body, "more_body": False})


class _Writer:
    """Takes a response and sends it in order, as fast as the ASGI server takes it."""

    def __init__(self, send: Send, store: OutputStore, cors: Headers) -> None:
        self._send = send
        self._cors = cors
        self._start: Message | None = None
        self._store = store
        self._unread = OutputBuffer(store, self._cut)
        self._wake = asyncio.Event()
        self._taken = asyncio.Event()
        self._is_done = False
        self._is_cut = False

    async def run(self, response: PendingResponse, receive: Receive) -> None:
        disconnected = asyncio.ensure_future(_wait_for_disconnect(receive))
        disconnected.add_done_callback(lambda _: self._wake.set())
        try:
            response.begin(self)
            while not disconnected.done() and not self._is_cut:
                self._wake.clear()
                await self.flush()
                if self._is_done:
                    return
                await self._wake.wait()
        finally:
            disconnected.cancel()
            if self._is_cut or not self._is_done:
                response.lost()

    async def flush(self) -> None:
        """Send the unread output, and the end if it has come."""
        start, self._start = self._start, None
        if start is not None:
            await self._send(start)
        is_last = False
        while self._unread.size:
            body = self._unread.take(PIECE)
            is_last = self._is_done and not self._unread.size
            await self._send({"type": "http.response.body", "body": body, "more_body": not is_last})
        self._taken.set()
        if self._is_done and not is_last and not self._is_cut:
            await self._send({"type": "http.response.body", "body": b""})

    def respond(self, reply: Reply) -> None:
        if self._is_done:
            return
        body = reply.body or b""
        self._start = _head_of(reply, body, self._cors)
        if body:
            self._unread.append(body)
        self.finish()

    def open(
        self,
        status: int = 200,
        headers: Headers = SSE_HEADERS,
        length: int | None = None,
        *,
        is_events: bool = True,
        has_body: bool = True,  # noqa: ARG002 # the ASGI server knows
    ) -> None:
        sized = () if length is None else ((b"content-length", b"%d" % length),)
        fields = [*headers, *sized, *self._cors]
        self._start = {"type": "http.response.start", "status": status, "headers": fields}
        if is_events:
            self._store.add_stream(self)
        self._wake.set()

    def write(self, data: bytes) -> None:
        if self._is_done or self._is_cut:
            return
        self._unread.append(data)
        self._wake.set()

    async def drain(self) -> None:
        if self._unread.size:
            self._taken.clear()
            await self._taken.wait()

    def cut(self) -> None:
        self._unread.cut()

    def finish(self) -> None:
        self._is_done = True
        self._wake.set()

    def close(self) -> None:
        self._store.remove_stream(self)
        self._unread.close()

    def _cut(self) -> None:
        self._is_cut = True
        self._wake.set()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _read_body(request: Request, receive: Receive, bodies: BodyBudget) -> Response | None:
    """Read the body into the request, or return the response that refuses it. Raise _DisconnectedError."""
    declared = request.head.headers.get(b"content-length", b"0")
    if declared.isdigit():
        if len(declared) > 20 or int(declared) > MAX_BODY:
            return error_response(413, TOO_LARGE, closes=True)
        refused = bodies.reserve(request, int(declared))
        if refused is not None:
            return refused
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _DisconnectedError
        part = message.get("body", b"")
        size += len(part)
        if size > MAX_BODY:
            return error_response(413, TOO_LARGE, closes=True)
        if size > FREE_BYTES:
            refused = bodies.reserve(request, MAX_BODY)
            if refused is not None:
                return refused
        parts.append(part)
        if not message.get("more_body"):
            request.body = parts[0] if len(parts) == 1 else b"".join(parts)
            return None
