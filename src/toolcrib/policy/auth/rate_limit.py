"""How often something may come, by key: an even rate after a first burst (GCRA), in bounded memory.

Counts what happens at the door: failures by address, requests by caller. Knows a rate and a clock; refuses
to know what is counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from toolcrib.config.settings import Rate

MAX_KEYS = 10_000


class Meter:
    """Lets `rate.count` of one key through at once, and then one for each share of the period.

    Whole nanoseconds, so that nothing is lost to rounding however long it runs. Beyond `max_keys` those that
    came first are forgotten, a tenth at a time.
    """

    __slots__ = ("_burst_ns", "_due_ns", "_interval_ns", "_max_keys", "_now")

    def __init__(
        self, rate: Rate, *, now: Callable[[], float] = time.monotonic, max_keys: int = MAX_KEYS
    ) -> None:
        self._interval_ns = -(-int(rate.period_s * 1_000_000_000) // rate.count)
        self._burst_ns = self._interval_ns * (rate.count - 1)
        self._due_ns: dict[str, int] = {}
        self._max_keys = max_keys
        self._now = now

    def __len__(self) -> int:
        return len(self._due_ns)

    def take(self, key: str) -> float | None:
        """None: come in. Else the seconds after which it may."""
        now_ns = int(self._now() * 1_000_000_000)
        due_ns = self._due_ns.get(key)
        if due_ns is None:
            if len(self._due_ns) >= self._max_keys:
                self._forget(now_ns)
            due_ns = now_ns
        early_ns = due_ns - now_ns - self._burst_ns
        if early_ns > 0:
            return early_ns / 1_000_000_000
        self._due_ns[key] = max(due_ns, now_ns) + self._interval_ns
        return None

    def _forget(self, now_ns: int) -> None:
        kept = [(key, due_ns) for key, due_ns in self._due_ns.items() if due_ns > now_ns]
        self._due_ns = dict(kept[max(0, len(kept) - self._max_keys * 9 // 10) :])
