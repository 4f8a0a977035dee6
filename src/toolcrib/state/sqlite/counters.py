"""Counters in SQLite, for the processes of one server.

While the file is not available, calls do not wait for it: each process counts for itself, says so once, and
tries the file again every second.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from toolcrib.state.base import Lease, Limit, Limits, Refused, Soon, StateUnavailable
from toolcrib.state.memory import MARK_NS, MAX_KEYS, RETRY_NS, MemoryCounters
from toolcrib.state.rate_limit import BudgetDay, Pace
from toolcrib.state.sqlite.file import SQLiteFile, Tables, Times

T = TypeVar("T")

logger = logging.getLogger("toolcrib")

WAIT_S = 1.0
"""How long a call waits for the file before this process counts for itself."""
RETRY_S = 1.0
"""How often a file that is not available is tried again."""
_SCHEMA = (
    # As text: in the units of a pace, the time exceeds SQLite's integers.
    "CREATE TABLE rate (key TEXT PRIMARY KEY, due TEXT, idle_ns INTEGER) WITHOUT ROWID",
    "CREATE TABLE budget (key TEXT PRIMARY KEY, used INTEGER) WITHOUT ROWID",
    "CREATE TABLE mark (mark TEXT PRIMARY KEY, until_ns INTEGER, until_ms INTEGER) WITHOUT ROWID",
    "CREATE TABLE slot (key TEXT, id TEXT, process TEXT, PRIMARY KEY (key, id)) WITHOUT ROWID",
    "CREATE INDEX slot_process ON slot (process)",
    "CREATE TABLE day (number INTEGER, began_ns INTEGER, serial INTEGER)",
)
_LIVE = "(process = :process OR process IN (SELECT process FROM lease WHERE until_ns > :now_ns))"


def _sweep(db: sqlite3.Connection, times: Times) -> None:
    db.execute("DELETE FROM rate WHERE idle_ns <= :now_ns", times)  # they equal new ones
    db.execute("DELETE FROM mark WHERE until_ns <= :now_ns", times)
    db.execute("DELETE FROM slot WHERE process NOT IN (SELECT process FROM lease)")


COUNTS = Tables(_SCHEMA, _sweep, expiring=["mark"], of_boot=["rate", "slot"])


class SQLiteCounters:
    """Counters of all processes that share a file. An answer takes one transaction."""

    def __init__(self, file: SQLiteFile, *, max_keys: int = MAX_KEYS) -> None:
        self._file = file
        self._max_keys = max_keys
        self._numbers = itertools.count(1)
        self._held: set[str] = set()
        self._released: deque[tuple[Lease, bool]] = deque()
        self._alone = MemoryCounters(now_ns=file.now_ns, wall=file.wall, max_keys=max_keys)
        self._retry_at: float | None = None
        """When the file is tried again; None while it is available."""
        file.is_in_use.append(lambda: bool(self._held))

    def acquire(
        self, limits: Limits, *, mark: str | None = None, resumed: bool = False
    ) -> Soon[Lease | Refused]:
        if self._retry_at is not None:
            if time.monotonic() >= self._retry_at:
                self._retry_at = time.monotonic() + RETRY_S
                self._post(lambda _: None)
            return self._acquire_alone(limits, mark, resumed)
        return self._acquire_shared(limits, mark, resumed)

    async def _acquire_shared(self, limits: Limits, mark: str | None, resumed: bool) -> Lease | Refused:
        answer = self._post(lambda db: self._acquire(db, limits, mark, resumed))
        is_taken = False
        try:
            async with asyncio.timeout(WAIT_S):
                answered = await asyncio.shield(asyncio.wrap_future(answer))
            is_taken = True
            return answered
        except (StateUnavailable, TimeoutError) as error:
            self._note_failure(error)
        finally:
            if not is_taken:  # too late, or for a call that was cancelled
                answer.add_done_callback(self._give_back)
        return self._acquire_alone(limits, mark, resumed)

    def _acquire_alone(self, limits: Limits, mark: str | None, resumed: bool) -> Lease | Refused:
        if limits.when_down == "local" or resumed:
            return self._alone.acquire(limits, mark=mark, resumed=resumed)
        if limits.when_down == "allow":
            return Lease("", limits._replace(each=()), 0)
        return Refused(None, round(RETRY_S * 1000))

    def release(self, lease: Lease, *, ran: bool) -> None:
        if not lease.id.startswith(self._file.process):
            self._alone.release(lease, ran=ran)
            return
        self._released.append((lease, ran))
        with suppress(RuntimeError):  # no thread can be started: the interpreter ends
            self._post(lambda _: None)

    async def usage(self, limits: Limits) -> Sequence[int]:
        return await asyncio.wrap_future(
            self._post(lambda db: [self._count(db, limit) for limit in limits.each])
        )

    def _post(self, act: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Have a function called on the thread of the file, after what was released before."""
        released: list[tuple[Lease, bool]] = []

        def run(db: sqlite3.Connection) -> T:
            while self._released:
                released.append(self._released.popleft())
                self._settle(db, *released[-1])
            return act(db)

        def note(done: Future[T]) -> None:
            if (error := done.exception()) is None:
                self._held.difference_update(lease.id for lease, _ in released)
                if isinstance(lease := done.result(), Lease):
                    self._held.add(lease.id)
                self._note_success()
            else:
                self._released.extendleft(reversed(released))  # not written: with the next transaction
                self._note_failure(error)

        future = self._file.post(run)
        future.add_done_callback(note)
        return future

    def _give_back(self, answer: Future[Lease | Refused]) -> None:
        if answer.exception() is None and isinstance(lease := answer.result(), Lease):
            self.release(lease, ran=False)

    def _note_failure(self, error: BaseException) -> None:
        if self._retry_at is None:
            logger.warning(
                "%s is not available (%s): this process counts calls for itself", self._file.path, error
            )
        self._retry_at = time.monotonic() + RETRY_S

    def _note_success(self) -> None:
        if self._retry_at is not None:
            self._retry_at = None
            logger.warning("%s is available again: calls of all processes are counted", self._file.path)

    # --- in a transaction ---

    def _acquire(
        self, db: sqlite3.Connection, limits: Limits, mark: str | None, resumed: bool
    ) -> Lease | Refused:
        if resumed:
            return self._admit(db, limits, 0)
        times = self._file.times()
        is_counted = mark is None or not self._is_unused(db, mark, times)
        exceeded, longest_ns, rates = None, 0, []
        for limit in limits.each:
            wait_ns = 0
            if limit.kind == "concurrency":
                if self._count(db, limit) >= limit.maximum:
                    wait_ns = RETRY_NS
            elif not is_counted:
                continue
            elif limit.kind == "rate":
                wait_ns, due, scale = self._check_rate(db, limit, times["now_ns"])
                rates.append((limit.key, str(due), -(-due // scale)))
            else:
                wait_ns = self._check_budget(db, limit)
            if wait_ns > longest_ns:
                exceeded, longest_ns = limit, wait_ns
        if exceeded is not None:
            return Refused(exceeded, -(-longest_ns // 1_000_000))
        db.executemany("REPLACE INTO rate VALUES (?, ?, ?)", rates)
        day = _load_day(db)
        if not is_counted:
            until = {"mark": mark, "until_ns": times["now_ns"] + MARK_NS}
            until["until_ms"] = times["wall_ms"] + MARK_NS // 1_000_000
            db.execute("REPLACE INTO mark VALUES (:mark, :until_ns, :until_ms)", until)
            return self._admit(db, limits, day.serial_since(times["now_ns"] - MARK_NS))
        for limit in limits.each:
            if limit.kind == "budget":
                spend = "INSERT INTO budget VALUES (?, 1) ON CONFLICT DO UPDATE SET used = used + 1"
                db.execute(spend, (limit.key,))
        return self._admit(db, limits, day.serial)

    def _admit(self, db: sqlite3.Connection, limits: Limits, day: int) -> Lease:
        lease = Lease(f"{self._file.process}:{next(self._numbers)}", limits, day)
        keys = [limit.key for limit in limits.each if limit.kind == "concurrency"]
        if keys:
            self._file.keep_lease(db)
            slots = [(key, lease.id, self._file.process) for key in keys]
            db.executemany("INSERT INTO slot VALUES (?, ?, ?)", slots)
        return lease

    def _settle(self, db: sqlite3.Connection, lease: Lease, ran: bool) -> None:
        is_refunded = not ran and lease.day and lease.day == _load_day(db).serial
        for limit in lease.limits.each:
            if limit.kind == "concurrency":
                db.execute("DELETE FROM slot WHERE key = ? AND id = ?", (limit.key, lease.id))
            elif limit.kind == "budget" and is_refunded:
                db.execute("UPDATE budget SET used = used - 1 WHERE key = ?", (limit.key,))
                db.execute("DELETE FROM budget WHERE key = ? AND used <= 0", (limit.key,))

    def _check_rate(self, db: sqlite3.Connection, limit: Limit, now_ns: int) -> tuple[int, int, int]:
        """Return the time to wait, when the next call is due if this one is admitted, and its scale."""
        pace = Pace.of(limit.maximum, limit.period_ms / 1000, limit.burst)
        found = db.execute("SELECT due FROM rate WHERE key = ?", (limit.key,)).fetchone()
        wait_ns, due = pace.admit(0 if found is None else int(found[0]), now_ns)
        if found is None and not self._has_room(db, "rate"):
            wait_ns = RETRY_NS
        return wait_ns, due, pace.scale

    def _check_budget(self, db: sqlite3.Connection, limit: Limit) -> int:
        """Return the time to wait."""
        now_ns, wall_s = self._file.now_ns(), self._file.wall()
        day = _turn_day(db, now_ns, wall_s)
        found = db.execute("SELECT used FROM budget WHERE key = ?", (limit.key,)).fetchone()
        is_free = self._has_room(db, "budget") if found is None else found[0] < limit.maximum
        return 0 if is_free else day.left_ns(now_ns, wall_s)

    def _is_unused(self, db: sqlite3.Connection, mark: str, times: Times) -> bool:
        """Whether a mark was not used, and there is room to note that it is."""
        found = db.execute("SELECT until_ns FROM mark WHERE mark = ?", (mark,)).fetchone()
        return self._has_room(db, "mark") if found is None else bool(found[0] <= times["now_ns"])

    def _has_room(self, db: sqlite3.Connection, table: str) -> bool:
        count = f"SELECT count(*) FROM {table}"  # noqa: S608 - a name of ours
        if db.execute(count).fetchone()[0] >= self._max_keys:
            _sweep(db, self._file.times())
        return bool(db.execute(count).fetchone()[0] < self._max_keys)

    def _count(self, db: sqlite3.Connection, limit: Limit) -> int:
        times = self._file.times()
        if limit.kind == "concurrency":
            query = f"SELECT count(*) FROM slot WHERE key = :key AND {_LIVE}"  # noqa: S608
            return int(db.execute(query, {**times, "key": limit.key}).fetchone()[0])
        if limit.kind == "rate":
            found = db.execute("SELECT due FROM rate WHERE key = ?", (limit.key,)).fetchone()
            pace = Pace.of(limit.maximum, limit.period_ms / 1000, limit.burst)
            return 0 if found is None else pace.used(int(found[0]), times["now_ns"])
        _turn_day(db, times["now_ns"], self._file.wall())
        found = db.execute("SELECT used FROM budget WHERE key = ?", (limit.key,)).fetchone()
        return 0 if found is None else int(found[0])


def _load_day(db: sqlite3.Connection) -> BudgetDay:
    return BudgetDay(*db.execute("SELECT number, began_ns, serial FROM day").fetchone() or ())


def _turn_day(db: sqlite3.Connection, now_ns: int, wall_s: float) -> BudgetDay:
    """Return the day of now. A new one begins without budgets spent."""
    day = _load_day(db)
    day.began_ns = min(day.began_ns, now_ns)  # later: of a clock that has restarted
    if day.turn(now_ns, wall_s):
        db.execute("DELETE FROM budget")
        db.execute("DELETE FROM day")
        db.execute("INSERT INTO day VALUES (?, ?, ?)", (day.number, day.began_ns, day.serial))
    return day
