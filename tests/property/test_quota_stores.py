"""Both stores decide alike: the same calls, waits and withdrawals on dictionaries and on SQLite tables."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from toolcrib import Tool
from toolcrib.context import Principal
from toolcrib.errors import ThrottledError
from toolcrib.policy import Limit, Policy
from toolcrib.policy.quota.ledger import RESUMED, RUNNING, Ledger, MemoryCounts, Slot
from toolcrib.policy.quota.limits import CallLimits, CompiledLimit
from toolcrib.policy.quota.sqlite_store import SqliteCounts

PEOPLE = [Principal("ana"), Principal("ben")]
TOOL = Tool.from_function(lambda: 1, name="x")
LIMITS = [
    Limit(rate="7/min", burst=3, concurrency=2, queue=2),
    Limit(rate="20/min", concurrency=3, queue=3, daily=6, per="all"),
]
COMPILED = [
    CompiledLimit(Policy(limits=LIMITS), number, limit) for number, limit in enumerate(LIMITS, start=1)
]


class StoresMachine(RuleBasedStateMachine):
    @initialize()
    def make(self) -> None:
        self.now_ns = 10**12
        self._folder = tempfile.TemporaryDirectory()
        self.counts = SqliteCounts(Path(self._folder.name) / "limits.db", "me", "boot")
        self.counts.open(self.now_ns)
        self.counts.begin()
        memory, sql = (
            Ledger(counts, lambda: self.now_ns / 1e9, max_entries=100)
            for counts in (MemoryCounts(), self.counts)
        )
        self.ledgers = (memory, sql)
        self.pairs: list[tuple[Slot, Slot]] = []
        self.limits = [CallLimits(COMPILED, who, TOOL) for who in PEOPLE]
        self.rank = 0

    def teardown(self) -> None:
        if hasattr(self, "counts"):
            self.counts.close()
            self._folder.cleanup()

    def both(self, act: Any, pair: tuple[Slot, Slot]) -> Any:
        """What both ledgers say, which is the same."""
        said = []
        for ledger, slot in zip(self.ledgers, pair, strict=True):
            try:
                said.append(act(ledger, slot))
            except ThrottledError as error:
                said.append((str(error), error.details))
        assert said[0] == said[1]
        assert pair[0].rank == pair[1].rank
        return said[0]

    def find(self, position: int, *, waits: bool) -> tuple[Slot, Slot] | None:
        fitting = [pair for pair in self.pairs if (pair[0].rank not in (None, RUNNING)) is waits]
        return fitting[position % len(fitting)] if fitting else None

    @rule(step_ns=st.sampled_from([0, 10**6, 10**9, 8_571_428_571, 8_571_428_572, 6 * 3600 * 10**9]))
    def wait(self, step_ns: int) -> None:
        self.now_ns += step_ns

    @rule(who=st.integers(0, 1), mark=st.sampled_from([None, None, None, "m", "n"]))
    def enter(self, who: int, mark: str | None) -> None:
        number = len(self.pairs)
        pair = (Slot(self.limits[who], None, mark), Slot(self.limits[who], None, mark))
        pair[1].number = self.rank = self.rank + 1
        said = self.both(lambda ledger, slot: ledger.enter(slot, self.now_ns), pair)
        if isinstance(said, float):
            self.both(lambda ledger, slot: ledger.enqueue(slot, self.now_ns, self.rank), pair)
        if said is None or isinstance(said, float):
            self.pairs.append(pair)
            assert len(self.pairs) == number + 1

    @rule(position=st.integers(0, 20))
    def retry(self, position: int) -> None:
        pair = self.find(position, waits=True)
        if pair is not None:
            self.both(lambda ledger, slot: ledger.retry(slot, slot.rank, self.now_ns), pair)

    @rule(position=st.integers(0, 20))
    def withdraw(self, position: int) -> None:
        pair = self.find(position, waits=True)
        if pair is not None:
            self.pairs.remove(pair)
            self.both(lambda ledger, slot: ledger.withdraw(slot), pair)

    @rule(position=st.integers(0, 20), ran=st.booleans())
    def leave(self, position: int, ran: bool) -> None:
        pair = self.find(position, waits=False)
        if pair is not None:
            self.pairs.remove(pair)
            self.both(lambda ledger, slot: ledger.vacate(slot), pair)
            if not ran:
                self.both(lambda ledger, slot: ledger.give_back(slot, self.now_ns), pair)

    @rule(position=st.integers(0, 20))
    def pause_and_come_back(self, position: int) -> None:
        pair = self.find(position, waits=False)
        if pair is not None:
            self.rank += 1
            self.both(lambda ledger, slot: ledger.vacate(slot), pair)
            self.both(lambda ledger, slot: ledger.resume(slot, RESUMED + self.rank), pair)

    @rule(mark=st.sampled_from("abc"))
    def burn(self, mark: str) -> None:
        pair = (Slot(self.limits[0], None), Slot(self.limits[0], None))
        self.both(lambda ledger, slot: ledger.use_once(mark, 30, self.now_ns), pair)


TestStores = StoresMachine.TestCase
# Each needs a file of its own, which is most of its time.
TestStores.settings = settings(settings.default, max_examples=settings.default.max_examples // 5)
