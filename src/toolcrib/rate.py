"""So many in so many seconds, as people write it: `60/min`, `5/s`, `100/10min`.

Knows words and numbers; refuses to know what is counted, and how.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_PERIODS_S = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600}
_RATE = re.compile(r"\s*(\d+)\s*/\s*(\d*)\s*([a-z]+)\s*")
DAY_S = 86_400
MAX_COUNT = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Rate:
    """So many in so many seconds."""

    count: int
    period_s: float

    @classmethod
    def read(cls, text: Any) -> Rate:
        """`60/min`, `5/s`, `100/10min`. Raises ValueError."""
        if isinstance(text, Rate):
            return text
        found = _RATE.fullmatch(text) if isinstance(text, str) else None
        if found is None or found[3] not in _PERIODS_S:
            raise ValueError(f"must be a rate such as '60/min' or '5/s', got {text!r}")
        count, period_s = int(found[1]), int(found[2] or 1) * _PERIODS_S[found[3]]
        if not 1 <= count <= MAX_COUNT or not 1 <= period_s <= DAY_S:
            raise ValueError(f"must be at least 1 in at most a day, got {text!r}")
        return cls(count, float(period_s))

    def share(self, parts: int) -> Rate:
        """What each of several that count apart may let through: its part, rounded up."""
        return Rate(-(-self.count // parts), self.period_s)

    def __str__(self) -> str:
        return f"{self.count} in {self.period_s:g} s"
