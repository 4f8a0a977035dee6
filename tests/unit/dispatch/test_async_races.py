"""Cancellations, deadlines and endings in random order: one outcome per call, nothing leaks."""

from __future__ import annotations

import asyncio
import random
import sys

import pytest

from tests.unit.dispatch.running import run_async, wait_until
from toolcrib.dispatch import deadline as steps
from toolcrib.dispatch.failures import Raised
from toolcrib.dispatch.runners import Runner, ToolSlots
from toolcrib.errors import ToolTimeoutError

ROUNDS = 500


MANNERS = ["obey", "obey", "clean", "ignore", "fail"]


def make_tool(chance: random.Random, manners: list[str]):
    """A coroutine of a few naps that meets each cancellation in its own way."""
    ways = [chance.choice(manners) for _ in range(chance.randrange(1, 6))]

    async def nap() -> None:
        await asyncio.sleep(chance.choice([0, 0, 0.0005, 0.002, 0.01]))

    async def tool() -> str:
        for manner in ways:
            try:
                if manner == "inner":
                    try:
                        async with asyncio.timeout(chance.choice([0, 0.001, 0.005])):
                            await nap()
                    except TimeoutError:
                        pass
                else:
                    await nap()
            except asyncio.CancelledError:
                if manner == "clean":
                    await nap()
                if manner == "fail":
                    raise ValueError("in clean-up") from None
                if manner != "ignore":
                    raise
        return "done"

    return tool()


async def play(
    chance: random.Random, runner: Runner, slots: ToolSlots, other: ToolSlots, manners: list[str]
) -> str:
    """One caller whose call is cancelled, expires or ends, perhaps through a tool in between."""
    outside = 0

    async def through() -> str:
        return await run_async(runner, other, make_tool(chance, manners), chance.choice([None, 0.001, 0.004]))

    coroutine = through() if chance.random() < 0.4 else make_tool(chance, manners)
    deadline_s = chance.choice([None, 0.0, 0.0005, 0.002, 0.006])

    async def caller() -> str:
        task = asyncio.current_task()
        assert task is not None
        try:
            return await run_async(runner, slots, coroutine, deadline_s)
        except ToolTimeoutError:
            return "timeout"
        except Raised:
            return "raised"
        finally:
            # What the package has cancelled it has taken back; what others did is still there.
            assert task.cancelling() == outside
            await asyncio.sleep(0.001) if not outside else None

    task = asyncio.create_task(caller())
    for _ in range(chance.choice([0, 0, 1, 1, 2])):
        await asyncio.sleep(chance.choice([0, 0, 0.0005, 0.002, 0.005]))
        if not task.done() and task.cancel():
            outside += 1
    await asyncio.wait([task], timeout=5)
    assert task.done()
    if task.cancelled():
        assert outside
        return "cancelled"
    return task.result()


async def play_all(runner: Runner, seed: int, manners: list[str]) -> set[str]:
    chance = random.Random(seed)
    slots, other = ToolSlots("outer"), ToolSlots("inner")
    outcomes: list[str] = []
    while len(outcomes) < ROUNDS:
        outcomes += await asyncio.gather(*(play(chance, runner, slots, other, manners) for _ in range(10)))
    await wait_until(lambda: slots.running == other.running == 0)
    assert (slots.abandoned, other.abandoned, runner.abandoned) == (0, 0, 0)
    return set(outcomes)


@pytest.mark.parametrize("seed", range(3))
async def test_random_interleavings_have_one_outcome_each_and_leak_nothing(runner, seed):
    outcomes = await play_all(runner, seed, [*MANNERS, "inner"])
    assert outcomes == {"done", "timeout", "cancelled", "raised"}


@pytest.mark.parametrize("seed", range(3))
async def test_so_it_is_when_calls_are_let_go_all_the_time(runner, seed, monkeypatch):
    # A moment so short that most clean-up does not fit in. No timeouts inside: those of a coroutine that was
    # let go still reach for the task they began in.
    monkeypatch.setattr(steps, "TIMEOUT_GRACE_S", 0.0005)
    monkeypatch.setattr(steps, "CANCEL_GRACE_S", 0.001)
    outcomes = await play_all(runner, seed, MANNERS)
    assert outcomes == {"done", "timeout", "cancelled", "raised"}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
async def test_eager_tasks_change_nothing(runner, monkeypatch):
    monkeypatch.setattr(steps, "TIMEOUT_GRACE_S", 0.0005)
    monkeypatch.setattr(steps, "CANCEL_GRACE_S", 0.001)
    loop = asyncio.get_running_loop()
    loop.set_task_factory(asyncio.eager_task_factory)
    try:
        await play_all(runner, 99, MANNERS)
    finally:
        loop.set_task_factory(None)
