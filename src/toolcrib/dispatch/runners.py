"""Runs the code of tools: on the event loop, inline, on a thread, or in a process.

Exceptions of the tool are raised as `Raised`; time-outs, a busy tool or a lost process as errors of toolcrib.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.dispatch.concurrency import AbandonedCount, Outlive, Raised, ToolSlots
from toolcrib.dispatch.deadline import Clock, run_steps
from toolcrib.dispatch.threads import ThreadPool
from toolcrib.dispatch.watchdog import HERE
from toolcrib.errors import CallError, DefinitionError

if TYPE_CHECKING:
    from toolcrib.dispatch.processes import Converter, ProcessPool


class Runner:
    """Runs the tools of one server. Threads and processes start when they are needed."""

    def __init__(self, *, max_processes: int | None = None) -> None:
        self.abandoned_count = AbandonedCount()
        self._threads = ThreadPool(self.abandoned_count)
        self._lock = threading.Lock()
        self._max_processes = max_processes
        self._processes: ProcessPool | None = None

    @property
    def abandoned(self) -> int:
        """Number of abandoned calls whose code still runs."""
        return max(0, self.abandoned_count.count)  # a call may end before it was counted as abandoned

    def run_async(
        self,
        slots: ToolSlots,
        coroutine: Coroutine[Any, Any, Any],
        timeout_s: float | None,
        clock: Clock | None = None,
        outlive: Outlive | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Return a coroutine that runs a tool in the caller's task.

        A `clock` that was made for `timeout_s` can be paused while the user is asked. `outlive` is called for
        code that goes on after its call was abandoned.
        """
        return run_steps(slots, coroutine, timeout_s, self.abandoned_count, clock, outlive)

    async def run_thread(
        self,
        slots: ToolSlots,
        work: Callable[[], Any],
        timeout_s: float | None,
        on_abandon: Callable[[], None] | None = None,
        clock: Clock | None = None,
        outlive: Outlive | None = None,
    ) -> Any:
        """Run blocking code on a thread. `on_abandon` is called once if the call is abandoned."""
        return await self._threads.run(slots, work, timeout_s, on_abandon, clock, outlive)

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
    ) -> Any:
        """Run a function in a process that is killed if it takes too long or the call is abandoned.

        `preload` are modules loaded from files, (name, path), which the process loads first. JSON data comes
        back: `converter` makes it there.
        """
        from toolcrib.dispatch.processes import ProcessCall  # delayed, as below

        call = ProcessCall(self._find_processes(), slots.name, function, args, kwargs, preload, converter)
        try:
            return await self._threads.run(slots, call.run, timeout_s, call.kill, outlive=outlive)
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

    def renew(self) -> None:
        """Run later calls in new processes, as the code of tools has changed."""
        if self._processes is not None:
            self._processes.renew()

    def close(self) -> None:
        """End idle threads and kill all processes, without waiting for blocked threads."""
        self._threads.close()
        if self._processes is not None:
            self._processes.close()
