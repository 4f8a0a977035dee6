"""Daemon threads for code that may block: shared by all tools, bounded per tool.

An idle thread is used again, the last one first, and ends when it was idle for a while. A blocked one cannot
be stopped: its caller is answered in time and the lane keeps counting it. The threads are daemons because a
process must be able to end whatever they do. Knows lanes, loops and threads; refuses to know the work.

Tells an event loop, from another thread, that something it waits for has happened.

`call_soon_threadsafe` costs the loop a handle, two reads of its own pipe and an exception. Where the system
has event counters, one per loop does the same with one write and one read, and several messages share them.
Knows loops and futures; refuses to know what is waited for.
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

from toolcrib.dispatch.concurrency import Lane, Outlive, Raised, Stage, Tally, Ticket
from toolcrib.dispatch.deadline import Clock
from toolcrib.errors import ToolBusyError, ToolTimeoutError


class Mailbox(Protocol):
    def put(self, future: asyncio.Future[None]) -> bool:
        """Wake whoever waits for `future`, from any thread. False: its loop is closed, nobody waits."""
        ...


class _Counter:
    """One event counter, watched by its loop; it lives as long as the loop does."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._futures: deque[asyncio.Future[None]] = deque()
        self._counter = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._loop = weakref.ref(loop)  # or else the table of mailboxes would keep every loop there ever was
        try:
            loop.add_reader(self._counter, self._deliver)
        except BaseException:
            os.close(self._counter)
            raise
        # Not earlier: a thread may write as long as somebody holds the loop.
        weakref.finalize(loop, os.close, self._counter)

    def put(self, future: asyncio.Future[None]) -> bool:
        loop = self._loop()  # held while this writes, so that the counter is not closed meanwhile
        if loop is None or loop.is_closed():
            return False
        self._futures.append(future)
        os.eventfd_write(self._counter, 1)
        return True

    def _deliver(self) -> None:
        try:
            os.eventfd_read(self._counter)
        except BlockingIOError:
            pass  # another round has emptied it already
        while self._futures:
            ring(self._futures.popleft())


