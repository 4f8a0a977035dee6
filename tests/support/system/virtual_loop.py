"""An event loop with virtual time: what waits until a time does not wait."""

from __future__ import annotations

import asyncio
import selectors
from typing import Any

NOON_S = 20_000.5 * 86_400


class Clocks:
    """Two clocks that stand still until they are told."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.wall_s = NOON_S

    def now(self) -> float:
        return self.now_s

    def now_ns(self) -> int:
        return round(self.now_s * 1e9)

    def wall(self) -> float:
        return self.wall_s

    def tick(self, seconds: float) -> None:
        self.now_s += seconds
        self.wall_s += seconds


class _Hasty(selectors.SelectSelector):
    """Where nothing happens until some time, it is that time at once."""

    passed_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if not found:
            assert timeout is not None, "everybody waits, and for nothing"
            self.passed_s += max(0.0, timeout)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, clocks: Clocks) -> None:
        self._hasty = _Hasty()
        self._clocks = clocks
        super().__init__(self._hasty)

    def time(self) -> float:
        if self._hasty.passed_s:
            self._clocks.tick(self._hasty.passed_s)
            self._hasty.passed_s = 0.0
        return self._clocks.now_s
