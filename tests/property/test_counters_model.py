"""Counters against a model that remembers every call: whatever is done, both admit the same.

The model knows no formula: it has the times of all calls that were counted, and the law that in any time t no
more than burst + rate x t may be.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from fractions import Fraction
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.state.conftest import ask
from toolcrib.state.base import Counters, Lease, Limit, Limits
from toolcrib.state.memory import MemoryCounters
from toolcrib.state.rate_limit import DAY_NS, NS
from toolcrib.state.sqlite.state import SQLiteState

MARK_NS = 900 * NS
LIMITS = [
    Limit("rate", "1/s", 1, 1_000, 1),
    Limit("rate", "3/s", 3, 1_000, 3),
    Limit("rate", "7/min", 7, 60_000, 2),
    Limit("rate", "2/10s", 2, 10_000, 5),
    Limit("budget", "small", 2, 0, 0),
    Limit("budget", "large", 5, 0, 0),
    Limit("concurrency", "one", 1, 0, 0),
    Limit("concurrency", "four", 4, 0, 0),
]
GROUPS = st.lists(st.sampled_from(LIMITS), min_size=1, max_size=4, unique=True)
STEPS_NS = st.one_of(
    st.integers(0, 3 * NS),
    st.sampled_from([333_333_333, 333_333_334, NS, 8_571_428_571, 8_571_428_572, 10 * NS, 5 * 3600 * NS]),
)


class CountersMachine(RuleBasedStateMachine):
    """Calls of two kinds, each with some limits, some of which both have."""

    counters: Counters

    @initialize(groups=st.lists(GROUPS, min_size=2, max_size=2))
    def make(self, groups: list[list[Limit]]) -> None:
        self.now_ns = 10**12
        self.runner = asyncio.Runner()
        self.open_counters()
        self.groups = [Limits(tuple(group), "", "deny") for group in groups]
        self.times_ns: dict[str, list[int]] = {}
        self.spent: Counter[tuple[str, int]] = Counter()
        self.running: Counter[str] = Counter()
        self.marks: dict[str, int] = {}
        self.calls: list[tuple[Lease, int, bool]] = []
        """Each with the day that a refund goes to, and whether it holds its slots."""

    def open_counters(self) -> None:
        self.counters = MemoryCounters(now_ns=lambda: self.now_ns, wall=lambda: self.now_ns / NS)

    def acquire(self, limits: Limits, **given: Any) -> Any:
        return self.runner.run(ask(self.counters, limits, **given))

    @property
    def day(self) -> int:
        return self.now_ns // DAY_NS

    def admits(self, limit: Limit, now_ns: int) -> bool:
        if limit.kind == "concurrency":
            return self.running[limit.key] < limit.maximum
        if limit.kind == "budget":
            return self.spent[limit.key, now_ns // DAY_NS] < limit.maximum
        times, per_ns = self.times_ns.get(limit.key, []), Fraction(limit.maximum, limit.period_ms * 10**6)
        return all(
            len(times) - position + 1 <= limit.burst + per_ns * (now_ns - time_ns)
            for position, time_ns in enumerate(times)
        )

    @rule(step_ns=STEPS_NS)
    def wait(self, step_ns: int) -> None:
        self.now_ns += step_ns

    @rule(group=st.integers(0, 1), mark=st.sampled_from([None, None, None, "m", "n"]))
    def call(self, group: int, mark: str | None) -> None:
        limits = self.groups[group]
        is_counted = mark is None or self.marks.get(mark, 0) > self.now_ns
        judged = [each for each in limits.each if is_counted or each.kind == "concurrency"]
        exceeded = [each for each in judged if not self.admits(each, self.now_ns)]
        answer = self.acquire(limits, mark=mark)
        if exceeded:
            assert answer.limit in exceeded
            self.check_wait(judged, answer.limit, answer.retry_ms)
            return
        refund = self.day if is_counted else (self.now_ns - MARK_NS) // DAY_NS
        if not is_counted:
            assert mark is not None
            self.marks[mark] = self.now_ns + MARK_NS
        for limit in judged:
            if limit.kind == "rate":
                self.times_ns.setdefault(limit.key, []).append(self.now_ns)
            elif limit.kind == "budget":
                self.spent[limit.key, self.day] += 1
        self.hold(answer, 1)
        self.calls.append((answer, refund, True))

    def check_wait(self, judged: list[Limit], limit: Limit, retry_ms: int) -> None:
        """After the time that is told, every rate and budget admits; a millisecond before, not all do."""
        timed = [each for each in judged if each.kind != "concurrency"]
        then_ns = self.now_ns + retry_ms * 10**6
        assert all(self.admits(each, then_ns) for each in timed)
        if limit.kind != "concurrency":
            assert not all(self.admits(each, then_ns - 1_000_001) for each in timed)

    def hold(self, lease: Lease, number: int) -> None:
        for limit in lease.limits.each:
            if limit.kind == "concurrency":
                self.running[limit.key] += number

    @rule(position=st.integers(0, 50), ran=st.booleans())
    def end(self, position: int, ran: bool) -> None:
        if self.calls:
            lease, refund, is_held = self.calls.pop(position % len(self.calls))
            self.counters.release(lease, ran=ran)
            self.hold(lease, -is_held)
            for limit in lease.limits.each:
                if limit.kind == "budget" and not ran and refund == self.day and lease.day:
                    self.spent[limit.key, refund] = max(0, self.spent[limit.key, refund] - 1)

    @rule(position=st.integers(0, 50), returns=st.booleans())
    def ask_the_user(self, position: int, returns: bool) -> None:
        if self.calls:
            position %= len(self.calls)
            lease, refund, is_held = self.calls[position]
            self.counters.release(lease, ran=True)
            self.hold(lease, -is_held)
            if returns:
                lease = self.acquire(lease.limits, resumed=True)._replace(day=lease.day)
                self.hold(lease, 1)
            self.calls[position] = (lease, refund, returns)

    @invariant()
    def the_same_is_used(self) -> None:
        if hasattr(self, "groups"):
            for limits in self.groups:
                used = self.runner.run(self.counters.usage(limits))
                for limit, number in zip(limits.each, used, strict=True):
                    if limit.kind == "concurrency":
                        assert number == self.running[limit.key]
                    elif limit.kind == "budget":
                        assert number == self.spent[limit.key, self.day]

    def teardown(self) -> None:
        if hasattr(self, "runner"):
            self.runner.close()


class SQLiteCountersMachine(CountersMachine):
    def open_counters(self) -> None:
        self.state = SQLiteState(now_ns=lambda: self.now_ns, wall=lambda: self.now_ns / NS)
        self.counters = self.state.counters

    def teardown(self) -> None:
        if hasattr(self, "state"):
            self.runner.run(self.state.close())
        super().teardown()


TestMemoryCounters = CountersMachine.TestCase
TestMemoryCounters.settings = settings(settings.default, max_examples=settings.default.max_examples // 2)
TestSQLiteCounters = SQLiteCountersMachine.TestCase
# Each step is done on another thread, which is most of its time.
TestSQLiteCounters.settings = settings(
    settings.default, max_examples=max(6, settings.default.max_examples // 20)
)
