"""Runs a coroutine in the task of its caller, under a deadline.

A task per call costs more than most tools do. So the coroutine is driven by hand: what it yields goes up to
the caller's task, what comes back goes down. A deadline is set only once the coroutine suspends.

A task counts its cancellations, and so do we. One that is ours means the deadline; one more than at the start
that is not ours means that the caller is cancelled; none means that something inside the tool was cancelled,
which the tool handles itself.

A tool that calls another tool awaits a task of its own for that, so a task has at most one call.

A cancelled coroutine may await its clean-up. Libraries that bind scopes to their task (asyncio.timeout,
anyio, and so every httpx connection) must do that in the task they began in, so it gets a moment there. What
still runs then is moved to a task of its own and counted as abandoned; the caller goes on without it.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import math
import types
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any

from toolcrib.dispatch.event_loop import HERE, WATCHDOG, Marker, complete
from toolcrib.dispatch.failures import Raised
from toolcrib.dispatch.runners import AbandonedCount, Clock, Outlive, ToolSlots
from toolcrib.errors import ToolTimeoutError

logger = logging.getLogger("toolcrib")

TIMEOUT_GRACE_S = 0.05
"""Time for clean-up after the deadline; the caller waits for it."""

CANCEL_GRACE_S = 0.25
"""Time for clean-up after another cancellation. Longer, as it may come from a timeout inside the tool."""

_LET_GO = object()
_abandoned_tasks: set[asyncio.Task[None]] = set()
"""Event loops refer to tasks weakly, so these are held here."""


async def run_steps(
    slots: ToolSlots,
    coroutine: Coroutine[Any, Any, Any],
    timeout_s: float | None,
    abandoned_count: AbandonedCount,
    clock: Clock | None = None,
    outlive: Outlive | None = None,
) -> Any:
    """Run the coroutine to its end or its deadline. Most calls end with their first step."""
    marker = HERE.marker
    if marker.slots is not None:  # called by another tool
        call = run_steps(slots, coroutine, timeout_s, abandoned_count, clock, outlive)
        return await _run_in_task(call, coroutine)
    slots.on_loop.append(None)  # as `ToolSlots.enter` and `Marker.enter` do, without the calls
    marker.slots = slots
    marker.step += 1
    if not marker.watched:
        WATCHDOG.watch(marker)
    try:
        try:
            waits_for = coroutine.send(None)
        except StopIteration as stop:
            return stop.value
        except BaseException as error:
            raise Raised(error) from None
        finally:
            marker.slots = None
        return await _RunningCall(slots, coroutine, timeout_s, abandoned_count, clock, outlive).run(waits_for)
    finally:
        slots.on_loop.pop()


async def _run_in_task(call: Coroutine[Any, Any, Any], coroutine: Coroutine[Any, Any, Any]) -> Any:
    marker = HERE.marker
    outer, marker.slots = marker.slots, None  # an eager task makes its first step now
    try:
        task = asyncio.create_task(call)
    finally:
        marker.slots = outer
    try:
        return await task
    finally:
        task.cancel()  # has no effect, unless the caller was closed
        if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
            coroutine.close()  # the task was cancelled before its first step


@dataclass(slots=True, eq=False)
class _RunningCall:
    """A coroutine from its first suspension to its end. `is_abandoned`: it goes on without its caller."""

    slots: ToolSlots
    coroutine: Coroutine[Any, Any, Any]
    timeout_s: float | None
    abandoned_count: AbandonedCount
    clock: Clock | None = None
    outlive: Outlive | None = None
    is_abandoned: bool = False
    task: asyncio.Task[Any] = field(init=False)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    marker: Marker = field(default_factory=lambda: HERE.marker)
    baseline: int = 0
    """The cancellations of the task when the call began."""
    is_expired: bool = False
    patience_end: float = math.inf
    """When the time for clean-up is over."""
    cancellation: asyncio.CancelledError | None = None

    @types.coroutine
    def run(self, waits_for: Any) -> Generator[Any, Any, Any]:
        if not self.is_abandoned:
            self._begin()
        clock = self.clock
        if clock is None and self.timeout_s is not None:
            clock = Clock(self.timeout_s)
        if clock is not None:
            clock.start(self.loop, self._expire)
        try:
            while True:
                resume: Callable[[Any], Any] = self.coroutine.send
                try:
                    if self.patience_end == math.inf:
                        sent = yield waits_for
                    else:
                        sent = yield from self._wait_patiently(waits_for)
                except GeneratorExit:
                    self._close()
                    raise
                except BaseException as error:
                    resume, sent = self.coroutine.throw, error
                    self._note(error)
                if sent is _LET_GO:
                    self._let_go(waits_for)
                    return self._settle(None, self.cancellation)

                before = self.marker.enter(self.slots)
                try:
                    waits_for = resume(sent)
                except StopIteration as stop:
                    return self._settle(stop.value, None)
                except BaseException as error:
                    return self._settle(None, error)
                finally:
                    self.marker.leave(before)
                    sent = None  # an exception kept here would keep its frames alive, this one included

                if self.cancellation is not None and not self._is_stopping:
                    # It was a timeout inside the tool, which the tool has handled.
                    self.patience_end, self.cancellation = math.inf, None
        finally:
            if clock is not None:
                clock.stop()
            self.cancellation = None

    @property
    def _is_stopping(self) -> bool:
        """Whether this call is to end, by its deadline or because the caller is cancelled."""
        return self.is_expired or self.task.cancelling() > self.baseline

    def _begin(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # code that suspends runs in a task  # noqa: S101
        self.task = task
        # A cancellation that came during the first step (Ctrl-C, another thread) is still to be delivered.
        self.baseline = task.cancelling() - bool(getattr(task, "_must_cancel", False))

    def _expire(self) -> None:
        self.is_expired = True
        if self.cancellation is not None:
            self.patience_end = min(self.patience_end, self.loop.time() + TIMEOUT_GRACE_S)
        self.task.cancel()

    def _note(self, error: BaseException) -> None:
        """Start the time for clean-up if the coroutine is to stop."""
        if isinstance(error, asyncio.CancelledError) and self.cancellation is None and self._is_stopping:
            # The first one is kept: anyio recognises its own by their text.
            self.cancellation = error
            grace_s = TIMEOUT_GRACE_S if self.is_expired else CANCEL_GRACE_S
            self.patience_end = self.loop.time() + grace_s

    def _wait_patiently(self, waits_for: Any) -> Generator[Any, Any, Any]:
        """Wait for what the coroutine waits for, until the time for clean-up is over."""
        if self.loop.time() >= self.patience_end:
            return _LET_GO
        if not _is_awaited_future(waits_for, self.loop):
            return (yield waits_for)
        waits_for._asyncio_future_blocking = False
        while not waits_for.done():
            left_s = self.patience_end - self.loop.time()
            if left_s <= 0:
                waits_for._asyncio_future_blocking = True
                return _LET_GO
            wake_up = self.loop.create_future()
            on_done = functools.partial(_wake, wake_up)
            timer = self.loop.call_later(left_s, on_done, None)
            waits_for.add_done_callback(on_done)
            try:
                yield from wake_up
            except asyncio.CancelledError:
                waits_for.cancel()  # what the task itself would have done
            finally:
                timer.cancel()
                waits_for.remove_done_callback(on_done)
        waits_for.result()  # raises what the task would have thrown in
        return None

    def _settle(self, value: Any, error: BaseException | None) -> Any:
        """Return or raise the outcome for the caller, once the coroutine has ended or was let go."""
        if self.is_expired:
            self.task.uncancel()
        cancellation = self.cancellation
        if isinstance(error, BaseExceptionGroup) and cancellation is not None and not self.is_expired:
            # Before 3.13 a task group whose child failed cancels its task and does not take that back.
            self.task.uncancel()
        if cancellation is not None and self.task.cancelling() > self.baseline:
            try:
                raise cancellation from None
            finally:
                del cancellation
        if self.is_expired:
            raise ToolTimeoutError(
                f"{self.slots.label} did not finish within {self.timeout_s:g} s."
            ) from None
        if error is not None:
            try:
                raise Raised(error) from None
            finally:
                del error
        return value

    def _let_go(self, waits_for: Any) -> None:
        """Move the coroutine to a task of its own.

        A scope of a library that it has not left cannot be moved: when its time is over, it cancels the
        caller's task, if that still runs. Hence the time for clean-up before.
        """
        if self.is_abandoned:
            # Cancelled for the second time, by a loop that ends.
            self._close()
            return
        logger.debug("a call of tool '%s' does not stop; it goes on in the background", self.slots.name)
        moved = _RunningCall(self.slots, self.coroutine, None, self.abandoned_count, is_abandoned=True)
        self.slots.enter()
        self._count_abandoned(1)
        finish = moved.finish(waits_for, None if self.outlive is None else self.outlive())
        suspended = SuspendedCoroutine(finish, finish.send(None))
        moved.task = self.loop.create_task(suspended, name=f"abandoned call of {self.slots.name}")
        _abandoned_tasks.add(moved.task)
        moved.task.add_done_callback(_abandoned_tasks.discard)

    async def finish(self, waits_for: Any, on_end: Callable[[], None] | None) -> None:
        """Run an abandoned coroutine to its end, and drop its outcome."""
        try:
            await self.run(waits_for)
        except GeneratorExit:
            raise
        except BaseException as error:
            logger.debug(
                "an abandoned call of tool '%s' ended with %s", self.slots.name, type(error).__name__
            )
        finally:
            self._count_abandoned(-1)
            self.slots.leave()
            if on_end is not None:
                on_end()

    def _count_abandoned(self, number: int) -> None:
        with self.slots.lock:
            self.slots.abandoned += number
        self.abandoned_count.add(number)

    def _close(self) -> None:
        try:
            self.coroutine.close()
        except BaseException as error:
            logger.debug("tool '%s' could not be closed: %s", self.slots.name, type(error).__name__)


class SuspendedCoroutine(Coroutine[Any, Any, Any]):
    """A coroutine that was started and has yielded, in the form that a task takes.

    A task that is cancelled before its first step would throw into a coroutine that has not begun, and the
    tool's code would never run. This one has begun before the task sees it.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], yielded: Any) -> None:
        self._coroutine = coroutine
        self._yielded = yielded
        self._is_new = True

    def send(self, value: Any) -> Any:
        if self._is_new:
            self._is_new = False
            yielded, self._yielded = self._yielded, None
            return yielded
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        self._is_new = False
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        """Go on inside another coroutine, which passes on what is sent and thrown."""
        return self  # it has the methods of a generator

    def __iter__(self) -> SuspendedCoroutine:
        return self

    def __next__(self) -> Any:
        return self.send(None)


def _is_awaited_future(candidate: Any, loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether a coroutine yielded a future of this loop; a task handles anything else."""
    return getattr(candidate, "_asyncio_future_blocking", None) is True and candidate.get_loop() is loop


def _wake(future: asyncio.Future[None], _: object) -> None:
    complete(future)
