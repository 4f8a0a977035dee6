"""The store of one process: exact for all its threads and event loops, and lost when it ends.

A call is admitted without a turn of the event loop if slots are free. Others are queued, and a call that
frees a slot admits the next.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from bisect import bisect_left, insort
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from toolcrib.dispatch.event_loop import complete, waker_of
from toolcrib.policy.quota.ledger import MAX_BUCKETS, RESUMED, RUNNING, Ledger, Slot
from toolcrib.policy.quota.limits import ConcurrencyLimit, refuse_late


class Waiter:
    """Waits on an event loop until it is woken, from any thread."""

    __slots__ = ("_future", "_loop", "_waker")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waker = waker_of(self._loop)
        self._future: asyncio.Future[None] = self._loop.create_future()

    def wake(self) -> bool:
        """Return False where the loop is closed."""
        return self._waker.wake(self._future)

    def renew(self) -> None:
        """Prepare to wait again."""
        if self._future.done():
            self._future = self._loop.create_future()

    async def wait(self, timeout_s: float | None) -> None:
        timer = None if timeout_s is None else self._loop.call_later(timeout_s, complete, self._future)
        try:
            await self._future
        finally:
            if timer is not None:
                timer.cancel()


class MemoryCounters:
    """Counts in dictionaries. Only keys that are in use are present."""

    def __init__(self, max_marks: int = MAX_BUCKETS) -> None:
        self.rates: dict[str, tuple[int, int]] = {}
        self.budgets: dict[str, int] = {}
        self.running: dict[str, int] = {}
        self.queues: dict[str, list[int]] = {}
        self._marks: dict[str, int] = {}
        self._max_marks = max_marks
        self.rate = self.rates.get
        self.count_rates = self.rates.__len__
        self.count_spent = self.budgets.__len__
        self.clear_spent = self.budgets.clear

    def set_rate(self, key: str, due: int, scale: int) -> None:
        self.rates[key] = (due, scale)

    def sweep_rates(self, now_ns: int) -> None:
        for key in [key for key, (due, scale) in self.rates.items() if due <= now_ns * scale]:
            del self.rates[key]

    def spent(self, key: str) -> int:
        return self.budgets.get(key, 0)

    def set_spent(self, key: str, used: int) -> None:
        if used:
            self.budgets[key] = used
        else:
            del self.budgets[key]

    def is_unused(self, mark: str, now_ns: int) -> bool:
        until_ns = self._marks.get(mark)
        if until_ns is not None:
            return until_ns <= now_ns
        if len(self._marks) >= self._max_marks:
            self._marks = {key: until for key, until in self._marks.items() if until > now_ns}
        # Dropping a mark would let it be used twice, so where there is no room a new one counts as used.
        return len(self._marks) < self._max_marks

    def add_mark(self, mark: str, until_ns: int) -> None:
        self._marks[mark] = until_ns

    def remove_mark(self, mark: str) -> None:
        self._marks.pop(mark, None)

    def count_calls(self, key: str) -> int:
        running = self.running.get(key, 0)
        return running + len(self.queues.get(key, ())) if self.queues else running

    def count_ahead(self, key: str, rank: int) -> int:
        return self.running.get(key, 0) + bisect_left(self.queues.get(key, ()), rank)

    def add_call(self, key: str, rank: int, slot: Slot) -> None:  # noqa: ARG002
        if rank == RUNNING:
            self.running[key] = self.running.get(key, 0) + 1
        else:
            insort(self.queues.setdefault(key, []), rank)

    def remove_call(self, key: str, rank: int, slot: Slot) -> None:  # noqa: ARG002
        if rank == RUNNING:
            left = self.running[key] - 1
            if left:
                self.running[key] = left
            else:
                del self.running[key]
            return
        queue = self.queues[key]
        del queue[bisect_left(queue, rank)]
        if not queue:
            del self.queues[key]

    def next_in_queue(self, key: str, maximum: int) -> int | None:
        """Return the rank of the call that gets the slot freed last; None where all have one."""
        queue = self.queues.get(key, ())
        position = maximum - self.running.get(key, 0) - 1
        return queue[position] if 0 <= position < len(queue) else None


class MemoryStore:
    """The counts and the queue of one process."""

    def __init__(
        self, now_ns: Callable[[], int], wall_clock: Callable[[], float], *, max_buckets: int = MAX_BUCKETS
    ) -> None:
        # Reentrant: the garbage collector may end a forgotten call in the middle of this code.
        self.lock = threading.RLock()
        self.counters = MemoryCounters(max_buckets)
        self.ledger = Ledger(self.counters, wall_clock, max_buckets=max_buckets)
        self._now_ns = now_ns
        self._ranks = itertools.count()
        self._waiting: dict[int, tuple[Slot, Waiter]] = {}

    def enter(self, slot: Slot) -> Slot | Awaitable[Slot]:
        with self.lock:
            must_wait = self.ledger.enter(slot, self._now_ns()) is not None
        return self._queue(slot) if must_wait else slot

    async def _queue(self, slot: Slot) -> Slot:
        with self.lock:
            max_wait_s = self.ledger.enter(slot, self._now_ns())
            if max_wait_s is None:
                return slot  # a slot has become free in between
            rank = next(self._ranks)
            self.ledger.enqueue(slot, self._now_ns(), rank)
            waiter = Waiter()
            self._waiting[rank] = (slot, waiter)
        is_admitted = False
        try:
            await waiter.wait(max_wait_s)
            with self.lock:
                is_admitted = slot.rank == RUNNING
        finally:
            if not is_admitted:  # too late, cancelled, or forgotten by a loop that has ended
                with self.lock:
                    self._waiting.pop(rank, None)
                    self.ledger.withdraw(slot)
                    self._hand_on(slot.limits.concurrency)
        if not is_admitted:
            raise refuse_late(slot.limits, max_wait_s)
        return slot

    def release(self, slot: Slot, *, ran: bool, has_ended: bool) -> None:
        if not ran:
            self.ledger.give_back(slot, self._now_ns())
        if has_ended:
            self.vacate(slot)

    def vacate(self, slot: Slot) -> None:
        waiting = None if slot.rank is None else self._waiting.pop(slot.rank, None)
        if waiting is not None:  # it no longer needs to resume
            waiting[1].wake()
        self.ledger.vacate(slot)
        if self._waiting:
            self._hand_on(slot.limits.concurrency)

    async def resume(self, slot: Slot) -> None:
        with self.lock:
            if slot.is_over:
                return
            rank = RESUMED + next(self._ranks)
            if self.ledger.resume(slot, rank):
                return
            waiter = Waiter()
            self._waiting[rank] = (slot, waiter)
        try:
            await waiter.wait(None)
        finally:
            with self.lock:
                if self._waiting.pop(rank, None) is not None:  # cancelled before its turn
                    self.vacate(slot)

    def use_once(self, mark: str, ttl_s: float) -> bool:
        with self.lock:
            return self.ledger.use_once(mark, ttl_s, self._now_ns())

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def describe(self) -> dict[str, Any]:
        with self.lock:
            running, rates = sum(self.counters.running.values()), len(self.counters.rates)
            return {"store": "memory", "places": running, "waiting": len(self._waiting), "rates": rates}

    def _hand_on(self, freed: Iterable[ConcurrencyLimit]) -> None:
        """Admit queued calls after slots have become free."""
        left = list(freed)
        while left:
            limit = left.pop(0)
            rank = self.counters.next_in_queue(limit.key, limit.maximum)
            slot, waiter = (None, None) if rank is None else self._waiting.get(rank, (None, None))
            if rank is None or slot is None or waiter is None or not self.ledger.retry(slot, self._now_ns()):
                continue
            del self._waiting[rank]
            if not waiter.wake():  # its loop is closed: nothing would ever free this slot
                self.ledger.withdraw(slot)
                left += slot.limits.concurrency
