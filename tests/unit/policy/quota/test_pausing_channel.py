"""A place that is free while somebody is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from toolcrib import Tool
from toolcrib.context import LOCAL, Answer, Form, InputNeeded, NullChannel, Question, Reply
from toolcrib.errors import CannotAskError, ThrottledError
from toolcrib.policy import Limit, Policy
from toolcrib.policy.quota import Quota, Slot
from toolcrib.policy.quota.quota import PausingChannel

TOOL = Tool.from_function(lambda: "", name="report", description="Give it.")
ASKED = {"sure": Form("Sure?")}


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
