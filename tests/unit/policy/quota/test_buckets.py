"""Counts are kept only as long as they matter; a flood of names does not grow them without bound."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from tests.unit.policy.quota.support import REPORT, Clocks, wait_until
from toolcrib.context import Principal
from toolcrib.errors import ThrottledError
from toolcrib.policy import Limit, Policy
from toolcrib.policy.quota import Slot
from toolcrib.policy.quota.ledger import SWEEP_FROM, MemoryStore
from toolcrib.policy.quota.limits import CallLimits, CompiledLimit


class SmallStore:
    """A store of few counts, asked directly."""

    def __init__(self, limit: Limit, max_buckets: int) -> None:
        self.clocks = Clocks()
        self.store = MemoryStore(self.clocks.now_ns, self.clocks.wall, max_entries=max_buckets)
        self._limit = CompiledLimit(Policy(limits=[limit]), 1, limit)

    def ask(self, name: str, mark: str | None = None) -> Slot | Awaitable[Slot]:
        return self.store.enter(Slot(CallLimits([self._limit], Principal(name), REPORT), self.store, mark))

    def enter(self, name: str, mark: str | None = None) -> Slot:
        slot = self.ask(name, mark)
        assert isinstance(slot, Slot)
        return slot

    def spent(self) -> dict[str, int]:
        return {key: used for key, (used, _) in self.store.counts.entries["spent"].items()}

    def refusal(self, name: str) -> dict[str, object]:
        with pytest.raises(ThrottledError) as caught:
            self.enter(name)
        details: dict[str, object] = caught.value.details
        return details


def test_idle_counts_are_dropped_when_there_are_many_and_active_ones_never():
    small = SmallStore(Limit(rate="2/10s"), max_buckets=100_000)
    small.clocks.tick(1)
    for number in range(SWEEP_FROM):
        small.enter(f"old {number}")
    small.clocks.tick(4.9)
    small.enter("old 7")
    small.clocks.tick(0.1)
    assert len(small.store.counts.entries["rate"]) == SWEEP_FROM
    small.enter("new")
    assert sorted(small.store.counts.entries["rate"]) == [
        "rate 2 in 10 s|1:|principal=new",
        "rate 2 in 10 s|1:|principal=old 7",
    ]
    small.enter("old 7")
    assert small.refusal("old 7")["retryAfterS"] == 5.0  # as if nothing had been dropped


def test_a_call_that_is_withdrawn_twice_gives_its_budget_back_once():
    small = SmallStore(Limit(daily=3, per="all"), max_buckets=10)
    slots = [small.enter("a") for _ in range(3)]
    for _ in range(2):  # once as its loop has gone, once as what waited there is forgotten
        small.store.ledger.withdraw(slots[0])
    small.enter("a")
    assert small.refusal("a")["kind"] == "budget"


def test_a_call_that_is_withdrawn_twice_gives_its_mark_back_once():
    small = SmallStore(Limit(daily=1), max_buckets=10)
    first = small.enter("a", "m")
    small.store.ledger.withdraw(first)
    small.enter("a", "m")
    small.store.ledger.withdraw(first)
    small.enter("a", "m")  # is charged, as the mark is used
    assert small.refusal("a")["kind"] == "budget"


def test_a_call_of_which_nothing_was_kept_gives_nothing_back():
    small = SmallStore(Limit(daily=2), max_buckets=10)
    slots = [small.enter("a"), small.enter("a", "m")]
    for slot in slots:
        slot.reset()  # as its file failed; others took the same meanwhile
        small.store.ledger.withdraw(slot)
    assert small.spent() == {"daily|1:|principal=a": 1}
    assert small.store.counts.running == {}
    small.enter("a", "m")
    assert small.refusal("a")["kind"] == "budget"


def test_the_next_sweep_waits_until_the_counts_have_doubled():
    small = SmallStore(Limit(rate="1/10s"), max_buckets=100_000)
    for number in range(SWEEP_FROM + 1):
        small.enter(f"busy {number}")  # the last one sweeps in vain
    small.clocks.tick(20)
    for number in range(SWEEP_FROM - 1):
        small.enter(f"more {number}")
    assert len(small.store.counts.entries["rate"]) == 2 * SWEEP_FROM
    small.enter("one more")
    assert len(small.store.counts.entries["rate"]) == SWEEP_FROM


def test_where_all_counts_are_active_a_new_name_is_refused_and_nobody_forgotten():
    small = SmallStore(Limit(rate="1/10s", name="few"), max_buckets=3)
    for name in "abc":
        small.enter(name)
        small.clocks.tick(0.25)
    assert small.refusal("d") == {"limit": "few", "kind": "rate", "retryAfterS": 1.0}
    assert small.refusal("a")["retryAfterS"] == 9.25
    small.clocks.tick(9.25)
    small.enter("d")
    assert len(small.store.counts.entries["rate"]) == 3
    assert small.refusal("e")["retryAfterS"] == 1.0


def test_a_full_store_is_swept_once_a_second_at_most():
    small = SmallStore(Limit(rate="1/2s"), max_buckets=2)
    small.enter("a")
    small.enter("b")
    small.clocks.tick(1.5)
    small.refusal("c")  # sweeps in vain
    small.clocks.tick(0.5)
    small.refusal("c")  # both are idle by now, and nobody looks yet
    small.clocks.tick(0.5)
    small.enter("c")
    assert len(small.store.counts.entries["rate"]) == 1


def test_budgets_are_bounded_and_end_with_the_day():
    small = SmallStore(Limit(daily=5), max_buckets=2)
    small.enter("a")
    slot = small.enter("b")
    small.enter("a")
    assert small.refusal("c") == {"limit": "limits[1]", "kind": "budget", "retryAfterS": 43_200.0}
    slot.leave(ran=False)
    small.enter("c")
    assert small.spent() == {"daily|1:|principal=a": 2, "daily|1:|principal=c": 1}
    small.clocks.tick(43_200)
    small.enter("d")
    assert small.spent() == {"daily|1:|principal=d": 1}


def test_a_budget_that_is_given_back_leaves_its_count_as_it_was():
    small = SmallStore(Limit(daily=5), max_buckets=9)
    first, second, third = small.enter("a"), small.enter("a"), small.enter("a")
    second.leave(ran=False)
    assert small.spent() == {"daily|1:|principal=a": 2}
    first.leave(ran=True)
    third.leave(ran=False)
    assert small.spent() == {"daily|1:|principal=a": 1}


def test_places_that_nobody_holds_are_not_there():
    small = SmallStore(Limit(concurrency=2), max_buckets=9)
    slots = [small.enter(name) for name in "aab"]
    assert small.store.counts.running == {"slot|1:|principal=a": 2, "slot|1:|principal=b": 1}
    for slot in slots:
        slot.leave(ran=True)
    assert small.store.counts.running == {}
    assert small.store.counts.queues == {}


async def test_a_line_in_which_nobody_stands_is_not_there():
    small = SmallStore(Limit(concurrency=1, queue=1), max_buckets=9)
    first = small.enter("a")
    second = asyncio.ensure_future(small.ask("a"))  # type: ignore[arg-type]  # it has to wait
    await wait_until(lambda: small.store.describe()["waiting"] == 1)
    first.leave(ran=True)
    (await second).leave(ran=True)
    assert (small.store.counts.running, small.store.counts.queues) == ({}, {})
