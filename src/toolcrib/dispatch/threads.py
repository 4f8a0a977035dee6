"""Daemon threads for code that may block: shared by all tools, bounded per tool.

An idle thread is reused, the last one first, and ends when it was idle for a while. A blocked one cannot be
stopped: its caller is answered in time and the thread stays counted. The threads are daemons so that the
process can always end.

`waker_of` returns the cheapest way to wake an event loop from another thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import itertools
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from toolcrib.dispatch.concurrency import AbandonedCount, Outlive, Raised, Stage, Ticket, ToolSlots
from toolcrib.dispatch.deadline import Clock
from toolcrib.errors import ToolBusyError, ToolTimeoutError

logger = logging.getLogger("toolcrib")

IDLE_S = 10.0


class Waker(Protocol):
    def wake(self, future: asyncio.Future[None]) -> bool:
        """Complete a future of the loop, from any thread. False: the loop is closed."""
        ...


class _EventfdWaker:
    """Uses one event counter per loop, which lives as long as the loop.

    `call_soon_threadsafe` costs the loop a handle, two reads of its own pipe and an exception. An event
    counter does the same with one write and one read, which several futures share.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._futures: deque[asyncio.Future[None]] = deque()
        self._counter = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._loop = weakref.ref(loop)  # a strong reference would keep every loop alive in the table below
        try:
            loop.add_reader(self._counter, self._deliver)
        except BaseException:
            os.close(self._counter)
            raise
        # Not earlier: a thread may write as long as it holds the loop.
        weakref.finalize(loop, os.close, self._counter)

    def wake(self, future: asyncio.Future[None]) -> bool:
        loop = self._loop()  # held during the write, so that the counter is not closed meanwhile
        if loop is None or loop.is_closed():
            return False
        self._futures.append(future)
        os.eventfd_write(self._counter, 1)
        return True

    def _deliver(self) -> None:
        try:
            os.eventfd_read(self._counter)
        except BlockingIOError:
            pass  # another turn has emptied it already
        while self._futures:
            complete(self._futures.popleft())


