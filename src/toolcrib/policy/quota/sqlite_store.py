"""Counts that several processes share, on one thread of each, which writes for all that wait in one go.

Where the file does not work (locked for long, full, deleted, broken) calls do not wait for it: each process
counts for itself, up to its share of every limit, says so once, and goes back when the file works again.
Knows jobs, one thread and when to give up; refuses to know SQL, and who is let in.

The counts of several processes, in one SQLite file.

Times are those of the clock that nobody sets, which all processes since the start of the machine share; what
was counted before that start is forgotten, except budgets and marks. A place belongs to a worker, and a
worker that has not renewed its lease is dead: its places are free. Knows SQL; refuses to know threads, and
who is let in.
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
from toolcrib.policy.quota.ledger import MAX_BUCKETS, Ledger
from toolcrib.policy.quota.limits import Day, refuse_late
from toolcrib.policy.quota.memory_store import BACK, Job, MemoryStore
from toolcrib.policy.quota.store import RUNNING, Slot

LEASE_NS = 10 * NS
"""How long the places of a worker that was killed stay taken."""
KEPT_NS = 900 * NS
"""How long marks from before a restart of the machine are kept: nobody knows how old they are."""

_APPLICATION = 0x746F6F71  # says in the file's header whose it is
_FORMAT = 1
_RETRY_S = 0.001
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
    """The file is something else, and must not be touched."""


class Tables:
    """One connection, for one thread. Everything but `open` happens between `begin` and `commit`."""

    def __init__(self, path: Path, worker: str, boot: str) -> None:
        self.path = path
        self.worker = worker
        self._boot = boot
        self._file: tuple[int, int] | None = None
        self._version = -1
        self._db: sqlite3.Connection = None  # type: ignore[assignment]  # there is one from `open` on
        self.execute: Callable[..., sqlite3.Cursor] = None  # type: ignore[assignment]

    def open(self, now_ns: int, wait_s: float) -> None:
        """Raises NotAStoreError, sqlite3.Error or OSError."""
        # Made here, not by SQLite: names of callers are in it, which are nobody else's business.
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        self._check_owner()
        self._db = sqlite3.connect(self.path, timeout=0, isolation_level=None)
        self.execute = self._db.execute
        try:
            self.begin(wait_s)
            self._make()
            self._notice_restart(now_ns)
            self.commit()
            # Not before: so that the file says whose it is, and not only what is beside it.
            self._patiently("PRAGMA journal_mode=WAL", wait_s)
            self.execute("PRAGMA synchronous=NORMAL")
            self._file = self._identify()
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Whatever was begun and not committed has not happened."""
        self._db.close()

    def begin(self, wait_s: float) -> None:
        self._patiently("BEGIN IMMEDIATE", wait_s)

    def commit(self) -> None:
        self.execute("COMMIT")

    def check_file(self) -> None:
        """Raises OSError where the file is gone, or another one is in its place: that one counts now."""
        if self._identify() != self._file:
            raise OSError("the file was replaced")

    def has_changed(self) -> bool:
        """Whether another process has written since this was last asked."""
        before, self._version = self._version, self.execute("PRAGMA data_version").fetchone()[0]
        return before != self._version

    # --- workers ---

    def renew(self, now_ns: int) -> bool:
        """Go on being alive. False: this worker is not known, or no longer, and none of its places is."""
        lease = (now_ns + LEASE_NS, self.worker)
        is_known = self.execute("UPDATE workers SET until_ns = ? WHERE id = ?", lease).rowcount == 1
        self.execute("DELETE FROM marks WHERE until_ns <= ?", (now_ns,))
        # Too far ahead is dead, too: it was written before the clock began anew.
        self.execute("DELETE FROM workers WHERE until_ns <= ? OR until_ns > ?", (now_ns, now_ns + LEASE_NS))
        self.execute("DELETE FROM holds WHERE worker NOT IN (SELECT id FROM workers)")
        return is_known

    def register(self, now_ns: int) -> None:
        """Be there, with no place."""
        self.execute("REPLACE INTO workers VALUES (?, ?)", (self.worker, now_ns + LEASE_NS))
        self.execute("DELETE FROM holds WHERE worker = ?", (self.worker,))

    def resign(self) -> None:
        self.execute("DELETE FROM holds WHERE worker = ?", (self.worker,))
        self.execute("DELETE FROM workers WHERE id = ?", (self.worker,))

    # --- the day ---

    def load_day(self, day: Day) -> None:
        facts = dict(self.execute("SELECT name, value FROM facts"))
        day.number, day.began_ns, day.serial = facts.get("day"), facts.get("began", 0), facts.get("serial", 0)

    def save_day(self, day: Day) -> None:
        facts = [("day", day.number), ("began", day.began_ns), ("serial", day.serial)]
        self._db.executemany("REPLACE INTO facts VALUES (?, ?)", facts)

    # --- inside ---

    def _check_owner(self) -> None:
        """Looks at the file itself: SQLite would mend it by what an earlier file of that name left behind."""
        with self.path.open("rb") as file:
            header = file.read(100)
        if not header:
            return  # new
        if header[:16] != b"SQLite format 3\0":
            raise NotAStoreError("is not a SQLite file")
        if int.from_bytes(header[68:72], "big") != _APPLICATION:
            raise NotAStoreError("belongs to another program")

    def _make(self) -> None:
        if self.execute("PRAGMA user_version").fetchone()[0] > _FORMAT:
            raise NotAStoreError("was made by a newer toolcrib")
        if not self.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            for statement in _SCHEMA.strip().split(";")[:-1]:
                self.execute(statement)
            self.execute(f"PRAGMA application_id = {_APPLICATION}")
            self.execute(f"PRAGMA user_version = {_FORMAT}")

    def _notice_restart(self, now_ns: int) -> None:
        found = self.execute("SELECT value FROM facts WHERE name = 'boot'").fetchone()
        if found is not None and found[0] == self._boot:
            return
        for table in ("rates", "holds", "workers"):
            self.execute(f"DELETE FROM {table}")  # nosec B608  # one of the three words above
        self.execute("UPDATE marks SET until_ns = ?", (now_ns + KEPT_NS,))
        self.execute("UPDATE facts SET value = ? WHERE name = 'began'", (now_ns,))
        self.execute("REPLACE INTO facts VALUES ('boot', ?)", (self._boot,))

    def _patiently(self, statement: str, wait_s: float) -> Any:
        """SQLite's own waiting grows to a tenth of a second a time, and then the quicker ones come first."""
        end = time.monotonic() + wait_s
        while True:
            try:
                return self.execute(statement).fetchone()
            except sqlite3.OperationalError as error:
                is_busy = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
                if not is_busy or time.monotonic() >= end:
                    raise
            time.sleep(_RETRY_S)

    def _identify(self) -> tuple[int, int]:
        found = os.stat(self.path)
        return found.st_dev, found.st_ino


