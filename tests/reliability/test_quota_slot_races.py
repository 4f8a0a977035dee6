"""Calls that run, ask, are cancelled, time out and outlive their answers in random order leave nothing
behind, and no slot is taken twice or freed twice.

A seeded simulator on a loop whose time is made up: one seed is one run, to the last step. The everyday suite
makes some thousand calls; `TOOLCRIB_SOAK=1` makes 100,000.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Callable

import pytest

from tests.support.system.virtual_loop import Clocks, VirtualLoop
from tests.unit.policy.quota.counted_quota import ANA, BEN, OTHER, REPORT, CountedQuota
from toolcrib import Tool
from toolcrib.context import Principal
from toolcrib.errors import ThrottledError
from toolcrib.policy import Limit
from toolcrib.policy.quota import Slot

pytestmark = pytest.mark.row("E8")

CALLS = 60
SEEDS = 1700 if "TOOLCRIB_SOAK" in os.environ else 100

LIMITS = [
    Limit(concurrency=2, name="each"),
    Limit(concurrency=3, per="all", name="all"),
    Limit(tools=["report"], concurrency=1, per="tool", name="report"),
    Limit(rate="40/min", burst=12, per="all", name="rate"),
    Limit(daily=12, name="day"),
]
CAPS = {"each": 2, "all": 3, "report": 1}


class World:
    """The calls of one run, and counts of them that are kept without the help of what is tested."""

    def __init__(self, seed: int, clocks: Clocks) -> None:
        self.random = random.Random(seed)
        self.clocks = clocks
        self.quota = CountedQuota(*LIMITS, clocks=clocks)
        self.inside: Counter[tuple[str, str]] = Counter()
        self.times_s: list[float] = []
        self.ends: Counter[str] = Counter()
        self.ran: Counter[str] = Counter()

    def note(self, who: Principal, what: Tool, change: int, *, is_new: bool = False) -> None:
        keys = [("each", who.name), ("all", "")] + [("report", "")] * (what is REPORT)
        for key in keys:
            self.inside[key] += change
            assert self.inside[key] >= 0
            assert not is_new or self.inside[key] <= CAPS[key[0]]

    async def call(self, start_s: float) -> None:
        """One call from its beginning to one of its ends."""
        who, what = self.random.choice([ANA, BEN]), self.random.choice([REPORT, OTHER])
        await asyncio.sleep(start_s)
        try:
            slot = self.quota.enter(who, what)
        except ThrottledError as error:
            self.ends[error.details["kind"]] += 1
            return
        self.times_s.append(self.clocks.now_s)
        self.note(who, what, 1, is_new=True)
        is_in, ran = True, self.random.random() < 0.8
        try:
            for _ in range(self.random.randrange(4)):
                await asyncio.sleep(self.random.choice([0, 0.01, 0.5, 2]))
                if self.random.random() < 0.5:
                    is_in = False
                    self.note(who, what, -1)
                    slot.pause()
                    await asyncio.sleep(self.random.choice([0, 0.3, 3]))
                    await slot.resume()
                    self.note(who, what, 1)
                    is_in = True
            self.ends["done"] += 1
        except asyncio.CancelledError:
            self.ends["cancelled"] += 1
            raise
        finally:
            self.ran[who.name] += ran
            if is_in and self.random.random() < 0.2:
                self.outlive(slot, lambda: self.note(who, what, -1))
            elif is_in:
                self.note(who, what, -1)
            slot.leave(ran=ran)

    def outlive(self, slot: Slot, gone: Callable[[], None]) -> None:
        end = slot.outlive()

        def ended() -> None:
            gone()
            end()
            end()

        asyncio.get_running_loop().call_later(self.random.uniform(0, 4), ended)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        tasks = []
        for _ in range(CALLS):
            start_s = self.random.uniform(0, 40)
            tasks.append(asyncio.create_task(self.call(start_s)))
            if self.random.random() < 0.5:
                loop.call_later(start_s + self.random.choice([0, 0.01, 0.5, 2, 3]), tasks[-1].cancel)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(10)  # for what outlives its call
        wrong = [result for result in results if isinstance(result, Exception)]
        assert not wrong, wrong
        self.check()

    def check(self) -> None:
        counters = self.quota.counters
        counters._settle()
        assert (counters._running, counters._held) == ({}, set())
        assert +self.inside == {}
        spent = {key.rpartition("=")[2]: used for key, used in counters._spent.items()}
        assert spent == dict(+self.ran)
        for position, first_s in enumerate(self.times_s):
            for count, last_s in enumerate(self.times_s[position:], start=1):
                assert count <= 12 + (last_s - first_s) * 40 / 60 + 1e-6


def play(seed: int) -> World:
    clocks = Clocks()
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clocks)) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        world = World(seed, clocks)
        runner.run(world.run())
    return world


def test_e8_nothing_leaks_and_nobody_is_let_in_twice() -> None:
    ends: Counter[str] = Counter()
    for seed in range(SEEDS):
        try:
            ends += play(seed).ends
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
    assert set(ends) == {
        "done",
        "cancelled",
        "rate",
        "concurrency",
        "budget",
    }, ends  # every way was gone


@pytest.mark.parametrize("seed", [3, 44])
def test_e8_a_seed_is_one_run(seed: int) -> None:
    first, second = play(seed), play(seed)
    assert first.times_s == second.times_s
    assert first.ends == second.ends
