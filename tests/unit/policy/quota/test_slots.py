"""Slots of calls: taken, paused, resumed, and kept while code outlives its call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from tests.unit.dispatch.running import run_async
from tests.unit.policy.quota.counted_quota import BEN, CountedQuota, wait_until
from toolcrib import MCPServer
from toolcrib.context import Elicitation, InputNeeded, NullChannel, Question, Reply
from toolcrib.dispatch.runners import Runner, ToolSlots
from toolcrib.errors import CannotAskError, ThrottledError, ToolTimeoutError
from toolcrib.policy import Limit, Policy
from toolcrib.policy.quota import PausingChannel, Slot


def is_full(quota: CountedQuota) -> bool:
    """Whether one more call would be refused."""
    return quota.count_admitted(1, BEN) == 0


@pytest.fixture
def quota() -> CountedQuota:
    return CountedQuota(Limit(concurrency=1, per="all"))


async def test_a_slot_is_free_while_the_user_is_asked(quota: CountedQuota) -> None:
    slot = quota.enter()
    assert is_full(quota)
    slot.pause()
    assert not is_full(quota)
    await slot.resume()
    assert is_full(quota)
    slot.leave(ran=True)
    assert not is_full(quota)


async def test_a_call_that_has_asked_goes_on_though_its_slot_was_taken(quota: CountedQuota) -> None:
    asked = quota.enter()
    asked.pause()
    other = quota.enter()
    await asked.resume()
    other.leave(ran=True)
    assert is_full(quota)
    asked.leave(ran=True)
    assert not is_full(quota)


async def test_several_questions_free_the_slot_until_the_last_is_answered(quota: CountedQuota) -> None:
    slot = quota.enter()
    slot.pause()
    slot.pause()
    await slot.resume()
    assert not is_full(quota)
    await slot.resume()
    assert is_full(quota)
    slot.leave(ran=True)
    assert not is_full(quota)


async def test_a_call_that_is_left_while_it_asks_takes_no_slot_again() -> None:
    quota = CountedQuota(Limit(concurrency=2, per="all"))
    slot, other = quota.enter(), quota.enter()
    slot.pause()
    slot.leave(ran=True)
    slot.pause()
    await slot.resume()
    await slot.resume()
    quota.enter()
    assert is_full(quota)
    other.leave(ran=True)


async def test_a_slot_is_taken_until_all_code_of_its_call_has_ended(quota: CountedQuota) -> None:
    slot = quota.enter()
    first, second = slot.outlive(), slot.outlive()
    slot.leave(ran=True)
    assert is_full(quota)
    first()
    first()
    assert is_full(quota)
    second()
    assert not is_full(quota)
    slot.outlive()()
    assert not is_full(quota)


async def test_code_that_ends_before_its_call_frees_nothing_yet(quota: CountedQuota) -> None:
    slot = quota.enter()
    slot.outlive()()
    assert is_full(quota)
    slot.leave(ran=True)
    assert not is_full(quota)


@pytest.mark.parametrize("asks_first", [True, False])
async def test_code_that_outlives_its_call_holds_a_slot_except_while_it_asks(
    quota: CountedQuota, asks_first: bool
) -> None:
    slot = quota.enter()
    end = slot.outlive()
    if asks_first:
        slot.pause()
    slot.leave(ran=True)
    if not asks_first:
        assert is_full(quota)
        slot.pause()
    assert not is_full(quota)
    await slot.resume()
    assert is_full(quota)
    end()
    assert not is_full(quota)


@pytest.mark.parametrize(("ran", "left"), [(True, 0), (False, 1)])
async def test_a_budget_is_given_back_only_if_the_tool_never_ran(ran: bool, left: int) -> None:
    quota = CountedQuota(Limit(daily=1, concurrency=5))
    slot = quota.enter()
    slot.pause()
    await slot.resume()
    end = slot.outlive()
    slot.leave(ran=ran)
    end()
    assert quota.count_admitted(5) == left


async def test_a_budget_is_given_back_to_a_call_that_is_left_while_it_asks() -> None:
    quota = CountedQuota(Limit(daily=1, concurrency=5))
    slot = quota.enter()
    slot.pause()
    slot.leave(ran=False)
    assert quota.count_admitted(5) == 1


class Outliving:
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
    outliving = Outliving()
    with pytest.raises(ToolTimeoutError):
        await runner.run_thread(ToolSlots("x"), lambda: release.wait(30), 0.02, outlive=outliving.outlive)
    assert (outliving.begun, outliving.ended) == (1, 0)
    release.set()
    await wait_until(lambda: outliving.ended == 1)


async def test_work_that_is_given_up_before_it_began_outlives_nothing(runner, release):
    slots, outliving = ToolSlots("x", max_threads=1), Outliving()
    first = asyncio.create_task(runner.run_thread(slots, lambda: release.wait(30), None))
    await wait_until(lambda: slots.running == 1)
    with pytest.raises(ToolTimeoutError):
        await runner.run_thread(slots, lambda: None, 0.02, outlive=outliving.outlive)
    assert (outliving.begun, outliving.ended) == (1, 1)
    release.set()
    await first


async def test_work_that_ends_in_time_outlives_nothing(runner):
    outliving = Outliving()
    assert await runner.run_thread(ToolSlots("x"), lambda: 7, 5.0, outlive=outliving.outlive) == 7
    assert (outliving.begun, outliving.ended) == (0, 0)


async def test_a_coroutine_that_does_not_stop_says_when_it_ends(runner):
    outliving, go_on = Outliving(), asyncio.Event()

    async def stubborn() -> None:
        while not go_on.is_set():
            try:
                await go_on.wait()
            except asyncio.CancelledError:
                pass

    with pytest.raises(ToolTimeoutError):
        await run_async(runner, ToolSlots("x"), stubborn(), 0.02, outlive=outliving.outlive)
    assert (outliving.begun, outliving.ended) == (1, 0)
    go_on.set()
    await wait_until(lambda: outliving.ended == 1)


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
        self.quota = CountedQuota(Limit(concurrency=1))

    def progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.told.append((progress, total, message))

    def log(self, level: str, data: Any) -> None:
        self.told.append((level, data))

    def close_stream(self) -> None:
        self.told.append("closed")

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Reply]:
        self.while_asked.append(is_free(self.quota))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return dict.fromkeys(questions, self.answer)


def is_free(quota: CountedQuota) -> bool:
    return quota.count_admitted(1) == 1


def rest(answer: Any = None) -> tuple[Caller, Slot, PausingChannel]:
    caller = Caller(answer)
    slot = caller.quota.enter()
    return caller, slot, PausingChannel(caller, slot)


def test_everything_but_questions_goes_straight_to_the_caller() -> None:
    caller, _, resting = rest()
    assert resting.is_prompted
    assert (resting.resumes, resting.is_gone, resting.request, resting.trace) == ("mark", True, 7, "00-trace")
    resting.progress(1.0, 2.0, "half")
    resting.log("info", {"a": 1})
    resting.close_stream()
    assert caller.told == [(1.0, 2.0, "half"), ("info", {"a": 1}), "closed"]


async def test_a_tool_that_goes_on_without_an_answer_has_its_place_again() -> None:
    caller, _, resting = rest(CannotAskError("nobody"))
    with pytest.raises(CannotAskError):
        await resting.ask(ASKED)
    assert caller.while_asked == [True]
    assert not is_free(caller.quota)


@pytest.mark.parametrize("ending", [InputNeeded(ASKED), asyncio.CancelledError()])
async def test_a_call_that_ends_with_the_question_takes_no_place_again(ending: BaseException) -> None:
    caller, slot, resting = rest(ending)
    with pytest.raises(type(ending)):
        await resting.ask(ASKED)
    assert is_free(caller.quota)
    slot.leave(ran=False)
    assert is_free(caller.quota)
