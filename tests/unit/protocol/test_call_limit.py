"""The limit on calls that run at once, and the queue of calls that wait."""

from __future__ import annotations

import asyncio

import pytest

from toolcrib.protocol.calls import CallLimit


async def test_calls_above_the_limit_wait() -> None:
    limit = CallLimit(max_running=2)
    await limit.enter()
    await limit.enter()
    third = asyncio.ensure_future(limit.enter())
    await asyncio.sleep(0)
    assert (third.done(), limit.running) == (False, 2)
    limit.leave()
    await third
    assert limit.running == 2


async def test_waiting_calls_run_in_order() -> None:
    limit = CallLimit(max_running=1)
    order: list[int] = []

    async def go(number: int) -> None:
        await limit.enter()
        order.append(number)
        await asyncio.sleep(0)
        limit.leave()

    await asyncio.gather(*(go(number) for number in range(20)))
    assert order == list(range(20))
    assert (limit.running, len(limit.queue)) == (0, 0)


async def test_a_new_call_does_not_overtake_waiting_ones() -> None:
    limit = CallLimit(max_running=1)
    await limit.enter()
    waiting = asyncio.ensure_future(limit.enter())
    await asyncio.sleep(0)
    limit.leave()  # the place belongs to who waits, who has not run yet
    assert limit.running == 1
    await waiting
    assert limit.running == 1


@pytest.mark.parametrize("is_let_in", [False, True])
async def test_a_cancelled_call_frees_its_slot(is_let_in: bool) -> None:
    limit = CallLimit(max_running=1)
    await limit.enter()
    waiting = asyncio.ensure_future(limit.enter())
    await asyncio.sleep(0)
    if is_let_in:
        limit.leave()  # the place is given, and given up in the same moment
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    if not is_let_in:
        limit.leave()
    assert (limit.running, len(limit.queue)) == (0, 0)
    await limit.enter()


async def test_a_full_queue_is_overrun() -> None:
    limit = CallLimit(max_running=1, max_waiting=2)
    await limit.enter()
    waiting = [asyncio.ensure_future(limit.enter()) for _ in range(2)]
    await asyncio.sleep(0)
    assert limit.is_overrun
    for task in waiting:
        limit.leave()
        await task
    assert not limit.is_overrun


async def test_a_call_cancelled_while_another_ends_loses_no_slot() -> None:
    limit = CallLimit(max_running=1, max_waiting=5)
    limit.running = 1
    impatient, patient = (asyncio.ensure_future(limit.enter()) for _ in range(2))
    await asyncio.sleep(0)
    impatient.cancel()
    limit.leave()
    done = await asyncio.gather(impatient, patient, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError)
    assert done[1] is None
    assert (limit.running, len(limit.queue)) == (1, 0)
