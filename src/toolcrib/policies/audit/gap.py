"""How many records came late or never, for figures and for the record itself.

Counted by whoever notices, on any thread. Knows numbers; refuses to know why.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from toolcrib.policies.audit.record import stamp


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
