"""Runs the code of sync tools: inline, on a thread, or in a process. `deadline` runs that of async tools.

Exceptions of the tool are raised as `Raised`; time-outs, a busy tool or a lost process as errors of toolcrib.

Threads are shared by all tools and bounded per tool. Waking a thread costs more than most tools do, so a
call is left to a thread that is at work; if that does not come back within a moment, another one takes over
(`Threads`). An idle thread ends after a while. A blocked one cannot be stopped: its caller is answered in
time and the thread stays counted in the slots of its tool. The threads are daemons so that the process can
always end.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import itertools
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

from toolcrib.dispatch.event_loop import HERE, complete, waker_of
from toolcrib.dispatch.failures import Raised
from toolcrib.errors import CallError, DefinitionError, ToolBusyError, ToolTimeoutError
from toolcrib.state.rate_limit import LogLimiter

if TYPE_CHECKING:
    from toolcrib.dispatch.processes import Converter, ProcessPool

logger = logging.getLogger("toolcrib")

IDLE_S = 10.0
NOTICE_EVERY_S = 60.0
LOOK_AFTER_S = 0.001
"""How often jobs are looked after that have just begun."""
EXACT_S = 0.05
"""Limits below this are counted from the start of a job, others from when it is looked after."""

Outlive = Callable[[], Callable[[], None]]
"""Called when a call is abandoned whose code may still run. Returns a function that is called, perhaps on
another thread, when that code has ended. So quotas go on counting the call."""


class Clock:
    """The time that a call has run. `hold` pauses and resumes it, while the user is asked; holds add up.
    `left_s` is exact while the clock stands still."""

    __slots__ = ("_expire", "_holds", "_loop", "_since", "_timer", "left_s")

    def __init__(self, limit_s: float) -> None:
        self.left_s = limit_s
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
            self._timer = self._loop.call_later(self.left_s, self._expire)

    def _stand_still(self) -> None:
        if self._timer is not None and self._loop is not None:
            self._timer.cancel()
            self._timer = None
            self.left_s = max(0.0, self.left_s - (self._loop.time() - self._since))


class Stage(Enum):
    """The state of a call that needs a thread."""

    WAITING = "waiting"
    RUNNING = "running"
    ABANDONED = "abandoned"
    ENDED = "ended"


class JobDone(asyncio.Future[None]):
    """Done when a job has ended, or its time is over.

    If it `needs_no_task`, no code but ours has run in the task that waits for it: a transport may go on
    without that task.
    """

    needs_no_task = False


class Job:
    """One piece of work: an event loop waits for it, a thread does it."""

    __slots__ = (
        "_clock",
        "_context",
        "_waker",
        "_work",
        "end",
        "error",
        "future",
        "is_refused",
        "loop",
        "outlive",
        "slots",
        "stage",
        "value",
    )

    def __init__(
        self,
        slots: ToolSlots,
        work: Callable[[], Any],
        clock: Clock | None = None,
        outlive: Outlive | None = None,
        *,
        needs_no_task: bool = False,
    ) -> None:
        self.stage = Stage.WAITING  # only `ToolSlots` changes it, under its lock
        self.slots = slots
        self.outlive = outlive
        self.end: Callable[[], None] | None = None
        self.loop = asyncio.get_running_loop()
        self._clock = clock
        self._work: Callable[[], Any] | None = work
        self._waker = waker_of(self.loop)
        self._context = contextvars.copy_context()
        self.future = JobDone(loop=self.loop)
        self.future.needs_no_task = needs_no_task
        self.value: Any = None
        self.error: BaseException | None = None
        self.is_refused = False

    def start_clock(self) -> None:
        if self._clock is not None:
            self._clock.start(self.loop, functools.partial(complete, self.future))

    def run(self) -> None:
        work, self._work = self._work, None  # nothing is kept of a job that has ended
        assert work is not None  # it runs once  # noqa: S101
        try:
            self.value = self._context.run(work)
        except BaseException as error:
            self.error = error

    def drop(self) -> None:
        """Drop the outcome, and with it the frames that an error refers to."""
        self.value = self.error = None

    def announce(self) -> None:
        """Wake the caller, from any thread."""
        if not self._waker.wake(self.future):
            self.drop()


class AbandonedCount:
    """Number of abandoned calls that still run, over all tools of a runner."""

    __slots__ = ("_lock", "count")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0

    def add(self, number: int) -> None:
        with self._lock:
            self.count += number


class ToolSlots:
    """The slots of one tool.

    `running` counts the calls whose code runs now; `abandoned` counts those among them whose caller has left.
    An abandoned call keeps its slot until its code really ends: otherwise a tool that hangs would
    take up threads without bound.
    """

    def __init__(
        self, name: str, *, label: str | None = None, max_threads: int = 32, max_queue: int = 1000
    ) -> None:
        self.name = name
        self.label = label or f"Tool '{name}'"
        self.max_threads = max_threads
        self.max_queue = max_queue
        self.on_loop: list[None] = []
        self.abandoned = 0
        self.takes_long = False
        """Whether the last call on a thread took long, so that nothing should wait behind it."""
        # Calls on threads; only these are bounded.
        self._threads = 0
        self._threads_lost = 0
        self.lock = threading.Lock()
        self.blocked = LogLimiter(1, NOTICE_EVERY_S)
        self.stuck = LogLimiter(1, NOTICE_EVERY_S)
        # Ordered, so that a call can leave the middle of a long queue without a search.
        self._queue: OrderedDict[Job, None] = OrderedDict()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def running(self) -> int:
        return self._threads + len(self.on_loop)

    def enter(self) -> None:
        """Count a call that runs on the event loop."""
        self.on_loop.append(None)  # atomic, unlike `+= 1`, so it needs no lock

    def leave(self) -> None:
        self.on_loop.pop()

    def admit(self, job: Job) -> bool:
        """Return True to run the call now; False if it waits until `finish` of another call returns it."""
        with self.lock:
            if self._threads < self.max_threads:
                self._threads += 1
                job.stage = Stage.RUNNING
                return True
            is_stuck = self._threads_lost >= self.max_threads
            if not is_stuck and len(self._queue) < self.max_queue:
                self._queue[job] = None
                return False
            tell = is_stuck and self.stuck.take(time.monotonic())
        if not is_stuck:
            raise ToolBusyError(
                f"{self.label} is busy: {self.max_queue} calls are waiting already. Try again later."
            )
        if tell:
            logger.warning(
                "tool '%s' is stuck: all %d calls it may run at once were given up and have not ended; "
                "new calls are refused until one ends",
                self.name,
                self.max_threads,
                extra={"tool_name": self.name, "abandoned": self.abandoned},
            )
        raise ToolBusyError(
            f"{self.label} is busy: {self.max_threads} earlier calls ran out of time and still "
            "hold its threads. Try again later."
        )

    def abandon(self, job: Job) -> Stage:
        """Note that the caller has left. Return the stage before."""
        with self.lock:
            stage = job.stage
            if stage is Stage.WAITING:
                del self._queue[job]
                job.stage = Stage.ENDED
            elif stage is Stage.RUNNING:
                job.stage = Stage.ABANDONED
                self._threads_lost += 1
                self.abandoned += 1
            return stage

    def finish(self, job: Job) -> tuple[bool, Job | None]:
        """Note that the code has ended. Return whether somebody still waits for it, and the call that gets
        its slot."""
        with self.lock:
            is_awaited = job.stage is Stage.RUNNING
            if job.stage is Stage.ABANDONED:
                self._threads_lost -= 1
                self.abandoned -= 1
            job.stage = Stage.ENDED
            if self._queue:
                successor, _ = self._queue.popitem(last=False)
                successor.stage = Stage.RUNNING
                return is_awaited, successor
            self._threads -= 1
            return is_awaited, None


class Runner:
    """Runs the tools of one server. Threads and processes start when they are needed."""

    def __init__(self, *, max_processes: int | None = None) -> None:
        self.abandoned_count = AbandonedCount()
        self._threads = Threads(self.abandoned_count)
        self._lock = threading.Lock()
        self._max_processes = max_processes
        self._processes: ProcessPool | None = None

    @property
    def abandoned(self) -> int:
        """Number of abandoned calls whose code still runs."""
        return max(0, self.abandoned_count.count)  # a call may end before it was counted as abandoned

    async def run_thread(
        self,
        slots: ToolSlots,
        work: Callable[[], Any],
        timeout_s: float | None,
        on_abandon: Callable[[], None] | None = None,
        clock: Clock | None = None,
        outlive: Outlive | None = None,
        *,
        needs_no_task: bool = False,
    ) -> Any:
        """Run blocking code on a thread. `on_abandon` is called once if the call is abandoned."""
        if clock is None and timeout_s is not None:
            clock = Clock(timeout_s)
        job = Job(slots, work, clock, outlive, needs_no_task=needs_no_task)
        is_admitted = slots.admit(job)
        if not is_admitted or (clock is not None and clock.left_s < EXACT_S):
            job.start_clock()
        if is_admitted:
            self._threads.start(job)
        try:
            await job.future
        except (asyncio.CancelledError, GeneratorExit):
            self._abandon(job, on_abandon)
            raise
        finally:
            if clock is not None:
                clock.stop()
        if job.stage is not Stage.ENDED and self._abandon(job, on_abandon):
            raise ToolTimeoutError(f"{slots.label} did not finish within {timeout_s:g} s.")
        if job.is_refused:
            raise ToolBusyError(f"{slots.label} is busy: no thread can be started. Try again later.")
        error, job.error = job.error, None
        if error is not None:
            try:
                raise Raised(error) from None
            finally:
                del error
        value, job.value = job.value, None
        return value

    async def run_process(
        self,
        slots: ToolSlots,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        timeout_s: float | None,
        preload: Sequence[tuple[str, str]] = (),
        outlive: Outlive | None = None,
        converter: Converter | None = None,
        clock: Clock | None = None,
    ) -> Any:
        """Run a function in a process that is killed if it takes too long or the call is abandoned.

        `preload` are modules loaded from files, (name, path), which the process loads first. JSON data comes
        back: `converter` makes it there.
        """
        from toolcrib.dispatch.processes import ProcessCall  # delayed, as below

        call = ProcessCall(self._find_processes(), slots.name, function, args, kwargs, preload, converter)
        try:
            return await self.run_thread(slots, call.run, timeout_s, call.kill, clock, outlive)
        except Raised as wrapped:
            if isinstance(wrapped.error, Raised | CallError | DefinitionError):
                raise wrapped.error from None  # by the tool in the process, or by `call`
            raise

    def run_inline(self, slots: ToolSlots, work: Callable[[], Any]) -> Any:
        """Run short code on the event loop. Nothing can interrupt it; the watchdog reports it if it
        blocks."""
        marker = HERE.marker
        slots.enter()
        before = marker.enter(slots)
        try:
            return work()
        except BaseException as error:
            raise Raised(error) from None
        finally:
            marker.leave(before)
            slots.leave()

    def _find_processes(self) -> ProcessPool:
        with self._lock:
            if self._processes is None:
                # Delayed: few servers need pickle and subprocess.
                from toolcrib.dispatch.processes import ProcessPool

                self._processes = ProcessPool(self._max_processes)
            return self._processes

    def close(self) -> None:
        """End idle threads now and the others after their work, without waiting, and kill all processes."""
        self._threads.close()
        if self._processes is not None:
            self._processes.close()

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
            self.abandoned_count.add(1)
        if on_abandon is not None:
            try:
                on_abandon()
            except Exception:
                logger.exception("tool '%s': the cancellation callback failed", job.slots.name)
        return True


class Threads:
    """The threads of one server, and the jobs that no thread has taken yet.

    A thread is *prompt* while it looks for a job or has just begun one. A new job is left to the prompt
    threads. `_look_after` runs on the event loop as long as there are new jobs: it starts their clocks, finds
    threads that are not prompt any more, and adds threads if no prompt one is left for the jobs that wait. A
    tool whose calls take long gets another thread at once.
    """

    def __init__(self, abandoned_count: AbandonedCount) -> None:
        self._abandoned_count = abandoned_count
        self._lock = threading.Lock()
        self._jobs: deque[Job] = deque()
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._prompt = 0
        """The number of busy workers that are prompt."""
        self._new: dict[asyncio.AbstractEventLoop, list[Job]] = {}
        self._numbers = itertools.count(1)
        self.is_closed = False

    def start(self, job: Job) -> None:
        """Have a job done. Called on the event loop that waits for it."""
        new = self._new.get(job.loop)
        if new is None:
            for loop in [loop for loop in self._new if loop.is_closed()]:
                del self._new[loop]
            new = self._new[job.loop] = []
            job.loop.call_later(LOOK_AFTER_S, self._look_after, job.loop, [])
        new.append(job)
        with self._lock:
            self._jobs.append(job)
            if self._prompt and not job.slots.takes_long:
                return
        if not self._add_worker():
            with self._lock:
                if job not in self._jobs:
                    return  # a thread that was at work has taken it
                self._jobs.remove(job)
            refused: Job | None = job
            while refused is not None:  # jobs that wait for this slot would wait for ever: refuse all
                refused.is_refused = True
                refused = self.finish(refused)

    def _look_after(self, loop: asyncio.AbstractEventLoop, begun: list[Job]) -> None:
        """Look after the new jobs of a loop, and those that were new the time before."""
        for job in begun:
            if job.stage is not Stage.ENDED:
                job.slots.takes_long = True
                job.start_clock()
        with self._lock:
            for worker in self._busy:
                if worker.count % 2 and worker.seen == worker.count and worker.is_prompt:
                    worker.is_prompt = False
                    self._prompt -= 1
                worker.seen = worker.count
            missing = 0 if self._prompt else len(self._jobs)
        for _ in range(missing):
            self._add_worker()
        new = self._new[loop]
        if new or self._jobs:
            self._new[loop] = []
            loop.call_later(LOOK_AFTER_S, self._look_after, loop, new)
        else:
            del self._new[loop]

    def _add_worker(self) -> bool:
        """Wake an idle worker, the last one first, or start one. False: no thread can be started."""
        with self._lock:
            is_new = not self._idle
            worker = _Worker(self) if is_new else self._idle.pop()
            worker.is_prompt = True
            self._busy.add(worker)
            self._prompt += 1
        if not is_new:
            worker.signal.release()
            return True
        name = f"toolcrib-{next(self._numbers)}"
        try:
            threading.Thread(target=worker.run, name=name, daemon=True).start()
        except RuntimeError:
            with self._lock:
                self._busy.discard(worker)
                self._prompt -= 1
            return False
        return True

    def close(self) -> None:
        """End idle threads now and the others after their work, without waiting."""
        with self._lock:
            self.is_closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.signal.release()

    # --- called by workers ---

    def take(self, worker: _Worker) -> Job | None:
        """Return the next job, or make the worker idle."""
        with self._lock:
            if self._jobs:
                job = self._jobs.popleft()
                is_prompt = not job.slots.takes_long
            else:
                job, is_prompt = None, False
                self._busy.discard(worker)
                if not self.is_closed:
                    self._idle.append(worker)
            self._prompt += is_prompt - worker.is_prompt
            worker.is_prompt = is_prompt
        return job

    def finish(self, job: Job) -> Job | None:
        """Pass the slot of finished work on, then wake the caller. Return the job that got the slot."""
        is_awaited, successor = job.slots.finish(job)
        if is_awaited:
            job.announce()
        else:
            self._abandoned_count.add(-1)
            job.drop()
            if job.end is not None:
                job.end()
        return successor

    def retire(self, worker: _Worker) -> bool:
        """Remove a worker that was idle for long. False: it was just picked, and gets a job."""
        with self._lock:
            if worker in self._idle:
                self._idle.remove(worker)
                return True
            return False


class _Worker:
    """One thread. The lock is used as a signal: the cheapest way to wake a thread.

    `count` increases when a job begins and when it ends, so it is odd during a job; `seen` is what it was
    when the worker was last looked after.
    """

    __slots__ = ("_threads", "count", "is_prompt", "seen", "signal")

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self.count = 0
        self.seen = -1
        self.is_prompt = False
        self.signal = threading.Lock()
        self.signal.acquire()

    def run(self) -> None:
        threads = self._threads
        while True:
            job = threads.take(self)
            while job is not None:
                self.count += 1
                began = time.perf_counter() if job.slots.takes_long else None
                job.run()
                self.count += 1
                if began is not None:
                    job.slots.takes_long = time.perf_counter() - began >= LOOK_AFTER_S
                job = threads.finish(job) or threads.take(self)
            if threads.is_closed:
                return
            if not self.signal.acquire(timeout=IDLE_S):
                if threads.retire(self):
                    return
                self.signal.acquire()
