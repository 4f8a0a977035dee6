"""Limits against a model that remembers every call: whatever is done, both let in the same.

The model knows no formula: it has the times of all calls that were let in, and the law that in any time t no
more than burst + rate x t may be.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from toolcrib import Tool
from toolcrib.config.settings import DAY_S, Rate
from toolcrib.context import Principal
from toolcrib.errors import ThrottledError
from toolcrib.policy import Limit, Policy
from toolcrib.policy.quota import Quota, Slot

PEOPLE = [Principal("ana"), Principal("ana", binding="another client"), Principal("ben")]
TOOLS = [
    Tool.from_function(lambda: 1, name="x", tags=["a", "b"]),
    Tool.from_function(lambda: 1, name="X", version="2", tags=["b"]),
    Tool.from_function(lambda: 1, name="y"),
]
LIMITS = st.builds(
    lambda rate, burst, concurrency, daily, per: Limit(
        rate=rate, burst=burst if rate else None, concurrency=concurrency, daily=daily, timeout_s=1, per=per
    ),
    st.sampled_from([None, "1/s", "3/s", "7/min", "2/10s", "5/3s"]),
    st.sampled_from([None, 1, 2, 4]),
    st.sampled_from([None, None, 1, 2]),
    st.sampled_from([None, None, 2, 5]),
    st.sampled_from(["all", "principal", "tool", "tag", "principal+tool", "principal+tag"]),
)
STEPS_NS = st.one_of(
    st.integers(0, 3_000_000_000),
    st.sampled_from(
        [333_333_333, 333_333_334, 10**9, 8_571_428_571, 8_571_428_572, 10**10, 5 * 3600 * 10**9]
    ),
)


@dataclass
class Count:
    """One count of the model: everything that ever happened under one key."""

    limit: Limit
    times_ns: list[int] = field(default_factory=list)
    days: list[int] = field(default_factory=list)
    running: int = 0

    def objections(self, now_ns: int) -> set[str]:
        limit, found = self.limit, set()
        if isinstance(limit.rate, Rate) and not self.admits(now_ns):
            found.add("rate")
        if limit.concurrency is not None and self.running >= limit.concurrency:
            found.add("concurrency")
        if limit.daily is not None and self.days.count(now_ns // (DAY_S * 10**9)) >= limit.daily:
            found.add("budget")
        return found

    def admits(self, now_ns: int) -> bool:
        rate = self.limit.rate
        assert isinstance(rate, Rate)
        burst = self.limit.burst or rate.count
        per_ns = Fraction(rate.count, int(rate.period_s) * 10**9)
        return all(
            len(self.times_ns) - position + 1 <= burst + per_ns * (now_ns - time_ns)
            for position, time_ns in enumerate(self.times_ns)
        )


class QuotaMachine(RuleBasedStateMachine):
    @initialize(limits=st.lists(LIMITS, min_size=1, max_size=3))
    def make(self, limits: list[Limit]) -> None:
        self.now_ns = 10**12
        self.quota = Quota(Policy(limits=limits), now=self.now, wall=self.now)
        self.limits = limits
        self.counts: dict[Any, Count] = {}
        self.open: list[tuple[Slot, list[Count], int]] = []

    def now(self) -> float:
        return self.now_ns / 1e9

    def counts_of(self, who: Principal, what: Tool) -> list[Count]:
        found = []
        for number, limit in enumerate(self.limits):
            parts = limit.per.split("+")
            key = (number, who.name if "principal" in parts else "", what.name.lower() * ("tool" in parts))
            tags = (what.options.tags or [""]) if "tag" in parts else ["-"]
            found += [self.counts.setdefault((*key, tag), Count(limit)) for tag in tags]
        return found

    @rule(step_ns=STEPS_NS)
    def wait(self, step_ns: int) -> None:
        self.now_ns += step_ns

    @rule(who=st.sampled_from(PEOPLE), what=st.sampled_from(TOOLS), times=st.integers(1, 4))
    def call(self, who: Principal, what: Tool, times: int) -> None:
        for _ in range(times):
            self.call_once(who, what)

    def call_once(self, who: Principal, what: Tool) -> None:
        counts = self.counts_of(who, what)
        objections = set().union(*(count.objections(self.now_ns) for count in counts))
        if objections:
            with pytest.raises(ThrottledError) as caught:
                self.quota.enter(who, what, len)
            details = caught.value.details
            assert details["kind"] in objections
            if details["kind"] == "rate":
                self.check_wait(counts, details["retryAfterS"])
            return
        slot = self.quota.enter(who, what, len)
        if not counts:
            assert slot is None
            return
        assert isinstance(slot, Slot)
        day = self.now_ns // (DAY_S * 10**9)
        for count in counts:
            count.times_ns.append(self.now_ns)
            count.days.append(day)
            count.running += 1
        self.open.append((slot, counts, day))

    def check_wait(self, counts: list[Count], retry_s: float) -> None:
        """What is told is the time at which all rates admit, to the millisecond."""
        rated = [count for count in counts if count.limit.rate is not None]
        then_ns = self.now_ns + round(retry_s * 1e9)
        assert all(count.admits(then_ns) for count in rated)
        assert not all(count.admits(then_ns - 1_000_001) for count in rated)

    @rule(position=st.integers(0, 50), ran=st.booleans())
    def leave(self, position: int, ran: bool) -> None:
        if not self.open:
            return
        slot, counts, day = self.open.pop(position % len(self.open))
        slot.leave(ran=ran)
        slot.leave(ran=not ran)
        for count in counts:
            count.running -= 1
            if not ran:
                count.days.remove(day)

    @invariant()
    def as_many_places_are_taken_as_calls_are_open(self) -> None:
        if hasattr(self, "counts"):
            taken = sum(count.running for count in self.counts.values() if count.limit.concurrency)
            assert self.quota.describe_store()["slots"] == taken


TestQuota = QuotaMachine.TestCase
TestQuota.settings = settings(settings.default, max_examples=settings.default.max_examples // 2)
