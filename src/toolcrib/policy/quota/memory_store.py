"""Counts in this process: exact for all its threads and loops, gone when it ends.

A call that finds everything free is let in without a turn of the loop. The others wait in line, and whoever
frees a place hands it to the next. Knows the ledger, loops and one lock; refuses to decide anything.

Something that a store's thread does for a call, and the way its answer comes back to the call's loop.

Knows loops, futures and one answer; refuses to know what is done.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from bisect import bisect_left, insort
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

from toolcrib.dispatch.threads import Mailbox, mailbox_of, ring
from toolcrib.policy.quota.ledger import MAX_BUCKETS, Ledger
from toolcrib.policy.quota.limits import Day, PlaceNeed, refuse_late
from toolcrib.policy.quota.store import RUNNING, Slot


class Job:
    """Something for the thread to do. `slot` is the one that has, or wants, a place by it; `enters` says that
    it is a new one."""

    __slots__ = ("_future", "_loop", "_mailbox", "act", "answer", "enters", "is_told", "slot")

    def __init__(self, act: Callable[[], Any], slot: Slot | None = None, *, enters: bool = False) -> None:
        self.act = act
        self.slot = slot
        self.enters = enters
        self.answer: Any = None
        self.is_told = False
        self._mailbox: Mailbox | None = None

    def attach(self) -> None:
        """Have this loop told of the answer."""
        self._loop = asyncio.get_running_loop()
        self._mailbox = mailbox_of(self._loop)
        self._future: asyncio.Future[None] = self._loop.create_future()

    def tell(self, answer: Any) -> None:
        self.answer, self.is_told = answer, True
        if self._mailbox is not None:
            self._mailbox.put(self._future)

    async def wait(self, wait_s: float) -> bool:
        """Whether there is an answer in time."""
        self._renew()
        if not self.is_told:
            await self._hear(wait_s)
        return self.is_told

    async def wait_on(self, wait_s: float | None) -> Any:
        """The answer after the one that it is in line, or that one again."""
        self._renew()
        if type(self.answer) is float:
            await self._hear(wait_s)
        return self.answer

    def _renew(self) -> None:
        # Before the answer is looked at: the thread answers first, and looks for the future then.
        if self._future.done():
            self._future = self._loop.create_future()

    async def _hear(self, wait_s: float | None) -> None:
        timer = None if wait_s is None else self._loop.call_later(wait_s, partial(ring, self._future))
        try:
            await self._future
        finally:
            if timer is not None:
                timer.cancel()


BACK = -(2**62)
"""Ranks of those who come back from a pause begin here: ahead of all others who wait."""


class DictRates(dict[str, tuple[int, int]]):
    def sweep(self, now_ns: int) -> None:
        idle = [key for key, (due, scale) in self.items() if due <= now_ns * scale]
        for key in idle:
            del self[key]


class DictMarks:
    def __init__(self, most: int) -> None:
        self._until_ns: dict[str, int] = {}
        self._most = most

    def is_free(self, mark: str, now_ns: int) -> bool:
        until_ns = self._until_ns.get(mark)
        if until_ns is not None:
            return until_ns <= now_ns
        if len(self._until_ns) >= self._most:
            self._until_ns = {key: until for key, until in self._until_ns.items() if until > now_ns}
        # Forgetting one to note another would let that one be used twice; so the new one counts as used.
        return len(self._until_ns) < self._most

    def add(self, mark: str, until_ns: int) -> None:
        self._until_ns[mark] = until_ns

    def remove(self, mark: str) -> None:
        self._until_ns.pop(mark, None)


class DictPlaces:
    """Only keys with somebody running or waiting are there at all."""

    def __init__(self) -> None:
        self.running: dict[str, int] = {}
        self.lines: dict[str, list[int]] = {}

    def total(self, key: str) -> int:
        running = self.running.get(key, 0)
        return running + len(self.lines.get(key, ())) if self.lines else running

    def ahead(self, key: str, rank: int) -> int:
        return self.running.get(key, 0) + bisect_left(self.lines.get(key, ()), rank)

    def add(self, key: str, rank: int, slot: Slot) -> None:  # noqa: ARG002
        insort(self.lines.setdefault(key, []), rank)

    def remove(self, key: str, rank: int, slot: Slot) -> None:  # noqa: ARG002
        line = self.lines[key]
        del line[bisect_left(line, rank)]
        if not line:
            del self.lines[key]

    def run(self, slot: Slot) -> None:
        running = self.running
        for need in slot.demand.places:
            running[need.key] = running.get(need.key, 0) + 1

    def end(self, slot: Slot) -> None:
        running = self.running
        for need in slot.demand.places:
            left = running[need.key] - 1
            if left:
                running[need.key] = left
            else:
                del running[need.key]

    def last_with_room(self, key: str, most: int) -> int | None:
        """The rank of the one whose turn it is since the last place became free; None where all have one."""
        line = self.lines.get(key, ())
        position = most - self.running.get(key, 0) - 1
        return line[position] if 0 <= position < len(line) else None


class MemoryStore:
    """The counts of one process."""

    def __init__(
        self, now_ns: Callable[[], int], wall: Callable[[], float], *, max_buckets: int = MAX_BUCKETS
    ) -> None:
        # Reentrant: the collector may end a forgotten call in the middle of this very code.
        self.lock = threading.RLock()
        self.places = DictPlaces()
        self.rates = DictRates()
        self.spent: dict[str, int] = {}
        self.ledger = Ledger(
            rates=self.rates,
            spent=self.spent,
            marks=DictMarks(max_buckets),
            places=self.places,
            day=Day(),
            wall=wall,
            max_buckets=max_buckets,
        )
        self._now_ns = now_ns
        self._ranks = itertools.count()
        self._waiting: dict[int, _Waiter] = {}

    def enter(self, slot: Slot) -> Slot | Awaitable[Slot]:
        with self.lock:
            has_to_wait = self.ledger.enter(slot, self._now_ns()) is not None
        return self._queue(slot) if has_to_wait else slot

    async def _queue(self, slot: Slot) -> Slot:
        with self.lock:
            patience_s = self.ledger.enter(slot, self._now_ns())
            if patience_s is None:
                return slot  # it has become free meanwhile
            rank = next(self._ranks)
            self.ledger.line_up(slot, self._now_ns(), rank)
            waiter = self._waiting[rank] = _Waiter(slot)
        is_in = False
        try:
            await waiter.wait(patience_s)
            with self.lock:
                is_in = slot.rank == RUNNING
        finally:
            if not is_in:  # too late, cancelled, or forgotten by a loop that has ended
                with self.lock:
                    self._waiting.pop(rank, None)
                    self.ledger.withdraw(slot)
                    self._hand_on(slot.demand.places)
        if not is_in:
            raise refuse_late(slot.demand, patience_s)
        return slot

    def release(self, slot: Slot, *, ran: bool, has_ended: bool) -> None:
        if not ran:
            self.ledger.give_back(slot, self._now_ns())
        if has_ended:
            self.vacate(slot)

    def vacate(self, slot: Slot) -> None:
        waiter = None if slot.rank is None else self._waiting.pop(slot.rank, None)
        if waiter is not None:  # it waits to come back, and need not any more
            waiter.wake()
        self.ledger.vacate(slot)
        if self._waiting:
            self._hand_on(slot.demand.places)

    def pause(self, slot: Slot) -> None:
        self.vacate(slot)

    async def resume(self, slot: Slot) -> None:
        with self.lock:
            if slot.is_over:  # since it was asked for
                return
            rank = BACK + next(self._ranks)
            if self.ledger.come_back(slot, rank):
                return
            waiter = self._waiting[rank] = _Waiter(slot)
        try:
            await waiter.wait(None)
        finally:
            with self.lock:
                if self._waiting.pop(rank, None) is not None:  # cancelled before its turn
                    self.vacate(slot)

    def burn(self, mark: str, ttl_s: float) -> bool:
        with self.lock:
            return self.ledger.burn(mark, ttl_s, self._now_ns())

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def describe(self) -> dict[str, Any]:
        with self.lock:
            running, waiting = sum(self.places.running.values()), len(self._waiting)
            return {"store": "memory", "places": running, "waiting": waiting, "rates": len(self.rates)}

    def _hand_on(self, needs: Iterable[PlaceNeed]) -> None:
        """Places have become free: let in whose turn it is."""
        left = list(needs)
        while left:
            need = left.pop(0)
            rank = self.places.last_with_room(need.key, need.most)
            waiter = None if rank is None else self._waiting.get(rank)
            if rank is None or waiter is None or not self.ledger.retry(waiter.slot, self._now_ns()):
                continue
            del self._waiting[rank]
            if not waiter.wake():  # its loop is closed: nobody would ever leave this place
                self.ledger.withdraw(waiter.slot)
                left += waiter.slot.demand.places


class _Waiter:
    """A call in line, on the loop where it is made."""

    __slots__ = ("_future", "_loop", "_mailbox", "slot")

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self._loop = asyncio.get_running_loop()
        self._mailbox = mailbox_of(self._loop)
        self._future: asyncio.Future[None] = self._loop.create_future()

    def wake(self) -> bool:
        """From any thread. False: its loop is closed."""
        return self._mailbox.put(self._future)

    async def wait(self, patience_s: float | None) -> None:
        timer = None
        if patience_s is not None:
            timer = self._loop.call_later(patience_s, partial(ring, self._future))
        try:
            await self._future
        finally:
            if timer is not None:
                timer.cancel()
