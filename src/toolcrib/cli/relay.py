"""The client of `toolcrib serve --stdio --reload`: it keeps its pipe while the process behind it is replaced.

What a client has set up (the handshake, log level, subscriptions, streams of changes) is repeated to a new
process. A request is answered by the process that it was sent to.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from toolcrib.protocol.messages import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    SUBSCRIPTION,
    Id,
    RPCError,
    error_reply,
)
from toolcrib.validation import codec

_LOST = "The server was restarted while this request was running: try again"
_REPEATED = ("initialize", "notifications/initialized", "logging/setLevel")


class Backend(Protocol):
    """A process that serves."""

    number: int

    def send_message(self, line: bytes) -> None: ...

    def close_stdin(self) -> None: ...


class Relay:
    """Passes the messages of one client to the process that serves now, and those of all processes back.

    `end` stops all processes and waits for them.
    """

    def __init__(self, send: Callable[[bytes], None], end: Callable[[], Awaitable[None]]) -> None:
        self._send = send
        self._end = end
        self._backend: Backend | None = None
        self._backends: dict[int, Backend] = {}
        self._waiting: list[bytes] = []
        self._asked: dict[Id, Backend] = {}
        """The process that each request was sent to."""
        self._setup: dict[str, bytes] = {}
        self._subscribed: dict[str, bytes] = {}
        self._listening: dict[Id, bytes] = {}
        self._repeated: set[Id] = set()
        """Streams of changes that were acknowledged already."""

    # --- from the client ---

    def feed(self, line: bytes) -> None:
        backend: Backend | None = self._backend
        if backend is None:
            self._waiting.append(line)
            return
        message = _decode(line, codec.parse)
        method, id_, params = (message.get(key) for key in ("method", "id", "params"))
        params = params if isinstance(params, dict) else {}
        if method == "notifications/cancelled":
            id_ = params.get("requestId")
            if isinstance(id_, str | int):
                self._listening.pop(id_, None)
                backend = self._asked.pop(id_, backend)  # it may send no reply
        elif isinstance(id_, str | int) and isinstance(method, str):
            self._asked[id_] = backend
            self._note(method, id_, params, line)
        elif isinstance(id_, str) and method is None:  # the answer to a question
            number, _, own = id_.partition(":")
            if number.isdecimal() and int(number) in self._backends:
                backend, line = self._backends[int(number)], codec.encode({**message, "id": json.loads(own)})
        elif method in _REPEATED:
            self._setup[method] = line
        backend.send_message(line)
        self._end_if_unused(backend)

    def _note(self, method: str, id_: Id, params: dict[str, Any], line: bytes) -> None:
        """Keep what a new process must be told, too."""
        if method in _REPEATED:
            self._setup[method] = line
        elif method == "subscriptions/listen":
            self._listening[id_] = line
        elif method == "resources/subscribe":
            self._subscribed[str(params.get("uri"))] = line
        elif method == "resources/unsubscribe":
            self._subscribed.pop(str(params.get("uri")), None)

    def refuse(self, message: str) -> None:
        """Answer input that is not a message."""
        self._send(error_reply(None, RPCError(INVALID_REQUEST, message)).body or b"")

    async def drain(self, timeout_s: float) -> None:  # noqa: ARG002 - the processes have their own limit
        """Let running calls end, as the client sends nothing more."""
        await self._end()

    async def aclose(self) -> None:
        await self._end()

    # --- from the processes ---

    def receive(self, backend: Backend, line: bytes) -> None:
        message = _decode(line, json.loads)
        id_ = message.get("id")
        if "method" in message:
            if id_ is not None:  # a question
                line = codec.encode({**message, "id": f"{backend.number}:{json.dumps(id_)}"})
            elif message["method"] == "notifications/subscriptions/acknowledged":
                stream = message["params"]["_meta"][SUBSCRIPTION]
                if stream in self._repeated:
                    return
                self._repeated.add(stream)
        elif id_ is not None:
            if self._asked.get(id_) is not backend:
                return  # it was repeated, and answered before
            del self._asked[id_]
            self._listening.pop(id_, None)
            self._repeated.discard(id_)
        self._send(line)
        self._end_if_unused(backend)

    def switch(self, backend: Backend) -> None:
        """Use another process from now on, which knows nothing yet of this client."""
        old, self._backend = self._backend, backend
        self._backends[backend.number] = backend
        self._asked.update(dict.fromkeys(self._listening, backend))
        setup = [self._setup[method] for method in _REPEATED if method in self._setup]
        for line in (*setup, *self._subscribed.values(), *self._listening.values()):
            backend.send_message(line)
        waiting, self._waiting = self._waiting, []
        for line in waiting:
            self.feed(line)
        if old is not None:
            self._end_if_unused(old)

    def _end_if_unused(self, backend: Backend) -> None:
        if backend is not self._backend and backend not in self._asked.values():
            backend.close_stdin()

    def lose(self, backend: Backend) -> None:
        """Answer the requests of a process that has ended; streams of changes go on with the next one."""
        self._backends.pop(backend.number, None)
        if backend is self._backend:
            self._backend = None
        lost = [id_ for id_, asked in self._asked.items() if asked is backend and id_ not in self._listening]
        for id_ in lost:
            del self._asked[id_]
            self._send(error_reply(id_, RPCError(INTERNAL_ERROR, _LOST)).body or b"")


def _decode(line: bytes, parse: Callable[[bytes], Any]) -> dict[str, Any]:
    try:
        message = parse(line)
    except ValueError:
        return {}  # the process says what is wrong with it
    return message if isinstance(message, dict) else {}
