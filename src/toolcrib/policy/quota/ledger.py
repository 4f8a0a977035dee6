"""Admission of calls: rates, budgets and slots in whole numbers, and the store of one process.

Slots are assigned in order of arrival. A call that waits for one limit keeps its position for the others, so
calls that need one slot cannot starve a call that needs two; and as the order is the same for all limits,
there is no deadlock. A queued call has its rate reserved and its budget taken, so it is not refused for them
later; both are given back if it leaves the queue.

A call is admitted by all of its limits, or nothing is taken. `Counts` keeps the numbers, `Ledger` decides,
`Store` adds waiting and locking, and a `Slot` is what one call holds.
"""

from __future__ import annotations

import asyncio
import threading
from bisect import bisect_left, insort
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, TypeVar

from toolcrib.dispatch.rate_limit import NS
from toolcrib.dispatch.threads import complete, waker_of
from toolcrib.policy.quota.limits import (
    RETRY_NS,
    BudgetDay,
    CallLimits,
    CompiledLimit,
    refuse,
    refuse_late,
)

MAX_ENTRIES = 100_000
"""The number of counts of each kind. Only idle ones are dropped; where none is idle, new ones are refused."""
SWEEP_FROM = 1024
MARK_NS = 900 * NS
"""How long a mark is kept: longer than any sealed state lives."""
RUNNING = -(2**63)
"""The rank of a running call: before all queued calls."""
RESUMED = -(2**62)
"""The first rank of calls that resume after a pause: before all other queued calls."""
LAST = 2**63 - 1
"""A rank after all calls."""

Kind = Literal["rate", "spent", "mark"]
_T = TypeVar("_T")


@dataclass(slots=True, eq=False)
class Slot:
    """An admitted call. Call `leave` when it is answered; calling it twice does no harm.

    The other attributes belong to the ledger: `rank` is None without a slot, RUNNING with one, else the
    position in the queue; `is_charged`: rate and budget were taken, on the day `serial`; `has_used_mark`:
    the call was made before with this `mark`, so that it is not charged again.
    """

    limits: CallLimits
    store: Store | None
    mark: str | None = None
    number: int = 0
    rank: int | None = None
    serial: int = 0
    is_charged: bool = False
    has_used_mark: bool = False
    is_left: bool = False
    _pauses: int = 0
    _outliving: int = 0

    @property
    def is_over(self) -> bool:
        """Whether the call is answered and none of its code still runs."""
        return self.is_left and not self._outliving

    def reset(self) -> None:
        """Forget everything that was taken for this call."""
        self.rank, self.serial = None, 0
        self.is_charged = self.has_used_mark = False

    def leave(self, *, ran: bool) -> None:
        """Free the slot of a call that is answered, and its share of the budget where the tool never ran."""
        store = self.store
        if store is None:
            return
        with store.lock:
            if not self.is_left:
                self.is_left = True
                store.release(self, ran=ran, has_ended=not self._outliving)

    def pause(self) -> None:
        """Free the slot until `resume`, while the user is asked. Pauses may be nested."""
        store = self.store
        if store is not None:
            with store.lock:
                self._pauses += 1
                store.release(self)

    async def resume(self) -> None:
        """Wait for a slot, before all calls that have not run yet. Never refused."""
        store = self.store
        if store is None:
            return
        with store.lock:
            self._pauses -= 1
            if self._pauses or self.is_over:
                return
        await store.resume(self)

    def outlive(self) -> Callable[[], None]:
        """Keep the slot after `leave`, because code of the call still runs. Call the returned function
        when it has ended, from any thread."""
        store = self.store
        if store is None:
            return _do_nothing
        with store.lock:
            if self.is_left:
                return _do_nothing
            self._outliving += 1
        ended = False

        def end() -> None:
            nonlocal ended
            with store.lock:
                if not ended:
                    ended = True
                    self._outliving -= 1
                    if self.is_over:
                        store.release(self)

        return end


def _do_nothing() -> None: ...


