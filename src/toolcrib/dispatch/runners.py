"""The four ways to run a tool's code: on the loop, inline, on a thread, in a process.

Whatever the code raises comes out as `Raised`; whatever this package has to say (too late, too busy, the
process is gone) comes out as an error of toolcrib. Knows how code runs; refuses to know tools, schemas and
results.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.dispatch.concurrency import Lane, Outlive, Raised, Tally
from toolcrib.dispatch.deadline import Clock, run_steps
from toolcrib.dispatch.threads import ThreadPool
from toolcrib.dispatch.watchdog import HERE

if TYPE_CHECKING:
    from toolcrib.dispatch.processes import Converter, ProcessPool, Returned


class Runner:
    """One per server. Making one costs nothing: threads and processes start when they are needed."""

    def __init__(self, *, max_processes: int | None = None) -> None:
        self.tally = Tally()
        self._threads = ThreadPool(self.tally)
        self._lock = threading.Lock()
        self._max_processes = max_processes
        self._processes: ProcessPool | None = None

    @property
    def abandoned(self) -> int:
        """Calls that were given up and whose code still runs."""
        return max(0, self.tally.count)  # a call may end before the one who gave it up has counted it

    def run_async(
        self,
        lane: Lane,
        coroutine: Coroutine[Any, Any, Any],
        timeout_s: float | None,
        clock: Clock | None = None,
        outlive: Outlive | None = None,
    ) -> Coroutine[Any, Any, Any]:
        """Run a coroutine in the caller's task. To be awaited; a plain function because each layer costs.

        A `clock` that was made for `timeout_s` can be held while somebody is asked. `outlive` hears of code
        that goes on when its call was given up, and when that ends.
        """
        return run_steps(lane, coroutine, timeout_s, self.tally, clock, outlive)

    async def run_thread(
        self,
        lane: Lane,
        work: Callable[[], Any],
        timeout_s: float | None,
        on_abandon: Callable[[], None] | None = None,
        clock: Clock | None = None,
        outlive: Outlive | None = None,
    ) -> Any:
        """Run blocking code on a thread. `on_abandon` is called once when nobody waits for it any more."""
        return await self._threads.run(lane, work, timeout_s, on_abandon, clock, outlive)

    async def run_process(
        self,
        lane: Lane,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        timeout_s: float | None,
        preload: Sequence[tuple[str, str]] = (),
        outlive: Outlive | None = None,
        converter: Converter | None = None,
        plain_bytes: int | None = None,
    ) -> Returned:
        """Run a function in a process that is killed when it takes too long or nobody waits any more.

        `preload` names modules that were loaded from files: (module name, path), loaded in the process first.
        Only JSON comes back. `converter` makes it of values that are not plain data, or are more than
        `plain_bytes`.
        """
        from toolcrib.dispatch.processes import ProcessCall  # delayed, as below

        pool = self._find_processes()
        call = ProcessCall(pool, lane.name, function, args, kwargs, preload, converter, plain_bytes)
        outcome = await self._threads.run(lane, call.run, timeout_s, call.kill, outlive=outlive)
        if isinstance(outcome, BaseException):
            try:
                raise outcome from None
            finally:
                del outcome
        returned: Returned = outcome
        return returned

    def run_inline(self, lane: Lane, work: Callable[[], Any]) -> Any:
        """Run short code on the loop itself. Nothing can interrupt it; the watchdog names it if it blocks."""
        marker = HERE.marker
        lane.enter()
        before = marker.enter(lane)
        try:
            return work()
        except BaseException as error:
            raise Raised(error) from None
        finally:
            marker.leave(before)
            lane.leave()

    def _find_processes(self) -> ProcessPool:
        with self._lock:
            if self._processes is None:
                # Delayed: few servers have such tools, and pickle and subprocess are not free.
                from toolcrib.dispatch.processes import ProcessPool

                self._processes = ProcessPool(self._max_processes)
            return self._processes

    def renew(self) -> None:
        """Code has changed: calls from now on run in processes that have loaded none of it yet."""
        if self._processes is not None:
            self._processes.renew()

    def close(self) -> None:
        """End idle threads and kill all processes. Never waits for a thread that is blocked."""
        self._threads.close()
        if self._processes is not None:
            self._processes.close()
