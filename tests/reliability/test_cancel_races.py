"""Complete, fail, ask, time out, cancel and hang up, in any order and at the same moment.

Whole worlds are played in made-up time: a few clients call a tool that does what its script says, and other
scripts say when somebody cancels, answers or goes. Many things happen at one time, as that is where races
are. Every call has one end, and nothing stays behind. 1,000 worlds every day, 100,000 in the soak; a seed
that fails is given by TOOLCRIB_SEED.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.servers.policy_server import LIVE, MODERN, Voice
from tests.support.system.virtual_loop import Clocks, VirtualLoop
from toolcrib import Context, MCPServer, ToolError
from toolcrib.context import LOCAL, Answer, NullChannel, Principal, Question, Reply
from toolcrib.dispatch.calls import OUTCOMES
from toolcrib.errors import CannotAskError
from toolcrib.policy import Limit, Policy
from toolcrib.protocol.calls import ASK_S

pytestmark = pytest.mark.row("E8")

IS_LONG = bool(os.environ.get("TOOLCRIB_SOAK"))
WORLDS = 100_000 if IS_LONG else 1_000
SEED = os.environ.get("TOOLCRIB_SEED")
TIMES = (0.0, 0.0, 1.0, 1.0, 2.0, 3.0, 5.0)
"""Few, so that much happens at once; the limits below are among them."""
SLOTS, TIMEOUT_S = 3, 3.0
STEPS = ("sleep", "sleep", "turn", "ask", "fail", "return", "stubborn", "progress")
NAME = {"type": "object", "properties": {"name": {"type": "string"}}}


class Ends(logging.Handler):
    """How calls ended, as the log tells it."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.ends: dict[str, list[str]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if hasattr(record, "call_id"):
            self.ends.setdefault(record.call_id, []).append(record.outcome)  # type: ignore[attr-defined]


@contextmanager
def listening() -> Iterator[Ends]:
    logger = logging.getLogger("toolcrib")
    ends, level, others = Ends(), logger.level, logger.propagate
    logger.addHandler(ends)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield ends
    finally:
        logger.setLevel(level)
        logger.propagate = others
        logger.removeHandler(ends)


class World:
    """The server of all worlds, and what its tool does in this one."""

    def __init__(self) -> None:
        self.fresh_runs = 0
        self.active = 0
        self.most = 0
        policy = Policy(
            limits=[
                Limit(per="all", concurrency=SLOTS, daily=1_000_000_000),
                Limit(timeout_s=TIMEOUT_S),
            ]
        )
        self.server = MCPServer("races", policy=policy)
        self.server.add(self.act, name="act")

    async def act(self, steps: list[str], times: list[float], ctx: Context) -> str:
        """Do what the script says."""
        if ctx.channel.resumes is None:
            self.fresh_runs += 1
        self.active += 1
        self.most = max(self.most, self.active)
        try:
            for number, (step, seconds) in enumerate(zip(steps, times, strict=True)):
                await self._do(step, seconds, number, ctx)
                if step == "return":
                    break
        finally:
            self.active -= 1
        return "done"

    async def _do(self, step: str, seconds: float, number: int, ctx: Context) -> None:
        if step == "sleep":
            await asyncio.sleep(seconds)
        elif step == "turn":
            await asyncio.sleep(0)
        elif step == "fail":
            raise ToolError("failed")
        elif step == "progress":
            await ctx.progress(number + 1)
        elif step == "stubborn":
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                pass  # once; it goes on with its script
        elif step == "ask":
            self.active -= 1
            try:
                await ctx.ask(f"q{number}", "What?", NAME)
            except CannotAskError:
                pass
            except BaseException:
                self.active += 1  # it ends with the question, and needs no place for that
                raise
            self.active += 1  # even above the maximum

    @property
    def enforcer(self) -> Any:
        return self.server.enforcer

    @property
    def used(self) -> dict[str, int]:
        """How much of the budget and of the slots is used."""
        limits = self.enforcer.quota.find(LOCAL, self.server.registry.get("act")).counted
        used = self.enforcer.storage.counters.usage(limits)
        try:
            used.send(None)
        except StopIteration as stop:
            return {limit.kind: number for limit, number in zip(limits.each, stop.value, strict=True)}
        raise AssertionError("it waits")


