"""Counters: rates, budgets, slots and marks, on every engine."""

from __future__ import annotations

import pytest

from tests.state.conftest import (
    Machine,
    admit,
    budget_of,
    count_admitted,
    limits_of,
    rate_of,
    refuse,
    slots_of,
)
from toolcrib.state.base import Counters, Refused
from toolcrib.state.memory import SWEEP_FROM, MemoryCounters
from toolcrib.state.rate_limit import DAY_S
from toolcrib.state.sqlite.counters import SQLiteCounters

SERVERS = ("redis",)
HOUR_S = 3600
HALF_DAY_S = DAY_S / 2


# --- rates ---


async def test_a_burst_is_admitted_at_once_and_then_one_call_each_step(
    engine: Machine, counters: Counters
) -> None:
    limits = limits_of(rate_of(60, 60))
    assert await count_admitted(counters, limits, 100) == 60
    engine.pass_s(0.999)
    assert await count_admitted(counters, limits, 5) == 0
    engine.pass_s(0.001)
    assert await count_admitted(counters, limits, 5) == 1
    engine.pass_s(30)
    assert await count_admitted(counters, limits, 100) == 30


@pytest.mark.parametrize(("burst", "admitted"), [(1, 1), (5, 5), (90, 90)])
async def test_a_burst_may_differ_from_the_rate(
    engine: Machine, counters: Counters, burst: int, admitted: int
) -> None:
    limits = limits_of(rate_of(60, 60, burst=burst))
    assert await count_admitted(counters, limits, 100) == admitted
    engine.pass_s(1)
    assert await count_admitted(counters, limits, 100) == 1
    engine.pass_s(DAY_S)
    assert await count_admitted(counters, limits, 100) == admitted


async def test_a_step_of_a_fraction_of_a_nanosecond_does_not_drift(
    engine: Machine, counters: Counters
) -> None:
    limits = limits_of(rate_of(7, 60, burst=1))
    admitted = 0
    for _ in range(600):  # asked at whole seconds, a step of 8.57 s is over after 9: 7 in 63 s
        engine.pass_s(1)
        admitted += await count_admitted(counters, limits, 1)
    assert admitted == 67


async def test_a_call_that_is_refused_costs_nothing_and_learns_when_to_come_back(
    engine: Machine, counters: Counters
) -> None:
    gently = rate_of(20, 60, burst=1)
    limits = limits_of(gently)
    await admit(counters, limits)
    for _ in range(50):
        assert await refuse(counters, limits) == Refused(gently, 3000)
    engine.pass_s(0.0004)
    assert await refuse(counters, limits) == Refused(gently, 3000)  # rounded up
    engine.pass_s(3)
    await admit(counters, limits)


async def test_all_limits_admit_a_call_or_none_counts_it(engine: Machine, counters: Counters) -> None:
    short, long, other = rate_of(1, 1), rate_of(3, 60, key="all"), rate_of(1, 1, key="other")
    await admit(counters, limits_of(short, long))
    for _ in range(5):
        assert (await refuse(counters, limits_of(short, long))).limit == short
    assert await counters.usage(limits_of(short, long)) == [1, 1]
    await admit(counters, limits_of(long))
    await admit(counters, limits_of(long))
    assert await refuse(counters, limits_of(other, long)) == Refused(long, 20_000)
    assert await counters.usage(limits_of(other, long)) == [0, 3]


async def test_of_several_limits_the_longest_wait_is_named_and_of_equal_ones_the_first(
    counters: Counters,
) -> None:
    short, long = rate_of(1, 1), rate_of(1, 60)
    for each in ((short, long), (long, short)):
        await count_admitted(counters, limits_of(*each), 1)
        assert (await refuse(counters, limits_of(*each))).limit == long
    twin = rate_of(1, 60, key="twin")
    await count_admitted(counters, limits_of(twin), 1)
    assert (await refuse(counters, limits_of(long, twin))).limit == long


# --- slots ---


async def test_a_slot_is_free_when_its_call_is_released(counters: Counters) -> None:
    two = slots_of(2)
    first, second = await admit(counters, limits_of(two)), await admit(counters, limits_of(two))
    assert await refuse(counters, limits_of(two)) == Refused(two, 1000)
    await admit(counters, limits_of(slots_of(2, "other")))
    counters.release(first, ran=True)
    counters.release(first, ran=True)
    third = await admit(counters, limits_of(two))
    await refuse(counters, limits_of(two))
    counters.release(second, ran=False)
    counters.release(third, ran=True)
    assert await counters.usage(limits_of(two)) == [0]


