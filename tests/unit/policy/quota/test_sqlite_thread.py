"""A thread that hangs, or is slow, or hears of things in an unusual order."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from tests.unit.policy.quota.support import (
    Clocks,
    Slow,
    Stuck,
    count_admitted,
    enter,
    refused,
    settle,
    works_again,
)
from toolcrib.policy import Limit
from toolcrib.policy.quota import sqlite_store as sqlite
from toolcrib.policy.quota.sqlite_store import Job

SOON_S = 3.0
"""The most that a bounded wait of a quarter of a second may take on a noisy machine."""


async def test_a_store_that_hangs_holds_nobody_up(on_file):
    clocks = Stuck()
    quota = on_file(Limit(rate="100/h", concurrency=50), clocks=clocks)
    await quota.open()
    paused = await enter(quota)
    paused.pause()
    await settle(quota)
    clocks.go_on.clear()
    try:
        began = time.monotonic()
        slots = await asyncio.gather(*(enter(quota) for _ in range(5)))
        await paused.resume()
        assert time.monotonic() - began < SOON_S
        assert await count_admitted(quota, 50) == 0  # as five run here, which is its share
        for slot in slots:
            slot.leave(ran=True)
        assert await count_admitted(quota, 50) == 5
    finally:
        clocks.go_on.set()
    await works_again(quota)
    paused.leave(ran=True)
    await settle(quota)
    assert quota.describe_store()["places"] == 0  # what hung has been let in meanwhile, and has left
    assert await count_admitted(quota, 300) == 94  # though its rate was taken


async def test_a_store_that_is_only_slow_is_waited_for(on_file, monkeypatch):
    monkeypatch.setattr(sqlite, "BATCH", 1)
    quota = on_file(Limit(rate="100/h"), clocks=Slow())
    await quota.open()
    began = time.monotonic()
    slots = await asyncio.gather(*(enter(quota) for _ in range(12)))
    assert time.monotonic() - began > sqlite.WAIT_S
    assert {slot.store for slot in slots} == {quota._store}
    assert quota.describe_store()["outages"] == 0


class StuckOnce(Clocks):
    """Keeps the store's thread from its work at one of its looks at the clock."""

    def __init__(self, look: int) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self._left = look

    def now(self) -> float:
        if threading.current_thread().name == "toolcrib-limits":
            self._left -= 1
            assert self._left or self.go_on.wait(30)
        return super().now()


@pytest.mark.parametrize("look", [2, 4])  # when it has opened the file; and when it has let in the first
async def test_a_store_that_gets_on_is_waited_for(on_file, monkeypatch, look):
    monkeypatch.setattr(sqlite, "BATCH", 1)
    monkeypatch.setattr(sqlite, "WAIT_S", 0.5)
    clocks = StuckOnce(look)
    quota = on_file(Limit(rate="100/h"), clocks=clocks)
    asyncio.get_running_loop().call_later(0.6, clocks.go_on.set)
    await asyncio.gather(enter(quota), enter(quota))
    assert clocks.go_on.is_set()
    assert quota.describe_store()["outages"] == 0


async def test_a_store_that_nobody_closes_keeps_no_process_from_ending(on_file):
    await on_file(Limit(rate="100/h")).open()
    assert [each.daemon for each in threading.enumerate() if each.name == "toolcrib-limits"] == [True]


async def test_a_call_that_comes_while_the_store_is_closed_is_counted(on_file, monkeypatch, patient):
    monkeypatch.setattr(sqlite, "BATCH", 1)
    clocks, limit = Stuck(), Limit(concurrency=1, per="all")
    quota = on_file(limit, clocks=clocks)
    await quota.open()
    clocks.go_on.clear()
    ending, entering = asyncio.create_task(quota.close()), asyncio.create_task(enter(quota))
    await asyncio.sleep(0)
    clocks.go_on.set()
    await ending
    await entering
    await refused(on_file(limit))


async def test_an_answer_that_comes_before_it_is_waited_for_is_heard():
    job = Job(lambda: True)
    job.expect_answer()
    job.set_answer(1.0)
    assert await job.wait(30)
    job.set_answer(True)
    assert await job.wait_in_queue(30) is True


async def test_a_call_that_is_left_before_the_store_hears_that_it_came_back_takes_no_place(on_file):
    clocks = Stuck()
    quota = on_file(Limit(concurrency=1, per="all"), clocks=clocks)
    await quota.open()
    slot = await enter(quota)
    slot.pause()
    await settle(quota)
    clocks.go_on.clear()
    back = asyncio.create_task(slot.resume())
    await asyncio.sleep(0)
    slot.leave(ran=True)
    clocks.go_on.set()
    await back
    await enter(quota)


async def test_a_call_that_comes_back_and_asks_again_at_once_does_not_wait_for_ever(on_file, patient):
    clocks = Stuck()
    quota = on_file(Limit(concurrency=1), clocks=clocks)
    await quota.open()
    asking = await enter(quota)
    asking.pause()
    other = await enter(quota)  # has the only place
    await settle(quota)
    clocks.go_on.clear()
    returning = asyncio.create_task(asking.resume())
    await asyncio.sleep(0)
    asking.pause()  # before the thread has looked: both are done in one go
    clocks.go_on.set()
    other.leave(ran=True)
    await asyncio.wait_for(asyncio.gather(returning, asking.resume()), 10)
    asking.leave(ran=True)
