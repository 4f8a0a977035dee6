"""When a daily budget begins anew: at midnight UTC, and never twice, whatever is done to the wall clock.

- The wall says a later day than the last one: a new day. A clock that runs ahead gives one budget too many,
  once; a machine that slept through midnight looks the same, and must have its new day.
- The wall says the day before (set back by a second or an hour around midnight, a leap second): the day that
  has begun goes on until the wall is past it.
- The wall says a day before that: somebody was wrong by more than a day, perhaps by a year. The day that has
  begun ends when 24 hours have run on the clock that nobody sets; then the wall is believed again.

Knows two clocks; refuses to know what is counted.
"""

from __future__ import annotations

from toolcrib.policies.quota.terms import NS
from toolcrib.policy import DAY_S

DAY_NS = DAY_S * NS


class Day:
    """The day that counts. `serial` goes up by one with each; `began_ns` is on the clock that nobody sets."""

    __slots__ = ("began_ns", "number", "serial")

    def __init__(self, number: int | None = None, began_ns: int = 0, serial: int = 0) -> None:
        self.number = number
        self.began_ns = began_ns
        self.serial = serial

    def turn(self, now_ns: int, wall_s: float) -> bool:
        """Whether a new day has begun."""
        number = int(wall_s // DAY_S)
        if self.number is not None and not self._is_over(number, now_ns):
            return False
        self.number = number
        self.began_ns = now_ns
        self.serial += 1
        return True

    def left_ns(self, now_ns: int, wall_s: float) -> int:
        """How long it will be until the next one, if no clock is set meanwhile."""
        assert self.number is not None  # nosec B101  # asked after `turn`
        if int(wall_s // DAY_S) < self.number - 1:
            return self.began_ns + DAY_NS - now_ns
        return (self.number + 1) * DAY_NS - int(wall_s * NS)

    def _is_over(self, number: int, now_ns: int) -> bool:
        assert self.number is not None  # nosec B101  # as above
        if number >= self.number - 1:
            return number > self.number
        return now_ns - self.began_ns >= DAY_NS