async def test_a_call_that_asked_takes_its_slot_above_the_maximum(counters: Counters) -> None:
    limits = limits_of(slots_of(1), rate_of(2, HOUR_S), budget_of(2))
    asks = await admit(counters, limits)
    counters.release(asks, ran=True)
    other = await admit(counters, limits)
    asks = await admit(counters, limits, resumed=True)
    assert await counters.usage(limits) == [2, 2, 2]
    counters.release(other, ran=True)
    assert (await refuse(counters, limits_of(slots_of(1)))).limit == slots_of(1)
    counters.release(asks, ran=False)  # its budget belongs to the lease of before
    assert await counters.usage(limits) == [0, 2, 2]


async def test_a_released_lease_can_give_its_budget_back_later(counters: Counters) -> None:
    limits = limits_of(slots_of(1), budget_of(2))
    lease = await admit(counters, limits)
    counters.release(lease, ran=True)  # while a person is asked
    resumed = (await admit(counters, limits, resumed=True))._replace(day=lease.day)
    counters.release(resumed, ran=True)  # and asked again
    counters.release(resumed, ran=False)  # who does not agree
    assert await counters.usage(limits) == [0, 0]


# --- budgets ---


@pytest.mark.usefixtures("noon")
async def test_a_budget_begins_again_at_midnight(engine: Machine, counters: Counters) -> None:
    limits, others = limits_of(budget_of(3)), limits_of(budget_of(3, "other"))
    assert await count_admitted(counters, limits, 10) == 3
    assert await count_admitted(counters, others, 10) == 3
    engine.pass_s(HALF_DAY_S - 0.5)
    assert await refuse(counters, limits) == Refused(budget_of(3), 500)
    engine.pass_s(0.5)
    assert await count_admitted(counters, limits, 10) == 3


@pytest.mark.usefixtures("noon")
async def test_a_budget_is_given_back_if_the_tool_never_ran(engine: Machine, counters: Counters) -> None:
    limits = limits_of(budget_of(2))
    for _ in range(5):
        counters.release(await admit(counters, limits), ran=False)
    counters.release(await admit(counters, limits), ran=True)
    kept = await admit(counters, limits)
    await refuse(counters, limits)
    engine.pass_s(HALF_DAY_S)
    assert await count_admitted(counters, limits, 5) == 2
    counters.release(kept, ran=False)  # that was yesterday's
    assert await counters.usage(limits) == [2]


async def test_a_spent_budget_takes_nothing_of_the_rate(counters: Counters) -> None:
    rate, budget = rate_of(2, 60), budget_of(1)
    await admit(counters, limits_of(rate, budget))
    for _ in range(3):
        assert (await refuse(counters, limits_of(rate, budget))).limit == budget
    await admit(counters, limits_of(rate))


async def test_a_rate_is_not_given_back(counters: Counters) -> None:
    rate, budget = rate_of(1, 60), budget_of(5)
    counters.release(await admit(counters, limits_of(rate, budget)), ran=False)
    assert (await refuse(counters, limits_of(rate, budget))).limit == rate


# --- marks ---


async def test_a_call_that_answers_a_question_is_counted_once(engine: Machine, counters: Counters) -> None:
    limits = limits_of(rate_of(1, HOUR_S), budget_of(1))
    await admit(counters, limits)
    await refuse(counters, limits)
    counters.release(await admit(counters, limits, mark="m"), ran=True)
    await refuse(counters, limits, mark="m")
    counters.release(await admit(counters, limits, mark="n"), ran=True)
    engine.pass_s(899)
    await refuse(counters, limits, mark="m")
    engine.pass_s(1)
    await admit(counters, limits, mark="m")


async def test_a_refused_call_does_not_use_its_mark(counters: Counters) -> None:
    limits = limits_of(slots_of(1), rate_of(2, HOUR_S))
    running = await admit(counters, limits)
    assert (await refuse(counters, limits, mark="m")).limit == slots_of(1)
    counters.release(running, ran=True)
    counters.release(await admit(counters, limits, mark="m"), ran=True)
    assert await count_admitted(counters, limits, 5) == 1


