"""When old records end, by a clock that cannot be made to jump.

A wall clock that is suddenly a year ahead would end every record at once. So ages are told by a clock of our
own, which follows the wall clock but never gains more than twice the time that has really passed, and over a
restart, where nobody knows how long it took, no more than a day or a tenth of the time to keep. It never goes
back. Every checkpoint carries it, so that a record is as old as the first checkpoint after it says. What is
removed is old by this clock and by the wall clock, both. Knows checkpoints; refuses to know stores.

How many records came late or never, for figures and for the record itself.

Counted by whoever notices, on any thread. Knows numbers; refuses to know why.

How long a log went on without being sealed: told from the records that no checkpoint has seen.

A server seals within a minute, so a long stretch of unsealed work means that checkpoints were cut off, or
could not be written. Runs that were killed before they could seal count each for itself; records that came
late, because the log could not be written, count not at all. Knows times and kinds of records; refuses to
know checkpoints and hashes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from toolcrib.policy.audit.checkpoints import CHECKPOINT_RECORDS, CHECKPOINT_S, Checkpoint
from toolcrib.policy.audit.record import read_stamp, stamp
from toolcrib.validation import codec


class Gap:
    """`late` are those whose reply did not wait for them, `lost` those that were never written."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self.late = 0
        self.lost = 0
        self._wall = wall
        self._lock = threading.Lock()
        self._told = (0, 0)
        self._since = 0.0

    def add(self, *, late: int = 0, lost: int = 0) -> None:
        with self._lock:
            if self._told == (self.late, self.lost):
                self._since = self._wall()
            self.late += late
            self.lost += lost

    @property
    def is_untold(self) -> bool:
        return self._told != (self.late, self.lost)

    def tell(self) -> dict[str, Any] | None:
        """What is new since it was last told, for the record."""
        with self._lock:
            if not self.is_untold:
                return None
            late, lost = self.late - self._told[0], self.lost - self._told[1]
            self._told = (self.late, self.lost)
            return {"kind": "gap", "since": stamp(self._since), "late": late, "lost": lost}


LONG_S = 3 * CHECKPOINT_S
BUSY_S = CHECKPOINT_S / 2
"""A server with much to seal does so every second."""
BUSY_GAP_S = 1.0


class Lag:
    """Fed with the lines behind the newest checkpoint, in their order. Silence counts as a minute at most,
    and as a second of busy work: a machine may have slept."""

    def __init__(self) -> None:
        self._worst_s = 0.0
        self._late = 0
        self._begin()

    def _begin(self) -> None:
        self._worked_s = 0.0
        self._busy_s = 0.0
        self._records = 0
        self._latest: float | None = None

    @property
    def worst_s(self) -> float:
        """The longest time without a seal, 0 where it was never too long."""
        is_long = self._worked_s > LONG_S or (self._records > CHECKPOINT_RECORDS and self._busy_s > BUSY_S)
        return max(self._worst_s, self._worked_s if is_long else 0.0)

    def add(self, line: bytes) -> None:
        try:
            record = codec.decode(line)
            at, kind = read_stamp(record["at"]), record["kind"]
            late = int(record.get("late", 0))
        except (ValueError, TypeError, KeyError, AttributeError):
            return  # no record, which is said elsewhere
        if kind == "opened":
            self._worst_s = self.worst_s
            self._begin()
        elif kind == "gap":  # stands before those that came late, or behind them
            self._late += late
            self._begin()
        elif self._late > 0:
            self._late -= 1
            return
        if self._latest is not None and at > self._latest:
            self._worked_s += min(at - self._latest, CHECKPOINT_S)
            self._busy_s += min(at - self._latest, BUSY_GAP_S)
        self._latest = at if self._latest is None else max(at, self._latest)
        self._records += 1


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
