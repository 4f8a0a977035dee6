"""Decides who is let in: the same for every store, and nothing but arithmetic on whole numbers.

**Rates** are GCRA: per key one figure, the time at which the next call is due at an even pace. A call may
come `burst - 1` steps before it. In any time t no more than burst + rate x t calls are let in.

**Places** are taken in the order of arrival. Whoever has to wait for one count keeps its turn in the others,
so a call that needs two places cannot be overtaken for ever by calls that need one of them; and as the order
is one for all counts, nobody waits in a circle. A call in line has its rate reserved and its budget taken, so
it will not be refused for them later, and both are as before if it leaves the line.

All of a call's limits admit it, or nothing is taken. Knows needs, figures and the time it is told; refuses to
know loops, threads and files.
"""

from __future__ import annotations

from collections.abc import Callable

from toolcrib.dispatch.rate_limit import NS
from toolcrib.policy.quota.limits import BUSY_NS, Day, Demand, Term, refuse
from toolcrib.policy.quota.store import RUNNING, Marks, Places, Rates, Slot, Spent

MAX_BUCKETS = 100_000
"""So many counts of each kind. Only idle ones are dropped; where none is, new ones are refused."""
SWEEP_FROM = 1024
MARK_NS = 900 * NS
"""How long a mark is kept: longer than any sealed state lives."""