class Counts(Protocol):
    """The numbers of a store, and the calls that run or wait.

    The value of a "rate" is when the next call is due at an even pace, in units of that pace; of "spent", the
    number of calls of this day; of a "mark", until when it is used.
    """

    def get(self, kind: Kind, key: str) -> int | None: ...

    def put(self, kind: Kind, key: str, value: int, until_ns: int) -> None:
        """Store a value that does not matter any more from `until_ns`."""
        ...

    def remove(self, kind: Kind, key: str) -> None: ...

    def count(self, kind: Kind) -> int: ...

    def sweep(self, kind: Kind, now_ns: int) -> None:
        """Drop the values that do not matter any more."""
        ...

    def clear(self, kind: Kind) -> None: ...

    def count_calls(self, key: str, before: int = LAST) -> int:
        """Return the number of calls that run, or wait with a rank before this one."""
        ...

    def add_call(self, key: str, rank: int, slot: Slot) -> None: ...

    def remove_call(self, key: str, rank: int, slot: Slot) -> None: ...


class Ledger:
    """Decides by the counts of one store. The caller holds the lock and passes the time."""

    def __init__(
        self, counts: Counts, wall_clock: Callable[[], float], *, max_entries: int = MAX_ENTRIES
    ) -> None:
        self.day = BudgetDay()
        self._counts = counts
        self._wall_clock = wall_clock
        self._max_entries = max_entries
        self._sweep_at: dict[Kind, tuple[int, int]] = {}

    def enter(self, slot: Slot, now_ns: int) -> float | None:
        """Admit a call and return None, or return how many seconds it may wait. Raises ThrottledError."""
        counts, limits = self._counts, slot.limits
        is_charged = self._is_charged(slot, now_ns)
        rates = self._check(limits, now_ns) if is_charged else ()
        max_wait_s: float | None = None
        for key, maximum, queue, queue_s, source in limits.concurrency:
            beyond = counts.count_calls(key) - maximum
            if beyond >= queue:
                raise refuse(limits.tool_name, source, "concurrency", RETRY_NS)
            if beyond >= 0 and (max_wait_s is None or queue_s < max_wait_s):
                max_wait_s = queue_s
        if max_wait_s is not None:
            return max_wait_s
        for key, due, scale in rates:
            counts.put("rate", key, due, -(-due // scale))
        self._charge(slot, now_ns, is_charged)
        self._run(slot)
        return None

    def enqueue(self, slot: Slot, now_ns: int, rank: int) -> None:
        """Queue a call that `enter` did not admit."""
        self._charge(slot, now_ns, self._is_charged(slot, now_ns))
        slot.rank = rank
        self.restore(slot)

    def retry(self, slot: Slot, rank: int, now_ns: int) -> str | None:
        """Admit a queued call if it is its turn; else return the key that it has to wait for."""
        full = self._find_full(slot, rank)
        if full is None:
            self.vacate(slot)
            for key, pace, _ in slot.limits.rates if rank >= 0 and slot.is_charged else ():
                due = pace.admit(self._counts.get("rate", key) or 0, now_ns)[1]
                self._counts.put("rate", key, due, -(-due // pace.scale))
            self._run(slot)
        return full

    def resume(self, slot: Slot, rank: int) -> bool:
        """Give a paused call a slot and return True, or queue it."""
        if self._find_full(slot, rank) is None:
            self._run(slot)
            return True
        slot.rank = rank
        self.restore(slot)
        return False

    def restore(self, slot: Slot) -> None:
        """Store the slots that a call holds or waits for."""
        if slot.rank is not None:
            for key in _keys(slot):
                self._counts.add_call(key, slot.rank, slot)

    def vacate(self, slot: Slot) -> None:
        """Free the slot, or the place in the queue."""
        if slot.rank is not None:
            for key in _keys(slot):
                self._counts.remove_call(key, slot.rank, slot)
            slot.rank = None

    def withdraw(self, slot: Slot) -> None:
        """Undo the admission of a call that will not run."""
        self.vacate(slot)
        if slot.mark is not None and slot.has_used_mark:
            slot.has_used_mark = False
            self._counts.remove("mark", slot.mark)
        else:
            self._refund(slot)

    def give_back(self, slot: Slot, now_ns: int) -> None:
        """Give back the share of the day's budget: the tool never ran."""
        # A call that was made again was charged the first time: early in a day, perhaps on the day before.
        if slot.has_used_mark and (self.day.serial == 1 or now_ns - self.day.began_ns >= MARK_NS):
            slot.serial = self.day.serial
        self._refund(slot)

    def use_once(self, mark: str, ttl_s: float, now_ns: int) -> bool:
        if not self._is_unused(mark, now_ns):
            return False
        self._add_mark(mark, now_ns + round(ttl_s * NS))
        return True

    def _find_full(self, slot: Slot, rank: int) -> str | None:
        """Return the key of a limit that has no slot for a call of this rank."""
        for each in slot.limits.concurrency:
            if self._counts.count_calls(each.key, rank) >= each.maximum:
                return each.key
        return None

    def _run(self, slot: Slot) -> None:
        slot.rank = RUNNING
        for each in slot.limits.concurrency:
            self._counts.add_call(each.key, RUNNING, slot)

    def _is_charged(self, slot: Slot, now_ns: int) -> bool:
        """Whether a call counts against rate and budget: not if it is made again with an answer."""
        return slot.mark is None or not self._is_unused(slot.mark, now_ns)

    def _is_unused(self, mark: str, now_ns: int) -> bool:
        until_ns = self._counts.get("mark", mark)
        # Dropping a mark would let it be used twice, so where there is no room a new one counts as used.
        return self._has_room("mark", now_ns) if until_ns is None else until_ns <= now_ns

    def _add_mark(self, mark: str, until_ns: int) -> None:
        self._counts.put("mark", mark, until_ns, until_ns)

    def _check(self, limits: CallLimits, now_ns: int) -> list[tuple[str, int, int]]:
        """Return the rates as they are if the call is admitted. Raises for the rate or budget with the
        longest wait."""
        counts = self._counts
        waits: list[tuple[int, CompiledLimit, str]] = []
        rates = []
        for key, pace, source in limits.rates:
            due = counts.get("rate", key)
            is_known = due is not None
            latest = now_ns * pace.scale + pace.tolerance + pace.step
            if due is not None and due > latest:  # more than calls can cause: the clock has restarted
                due = latest
                counts.put("rate", key, due, -(-due // pace.scale))
            wait_ns, next_due = pace.admit(due or 0, now_ns, counts.count_calls(key))
            if wait_ns:
                waits.append((wait_ns, source, "rate"))
            elif is_known or self._has_room("rate", now_ns):
                rates.append((key, next_due, pace.scale))
            else:
                waits.append((RETRY_NS, source, "rate"))
        if limits.budgets:
            wall_s = self._wall_clock()
            if self.day.turn(now_ns, wall_s):
                counts.clear("spent")
            for key, maximum, source in limits.budgets:
                used = counts.get("spent", key)
                is_full = used is None and counts.count("spent") >= self._max_entries
                if is_full or (used or 0) >= maximum:
                    waits.append((self.day.left_ns(now_ns, wall_s), source, "budget"))
        if waits:
            wait_ns, source, kind = max(waits, key=lambda each: each[0])
            raise refuse(limits.tool_name, source, kind, wait_ns)
        return rates

    def _charge(self, slot: Slot, now_ns: int, is_charged: bool) -> None:
        """Take the budget, or use the mark of a call that is made again."""
        slot.is_charged = is_charged
        if is_charged or slot.mark is None:
            slot.serial = self.day.serial
            for key, _, _ in slot.limits.budgets:
                self._counts.put("spent", key, (self._counts.get("spent", key) or 0) + 1, LAST)
        else:
            self._add_mark(slot.mark, now_ns + MARK_NS)
            slot.has_used_mark = True

    def _refund(self, slot: Slot) -> None:
        if slot.serial != self.day.serial:
            return
        for each in slot.limits.budgets:
            used = self._counts.get("spent", each.key) or 0
            if used > 1:
                self._counts.put("spent", each.key, used - 1, LAST)
            else:
                self._counts.remove("spent", each.key)
        slot.serial = 0

    def _has_room(self, kind: Kind, now_ns: int) -> bool:
        """Whether one more key can be counted. Sweeps when their number has doubled; if full, once a
        second."""
        count = self._counts.count(kind)
        sweep_at, not_before_ns = self._sweep_at.get(kind, (min(SWEEP_FROM, self._max_entries), 0))
        if count < sweep_at:
            return True
        if count < self._max_entries or now_ns >= not_before_ns:
            self._counts.sweep(kind, now_ns)
            count = self._counts.count(kind)
            self._sweep_at[kind] = min(self._max_entries, max(SWEEP_FROM, 2 * count)), now_ns + NS
        return count < self._max_entries


def _keys(slot: Slot) -> list[str]:
    """Return the keys that a call is stored under: its slots and, while queued, its reserved rates."""
    keys = [each.key for each in slot.limits.concurrency]
    if slot.is_charged and slot.rank is not None and slot.rank >= 0:
        keys += [each.key for each in slot.limits.rates]
    return keys


# --- in memory ---


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

    async def wait(self, timeout_s: float | None) -> None:
        timer = None if timeout_s is None else self._loop.call_later(timeout_s, complete, self._future)
        try:
            await self._future
        finally:
            if timer is not None:
                timer.cancel()


class MemoryCounts:
    """Counts in dictionaries. Only keys that are in use are present."""

    def __init__(self) -> None:
        self.entries: dict[Kind, dict[str, tuple[int, int]]] = {"rate": {}, "spent": {}, "mark": {}}
        self.running: dict[str, int] = {}
        self.queues: dict[str, list[int]] = {}

    def get(self, kind: Kind, key: str) -> int | None:
        found = self.entries[kind].get(key)
        return None if found is None else found[0]

    def put(self, kind: Kind, key: str, value: int, until_ns: int) -> None:
        self.entries[kind][key] = (value, until_ns)

    def remove(self, kind: Kind, key: str) -> None:
        self.entries[kind].pop(key, None)

    def count(self, kind: Kind) -> int:
        return len(self.entries[kind])

    def sweep(self, kind: Kind, now_ns: int) -> None:
        entries = self.entries[kind]
        for key in [key for key, (_, until_ns) in entries.items() if until_ns <= now_ns]:
            del entries[key]

    def clear(self, kind: Kind) -> None:
        self.entries[kind].clear()

    def count_calls(self, key: str, before: int = LAST) -> int:
        running = self.running.get(key, 0)
        return running + bisect_left(self.queues.get(key, ()), before) if self.queues else running

    def add_call(self, key: str, rank: int, slot: Slot) -> None:  # noqa: ARG002
        if rank == RUNNING:
            self.running[key] = self.running.get(key, 0) + 1
        else:
            insort(self.queues.setdefault(key, []), rank)

    def remove_call(self, key: str, rank: int, slot: Slot) -> None:  # noqa: ARG002
        if rank == RUNNING:
            self.running[key] -= 1
            if not self.running[key]:
                del self.running[key]
        else:
            queue = self.queues[key]
            del queue[bisect_left(queue, rank)]
            if not queue:
                del self.queues[key]


# --- stores ---


class UnavailableError(Exception):
    """The store is not available. Nothing was done."""


class Store:
    """Admits calls by some counts. Everything happens in `transact`, which stores may replace.

    A call is admitted without a turn of the event loop if slots are free. Others are queued, and a call that
    frees a slot admits the next.
    """

    def __init__(self, ledger: Ledger, now_ns: Callable[[], int]) -> None:
        # Reentrant: the garbage collector may end a forgotten call in the middle of this code.
        self.lock = threading.RLock()
        self.ledger = ledger
        self.now_ns = now_ns
        self.waiting: dict[Slot, Waiter] = {}
        self._last_rank = 0

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def describe(self) -> dict[str, Any]:
        return {"waiting": len(self.waiting)}

    def enter(self, slot: Slot) -> Slot | Awaitable[Slot]:
        """Admit a call, at once or when awaited. Raises ThrottledError, in either case."""
        with self.lock:
            must_wait = self.ledger.enter(slot, self.now_ns()) is not None
        return self.enter_later(slot) if must_wait else slot

    async def enter_later(self, slot: Slot) -> Slot:
        waiter = Waiter()
        is_admitted = False
        try:
            max_wait_s = await self.transact_patiently(partial(self.admit, slot, waiter), new=slot)
            if max_wait_s is not None:
                await waiter.wait(max_wait_s)
            with self.lock:
                is_admitted = slot.rank == RUNNING
                if max_wait_s is not None and slot in self.waiting:
                    raise refuse_late(slot.limits, max_wait_s)
        finally:
            if not is_admitted:  # too late, cancelled, or forgotten by a loop that has ended
                self.transact_soon(partial(self.withdraw, slot))
        if not is_admitted:
            raise UnavailableError
        return slot

    def release(self, slot: Slot, *, ran: bool = True, has_ended: bool = True) -> None:
        """Free the slot or the place in the queue, unless code of the call still runs, and the share of the
        budget where the tool never ran. The caller holds the lock."""
        self.end(slot, ran, has_ended)
        if self.waiting:
            self.wake(self.retry_waiting())

    async def resume(self, slot: Slot) -> None:
        """Wait for a slot. While the store is not available, the call continues without one."""
        waiter = Waiter()
        try:
            if not await self.transact_patiently(partial(self._resume, slot, waiter)):
                await waiter.wait(None)
        except UnavailableError:
            pass
        finally:
            with self.lock:
                if self.waiting.get(slot) is waiter:  # cancelled before its turn
                    self.release(slot)

    async def use_once(self, mark: str, ttl_s: float) -> bool:
        """Return True the first time, and False until `ttl_s` have passed. False if it cannot be noted."""
        try:
            return await self.transact_patiently(lambda: self.ledger.use_once(mark, ttl_s, self.now_ns()))
        except UnavailableError:
            return False

    # --- transactions ---

    def transact(self, act: Callable[[], _T], *, new: Slot | None = None) -> _T:  # noqa: ARG002
        """Do something, and then admit queued calls. If that fails, nothing was taken for the `new` slot."""
        with self.lock:
            result = act()
            if self.waiting:
                self.wake(self.retry_waiting())
            return result

    async def transact_patiently(self, act: Callable[[], _T], *, new: Slot | None = None) -> _T:
        return self.transact(act, new=new)

    def transact_soon(self, act: Callable[[], None]) -> None:
        self.transact(act)

    def retry_waiting(self) -> list[Slot]:
        """Admit queued calls if slots have become free, and return them."""
        now_ns, admitted = self.now_ns(), []
        full: dict[str, int] = {}
        for slot in list(self.waiting):
            rank = slot.rank
            # A key that is full for one rank is full for those behind it.
            if rank is None or any(full.get(each.key, LAST) <= rank for each in slot.limits.concurrency):
                continue
            key = self.ledger.retry(slot, rank, now_ns)
            if key is None:
                admitted.append(slot)
            else:
                full[key] = rank
        return admitted

    def wake(self, admitted: Iterable[Slot]) -> None:
        for slot in admitted:
            waiter = self.waiting.pop(slot, None)
            # If its loop is closed, nothing would ever free this slot.
            if waiter is not None and not waiter.wake():
                self.transact_soon(partial(self.withdraw, slot))

    # --- steps of a call, within a transaction ---

    def admit(self, slot: Slot, waiter: Waiter) -> float | None:
        """Admit a call and return None, or queue it and return how long it may wait."""
        now_ns = self.now_ns()
        max_wait_s = self.ledger.enter(slot, now_ns)
        if max_wait_s is not None:
            self.ledger.enqueue(slot, now_ns, self._next_rank())
            self.waiting[slot] = waiter
        return max_wait_s

    def _resume(self, slot: Slot, waiter: Waiter) -> bool:
        """Return whether the call has its slot again, or needs none any more."""
        if slot.is_over or self.ledger.resume(slot, RESUMED + self._next_rank()):
            return True
        self.waiting[slot] = waiter
        return False

    def _next_rank(self) -> int:
        """Return a rank after all others of this process, and by time among those of several."""
        self._last_rank = max(self._last_rank + 1, self.now_ns())
        return self._last_rank

    def end(self, slot: Slot, ran: bool, has_ended: bool) -> None:
        if not ran:
            self.ledger.give_back(slot, self.now_ns())
        if has_ended:
            self._stop_waiting(slot)
            self.ledger.vacate(slot)

    def withdraw(self, slot: Slot) -> None:
        self._stop_waiting(slot)
        self.ledger.withdraw(slot)

    def _stop_waiting(self, slot: Slot) -> None:
        waiter = self.waiting.pop(slot, None)
        if waiter is not None:
            waiter.wake()


class MemoryStore(Store):
    """The store of one process: exact for all its threads and event loops, and lost when it ends."""

    def __init__(
        self, now_ns: Callable[[], int], wall_clock: Callable[[], float], *, max_entries: int = MAX_ENTRIES
    ) -> None:
        self.counts = MemoryCounts()
        super().__init__(Ledger(self.counts, wall_clock, max_entries=max_entries), now_ns)

    def describe(self) -> dict[str, Any]:
        slots, rates = sum(self.counts.running.values()), self.counts.count("rate")
        return {"store": "memory", "slots": slots, "rates": rates, **super().describe()}
