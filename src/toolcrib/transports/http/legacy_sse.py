"""The HTTP+SSE transport of 2024-11-05: a stream to read from, and a path to post to."""

from __future__ import annotations

import asyncio
from typing import Any

from toolcrib.context import LOCAL, Principal
from toolcrib.protocol import Engine
from toolcrib.protocol.messages import RETRY_AFTER
from toolcrib.protocol.sessions import MAX_PER_PRINCIPAL
from toolcrib.transports.http.pending import KeepAlive
from toolcrib.transports.http.response import OpenStream, Response, ResponseWriter, error_response, event
from toolcrib.transports.pipe import Pipe

MAX_STREAMS = 1_000


class LegacySSE:
    """The open streams, by an unguessable id."""

    paths = ("/sse", "/messages")

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._streams: dict[str, LegacyStream] = {}
        self._closing: set[asyncio.Task[Any]] = set()

    def open(self, key: str, root: str = "", principal: Principal = LOCAL) -> Response | LegacyStream:
        """Return a stream whose client posts below `root`, or the response that refuses it."""
        if principal is not LOCAL:  # callers with credentials cannot take the places of others
            own = sum(item.principal.binding == principal.binding for item in self._streams.values())
            if own >= MAX_PER_PRINCIPAL:
                return error_response(429, "Too many sessions: end one first", RETRY_AFTER)
        if len(self._streams) >= MAX_STREAMS:
            return error_response(503, "Too many sessions: try again later", RETRY_AFTER)
        stream = self._streams[key] = LegacyStream(self, key, root + self.paths[1], principal)
        return stream

    def post(self, key: str, body: bytes, principal: Principal = LOCAL) -> Response:
        stream = self._streams.get(key)
        if stream is None or stream.pipe is None or stream.principal.binding != principal.binding:
            return error_response(404, "Unknown session")
        stream.pipe.feed(body, principal)  # a token may have fewer scopes than the one that opened the stream
        return Response(202)

    def forget(self, stream: LegacyStream) -> None:
        self._streams.pop(stream.key, None)
        if stream.pipe is not None:
            task = asyncio.get_running_loop().create_task(stream.pipe.aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


class LegacyStream(OpenStream):
    """One client, and the stream that carries everything to it."""

    def __init__(self, transport: LegacySSE, key: str, path: str, principal: Principal) -> None:
        self.key = key
        self.principal = principal
        self.pipe: Pipe | None = None
        self._path = path
        self._transport = transport
        self._keep_alive: KeepAlive | None = None
        self._writer: ResponseWriter | None = None

    def begin(self, writer: ResponseWriter) -> None:
        self._writer = writer
        writer.open()
        writer.write(f"event: endpoint\ndata: {self._path}?session_id={self.key}\n\n".encode())
        self.pipe = Pipe(self._transport.engine, lambda message: writer.write(event(message)), self.principal)
        self._keep_alive = KeepAlive(writer)

    def lost(self) -> None:
        if self._keep_alive is not None:
            self._keep_alive.stop()
        self._writer = None
        self._transport.forget(self)

    def end(self) -> None:
        writer = self._writer
        self.lost()
        if writer is not None:
            writer.finish()
