"""Helpers of the dispatch tests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from toolcrib.dispatch import deadline as steps
from toolcrib.dispatch.runners import Outlive, Runner, ToolSlots

SOON_S = 1.0
"""The most that something immediate may take on a noisy machine."""


async def wait_until(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        await asyncio.sleep(0.002)


def run_async(
    runner: Runner,
    slots: ToolSlots,
    coroutine: Coroutine[Any, Any, Any],
    timeout_s: float | None,
    clock: steps.Clock | None = None,
    outlive: Outlive | None = None,
) -> Coroutine[Any, Any, Any]:
    """Run a coroutine in the caller's task, as the dispatcher does."""
    return steps.run_steps(slots, coroutine, timeout_s, runner.abandoned_count, clock, outlive)


async def start(
    runner: Runner, slots: ToolSlots, coroutine: Coroutine[Any, Any, Any], timeout_s: float | None = None
) -> asyncio.Task[Any]:
    """A task that calls, brought to where its coroutine has suspended."""
    task = asyncio.create_task(run_async(runner, slots, coroutine, timeout_s))
    await wait_until(lambda: slots.running > 0)
    await asyncio.sleep(0)
    return task
