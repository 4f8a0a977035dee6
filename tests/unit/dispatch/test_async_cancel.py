"""Cancellations of a running coroutine, and whom they belong to."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.unit.dispatch.running import SOON_S, run_async, start, wait_until
from toolcrib.dispatch import deadline as steps
from toolcrib.dispatch.failures import Raised
from toolcrib.errors import ToolTimeoutError

# --- cancellation from outside ---


async def test_cancelling_the_caller_cancels_the_coroutine(runner, slots):
    seen = []

    async def work():
        try:
            await asyncio.sleep(3)
        except asyncio.CancelledError as error:
            seen.append(error.args)
            raise

    task = await start(runner, slots, work(), 5.0)
    task.cancel("enough")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert seen == [("enough",)]
    assert slots.running == 0


async def test_a_tool_cannot_swallow_the_cancellation_of_its_caller(runner, slots):
    async def work():
        try:
            await asyncio.sleep(3)
        except asyncio.CancelledError:
            return "never mind"

    async def work_and_fail():
        try:
            await asyncio.sleep(3)
        except asyncio.CancelledError:
            raise ValueError("never mind") from None

    for tool in (work, work_and_fail):
        task = await start(runner, slots, tool())
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()


async def test_a_cancelled_caller_is_free_although_the_tool_is_stubborn(runner, slots):
    release = asyncio.Event()

    async def stubborn():
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                pass

    task = await start(runner, slots, stubborn())
    started = time.monotonic()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert time.monotonic() - started < steps.CANCEL_GRACE_S + SOON_S
    assert (slots.running, slots.abandoned) == (1, 1)
    release.set()
    await wait_until(lambda: slots.abandoned == 0)


async def test_cancelling_again_reaches_what_the_clean_up_waits_for(runner, slots):
    seen = []

    async def work():
        for _ in range(2):
            try:
                await asyncio.sleep(3)
            except asyncio.CancelledError:
                seen.append(True)

    task = await start(runner, slots, work())
    task.cancel()
    await wait_until(lambda: len(seen) == 1)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert len(seen) == 2
    assert slots.abandoned == 0


async def test_a_deadline_in_the_middle_of_clean_up_shortens_it(runner, slots):
    release = asyncio.Event()

    async def stubborn():
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                pass

    task = await start(runner, slots, stubborn(), 0.05)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()  # both happened: the outside one is the one to obey
    release.set()
    await wait_until(lambda: slots.abandoned == 0)


@pytest.mark.parametrize("deadline_first", [True, False])
async def test_when_deadline_and_outside_cancel_coincide_the_cancel_wins(runner, slots, deadline_first):
    loop = asyncio.get_running_loop()
    clock = steps.Clock(3.0)

    async def work():
        await asyncio.sleep(3)

    task = asyncio.create_task(run_async(runner, slots, work(), 3.0, clock))
    await wait_until(lambda: clock._expire is not None)
    actions = [clock._expire, task.cancel]
    for action in actions if deadline_first else reversed(actions):
        loop.call_soon(action)
    await asyncio.wait([task])
    assert task.cancelled()
    assert slots.running == 0


async def test_the_callers_own_timeout_comes_out_as_its_timeout(runner, slots):
    async def work():
        await asyncio.sleep(3)

    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(0.02):
            await run_async(runner, slots, work(), 5.0)
    assert not isinstance(caught.value, ToolTimeoutError)
    assert asyncio.current_task().cancelling() == 0


# --- cancellation from inside ---


async def test_a_cancelled_error_nobody_asked_for_is_the_tools_own_error(runner, slots):
    async def raises():
        raise asyncio.CancelledError("mine")

    async def awaits_a_cancelled_task():
        inner = asyncio.create_task(asyncio.sleep(3))
        asyncio.get_running_loop().call_soon(inner.cancel)
        await inner

    for work in (raises, awaits_a_cancelled_task):
        with pytest.raises(Raised) as caught:
            await run_async(runner, slots, work(), 1.0)
        assert isinstance(caught.value.error, asyncio.CancelledError)
        assert asyncio.current_task().cancelling() == 0


async def test_a_timeout_inside_the_tool_is_the_tools_affair(runner, slots):
    async def work():
        try:
            async with asyncio.timeout(0.02):
                await asyncio.sleep(3)
        except TimeoutError:
            await asyncio.sleep(0.001)
            return "handled"

    async def lets_it_out():
        async with asyncio.timeout(0.02):
            await asyncio.sleep(3)

    assert await run_async(runner, slots, work(), 5.0) == "handled"
    with pytest.raises(Raised) as caught:
        await run_async(runner, slots, lets_it_out(), 5.0)
    assert type(caught.value.error) is TimeoutError


async def test_the_deadline_still_holds_after_a_timeout_inside_the_tool(runner, slots):
    async def work():
        try:
            async with asyncio.timeout(0.02):
                try:
                    await asyncio.sleep(3)
                finally:
                    await asyncio.sleep(0.01)
        except TimeoutError:
            await asyncio.sleep(3)

    started = time.monotonic()
    with pytest.raises(ToolTimeoutError):
        await run_async(runner, slots, work(), 0.1)
    assert time.monotonic() - started < 0.1 + SOON_S
    assert slots.abandoned == 0


async def test_a_deadline_ends_a_task_group_inside_the_tool_cleanly(runner, slots):
    ended = []

    async def child():
        try:
            await asyncio.sleep(3)
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    async def work():
        async with asyncio.TaskGroup() as group:
            group.create_task(child())
            group.create_task(child())

    with pytest.raises(ToolTimeoutError):
        await run_async(runner, slots, work(), 0.02)
    assert ended == [True, True]
    assert slots.abandoned == 0
