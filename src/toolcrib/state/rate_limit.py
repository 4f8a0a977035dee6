"""Rate limiting: an even pace after a first burst (GCRA), in whole numbers; and the day of a budget.

`Pace` is the arithmetic, `RateLimiter` counts per key in bounded memory, and `LogLimiter` limits repeated log
lines. `Counters` keep the state of paces and days themselves.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import NamedTuple

NS = 1_000_000_000
DAY_S = 86_400
DAY_NS = DAY_S * NS
MAX_KEYS = 10_000


class Pace(NamedTuple):
    """`burst` events at once, then `count` per period.

    Time is counted in 1/`scale` ns, so that `step`, the time between two events, is a whole number and
    nothing is lost to rounding. The only state is `due`, the time at which the next event is due at an even
    pace; an event may come `tolerance` earlier. In any time t at most burst + count x t / period events are
    admitted.
    """

    scale: int
    step: int
    tolerance: int

    @classmethod
    def of(cls, count: int, period_s: float, burst: int | None = None) -> Pace:
        """Return the pace of `count` events per period."""
        period_ns = round(period_s * NS)
        common = math.gcd(count, period_ns)
        step = period_ns // common
        return cls(count // common, step, ((burst or count) - 1) * step)

    def admit(self, due: int, now_ns: int) -> tuple[int, int]:
        """Return how long an event has to wait, in ns, and when the next one is due if it is admitted.
        0: it is admitted now."""
        now = now_ns * self.scale
        due = max(due, now)
        early = due - now - self.tolerance
        return (-(-early // self.scale) if early > 0 else 0), due + self.step

    def used(self, due: int, now_ns: int) -> int:
        """Return how much of the burst is used."""
        return max(0, -(-(due - now_ns * self.scale) // self.step))


class RateLimiter:
    """Admits `count` events per key at once, and then one for each part of the period.

    Beyond `max_keys` the keys that came first are forgotten, a tenth at a time.
    """

    __slots__ = ("_due", "_max_keys", "_now", "_pace")

    def __init__(
        self,
        count: int,
        period_s: float,
        *,
        now: Callable[[], float] = time.monotonic,
        max_keys: int = MAX_KEYS,
    ) -> None:
        self._pace = Pace.of(count, period_s)
        self._due: dict[str, int] = {}
        self._max_keys = max_keys
        self._now = now

    def __len__(self) -> int:
        return len(self._due)

    def take(self, key: str) -> float | None:
        """Return None where the event is admitted, else the seconds after which it will be."""
        now_ns = int(self._now() * NS)
        due = self._due.get(key)
        if due is None:
            if len(self._due) >= self._max_keys:
                self._forget(now_ns)
            due = 0
        wait_ns, next_due = self._pace.admit(due, now_ns)
        if wait_ns:
            return wait_ns / NS
        self._due[key] = next_due
        return None

    def _forget(self, now_ns: int) -> None:
        kept = [(key, due) for key, due in self._due.items() if due > now_ns * self._pace.scale]
        self._due = dict(kept[max(0, len(kept) - self._max_keys * 9 // 10) :])


class LogLimiter:
    """Limits how often something is logged, and counts what was not. The caller holds a lock where needed."""

    __slots__ = ("_due", "_pace", "missed")

    def __init__(self, count: int, period_s: float) -> None:
        self._pace = Pace.of(count, period_s)
        self._due = 0
        self.missed = 0

    def take(self, now: float) -> bool:
        """Whether this may be logged now; if not, it is counted in `missed`."""
        wait_ns, next_due = self._pace.admit(self._due, int(now * NS))
        if wait_ns:
            self.missed += 1
            return False
        self._due = next_due
        return True

    def take_missed(self) -> str:
        """Return a note on what was not logged since the last time, to append to a log line."""
        missed, self.missed = self.missed, 0
        return f" ({missed} more times since the last message)" if missed else ""

    def reset(self) -> None:
        self._due = 0


class BudgetDay:
    """The day that budgets are counted for. It begins at midnight UTC, and never twice, even if the wall
    clock is set.

    - A later date on the wall clock is a new day. A clock that runs ahead gives one extra budget, once; it
      looks the same as a machine that slept through midnight.
    - With the date before (the clock was set back around midnight, or a leap second), the current day
      continues until the wall clock has passed it.
    - With an earlier date, the clock was wrong by more than a day. The current day ends when 24 hours have
      passed on the monotonic clock; then the wall clock is used again.

    `serial` increases by one with each day; `began_ns` is monotonic time.
    """

    __slots__ = ("began_ns", "number", "serial")

    def __init__(self, number: int | None = None, began_ns: int = 0, serial: int = 0) -> None:
        self.number = number
        self.began_ns = began_ns
        self.serial = serial

    def turn(self, now_ns: int, wall_s: float) -> bool:
        """Return whether a new day has begun."""
        number = int(wall_s // DAY_S)
        if self.number is not None:
            is_believed = number >= self.number - 1
            if not (number > self.number if is_believed else now_ns - self.began_ns >= DAY_NS):
                return False
        self.number = number
        self.began_ns = now_ns
        self.serial += 1
        return True

    def serial_since(self, since_ns: int) -> int:
        """Return the number of this day if it was the same at a time, else 0."""
        return self.serial if self.serial == 1 or since_ns >= self.began_ns else 0

    def left_ns(self, now_ns: int, wall_s: float) -> int:
        """Return the time until the next day, if no clock is set in between. Call `turn` first."""
        number = self.number or 0
        if int(wall_s // DAY_S) < number - 1:
            return self.began_ns + DAY_NS - now_ns
        return (number + 1) * DAY_NS - int(wall_s * NS)
