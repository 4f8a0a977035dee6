"""Slots of calls: taken, paused, resumed, and kept while code outlives its call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.unit.dispatch.running import run_async
from tests.unit.policy.quota.machines import (
    ANA,
    BEN,
    REPORT,
    Clocks,
    enter,
    line_up,
    quota_of,
    refused,
    settle,
    wait_until,
)
from toolcrib import MCPServer, Tool
from toolcrib.context import LOCAL, Answer, Elicitation, InputNeeded, NullChannel, Question, Reply
from toolcrib.dispatch.runners import Runner, ToolSlots
from toolcrib.errors import CannotAskError, ThrottledError, ToolTimeoutError
from toolcrib.policy import Limit, Policy
from toolcrib.policy.quota import Quota, Slot
from toolcrib.policy.quota.quota import PausingChannel


async def is_full(quota: Quota) -> bool:
    """Whether one more call would be refused."""
    await settle(quota)
    try:
        slot = await enter(quota, BEN)
    except Exception:
        return True
    slot.leave(ran=True)
    return False


def one_at_once(make, **more) -> Quota:
    return make(Limit(concurrency=1, per="all", **more))


async def test_a_slot_says_the_shortest_time_and_the_smallest_result():
    quota = quota_of(
        Clocks(),
        Limit(timeout_s=5, max_result_bytes=100),
        Limit(timeout_s=3, max_result_bytes=200),
        Limit(max_arguments_bytes=9),
    )
    slot = quota.enter(ANA, REPORT, lambda: 9)
    assert isinstance(slot, Slot)
    told = slot.limits
    assert (told.timeout_s, told.max_result_bytes, told.is_counted) == (3, 100, False)


async def test_a_slot_without_counts_can_be_used_like_any_other():
    slot = await enter(quota_of(Clocks(), Limit(timeout_s=5)))
    slot.pause()
    await slot.resume()
    slot.outlive()()
    slot.leave(ran=True)
    assert (slot.limits.timeout_s, slot.limits.max_result_bytes) == (5, None)


async def test_a_rate_alone_takes_no_place(make):
    slot = await enter(make(Limit(rate="5/s")))
    assert not slot.limits.is_counted
    slot.pause()
    await slot.resume()
    slot.leave(ran=True)


async def test_a_place_is_free_while_a_person_is_asked(make):
    quota = one_at_once(make)
    slot = await enter(quota)
    assert await is_full(quota)
    slot.pause()
    assert not await is_full(quota)
    await slot.resume()
    assert quota.describe_store()["places"] == 1
    assert await is_full(quota)
    slot.leave(ran=True)
    assert not await is_full(quota)


async def test_who_comes_back_goes_ahead_of_the_line_and_is_never_refused(make):
    quota = one_at_once(make, queue=1, queue_s=30)
    asked = await enter(quota)
    asked.pause()
    running = await enter(quota)
    (waiting,) = await line_up(quota, enter(quota))
    back = asyncio.create_task(asked.resume())
    await settle(quota)
    assert not back.done()
    running.leave(ran=True)
    await back
    told = quota.describe_store()
    assert (told["places"], told["waiting"]) == (1, 1)
    asked.leave(ran=True)
    (await waiting).leave(ran=True)


@pytest.mark.parametrize("in_line", [0, 3])
async def test_who_comes_back_first_goes_first_whoever_else_is_in_line(make, in_line):
    quota = one_at_once(make, queue=3, queue_s=30)
    slots = []
    for _ in range(3):
        slots.append(await enter(quota))
        slots[-1].pause()
        await settle(quota)
    await slots[2].resume()
    others = await line_up(quota, *(enter(quota) for _ in range(in_line)))
    first = asyncio.create_task(slots[1].resume())
    await settle(quota)
    second = asyncio.create_task(slots[0].resume())
    await settle(quota)
    slots[2].leave(ran=True)
    await first
    assert not second.done()
    slots[1].leave(ran=True)
    await second
    slots[0].leave(ran=True)
    for other in others:
        (await other).leave(ran=True)
    assert not await is_full(quota)


async def test_who_comes_back_goes_ahead_however_many_have_come_back_since_the_line_began(path, patient):
    for store in (None, path):  # one test for both, as they share the rank to begin with
        quota = quota_of(Clocks(), Limit(concurrency=1, queue=1, queue_s=30), store=store)
        asked, busy = await enter(quota), await enter(quota, BEN)
        asked.pause()
        running = await enter(quota)
        (waiting,) = await line_up(quota, enter(quota))
        for _ in range(150):
            busy.pause()
            await busy.resume()
        back = asyncio.create_task(asked.resume())
        await settle(quota)
        running.leave(ran=True)
        await asyncio.wait_for(back, 5)
        assert quota.describe_store()["waiting"] == 1
        asked.leave(ran=True)
        (await waiting).leave(ran=True)
        await quota.close()


async def test_pauses_add_up(make):
    quota = one_at_once(make)
    slot = await enter(quota)
    slot.pause()
    slot.pause()
    await slot.resume()
    assert not await is_full(quota)
    await slot.resume()
    assert await is_full(quota)
    slot.leave(ran=True)


async def test_leaving_during_a_pause_frees_nothing_twice(make):
    quota = make(Limit(concurrency=2, per="all"))
    slot, other = await enter(quota), await enter(quota)
    slot.pause()
    slot.leave(ran=True)
    slot.pause()
    await slot.resume()
    await slot.resume()
    await enter(quota)
    assert await is_full(quota)
    other.leave(ran=True)


async def test_a_call_that_is_cancelled_while_it_waits_to_come_back_leaves_nothing(make):
    quota = one_at_once(make)
    asked = await enter(quota)
    asked.pause()
    running = await enter(quota)
    back = asyncio.create_task(asked.resume())
    await settle(quota)
    assert quota.describe_store()["waiting"] == 1
    back.cancel()
    with pytest.raises(asyncio.CancelledError):
        await back
    running.leave(ran=True)
    assert not await is_full(quota)
    assert quota.describe_store()["waiting"] == 0
    asked.leave(ran=True)
    assert not await is_full(quota)


async def test_a_call_that_is_left_while_it_waits_to_come_back_waits_no_longer(make):
    quota = one_at_once(make)
    asked = await enter(quota)
    asked.pause()
    running = await enter(quota)
    back = asyncio.create_task(asked.resume())
    await settle(quota)
    asked.leave(ran=True)
    await asyncio.wait_for(back, 5)
    assert await is_full(quota)
    running.leave(ran=True)
    assert not await is_full(quota)


async def test_a_place_stays_taken_until_the_code_ends_that_outlived_its_call(make):
    quota = one_at_once(make, daily=9)
    slot = await enter(quota)
    first, second = slot.outlive(), slot.outlive()
    slot.leave(ran=True)
    assert await is_full(quota)
    first()
    first()
    assert await is_full(quota)
    second()
    assert not await is_full(quota)
    slot.outlive()()
    slot.leave(ran=True)
    assert not await is_full(quota)


async def test_code_that_ends_before_its_call_is_left_frees_nothing_yet(make):
    quota = one_at_once(make)
    slot = await enter(quota)
    slot.outlive()()
    assert await is_full(quota)
    slot.leave(ran=True)
    assert not await is_full(quota)


@pytest.mark.parametrize("asks_first", [True, False])
async def test_code_that_outlived_its_call_has_a_place_except_while_it_asks(make, asks_first):
    quota = one_at_once(make)
    slot = await enter(quota)
    end = slot.outlive()
    if asks_first:
        slot.pause()
    slot.leave(ran=True)
    if not asks_first:
        assert await is_full(quota)
        slot.pause()
    assert not await is_full(quota)
    await slot.resume()
    assert await is_full(quota)
    end()
    assert not await is_full(quota)


async def test_a_place_that_becomes_free_gives_no_budget_back(make):
    quota = make(Limit(daily=1, concurrency=5))
    slot = await enter(quota)
    slot.pause()
    await slot.resume()
    end = slot.outlive()
    slot.leave(ran=True)
    end()
    assert (await refused(quota)).details["kind"] == "budget"


async def test_a_budget_is_given_back_at_once_though_the_code_runs_on(make):
    quota = make(Limit(daily=1, concurrency=5))
    slot = await enter(quota)
    slot.outlive()
    slot.leave(ran=False)
    await enter(quota)
    assert (await refused(quota)).details["kind"] == "budget"


class Ledger:
    """Counts what outlives its call."""

    def __init__(self) -> None:
        self.begun = self.ended = 0

    def outlive(self) -> Callable[[], None]:
        self.begun += 1
        return self.end

    def end(self) -> None:
        self.ended += 1


@pytest.fixture
def release() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def runner() -> Iterator[Runner]:
    made = Runner()
    yield made
    made.close()


async def test_a_thread_that_outlives_its_call_says_when_it_ends(runner, release):
    ledger = Ledger()
    with pytest.raises(ToolTimeoutError):
        await runner.run_thread(ToolSlots("x"), lambda: release.wait(30), 0.02, outlive=ledger.outlive)
    assert (ledger.begun, ledger.ended) == (1, 0)
    release.set()
    await wait_until(lambda: ledger.ended == 1)


async def test_work_that_is_given_up_before_it_began_outlives_nothing(runner, release):
    slots, ledger = ToolSlots("x", max_threads=1), Ledger()
    first = asyncio.create_task(runner.run_thread(slots, lambda: release.wait(30), None))
    await wait_until(lambda: slots.running == 1)
    with pytest.raises(ToolTimeoutError):
        await runner.run_thread(slots, lambda: None, 0.02, outlive=ledger.outlive)
    assert (ledger.begun, ledger.ended) == (1, 1)
    release.set()
    await first


async def test_work_that_ends_in_time_outlives_nothing(runner):
    ledger = Ledger()
    assert await runner.run_thread(ToolSlots("x"), lambda: 7, 5.0, outlive=ledger.outlive) == 7
    assert (ledger.begun, ledger.ended) == (0, 0)


async def test_a_coroutine_that_does_not_stop_says_when_it_ends(runner):
    ledger, go_on = Ledger(), asyncio.Event()

    async def stubborn() -> None:
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                pass

    with pytest.raises(ToolTimeoutError):
        await run_async(runner, ToolSlots("x"), stubborn(), 0.02, outlive=ledger.outlive)
    assert (ledger.begun, ledger.ended) == (1, 0)
    go_on.set()
    await wait_until(lambda: ledger.ended == 1)


async def test_a_place_is_taken_until_the_thread_of_a_call_that_timed_out_has_ended(release):
    server = MCPServer("limited", policy=Policy(limits=[Limit(concurrency=1, timeout_s=0.05)]))

    @server.tool
    def block() -> str:
        """Take its time."""
        release.wait(30)
        return "done"

    @server.tool
    async def other() -> str:
        """Be quick."""
        return "done"

    assert isinstance((await server.call("block")).error, ToolTimeoutError)
    busy = await server.call("other")
    assert isinstance(busy.error, ThrottledError)
    assert busy.error.details["kind"] == "concurrency"
    release.set()
    await wait_until(lambda: server.dispatcher.runner.abandoned == 0)
    assert (await server.call("other")).text == "done"


TOOL = Tool.from_function(lambda: "", name="report", description="Give it.")
ASKED = {"sure": Elicitation("Sure?")}


class Caller(NullChannel):
    """Keeps what it is told, and answers as it is told to."""

    resumes = "mark"
    is_prompted = True
    is_gone = True
    request = 7
    trace = "00-trace"

    def __init__(self, answer: Any = None) -> None:
        self.told: list[Any] = []
        self.answer = answer
        self.while_asked: list[bool] = []
        self.quota: Quota | None = None

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.told.append((progress, total, message))

    def log(self, level: str, data: Any) -> None:
        self.told.append((level, data))

    def close_stream(self) -> None:
        self.told.append("closed")

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Reply]:
        assert self.quota is not None
        self.while_asked.append(is_free(self.quota))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return dict.fromkeys(questions, self.answer)


def is_free(quota: Quota) -> bool:
    try:
        slot = quota.enter(LOCAL, TOOL, lambda: 0)
    except ThrottledError:
        return False
    assert isinstance(slot, Slot)
    slot.leave(ran=True)
    return True


def rest(answer: Any = None) -> tuple[Caller, Slot, PausingChannel]:
    caller = Caller(answer)
    caller.quota = Quota(Policy(limits=[Limit(concurrency=1)]))
    slot = caller.quota.enter(LOCAL, TOOL, lambda: 0)
    assert isinstance(slot, Slot)
    return caller, slot, PausingChannel(caller, slot)


def test_everything_but_questions_goes_straight_to_the_caller() -> None:
    caller, _, resting = rest()
    assert resting.is_prompted
    assert (resting.resumes, resting.is_gone, resting.request, resting.trace) == ("mark", True, 7, "00-trace")
    resting.progress(1.0, 2.0, "half")
    resting.log("info", {"a": 1})
    resting.close_stream()
    assert caller.told == [(1.0, 2.0, "half"), ("info", {"a": 1}), "closed"]


async def test_the_place_is_free_while_asked_and_taken_after() -> None:
    caller, slot, resting = rest(Answer("accept"))
    assert caller.quota is not None
    assert not is_free(caller.quota)
    assert await resting.ask(ASKED) == {"sure": Answer("accept")}
    assert caller.while_asked == [True]
    assert not is_free(caller.quota)
    slot.leave(ran=True)
    assert is_free(caller.quota)


async def test_a_tool_that_goes_on_without_an_answer_has_its_place_again() -> None:
    caller, _, resting = rest(CannotAskError("nobody"))
    assert caller.quota is not None
    with pytest.raises(CannotAskError):
        await resting.ask(ASKED)
    assert caller.while_asked == [True]
    assert not is_free(caller.quota)


@pytest.mark.parametrize("ending", [InputNeeded(ASKED), asyncio.CancelledError()])
async def test_a_call_that_ends_with_the_question_takes_no_place_again(ending: BaseException) -> None:
    caller, slot, resting = rest(ending)
    assert caller.quota is not None
    with pytest.raises(type(ending)):
        await resting.ask(ASKED)
    assert is_free(caller.quota)
    slot.leave(ran=False)
    assert is_free(caller.quota)
    assert caller.quota.describe_store()["waiting"] == 0
