"""How many calls ended in which way, and how long they took: numbers in memory, kept by every call.

A call pays for one lock and a few additions. Names of tools come from the registry, codes and kinds from
classes; all the same there is an end to how many of each are told apart, so that no caller can fill memory.
Knows how to count; refuses to know who reads it, callers and arguments.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

logger = logging.getLogger("toolcrib")

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
MAX_TOOLS = 10_000
MAX_ENDINGS = 100
MAX_REFUSALS = 32
OTHER = "other"

Ending = tuple[str, str]
"""An outcome, and the code of the error behind it or nothing."""


@dataclass(slots=True)
class Row:
    """What became of the calls of one tool. The last of `buckets` has no upper bound."""

    endings: dict[Ending, int] = field(default_factory=dict)
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS_S) + 1))
    total_s: float = 0.0

    def add(self, other: Row) -> None:
        for ending, count in other.endings.items():
            self.endings[ending] = self.endings.get(ending, 0) + count
        self.buckets = [mine + theirs for mine, theirs in zip(self.buckets, other.buckets, strict=True)]
        self.total_s += other.total_s


@dataclass(slots=True)
class Sheet:
    """Figures at one moment. The tool without a name stands for all that do not exist."""

    rows: dict[str, Row] = field(default_factory=dict)
    refusals: dict[str, int] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)

    @classmethod
    def sum_of(cls, sheets: Sequence[Sheet]) -> Sheet:
        whole = cls()
        for sheet in sheets:
            for tool, row in sheet.rows.items():
                whole.rows.setdefault(tool, Row()).add(row)
            for kind, count in sheet.refusals.items():
                whole.refusals[kind] = whole.refusals.get(kind, 0) + count
            for name, value in sheet.gauges.items():
                whole.gauges[name] = whole.gauges.get(name, 0.0) + value
        return whole


class Figures:
    """Counts from any thread."""

    __slots__ = ("_is_crowded", "_lock", "_refusals", "_rows", "running")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[str, Row] = {}
        self._refusals: dict[str, int] = {}
        self._is_crowded = False
        self.running = 0

    def begin(self) -> None:
        with self._lock:
            self.running += 1

    def end(
        self, tool: str | None, outcome: str, code: str | None, duration_s: float, *, was_begun: bool
    ) -> None:
        name, ending = tool or "", (outcome, code or "")
        with self._lock:
            if was_begun:
                self.running -= 1
            row = self._rows.get(name)
            if row is None:
                row = self._make_row(name)
            endings = row.endings
            count = endings.get(ending)
            if count is None and len(endings) >= MAX_ENDINGS:
                ending = (outcome, OTHER)
                count = endings.get(ending)
            endings[ending] = (count or 0) + 1
            row.buckets[bisect_left(BUCKETS_S, duration_s)] += 1
            row.total_s += duration_s

    def refuse(self, kind: str) -> None:
        with self._lock:
            if kind not in self._refusals and len(self._refusals) >= MAX_REFUSALS:
                kind = OTHER
            self._refusals[kind] = self._refusals.get(kind, 0) + 1

    def take(self) -> Sheet:
        """All figures as they are now; what is counted from here on does not change them."""
        with self._lock:
            rows = {
                tool: Row(dict(row.endings), list(row.buckets), row.total_s)
                for tool, row in self._rows.items()
            }
            return Sheet(rows, dict(self._refusals))

    def _make_row(self, tool: str) -> Row:
        if tool and len(self._rows) >= MAX_TOOLS:
            if not self._is_crowded:
                self._is_crowded = True
                logger.warning("figures tell %d tools apart; calls of further ones have no name", MAX_TOOLS)
            return self._rows.setdefault("", Row())
        return self._rows.setdefault(tool, Row())
