"""Helpers of the dispatch tests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from toolcrib.dispatch import deadline as steps
from toolcrib.dispatch.concurrency import ToolSlots
from toolcrib.dispatch.runners import Runner

SOON_S = 1.0
"""The most that something immediate may take on a noisy machine."""


async def wait_until(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        await asyncio.sleep(0.002)


async def start(
    runner: Runner, slots: ToolSlots, coroutine: Coroutine[Any, Any, Any], timeout_s: float | None = None
) -> asyncio.Task[Any]:
    """A task that calls, brought to where its coroutine has suspended."""
    task = asyncio.create_task(runner.run_async(slots, coroutine, timeout_s))
    await wait_until(lambda: slots.running > 0)
    await asyncio.sleep(0)
    return task


def assert_nothing_is_kept() -> None:
    """The package remembers suspended calls; after the last one it must remember none."""
    assert not steps._suspended_in
