"""Helpers of the quota tests: clocks that stand still, tools, and an event loop with virtual time."""

from __future__ import annotations

import asyncio
import selectors
import sqlite3
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolcrib import Tool
from toolcrib.config.settings import DAY_S
from toolcrib.context import Principal
from toolcrib.errors import ThrottledError
from toolcrib.policy import Limit, Policy
from toolcrib.policy.quota import Quota, Slot

NOON_S = 20_000 * DAY_S + DAY_S / 2
ANA, BEN = Principal("key:ana"), Principal("key:ben")


class Clocks:
    """Two clocks that stand still until they are told."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.wall_s = NOON_S

    def now(self) -> float:
        return self.now_s

    def now_ns(self) -> int:
        return round(self.now_s * 1e9)

    def wall(self) -> float:
        return self.wall_s

    def tick(self, seconds: float) -> None:
        self.now_s += seconds
        self.wall_s += seconds


def tool(name: str = "report", **options: Any) -> Tool:
    return Tool.from_function(lambda: name, name=name, description="Give it.", **options)


REPORT = tool()
OTHER = tool("other")


def quota_of(clocks: Clocks, *limits: Limit, store: Path | None = None, **demands: Any) -> Quota:
    return Quota(Policy(limits=limits, store=store, **demands), now=clocks.now, wall=clocks.wall)


async def enter(quota: Quota, who: Principal = ANA, what: Tool = REPORT, **given: Any) -> Slot:
    entered = quota.enter(who, what, given.pop("size", unasked), **given)
    assert entered is not None
    return entered if isinstance(entered, Slot) else await entered


async def refused(quota: Quota, who: Principal = ANA, what: Tool = REPORT, **given: Any) -> ThrottledError:
    """The error of a call that is not let in."""
    try:
        await enter(quota, who, what, **given)
    except ThrottledError as error:
        return error
    raise AssertionError("it was let in")


async def count_admitted(quota: Quota, attempts: int, who: Principal = ANA, what: Tool = REPORT) -> int:
    admitted = 0
    for _ in range(attempts):
        try:
            (await enter(quota, who, what)).leave(ran=True)
            admitted += 1
        except ThrottledError:
            pass
    return admitted


def unasked() -> int:
    raise AssertionError("nobody needs the size")


async def wait_until(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        await asyncio.sleep(0.002)


async def line_up(quota: Quota, *entries: Coroutine[Any, Any, Slot]) -> list[asyncio.Task[Slot]]:
    """Tasks that stand in line, in this order."""
    tasks = []
    for entry in entries:
        before = quota.describe_store()["waiting"]
        task = asyncio.create_task(entry)
        await wait_until(lambda: task.done() or quota.describe_store()["waiting"] > before)  # noqa: B023
        tasks.append(task)
    return tasks


async def settle(quota: Quota) -> None:
    """Return when the store has done what it was told before."""
    await asyncio.sleep(0)  # tasks that were made before begin first
    await quota.use_once(f"settle {time.monotonic_ns()}", 1.0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)


# --- a file, and what is done to it ---


@contextmanager
def locked(path: Path) -> Iterator[None]:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


def is_out(quota: Quota) -> bool:
    return bool(quota.describe_store()["out"])


async def works_again(quota: Quota) -> None:
    await wait_until(lambda: not is_out(quota))


class Stuck(Clocks):
    """Keeps the store's thread from its work."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.go_on.set()

    def now(self) -> float:
        if threading.current_thread().name == "toolcrib-limits":
            assert self.go_on.wait(30)
        return super().now()


class Slow(Clocks):
    """Makes the store's thread take its time."""

    def now(self) -> float:
        if threading.current_thread().name == "toolcrib-limits":
            time.sleep(0.03)
        return super().now()


# --- many at once ---


class Crowd:
    """Counts who is in, from any thread, without the help of what is tested."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.admitted = self.refused = self.inside = self.most_inside = 0

    def come_in(self) -> None:
        with self._lock:
            self.admitted += 1
            self.inside += 1
            self.most_inside = max(self.most_inside, self.inside)

    def go(self) -> None:
        with self._lock:
            self.inside -= 1

    def turn_away(self) -> None:
        with self._lock:
            self.refused += 1


async def hammer(quota: Quota, crowd: Crowd, attempts: int) -> None:
    for _ in range(attempts):
        try:
            slot = await enter(quota)
        except ThrottledError:
            crowd.turn_away()
            continue
        crowd.come_in()
        await asyncio.sleep(0)
        crowd.go()
        slot.leave(ran=True)


# --- a loop whose time is made up ---


class _Hasty(selectors.SelectSelector):
    """Where nothing happens until some time, it is that time at once."""

    passed_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        found = super().select(0)
        if not found:
            assert timeout is not None, "everybody waits, and for nothing"
            self.passed_s += max(0.0, timeout)
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, clocks: Clocks) -> None:
        self._hasty = _Hasty()
        self._clocks = clocks
        super().__init__(self._hasty)

    def time(self) -> float:
        if self._hasty.passed_s:
            self._clocks.tick(self._hasty.passed_s)
            self._hasty.passed_s = 0.0
        return self._clocks.now_s


def run_virtually(story: Callable[[Clocks], Coroutine[Any, Any, None]]) -> None:
    clocks = Clocks()
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clocks)) as runner:
        runner.run(story(clocks))
