"""State in the memory of one process."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

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
        """The leases whose slots are taken."""
        self._released: deque[tuple[Lease, bool]] = deque()
        """What the next call counts. So `release` takes no lock: the garbage collector, which ends forgotten
        calls, may call it on a thread that holds the lock."""
        self._sweep_at = min(SWEEP_FROM, max_keys)
        self._swept_ns = -NS

    def acquire(self, limits: Limits, *, mark: str | None = None, resumed: bool = False) -> Lease | Refused:
        with self._lock:
            now_ns = self._now_ns()
            while self._released:
                self._settle(*self._released.popleft())
            if resumed:
                return self._admit(limits, 0)
            is_counted = mark is None or not self._is_unused(mark, now_ns)
            exceeded, longest_ns, rates = None, 0, []
            for limit in limits.each:
                wait_ns = 0
                if limit.kind == "concurrency":
                    if self._running.get(limit.key, 0) >= limit.maximum:
                        wait_ns = RETRY_NS
                elif not is_counted:
                    continue
                elif limit.kind == "rate":
                    wait_ns, rate = self._check_rate(limit, now_ns)
                    rates.append((limit.key, rate))
                else:
                    wait_ns = self._check_budget(limit, now_ns)
                if wait_ns > longest_ns:
                    exceeded, longest_ns = limit, wait_ns
            if exceeded is not None:
                return Refused(exceeded, -(-longest_ns // 1_000_000))
            self._rates.update(rates)
            if is_counted:
                day = self._day.serial
                for limit in limits.each:
                    if limit.kind == "budget":
                        self._spent[limit.key] = self._spent.get(limit.key, 0) + 1
            else:
                assert mark is not None  # else it is counted  # noqa: S101
                self._marks[mark] = now_ns + MARK_NS
                day = self._day.serial_since(now_ns - MARK_NS)
            return self._admit(limits, day)

    def release(self, lease: Lease, *, ran: bool) -> None:
        self._released.append((lease, ran))

    async def usage(self, limits: Limits) -> Sequence[int]:
        with self._lock:
            now_ns = self._now_ns()
            while self._released:
                self._settle(*self._released.popleft())
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

    def _check_rate(self, limit: Limit, now_ns: int) -> tuple[int, tuple[int, Pace]]:
        """Return the time to wait, and the count as it is if the call is admitted."""
        found = self._rates.get(limit.key)
        due, pace = found or (0, Pace.of(limit.maximum, limit.period_ms / 1000, limit.burst))
        now = now_ns * pace.scale  # as `Pace.admit`, on the path of every call
        due = max(due, now)
        early = due - now - pace.tolerance
        wait_ns = -(-early // pace.scale) if early > 0 else 0
        if found is None and len(self._rates) >= self._sweep_at and not self._sweep_rates(now_ns):
            wait_ns = RETRY_NS
        return wait_ns, (due + pace.step, pace)

    def _sweep_rates(self, now_ns: int) -> bool:
        """Forget the rates whose next call is due: they equal new ones. Return whether there is room; where
        there is none, this is done once a second."""
        if len(self._rates) >= self._max_keys and now_ns - self._swept_ns < NS:
            return False
        self._swept_ns = now_ns
        rates = self._rates.items()
        self._rates = {key: rate for key, rate in rates if rate[0] > now_ns * rate[1].scale}
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

    def _admit(self, limits: Limits, day: int) -> Lease:
        lease = Lease(f"{next(self._numbers):x}", limits, day)
        for limit in limits.each:
            if limit.kind == "concurrency":
                self._running[limit.key] = self._running.get(limit.key, 0) + 1
                self._held.add(lease.id)
        return lease

    def _settle(self, lease: Lease, ran: bool) -> None:
        is_held = lease.id in self._held
        self._held.discard(lease.id)
        for limit in lease.limits.each:
            if limit.kind == "concurrency" and is_held:
                self._running[limit.key] -= 1
                if not self._running[limit.key]:
                    del self._running[limit.key]
            elif limit.kind == "budget" and not ran and lease.day == self._day.serial:
                used = self._spent.pop(limit.key, 0)
                if used > 1:
                    self._spent[limit.key] = used - 1
