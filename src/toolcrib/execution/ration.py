"""How often something may be said: so many times in so many seconds, the rest is counted.

Knows numbers only: neither what is said nor to whom. The caller brings the clock and the lock.
"""

from __future__ import annotations


class Ration:
    """`limit` portions per window of `window_s` seconds."""

    __slots__ = ("_given", "_limit", "_missed", "_window_end", "_window_s")

    def __init__(self, limit: int, window_s: float) -> None:
        self._limit = limit
        self._window_s = window_s
        self._window_end = 0.0
        self._given = 0
        self._missed = 0

    def take(self, now: float) -> bool:
        """Take a portion if one is left; otherwise count that it was missed."""
        if now >= self._window_end:
            self._window_end = now + self._window_s
            self._given = 0
        if self._given < self._limit:
            self._given += 1
            return True
        self._missed += 1
        return False

    def take_missed(self) -> int:
        """How many were missed since this was last asked."""
        missed, self._missed = self._missed, 0
        return missed

    def is_over(self, now: float) -> bool:
        """True once the window has passed, so that a summary of what was missed is due."""
        return now >= self._window_end
