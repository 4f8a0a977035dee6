"""Marks that can be used once, and calls that are made again with an answer."""

from __future__ import annotations

import asyncio

from tests.unit.policy.quota.machines import (
    ANA,
    BEN,
    Clocks,
    count_admitted,
    enter,
    line_up,
    quota_of,
    refused,
    settle,
)
from toolcrib.policy import Limit
from toolcrib.policy.quota.memory_store import MemoryStore


async def test_a_mark_burns_once_until_its_time_is_over(make, clocks):
    quota = make(Limit(rate="1/s"))
    assert await quota.use_once("m", 600)
    assert not await quota.use_once("m", 600)
    assert await quota.use_once("n", 600)
    clocks.tick(599.999)
    assert not await quota.use_once("m", 600)
    clocks.tick(0.001)
    assert await quota.use_once("m", 600)


async def test_a_call_that_comes_again_is_no_second_hit_the_first_time(make, clocks):
    quota = make(Limit(rate="1/h", daily=1))
    (await enter(quota)).leave(ran=True)
    await refused(quota)
    (await enter(quota, resumes="m")).leave(ran=True)
    await refused(quota, resumes="m")
    (await enter(quota, resumes="n")).leave(ran=True)
    clocks.tick(899)
    await refused(quota, resumes="m")
    assert await quota.use_once("m", 600)  # a confirmation has the same mark, and is another matter


async def test_a_call_that_comes_again_gives_its_budget_back_once(make):
    quota = make(Limit(daily=2))
    (await enter(quota)).leave(ran=True)
    slot = await enter(quota, resumes="m")
    slot.leave(ran=False)
    slot.leave(ran=False)
    (await enter(quota, resumes="m")).leave(ran=True)  # its mark is used up: a call like any other
    assert await count_admitted(quota, 5) == 1


async def test_a_call_that_comes_again_needs_a_place(make):
    quota = make(Limit(concurrency=1, rate="9/h"))
    running = await enter(quota)
    assert (await refused(quota, resumes="m")).details["kind"] == "concurrency"
    running.leave(ran=True)
    (await enter(quota, resumes="m")).leave(ran=True)  # the refusal did not use it up
    assert await count_admitted(quota, 20) == 8
    await refused(quota, resumes="m")


async def test_a_mark_is_used_up_in_line_and_free_again_when_the_call_goes(make):
    quota = make(Limit(concurrency=1, queue=5, queue_s=30), Limit(rate="1/h", per="all"))
    running = await enter(quota)
    (waiting,) = await line_up(quota, enter(quota, resumes="m"))
    assert (await refused(quota, BEN, resumes="m")).details["kind"] == "rate"
    waiting.cancel()
    await asyncio.wait([waiting])
    await settle(quota)
    running.leave(ran=True)
    again = await enter(quota, resumes="m")
    (back,) = await line_up(quota, enter(quota, ANA, resumes="n"))
    again.leave(ran=True)
    (await back).leave(ran=True)
    await refused(quota, resumes="n")


async def test_a_mark_that_another_call_used_up_stays_so_when_a_second_one_leaves_the_line(make):
    quota = make(Limit(concurrency=1, queue=5, queue_s=30, rate="3/h"))
    running = await enter(quota)
    (first,) = await line_up(quota, enter(quota, resumes="m"))
    (second,) = await line_up(quota, enter(quota, resumes="m"))  # is charged, as the mark is used
    second.cancel()
    await asyncio.wait([second])
    await settle(quota)
    running.leave(ran=True)
    (await first).leave(ran=True)
    assert await count_admitted(quota, 5) == 2
    await refused(quota, resumes="m")


def test_where_no_more_marks_fit_a_new_one_counts_as_used_until_old_ones_end():
    clocks = Clocks()
    store = MemoryStore(clocks.now_ns, clocks.wall, max_buckets=2)
    assert [store.use_once(mark, 10) for mark in "abc"] == [True, True, False]
    assert not store.use_once("a", 10)
    clocks.tick(10)
    assert [store.use_once(mark, 10) for mark in "cab"] == [True, True, False]


async def test_no_process_forgets_a_mark_because_of_others():
    quota = quota_of(Clocks(), Limit(rate="9/s"))
    marks = [f"m{number}" for number in range(5000)]
    assert all([await quota.use_once(mark, 600) for mark in marks])
    assert not any([await quota.use_once(mark, 600) for mark in marks])
