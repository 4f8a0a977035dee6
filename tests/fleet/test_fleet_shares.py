"""What one replica admits while Redis is away: all replicas together stay within each limit."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.state.conftest import budget_of, limits_of, rate_of, slots_of
from tests.support.system.manual_clock import Clock
from toolcrib.config.settings import Outage
from toolcrib.fleet.shares import ShareCounters
from toolcrib.state.base import Lease, Limit, Refused


class Fleet:
    """Replicas that agree on who is live, with one clock."""

    def __init__(self, count: int, held: dict[str, int] | None = None, **modes: Any) -> None:
        self.clock = Clock(1_000.0)
        self.names = [f"replica-{number}" for number in range(count)]
        self.held = held or {}
        self.replicas = [
            ShareCounters(
                name,
                lambda: self.names,
                lambda key: self.held.get(key, 0),
                Outage(**modes),
                now_ns=lambda: int(self.clock() * 10**9),
                wall=lambda: 1_700_000_000.0 + self.clock(),
            )
            for name in self.names
        ]

    def count_admitted(self, limit: Limit, attempts: int) -> int:
        """Return how many calls are admitted that are spread over all replicas, and stay."""
        limits, dice = limits_of(limit), random.Random(7)
        return sum(isinstance(dice.choice(self.replicas).acquire(limits), Lease) for _ in range(attempts))


@given(st.integers(1, 60), st.integers(1, 40))
def test_slots_of_all_replicas_are_those_of_the_limit(maximum: int, count: int) -> None:
    fleet = Fleet(count)
    assert fleet.count_admitted(slots_of(maximum), 3_000) <= maximum
    for replica in fleet.replicas:
        for _ in range(maximum):
            replica.acquire(limits_of(slots_of(maximum)))
    taken = sum(replica._running.get("slots", 0) for replica in fleet.replicas)
    assert maximum - count < taken <= maximum


@given(st.integers(1, 60), st.integers(1, 40))
def test_budgets_of_all_replicas_are_that_of_the_limit(maximum: int, count: int) -> None:
    assert Fleet(count).count_admitted(budget_of(maximum), 1_000) <= maximum


@given(st.integers(1, 120), st.integers(1, 20))
def test_rates_begin_used_up_and_come_back_by_shares(maximum: int, count: int) -> None:
    fleet, limit = Fleet(count), rate_of(maximum, 60)
    assert fleet.count_admitted(limit, 200) == 0
    admitted = 0
    for _ in range(60):
        fleet.clock.pass_s(1)
        admitted += fleet.count_admitted(limit, 50)
    assert admitted <= maximum


def test_a_rate_comes_back() -> None:
    fleet, limit = Fleet(2), rate_of(120, 60)
    fleet.count_admitted(limit, 20)
    fleet.clock.pass_s(1.1)
    assert fleet.count_admitted(limit, 20) == 2


def test_slots_that_were_taken_in_redis_count() -> None:
    fleet = Fleet(1, held={"slots": 2})
    assert fleet.count_admitted(slots_of(3), 10) == 1
    fleet.held["slots"] = 3
    assert Fleet(1, held={"slots": 3}).count_admitted(slots_of(3), 10) == 0


def test_a_call_that_goes_on_after_a_question_is_never_refused() -> None:
    fleet = Fleet(3, held={"slots": 9})
    assert isinstance(fleet.replicas[0].acquire(limits_of(slots_of(1)), resumed=True), Lease)


@pytest.mark.parametrize("limit", [slots_of(5), budget_of(5), rate_of(5, 60)], ids=lambda each: each.kind)
def test_each_kind_has_a_mode(limit: Limit) -> None:
    mode = {limit.kind: "allow"}
    assert Fleet(2, **mode).count_admitted(limit, 50) == 50
    refused = Fleet(2, **{limit.kind: "deny"}).replicas[0].acquire(limits_of(limit))
    assert refused == Refused(limit, 1_000)


def test_a_refusal_names_the_limit_of_the_policy() -> None:
    fleet, limit = Fleet(2), slots_of(4)
    for _ in range(2):
        fleet.replicas[0].acquire(limits_of(limit))
    refused = fleet.replicas[0].acquire(limits_of(limit))
    assert isinstance(refused, Refused)
    assert refused.limit == limit


def test_slots_are_free_again() -> None:
    fleet, limits = Fleet(2), limits_of(slots_of(2))
    lease = fleet.replicas[0].acquire(limits)
    assert isinstance(lease, Lease)
    assert isinstance(fleet.replicas[0].acquire(limits), Refused)
    fleet.replicas[0].release(lease, ran=True)
    assert isinstance(fleet.replicas[0].acquire(limits), Lease)
