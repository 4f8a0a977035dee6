"""Counts of a replica while Redis is away: its share of each limit, so that all together stay within it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence

from toolcrib.config.settings import Outage
from toolcrib.state.base import Lease, Limit, Limits, Refused
from toolcrib.state.memory import MemoryCounters
from toolcrib.state.rate_limit import Pace

RETRY_MS = 1_000


class ShareCounters(MemoryCounters):
    """MemoryCounters over shares of limits.

    A share is the limit divided by the number of live replicas. If there are fewer calls than replicas,
    those with the highest hashes of (replica, limit) get one each. Rates begin used up, and slots that were
    taken in Redis count against the share.
    """

    def __init__(
        self,
        process: str,
        members: Callable[[], Sequence[str]],
        held: Callable[[str], int],
        outage: Outage,
        *,
        now_ns: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(now_ns=now_ns, wall=wall)
        self._process = process
        self._members = members
        self._held_elsewhere = held
        self._modes = {"rate": outage.rate, "budget": outage.budget, "concurrency": outage.concurrency}

    def acquire(self, limits: Limits, *, mark: str | None = None, resumed: bool = False) -> Lease | Refused:
        parts: dict[Limit, Limit] = {}
        for limit in limits.each:
            mode = self._modes[limit.kind]
            if mode == "allow":
                continue
            part = 0 if mode == "deny" else self._share_of(limit)
            if part <= 0 and not resumed:
                return Refused(limit, RETRY_MS)
            parts[limit._replace(maximum=max(part, 1), burst=max(part, 1))] = limit
        found = super().acquire(limits._replace(each=tuple(parts)), mark=mark, resumed=resumed)
        if isinstance(found, Refused) and found.limit is not None:
            return found._replace(limit=parts[found.limit])
        return found

    def _share_of(self, limit: Limit) -> int:
        members = self._members()
        share, rest = divmod(limit.maximum, max(len(members), 1))
        if share == 0 and rest:
            ranked = sorted(members, key=lambda each: _rank(each, limit.key), reverse=True)
            share = int(self._process in ranked[:rest])
        return share - self._held_elsewhere(limit.key) if limit.kind == "concurrency" else share

    def _new_rate(self, limit: Limit, now_ns: int) -> tuple[int, Pace]:
        due, pace = super()._new_rate(limit, now_ns)
        if due == 0:  # there is room: what the limit allowed until now may have been used in Redis
            due = now_ns * pace.scale + pace.tolerance + pace.step
            self._rates[limit.key] = (due, pace)
        return due, pace


def _rank(process: str, key: str) -> bytes:
    return hashlib.blake2b(f"{process}\0{key}".encode(), digest_size=8).digest()
