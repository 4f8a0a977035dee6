"""State in the memory of one process."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from toolcrib.state.base import Lease, Limit, Limits, Refused
from toolcrib.state.rate_limit import NS, BudgetDay, Pace

logger = logging.getLogger("toolcrib")

MARK_NS = 900 * NS
"""How long a mark is kept: longer than any sealed state lives."""
RETRY_NS = NS
"""The time to wait that is suggested where a slot must become free, which cannot be predicted."""
MAX_KEYS = 100_000
SWEEP_FROM = 1024


class MemoryBus:
    """ChangeBus for one process. Notices are delivered on the thread that publishes them."""

    def __init__(self, process: str) -> None:
        self.process = process
        self._subscribers: dict[str, list[Callable[[bytes | None], None]]] = {}
        self._lock = threading.Lock()

    def publish(self, topic: str, data: bytes = b"") -> None:
        self.deliver(topic, data)

    def deliver(self, topic: str, data: bytes | None) -> bool:
        """Call the subscribers of a topic in this process. Return whether there are any."""
        subscribers = self._subscribers.get(topic, ())
        for changed in tuple(subscribers):
            try:
                changed(data)
            except Exception:
                logger.exception("a subscriber of '%s' failed", topic)
        return bool(subscribers)

    @property
    def topics(self) -> list[str]:
        return list(self._subscribers)

    def subscribe(self, topic: str, changed: Callable[[bytes | None], None]) -> Callable[[], None]:
        with self._lock:
            self._subscribers[topic] = [*self._subscribers.get(topic, ()), changed]

        def end() -> None:
            with self._lock:
                rest = [each for each in self._subscribers.get(topic, ()) if each is not changed]
                if rest:
                    self._subscribers[topic] = rest
                else:
                    self._subscribers.pop(topic, None)

        return end

    async def send(self, process: str, data: bytes, timeout_s: float = 0.1) -> bool:  # noqa: ARG002
        return process == self.process and self.deliver(process, data)


class MemoryCounters:
    """Counters of one process: exact for all its threads, and answered at once.

    A key is forgotten when its count no longer matters. With `max_keys` of a kind that do, a call that needs
    another one is refused: no count is dropped to make room.
    """

    def __init__(
        self,
        *,
        now_ns: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], float] = time.time,
        max_keys: int = MAX_KEYS,
    ) -> None:
        self._now_ns = now_ns
        self._wall = wall
        self._max_keys = max_keys
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._rates: dict[str, tuple[int, Pace]] = {}
        self._spent: dict[str, int] = {}
        self._running: dict[str, int] = {}
        self._marks: dict[str, int] = {}
        self._day = BudgetDay()
        self._held: set[str] = set()
        """The ids of leases whose slots are taken; leases without slots have none."""
        self._released: deque[tuple[Lease, bool]] = deque()
        """What the next call counts. So `release` takes no lock: the garbage collector, which ends forgotten
        calls, may call it on a thread that holds the lock."""
        self._sweep_at = min(SWEEP_FROM, max_keys)
        self._swept_ns = -NS

    def acquire(self, limits: Limits, *, mark: str | None = None, resumed: bool = False) -> Lease | Refused:
        with self._lock:
            if self._released:
                self._settle()
            now_ns = self._now_ns()
            is_counted = not resumed and (mark is None or not self._is_unused(mark, now_ns))
            exceeded, longest_ns, is_held = None, 0, False
            counted: list[tuple[dict[str, Any], str, Any]] = []
            for limit in limits.each:
                kind, key, maximum, _, _ = limit
                wait_ns = 0
                if kind == "concurrency":
                    is_held, count = True, self._running.get(key, 0)
                    if count >= maximum and count and not resumed:
                        wait_ns = RETRY_NS
                    counted.append((self._running, key, count + 1))
                elif not is_counted:
                    continue
                elif kind == "rate":
                    due, pace = self._rates.get(key) or self._new_rate(limit, now_ns)
                    scale, step, tolerance = pace
                    now = now_ns * scale  # as `Pace.admit`, on the path of every call
                    if due < now:
                        due = now
                    early = due - now - tolerance
                    if early > 0:
                        wait_ns = -(-early // scale)
                    counted.append((self._rates, key, (due + step, pace)))
                else:
                    wait_ns = self._check_budget(limit, now_ns)
                    counted.append((self._spent, key, self._spent.get(key, 0) + 1))
                if wait_ns > longest_ns:
                    exceeded, longest_ns = limit, wait_ns
            if exceeded is not None:
                return Refused(exceeded, -(-longest_ns // 1_000_000))
            for counts, key, value in counted:
                counts[key] = value
            day = self._day.serial if is_counted else 0
            if mark is not None and not is_counted and not resumed:
                self._marks[mark] = now_ns + MARK_NS
                day = self._day.serial_since(now_ns - MARK_NS)
            if not is_held:
                return Lease("", limits, day)
            id_ = str(next(self._numbers))
            self._held.add(id_)
            return Lease(id_, limits, day)

    def release(self, lease: Lease, *, ran: bool) -> None:
        self._released.append((lease, ran))

    async def usage(self, limits: Limits) -> Sequence[int]:
        with self._lock:
            now_ns = self._now_ns()
            self._settle()
            return [self._count(limit, now_ns) for limit in limits.each]

    def _count(self, limit: Limit, now_ns: int) -> int:
        if limit.kind == "concurrency":
            return self._running.get(limit.key, 0)
        if limit.kind == "rate":
            found = self._rates.get(limit.key)
            return 0 if found is None else found[1].used(found[0], now_ns)
        if self._day.turn(now_ns, self._wall()):
            self._spent.clear()
        return self._spent.get(limit.key, 0)

    # --- with the lock held ---

    def _new_rate(self, limit: Limit, now_ns: int) -> tuple[int, Pace]:
        """Return when the first call of a key is due: later, if there is no room for another key."""
        pace = Pace.of(limit.maximum, limit.period_ms / 1000, limit.burst)
        if len(self._rates) < self._sweep_at or self._sweep_rates(now_ns):
            return 0, pace
        return (now_ns + RETRY_NS) * pace.scale + pace.tolerance, pace

    def _sweep_rates(self, now_ns: int) -> bool:
        """Forget the rates whose next call is due: they equal new ones. Return whether there is room; where
        there is none, this is done once a second."""
        if len(self._rates) >= self._max_keys and now_ns - self._swept_ns < NS:
            return False
        self._swept_ns = now_ns
        rates = self._rates  # in place: a call may be about to change some of them
        for key in [key for key, (due, pace) in rates.items() if due <= now_ns * pace.scale]:
            del rates[key]
        self._sweep_at = min(self._max_keys, max(SWEEP_FROM, 2 * len(self._rates)))
        return len(self._rates) < self._max_keys

    def _check_budget(self, limit: Limit, now_ns: int) -> int:
        """Return the time to wait."""
        wall_s = self._wall()
        if self._day.turn(now_ns, wall_s):
            self._spent.clear()
        used = self._spent.get(limit.key, 0)
        has_room = used or len(self._spent) < self._max_keys
        return 0 if used < limit.maximum and has_room else self._day.left_ns(now_ns, wall_s)

    def _is_unused(self, mark: str, now_ns: int) -> bool:
        """Whether a mark was not used, and there is room to note that it is."""
        until_ns = self._marks.get(mark)
        if until_ns is not None:
            return until_ns <= now_ns
        if len(self._marks) >= self._max_keys:
            self._marks = {key: until for key, until in self._marks.items() if until > now_ns}
        return len(self._marks) < self._max_keys

    def _settle(self) -> None:
        """Count what was released."""
        running = self._running
        while self._released:
            lease, ran = self._released.popleft()
            is_held = lease.id in self._held
            if ran and not is_held:
                continue
            self._held.discard(lease.id)
            for kind, key, _, _, _ in lease.limits.each:
                if kind == "concurrency" and is_held:
                    if running[key] > 1:
                        running[key] -= 1
                    else:
                        del running[key]
                elif kind == "budget" and not ran and lease.day == self._day.serial:
                    used = self._spent.pop(key, 0)
                    if used > 1:
                        self._spent[key] = used - 1
