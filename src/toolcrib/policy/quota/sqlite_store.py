"""The store of several processes: counts in one SQLite file.

One thread of each process writes for all its calls, many in one transaction. While the file is not available
(locked for long, disk full, deleted, corrupt) calls do not wait for it: each process counts for itself, up
to its share of each limit, logs that once, and returns to the file when it is available again.

Times are on the monotonic clock, which all processes share until the machine restarts; after a restart only
budgets and marks are kept. A slot belongs to a worker process. A worker that has not renewed its lease is
dead, and its slots are free.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import secrets
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from toolcrib.config.settings import Policy
from toolcrib.dispatch.rate_limit import NS
from toolcrib.errors import ThrottledError
from toolcrib.policy.quota.ledger import MARK_NS, MAX_BUCKETS, RESUMED, Ledger, Slot
from toolcrib.policy.quota.limits import BudgetDay, refuse_late
from toolcrib.policy.quota.memory_store import MemoryStore, Waiter
from toolcrib.state.files import create_database

logger = logging.getLogger("toolcrib")

LEASE_NS = 10 * NS
"""How long the slots of a killed worker stay taken."""
WAIT_S = 0.25
"""How long a call waits for the file before it is counted in this process."""
LOCK_S = 0.2
"""How long the thread waits for a lock of another process: less than calls wait for the thread."""
RETRY_S = 1.0
"""How often a file that is not available is tried again."""
POLL_S = 0.01
"""How often queued calls check whether another process has freed a slot."""
START_S = 5.0
BATCH = 256

_APPLICATION_ID = 0x746F6F71
_FORMAT = 1
_BUSY_RETRY_S = 0.001
_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE rates (key TEXT PRIMARY KEY, due TEXT, scale INTEGER, idle_ns INTEGER) WITHOUT ROWID;
CREATE TABLE spent (key TEXT PRIMARY KEY, used INTEGER) WITHOUT ROWID;
CREATE TABLE marks (mark TEXT PRIMARY KEY, until_ns INTEGER) WITHOUT ROWID;
CREATE TABLE workers (id TEXT PRIMARY KEY, until_ns INTEGER) WITHOUT ROWID;
CREATE TABLE holds (
    key TEXT, rank INTEGER, worker TEXT, number INTEGER, PRIMARY KEY (key, rank, worker, number)
) WITHOUT ROWID;
CREATE INDEX holds_of_workers ON holds (worker);
"""


class NotAStoreError(Exception):
    """The file is something else, and must not be changed."""


