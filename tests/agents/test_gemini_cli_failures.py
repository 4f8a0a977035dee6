"""gemini_cli against real processes that stall, die, lie, babble and never end."""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import aclosing

import pytest

from tests.support.models.agent_tools import QUICK, Bench, children, collect, is_gone, line_runner
from toolcrib.agents import AgentError, AgentRunner, Failure, Final, Limits, Token, ToolCall, ToolResult

SHORT = Limits(turn_s=0.5, answer_s=20, tool_s=5)


async def fail(manner: str, limits: Limits = QUICK) -> Failure:
    """The failure that a program of that manner comes to; it is gone by then."""
    before = children()
    async with line_runner(Bench(), manner, limits=limits) as runner:
        events = await collect(runner)
        assert children() <= before
    failure = events[-1]
    assert isinstance(failure, Failure)
    assert runner.session.messages == []
    return failure


async def test_every_mistake_in_a_call_becomes_its_result() -> None:
    async with line_runner(Bench(), "errs") as runner:
        logging.getLogger("toolcrib").setLevel(logging.CRITICAL)
        events = await collect(runner)
        logging.getLogger("toolcrib").setLevel(logging.NOTSET)
    assert isinstance(events[-1], Final)
    said = "".join(event.text for event in events if isinstance(event, Token))
    heard = said.splitlines()
    assert heard[0] == "False: There is no tool 'ad': did you mean 'add'?"
    assert heard[1].startswith("False: Invalid arguments for tool 'add'")
    assert "args must be an object" in said
    assert "the call has no name" in said
    assert 'write {"tool_call"' in said
    assert "the line is not JSON" in said
    assert "False: not today" in said
    assert "failed unexpectedly" in heard[-1]
    assert "secret words" not in said


async def test_lines_that_are_not_calls_are_text() -> None:
    async with line_runner(Bench(), "babbles") as runner:
        events = await collect(runner)
    assert isinstance(events[-1], Final)
    assert events[-1].text.endswith("done")
    assert not [event for event in events if isinstance(event, ToolCall)]
    said = "".join(event.text for event in events if isinstance(event, Token))
    assert '{"tool_call": 1, "b": 2}' in said
    assert '{"tool_result"' in said


async def test_a_program_may_write_a_lot_to_stderr() -> None:
    async with line_runner(Bench(), "complains") as runner:
        assert await runner.ask("Well?") == "well"


async def test_a_long_result_is_cut_with_a_note() -> None:
    limits = Limits(turn_s=10, answer_s=20, result_chars=1000)
    async with line_runner(Bench(), "asks_for_much", limits=limits) as runner:
        events = await collect(runner)
    results = [event for event in events if isinstance(event, ToolResult)]
    assert results[0].is_cut
    assert isinstance(events[-1], Final)
    assert events[-1].text.endswith("[cut: 999000 of 1000000 characters left out]")


async def test_calls_beyond_the_limit_of_a_turn_are_not_made() -> None:
    async with line_runner(Bench(), "asks_too_often", limits=Limits(calls_per_turn=5, turn_s=10)) as runner:
        answer = await runner.ask("Go")
    assert "not run: at most 5 calls at once" in answer
    assert "fine" in answer


async def test_a_tool_timeout_becomes_the_result_of_its_call() -> None:
    bench = Bench()
    limits = Limits(tool_s=0.2, turn_s=10, answer_s=20)
    async with line_runner(bench, "asks_for_something_slow", limits=limits) as runner:
        assert "did not finish within 0.2 s" in await runner.ask("Wait")
    assert bench.ended == ["wait"]


async def test_a_stalled_program_is_stopped() -> None:
    failure = await fail("stalls", SHORT)
    assert failure.kind == "stalled"
    assert "its turn has taken 0.5 s" in failure.message
    assert failure.hint is not None
    assert "answer and exit" in failure.hint


async def test_a_program_that_never_reads_is_stopped() -> None:
    assert (await fail("never_reads", SHORT)).kind == "stalled"


