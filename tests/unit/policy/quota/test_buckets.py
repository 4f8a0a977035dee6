"""Counts are kept only as long as they matter; a flood of names does not grow them without bound."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from tests.unit.policy.quota.machines import REPORT, Clocks, wait_until
from toolcrib.context import Principal
from toolcrib.errors import ThrottledError
from toolcrib.policy import Limit, Policy
from toolcrib.policy.quota import Slot
from toolcrib.policy.quota.ledger import SWEEP_FROM
from toolcrib.policy.quota.limits import CallLimits, CompiledLimit
from toolcrib.policy.quota.memory_store import MemoryCounters, MemoryStore


class Desk:
    """A store of few counts, asked directly."""

    def __init__(self, limit: Limit, max_buckets: int) -> None:
        self.clocks = Clocks()
        self.store = MemoryStore(self.clocks.now_ns, self.clocks.wall, max_buckets=max_buckets)
        self._term = CompiledLimit(Policy(limits=[limit]), 1, limit)

    def ask(self, name: str, mark: str | None = None) -> Slot | Awaitable[Slot]:
        return self.store.enter(Slot(CallLimits([self._term], Principal(name), REPORT), self.store, mark))

    def enter(self, name: str, mark: str | None = None) -> Slot:
        slot = self.ask(name, mark)
        assert isinstance(slot, Slot)
        return slot

    def refusal(self, name: str) -> dict[str, object]:
        with pytest.raises(ThrottledError) as caught:
            self.enter(name)
        details: dict[str, object] = caught.value.details
        return details


def test_idle_counts_are_dropped_when_there_are_many_and_active_ones_never():
    desk = Desk(Limit(rate="2/10s"), max_buckets=100_000)
    desk.clocks.tick(1)
    for number in range(SWEEP_FROM):
        desk.enter(f"old {number}")
    desk.clocks.tick(4.9)
    desk.enter("old 7")
    desk.clocks.tick(0.1)
    assert len(desk.store.counters.rates) == SWEEP_FROM
    desk.enter("new")
    assert sorted(desk.store.counters.rates) == [
        "rate 2 in 10 s|1:|principal=new",
        "rate 2 in 10 s|1:|principal=old 7",
    ]
    desk.enter("old 7")
    assert desk.refusal("old 7")["retryAfterS"] == 5.0  # as if nothing had been dropped


def test_a_count_is_idle_from_the_moment_it_is_due_on_its_own_scale():
    counters = MemoryCounters()
    counters.set_rate("fine", 30, 3)
    counters.set_rate("coarse", 11, 1)
    counters.sweep_rates(9)
    assert sorted(counters.rates) == ["coarse", "fine"]
    counters.sweep_rates(10)
    assert sorted(counters.rates) == ["coarse"]


def test_a_call_that_is_withdrawn_twice_gives_its_budget_back_once():
    desk = Desk(Limit(daily=3, per="all"), max_buckets=10)
    slots = [desk.enter("a") for _ in range(3)]
    for _ in range(2):  # once as its loop has gone, once as what waited there is forgotten
        desk.store.ledger.withdraw(slots[0])
    desk.enter("a")
    assert desk.refusal("a")["kind"] == "budget"


def test_a_call_that_is_withdrawn_twice_gives_its_mark_back_once():
    desk = Desk(Limit(daily=1), max_buckets=10)
    first = desk.enter("a", "m")
    desk.store.ledger.withdraw(first)
    desk.enter("a", "m")
    desk.store.ledger.withdraw(first)
    desk.enter("a", "m")  # is charged, as the mark is used
    assert desk.refusal("a")["kind"] == "budget"


def test_a_call_of_which_nothing_was_kept_gives_nothing_back():
    desk = Desk(Limit(daily=2), max_buckets=10)
    slots = [desk.enter("a"), desk.enter("a", "m")]
    for slot in slots:
        slot.reset()  # as its file failed; others took the same meanwhile
        desk.store.ledger.withdraw(slot)
    assert desk.store.counters.budgets == {"daily|1:|principal=a": 1}
    assert desk.store.counters.running == {}
    desk.enter("a", "m")
    assert desk.refusal("a")["kind"] == "budget"


def test_the_next_sweep_waits_until_the_counts_have_doubled():
    desk = Desk(Limit(rate="1/10s"), max_buckets=100_000)
    for number in range(SWEEP_FROM + 1):
        desk.enter(f"busy {number}")  # the last one sweeps in vain
    desk.clocks.tick(20)
    for number in range(SWEEP_FROM - 1):
        desk.enter(f"more {number}")
    assert len(desk.store.counters.rates) == 2 * SWEEP_FROM
    desk.enter("one more")
    assert len(desk.store.counters.rates) == SWEEP_FROM


def test_where_all_counts_are_active_a_new_name_is_refused_and_nobody_forgotten():
    desk = Desk(Limit(rate="1/10s", name="few"), max_buckets=3)
    for name in "abc":
        desk.enter(name)
        desk.clocks.tick(0.25)
    assert desk.refusal("d") == {"limit": "few", "kind": "rate", "retryAfterS": 1.0}
    assert desk.refusal("a")["retryAfterS"] == 9.25
    desk.clocks.tick(9.25)
    desk.enter("d")
    assert len(desk.store.counters.rates) == 3
    assert desk.refusal("e")["retryAfterS"] == 1.0


def test_a_full_store_is_swept_once_a_second_at_most():
    desk = Desk(Limit(rate="1/2s"), max_buckets=2)
    desk.enter("a")
    desk.enter("b")
    desk.clocks.tick(1.5)
    desk.refusal("c")  # sweeps in vain
    desk.clocks.tick(0.5)
    desk.refusal("c")  # both are idle by now, and nobody looks yet
    desk.clocks.tick(0.5)
    desk.enter("c")
    assert len(desk.store.counters.rates) == 1


def test_budgets_are_bounded_and_end_with_the_day():
    desk = Desk(Limit(daily=5), max_buckets=2)
    desk.enter("a")
    slot = desk.enter("b")
    desk.enter("a")
    assert desk.refusal("c") == {"limit": "limits[1]", "kind": "budget", "retryAfterS": 43_200.0}
    slot.leave(ran=False)
    desk.enter("c")
    assert desk.store.counters.budgets == {"daily|1:|principal=a": 2, "daily|1:|principal=c": 1}
    desk.clocks.tick(43_200)
    desk.enter("d")
    assert desk.store.counters.budgets == {"daily|1:|principal=d": 1}


def test_a_budget_that_is_given_back_leaves_its_count_as_it_was():
    desk = Desk(Limit(daily=5), max_buckets=9)
    first, second, third = desk.enter("a"), desk.enter("a"), desk.enter("a")
    second.leave(ran=False)
    assert desk.store.counters.budgets == {"daily|1:|principal=a": 2}
    first.leave(ran=True)
    third.leave(ran=False)
    assert desk.store.counters.budgets == {"daily|1:|principal=a": 1}


def test_places_that_nobody_holds_are_not_there():
    desk = Desk(Limit(concurrency=2), max_buckets=9)
    slots = [desk.enter(name) for name in "aab"]
    assert desk.store.counters.running == {"slot|1:|principal=a": 2, "slot|1:|principal=b": 1}
    for slot in slots:
        slot.leave(ran=True)
    assert desk.store.counters.running == {}
    assert desk.store.counters.queues == {}


async def test_a_line_in_which_nobody_stands_is_not_there():
    desk = Desk(Limit(concurrency=1, queue=1), max_buckets=9)
    first = desk.enter("a")
    second = asyncio.ensure_future(desk.ask("a"))  # type: ignore[arg-type]  # it has to wait
    await wait_until(lambda: desk.store.describe()["waiting"] == 1)
    first.leave(ran=True)
    (await second).leave(ran=True)
    assert (desk.store.counters.running, desk.store.counters.queues) == ({}, {})
