"""A tool that blocks delays no other call, and its own caller only until the deadline."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from toolcrib import Context, MCPServer

pytestmark = pytest.mark.row("E1", "E5", "E7")

BUSY_S = 1.0


def sleep_for(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"


def burn_for(seconds: float) -> str:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass
    return "burnt"


async def block_for(seconds: float) -> str:
    time.sleep(seconds)
    return "blocked"


def make(**options: Any) -> MCPServer:
    server = MCPServer()

    @server.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def add_on_a_thread(a: int, b: int) -> int:
        return a + b

    for function in (sleep_for, burn_for, block_for):
        server.add(function, **options)
    return server


async def slowest_add(server: MCPServer, name: str, until: Callable[[], bool]) -> float:
    """The 99th percentile of calls made while something else goes on."""
    times: list[float] = []
    while not until():
        started = time.perf_counter()
        assert (await server.call(name, {"a": 1, "b": 2})).structured_content == 3
        times.append(time.perf_counter() - started)
        await asyncio.sleep(0.001)
    times.sort()
    return times[int(len(times) * 0.99)]


async def best_of_three(measure: Callable[[], Awaitable[float]], limit: float) -> float:
    """The machine may be busy with something else: the best of a few tries is what the code can do."""
    best = float("inf")
    for _ in range(3):
        best = min(best, await measure())
        if best < limit:
            break
    return best


@pytest.mark.parametrize(("name", "limit"), [("sleep_for", 0.05), ("burn_for", 0.15)])
async def test_e1_a_call_is_quick_while_a_sync_tool_is_not(name: str, limit: float) -> None:
    server = make()

    async def measure() -> float:
        slow = asyncio.create_task(server.call(name, {"seconds": BUSY_S}))
        return await slowest_add(server, "add", slow.done)

    assert await best_of_three(measure, limit) < limit


@pytest.mark.parametrize("name", ["sleep_for", "burn_for", "block_for"])
async def test_e1_a_call_is_quick_while_another_process_is_not(name: str) -> None:
    server = make(run="process")
    assert (await server.call(name, {"seconds": 0.0})).text in ("slept", "burnt", "blocked")

    async def measure() -> float:
        slow = asyncio.create_task(server.call(name, {"seconds": BUSY_S}))
        return await slowest_add(server, "add", slow.done)

    try:
        assert await best_of_three(measure, 0.05) < 0.05
    finally:
        server.dispatcher.close()


async def test_e1_a_tool_that_blocks_the_loop_is_named_while_it_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = make()
    ended = 0.0
    with caplog.at_level(logging.WARNING, "toolcrib"):
        result = await server.call("block_for", {"seconds": 1.2})
        ended = time.time()
    assert result.text == "blocked"
    [record] = [record for record in caplog.records if getattr(record, "tool_name", None) == "block_for"]
    assert "blocks the event loop" in record.getMessage()
    assert record.created < ended - 0.1


async def test_e5_two_hundred_blocked_calls_of_one_tool_delay_no_other() -> None:
    server = make()
    await server.call("add_on_a_thread", {"a": 1, "b": 2})

    async def measure() -> float:
        release = threading.Event()
        server.add(lambda: release.wait(10) and "done", name="block", on_duplicate="replace")
        blocked = [asyncio.create_task(server.call("block")) for _ in range(200)]
        try:
            end = time.perf_counter() + BUSY_S
            return await slowest_add(server, "add_on_a_thread", lambda: time.perf_counter() > end)
        finally:
            release.set()
            assert all(not result.is_error for result in await asyncio.gather(*blocked))

    assert await best_of_three(measure, 0.1) < 0.1


@pytest.mark.parametrize("way", ["sync", "async", "stubborn", "process"])
async def test_e7_a_deadline_is_kept_whatever_the_code_does(way: str) -> None:
    server = MCPServer()
    release = threading.Event()
    patience = asyncio.Event()

    def wait_on_a_thread() -> bool:
        return release.wait(3)

    async def wait_on_the_loop() -> None:
        await asyncio.wait_for(patience.wait(), 3)

    async def wait_stubbornly() -> None:
        while not patience.is_set():
            try:
                await patience.wait()
            except asyncio.CancelledError:
                continue

    tools = {"sync": wait_on_a_thread, "async": wait_on_the_loop, "stubborn": wait_stubbornly}
    if way == "process":
        server.add(sleep_for, run="process")
        await server.call("sleep_for", {"seconds": 0})
        tool, arguments = "sleep_for", {"seconds": 3.0}
    else:
        server.add(tools[way], name="wait")
        tool, arguments = "wait", {}
    try:
        started = time.perf_counter()
        result = await server.call(tool, arguments, timeout_s=0.5)
        took = time.perf_counter() - started
        assert result.is_error
        assert result.error is not None
        assert result.error.code == "timeout"
        assert "0.5 s" in result.text
        assert 0.49 <= took < 0.75
        if way == "sync":
            assert server.dispatcher.runner.abandoned == 1
    finally:
        release.set()
        patience.set()
        server.dispatcher.close()


async def test_code_on_a_thread_sees_that_no_caller_waits_any_more() -> None:
    server = MCPServer()
    seen = threading.Event()

    @server.tool(timeout_s=0.05)
    def watch(ctx: Context) -> None:
        while not ctx.cancelled:
            time.sleep(0.005)
        seen.set()

    assert (await server.call("watch")).is_error
    assert await asyncio.to_thread(seen.wait, 5)


async def test_a_cancelled_caller_is_cancelled_and_its_async_tool_with_it() -> None:
    server = MCPServer()
    cleaned = asyncio.Event()
    began = asyncio.Event()

    @server.tool
    async def hold() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    call = asyncio.create_task(server.call("hold"))
    await began.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert cleaned.is_set()
