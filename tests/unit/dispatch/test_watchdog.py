"""The watchdog reports tools that block an event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

import pytest

from tests.unit.dispatch.running import run_async, wait_until
from toolcrib.dispatch import event_loop
from toolcrib.dispatch.event_loop import HERE, WATCHDOG
from toolcrib.dispatch.failures import Raised
from toolcrib.dispatch.runners import ToolSlots


class Log(logging.Handler):
    """Remembers records with the moment they came."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[float, logging.LogRecord]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append((time.monotonic(), record))

    def wait(self, count: int = 1, limit_s: float = 5.0) -> None:
        """Block this thread until there are so many records, and no longer than that."""
        end = time.monotonic() + limit_s
        while len(self.seen) < count and time.monotonic() < end:
            time.sleep(0.005)

    @property
    def names(self) -> list[str]:
        return [record.tool_name for _, record in self.seen]


@pytest.fixture
def log():
    handler = Log()
    logger = logging.getLogger("toolcrib")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


AGAIN_S = 0.65


def block(seconds: float) -> None:
    time.sleep(seconds)


def burn(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


@pytest.mark.parametrize("blocking", [block, burn])
@pytest.mark.parametrize("pause", [False, True])
async def test_a_blocking_coroutine_is_named_once_while_it_blocks(runner, slots, log, blocking, pause):
    async def work():
        if pause:
            await asyncio.sleep(0)
        while not log.seen and time.monotonic() < started + 5.0:
            blocking(0.02)
        blocking(AGAIN_S)  # and is looked at a few times more

    started = time.monotonic()
    await run_async(runner, slots, work(), 5.0)
    ended = time.monotonic()
    ((moment, record),) = log.seen
    assert started + 0.2 < moment < min(started + 1.0, ended)
    assert record.levelno == logging.WARNING
    assert record.tool_name == "probe"
    assert 0.2 < record.blocked_s < 1.0
    assert "tool 'probe' blocks the event loop (for 0." in record.getMessage()
    assert 'def instead of async def, or run="thread"' in record.getMessage()
    assert record.blocked_at.startswith(__file__)


async def test_blocking_inline_work_is_named(runner, slots, log):
    runner.run_inline(slots, log.wait)
    assert log.names == ["probe"]


async def test_code_that_awaits_or_is_short_is_not_named(runner, slots, log):
    async def awaits():
        await asyncio.sleep(0.6)

    async def short():
        block(0.05)

    await run_async(runner, slots, awaits(), 5.0)
    for _ in range(5):
        await run_async(runner, slots, short(), 5.0)
    await runner.run_thread(slots, lambda: block(0.5), 5.0)
    assert log.names == []


async def test_the_tool_that_blocks_is_named_and_not_the_one_that_called_it(runner, log):
    outer_slots, inner_slots = ToolSlots("outer"), ToolSlots("inner")

    async def inner():
        log.wait()

    async def outer():
        await run_async(runner, inner_slots, inner(), None)
        await run_async(runner, inner_slots, asyncio.sleep(0), None)

    await run_async(runner, outer_slots, outer(), 5.0)
    assert log.names == ["inner"]


async def test_a_tool_that_blocks_again_is_not_named_again_but_counted(runner, slots, log, monkeypatch):
    for _ in range(3):
        runner.run_inline(slots, lambda: block(0.5))
        await asyncio.sleep(0)
    assert log.names == ["probe"]
    slots.blocked.reset()  # a minute later
    runner.run_inline(slots, lambda: log.wait(2))
    assert log.names == ["probe", "probe"]
    assert "(2 more times since the last message)" in log.seen[1][1].getMessage()


async def test_each_loop_has_its_own_marker(runner, log):
    all_slots = [ToolSlots("left"), ToolSlots("right")]

    def main(slots):
        async def work():
            log.wait(2)

        asyncio.run(run_async(runner, slots, work(), 5.0))

    threads = [threading.Thread(target=main, args=(slots,)) for slots in all_slots]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(log.names) == ["left", "right"]


async def test_the_marker_is_taken_away_whatever_happens(runner, slots):
    async def fails():
        assert HERE.marker.slots is slots
        await asyncio.sleep(0)
        assert HERE.marker.slots is slots
        raise ValueError

    task = asyncio.create_task(run_async(runner, slots, fails(), 5.0))
    await asyncio.sleep(0)
    assert HERE.marker.slots is None
    with pytest.raises(Raised):
        await task
    assert HERE.marker.slots is None
    with pytest.raises(Raised):
        runner.run_inline(slots, lambda: 1 / 0)
    assert HERE.marker.slots is None


async def test_a_log_handler_that_raises_does_not_end_the_watch(runner, log):
    class Angry(logging.Handler):
        def handle(self, record):
            raise RuntimeError("full")

    logger, angry = logging.getLogger("toolcrib"), Angry()
    logger.addHandler(angry)
    try:
        runner.run_inline(ToolSlots("first"), lambda: block(0.5))
    finally:
        logger.removeHandler(angry)
    runner.run_inline(ToolSlots("second"), lambda: log.wait(len(log.seen) + 1))
    assert log.names[-1] == "second"


async def test_the_watch_rests_when_nothing_runs_and_begins_again(runner, slots, log, monkeypatch):
    monkeypatch.setattr(event_loop, "REST_AFTER_S", 0.15)
    runner.run_inline(slots, lambda: None)
    assert WATCHDOG.is_running
    await wait_until(lambda: not WATCHDOG.is_running)
    await wait_until(lambda: "toolcrib-watchdog" not in {thread.name for thread in threading.enumerate()})
    runner.run_inline(slots, log.wait)
    assert log.names == ["probe"]
