"""Streams that last, and end soon after their reader could not open them any more.

Every request shows who sent it, and a stream is one request that goes on for hours: a key that is revoked, or
a token that ends, must end it. Looked at while there are such streams, and never else. Knows streams and
whether to go on with them; refuses to know keys and tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from toolcrib.transports.http.wire import Lasting

LOOK_S = 1.0
"""How often it is looked whether a stream may go on."""

Shown = TypeVar("Shown")


class Attendance(Generic[Shown]):
    """Those who listen, and what each of them has shown. `is_good` says whether that would do now."""

    def __init__(self, is_good: Callable[[Shown], bool], *, every_s: float | None = None) -> None:
        self._is_good = is_good
        self._every_s = LOOK_S if every_s is None else every_s
        # Whoever serves a stream holds it; one that has ended is forgotten without anybody saying so.
        self._streams: WeakKeyDictionary[Lasting, Shown] = WeakKeyDictionary()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._streams)

    def add(self, stream: Lasting, shown: Shown) -> None:
        self._streams[stream] = shown
        if self._timer is None:
            self._arm()

    def look(self) -> None:
        """End those that may not go on."""
        for stream, shown in list(self._streams.items()):
            if not self._is_good(shown):
                del self._streams[stream]
                stream.end()

    def close(self) -> None:
        self._streams.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._every_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        try:
            self.look()
        finally:
            if self._streams:
                self._arm()
