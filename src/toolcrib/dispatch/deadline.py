"""Runs a coroutine step by step inside the task of its caller, under a deadline it can neither miss nor hold.

A task per call costs more than most tools do. So the coroutine is driven by hand: what it yields goes up
to the caller's task, what comes back goes down. A deadline is armed only once the coroutine suspends.

Who was cancelled? The task counts its cancellations, and so do we: one that is ours means the deadline; one
more than there was at the start and is not ours means that the caller is to stop; none means that something
inside the tool was cancelled, which is the tool's own affair.

A cancelled coroutine may await its clean-up. Libraries that bind scopes to their task (asyncio.timeout,
anyio, so every httpx connection) must do that in the task they began in, so it gets a moment there. What
still runs then is moved to a task of its own and counted as abandoned; the caller goes on without it.

Knows asyncio; refuses to know tools beyond their lane.

The deadline of one call, which stands still while a person is asked.

Knows a loop's time and what to do when it is up; refuses to know what runs.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from toolcrib.dispatch.concurrency import Lane, Outlive, Raised, Tally
from toolcrib.dispatch.watchdog import HERE, WATCHDOG
from toolcrib.errors import ToolTimeoutError


class Clock:
    """Counts the time that a call has run. `hold` stops it and lets it go on; holds add up."""

    __slots__ = ("_expire", "_holds", "_left_s", "_loop", "_since", "_timer")

    def __init__(self, limit_s: float) -> None:
        self._left_s = limit_s
        self._holds = 0
        self._since = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._expire: Callable[[], object] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop, expire: Callable[[], object]) -> None:
        self._loop, self._expire = loop, expire
        if not self._holds:
            self._go_on()

    def stop(self) -> None:
        self._stand_still()
        self._loop = self._expire = None

    def hold(self, holds: bool) -> None:
        before, self._holds = self._holds, self._holds + (1 if holds else -1)
        if self._loop is None:
            return
        if before == 0:
            self._stand_still()
        elif self._holds == 0:
            self._go_on()

    def _go_on(self) -> None:
        if self._loop is not None and self._expire is not None:
            self._since = self._loop.time()
            self._timer = self._loop.call_later(self._left_s, self._expire)

    def _stand_still(self) -> None:
        if self._timer is not None and self._loop is not None:
            self._timer.cancel()
            self._timer = None
            self._left_s = max(0.0, self._left_s - (self._loop.time() - self._since))


logger = logging.getLogger("toolcrib")

TIMEOUT_GRACE_S = 0.05
"""For clean-up after the deadline; the answer to the caller waits for it."""

CANCEL_GRACE_S = 0.25
"""For clean-up after a cancellation that is not ours. Longer: it may come from a timeout inside the tool, and
then nobody but the tool has been cancelled."""

_LET_GO = object()
_drives: dict[asyncio.Task[Any], list[_Drive]] = {}
"""The suspended calls of each task, outermost first: a tool may call another one."""

_adopted: set[asyncio.Task[None]] = set()
"""Loops hold their tasks weakly, so somebody must hold these."""


async def run_steps(
    lane: Lane,
    coroutine: Coroutine[Any, Any, Any],
    timeout_s: float | None,
    tally: Tally,
    clock: Clock | None = None,
    outlive: Outlive | None = None,
) -> Any:
    """Run the coroutine to its end, or to its deadline. Most calls end with their first step."""
    marker = HERE.marker
    lane.on_loop.append(None)  # as `Lane.enter` and `Marker.enter` do, without the calls
    before, marker.lane = marker.lane, lane
    if before is None:
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
            marker.lane = before
        return await _Drive(lane, coroutine, timeout_s, tally, clock, outlive).run(waits_for)
    finally:
        lane.on_loop.pop()


def is_suspended_in(task: asyncio.Task[Any]) -> bool:
    """Whether a call has suspended in this task."""
    return task in _drives


class _Drive:
    """A coroutine that has suspended, from there to its end."""

    __slots__ = (
        "_asked",
        "_baseline",
        "_cancellation",
        "_clock",
        "_coroutine",
        "_end_outlived",
        "_expired",
        "_is_adopted",
        "_is_stepping",
        "_lane",
        "_loop",
        "_marker",
        "_outlive",
        "_patience_end",
        "_tally",
        "_task",
        "_timeout_s",
    )

    _task: asyncio.Task[Any]

    def __init__(
        self,
        lane: Lane,
        coroutine: Coroutine[Any, Any, Any],
        timeout_s: float | None,
        tally: Tally,
        clock: Clock | None = None,
        outlive: Outlive | None = None,
        *,
        is_adopted: bool = False,
    ) -> None:
        self._lane = lane
        self._coroutine = coroutine
        self._timeout_s = timeout_s
        self._tally = tally
        self._clock = clock
        self._outlive = outlive
        self._end_outlived: Callable[[], None] | None = None
        self._is_adopted = is_adopted
        self._loop = asyncio.get_running_loop()
        self._marker = HERE.marker
        self._baseline = 0
        self._asked = False
        self._expired = False
        self._is_stepping = False
        self._patience_end = math.inf
        self._cancellation: asyncio.CancelledError | None = None

    @types.coroutine
    def run(self, waits_for: Any) -> Generator[Any, Any, Any]:
        if not self._is_adopted:
            self._begin()
        clock = self._clock
        if clock is None and self._timeout_s is not None:
            clock = Clock(self._timeout_s)
        if clock is not None:
            clock.start(self._loop, self._expire)
        try:
            while True:
                resume: Callable[[Any], Any] = self._coroutine.send
                try:
                    if self._patience_end == math.inf:
                        sent = yield waits_for
                    else:
                        sent = yield from self._wait_patiently(waits_for)
                except GeneratorExit:
                    self._close()
                    raise
                except BaseException as error:
                    resume, sent = self._coroutine.throw, error
                    self._note(error)
                if sent is _LET_GO:
                    self._let_go(waits_for)
                    return self._settle(None, self._cancellation)

                before = self._marker.enter(self._lane)
                self._is_stepping = True
                try:
                    waits_for = resume(sent)
                except StopIteration as stop:
                    return self._settle(stop.value, None)
                except BaseException as error:
                    return self._settle(None, error)
                finally:
                    self._is_stepping = False
                    self._marker.leave(before)
                    sent = None  # an exception kept here would keep its frames, this one among them

                if self._cancellation is not None and not self._is_stopping:
                    # It was a timeout inside the tool, and the tool has dealt with it.
                    self._patience_end, self._cancellation = math.inf, None
        finally:
            if clock is not None:
                clock.stop()
            self._end()

    @property
    def _is_stopping(self) -> bool:
        """Somebody wants this call to end: its deadline, or whoever cancels the caller."""
        if self._expired:
            return True
        requests = self._task.cancelling() - self._baseline
        if requests <= 0:
            return False
        # A call within this one may have reached its deadline; that is for it to deal with.
        stack = _drives[self._task]
        return requests > sum(inner._asked for inner in stack[stack.index(self) + 1 :])

    def _begin(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # nosec B101  # whatever suspends does so in a task
        self._task = task
        # A cancellation that came during the first step (Ctrl-C, another thread) is still to be delivered.
        self._baseline = task.cancelling() - bool(getattr(task, "_must_cancel", False))
        stack = _drives.setdefault(task, [])
        # The calls around this one are in mid-step; those that it made in its own first step have suspended.
        stack.insert(sum(drive._is_stepping for drive in stack), self)

    def _end(self) -> None:
        self._cancellation = None
        stack = _drives[self._task]
        stack.remove(self)
        if not stack:
            del _drives[self._task]

    def _expire(self) -> None:
        self._expired = self._asked = True
        if self._cancellation is not None:
            self._patience_end = min(self._patience_end, self._loop.time() + TIMEOUT_GRACE_S)
        self._task.cancel()

    def _note(self, error: BaseException) -> None:
        """If somebody wants the coroutine to stop, its patience begins."""
        if isinstance(error, asyncio.CancelledError) and self._cancellation is None and self._is_stopping:
            # The first one is kept: anyio recognises its own by their text.
            self._cancellation = error
            grace_s = TIMEOUT_GRACE_S if self._expired else CANCEL_GRACE_S
            self._patience_end = self._loop.time() + grace_s

    def _wait_patiently(self, waits_for: Any) -> Generator[Any, Any, Any]:
        """Wait for what the coroutine waits for, but only until patience ends; then leave it untouched."""
        if self._loop.time() >= self._patience_end:
            return _LET_GO
        if not _is_awaited_future(waits_for, self._loop):
            return (yield waits_for)
        waits_for._asyncio_future_blocking = False
        while not waits_for.done():
            left_s = self._patience_end - self._loop.time()
            if left_s <= 0:
                waits_for._asyncio_future_blocking = True
                return _LET_GO
            bell = self._loop.create_future()
            ring = functools.partial(_ring, bell)
            timer = self._loop.call_later(left_s, ring, None)
            waits_for.add_done_callback(ring)
            try:
                yield from bell
            except asyncio.CancelledError:
                waits_for.cancel()  # what the task itself would have done
            finally:
                timer.cancel()
                waits_for.remove_done_callback(ring)
        waits_for.result()  # raises what the task would have thrown in
        return None

    def _settle(self, value: Any, error: BaseException | None) -> Any:
        """The coroutine has ended or was let go: what does the caller hear?"""
        if self._asked:
            self._asked = False
            self._task.uncancel()
        cancellation = self._cancellation
        if isinstance(error, BaseExceptionGroup) and cancellation is not None and not self._expired:
            # Before 3.13 a task group whose child failed cancels its task and does not take that back.
            self._task.uncancel()
        if cancellation is not None and self._task.cancelling() > self._baseline:
            try:
                raise cancellation from None
            finally:
                del cancellation
        if self._expired:
            raise ToolTimeoutError(
                f"Tool '{self._lane.name}' did not finish within {self._timeout_s:g} s."
            ) from None
        if error is not None:
            try:
                raise Raised(error) from None
            finally:
                del error
        return value

    def _let_go(self, waits_for: Any) -> None:
        """Give the coroutine a task of its own, with the calls that it is in the middle of.

        What cannot be moved is a scope of a library that it has not left: when that one's time is over, it
        cancels the caller's task, if that still runs. Hence the moment for clean-up before.
        """
        if self._is_adopted:
            # Cancelled for the second time, by a loop that wants to end: it shall end.
            self._close()
            return
        logger.debug("a call of tool '%s' does not stop; it goes on unattended", self._lane.name)
        heir = _Drive(self._lane, self._coroutine, None, self._tally, is_adopted=True)
        if self._outlive is not None:
            heir._end_outlived = self._outlive()
        self._lane.enter()
        self._count_abandoned(1)
        finish = heir.finish(waits_for)
        life = SuspendedCoroutine(finish, finish.send(None))
        heir._task = self._loop.create_task(life, name=f"abandoned call of {self._lane.name}")
        _adopted.add(heir._task)
        heir._task.add_done_callback(_adopted.discard)
        stack = _drives[self._task]
        own = stack.index(self) + 1
        _drives[heir._task] = [heir, *stack[own:]]
        for inner in stack[own:]:
            inner._move(heir._task)
        del stack[own:]

    def _move(self, task: asyncio.Task[Any]) -> None:
        """The call around this one was let go, and this one with it: what it cancels is another task now."""
        if self._asked:
            self._asked = False
            self._task.uncancel()
        self._task = task
        self._baseline = 0

    async def finish(self, waits_for: Any) -> None:
        """The life of a coroutine that was let go: whatever comes of it is dropped."""
        try:
            await self.run(waits_for)
        except GeneratorExit:
            raise
        except BaseException as error:
            logger.debug(
                "an abandoned call of tool '%s' ended with %s", self._lane.name, type(error).__name__
            )
        finally:
            self._count_abandoned(-1)
            self._lane.leave()
            if self._end_outlived is not None:
                self._end_outlived()

    def _count_abandoned(self, number: int) -> None:
        with self._lane.lock:
            self._lane.abandoned += number
        self._tally.add(number)

    def _close(self) -> None:
        try:
            self._coroutine.close()
        except BaseException as error:
            logger.debug("tool '%s' could not be closed: %s", self._lane.name, type(error).__name__)


class SuspendedCoroutine(Coroutine[Any, Any, Any]):
    """A coroutine in mid-course, as a task wants it.

    A task that is cancelled before its first step throws into a coroutine that has not begun, which then
    never does; the tool's code would be lost. This one has begun before the task sees it, and has yielded.
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
        """Goes on inside another coroutine, which passes on what is sent and thrown."""
        return self  # it has all that a generator has

    def __iter__(self) -> SuspendedCoroutine:
        return self

    def __next__(self) -> Any:
        return self.send(None)


def _is_awaited_future(candidate: Any, loop: asyncio.AbstractEventLoop) -> bool:
    """Anything else that a coroutine may yield is for the task to judge."""
    return getattr(candidate, "_asyncio_future_blocking", None) is True and candidate.get_loop() is loop


def _ring(bell: asyncio.Future[None], _: object) -> None:
    if not bell.done():
        bell.set_result(None)
