"""A call that was given up is answered at once, and takes its place until its code has ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.unit.policy.quota.support import wait_until
from toolcrib import MCPServer
from toolcrib.dispatch.concurrency import Lane
from toolcrib.dispatch.runners import Runner
from toolcrib.errors import ThrottledError, ToolTimeoutError
from toolcrib.policy import Limit, Policy


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
        await runner.run_thread(Lane("x"), lambda: release.wait(30), 0.02, outlive=ledger.outlive)
    assert (ledger.begun, ledger.ended) == (1, 0)
    release.set()
    await wait_until(lambda: ledger.ended == 1)


async def test_work_that_is_given_up_before_it_began_outlives_nothing(runner, release):
    lane, ledger = Lane("x", max_threads=1), Ledger()
    first = asyncio.create_task(runner.run_thread(lane, lambda: release.wait(30), None))
    await wait_until(lambda: lane.running == 1)
    with pytest.raises(ToolTimeoutError):
        await runner.run_thread(lane, lambda: None, 0.02, outlive=ledger.outlive)
    assert (ledger.begun, ledger.ended) == (1, 1)
    release.set()
    await first


async def test_work_that_ends_in_time_outlives_nothing(runner):
    ledger = Ledger()
    assert await runner.run_thread(Lane("x"), lambda: 7, 5.0, outlive=ledger.outlive) == 7
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
        await runner.run_async(Lane("x"), stubborn(), 0.02, outlive=ledger.outlive)
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