@pytest.mark.usefixtures("noon")
async def test_a_call_that_answers_gives_back_what_was_spent_when_it_asked(
    engine: Machine, counters: Counters
) -> None:
    limits = limits_of(budget_of(2))
    for number in range(5):
        counters.release(await admit(counters, limits), ran=True)  # it ended with a question,
        counters.release(await admit(counters, limits, mark=f"m{number}"), ran=False)  # the answer was no
    assert await count_admitted(counters, limits, 5) == 2
    engine.pass_s(HALF_DAY_S)
    assert await count_admitted(counters, limits, 5) == 2
    counters.release(await admit(counters, limits, mark="of yesterday"), ran=False)
    engine.pass_s(899.5)
    counters.release(await admit(counters, limits, mark="perhaps of yesterday"), ran=False)
    assert await counters.usage(limits) == [2]
    engine.pass_s(0.5)  # nobody who answers now can have been asked before midnight
    counters.release(await admit(counters, limits, mark="of today"), ran=False)
    assert await counters.usage(limits) == [1]


# --- caps ---


@pytest.fixture
def few(engine: Machine, patient: None) -> Counters:
    """Counters with room for three keys of each kind."""
    if engine.path is None:
        alone = engine.count_alone()
        return MemoryCounters(now_ns=alone._now_ns, wall=engine.wall, max_keys=3)
    return SQLiteCounters(engine.start().file, max_keys=3)


async def test_where_all_rates_matter_a_new_key_is_refused_and_none_is_forgotten(
    engine: Machine, few: Counters
) -> None:
    for key in "abc":
        await admit(few, limits_of(rate_of(1, 10, key=key)))
        engine.pass_s(0.25)
    new = rate_of(1, 10, key="new")
    assert await refuse(few, limits_of(new)) == Refused(new, 1000)
    assert (await refuse(few, limits_of(rate_of(1, 10, key="a")))).retry_ms == 9250
    engine.pass_s(9.25)
    await admit(few, limits_of(new))


@pytest.mark.usefixtures("noon")
async def test_budgets_are_limited_in_number_and_end_with_the_day(engine: Machine, few: Counters) -> None:
    leases = [await admit(few, limits_of(budget_of(5, key))) for key in "abc"]
    await admit(few, limits_of(budget_of(5, "a")))
    new = limits_of(budget_of(5, "new"))
    assert (await refuse(few, new)).retry_ms == HALF_DAY_S * 1000
    few.release(leases[1], ran=False)
    await admit(few, new)
    await refuse(few, limits_of(budget_of(5, "b")))
    engine.pass_s(HALF_DAY_S)
    await admit(few, limits_of(budget_of(5, "b")))


async def test_where_all_marks_matter_a_new_one_counts_as_used(engine: Machine, few: Counters) -> None:
    limits = limits_of(rate_of(1, DAY_S))
    await admit(few, limits)
    for mark in "abc":
        await admit(few, limits, mark=mark)
    await refuse(few, limits, mark="d")
    engine.pass_s(900)
    await admit(few, limits, mark="d")


async def test_rates_that_no_longer_matter_are_forgotten_when_there_are_many(engine: Machine) -> None:
    counters = engine.count_alone()
    for number in range(SWEEP_FROM):
        await admit(counters, limits_of(rate_of(1, 10, key=f"{number}")))
    engine.pass_s(5)
    await admit(counters, limits_of(rate_of(1, 10, key="late")))
    assert len(counters._rates) == SWEEP_FROM + 1
    engine.pass_s(5)
    for number in range(SWEEP_FROM):
        await admit(counters, limits_of(rate_of(1, 10, key=f"more {number}")))
    assert len(counters._rates) == SWEEP_FROM + 1
    assert (await refuse(counters, limits_of(rate_of(1, 10, key="late")))).retry_ms == 5000


async def test_nothing_is_kept_of_calls_that_have_ended(engine: Machine) -> None:
    counters = engine.count_alone()
    limits = limits_of(slots_of(2), budget_of(2))
    leases = [await admit(counters, limits), await admit(counters, limits)]
    for lease in leases:
        counters.release(lease, ran=False)
    assert await counters.usage(limits) == [0, 0]
    assert (counters._running, counters._held, counters._spent) == ({}, set(), {})
