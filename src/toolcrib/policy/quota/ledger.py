"""Admission of calls: rates, budgets and slots, with integer arithmetic and independent of the store.

Slots are assigned in order of arrival. A call that waits for one limit keeps its position for the others, so
calls that need one slot cannot starve a call that needs two; and as the order is the same for all limits,
there is no deadlock. A queued call has its rate reserved and its budget taken, so it is not refused for them
later; both are given back if it leaves the queue.

A call is admitted by all of its limits, or nothing is taken. `Counters` keeps the counts, `Ledger` decides,
`Store` adds waiting and locking, and a `Slot` is what one call holds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from toolcrib.dispatch.rate_limit import NS
from toolcrib.policy.quota.limits import RETRY_NS, BudgetDay, CallLimits, CompiledLimit, refuse

MAX_BUCKETS = 100_000
"""The number of counts of each kind. Only idle ones are dropped; where none is idle, new ones are refused."""
SWEEP_FROM = 1024
MARK_NS = 900 * NS
"""How long a mark is kept: longer than any sealed state lives."""
RUNNING = -(2**63)
"""The rank of a running call: before all queued calls."""
RESUMED = -(2**62)
"""The first rank of calls that resume after a pause: before all other queued calls."""


class Slot:
    """An admitted call. Call `leave` when it is answered; calling it twice does no harm.

    The other attributes belong to the ledger: `rank` is None without a slot, RUNNING with one, else the
    position in the queue; `is_charged`: rate and budget were taken, on the day `serial`; `has_used_mark`:
    the call was made before with this `mark`, so that it is not charged again.
    """

    __slots__ = (
        "_outliving",
        "_pauses",
        "has_used_mark",
        "is_charged",
        "is_left",
        "limits",
        "mark",
        "number",
        "rank",
        "serial",
        "store",
    )

    def __init__(self, limits: CallLimits, store: Store | None, mark: str | None = None) -> None:
        self.limits = limits
        self.store = store
        self.mark = mark
        self.is_left = False
        self.is_charged = False
        self.has_used_mark = False
        self.rank: int | None = None
        self.serial = 0
        self.number = 0
        self._pauses = 0
        self._outliving = 0

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
                store.vacate(self)

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
                        store.vacate(self)

        return end


def _do_nothing() -> None: ...


class Store(Protocol):
    """Where calls are counted and queued. `lock` is held by `Slot` around `release` and `vacate`."""

    @property
    def lock(self) -> AbstractContextManager[Any]: ...

    def enter(self, slot: Slot) -> Slot | Awaitable[Slot]:
        """Admit a call, at once or when awaited. Raises ThrottledError, in either case."""
        ...

    def release(self, slot: Slot, *, ran: bool, has_ended: bool) -> None:
        """End an answered call; its slot is kept where its code has not ended."""
        ...

    def vacate(self, slot: Slot) -> None:
        """Free the slot, or the place in the queue."""
        ...

    async def resume(self, slot: Slot) -> None: ...

    def use_once(self, mark: str, ttl_s: float) -> bool | Awaitable[bool]:
        """Return True the first time, and False until `ttl_s` have passed."""
        ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def describe(self) -> dict[str, Any]: ...


class Counters(Protocol):
    """The counts of a store."""

    def rate(self, key: str) -> tuple[int, int] | None:
        """Return when the next call is due at an even pace, in 1/scale ns, and the scale."""
        ...

    def set_rate(self, key: str, due: int, scale: int) -> None: ...

    def count_rates(self) -> int: ...

    def sweep_rates(self, now_ns: int) -> None:
        """Drop the rates whose next call is due: they equal new ones."""
        ...

    def spent(self, key: str) -> int:
        """Return the number of calls of this day."""
        ...

    def set_spent(self, key: str, used: int) -> None:
        """Set the number of calls of this day; 0 drops the key."""
        ...

    def count_spent(self) -> int: ...

    def clear_spent(self) -> None: ...

    def is_unused(self, mark: str, now_ns: int) -> bool:
        """Whether a mark was not used, and there is room to note that it is."""
        ...

    def add_mark(self, mark: str, until_ns: int) -> None: ...

    def remove_mark(self, mark: str) -> None: ...

    def count_calls(self, key: str) -> int:
        """Return the number of calls that run or wait."""
        ...

    def count_ahead(self, key: str, rank: int) -> int:
        """Return the number of calls that run, or wait with a lower rank."""
        ...

    def add_call(self, key: str, rank: int, slot: Slot) -> None: ...

    def remove_call(self, key: str, rank: int, slot: Slot) -> None: ...


class Ledger:
    """Decides by the counts of one store. The caller holds the lock and passes the time."""

    def __init__(
        self, counters: Counters, wall_clock: Callable[[], float], *, max_buckets: int = MAX_BUCKETS
    ) -> None:
        self.day = BudgetDay()
        self._counters = counters
        self._wall_clock = wall_clock
        self._max_buckets = max_buckets
        self._sweep_at = min(SWEEP_FROM, max_buckets)
        self._swept_ns: int | None = None

    def enter(self, slot: Slot, now_ns: int) -> float | None:
        """Admit a call and return None, or return how many seconds it may wait. Raises ThrottledError."""
        counters, limits = self._counters, slot.limits
        is_charged = self._is_charged(slot, now_ns)
        rates = self._check(limits, now_ns) if is_charged else ()
        max_wait_s: float | None = None
        for key, maximum, queue, queue_s, source in limits.concurrency:
            beyond = counters.count_calls(key) - maximum
            if beyond >= queue:
                raise refuse(limits.tool_name, source, "concurrency", RETRY_NS)
            if beyond >= 0 and (max_wait_s is None or queue_s < max_wait_s):
                max_wait_s = queue_s
        if max_wait_s is not None:
            return max_wait_s
        for key, due, scale in rates:
            counters.set_rate(key, due, scale)
        self._charge(slot, now_ns, is_charged)
        self._run(slot)
        return None

    def enqueue(self, slot: Slot, now_ns: int, rank: int) -> None:
        """Queue a call that `enter` did not admit."""
        self._charge(slot, now_ns, self._is_charged(slot, now_ns))
        slot.rank = rank
        self.restore(slot)

    def retry(self, slot: Slot, now_ns: int) -> bool:
        """Admit a queued call if it is its turn."""
        rank = slot.rank
        assert rank is not None  # it is queued  # noqa: S101
        counters = self._counters
        if any(counters.count_ahead(each.key, rank) >= each.maximum for each in slot.limits.concurrency):
            return False
        is_new = rank >= 0
        self.vacate(slot)
        if is_new and slot.is_charged:
            for key, pace, _ in slot.limits.rates:
                due, _ = counters.rate(key) or (0, 0)
                counters.set_rate(key, pace.admit(due, now_ns)[1], pace.scale)
        self._run(slot)
        return True

    def restore(self, slot: Slot) -> None:
        """Store the slots that a call holds or waits for."""
        assert slot.rank is not None  # it holds a slot, or waits for one  # noqa: S101
        for key in _keys(slot):
            self._counters.add_call(key, slot.rank, slot)

    def withdraw(self, slot: Slot) -> None:
        """Undo the admission of a call that will not run."""
        self.vacate(slot)
        if slot.mark is not None and slot.has_used_mark:
            slot.has_used_mark = False
            self._counters.remove_mark(slot.mark)
        else:
            self._refund(slot)

    def vacate(self, slot: Slot) -> None:
        """Free the slot, or the place in the queue."""
        rank = slot.rank
        if rank is not None:
            for key in _keys(slot):
                self._counters.remove_call(key, rank, slot)
            slot.rank = None

    def give_back(self, slot: Slot, now_ns: int) -> None:
        """Give back the share of the day's budget: the tool never ran."""
        # A call that was made again was charged the first time: early in a day, perhaps on the day before.
        if slot.has_used_mark and (self.day.serial == 1 or now_ns - self.day.began_ns >= MARK_NS):
            slot.serial = self.day.serial
        self._refund(slot)

    def resume(self, slot: Slot, rank: int) -> bool:
        """Give a paused call a slot and return True, or queue it."""
        limits, counters = slot.limits.concurrency, self._counters
        if all(counters.count_ahead(each.key, rank) < each.maximum for each in limits):
            self._run(slot)
            return True
        slot.rank = rank
        self.restore(slot)
        return False

    def use_once(self, mark: str, ttl_s: float, now_ns: int) -> bool:
        if not self._counters.is_unused(mark, now_ns):
            return False
        self._counters.add_mark(mark, now_ns + round(ttl_s * NS))
        return True

    def _run(self, slot: Slot) -> None:
        slot.rank = RUNNING
        for each in slot.limits.concurrency:
            self._counters.add_call(each.key, RUNNING, slot)

    def _is_charged(self, slot: Slot, now_ns: int) -> bool:
        """Whether a call counts against rate and budget: not if it is made again with an answer."""
        return slot.mark is None or not self._counters.is_unused(slot.mark, now_ns)

    def _check(self, limits: CallLimits, now_ns: int) -> list[tuple[str, int, int]]:
        """Return the rates as they are if the call is admitted. Raises for the rate or budget with the
        longest wait."""
        counters = self._counters
        worst: tuple[int, CompiledLimit, str] | None = None
        rates = []
        for key, pace, source in limits.rates:
            entry = counters.rate(key)
            due = 0 if entry is None else entry[0]
            latest = now_ns * pace.scale + pace.tolerance + pace.step
            if due > latest:  # more than calls can have caused: the monotonic clock has restarted
                due = latest
                counters.set_rate(key, due, pace.scale)
            wait_ns, next_due = pace.admit(due, now_ns, counters.count_calls(key))
            if not wait_ns:
                if entry is not None or self._has_room(now_ns):
                    rates.append((key, next_due, pace.scale))
                    continue
                wait_ns = RETRY_NS
            if worst is None or wait_ns > worst[0]:
                worst = (wait_ns, source, "rate")
        if limits.budgets:
            wall_s = self._wall_clock()
            if self.day.turn(now_ns, wall_s):
                counters.clear_spent()
            for key, maximum, source in limits.budgets:
                used = counters.spent(key)
                if used < maximum and (used or counters.count_spent() < self._max_buckets):
                    continue
                wait_ns = self.day.left_ns(now_ns, wall_s)
                if worst is None or wait_ns > worst[0]:
                    worst = (wait_ns, source, "budget")
        if worst is not None:
            raise refuse(limits.tool_name, worst[1], worst[2], worst[0])
        return rates

    def _charge(self, slot: Slot, now_ns: int, is_charged: bool) -> None:
        """Take the budget, or use the mark of a call that is made again."""
        slot.is_charged = is_charged
        if is_charged or slot.mark is None:
            slot.serial = self.day.serial
            for key, _, _ in slot.limits.budgets:
                self._counters.set_spent(key, self._counters.spent(key) + 1)
        else:
            self._counters.add_mark(slot.mark, now_ns + MARK_NS)
            slot.has_used_mark = True

    def _refund(self, slot: Slot) -> None:
        if slot.serial == self.day.serial:
            for each in slot.limits.budgets:
                used = self._counters.spent(each.key)
                if used:
                    self._counters.set_spent(each.key, used - 1)
            slot.serial = 0

    def _has_room(self, now_ns: int) -> bool:
        """Whether one more rate can be counted. Sweeps when their number has doubled; if full, once a
        second."""
        count = self._counters.count_rates()
        if count < self._sweep_at:
            return True
        is_full = count >= self._max_buckets
        if is_full and self._swept_ns is not None and now_ns < self._swept_ns + NS:
            return False
        self._swept_ns = now_ns
        self._counters.sweep_rates(now_ns)
        count = self._counters.count_rates()
        self._sweep_at = min(self._max_buckets, max(SWEEP_FROM, 2 * count))
        return count < self._max_buckets


def _keys(slot: Slot) -> list[str]:
    """Return the keys that a call is stored under: its slots and, while queued, its reserved rates."""
    keys = [each.key for each in slot.limits.concurrency]
    if slot.is_charged and slot.rank is not None and slot.rank >= 0:
        keys += [each.key for each in slot.limits.rates]
    return keys