class Ledger:
    """The figures of one store, and what follows from them. Whoever asks brings the time and the lock."""

    def __init__(
        self,
        *,
        rates: Rates,
        spent: Spent,
        marks: Marks,
        places: Places,
        day: Day,
        wall: Callable[[], float],
        max_buckets: int = MAX_BUCKETS,
    ) -> None:
        self.rates = rates
        self.spent = spent
        self.marks = marks
        self.places = places
        self.day = day
        self._wall = wall
        self._max_buckets = max_buckets
        self._sweep_at = min(SWEEP_FROM, max_buckets)
        self._swept_ns: int | None = None

    def enter(self, slot: Slot, now_ns: int) -> float | None:
        """None: it is in. Else it has to wait, and may for so many seconds. Raises ThrottledError."""
        demand, mark = slot.demand, slot.mark
        is_charged = mark is None or not self.marks.is_free(mark, now_ns)
        dues = self._check(demand, now_ns) if is_charged else ()
        patience_s: float | None = None
        for key, most, queue, queue_s, term in demand.places:
            beyond = self.places.total(key) - most
            if beyond >= queue:
                raise refuse(demand.tool_name, term, "concurrency", BUSY_NS)
            if beyond >= 0 and (patience_s is None or queue_s < patience_s):
                patience_s = queue_s
        if patience_s is not None:
            return patience_s
        for key, due, scale in dues:
            self.rates[key] = (due, scale)
        self._charge(slot, now_ns, is_charged)
        slot.rank = RUNNING
        self.places.run(slot)
        return None

    def line_up(self, slot: Slot, now_ns: int, rank: int) -> None:
        """A call that has to wait does."""
        self._charge(slot, now_ns, slot.mark is None or not self.marks.is_free(slot.mark, now_ns))
        slot.rank = rank
        for key in self._kept_keys(slot):
            self.places.add(key, rank, slot)

    def retry(self, slot: Slot, now_ns: int) -> bool:
        """Whether it is the turn of a call in line. If so, it is in."""
        rank = slot.rank
        assert rank is not None  # nosec B101  # it is in line
        if any(self.places.ahead(need.key, rank) >= need.most for need in slot.demand.places):
            return False
        is_new = self._is_new(slot)
        self._leave_line(slot, rank)
        if is_new and slot.is_charged:
            for key, pace, _ in slot.demand.rates:
                due, _ = self.rates.get(key) or (0, 0)
                self.rates[key] = (pace.admit(due, now_ns)[1], pace.scale)
        slot.rank = RUNNING
        self.places.run(slot)
        return True

    def restore(self, slot: Slot) -> None:
        """Write again what a call has, or waits for, where that was lost."""
        assert slot.rank is not None  # nosec B101  # it has a place, or waits for one
        for key in self._kept_keys(slot):
            self.places.add(key, slot.rank, slot)

    def withdraw(self, slot: Slot) -> None:
        """A call is not made after all: all is as if it had not come."""
        self.vacate(slot)
        if slot.mark is not None and slot.has_burned:
            slot.has_burned = False
            self.marks.remove(slot.mark)
        else:
            self._refund(slot)

    def vacate(self, slot: Slot) -> None:
        """Its place, or its turn, is free."""
        rank = slot.rank
        if rank == RUNNING:
            slot.rank = None
            self.places.end(slot)
        elif rank is not None:
            self._leave_line(slot, rank)

    def give_back(self, slot: Slot, now_ns: int) -> None:
        """The tool never ran: its share of the day's budget is free."""
        # Such a call was charged when it first came: while the day is young, perhaps on the day before.
        if slot.has_burned and (self.day.serial == 1 or now_ns - self.day.began_ns >= MARK_NS):
            slot.serial = self.day.serial
        self._refund(slot)

    def _refund(self, slot: Slot) -> None:
        if slot.serial == self.day.serial:
            for need in slot.demand.budgets:
                used = self.spent.get(need.key) or 0
                if used > 1:
                    self.spent[need.key] = used - 1
                elif used:
                    del self.spent[need.key]
            slot.serial = 0

    def come_back(self, slot: Slot, rank: int) -> bool:
        """A call that was paused wants a place: True where it has one, else it stands in line."""
        slot.rank = rank
        if all(self.places.ahead(need.key, rank) < need.most for need in slot.demand.places):
            slot.rank = RUNNING
            self.places.run(slot)
            return True
        for need in slot.demand.places:
            self.places.add(need.key, rank, slot)
        return False

    def burn(self, mark: str, ttl_s: float, now_ns: int) -> bool:
        if not self.marks.is_free(mark, now_ns):
            return False
        self.marks.add(mark, now_ns + round(ttl_s * NS))
        return True

    # --- inside ---

    def _check(self, demand: Demand, now_ns: int) -> list[tuple[str, int, int]]:
        """When the next call will be due by each rate, if this one is let in. Raises for the one of rates and
        budgets that takes longest."""
        worst: tuple[int, Term, str] | None = None
        dues = []
        for key, pace, term in demand.rates:
            entry = self.rates.get(key)
            due = 0 if entry is None else entry[0]
            latest = now_ns * pace.scale + pace.tolerance + pace.step
            if due > latest:  # more than calls can have made it: the clock began anew
                due = latest
                self.rates[key] = (due, pace.scale)
            wait_ns, next_due = pace.admit(due, now_ns, self.places.total(key))
            if not wait_ns:
                if entry is not None or self._has_room(now_ns):
                    dues.append((key, next_due, pace.scale))
                    continue
                wait_ns = BUSY_NS
            if worst is None or wait_ns > worst[0]:
                worst = (wait_ns, term, "rate")
        if demand.budgets:
            wall_s = self._wall()
            if self.day.turn(now_ns, wall_s):
                self.spent.clear()
            for key, most, term in demand.budgets:
                used = self.spent.get(key)
                if len(self.spent) < self._max_buckets if used is None else used < most:
                    continue
                wait_ns = self.day.left_ns(now_ns, wall_s)
                if worst is None or wait_ns > worst[0]:
                    worst = (wait_ns, term, "budget")
        if worst is not None:
            raise refuse(demand.tool_name, worst[1], worst[2], worst[0])
        return dues

    def _charge(self, slot: Slot, now_ns: int, is_charged: bool) -> None:
        """Take the budget, or the mark of a call that comes again."""
        slot.is_charged = is_charged
        mark = slot.mark
        if is_charged or mark is None:
            slot.serial = self.day.serial
            for key, _, _ in slot.demand.budgets:
                self.spent[key] = (self.spent.get(key) or 0) + 1
        else:
            self.marks.add(mark, now_ns + MARK_NS)
            slot.has_burned = True

    def _leave_line(self, slot: Slot, rank: int) -> None:
        for key in self._kept_keys(slot):
            self.places.remove(key, rank, slot)
        slot.rank = None

    def _kept_keys(self, slot: Slot) -> list[str]:
        """What a call in line is noted under: its places, and the rates that are reserved for it."""
        keys = [need.key for need in slot.demand.places]
        if slot.is_charged and self._is_new(slot):
            keys += [need.key for need in slot.demand.rates]
        return keys

    def _is_new(self, slot: Slot) -> bool:
        """Whether a call in line is there for the first time, not back from a pause."""
        return slot.rank is not None and slot.rank >= 0

    def _has_room(self, now_ns: int) -> bool:
        """For one key more. Sweeps when their number has doubled; where that does not help, once a second."""
        count = len(self.rates)
        if count < self._sweep_at:
            return True
        is_full = count >= self._max_buckets
        if is_full and self._swept_ns is not None and now_ns < self._swept_ns + NS:
            return False
        self._swept_ns = now_ns
        self.rates.sweep(now_ns)
        self._sweep_at = min(self._max_buckets, max(SWEEP_FROM, 2 * len(self.rates)))
        return len(self.rates) < self._max_buckets