class Client(Voice):
    """Counts the replies to each of its calls."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.replies: Counter[Any] = Counter()
        self.has_left = False
        self.cancelled: set[str] = set()
        self.made: set[str] = set()

    def begin_call(self, name: str, arguments: Any = None, id_: Any = None, **more: Any) -> Any:
        if not self.has_left:  # nobody hears what is said after that
            self.made.add(id_)
        reply = super().begin_call(name, arguments, id_, **more)
        reply.add_done_callback(lambda done: self._count(id_, done))
        return reply

    def _count(self, id_: Any, done: Any) -> None:
        if not done.cancelled():
            self.replies[id_] += 1


async def play(world: World, seed: int) -> int:
    """One world; gives how many calls were made."""
    dice = random.Random(seed)
    clients = []
    for number in range(dice.randint(1, 3)):
        version = dice.choice((MODERN, *LIVE))
        client = Client(world.server, version, Principal(f"key:{number}"), elicitation={})
        await client.__aenter__()
        clients.append(client)
    lives = [_live(world, client, random.Random(dice.random()), seed) for client in clients]
    await asyncio.gather(*lives)
    for client in clients:
        if not client.has_left:
            for id_ in client.made - client.cancelled:
                assert client.replies[id_] == 1, f"{id_} has no reply"
            await client.close()
        assert all(count == 1 for count in client.replies.values())
        assert set(client.replies) <= client.made
    return sum(len(client.made) for client in clients)


async def _live(world: World, client: Client, dice: random.Random, seed: int) -> None:
    tasks = [
        asyncio.ensure_future(_call(client, dice, f"{seed}-{number}")) for number in range(dice.randint(1, 3))
    ]
    answering = asyncio.ensure_future(_answer(client, dice))
    if dice.random() < 0.3:
        await _pass(dice)
        client.has_left = True
        await client.close()
        for task in tasks:
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    answering.cancel()
    await asyncio.gather(answering, return_exceptions=True)
    for task in tasks:
        if not task.cancelled() and task.exception() is not None:
            raise task.exception() or AssertionError


async def _pass(dice: random.Random) -> None:
    """Until some time, and some turns of the loop behind it: before and after whatever else is due then."""
    await asyncio.sleep(dice.choice(TIMES))
    for _ in range(dice.randrange(4)):
        await asyncio.sleep(0)


async def _call(client: Client, dice: random.Random, id_: str) -> None:
    await _pass(dice)
    steps = [dice.choice(STEPS) for _ in range(dice.randint(0, 4))]
    script = {"steps": steps, "times": [dice.choice(TIMES) for _ in steps]}
    reply = client.begin_call("act", script, id_)
    if dice.random() < 0.4:
        await _pass(dice)
        client.cancelled.add(id_)
        client.cancel(id_)
        return
    message = await reply
    for turn in range(5):  # a client of 2026-07-28 comes again with its answers
        result = message.get("result", {})
        if result.get("resultType") != "input_required" or dice.random() < 0.2:
            return
        answers = {key: _say(dice) for key in result["inputRequests"]}
        await _pass(dice)
        message = await client.begin_call(
            "act", script, f"{id_}-{turn}", requestState=result["requestState"], inputResponses=answers
        )


async def _answer(client: Client, dice: random.Random) -> None:
    while True:
        asked = await client.asked.get()
        await _pass(dice)
        client.reply(asked["id"], _say(dice))


def _say(dice: random.Random) -> dict[str, Any]:
    return dice.choice(({"action": "accept", "content": {}}, {"action": "decline"}, {"action": "cancel"}))


async def settle(world: World) -> None:
    """Let time pass until nothing of a world is left, or too much time has passed."""
    for _ in range(20):
        if len(asyncio.all_tasks()) == 1:
            break
        await asyncio.sleep(ASK_S / 10)


def check_rest(world: World, seed: int) -> None:
    """Nothing stays behind: no place, no one in line, no task, no question."""
    left = {
        "slots": world.used["concurrency"],
        "calls": world.server.transports.engine.running,
        "pipes": len(world.server.transports.engine.pipes),
        "active": world.active,
        "tasks": len(asyncio.all_tasks()) - 1,
    }
    assert not any(left.values()), f"seed {seed}: {left}"


async def run_worlds(seeds: list[int], ends: Ends) -> Counter[str]:
    world = World()
    outcomes: Counter[str] = Counter()
    async with world.server:
        for seed in seeds:
            ends.ends.clear()
            try:
                made = await play(world, seed)
                await settle(world)
            except Exception as error:
                raise AssertionError(f"TOOLCRIB_SEED={seed}: {error!r}") from error
            check_rest(world, seed)
            assert world.most <= SLOTS, f"seed {seed}: {world.most} calls began at once in {SLOTS} slots"
            twice = {id_: found for id_, found in ends.ends.items() if len(found) != 1}
            assert not twice, f"seed {seed}: more than one end: {twice}"
            assert len(ends.ends) == made, f"seed {seed}: {made} calls, {len(ends.ends)} ends"
            outcomes.update(found[0] for found in ends.ends.values())
            assert world.used["budget"] == world.fresh_runs, f"seed {seed}: spent is not what has run"
        assert world.server.dispatcher.runner.abandoned == 0
    return outcomes


def test_every_call_has_one_end_and_nothing_is_left_behind() -> None:
    seeds = [int(SEED)] if SEED else list(range(WORLDS))
    clocks = Clocks()
    with listening() as ends, asyncio.Runner(loop_factory=lambda: VirtualLoop(clocks)) as runner:
        outcomes = runner.run(run_worlds(seeds, ends))
    if not SEED:  # the worlds are what they should be: every end that can be in them is in them
        assert set(outcomes) == set(OUTCOMES) - {"task"} - {"denied", "crashed"}
        assert min(outcomes.values()) > WORLDS // 100


@pytest.mark.parametrize("seed", [13, 376, 756, 839, 52772])
def test_worlds_that_once_went_wrong(seed: int) -> None:
    clocks = Clocks()
    with listening() as ends, asyncio.Runner(loop_factory=lambda: VirtualLoop(clocks)) as runner:
        runner.run(run_worlds([seed], ends))


class Listener(NullChannel):
    """Somebody who would answer."""

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Reply]:
        return {key: Answer("accept") for key in questions}


async def test_code_that_outlives_its_call_asks_nobody() -> None:
    context = Context(tool="act", arguments={}, channel=Listener())
    assert await context.ask("sure", "Sure?") == Answer("accept")
    context.cancel()
    with pytest.raises(CannotAskError, match="Cannot ask the user: the call has ended"):
        await context.ask("sure", "Sure?")


async def test_a_client_that_has_gone_is_not_asked() -> None:
    world = World()
    async with world.server:
        client = Client(world.server, LIVE[-1], elicitation={})
        await client.__aenter__()
        [session] = world.server.transports.engine.pipes
        assert session.can_ask
        await client.close()
        assert not session.can_ask
