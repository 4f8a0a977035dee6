"""A server and a client in one process: messages are passed as bytes, without a pipe in between.

Knows the engine; refuses to know the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from toolcrib.context import LOCAL, Principal
from toolcrib.protocol import Engine
from toolcrib.transports.pipe import Pipe


class MemoryPipe:
    """The server's end. What it sends arrives at the next turn of the loop, as over a wire."""

    def __init__(
        self, engine: Engine, receive: Callable[[bytes], None], principal: Principal = LOCAL
    ) -> None:
        loop = asyncio.get_running_loop()

        def send(message: bytes) -> None:
            loop.call_soon(receive, message)

        self._pipe = Pipe(engine, send, principal)

    def feed(self, message: bytes) -> None:
        self._pipe.feed(message)

    async def aclose(self) -> None:
        await self._pipe.aclose()
