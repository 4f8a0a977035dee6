"""Counters in Redis: one script for each call, which also counts what was released before.

A call that is admitted too late, after its time-out or for a caller that is gone, is released when the reply
arrives. Slots are leases of ten seconds, which are renewed together.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Any

from toolcrib.state.base import Lease, Limits, Refused, Soon, StateUnavailable
from toolcrib.state.memory import MemoryCounters
from toolcrib.state.redis.pipe import Answered, Pipe
from toolcrib.state.redis.server import Redis
from toolcrib.validation import codec

LINGER_S = 0.002
"""How long a release waits for a call to travel with."""
RETRY_MS = 1000
SCRIPT = (files("toolcrib.state.redis") / "counters.lua").read_text()

_Released = tuple[str, int, list[str], list[str]]
"""A lease, the day of its budgets, the keys of its slots, and those of the budgets that are given back."""


class RedisCounters:
    """Counters of all replicas. `alone` counts while Redis is not available."""

    def __init__(self, redis: Redis, alone: MemoryCounters) -> None:
        self._redis = redis
        self._alone = alone
        self._script = SCRIPT
        self._digest = hashlib.sha1(SCRIPT.encode()).hexdigest()  # noqa: S324 - as Redis names scripts
        self._numbers = itertools.count(1)
        self._held: dict[str, list[str]] = {}
        """The keys of the slots of each lease."""
        self.spent: dict[tuple[int, str], int] | None = None
        """How much of budgets is spent, by day and key, for somebody who set it and empties it."""
        self.on_empty: Callable[[], object] = lambda: None
        """Called on the thread of the server when Redis has lost everything, in one replica."""
        self._released: deque[_Released] = deque()
        """What the next script counts. `release` takes no lock: the garbage collector may call it."""
        self._is_flush_due = False
        self._loop: asyncio.AbstractEventLoop | None = None
        redis.on_renew.append(self._renew)

    def acquire(
        self, limits: Limits, *, mark: str | None = None, resumed: bool = False
    ) -> Soon[Lease | Refused]:
        if self._redis.breaker.is_open:
            self._redis.probe()
            return self._acquire_alone(limits, mark, resumed)
        self._loop = loop = asyncio.get_running_loop()
        future: asyncio.Future[Lease | Refused] = loop.create_future()
        id_ = f"{self._redis.process}:{next(self._numbers)}"
        slots = [each.key for each in limits.each if each.kind == "concurrency"]

        def answered(reply: Any) -> None:
            if isinstance(reply, StateUnavailable):
                if not future.done():
                    future.set_result(self._acquire_alone(limits, mark, resumed))
                elif reply.in_doubt:  # whether it was admitted will never be known
                    self._give_back((id_, 0, slots, []))
            elif reply[0] >= 0:
                if not future.done():
                    future.set_result(Refused(limits.each[reply[0]], reply[1]))
            else:
                lease = Lease(id_, limits, reply[1])
                if len(reply) > 2 and (spent := self.spent) is not None:
                    budgets = [(reply[1], each.key) for each in limits.each if each.kind == "budget"]
                    spent.update(zip(budgets, reply[2:], strict=True))
                if slots:
                    self._held[id_] = slots
                if future.done():  # too late, or for a call that was cancelled
                    self.release(lease, ran=False)
                else:
                    future.set_result(lease)

        call = {"id": id_, "limits": limits.each, "mark": mark or "", "resumed": resumed}
        self._run(self._redis.pipe(), call, answered)
        return future

    def _acquire_alone(self, limits: Limits, mark: str | None, resumed: bool) -> Lease | Refused:
        if limits.when_down == "local" or resumed:
            return self._alone.acquire(limits, mark=mark, resumed=resumed)
        if limits.when_down == "allow":
            return Lease("", limits._replace(each=()), 0)
        return Refused(None, RETRY_MS)

    def release(self, lease: Lease, *, ran: bool) -> None:
        if not lease.id.startswith(self._redis.process):
            self._alone.release(lease, ran=ran)
            return
        slots = self._held.pop(lease.id, [])
        budgets = [] if ran else [each.key for each in lease.limits.each if each.kind == "budget"]
        if slots or budgets:
            self._give_back((lease.id, lease.day, slots, budgets))

    def _give_back(self, released: _Released) -> None:
        self._released.append(released)
        loop = self._loop
        if self._is_flush_due or loop is None:
            return
        self._is_flush_due = True
        try:
            if asyncio._get_running_loop() is loop:
                loop.call_later(LINGER_S, self._flush)
            else:
                loop.call_soon_threadsafe(self._flush)
        except RuntimeError:  # the loop is closed: with the next renewal
            self._is_flush_due = False

    def count_held(self, key: str) -> int:
        """Return how many slots of a limit this process has."""
        return sum(slots.count(key) for slots in list(self._held.values()))

    async def usage(self, limits: Limits) -> Sequence[int]:
        used: Sequence[int] = await self._ask({"limits": limits.each})
        return used

    async def restore(self, budgets: Sequence[tuple[int, str, int]]) -> None:
        """Set how much of budgets is spent, by day and key, unless more is."""
        await self._ask({"budgets": budgets})

    async def _ask(self, call: dict[str, Any]) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def answered(reply: Any) -> None:
            if future.done():
                return
            if isinstance(reply, StateUnavailable):
                future.set_exception(reply)
            else:
                future.set_result(reply)

        self._run(self._redis.pipe(), call, answered)
        return await future

    def _flush(self) -> None:
        self._is_flush_due = False
        if self._released and not self._redis.breaker.is_open:
            self._run(self._redis.pipe(), {"limits": ()}, lambda _: None)

    def _renew(self, pipe: Pipe, is_last: bool) -> None:
        """Extend the slots of this process; at the end, free them."""
        if is_last:
            self._released.extend((id_, 0, slots, []) for id_, slots in list(self._held.items()))
            self._held.clear()

        def answered(reply: Any) -> None:
            if reply == b"EMPTY":
                self.on_empty()

        self._run(pipe, {"held": dict(self._held)}, answered)

    def _run(self, pipe: Pipe, call: dict[str, Any], answered: Answered) -> None:
        """Run the script, which begins with what was released. Redis forgets scripts when it restarts."""
        released: list[_Released] = []
        with suppress(IndexError):  # two threads may take them
            while True:
                released.append(self._released.popleft())
        request = codec.write({**call, "released": released})

        def done(reply: Any) -> None:
            if isinstance(reply, Exception):
                if str(reply).startswith("NOSCRIPT"):
                    pipe.send(("EVAL", self._script, "0", self._redis.prefix, request), done)
                    return
                if not isinstance(reply, StateUnavailable):
                    reply = StateUnavailable(str(reply))
                # What may have been counted is not given back twice.
                kept = ((*each[:3], []) for each in released) if reply.in_doubt else released
                self._released.extend(kept)
                released.clear()
            pipe.note(reply)
            answered(reply)

        pipe.send(("EVALSHA", self._digest, "0", self._redis.prefix, request), done)