class _CallbackWaker:
    """Works with every event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)

    def wake(self, future: asyncio.Future[None]) -> bool:
        loop = self._loop()
        try:
            if loop is not None:
                loop.call_soon_threadsafe(complete, future)
        except RuntimeError:
            return False
        return loop is not None


class _Last(threading.local):
    """The waker that was last used on this thread: nearly always the one that is asked for."""

    loop: weakref.ref[asyncio.AbstractEventLoop] | None = None
    waker: Waker | None = None


_last = _Last()
_wakers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Waker] = weakref.WeakKeyDictionary()


def waker_of(loop: asyncio.AbstractEventLoop) -> Waker:
    """Return the waker of the running loop."""
    if _last.loop is not None and _last.waker is not None and _last.loop() is loop:
        return _last.waker
    waker = _wakers.get(loop)
    if waker is None:
        waker = _wakers[loop] = _make_waker(loop)
    _last.loop, _last.waker = weakref.ref(loop), waker
    return waker


def _make_waker(loop: asyncio.AbstractEventLoop) -> Waker:
    if hasattr(os, "eventfd"):
        try:
            return _EventfdWaker(loop)
        except (NotImplementedError, OSError):
            pass  # the loop watches no descriptors, or there is none left
    return _CallbackWaker(loop)


def complete(future: asyncio.Future[None]) -> None:
    """Complete a future, unless it is done already."""
    if not future.done():
        future.set_result(None)


class Job(Ticket):
    """One piece of work: an event loop waits for it, a thread does it."""

    __slots__ = (
        "_context",
        "_loop",
        "_waker",
        "_work",
        "end",
        "error",
        "future",
        "is_refused",
        "outlive",
        "slots",
        "value",
    )

    def __init__(self, slots: ToolSlots, work: Callable[[], Any], outlive: Outlive | None = None) -> None:
        super().__init__()
        self.slots = slots
        self.outlive = outlive
        self.end: Callable[[], None] | None = None
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._waker = waker_of(self._loop)
        self._context = contextvars.copy_context()
        self.future: asyncio.Future[None] = self._loop.create_future()
        self.value: Any = None
        self.error: BaseException | None = None
        self.is_refused = False

    def run(self) -> None:
        try:
            self.value = self._context.run(self._work)
        except BaseException as error:
            self.error = error

    def drop(self) -> None:
        """Drop the outcome, and with it the frames that an error refers to."""
        self.value = self.error = None

    def announce(self) -> None:
        """Wake the caller, from any thread."""
        if not self._waker.wake(self.future):
            self.drop()


class ThreadPool:
    """The threads of one runner. Several event loops may use them at once."""

    def __init__(self, abandoned_count: AbandonedCount) -> None:
        self._abandoned = abandoned_count
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._numbers = itertools.count(1)
        self._is_closed = False

    async def run(
        self,
        slots: ToolSlots,
        work: Callable[[], Any],
        timeout_s: float | None,
        on_abandon: Callable[[], None] | None = None,
        clock: Clock | None = None,
        outlive: Outlive | None = None,
    ) -> Any:
        job = Job(slots, work, outlive)
        is_admitted = slots.admit(job)
        if clock is None and timeout_s is not None:
            clock = Clock(timeout_s)
        if clock is not None:
            clock.start(asyncio.get_running_loop(), functools.partial(complete, job.future))
        if is_admitted:
            self._start(job)  # last, so that the thread does not have to wait for the interpreter lock
        try:
            await job.future
        except (asyncio.CancelledError, GeneratorExit):
            self._abandon(job, on_abandon)
            raise
        finally:
            if clock is not None:
                clock.stop()
        if job.stage is not Stage.ENDED and self._abandon(job, on_abandon):
            raise ToolTimeoutError(f"Tool '{slots.name}' did not finish within {timeout_s:g} s.")
        if job.is_refused:
            raise ToolBusyError(f"Tool '{slots.name}' is busy: no thread can be started. Try again later.")
        error, job.error = job.error, None
        if error is not None:
            try:
                raise Raised(error) from None
            finally:
                del error
        return job.value

    def close(self) -> None:
        """End idle threads now and the others after their work, without waiting for them."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.wake(None)

    def _abandon(self, job: Job, on_abandon: Callable[[], None] | None) -> bool:
        """Give up a job. False: it has ended at this moment, so there is nothing to give up."""
        if job.outlive is not None:
            job.end = job.outlive()  # first: the work may end right after it was given up
        stage = job.slots.abandon(job)
        if stage is not Stage.RUNNING and job.end is not None:
            job.end()
        if stage is Stage.ENDED:
            return False
        if stage is Stage.RUNNING:
            self._abandoned.add(1)
        if on_abandon is not None:
            try:
                on_abandon()
            except Exception:
                logger.exception("tool '%s': the cancellation callback failed", job.slots.name)
        return True

    def _start(self, job: Job) -> None:
        with self._lock:
            worker = self._idle.pop() if self._idle else None
        if worker is not None:
            worker.wake(job)
            return
        name = f"toolcrib-{next(self._numbers)}"
        try:
            threading.Thread(target=_Worker(self, job).run, name=name, daemon=True).start()
        except RuntimeError:
            # No thread can be started. Jobs that wait for this slot would wait for ever: refuse all.
            refused: Job | None = job
            while refused is not None:
                refused.is_refused = True
                refused = self.finish(refused)

    def finish(self, job: Job, worker: _Worker | None = None) -> Job | None:
        """Pass the slot of finished work on, then wake the caller. Return the job that got the slot."""
        is_awaited, successor = job.slots.finish(job)
        if successor is None and worker is not None:
            # Before the caller is woken: its next call should find this thread idle, not start another.
            worker.is_resting = self.rest(worker)
        if is_awaited:
            job.announce()
        else:
            self._abandoned.add(-1)
            job.drop()
            if job.end is not None:
                job.end()
        return successor  # type: ignore[return-value]  # a slots returns the tickets it was given

    def rest(self, worker: _Worker) -> bool:
        """Add a worker to the idle ones. False: it has to end."""
        with self._lock:
            if not self._is_closed:
                self._idle.append(worker)
            return not self._is_closed

    def retire(self, worker: _Worker) -> bool:
        """Remove a worker that was idle for long. False: it was just picked, and gets a job."""
        with self._lock:
            if worker in self._idle:
                self._idle.remove(worker)
                return True
            return False


class _Worker:
    """One thread. The lock is used as a signal: the cheapest way to hand work to a thread."""

    __slots__ = ("_job", "_signal", "_threads", "is_resting")

    def __init__(self, threads: ThreadPool, job: Job) -> None:
        self._threads = threads
        self._job: Job | None = job
        self.is_resting = False
        self._signal = threading.Lock()
        self._signal.acquire()

    def wake(self, job: Job | None) -> None:
        self._job = job
        self._signal.release()

    def run(self) -> None:
        while True:
            job, self._job = self._job, None
            if job is None:
                return
            while job is not None:
                job.run()
                job = self._threads.finish(job, self)
            if not self.is_resting:
                return
            if not self._signal.acquire(timeout=IDLE_S):
                if self._threads.retire(self):
                    return
                self._signal.acquire()
