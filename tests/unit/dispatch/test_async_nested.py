"""Calls inside calls and inside the scopes of anyio, which belong to their task."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from tests.unit.dispatch.running import run_async, wait_until
from toolcrib.dispatch import deadline as steps
from toolcrib.dispatch.runners import ToolSlots
from toolcrib.errors import ToolTimeoutError

# --- anyio, whose scopes belong to their task and cancel it again and again ---


async def test_an_anyio_scope_inside_the_tool_times_out_by_itself(runner, slots):
    async def work():
        try:
            with anyio.fail_after(0.02):
                async with anyio.create_task_group() as group:
                    group.start_soon(anyio.sleep, 3)
                    group.start_soon(anyio.sleep, 3)
                    await anyio.sleep(3)
        except TimeoutError:
            await anyio.sleep(0.001)
            return "handled"

    assert await run_async(runner, slots, work(), 5.0) == "handled"
    assert asyncio.current_task().cancelling() == 0


async def test_a_deadline_in_an_anyio_task_group_leaves_the_caller_unharmed(runner, slots):
    async def work():
        with anyio.fail_after(0.1):
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep, 3)
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(3)

    with pytest.raises(ToolTimeoutError):
        await run_async(runner, slots, work(), 0.02)
    assert slots.abandoned == 0
    await asyncio.sleep(0.15)  # the scope's own time passes: it must be gone by now
    assert asyncio.current_task().cancelling() == 0


async def test_an_anyio_scope_around_a_stubborn_call_gets_free(runner, slots):
    stop = []

    async def stubborn():
        while not stop:
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                pass

    with anyio.move_on_after(0.02) as scope:
        await run_async(runner, slots, stubborn(), 5.0)
    assert scope.cancelled_caught
    assert slots.abandoned == 1
    stop.append(True)
    await wait_until(lambda: slots.abandoned == 0)


# --- tools that call tools ---


async def test_the_deadline_of_an_inner_call_is_an_error_for_the_outer_tool(runner, slots):
    inner_slots = ToolSlots("inner")

    async def inner():
        await asyncio.sleep(3)

    async def outer():
        try:
            await run_async(runner, inner_slots, inner(), 0.02)
        except ToolTimeoutError as error:
            await asyncio.sleep(0)
            return str(error)

    assert "'inner'" in await run_async(runner, slots, outer(), 5.0)
    assert asyncio.current_task().cancelling() == 0


async def test_the_deadline_of_the_outer_call_ends_both(runner, slots):
    inner_slots = ToolSlots("inner")
    seen = []

    async def inner():
        try:
            await asyncio.sleep(3)
        except asyncio.CancelledError:
            seen.append("inner cancelled")
            raise

    async def outer():
        try:
            await run_async(runner, inner_slots, inner(), 5.0)
        except asyncio.CancelledError:
            seen.append("outer cancelled")
            raise

    with pytest.raises(ToolTimeoutError, match="'probe'"):
        await run_async(runner, slots, outer(), 0.02)
    assert seen == ["inner cancelled", "outer cancelled"]
    assert (slots.running, inner_slots.running) == (0, 0)


async def test_a_stubborn_inner_tool_does_not_hold_the_outer_deadline(runner, slots):
    inner_slots = ToolSlots("inner")
    release = asyncio.Event()

    async def inner():
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                pass

    async def outer():
        await run_async(runner, inner_slots, inner(), None)

    with pytest.raises(ToolTimeoutError, match="'probe'"):
        await run_async(runner, slots, outer(), 0.05)
    assert inner_slots.abandoned == 1
    release.set()
    await wait_until(lambda: slots.running == inner_slots.running == 0)


async def test_an_inner_deadline_that_passes_after_that_of_the_outer_call_spares_the_caller(runner, slots):
    inner_slots = ToolSlots("inner")
    inner_ends = []

    async def inner():
        for _ in range(2):
            try:
                await asyncio.sleep(3)
            except asyncio.CancelledError:
                pass

    async def outer():
        try:
            await run_async(runner, inner_slots, inner(), 0.2)
        except ToolTimeoutError:
            inner_ends.append("timeout")

    with pytest.raises(ToolTimeoutError, match="'probe'"):
        await run_async(runner, slots, outer(), 0.02)
    await asyncio.sleep(0.25)  # the inner deadline has passed and must not cancel this task
    await wait_until(lambda: slots.running == inner_slots.running == 0)
    assert inner_ends == []
    assert asyncio.current_task().cancelling() == 0


def make_eager_task(loop, coroutine, **_):
    """Make a task as `asyncio.eager_task_factory` of Python 3.12 does: its first step is made at once."""
    try:
        yielded = coroutine.send(None)
    except StopIteration as stop:
        ended = loop.create_future()
        ended.set_result(stop.value)
        return ended
    return asyncio.Task(steps.SuspendedCoroutine(coroutine, yielded), loop=loop)


async def test_tools_call_tools_on_a_loop_with_eager_tasks(runner, slots):
    inner_slots = ToolSlots("inner")

    async def inner():
        return inner_slots.running

    async def outer():
        return await run_async(runner, inner_slots, inner(), 5.0), steps.HERE.marker.slots

    asyncio.get_running_loop().set_task_factory(make_eager_task)
    try:
        assert await run_async(runner, slots, outer(), 5.0) == (1, slots)
    finally:
        asyncio.get_running_loop().set_task_factory(None)


async def test_an_inner_call_ends_with_an_outer_one_that_is_closed(runner, slots):
    inner_slots = ToolSlots("inner")
    seen = []

    async def inner():
        try:
            await asyncio.sleep(60)
        finally:
            seen.append("inner ended")

    async def outer():
        await run_async(runner, inner_slots, inner(), 5.0)

    call = run_async(runner, slots, outer(), 5.0)
    call.send(None)
    await wait_until(lambda: inner_slots.running == 1)
    call.close()
    await wait_until(lambda: inner_slots.running == 0)
    assert seen == ["inner ended"]
