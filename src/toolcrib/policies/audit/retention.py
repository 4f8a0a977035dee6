"""When old records end, by a clock that cannot be made to jump.

A wall clock that is suddenly a year ahead would end every record at once. So ages are told by a clock of our
own, which follows the wall clock but never gains more than twice the time that has really passed, and over a
restart, where nobody knows how long it took, no more than a day or a tenth of the time to keep. It never goes
back. Every checkpoint carries it, so that a record is as old as the first checkpoint after it says. What is
removed is old by this clock and by the wall clock, both. Knows checkpoints; refuses to know stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from toolcrib.policies.audit.checkpoint import Checkpoint
from toolcrib.policies.audit.record import read_stamp

DAY_S = 86_400
SPEED = 2


class SteadyClock:
    """Seconds since 1970, as far as they can be vouched for."""

    def __init__(
        self, wall: Callable[[], float], now: Callable[[], float], last: float | None, keep_days: int | None
    ) -> None:
        self._wall = wall
        self._now = now
        self._seen = now()
        today = wall()
        allowance_s = max(DAY_S, (keep_days or 0) * DAY_S / 10)
        self._value = today if last is None else max(last, min(today, last + allowance_s))

    def read(self) -> float:
        now = self._now()
        passed_s, self._seen = max(0.0, now - self._seen), now
        self._value = max(self._value, min(self._wall(), self._value + SPEED * passed_s))
        return self._value


def aged_out(checkpoints: Iterable[Checkpoint], keep_days: int, clock: float, wall: float) -> int:
    """The number of the last record that is too old; 0 where none is."""
    limit_s = keep_days * DAY_S
    through = 0
    for each in checkpoints:
        # `accepted` names numbers that may never have been given to anything.
        if each.kind == "checkpoint" and each.clock < clock - limit_s and _written(each) < wall - limit_s:
            through = max(through, each.seq)
    return through


def _written(checkpoint: Checkpoint) -> float:
    try:
        return read_stamp(checkpoint.at)
    except ValueError:
        return float("inf")
