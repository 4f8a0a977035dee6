"""How many calls run at once, and how many wait."""

from __future__ import annotations

import asyncio

import pytest

from toolcrib.protocol.calls import CallLimit


async def test_as_many_as_there_is_room_for_run_and_the_next_waits_its_turn() -> None:
    gate = CallLimit(max_running=2)
    await gate.enter()
    await gate.enter()
    third = asyncio.ensure_future(gate.enter())
    await asyncio.sleep(0)
    assert (third.done(), gate.running) == (False, 2)
    gate.leave()
    await third
    assert gate.running == 2


async def test_those_who_wait_come_in_the_order_they_came() -> None:
    gate = CallLimit(max_running=1)
    order: list[int] = []

    async def go(number: int) -> None:
        await gate.enter()
        order.append(number)
        await asyncio.sleep(0)
        gate.leave()

    await asyncio.gather(*(go(number) for number in range(20)))
    assert order == list(range(20))
    assert (gate.running, len(gate.queue)) == (0, 0)


async def test_a_newcomer_does_not_overtake_those_who_wait() -> None:
    gate = CallLimit(max_running=1)
    await gate.enter()
    waiting = asyncio.ensure_future(gate.enter())
    await asyncio.sleep(0)
    gate.leave()  # the place belongs to who waits, who has not run yet
    assert gate.running == 1
    await waiting
    assert gate.running == 1


@pytest.mark.parametrize("is_let_in", [False, True])
async def test_who_gives_up_waiting_leaves_no_hole(is_let_in: bool) -> None:
    gate = CallLimit(max_running=1)
    await gate.enter()
    waiting = asyncio.ensure_future(gate.enter())
    await asyncio.sleep(0)
    if is_let_in:
        gate.leave()  # the place is given, and given up in the same moment
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    if not is_let_in:
        gate.leave()
    assert (gate.running, len(gate.queue)) == (0, 0)
    await gate.enter()


async def test_when_too_many_wait_the_gate_is_overrun() -> None:
    gate = CallLimit(max_running=1, max_waiting=2)
    await gate.enter()
    waiting = [asyncio.ensure_future(gate.enter()) for _ in range(2)]
    await asyncio.sleep(0)
    assert gate.is_overrun
    for task in waiting:
        gate.leave()
        await task
    assert not gate.is_overrun


async def test_who_gives_up_in_the_moment_somebody_leaves_disturbs_nobody() -> None:
    gate = CallLimit(max_running=1, max_waiting=5)
    gate.running = 1
    impatient, patient = (asyncio.ensure_future(gate.enter()) for _ in range(2))
    await asyncio.sleep(0)
    impatient.cancel()
    gate.leave()
    done = await asyncio.gather(impatient, patient, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError)
    assert done[1] is None
    assert (gate.running, len(gate.queue)) == (1, 0)