class _Calls:
    """The way that every loop knows."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)

    def put(self, future: asyncio.Future[None]) -> bool:
        loop = self._loop()
        try:
            if loop is not None:
                loop.call_soon_threadsafe(ring, future)
        except RuntimeError:
            return False
        return loop is not None


class _Here(threading.local):
    """The mailbox of the loop that ran last on this thread: nearly always the one that is asked for."""

    loop: weakref.ref[asyncio.AbstractEventLoop] | None = None
    mailbox: Mailbox | None = None


_here = _Here()
_mailboxes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox] = weakref.WeakKeyDictionary()


def mailbox_of(loop: asyncio.AbstractEventLoop) -> Mailbox:
    """The mailbox of the running loop."""
    if _here.loop is not None and _here.mailbox is not None and _here.loop() is loop:
        return _here.mailbox
    mailbox = _mailboxes.get(loop)
    if mailbox is None:
        mailbox = _mailboxes[loop] = _make(loop)
    _here.loop, _here.mailbox = weakref.ref(loop), mailbox
    return mailbox


def _make(loop: asyncio.AbstractEventLoop) -> Mailbox:
    if hasattr(os, "eventfd"):
        try:
            return _Counter(loop)
        except (NotImplementedError, OSError):
            pass  # a loop that watches no descriptors, or none left to be had
    return _Calls(loop)


def ring(future: asyncio.Future[None]) -> None:
    """Let the one who waits for `future` go on, unless somebody has already."""
    if not future.done():
        future.set_result(None)


logger = logging.getLogger("toolcrib")

IDLE_S = 10.0


class Job(Ticket):
    """One piece of work, from the loop that waits for it to a thread and back."""

    __slots__ = (
        "_context",
        "_loop",
        "_mailbox",
        "_work",
        "end",
        "error",
        "future",
        "is_refused",
        "lane",
        "outlive",
        "value",
    )

    def __init__(self, lane: Lane, work: Callable[[], Any], outlive: Outlive | None = None) -> None:
        super().__init__()
        self.lane = lane
        self.outlive = outlive
        self.end: Callable[[], None] | None = None
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._mailbox = mailbox_of(self._loop)
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
        """Nobody wants the outcome: let go of it, and of the frames an error holds."""
        self.value = self.error = None

    def announce(self) -> None:
        """Wake the one who waits, from any thread."""
        if not self._mailbox.put(self.future):
            self.drop()


class Threads:
    """The threads of one runner. Several loops may use them at once."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._numbers = itertools.count(1)
        self._is_closed = False

    async def run(
        self,
        lane: Lane,
        work: Callable[[], Any],
        timeout_s: float | None,
        on_abandon: Callable[[], None] | None = None,
        clock: Clock | None = None,
        outlive: Outlive | None = None,
    ) -> Any:
        job = Job(lane, work, outlive)
        is_admitted = lane.admit(job)
        if clock is None and timeout_s is not None:
            clock = Clock(timeout_s)
        if clock is not None:
            clock.start(asyncio.get_running_loop(), functools.partial(ring, job.future))
        if is_admitted:
            self._start(
                job
            )  # last, so that the thread does not wait for this one to let go of the interpreter
        try:
            await job.future
        except (asyncio.CancelledError, GeneratorExit):
            self._abandon(job, on_abandon)
            raise
        finally:
            if clock is not None:
                clock.stop()
        if job.stage is not Stage.ENDED and self._abandon(job, on_abandon):
            raise ToolTimeoutError(f"Tool '{lane.name}' did not finish within {timeout_s:g} s.")
        if job.is_refused:
            raise ToolBusyError(f"Tool '{lane.name}' is busy: no thread can be started. Try again later.")
        error, job.error = job.error, None
        if error is not None:
            try:
                raise Raised(error) from None
            finally:
                del error
        return job.value

    def close(self) -> None:
        """End the idle threads now and the others after their work. Waits for none of them."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.wake(None)

    def _abandon(self, job: Job, on_abandon: Callable[[], None] | None) -> bool:
        """False if the work has ended in this very moment, so that nothing is abandoned."""
        if job.outlive is not None:
            job.end = job.outlive()  # first: the thread may end the work right after it was given up
        stage = job.lane.abandon(job)
        if stage is not Stage.RUNNING and job.end is not None:
            job.end()
        if stage is Stage.ENDED:
            return False
        if stage is Stage.RUNNING:
            self._tally.add(1)
        if on_abandon is not None:
            try:
                on_abandon()
            except Exception:
                logger.exception("tool '%s': telling it that nobody waits failed", job.lane.name)
        return True

    def _start(self, job: Job) -> None:
        with self._lock:
            worker = self._idle.pop() if self._idle else None
        if worker is not None:
            worker.wake(job)
            return
        name = f"toolcrib-{next(self._numbers)}"
        try:
            threading.Thread(target=_Worker(self, job).live, name=name, daemon=True).start()
        except RuntimeError:
            # The machine has no thread left. Those who wait for this slot would wait for ever: refuse all.
            refused: Job | None = job
            while refused is not None:
                refused.is_refused = True
                refused = self.finish(refused)

    def finish(self, job: Job, worker: _Worker | None = None) -> Job | None:
        """The work has ended: pass the slot on, then tell the one who waits. Returns who got the slot."""
        is_awaited, successor = job.lane.finish(job)
        if successor is None and worker is not None:
            # Before the caller hears of it: its next call shall find this thread idle, not start another.
            worker.is_resting = self.rest(worker)
        if is_awaited:
            job.announce()
        else:
            self._tally.add(-1)
            job.drop()
            if job.end is not None:
                job.end()
        return successor  # type: ignore[return-value]  # a lane hands out what it was given

    def rest(self, worker: _Worker) -> bool:
        """Put a worker among the idle. False: it shall end."""
        with self._lock:
            if not self._is_closed:
                self._idle.append(worker)
            return not self._is_closed

    def retire(self, worker: _Worker) -> bool:
        """A worker has been idle for long. False: somebody has just picked it, so work is on its way."""
        with self._lock:
            if worker in self._idle:
                self._idle.remove(worker)
                return True
            return False


class _Worker:
    """One thread. The bell is a lock used as a signal: the cheapest way to hand work to a thread."""

    __slots__ = ("_bell", "_job", "_threads", "is_resting")

    def __init__(self, threads: Threads, job: Job) -> None:
        self._threads = threads
        self._job: Job | None = job
        self.is_resting = False
        self._bell = threading.Lock()
        self._bell.acquire()

    def wake(self, job: Job | None) -> None:
        self._job = job
        self._bell.release()

    def live(self) -> None:
        while True:
            job, self._job = self._job, None
            if job is None:
                return
            while job is not None:
                job.run()
                job = self._threads.finish(job, self)
            if not self.is_resting:
                return
            if not self._bell.acquire(timeout=IDLE_S):
                if self._threads.retire(self):
                    return
                self._bell.acquire()
