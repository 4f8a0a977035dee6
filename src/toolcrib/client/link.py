"""What carries messages between the client and one server, whatever it is made of.

A link takes whole messages and hands whole messages to its inbox. Knows nothing of what they say; what HTTP
needs beside the bytes, a number to tell answers apart by and headers, travels with each message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from toolcrib.errors import ClientError, LinkError

MAX_BYTES = 32 * 1024 * 1024
"""The longest message that is read."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One message to the server. `number` is a request's id; notifications and replies have none."""

    data: bytes
    number: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


class Inbox(Protocol):
    """Where a link puts what comes from the server, and what becomes of it."""

    def message(self, data: bytes, via: int | None = None) -> None:
        """A message came; `via` is the request whose own stream brought it. Raises nothing."""
        ...

    def is_waiting(self, number: int) -> bool:
        """Whether that request still has no answer."""
        ...

    def failed(self, number: int | None, error: ClientError) -> None:
        """That request will get no answer; None: none of those that wait now will."""
        ...

    def closed(self, error: ClientError) -> None:
        """Nothing will come any more."""
        ...


class Link(Protocol):
    """A way to one server. May be started again after it was closed."""

    place: str
    """Where the server is, for texts: without credentials."""
    has_streams: bool
    """Whether each request has a stream of its own, which can be closed."""

    async def start(self, inbox: Inbox) -> None:
        """Connect, as far as there is something to connect. Raises LinkError."""
        ...

    async def send(self, message: Outgoing) -> None:
        """Raises LinkError where a notification or a reply cannot be sent; a request fails in the inbox."""
        ...

    def abandon(self, number: int) -> None:
        """Nobody waits for that request's answer any more."""
        ...

    def reset(self) -> None:
        """Forget the session there was."""
        ...

    def settle(self, headers: Mapping[str, str]) -> None:
        """The session stands: from now on every message carries these headers."""
        ...

    async def listen(self) -> bool:
        """Hear what the server says unasked, in a legacy session; whether it can say anything."""
        ...

    async def close(self) -> None:
        """Let go of everything; never raises, and takes seconds at most."""
        ...


class SessionEndedError(LinkError):
    """The server has forgotten the session. The request was not served: it can be made again."""


class Duplex:
    """The parts of a link that are the same where one pipe carries everything both ways."""

    has_streams = False

    def abandon(self, number: int) -> None:
        pass

    def reset(self) -> None:
        pass

    def settle(self, headers: Mapping[str, str]) -> None:
        pass

    async def listen(self) -> bool:
        return True
