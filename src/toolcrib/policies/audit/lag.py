"""How long a log went on without being sealed: told from the records that no checkpoint has seen.

A server seals within a minute, so a long stretch of unsealed work means that checkpoints were cut off, or
could not be written. Runs that were killed before they could seal count each for itself; records that came
late, because the log could not be written, count not at all. Knows times and kinds of records; refuses to
know checkpoints and hashes.
"""

from __future__ import annotations

from toolcrib import codec
from toolcrib.policies.audit.checkpoint import CHECKPOINT_RECORDS, CHECKPOINT_S
from toolcrib.policies.audit.record import read_stamp

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