class SqlRates:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def get(self, key: str, /) -> tuple[int, int] | None:
        found = self._tables.execute("SELECT due, scale FROM rates WHERE key = ?", (key,)).fetchone()
        return None if found is None else (int(found[0]), found[1])

    def __setitem__(self, key: str, value: tuple[int, int], /) -> None:
        due, scale = value
        # As text: in such small parts, the time is beyond what SQLite's numbers hold.
        row = (key, str(due), scale, -(-due // scale))
        self._tables.execute("REPLACE INTO rates VALUES (?, ?, ?, ?)", row)

    def __len__(self) -> int:
        count: int = self._tables.execute("SELECT count(*) FROM rates").fetchone()[0]
        return count

    def sweep(self, now_ns: int) -> None:
        self._tables.execute("DELETE FROM rates WHERE idle_ns <= ?", (now_ns,))


class SqlSpent:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def get(self, key: str, /) -> int | None:
        found = self._tables.execute("SELECT used FROM spent WHERE key = ?", (key,)).fetchone()
        return None if found is None else int(found[0])

    def __setitem__(self, key: str, value: int, /) -> None:
        self._tables.execute("REPLACE INTO spent VALUES (?, ?)", (key, value))

    def __delitem__(self, key: str, /) -> None:
        self._tables.execute("DELETE FROM spent WHERE key = ?", (key,))

    def __len__(self) -> int:
        count: int = self._tables.execute("SELECT count(*) FROM spent").fetchone()[0]
        return count

    def clear(self) -> None:
        self._tables.execute("DELETE FROM spent")


class SqlMarks:
    def __init__(self, tables: Tables, most: int) -> None:
        self._tables = tables
        self._most = most

    def is_free(self, mark: str, now_ns: int) -> bool:
        execute = self._tables.execute
        found = execute("SELECT until_ns FROM marks WHERE mark = ?", (mark,)).fetchone()
        if found is not None:
            return bool(found[0] <= now_ns)
        kept: int = execute("SELECT count(*) FROM marks").fetchone()[0]
        return kept < self._most

    def add(self, mark: str, until_ns: int) -> None:
        self._tables.execute("REPLACE INTO marks VALUES (?, ?)", (mark, until_ns))

    def remove(self, mark: str) -> None:
        self._tables.execute("DELETE FROM marks WHERE mark = ?", (mark,))


class SqlPlaces:
    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def total(self, key: str) -> int:
        count: int = self._tables.execute("SELECT count(*) FROM holds WHERE key = ?", (key,)).fetchone()[0]
        return count

    def ahead(self, key: str, rank: int) -> int:
        query = "SELECT count(*) FROM holds WHERE key = ? AND rank < ?"
        count: int = self._tables.execute(query, (key, rank)).fetchone()[0]
        return count

    def add(self, key: str, rank: int, slot: Slot) -> None:
        row = (key, rank, self._tables.worker, slot.number)
        self._tables.execute("REPLACE INTO holds VALUES (?, ?, ?, ?)", row)

    def remove(self, key: str, rank: int, slot: Slot) -> None:
        query = "DELETE FROM holds WHERE key = ? AND rank = ? AND worker = ? AND number = ?"
        self._tables.execute(query, (key, rank, self._tables.worker, slot.number))

    def run(self, slot: Slot) -> None:
        for need in slot.demand.places:
            self.add(need.key, RUNNING, slot)

    def end(self, slot: Slot) -> None:
        for need in slot.demand.places:
            self.remove(need.key, RUNNING, slot)


def find_boot() -> str:
    """What tells this start of the machine from others; nothing where the system does not say, and then only
    times that cannot be right tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


logger = logging.getLogger("toolcrib")

WAIT_S = 0.25
"""How long a call waits for the file before it is counted here."""
LOCK_S = 0.2
"""How long the thread waits for another process: it shall have said so before nobody listens any more."""
RETRY_S = 1.0
"""How often a file that does not work is tried again."""
POLL_S = 0.01
"""How often those in line look whether another process has freed a place."""
START_S = 5.0
BATCH = 256


class SqliteStore:
    """The counts of all processes that share a file. `local` counts where that does not work."""

    def __init__(
        self,
        policy: Policy,
        now_ns: Callable[[], int],
        wall: Callable[[], float],
        local: MemoryStore,
        *,
        boot: str | None = None,
    ) -> None:
        assert policy.store is not None  # nosec B101  # or else there is nothing to make
        self.lock = threading.RLock()
        self._policy = policy
        self._local = local
        self._now_ns = now_ns
        self._path = Path(policy.store)
        self._tables = Tables(self._path, secrets.token_hex(8), find_boot() if boot is None else boot)
        self._ledger = Ledger(
            rates=SqlRates(self._tables),
            spent=SqlSpent(self._tables),
            marks=SqlMarks(self._tables, MAX_BUCKETS),
            places=SqlPlaces(self._tables),
            day=Day(),
            wall=wall,
        )
        self._numbers = itertools.count(1)
        self._bell = threading.Condition()
        self._jobs: deque[Job] = deque()
        self._thread: threading.Thread | None = None
        self._is_closing = False
        # Of the thread, and read by others: whether the file works, and why not.
        self._is_open = False
        self._is_out = False
        self._problem: Exception | None = None
        self._outages = 0
        self._beats = 0
        self._retry_at = 0.0
        self._renewed_ns: int | None = None
        self._last_rank = 0
        self._held: dict[int, Slot] = {}
        self._waiting: dict[int, Job] = {}

    # --- what callers do, on their loops ---

    def enter(self, slot: Slot) -> Slot | Awaitable[Slot]:
        if self._is_out:
            return self._enter_here(slot)
        return self._enter_there(slot)

    async def _enter_there(self, slot: Slot) -> Slot:
        slot.number = next(self._numbers)
        job = Job(partial(self._let_in, slot), slot, enters=True)
        is_in = False
        try:
            answer = await self._ask(job, WAIT_S)
            if type(answer) is float:  # it is in line, and may be for so long
                patience_s = answer
                answer = await job.wait_on(patience_s)
                if answer == patience_s:
                    answer = refuse_late(slot.demand, patience_s)
            is_in = answer is True
        finally:
            if not is_in:
                self._submit(Job(partial(self._withdraw, slot), slot))
        if isinstance(answer, ThrottledError):
            raise answer
        if is_in:
            return slot
        entered = self._enter_here(slot)
        return entered if isinstance(entered, Slot) else await entered

    def _enter_here(self, slot: Slot) -> Slot | Awaitable[Slot]:
        return self._local.enter(Slot(slot.demand.local, self._local, slot.mark))

    def release(self, slot: Slot, *, ran: bool, has_ended: bool) -> None:
        self._submit(Job(partial(self._let_go, slot, ran, has_ended), slot if has_ended else None))

    def vacate(self, slot: Slot) -> None:
        self._submit(Job(partial(self._let_go, slot, True, True), slot))

    def pause(self, slot: Slot) -> None:
        self.vacate(slot)

    async def resume(self, slot: Slot) -> None:
        """Where the file does not work, the call goes on without a place: it must not be refused now."""
        job = Job(partial(self._let_back, slot), slot)
        is_settled = False
        try:
            answer = await self._ask(job, WAIT_S)
            if type(answer) is float:
                await job.wait_on(None)
            is_settled = True
        finally:
            if not is_settled:
                self.vacate(slot)

    async def burn(self, mark: str, ttl_s: float) -> bool:
        return await self._ask(Job(partial(self._burn, mark, ttl_s)), WAIT_S) is True

    async def open(self) -> None:
        """Raises ConfigurationError for a file that will never do. One that is busy may do later."""
        self._is_closing = False
        await self._ask(Job(_do_nothing), START_S)
        problem = self._problem
        if isinstance(problem, NotAStoreError):
            await self.close()
            hint = "name a file that is not there yet"
            raise self._policy.error_at("policy.store", f"{self._path} {problem}", hint)
        if isinstance(problem, OSError) and not isinstance(problem, TimeoutError):
            await self.close()
            raise self._policy.error_at("policy.store", f"{self._path} cannot be opened: {problem.strerror}")

    async def close(self) -> None:
        thread = self._thread
        if thread is not None:
            self._is_closing = True
            await self._ask(Job(self._resign), WAIT_S)
            thread.join(WAIT_S)  # its last step: closing the file

    def describe(self) -> dict[str, Any]:
        facts = {"places": len(self._held), "waiting": len(self._waiting)}
        return {"store": "sqlite", "out": self._is_out, "outages": self._outages, **facts}

    async def _ask(self, job: Job, wait_s: float) -> Any:
        """The thread's answer, or None: there is none in time. A thread that is only slow is waited for: it
        takes what it is given in turn."""
        job.attach()
        beats = self._beats
        self._submit(job)
        while not await job.wait(wait_s):
            if self._beats == beats:
                self._go_out(TimeoutError(f"no answer within {wait_s:g} s"))
                return None
            beats = self._beats
        return job.answer

    def _submit(self, job: Job) -> None:
        with self._bell:
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._live, name="toolcrib-limits", daemon=True)
                self._thread.start()
            self._bell.notify()

    # --- what the thread does for them, within a transaction ---

    def _let_in(self, slot: Slot) -> Any:
        now_ns = self._now_ns()
        try:
            patience_s = self._ledger.enter(slot, now_ns)
        except ThrottledError as error:
            return error
        if patience_s is None:
            self._held[slot.number] = slot
            return True
        self._last_rank = max(self._last_rank + 1, now_ns)
        self._ledger.line_up(slot, now_ns, self._last_rank)
        return float(patience_s)

    def _let_back(self, slot: Slot) -> float | None:
        if slot.is_over:
            return None
        self._last_rank = max(self._last_rank + 1, self._now_ns())
        if self._ledger.come_back(slot, BACK + self._last_rank):
            self._held[slot.number] = slot
            return None
        return math.inf

    def _let_go(self, slot: Slot, ran: bool, has_ended: bool) -> None:
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
            waiting.tell(None)  # whoever still waits need not any more

    def _burn(self, mark: str, ttl_s: float) -> bool:
        return self._ledger.burn(mark, ttl_s, self._now_ns())

    def _resign(self) -> None:
        self._tables.resign()
        self._renewed_ns = None

    # --- the thread ---

    def _live(self) -> None:
        while True:
            with self._bell:
                if not self._jobs:
                    if self._is_closing:
                        self._shut()
                        self._thread = None
                        return
                    self._bell.wait(self._nap_s())
                jobs = [self._jobs.popleft() for _ in range(min(BATCH, len(self._jobs)))]
            try:
                self._work(jobs)
            except Exception as error:  # whatever it is, calls go on
                self._fail(jobs, error)

    def _nap_s(self) -> float | None:
        if self._is_out:
            return max(POLL_S, self._retry_at - time.monotonic())
        if self._waiting:
            return POLL_S
        return LEASE_NS / 3e9 if self._held else None

    def _work(self, jobs: list[Job]) -> None:
        """One transaction for all that is to be done."""
        if not self._is_open:
            if time.monotonic() < self._retry_at:
                self._undo(jobs)
                return
            self._tables.open(self._now_ns(), LOCK_S)
            self._is_open = True
            self._beats += 1
            self._renewed_ns = None
        self._tables.check_file()
        now_ns = self._now_ns()
        is_due = self._renewed_ns is None or not 0 <= now_ns - self._renewed_ns < LEASE_NS // 3
        if not (jobs or is_due or self._is_out or self._tables.has_changed()):
            return
        self._tables.begin(LOCK_S)
        day = self._ledger.day
        self._tables.load_day(day)
        serial = day.serial
        if is_due:
            if not self._tables.renew(now_ns) or self._renewed_ns is None:
                self._tables.register(now_ns)
                waiting = [job.slot for job in self._waiting.values() if job.slot is not None]
                for slot in [*self._held.values(), *waiting]:
                    self._ledger.restore(slot)
            self._renewed_ns = now_ns
        answers: list[tuple[Job, Any]] = []
        for job in jobs:
            answer = job.act()
            if type(answer) is float and job.slot is not None:
                self._waiting[job.slot.number] = job
            answers.append((job, answer))
        answers += self._admit_waiting()
        if day.serial != serial:
            self._tables.save_day(day)
        self._tables.commit()
        self._beats += 1
        self._come_back()
        for job, answer in answers:
            number = 0 if job.slot is None else job.slot.number
            if type(answer) is float and self._waiting.get(number) is not job:
                continue  # taken back at once, and told so
            if answer is True:
                self._waiting.pop(number, None)
            job.tell(answer)

    def _admit_waiting(self) -> list[tuple[Job, Any]]:
        """Those in line whose turn it is. The ledger knows who is ahead, in whatever order it is asked."""
        admitted: list[tuple[Job, Any]] = []
        for job in self._waiting.values():
            slot = job.slot
            if slot is not None and self._ledger.retry(slot, self._now_ns()):
                self._held[slot.number] = slot
                admitted.append((job, True))
        return admitted

    # --- when the file does not work ---

    def _fail(self, jobs: list[Job], error: Exception) -> None:
        self._shut()
        self._retry_at = time.monotonic() + RETRY_S
        self._go_out(error)
        for job in jobs:
            if job.enters and job.slot is not None:
                job.slot.forget()  # what was not taken is not given back
        self._undo([*jobs, *self._waiting.values()])
        self._waiting.clear()

    def _undo(self, jobs: list[Job]) -> None:
        """Nothing of these has happened: whoever waits is told. What was to be freed is freed later, as all
        that is held is written anew when the file works again."""
        for job in jobs:
            if job.slot is not None:
                self._held.pop(job.slot.number, None)
                job.slot.rank = None
            job.tell(None)

    def _shut(self) -> None:
        if self._is_open:
            self._is_open = False
            try:
                self._tables.close()
            except Exception as error:  # it is no use any more, whatever it says
                logger.debug("closing %s failed: %s", self._path, error)

    def _go_out(self, error: Exception) -> None:
        with self._bell:
            is_news = not self._is_out
            self._is_out, self._problem = True, error
            self._outages += is_news
        if is_news:
            logger.warning(
                "the store of limits, %s, does not work (%s); until it does, this process counts for itself, "
                "up to its share of each limit",
                self._path,
                error,
                extra={"outages": self._outages},
            )

    def _come_back(self) -> None:
        with self._bell:
            was_out, self._is_out, self._problem = self._is_out, False, None
        if was_out:
            logger.warning("the store of limits, %s, works again", self._path)


def _do_nothing() -> None:
    pass