class SqliteCounters:
    """Counts in a SQLite file, on one connection for one thread.

    Everything but `open` happens between `begin` and `commit`; what was not committed has not happened.
    """

    def __init__(self, path: Path, worker: str, boot: str, max_marks: int = MAX_BUCKETS) -> None:
        self.path = path
        self.worker = worker
        self._boot = boot
        self._max_marks = max_marks
        self._file: tuple[int, int] | None = None
        self._data_version = -1
        self._db: sqlite3.Connection = None  # type: ignore[assignment]  # set by `open`
        self.execute: Callable[..., sqlite3.Cursor] = None  # type: ignore[assignment]

    def open(self, now_ns: int, wait_s: float) -> None:
        """Raises NotAStoreError, sqlite3.Error or OSError."""
        create_database(self.path)  # private: it holds names of principals
        self._check_header()
        self._db = sqlite3.connect(self.path, timeout=0, isolation_level=None)
        self.execute = self._db.execute
        try:
            self.begin(wait_s)
            self._create()
            self._check_boot(now_ns)
            self.commit()
            # After the commit, so that the application id is in the file and not only in its journal.
            self._execute_patiently("PRAGMA journal_mode=WAL", wait_s)
            self.execute("PRAGMA synchronous=NORMAL")
            self._file = self._file_id()
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        self._db.close()

    def begin(self, wait_s: float) -> None:
        self._execute_patiently("BEGIN IMMEDIATE", wait_s)

    def commit(self) -> None:
        self.execute("COMMIT")

    def check_file(self) -> None:
        """Raise OSError where the file was deleted or replaced."""
        if self._file_id() != self._file:
            raise OSError("the file was replaced")

    def has_changed(self) -> bool:
        """Whether another process has written since the last time this was called."""
        before, self._data_version = self._data_version, self.execute("PRAGMA data_version").fetchone()[0]
        return before != self._data_version

    # --- workers ---

    def renew_lease(self, now_ns: int) -> bool:
        """Renew the lease of this worker. Return False where it is unknown, and its slots with it."""
        lease = (now_ns + LEASE_NS, self.worker)
        is_known = self.execute("UPDATE workers SET until_ns = ? WHERE id = ?", lease).rowcount == 1
        self.execute("DELETE FROM marks WHERE until_ns <= ?", (now_ns,))
        # A lease too far ahead is of a dead worker, too: it was written before the clock restarted.
        self.execute("DELETE FROM workers WHERE until_ns <= ? OR until_ns > ?", (now_ns, now_ns + LEASE_NS))
        self.execute("DELETE FROM holds WHERE worker NOT IN (SELECT id FROM workers)")
        return is_known

    def register(self, now_ns: int) -> None:
        """Add this worker, without slots."""
        self.execute("REPLACE INTO workers VALUES (?, ?)", (self.worker, now_ns + LEASE_NS))
        self.execute("DELETE FROM holds WHERE worker = ?", (self.worker,))

    def unregister(self) -> None:
        self.execute("DELETE FROM holds WHERE worker = ?", (self.worker,))
        self.execute("DELETE FROM workers WHERE id = ?", (self.worker,))

    # --- the day ---

    def load_day(self, day: BudgetDay) -> None:
        facts = dict(self.execute("SELECT name, value FROM facts"))
        day.number, day.began_ns, day.serial = facts.get("day"), facts.get("began", 0), facts.get("serial", 0)

    def save_day(self, day: BudgetDay) -> None:
        facts = [("day", day.number), ("began", day.began_ns), ("serial", day.serial)]
        self._db.executemany("REPLACE INTO facts VALUES (?, ?)", facts)

    # --- counts ---

    def rate(self, key: str) -> tuple[int, int] | None:
        found = self.execute("SELECT due, scale FROM rates WHERE key = ?", (key,)).fetchone()
        return None if found is None else (int(found[0]), found[1])

    def set_rate(self, key: str, due: int, scale: int) -> None:
        # As text: in such small units, the time exceeds SQLite's integers.
        self.execute("REPLACE INTO rates VALUES (?, ?, ?, ?)", (key, str(due), scale, -(-due // scale)))

    def count_rates(self) -> int:
        return self._count("SELECT count(*) FROM rates")

    def sweep_rates(self, now_ns: int) -> None:
        self.execute("DELETE FROM rates WHERE idle_ns <= ?", (now_ns,))

    def spent(self, key: str) -> int:
        return self._count("SELECT coalesce(max(used), 0) FROM spent WHERE key = ?", key)

    def set_spent(self, key: str, used: int) -> None:
        if used:
            self.execute("REPLACE INTO spent VALUES (?, ?)", (key, used))
        else:
            self.execute("DELETE FROM spent WHERE key = ?", (key,))

    def count_spent(self) -> int:
        return self._count("SELECT count(*) FROM spent")

    def clear_spent(self) -> None:
        self.execute("DELETE FROM spent")

    def is_unused(self, mark: str, now_ns: int) -> bool:
        found = self.execute("SELECT until_ns FROM marks WHERE mark = ?", (mark,)).fetchone()
        if found is not None:
            return bool(found[0] <= now_ns)
        return self._count("SELECT count(*) FROM marks") < self._max_marks

    def add_mark(self, mark: str, until_ns: int) -> None:
        self.execute("REPLACE INTO marks VALUES (?, ?)", (mark, until_ns))

    def remove_mark(self, mark: str) -> None:
        self.execute("DELETE FROM marks WHERE mark = ?", (mark,))

    def count_calls(self, key: str) -> int:
        return self._count("SELECT count(*) FROM holds WHERE key = ?", key)

    def count_ahead(self, key: str, rank: int) -> int:
        return self._count("SELECT count(*) FROM holds WHERE key = ? AND rank < ?", key, rank)

    def add_call(self, key: str, rank: int, slot: Slot) -> None:
        self.execute("REPLACE INTO holds VALUES (?, ?, ?, ?)", (key, rank, self.worker, slot.number))

    def remove_call(self, key: str, rank: int, slot: Slot) -> None:
        query = "DELETE FROM holds WHERE key = ? AND rank = ? AND worker = ? AND number = ?"
        self.execute(query, (key, rank, self.worker, slot.number))

    def _count(self, query: str, *values: Any) -> int:
        count: int = self.execute(query, values).fetchone()[0]
        return count

    # --- the file ---

    def _check_header(self) -> None:
        """Read the file itself: SQLite would apply a journal that an earlier file of that name left
        behind."""
        with self.path.open("rb") as file:
            header = file.read(100)
        if not header:
            return  # new
        if header[:16] != b"SQLite format 3\0":
            raise NotAStoreError("is not a SQLite file")
        if int.from_bytes(header[68:72], "big") != _APPLICATION_ID:
            raise NotAStoreError("belongs to another program")

    def _create(self) -> None:
        if self._count("PRAGMA user_version") > _FORMAT:
            raise NotAStoreError("was made by a newer toolcrib")
        if not self._count("SELECT count(*) FROM sqlite_master"):
            for statement in _SCHEMA.strip().split(";")[:-1]:
                self.execute(statement)
            self.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            self.execute(f"PRAGMA user_version = {_FORMAT}")

    def _check_boot(self, now_ns: int) -> None:
        """Drop what depends on the monotonic clock if the machine has restarted."""
        found = self.execute("SELECT value FROM facts WHERE name = 'boot'").fetchone()
        if found is not None and found[0] == self._boot:
            return
        for table in ("rates", "holds", "workers"):
            self.execute(f"DELETE FROM {table}")  # noqa: S608 # one of the three names above
        self.execute("UPDATE marks SET until_ns = ?", (now_ns + MARK_NS,))  # their age is unknown
        self.execute("UPDATE facts SET value = ? WHERE name = 'began'", (now_ns,))
        self.execute("REPLACE INTO facts VALUES ('boot', ?)", (self._boot,))

    def _execute_patiently(self, statement: str, wait_s: float) -> None:
        """Execute a statement, and repeat it while the file is locked.

        SQLite's own busy handler waits up to a tenth of a second between tries, and starves those that wait.
        """
        end = time.monotonic() + wait_s
        while True:
            try:
                self.execute(statement).fetchone()
                return
            except sqlite3.OperationalError as error:
                is_busy = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
                if not is_busy or time.monotonic() >= end:
                    raise
            time.sleep(_BUSY_RETRY_S)

    def _file_id(self) -> tuple[int, int]:
        found = os.stat(self.path)
        return found.st_dev, found.st_ino


def find_boot() -> str:
    """Return the boot id of the machine, or "" where the system has none: then a restart is recognised only
    by times that lie in the future."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


class Job:
    """Work for the thread. `slot` is the slot it is about; `is_new`: the call is not admitted yet.

    The answer to a call that wants a slot is True (admitted), a float (queued, for at most so many seconds),
    a ThrottledError, or None (nothing was done).
    """

    __slots__ = ("_waiter", "act", "answer", "is_answered", "is_new", "slot")

    def __init__(self, act: Callable[[], Any], slot: Slot | None = None, *, is_new: bool = False) -> None:
        self.act = act
        self.slot = slot
        self.is_new = is_new
        self.answer: Any = None
        self.is_answered = False
        self._waiter: Waiter | None = None

    def expect_answer(self) -> None:
        """Have the running loop woken by answers."""
        self._waiter = Waiter()

    def set_answer(self, answer: Any) -> None:
        self.answer, self.is_answered = answer, True
        if self._waiter is not None:
            self._waiter.wake()

    async def wait(self, wait_s: float) -> bool:
        """Return whether there is an answer in time."""
        assert self._waiter is not None  # only expected answers are waited for  # noqa: S101
        # Before the answer is looked at: the thread sets the answer first, and wakes the future then.
        self._waiter.renew()
        if not self.is_answered:
            await self._waiter.wait(wait_s)
        return self.is_answered

    async def wait_in_queue(self, wait_s: float | None) -> Any:
        """Return the answer that follows "queued"; the same again, if none comes in time."""
        assert self._waiter is not None  # as above  # noqa: S101
        self._waiter.renew()
        if type(self.answer) is float:
            await self._waiter.wait(wait_s)
        return self.answer


class SqliteStore:
    """The counts of all processes that share a file. `local` counts while the file is not available."""

    def __init__(
        self,
        policy: Policy,
        now_ns: Callable[[], int],
        wall_clock: Callable[[], float],
        local: MemoryStore,
        *,
        boot: str | None = None,
    ) -> None:
        assert policy.store is not None  # checked by the caller  # noqa: S101
        self.lock = threading.RLock()
        self._policy = policy
        self._local = local
        self._now_ns = now_ns
        self._path = Path(policy.store)
        boot = find_boot() if boot is None else boot
        self._counters = SqliteCounters(self._path, secrets.token_hex(8), boot)
        self._ledger = Ledger(self._counters, wall_clock)
        self._numbers = itertools.count(1)
        self._changed = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._thread: threading.Thread | None = None
        self._is_closing = False
        # Written by the thread, read by others.
        self._is_open = False
        self._is_failing = False
        self._problem: Exception | None = None
        self._outages = 0
        self._steps = 0
        self._retry_at = 0.0
        self._renewed_ns: int | None = None
        self._last_rank = 0
        self._held: dict[int, Slot] = {}
        self._waiting: dict[int, Job] = {}

    # --- for calls, on their event loops ---

    def enter(self, slot: Slot) -> Slot | Awaitable[Slot]:
        return self._enter_local(slot) if self._is_failing else self._enter_shared(slot)

    async def _enter_shared(self, slot: Slot) -> Slot:
        slot.number = next(self._numbers)
        job = Job(partial(self._admit, slot), slot, is_new=True)
        is_admitted = False
        try:
            answer = await self._ask(job, WAIT_S)
            if type(answer) is float:
                max_wait_s = answer
                answer = await job.wait_in_queue(max_wait_s)
                if answer == max_wait_s:
                    answer = refuse_late(slot.limits, max_wait_s)
            is_admitted = answer is True
        finally:
            if not is_admitted:
                self._submit(Job(partial(self._withdraw, slot), slot))
        if isinstance(answer, ThrottledError):
            raise answer
        if is_admitted:
            return slot
        entered = self._enter_local(slot)
        return entered if isinstance(entered, Slot) else await entered

    def _enter_local(self, slot: Slot) -> Slot | Awaitable[Slot]:
        return self._local.enter(Slot(slot.limits.local, self._local, slot.mark))

    def release(self, slot: Slot, *, ran: bool, has_ended: bool) -> None:
        self._submit(Job(partial(self._release, slot, ran, has_ended), slot if has_ended else None))

    def vacate(self, slot: Slot) -> None:
        self.release(slot, ran=True, has_ended=True)

    async def resume(self, slot: Slot) -> None:
        """Wait for a slot. While the file is not available, the call continues without one."""
        job = Job(partial(self._resume, slot), slot)
        is_settled = False
        try:
            answer = await self._ask(job, WAIT_S)
            if type(answer) is float:
                await job.wait_in_queue(None)
            is_settled = True
        finally:
            if not is_settled:
                self.vacate(slot)

    async def use_once(self, mark: str, ttl_s: float) -> bool:
        job = Job(lambda: self._ledger.use_once(mark, ttl_s, self._now_ns()))
        return await self._ask(job, WAIT_S) is True

    async def open(self) -> None:
        """Raise ConfigurationError for a file that can never be used. One that is busy may work later."""
        self._is_closing = False
        await self._ask(Job(lambda: None), START_S)
        problem = self._problem
        if isinstance(problem, NotAStoreError):
            await self.close()
            hint = "name a file that does not exist yet"
            raise self._policy.error_at("policy.store", f"{self._path} {problem}", hint)
        if isinstance(problem, OSError) and not isinstance(problem, TimeoutError):
            await self.close()
            raise self._policy.error_at("policy.store", f"{self._path} cannot be opened: {problem.strerror}")

    async def close(self) -> None:
        thread = self._thread
        if thread is not None:
            self._is_closing = True
            await self._ask(Job(self._unregister), WAIT_S)
            thread.join(WAIT_S)  # its last step: closing the file

    def describe(self) -> dict[str, Any]:
        counts = {"places": len(self._held), "waiting": len(self._waiting)}
        return {"store": "sqlite", "out": self._is_failing, "outages": self._outages, **counts}

    async def _ask(self, job: Job, wait_s: float) -> Any:
        """Return the answer of the thread, or None if it makes no progress for `wait_s`."""
        job.expect_answer()
        steps = self._steps
        self._submit(job)
        while not await job.wait(wait_s):
            if self._steps == steps:
                self._note_failure(TimeoutError(f"no answer within {wait_s:g} s"))
                return None
            steps = self._steps
        return job.answer

    def _submit(self, job: Job) -> None:
        with self._changed:
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="toolcrib-limits", daemon=True)
                self._thread.start()
            self._changed.notify()

    # --- jobs, on the thread and within a transaction ---

    def _admit(self, slot: Slot) -> Any:
        now_ns = self._now_ns()
        try:
            max_wait_s = self._ledger.enter(slot, now_ns)
        except ThrottledError as error:
            return error
        if max_wait_s is None:
            self._held[slot.number] = slot
            return True
        self._last_rank = max(self._last_rank + 1, now_ns)
        self._ledger.enqueue(slot, now_ns, self._last_rank)
        return float(max_wait_s)

    def _resume(self, slot: Slot) -> float | None:
        if slot.is_over:
            return None
        self._last_rank = max(self._last_rank + 1, self._now_ns())
        if self._ledger.resume(slot, RESUMED + self._last_rank):
            self._held[slot.number] = slot
            return None
        return math.inf

    def _release(self, slot: Slot, ran: bool, has_ended: bool) -> None:
        if not ran:
            self._ledger.give_back(slot, self._now_ns())
        if has_ended:
            self._forget(slot)
            self._ledger.vacate(slot)

    def _withdraw(self, slot: Slot) -> None:
        self._forget(slot)
        self._ledger.withdraw(slot)

    def _forget(self, slot: Slot) -> None:
        self._held.pop(slot.number, None)
        waiting = self._waiting.pop(slot.number, None)
        if waiting is not None:
            waiting.set_answer(None)

    def _unregister(self) -> None:
        self._counters.unregister()
        self._renewed_ns = None

    # --- the thread ---

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._jobs:
                    if self._is_closing:
                        self._close_file()
                        self._thread = None
                        return
                    self._changed.wait(self._idle_s())
                jobs = [self._jobs.popleft() for _ in range(min(BATCH, len(self._jobs)))]
            try:
                self._work(jobs)
            except Exception as error:  # whatever it is, calls go on
                self._fail(jobs, error)

    def _idle_s(self) -> float | None:
        if self._is_failing:
            return max(POLL_S, self._retry_at - time.monotonic())
        if self._waiting:
            return POLL_S
        return LEASE_NS / 3e9 if self._held else None

    def _work(self, jobs: list[Job]) -> None:
        """Run jobs, renew the lease and admit queued calls, in one transaction."""
        if not self._is_open:
            if time.monotonic() < self._retry_at:
                self._undo(jobs)
                return
            self._counters.open(self._now_ns(), LOCK_S)
            self._is_open = True
            self._steps += 1
            self._renewed_ns = None
        self._counters.check_file()
        now_ns = self._now_ns()
        is_due = self._renewed_ns is None or not 0 <= now_ns - self._renewed_ns < LEASE_NS // 3
        if not (jobs or is_due or self._is_failing or self._counters.has_changed()):
            return
        self._counters.begin(LOCK_S)
        day = self._ledger.day
        self._counters.load_day(day)
        serial = day.serial
        if is_due:
            self._renew_lease(now_ns)
        answers: list[tuple[Job, Any]] = []
        for job in jobs:
            answer = job.act()
            if type(answer) is float and job.slot is not None:
                self._waiting[job.slot.number] = job
            answers.append((job, answer))
        for job in self._waiting.values():
            slot = job.slot
            if slot is not None and self._ledger.retry(slot, self._now_ns()):
                self._held[slot.number] = slot
                answers.append((job, True))
        if day.serial != serial:
            self._counters.save_day(day)
        self._counters.commit()
        self._steps += 1
        self._note_success()
        for job, answer in answers:
            number = 0 if job.slot is None else job.slot.number
            if type(answer) is float and self._waiting.get(number) is not job:
                continue  # withdrawn in the same transaction, and answered
            if answer is True:
                self._waiting.pop(number, None)
            job.set_answer(answer)

    def _renew_lease(self, now_ns: int) -> None:
        if not self._counters.renew_lease(now_ns) or self._renewed_ns is None:
            self._counters.register(now_ns)
            waiting = [job.slot for job in self._waiting.values() if job.slot is not None]
            for slot in [*self._held.values(), *waiting]:
                self._ledger.restore(slot)
        self._renewed_ns = now_ns

    # --- while the file is not available ---

    def _fail(self, jobs: list[Job], error: Exception) -> None:
        self._close_file()
        self._retry_at = time.monotonic() + RETRY_S
        self._note_failure(error)
        for job in jobs:
            if job.is_new and job.slot is not None:
                job.slot.reset()  # nothing was taken, so nothing is given back
        self._undo([*jobs, *self._waiting.values()])
        self._waiting.clear()

    def _undo(self, jobs: list[Job]) -> None:
        """Answer jobs that were not done. When the file is available again, the slots that are still held are
        written again, so those that were to be freed are free."""
        for job in jobs:
            if job.slot is not None:
                self._held.pop(job.slot.number, None)
                job.slot.rank = None
            job.set_answer(None)

    def _close_file(self) -> None:
        if self._is_open:
            self._is_open = False
            try:
                self._counters.close()
            except Exception as error:
                logger.debug("closing %s failed: %s", self._path, error)

    def _note_failure(self, error: Exception) -> None:
        with self._changed:
            is_new = not self._is_failing
            self._is_failing, self._problem = True, error
            self._outages += is_new
        if is_new:
            logger.warning(
                "the limits store %s is not available (%s); this process counts for itself, up to its "
                "share of each limit",
                self._path,
                error,
                extra={"outages": self._outages},
            )

    def _note_success(self) -> None:
        with self._changed:
            was_failing, self._is_failing, self._problem = self._is_failing, False, None
        if was_failing:
            logger.warning("the limits store %s is available again", self._path)
