"""A link to a server in the same process: bytes handed over, nothing in between.

Knows the two ends of a pipe. Refuses to know what a server is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from toolcrib.client.link import Duplex, Inbox, Outgoing
from toolcrib.errors import LinkError


class Pipe(Protocol):
    """The server's end: takes one message at a time, and sends by calling what it was opened with."""

    def feed(self, data: bytes) -> None: ...

    async def aclose(self) -> None: ...


class MemoryLink(Duplex):
    """`MemoryLink(open)`: `open(send)` gives the server's end, which sends by calling `send(bytes)`."""

    def __init__(self, open: Callable[[Callable[[bytes], None]], Pipe], place: str = "the server") -> None:  # noqa: A002 - says what it does
        self.place = place
        self._open = open
        self._pipe: Pipe | None = None

    async def start(self, inbox: Inbox) -> None:
        self._pipe = self._open(inbox.message)

    async def send(self, message: Outgoing) -> None:
        if self._pipe is None:
            raise LinkError(f"{self.place}: the connection is closed")
        self._pipe.feed(message.data)

    async def close(self) -> None:
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            await pipe.aclose()
