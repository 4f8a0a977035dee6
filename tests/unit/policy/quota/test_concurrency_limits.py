"""Limits on concurrency: the queue, its order and its timeouts."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tests.unit.policy.quota.machines import (
    ANA,
    BEN,
    OTHER,
    REPORT,
    Clocks,
    count_admitted,
    enter,
    line_up,
    quota_of,
    refused,
    run_virtually,
    settle,
    tool,
    wait_until,
)
from toolcrib.errors import ThrottledError
from toolcrib.policy import Limit
from toolcrib.policy.quota import Slot


async def test_no_more_run_at_once_than_may(make):
    quota = make(Limit(concurrency=2, name="two"))
    first, second = await enter(quota), await enter(quota)
    error = await refused(quota)
    assert str(error) == "Too many calls of 'report' at once: try again in 1 s."
    assert error.details == {"limit": "two", "kind": "concurrency", "retryAfterS": 1.0}
    assert first.limits.is_counted
    first.leave(ran=True)
    first.leave(ran=True)
    third = await enter(quota)
    await refused(quota)
    await enter(quota, BEN)
    second.leave(ran=False)
    third.leave(ran=True)
    await enter(quota)


async def test_places_are_passed_on_in_the_order_of_arrival(make):
    quota = make(Limit(concurrency=1, queue=3, queue_s=30))
    running = await enter(quota)
    tasks = await line_up(quota, *(enter(quota) for _ in range(3)))
    await refused(quota)
    for task in tasks:
        assert not task.done()
        running.leave(ran=True)
        running = await task
    assert quota.describe_store()["waiting"] == 0
    running.leave(ran=True)
    (await enter(quota)).leave(ran=True)


async def test_whoever_comes_later_does_not_overtake_those_in_line(make):
    quota = make(Limit(concurrency=2, queue=2, queue_s=30))
    first, second = await enter(quota), await enter(quota)
    (waiting,) = await line_up(quota, enter(quota))
    first.leave(ran=True)
    third = await waiting
    (late,) = await line_up(quota, enter(quota))
    assert not late.done()
    second.leave(ran=True)
    third.leave(ran=True)
    (await late).leave(ran=True)


async def test_a_wait_that_is_too_long_ends_with_a_refusal_and_leaves_nothing(make):
    quota = make(Limit(concurrency=1, queue=1, queue_s=0.02, rate="3/h", daily=3, name="slow"))
    running = await enter(quota)
    error = await refused(quota)
    assert str(error) == "No slot for a call of 'report' became free within 0.02 s: try again in 1 s."
    assert error.details == {"limit": "slow", "kind": "concurrency", "retryAfterS": 1.0}
    running.leave(ran=True)
    await settle(quota)
    assert quota.describe_store()["waiting"] == 0
    assert await count_admitted(quota, 5) == 2  # the refused one took neither rate nor budget


async def test_a_call_that_is_cancelled_in_line_leaves_nothing_and_the_next_one_moves_up(make):
    quota = make(Limit(concurrency=1, queue=2, queue_s=30, rate="4/h", daily=4))
    running = await enter(quota)
    gone, stays = await line_up(quota, enter(quota), enter(quota))
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    await settle(quota)
    assert quota.describe_store()["waiting"] == 1
    (third,) = await line_up(quota, enter(quota))
    running.leave(ran=True)
    (await stays).leave(ran=True)
    (await third).leave(ran=True)
    assert await count_admitted(quota, 5) == 1


async def test_a_place_that_was_handed_to_a_cancelled_call_goes_to_the_next():
    quota = quota_of(Clocks(), Limit(concurrency=1, queue=2, queue_s=30))
    running = await enter(quota)
    gone, stays = await line_up(quota, enter(quota), enter(quota))
    running.leave(ran=True)  # now it is the turn of the first, which does not know yet
    gone.cancel()
    (await stays).leave(ran=True)
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert quota.describe_store() == {"store": "memory", "places": 0, "waiting": 0, "rates": 0}


async def test_those_in_line_have_their_rate_reserved(make, clocks):
    quota = make(Limit(concurrency=1, queue=5, queue_s=30), Limit(rate="3/min", per="all", name="rate"))
    running = await enter(quota)
    tasks = await line_up(quota, enter(quota), enter(quota))
    error = await refused(quota, BEN)
    assert error.details == {"limit": "rate", "kind": "rate", "retryAfterS": 20.0}
    clocks.tick(20)
    (await enter(quota, BEN)).leave(ran=True)
    clocks.tick(1000)  # what is reserved stays so, and is not taken before it is used
    assert (await enter(quota, BEN)).leave(ran=True) is None
    assert (await refused(quota, BEN)).details["kind"] == "rate"
    running.leave(ran=True)
    for task in tasks:
        (await task).leave(ran=True)
    assert (await refused(quota, BEN)).details["retryAfterS"] == 20.0


async def test_the_reservation_of_a_new_count_is_counted_too(make):
    quota = make(
        Limit(concurrency=1, queue=5, queue_s=30, per="tool"), Limit(rate="7/min", burst=1, name="rate")
    )
    running = await enter(quota, ANA)
    (waiting,) = await line_up(quota, enter(quota, BEN))
    said = {"limit": "rate", "kind": "rate", "retryAfterS": 8.572}
    assert (await refused(quota, BEN, OTHER)).details == said
    running.leave(ran=True)
    (await waiting).leave(ran=True)
    assert (await refused(quota, BEN, OTHER)).details == said  # taken now, and not twice


async def test_a_budget_is_spent_by_those_in_line_and_given_back_when_they_go(make):
    quota = make(Limit(concurrency=1, queue=5, queue_s=30, daily=2))
    running = await enter(quota)
    (waiting,) = await line_up(quota, enter(quota))
    assert (await refused(quota)).details["kind"] == "budget"
    waiting.cancel()
    await asyncio.wait([waiting])
    await settle(quota)
    running.leave(ran=True)
    await enter(quota)


async def test_a_call_with_two_limits_keeps_its_turn_in_both(make):
    quota = make(
        Limit(concurrency=2, queue=9, queue_s=30, name="each"),
        Limit(tools=["report"], per="all", concurrency=1, queue=9, queue_s=30),
    )
    theirs = await enter(quota, BEN, REPORT)
    mine = await enter(quota, ANA, OTHER)
    (both,) = await line_up(quota, enter(quota, ANA, REPORT))  # waits for the report, has room of its own
    (late,) = await line_up(quota, enter(quota, ANA, OTHER))  # has to wait behind it all the same
    theirs.leave(ran=True)
    (await both).leave(ran=True)
    (await late).leave(ran=True)
    mine.leave(ran=True)


async def test_a_call_that_waits_elsewhere_does_not_keep_others_from_room_that_it_does_not_need(make):
    quota = make(
        Limit(concurrency=3, queue=9, queue_s=30),
        Limit(tools=["report"], per="all", concurrency=1, queue=9, queue_s=30),
    )
    theirs = await enter(quota, BEN, REPORT)
    await enter(quota, ANA, OTHER)
    (both,) = await line_up(quota, enter(quota, ANA, REPORT))
    await enter(quota, ANA, OTHER)
    assert not both.done()
    theirs.leave(ran=True)
    await both


async def test_only_a_limit_that_is_full_asks_for_room_in_its_queue(make):
    quota = make(
        Limit(concurrency=5, name="wide"),
        Limit(concurrency=1, queue=1, queue_s=30, per="tool", name="narrow"),
    )
    first = await enter(quota)
    (waiting,) = await line_up(quota, enter(quota))  # though "wide" has no queue
    assert (await refused(quota)).details["limit"] == "narrow"
    first.leave(ran=True)
    await waiting


async def test_the_shortest_patience_of_the_full_limits_counts(make):
    quota = make(
        Limit(concurrency=1, queue=1, queue_s=0.02, name="short"),
        Limit(concurrency=1, queue=1, queue_s=30, name="long"),
        Limit(concurrency=9, queue=1, queue_s=0.001, name="free"),
    )
    await enter(quota)
    assert (await refused(quota)).details["limit"] == "short"
    quota = make(
        Limit(concurrency=1, queue=1, queue_s=30, name="long"),
        Limit(concurrency=1, queue=1, queue_s=0.02, name="short"),
    )
    await enter(quota, BEN)
    assert (await refused(quota, BEN)).details["limit"] == "short"


def test_the_wait_in_line_is_as_long_as_it_says():
    async def story(clocks: Clocks) -> None:
        quota = quota_of(clocks, Limit(concurrency=1, queue=1, queue_s=7.5))
        await enter(quota)
        before = clocks.now_s
        await refused(quota)
        assert clocks.now_s - before == pytest.approx(7.5)

    run_virtually(story)


async def test_a_place_that_becomes_free_between_asking_and_waiting_is_taken():
    quota = quota_of(Clocks(), Limit(concurrency=1, queue=1))
    running = await enter(quota)
    entered = quota.enter(ANA, REPORT, len)
    assert entered is not None
    assert not isinstance(entered, Slot)
    running.leave(ran=True)
    assert isinstance(await entered, Slot)


def test_a_loop_that_ended_with_calls_in_line_takes_no_place_with_it():
    quota = quota_of(Clocks(), Limit(concurrency=1, queue=2, queue_s=30, per="all"))
    slots: list[Slot] = []
    kept: list[object] = []

    async def take() -> None:
        slots.append(await enter(quota))

    async def leave_in_line() -> None:
        kept.append(asyncio.create_task(enter(quota)))
        await wait_until(lambda: quota.describe_store()["waiting"] == 1)

    asyncio.run(take())
    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave_in_line())
    loop.close()  # without a word to the call in line
    slots.pop().leave(ran=True)
    assert quota.describe_store()["places"] == 0
    asyncio.run(take())
    kept[0]._log_destroy_pending = False  # type: ignore[attr-defined]


def test_a_place_that_is_freed_on_another_thread_wakes_who_waits():
    quota = quota_of(Clocks(), Limit(concurrency=1, queue=1, queue_s=30))

    async def story() -> None:
        running = await enter(quota)
        (waiting,) = await line_up(quota, enter(quota))
        threading.Thread(target=lambda: running.leave(ran=True)).start()
        (await asyncio.wait_for(waiting, 5)).leave(ran=True)

    asyncio.run(story())


async def test_tags_are_places_too(make):
    quota = make(Limit(concurrency=1, per="tag"))
    await enter(quota, ANA, tool("x", tags=["a", "b"]))
    with pytest.raises(ThrottledError):
        await enter(quota, ANA, tool("y", tags=["b"]))
    await enter(quota, ANA, tool("z", tags=["c"]))
