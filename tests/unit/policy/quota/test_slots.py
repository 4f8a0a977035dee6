"""What a slot says, and how its place comes and goes while the call lives."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.policy.quota.support import (
    ANA,
    BEN,
    REPORT,
    Clocks,
    enter,
    line_up,
    quota_of,
    refused,
    settle,
)
from toolcrib.policy import Limit
from toolcrib.policy.quota import Quota, Slot


async def is_full(quota: Quota) -> bool:
    """Whether one more call would be refused."""
    await settle(quota)
    try:
        slot = await enter(quota, BEN)
    except Exception:
        return True
    slot.leave(ran=True)
    return False


def one_at_once(make, **more) -> Quota:
    return make(Limit(concurrency=1, per="all", **more))


async def test_a_slot_says_the_shortest_time_and_the_smallest_result():
    quota = quota_of(
        Clocks(),
        Limit(timeout_s=5, max_result_bytes=100),
        Limit(timeout_s=3, max_result_bytes=200),
        Limit(max_arguments_bytes=9),
    )
    slot = quota.enter(ANA, REPORT, lambda: 9)
    assert isinstance(slot, Slot)
    told = slot.limits
    assert (told.timeout_s, told.max_result_bytes, told.is_counted) == (3, 100, False)


async def test_a_slot_without_counts_can_be_used_like_any_other():
    slot = await enter(quota_of(Clocks(), Limit(timeout_s=5)))
    slot.pause()
    await slot.resume()
    slot.outlive()()
    slot.leave(ran=True)
    assert (slot.limits.timeout_s, slot.limits.max_result_bytes) == (5, None)


async def test_a_rate_alone_takes_no_place(make):
    slot = await enter(make(Limit(rate="5/s")))
    assert not slot.limits.is_counted
    slot.pause()
    await slot.resume()
    slot.leave(ran=True)


async def test_a_place_is_free_while_a_person_is_asked(make):
    quota = one_at_once(make)
    slot = await enter(quota)
    assert await is_full(quota)
    slot.pause()
    assert not await is_full(quota)
    await slot.resume()
    assert quota.describe_store()["places"] == 1
    assert await is_full(quota)
    slot.leave(ran=True)
    assert not await is_full(quota)


async def test_who_comes_back_goes_ahead_of_the_line_and_is_never_refused(make):
    quota = one_at_once(make, queue=1, queue_s=30)
    asked = await enter(quota)
    asked.pause()
    running = await enter(quota)
    (waiting,) = await line_up(quota, enter(quota))
    back = asyncio.create_task(asked.resume())
    await settle(quota)
    assert not back.done()
    running.leave(ran=True)
    await back
    told = quota.describe_store()
    assert (told["places"], told["waiting"]) == (1, 1)
    asked.leave(ran=True)
    (await waiting).leave(ran=True)


@pytest.mark.parametrize("in_line", [0, 3])
async def test_who_comes_back_first_goes_first_whoever_else_is_in_line(make, in_line):
    quota = one_at_once(make, queue=3, queue_s=30)
    slots = []
    for _ in range(3):
        slots.append(await enter(quota))
        slots[-1].pause()
        await settle(quota)
    await slots[2].resume()
    others = await line_up(quota, *(enter(quota) for _ in range(in_line)))
    first = asyncio.create_task(slots[1].resume())
    await settle(quota)
    second = asyncio.create_task(slots[0].resume())
    await settle(quota)
    slots[2].leave(ran=True)
    await first
    assert not second.done()
    slots[1].leave(ran=True)
    await second
    slots[0].leave(ran=True)
    for other in others:
        (await other).leave(ran=True)
    assert not await is_full(quota)


async def test_who_comes_back_goes_ahead_however_many_have_come_back_since_the_line_began(path, patient):
    for store in (None, path):  # one test for both, as they share the rank to begin with
        quota = quota_of(Clocks(), Limit(concurrency=1, queue=1, queue_s=30), store=store)
        asked, busy = await enter(quota), await enter(quota, BEN)
        asked.pause()
        running = await enter(quota)
        (waiting,) = await line_up(quota, enter(quota))
        for _ in range(150):
            busy.pause()
            await busy.resume()
        back = asyncio.create_task(asked.resume())
        await settle(quota)
        running.leave(ran=True)
        await asyncio.wait_for(back, 5)
        assert quota.describe_store()["waiting"] == 1
        asked.leave(ran=True)
        (await waiting).leave(ran=True)
        await quota.close()


async def test_pauses_add_up(make):
    quota = one_at_once(make)
    slot = await enter(quota)
    slot.pause()
    slot.pause()
    await slot.resume()
    assert not await is_full(quota)
    await slot.resume()
    assert await is_full(quota)
    slot.leave(ran=True)


async def test_leaving_during_a_pause_frees_nothing_twice(make):
    quota = make(Limit(concurrency=2, per="all"))
    slot, other = await enter(quota), await enter(quota)
    slot.pause()
    slot.leave(ran=True)
    slot.pause()
    await slot.resume()
    await slot.resume()
    await enter(quota)
    assert await is_full(quota)
    other.leave(ran=True)


async def test_a_call_that_is_cancelled_while_it_waits_to_come_back_leaves_nothing(make):
    quota = one_at_once(make)
    asked = await enter(quota)
    asked.pause()
    running = await enter(quota)
    back = asyncio.create_task(asked.resume())
    await settle(quota)
    assert quota.describe_store()["waiting"] == 1
    back.cancel()
    with pytest.raises(asyncio.CancelledError):
        await back
    running.leave(ran=True)
    assert not await is_full(quota)
    assert quota.describe_store()["waiting"] == 0
    asked.leave(ran=True)
    assert not await is_full(quota)


async def test_a_call_that_is_left_while_it_waits_to_come_back_waits_no_longer(make):
    quota = one_at_once(make)
    asked = await enter(quota)
    asked.pause()
    running = await enter(quota)
    back = asyncio.create_task(asked.resume())
    await settle(quota)
    asked.leave(ran=True)
    await asyncio.wait_for(back, 5)
    assert await is_full(quota)
    running.leave(ran=True)
    assert not await is_full(quota)


async def test_a_place_stays_taken_until_the_code_ends_that_outlived_its_call(make):
    quota = one_at_once(make, daily=9)
    slot = await enter(quota)
    first, second = slot.outlive(), slot.outlive()
    slot.leave(ran=True)
    assert await is_full(quota)
    first()
    first()
    assert await is_full(quota)
    second()
    assert not await is_full(quota)
    slot.outlive()()
    slot.leave(ran=True)
    assert not await is_full(quota)


async def test_code_that_ends_before_its_call_is_left_frees_nothing_yet(make):
    quota = one_at_once(make)
    slot = await enter(quota)
    slot.outlive()()
    assert await is_full(quota)
    slot.leave(ran=True)
    assert not await is_full(quota)


@pytest.mark.parametrize("asks_first", [True, False])
async def test_code_that_outlived_its_call_has_a_place_except_while_it_asks(make, asks_first):
    quota = one_at_once(make)
    slot = await enter(quota)
    end = slot.outlive()
    if asks_first:
        slot.pause()
    slot.leave(ran=True)
    if not asks_first:
        assert await is_full(quota)
        slot.pause()
    assert not await is_full(quota)
    await slot.resume()
    assert await is_full(quota)
    end()
    assert not await is_full(quota)


async def test_a_place_that_becomes_free_gives_no_budget_back(make):
    quota = make(Limit(daily=1, concurrency=5))
    slot = await enter(quota)
    slot.pause()
    await slot.resume()
    end = slot.outlive()
    slot.leave(ran=True)
    end()
    assert (await refused(quota)).details["kind"] == "budget"


async def test_a_budget_is_given_back_at_once_though_the_code_runs_on(make):
    quota = make(Limit(daily=1, concurrency=5))
    slot = await enter(quota)
    slot.outlive()
    slot.leave(ran=False)
    await enter(quota)
    assert (await refused(quota)).details["kind"] == "budget"
