"""Results of a coroutine driven in its caller's task, and that nothing stays behind."""

from __future__ import annotations

import asyncio
import gc
import threading
import types
import weakref
from typing import Any

import pytest

from tests.unit.dispatch.running import run_async
from toolcrib.dispatch.failures import Raised

# --- results and errors ---


async def test_the_value_of_a_coroutine_that_never_suspends_comes_back(runner, slots):
    async def work():
        assert slots.running == 1
        return 42

    assert await run_async(runner, slots, work(), 1.0) == 42
    assert slots.running == 0


async def test_the_value_of_a_coroutine_that_suspends_comes_back(runner, slots):
    async def work():
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        assert slots.running == 1
        return "late"

    assert await run_async(runner, slots, work(), 5.0) == "late"
    assert slots.running == 0


@pytest.mark.parametrize("pause", [False, True])
async def test_a_result_that_is_a_stop_iteration_is_a_value(runner, slots, pause):
    async def work():
        if pause:
            await asyncio.sleep(0)
        return StopIteration("x")

    value = await run_async(runner, slots, work(), None)
    assert isinstance(value, StopIteration)
    assert value.value == "x"


@pytest.mark.parametrize("pause", [False, True])
@pytest.mark.parametrize(
    "kind",
    [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, RecursionError, MemoryError, TimeoutError],
)
async def test_whatever_a_coroutine_raises_comes_out_wrapped_with_its_traceback(runner, slots, kind, pause):
    async def work():
        if pause:
            await asyncio.sleep(0)
        raise kind("oh")

    with pytest.raises(Raised) as caught:
        await run_async(runner, slots, work(), 1.0)
    assert type(caught.value.error) is kind
    trace = caught.value.error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    assert trace.tb_frame.f_code.co_name == "work"
    assert slots.running == 0


async def test_a_failed_future_raises_inside_the_coroutine(runner, slots):
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_exception, ValueError("inner"))

    async def work():
        try:
            await future
        except ValueError as error:
            return f"handled {error}"

    assert await run_async(runner, slots, work(), 1.0) == "handled inner"


async def test_a_bad_yield_is_judged_by_the_task_and_ends_in_the_coroutine(runner, slots):
    @types.coroutine
    def odd():
        yield "nonsense"

    with pytest.raises(Raised) as caught:
        await run_async(runner, slots, odd(), 1.0)
    assert isinstance(caught.value.error, RuntimeError)
    assert "bad yield" in str(caught.value.error)


async def test_no_task_is_made_for_an_ordinary_call(runner, slots):
    seen = []

    def spy(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        seen.append(coroutine)
        return asyncio.Task(coroutine, loop=loop, **options)

    async def work():
        await asyncio.sleep(0.001)

    loop = asyncio.get_running_loop()
    loop.set_task_factory(spy)
    try:
        await run_async(runner, slots, work(), 1.0)
    finally:
        loop.set_task_factory(None)
    assert seen == []


async def test_a_call_leaves_no_reference_cycle_behind(runner, slots):
    class Witness:
        pass

    async def work(witness):
        await asyncio.sleep(0)
        raise ValueError(witness)

    async def call():
        witness = Witness()
        reference = weakref.ref(witness)
        try:
            await run_async(runner, slots, work(witness), 1.0)
        except Raised:
            pass
        del witness
        return reference

    gc.collect()
    gc.disable()
    try:
        reference = await call()
        assert reference() is None
    finally:
        gc.enable()


# --- the end of a generator ---


async def test_closing_a_call_that_refuses_to_close_is_not_an_error(runner, slots):
    stop = []

    async def work():
        while not stop:
            try:
                await asyncio.sleep(3)
            except GeneratorExit:
                pass

    coroutine = work()
    call = run_async(runner, slots, coroutine, 5.0)
    call.send(None)
    call.close()
    assert slots.running == 0
    stop.append(True)
    coroutine.close()


# --- inline ---


def test_inline_work_returns_its_value_and_wraps_what_it_raises(runner, slots):
    def fail():
        assert slots.running == 1
        raise SystemExit(3)

    assert runner.run_inline(slots, lambda: 5) == 5
    with pytest.raises(Raised) as caught:
        runner.run_inline(slots, fail)
    assert isinstance(caught.value.error, SystemExit)
    assert slots.running == 0


def test_one_runner_serves_loops_in_several_threads(runner, slots):
    async def work(number):
        await asyncio.sleep(0.001)
        return number

    async def main(number, found):
        for _ in range(50):
            found.append(await run_async(runner, slots, work(number), 5.0))
            found.append(await runner.run_thread(slots, lambda: number, 5.0))

    results: list[list[int]] = [[] for _ in range(4)]
    threads = [
        threading.Thread(target=lambda n=n: asyncio.run(main(n, results[n]))) for n in range(len(results))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == [[n] * 100 for n in range(len(results))]
    assert (slots.running, slots.abandoned) == (0, 0)
