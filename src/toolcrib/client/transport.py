"""The transport contract of the client, and the transport to a server in the same process.

A transport sends whole messages and passes whole messages to its receiver. HTTP needs more than the bytes (a
request id to match responses, and headers); that travels in `Outgoing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from toolcrib.errors import ClientError, TransportError

MAX_BYTES = 32 * 1024 * 1024
"""The longest message accepted from a server."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One message to the server; `request_id` is None for notifications and replies."""

    data: bytes
    request_id: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Receiver(Protocol):
    """Takes what a transport receives from the server."""

    def message(self, data: bytes, via: int | None = None) -> None:
        """Take a message; `via` is the request whose own stream carried it. Never raises."""
        ...

    def is_pending(self, request_id: int) -> bool:
        """Return whether the request has no response yet."""
        ...

    def failed(self, request_id: int | None, error: ClientError) -> None:
        """Fail a request that will get no response; None fails all pending requests."""
        ...

    def closed(self, error: ClientError) -> None:
        """Note that the connection has ended."""
        ...


class Transport(Protocol):
    """A connection to one server. It can be started again after it was closed."""

    label: str
    """The server as shown in messages, without credentials."""
    has_request_streams: bool
    """Whether each request has its own stream that can be closed."""

    async def start(self, receiver: Receiver) -> None:
        """Connect. Raises TransportError."""
        ...

    async def send(self, message: Outgoing) -> None:
        """Send a message. Raises TransportError, except for requests: those fail in the receiver."""
        ...

    def cancel(self, request_id: int) -> None:
        """Stop waiting for the response to a request."""
        ...

    def reset(self) -> None:
        """Forget the current session."""
        ...

    def set_session_headers(self, headers: Mapping[str, str]) -> None:
        """Send these headers with every further message of the session."""
        ...

    async def listen(self) -> bool:
        """Open the stream for server-initiated messages of a legacy session; return whether there is one."""
        ...

    async def close(self) -> None:
        """Release everything within a few seconds. Never raises."""
        ...


class SessionEndedError(TransportError):
    """The server no longer knows the session. The request was not served and can be repeated."""


class DuplexTransport:
    """Defaults for transports with a single channel in each direction."""

    has_request_streams = False

    def cancel(self, request_id: int) -> None:
        pass

    def reset(self) -> None:
        pass

    def set_session_headers(self, headers: Mapping[str, str]) -> None:
        pass

    async def listen(self) -> bool:
        return True


class Pipe(Protocol):
    """The server's end of an in-memory connection."""

    def feed(self, data: bytes) -> None: ...

    async def aclose(self) -> None: ...


class MemoryTransport(DuplexTransport):
    """Connect to a server in this process: `open(send)` returns its end, which replies with `send`."""

    def __init__(self, open: Callable[[Callable[[bytes], None]], Pipe], label: str = "the server") -> None:  # noqa: A002 - the natural name
        self.label = label
        self._open = open
        self._pipe: Pipe | None = None

    async def start(self, receiver: Receiver) -> None:
        self._pipe = self._open(receiver.message)

    async def send(self, message: Outgoing) -> None:
        if self._pipe is None:
            raise TransportError(f"{self.label}: connection closed")
        self._pipe.feed(message.data)

    async def close(self) -> None:
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            await pipe.aclose()
