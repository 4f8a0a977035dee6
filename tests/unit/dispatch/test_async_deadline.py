"""Deadlines of coroutines: told in time, clean-up allowed, the stubborn let go."""

from __future__ import annotations

import asyncio
import gc
import logging
import time

import pytest

from tests.unit.dispatch.running import SOON_S, run_async, wait_until
from toolcrib.dispatch import deadline as steps
from toolcrib.dispatch.runners import Runner, ToolSlots
from toolcrib.errors import ToolTimeoutError

# --- deadlines ---


async def test_a_sleeping_coroutine_is_answered_at_its_deadline(runner, slots):
    async def work():
        await asyncio.sleep(3)

    started = time.monotonic()
    with pytest.raises(ToolTimeoutError, match=r"'probe' did not finish within 0\.2 s"):
        await run_async(runner, slots, work(), 0.2)
    assert 0.2 <= time.monotonic() - started < 0.2 + SOON_S
    assert asyncio.current_task().cancelling() == 0
    assert (slots.running, slots.abandoned, runner.abandoned) == (0, 0, 0)
    await asyncio.sleep(0)  # the caller's task is not cancelled afterwards


async def test_a_deadline_holds_for_a_coroutine_that_only_yields(runner, slots):
    async def work():
        while True:
            await asyncio.sleep(0)

    with pytest.raises(ToolTimeoutError):
        await run_async(runner, slots, work(), 0.05)
    assert asyncio.current_task().cancelling() == 0


async def test_a_zero_deadline_passes_at_the_first_suspension(runner, slots):
    async def quick():
        return 1

    async def slow():
        await asyncio.sleep(3)

    assert await run_async(runner, slots, quick(), 0.0) == 1
    with pytest.raises(ToolTimeoutError):
        await run_async(runner, slots, slow(), 0.0)


async def test_a_late_value_or_error_is_still_a_timeout(runner, slots):
    async def returns():
        try:
            await asyncio.sleep(3)
        except asyncio.CancelledError:
            return "too late"

    async def raises():
        try:
            await asyncio.sleep(3)
        finally:
            raise ValueError("while cleaning up")

    for work in (returns, raises):
        with pytest.raises(ToolTimeoutError):
            await run_async(runner, slots, work(), 0.02)
        assert asyncio.current_task().cancelling() == 0


async def test_clean_up_that_awaits_is_finished_in_the_callers_task(runner, slots):
    tasks = []

    async def work():
        try:
            await asyncio.sleep(3)
        finally:
            await asyncio.sleep(0)
            await asyncio.sleep(0.001)
            tasks.append(asyncio.current_task())

    with pytest.raises(ToolTimeoutError):
        await run_async(runner, slots, work(), 0.02)
    assert tasks == [asyncio.current_task()]
    assert slots.abandoned == 0


# --- coroutines that do not stop ---


async def test_a_stubborn_coroutine_is_let_go_and_counted_until_it_ends(runner, slots, caplog):
    caplog.set_level(logging.DEBUG, "toolcrib")
    release = asyncio.Event()
    tasks = []

    async def stubborn():
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                pass
        tasks.append(asyncio.current_task())
        return "nobody hears this"

    started = time.monotonic()
    with pytest.raises(ToolTimeoutError):
        await run_async(runner, slots, stubborn(), 0.1)
    assert 0.1 <= time.monotonic() - started < 0.1 + SOON_S
    assert asyncio.current_task().cancelling() == 0
    assert (slots.running, slots.abandoned, runner.abandoned) == (1, 1, 1)
    gc.collect()  # its task is held by somebody
    release.set()
    await wait_until(lambda: slots.abandoned == 0)
    assert (slots.running, runner.abandoned) == (0, 0)
    assert tasks
    assert tasks[0] is not asyncio.current_task()


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError])
async def test_anything_that_an_abandoned_coroutine_raises_is_dropped(runner, slots, kind):
    async def stubborn():
        try:
            await asyncio.sleep(3)
        except asyncio.CancelledError:
            await asyncio.sleep(steps.TIMEOUT_GRACE_S * 2)
        raise kind("nobody hears this")

    with pytest.raises(ToolTimeoutError):
        await run_async(runner, slots, stubborn(), 0.02)
    assert slots.abandoned == 1
    await wait_until(lambda: slots.abandoned == 0)  # and the loop is alive to see it


def test_a_loop_can_end_while_an_abandoned_coroutine_refuses_to():
    runner, slots = Runner(), ToolSlots("probe")
    cancellations = []

    async def stubborn():
        while len(cancellations) < 1000:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancellations.append(1)

    async def main():
        with pytest.raises(ToolTimeoutError):
            await run_async(runner, slots, stubborn(), 0.02)

    started = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - started < 0.02 + steps.CANCEL_GRACE_S + 2 * SOON_S
    assert len(cancellations) == 2  # by its deadline, and by the loop that ended
    assert (slots.running, slots.abandoned) == (0, 0)