async def test_a_failure_quotes_the_stderr_of_a_program_that_died() -> None:
    failure = await fail("dies")
    assert failure.kind == "died"
    assert failure.message.endswith("exited with code 3. Its stderr:\n    out of memory\n    at line 7")


async def test_a_program_that_dies_in_the_middle_of_a_line_is_a_failure() -> None:
    failure = await fail("dies_in_a_line")
    assert failure.kind == "died"
    assert "exited with code 1" in failure.message


async def test_a_program_without_an_answer_is_a_failure() -> None:
    failure = await fail("says_nothing")
    assert (failure.kind, "without an answer" in failure.message) == ("died", True)


async def test_a_program_that_closes_its_output_is_stopped() -> None:
    failure = await fail("closes_its_output")
    assert (failure.kind, "closed its stdout" in failure.message) == ("died", True)


@pytest.mark.parametrize(
    ("manner", "words"),
    [
        ("talks_for_ever", "sent more than 100000 characters"),
        ("asks_for_ever", "no answer after 5 turns"),
        ("asks_without_listening", "sent more than 100000 characters"),
    ],
)
async def test_endless_output_and_calls_are_stopped(manner: str, words: str) -> None:
    failure = await fail(manner, Limits(turns=5, output_chars=100_000, turn_s=10, answer_s=20))
    assert failure.kind == "limit"
    assert words in failure.message
    assert failure.hint is not None


async def test_an_endless_line_is_stopped() -> None:
    failure = await fail("writes_one_line_for_ever", Limits(turn_s=10, answer_s=20))
    assert failure.kind == "limit"


async def test_a_missing_program_is_a_failure_with_a_hint() -> None:
    runner = AgentRunner(Bench().server, provider="gemini_cli", command=["no-such-model-anywhere"])
    async with runner:
        events = await collect(runner)
        assert isinstance(events[0], Failure)
        assert (events[0].kind, events[0].message) == (
            "missing",
            "Cannot start the agent: 'no-such-model-anywhere' not found",
        )
        with pytest.raises(AgentError, match="no-such-model") as error:
            await runner.ask("Hello?")
        assert error.value.hint is not None


async def test_the_next_question_after_a_failure_starts_a_new_process() -> None:
    async with line_runner(Bench(), "dies") as runner:
        for _ in range(2):
            events = await collect(runner)
            assert isinstance(events[-1], Failure)
            assert events[-1].kind == "died"


async def test_to_stop_reading_ends_the_program_and_its_children() -> None:
    async with line_runner(Bench(), "will_not_go", grace_s=0.1) as runner:
        async with aclosing(runner.send("Who?")) as events:
            first = await anext(events)
        assert isinstance(first, Token)
        assert [is_gone(int(pid)) for pid in first.text.split()] == [True, True]


async def test_cancelling_the_task_ends_the_program_and_the_tool() -> None:
    bench = Bench()
    before = children()
    async with line_runner(bench, "asks_for_something_slow") as runner:
        asking = asyncio.ensure_future(runner.ask("Wait"))
        await bench.begun.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert bench.ended == ["wait"]
        assert children() <= before


async def test_stopping_the_runner_ends_an_answer_that_another_task_reads() -> None:
    bench = Bench()
    before = children()
    runner = line_runner(bench, "stalls")
    await runner.start()
    stalled = asyncio.Event()

    async def read() -> list[object]:
        seen: list[object] = []
        async for event in runner.send("Well?"):
            seen.append(event)
            stalled.set()
        return seen

    reading = asyncio.ensure_future(read())
    await stalled.wait()
    await runner.stop()
    async with asyncio.timeout(5):
        seen = await reading
    assert isinstance(seen[-1], Failure)
    assert children() <= before


async def test_processes_that_a_program_leaves_behind_are_killed() -> None:
    async with line_runner(Bench(), "leaves_a_child") as runner:
        pid = int(await runner.ask("Who?"))
    assert is_gone(pid)


async def test_a_command_in_one_string_is_refused() -> None:
    with pytest.raises(ValueError, match="a list of strings"):
        AgentRunner(Bench().server, provider="gemini_cli", command=f"{sys.executable} model.py")
