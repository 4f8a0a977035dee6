"""Tools that run again after an unexpected exception: when, how often, and never beyond the deadline."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Context, MCPServer, ToolError, testing, tool
from toolcrib.context import InputNeeded
from toolcrib.dispatch import dispatcher
from toolcrib.errors import InvalidToolError


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "FIRST_PAUSE_S", 0.001)


class Flaky:
    """Raises the errors it was given, one per run, and then returns the number of runs."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.runs = 0

    async def work(self) -> int:
        return self.work_sync()

    def work_sync(self) -> int:
        self.runs += 1
        if self.errors:
            raise self.errors.pop(0)
        return self.runs


def serve(work: Callable[..., Any], **options: Any) -> MCPServer:
    server = MCPServer()
    server.add(work, name="work", **{"idempotent": True, "retries": 2, **options})
    return server


@pytest.mark.parametrize("run", ["async", "thread", "inline"])
async def test_a_tool_runs_again_until_it_succeeds(run: Any) -> None:
    flaky = Flaky(OSError("lost"), ExceptionGroup("both", [OSError("lost"), TimeoutError()]))
    server = serve(flaky.work) if run == "async" else serve(flaky.work_sync, run=run)
    result = await server.call("work")
    assert (result.structured_content, flaky.runs) == (3, 3)
    stats = server.describe()["statistics"]["work"]
    assert (stats["calls"], stats["errors"]) == (1, 0)


@pytest.mark.parametrize(
    "options", [{"idempotent": None, "read_only": True}, {"timeout_s": 5}, {"cache_s": 9}]
)
async def test_after_the_last_try_the_call_fails(options: dict[str, Any]) -> None:
    flaky = Flaky(*(OSError("lost") for _ in range(9)))
    result = await serve(flaky.work, **options).call("work")
    assert "failed unexpectedly" in result.text
    assert flaky.runs == 3


@pytest.mark.parametrize(
    "error",
    [
        ToolError("No such article."),
        ExceptionGroup("one", [ToolError("No.")]),
        asyncio.CancelledError(),
        SystemExit(1),
        InputNeeded({}),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_anything_that_a_tool_means_for_its_caller_ends_the_call(error: BaseException) -> None:
    flaky = Flaky(error)
    try:
        result = await serve(flaky.work_sync, run="thread").call("work")
        assert result.is_error
    except InputNeeded:
        pass
    assert flaky.runs == 1


async def test_arguments_and_results_that_do_not_fit_are_not_tried_again() -> None:
    runs = []

    def work(number: int) -> int:
        runs.append(number)
        return "many"  # type: ignore[return-value]

    server = serve(work)
    assert (await server.call("work", {"number": "x"})).is_error
    assert runs == []
    assert (await server.call("work", {"number": 1})).is_error
    assert runs == [1]


async def test_a_call_that_asked_is_not_run_again() -> None:
    runs = []

    async def work(ctx: Context) -> int:
        await ctx.ask("sure", "Sure?")
        runs.append(1)
        raise OSError("lost")

    async with testing.connect(serve(work), answers=[True]) as client:
        assert (await client.call("work")).is_error
    assert runs == [1]


@pytest.mark.parametrize("is_async", [True, False])
async def test_no_try_begins_that_cannot_begin_before_the_deadline(
    is_async: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "FIRST_PAUSE_S", 60.0)
    flaky = Flaky(OSError("lost"))
    server = serve(flaky.work if is_async else flaky.work_sync, timeout_s=10)
    started = time.monotonic()
    assert "failed unexpectedly" in (await server.call("work")).text
    assert time.monotonic() - started < 5
    assert flaky.runs == 1


@pytest.mark.parametrize("is_async", [True, False])
async def test_one_deadline_counts_all_tries(is_async: bool) -> None:
    runs = []

    def work() -> None:
        runs.append(1)
        time.sleep(0.2)
        raise OSError("lost")

    async def work_async() -> None:
        runs.append(1)
        await asyncio.sleep(0.2)
        raise OSError("lost")

    server = serve(work_async if is_async else work, retries=10, timeout_s=0.3)
    result = await server.call("work")
    assert "did not finish within 0.3 s" in result.text
    assert len(runs) <= 2


async def test_a_call_can_be_cancelled_between_two_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "FIRST_PAUSE_S", 5.0)
    flaky = Flaky(OSError("lost"))
    calling = asyncio.create_task(serve(flaky.work).call("work"))
    while not flaky.runs:
        await asyncio.sleep(0)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert flaky.runs == 1


def fail_once(folder: str, how: str) -> int:
    """Fail the first time, in another process."""
    mark = Path(folder) / "mark"
    if mark.exists():
        return 2
    mark.touch()
    if how == "exit":
        os._exit(1)
    raise ToolError("No.") if how == "meant" else OSError("lost")


@pytest.mark.parametrize(("how", "text"), [("raise", "2"), ("exit", "2"), ("meant", "No.")])
async def test_a_tool_in_a_process_runs_again(tmp_path: Path, how: str, text: str) -> None:
    server = serve(fail_once, run="process")
    async with server:
        result = await server.call("work", {"folder": str(tmp_path), "how": how})
    assert result.text == text


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "needs a tool that is idempotent or read-only"),
        ({"destructive": True}, "needs a tool that is idempotent or read-only"),
        ({"idempotent": True, "retries": 11}, "must be 0 to 10"),
        ({"idempotent": True, "retries": -1}, "must be 0 to 10"),
        ({"idempotent": True, "retries": True}, "must be a whole number"),
    ],
)
def test_only_a_tool_that_may_run_twice_has_retries(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidToolError, match=problem) as caught:
        tool(**{"retries": 2, **options})
    assert "idempotent=True" in (caught.value.hint or "") or "idempotent" in options
