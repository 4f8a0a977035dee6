"""The old pair of 2024-11-05: a stream to read from, and a place to post to.

Knows which stream belongs to which poster; refuses to know messages.
"""

from __future__ import annotations

import asyncio
from typing import Any

from toolcrib.context import LOCAL, Principal
from toolcrib.protocol import Engine
from toolcrib.protocol.sessions import MAX_PER_PRINCIPAL
from toolcrib.transports.http.messages import Answer, Lasting, Refusal, Writer, event
from toolcrib.transports.http.responses import Pulse
from toolcrib.transports.pipe import Pipe

MAX_PAIRS = 1_000


class Pair:
    """The readers that are there now, by an id nobody can guess."""

    paths = ("/sse", "/messages")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._readers: dict[str, _Reader] = {}
        self._closing: set[asyncio.Task[Any]] = set()

    def open(self, key: str, root: str = "", principal: Principal = LOCAL) -> Answer | _Reader:
        """A reader; it is told to post below `root`, which nobody else may do."""
        if principal is not LOCAL:  # who has said who they are does not get the places of others
            own = sum(item.principal.binding == principal.binding for item in self._readers.values())
            if own >= MAX_PER_PRINCIPAL:
                return Refusal(429, "Too many sessions: end one first", ((b"retry-after", b"1"),)).answer()
        if len(self._readers) >= MAX_PAIRS:
            return Refusal(503, "Too many sessions: try again later", ((b"retry-after", b"1"),)).answer()
        reader = self._readers[key] = _Reader(self, key, root + self.paths[1], principal)
        return reader

    def post(self, key: str, body: bytes, principal: Principal = LOCAL) -> Answer:
        reader = self._readers.get(key)
        if reader is None or reader.pipe is None or reader.principal.binding != principal.binding:
            return Refusal(404, "There is no such session").answer()
        reader.pipe.feed(body, principal)  # a token may hold less by now than the one that opened the stream
        return Answer(202)

    def forget(self, reader: _Reader) -> None:
        self._readers.pop(reader.key, None)
        if reader.pipe is not None:
            task = asyncio.get_running_loop().create_task(reader.pipe.aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def start(self, send: Any, principal: Principal) -> Pipe:
        return Pipe(self._engine, send, principal)


class _Reader(Lasting):
    def __init__(self, pair: Pair, key: str, path: str, principal: Principal) -> None:
        self.key = key
        self.principal = principal
        self._path = path
        self.pipe: Pipe | None = None
        self._pair = pair
        self._pulse: Pulse | None = None
        self._writer: Writer | None = None

    def begin(self, writer: Writer) -> None:
        self._writer = writer
        writer.open()
        writer.write(f"event: endpoint\ndata: {self._path}?session_id={self.key}\n\n".encode())
        self.pipe = self._pair.start(lambda message: writer.write(event(message)), self.principal)
        self._pulse = Pulse(writer)

    def lost(self) -> None:
        if self._pulse is not None:
            self._pulse.stop()
        self._writer = None
        self._pair.forget(self)

    def end(self) -> None:
        writer = self._writer
        self.lost()
        if writer is not None:
            writer.finish()
