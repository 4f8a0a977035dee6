"""The deadline of one call, which stands still while a person is asked.

Knows a loop's time and what to do when it is up; refuses to know what runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Clock:
    """Counts the time that a call has run. `hold` stops it and lets it go on; holds add up."""

    __slots__ = ("_expire", "_holds", "_left_s", "_loop", "_since", "_timer")

    def __init__(self, limit_s: float) -> None:
        self._left_s = limit_s
        self._holds = 0
        self._since = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._expire: Callable[[], object] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop, expire: Callable[[], object]) -> None:
        self._loop, self._expire = loop, expire
        if not self._holds:
            self._go_on()

    def stop(self) -> None:
        self._stand_still()
        self._loop = self._expire = None

    def hold(self, holds: bool) -> None:
        before, self._holds = self._holds, self._holds + (1 if holds else -1)
        if self._loop is None:
            return
        if before == 0:
            self._stand_still()
        elif self._holds == 0:
            self._go_on()

    def _go_on(self) -> None:
        if self._loop is not None and self._expire is not None:
            self._since = self._loop.time()
            self._timer = self._loop.call_later(self._left_s, self._expire)

    def _stand_still(self) -> None:
        if self._timer is not None and self._loop is not None:
            self._timer.cancel()
            self._timer = None
            self._left_s = max(0.0, self._left_s - (self._loop.time() - self._since))
