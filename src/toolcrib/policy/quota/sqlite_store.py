"""The store of several processes: counts in one SQLite file.

Every step of a call is a short transaction, which costs less than to hand it to another thread. A call never
blocks for a lock of another process: it tries again later. A thread admits queued calls when other processes
free slots, and renews the lease of this process.

While the file is not available (locked for long, disk full, deleted, corrupt) calls do not wait for it: each
process counts for itself, up to its share of each limit, logs that once, and returns to the file when it is
available again.

Times are on the monotonic clock, which all processes share until the machine restarts; after a restart only
budgets and marks are kept. A slot belongs to a worker process. A worker that has not renewed its lease is
dead, and its slots are free.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from toolcrib.config.settings import Policy
from toolcrib.dispatch.rate_limit import NS
from toolcrib.errors import ThrottledError
from toolcrib.policy.quota.ledger import LAST, MARK_NS, RUNNING, Kind, Ledger, Slot, Store, UnavailableError
from toolcrib.policy.quota.limits import BudgetDay

logger = logging.getLogger("toolcrib")

_T = TypeVar("_T")

LEASE_NS = 10 * NS
"""How long the slots of a killed worker stay taken."""
WAIT_S = 0.25
"""How long a call waits for the file before it is counted in this process."""
RETRY_S = 1.0
"""How often a file that is not available is tried again."""
POLL_S = 0.01
"""How often queued calls check whether another process has freed a slot."""
BUSY_S = 0.001
"""How often a file that another process has locked is tried again."""

_APPLICATION_ID = 0x746F6F71
_FORMAT = 2
_SCHEMA = (
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    # Values as text: a time in the units of a pace exceeds SQLite's integers.
    """CREATE TABLE counts (
        kind TEXT, key TEXT, value TEXT, until_ns INTEGER, PRIMARY KEY (kind, key)
    ) WITHOUT ROWID""",
    "CREATE TABLE workers (id TEXT PRIMARY KEY, until_ns INTEGER) WITHOUT ROWID",
    """CREATE TABLE calls (
        key TEXT, rank INTEGER, worker TEXT, number INTEGER, PRIMARY KEY (key, rank, worker, number)
    ) WITHOUT ROWID""",
    "CREATE INDEX calls_of_workers ON calls (worker)",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_FORMAT}",
)


class NotAStoreError(Exception):
    """The file is something else, and must not be changed."""


class BusyError(Exception):
    """Another process has locked the file. Nothing was done."""


class SqliteCounts:
    """Counts in a SQLite file, on one connection. The caller holds a lock.

    Everything but `open` happens between `begin` and `commit`; what was not committed has not happened.
    """

    def __init__(self, path: Path, worker: str, boot: str) -> None:
        self.path = path
        self._worker = worker
        self._boot = boot
        self._file: tuple[int, int] | None = None
        self._db: sqlite3.Connection = None  # type: ignore[assignment]  # set by `open`

    def open(self, now_ns: int) -> None:
        """Raises NotAStoreError, sqlite3.Error or OSError."""
        # Created here and not by SQLite, with private permissions: it holds names of principals.
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        self._check_header()
        self._db = sqlite3.connect(self.path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            self.begin()
            self._create()
            self._check_boot(now_ns)
            self.commit()
            # After the commit, so that the application id is in the file and not only in its journal.
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._file = self._file_id()
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        self._db.close()

    def begin(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._db.execute("COMMIT")

    def check_file(self) -> None:
        """Raise OSError where the file was deleted or replaced."""
        if self._file_id() != self._file:
            raise OSError("the file was replaced")

    # --- workers ---

    def renew_lease(self, now_ns: int) -> bool:
        """Renew the lease of this worker. Return False where it is unknown, and its slots with it."""
        lease = (now_ns + LEASE_NS, self._worker)
        is_known = self._db.execute("UPDATE workers SET until_ns = ? WHERE id = ?", lease).rowcount == 1
        # A lease too far ahead is of a dead worker, too: it was written before the clock restarted.
        dead = "DELETE FROM workers WHERE until_ns <= ? OR until_ns > ?"
        self._db.execute(dead, (now_ns, now_ns + LEASE_NS))
        self._db.execute("DELETE FROM calls WHERE worker NOT IN (SELECT id FROM workers)")
        return is_known

    def register(self, now_ns: int) -> None:
        """Add this worker, without slots."""
        self.unregister()
        self._db.execute("INSERT INTO workers VALUES (?, ?)", (self._worker, now_ns + LEASE_NS))

    def unregister(self) -> None:
        self._db.execute("DELETE FROM calls WHERE worker = ?", (self._worker,))
        self._db.execute("DELETE FROM workers WHERE id = ?", (self._worker,))

    # --- the day ---

    def load_day(self, day: BudgetDay) -> None:
        facts = dict(self._db.execute("SELECT name, value FROM facts"))
        day.number, day.began_ns, day.serial = facts.get("day"), facts.get("began", 0), facts.get("serial", 0)

    def save_day(self, day: BudgetDay) -> None:
        facts = [("day", day.number), ("began", day.began_ns), ("serial", day.serial)]
        self._db.executemany("REPLACE INTO facts VALUES (?, ?)", facts)

    # --- counts ---

    def get(self, kind: Kind, key: str) -> int | None:
        query = "SELECT value FROM counts WHERE kind = ? AND key = ?"
        found = self._db.execute(query, (kind, key)).fetchone()
        return None if found is None else int(found[0])

    def put(self, kind: Kind, key: str, value: int, until_ns: int) -> None:
        self._db.execute("REPLACE INTO counts VALUES (?, ?, ?, ?)", (kind, key, str(value), until_ns))

    def remove(self, kind: Kind, key: str) -> None:
        self._db.execute("DELETE FROM counts WHERE kind = ? AND key = ?", (kind, key))

    def count(self, kind: Kind) -> int:
        return self._number("SELECT count(*) FROM counts WHERE kind = ?", kind)

    def sweep(self, kind: Kind, now_ns: int) -> None:
        self._db.execute("DELETE FROM counts WHERE kind = ? AND until_ns <= ?", (kind, now_ns))

    def clear(self, kind: Kind) -> None:
        self._db.execute("DELETE FROM counts WHERE kind = ?", (kind,))

    def count_calls(self, key: str, before: int = LAST) -> int:
        return self._number("SELECT count(*) FROM calls WHERE key = ? AND rank < ?", key, before)

    def add_call(self, key: str, rank: int, slot: Slot) -> None:
        self._db.execute("REPLACE INTO calls VALUES (?, ?, ?, ?)", (key, rank, self._worker, slot.number))

    def remove_call(self, key: str, rank: int, slot: Slot) -> None:
        query = "DELETE FROM calls WHERE key = ? AND rank = ? AND worker = ? AND number = ?"
        self._db.execute(query, (key, rank, self._worker, slot.number))

    def _number(self, query: str, *values: Any) -> int:
        number: int = self._db.execute(query, values).fetchone()[0]
        return number

    # --- the file ---

    def _check_header(self) -> None:
        """Read the file itself: SQLite would apply a journal that an earlier file of that name left
        behind."""
        with self.path.open("rb") as file:
            header = file.read(100)
        if header and header[:16] != b"SQLite format 3\0":
            raise NotAStoreError("is not a SQLite file")
        if header and int.from_bytes(header[68:72], "big") != _APPLICATION_ID:
            raise NotAStoreError("belongs to another program")

    def _create(self) -> None:
        if not self._number("SELECT count(*) FROM sqlite_master"):
            for statement in _SCHEMA:
                self._db.execute(statement)
        elif self._number("PRAGMA user_version") != _FORMAT:
            raise NotAStoreError("was made by another version of toolcrib")

    def _check_boot(self, now_ns: int) -> None:
        """Drop what depends on the monotonic clock if the machine has restarted."""
        found = self._db.execute("SELECT value FROM facts WHERE name = 'boot'").fetchone()
        if found is not None and found[0] == self._boot:
            return
        self.clear("rate")
        self._db.execute("DELETE FROM calls")
        self._db.execute("DELETE FROM workers")
        until_ns = now_ns + MARK_NS  # how old marks are is unknown
        self._db.execute("UPDATE counts SET value = ?1, until_ns = ?1 WHERE kind = 'mark'", (until_ns,))
        self._db.execute("UPDATE facts SET value = ? WHERE name = 'began'", (now_ns,))
        self._db.execute("REPLACE INTO facts VALUES ('boot', ?)", (self._boot,))

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


class SqliteStore(Store):
    """The counts of all processes that share a file. `local` counts while the file is not available."""

    def __init__(
        self, policy: Policy, now_ns: Callable[[], int], wall_clock: Callable[[], float], local: Store
    ) -> None:
        assert policy.store is not None  # nosec B101  # checked by the caller
        self._policy = policy
        self._local = local
        self._path = Path(policy.store)
        self._counts = SqliteCounts(self._path, secrets.token_hex(8), find_boot())
        super().__init__(Ledger(self._counts, wall_clock), now_ns)
        self._numbers = itertools.count(1)
        self._slots: set[Slot] = set()
        """The calls that run or wait, to be written again where the file has lost them."""
        self._pending: list[Callable[[], None]] = []
        """What the next transaction has to do first."""
        self._is_open = self._is_writing = self._is_failing = self._is_idle = False
        self._problem: Exception | None = None
        self._outages = 0
        self._busy_at = self._busy_since = -math.inf
        self._retry_at = 0.0
        self._renewed_ns: int | None = None
        self._thread: threading.Thread | None = None
        self._alarm = threading.Event()

    async def open(self) -> None:
        """Raise ConfigurationError for a file that can never be used. One that is busy may work later."""
        with suppress(UnavailableError):
            await self.transact_patiently(_do_nothing)
        problem, hint = self._problem, None
        if isinstance(problem, NotAStoreError):
            message, hint = f"{self._path} {problem}", "name a file that does not exist yet"
        elif isinstance(problem, OSError) and not isinstance(problem, TimeoutError):
            message = f"{self._path} cannot be opened: {problem.strerror}"
        else:
            return
        await self.close()
        raise self._policy.error_at("policy.store", message, hint)

    async def close(self) -> None:
        with self.lock:
            with suppress(BusyError, UnavailableError):
                self.transact(self._unregister)
            self._close_file()
            thread, self._thread = self._thread, None
        if thread is not None:
            self._alarm.set()
            thread.join(WAIT_S)

    def describe(self) -> dict[str, Any]:
        with self.lock:
            slots = sum(slot.rank == RUNNING for slot in self._slots)
        state = {"out": self._is_failing, "outages": self._outages, "slots": slots}
        return {"store": "sqlite", **state, **super().describe()}

    def enter(self, slot: Slot) -> Slot | Awaitable[Slot]:
        if self._is_failing:
            return self._enter_local(slot)
        slot.number = next(self._numbers)
        try:
            if self.transact(lambda: self.ledger.enter(slot, self.now_ns()), new=slot) is None:
                return slot
        except (BusyError, UnavailableError):
            pass
        return self.enter_later(slot)

    async def enter_later(self, slot: Slot) -> Slot:
        try:
            return await super().enter_later(slot)
        except UnavailableError:
            entered = self._enter_local(slot)
        return entered if isinstance(entered, Slot) else await entered

    def _enter_local(self, slot: Slot) -> Slot | Awaitable[Slot]:
        return self._local.enter(Slot(slot.limits.local, self._local, slot.mark))

    def release(self, slot: Slot, *, ran: bool = True, has_ended: bool = True) -> None:
        if has_ended:
            self._slots.discard(slot)
        self.transact_soon(partial(self.end, slot, ran, has_ended))

    async def resume(self, slot: Slot) -> None:
        with self.lock:
            self._slots.add(slot)
        await super().resume(slot)
        with self.lock:
            if slot.rank is None:  # it continues without one, or has ended
                self._slots.discard(slot)

    def withdraw(self, slot: Slot) -> None:
        self._slots.discard(slot)
        super().withdraw(slot)

    # --- transactions ---

    async def transact_patiently(self, act: Callable[[], _T], *, new: Slot | None = None) -> _T:
        """Run a transaction as soon as the file is not locked. Raises UnavailableError."""
        while True:
            try:
                return self.transact(act, new=new)
            except BusyError:
                await asyncio.sleep(BUSY_S)

    def transact_soon(self, act: Callable[[], None]) -> None:
        """Do something with the next transaction: at once where calls wait for it, else soon."""
        with self.lock:
            self._pending.append(act)
            if self.waiting:
                with suppress(BusyError, UnavailableError):
                    self.transact(_do_nothing)
            else:
                self._watch()

    def transact(self, act: Callable[[], _T], *, new: Slot | None = None) -> _T:
        """Do something in one transaction with everything that is due. Raises what it raises, BusyError or
        UnavailableError."""
        with self.lock:
            if self._is_writing:  # the garbage collector has ended a forgotten call in a transaction
                raise BusyError
            self._is_writing = True
            try:
                self._begin()
                return self._write(act, new)
            except (BusyError, UnavailableError, ThrottledError):
                raise
            except Exception as error:  # whatever it is, calls go on
                self._fail(error, new)
                raise UnavailableError from error
            finally:
                self._is_writing = False
                self._watch()

    def _begin(self) -> None:
        now = time.monotonic()
        if not self._is_open and now < self._retry_at:
            raise UnavailableError
        try:
            if not self._is_open:
                self._counts.open(self.now_ns())
                self._is_open = True
                self._renewed_ns = None
            self._counts.check_file()
            self._counts.begin()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise
            if now - self._busy_at > WAIT_S:
                self._busy_since = now
            self._busy_at = now
            if now - self._busy_since >= WAIT_S:
                raise TimeoutError(f"locked for {WAIT_S:g} s") from None
            raise BusyError from None

    def _write(self, act: Callable[[], _T], new: Slot | None) -> _T:
        day = self.ledger.day
        self._counts.load_day(day)
        serial = day.serial
        self._renew_lease()
        pending = self._pending.copy()
        for each in pending:
            each()
        refusal: ThrottledError | None = None
        try:
            result = act()
        except ThrottledError as error:
            refusal = error
        if new is not None and new.rank is not None:
            self._slots.add(new)
        admitted = self.retry_waiting()
        if day.serial != serial:
            self._counts.save_day(day)
        self._counts.commit()
        del self._pending[: len(pending)]
        self._note_success()
        self.wake(admitted)
        if refusal is not None:
            raise refusal
        return result

    def _renew_lease(self) -> None:
        now_ns, renewed_ns = self.now_ns(), self._renewed_ns
        if renewed_ns is not None and 0 <= now_ns - renewed_ns < LEASE_NS // 3:
            return
        if not self._counts.renew_lease(now_ns) or renewed_ns is None:
            self._counts.register(now_ns)
            for slot in list(self._slots):
                self.ledger.restore(slot)
        self._renewed_ns = now_ns

    def _unregister(self) -> None:
        self._counts.unregister()
        self._renewed_ns = None

    # --- the thread ---

    def _is_urgent(self) -> bool:
        return bool(self.waiting or self._pending or self._is_failing)

    def _watch(self) -> None:
        """Start the thread where there is something to do for it, and wake it where that is urgent."""
        if self._thread is None and (self._slots or self._is_urgent()):
            self._thread = threading.Thread(target=self._run, name="toolcrib-limits", daemon=True)
            self._thread.start()
        elif self._is_idle and self._is_urgent():
            self._alarm.set()

    def _run(self) -> None:
        while True:
            with self.lock:
                self._is_idle = not self._is_urgent()
            wait_s = LEASE_NS / 3e9 if self._is_idle else max(POLL_S, self._retry_at - time.monotonic())
            has_changed = self._alarm.wait(wait_s)
            self._alarm.clear()
            with self.lock:
                if self._thread is not threading.current_thread():
                    return  # closed
                if not has_changed and (self._slots or self._is_urgent()):
                    with suppress(BusyError, UnavailableError):
                        self.transact(_do_nothing)

    # --- while the file is not available ---

    def _fail(self, error: Exception, new: Slot | None) -> None:
        """Close the file. When it is available again, the slots that are still held are written again."""
        self._close_file()
        self._retry_at = time.monotonic() + RETRY_S
        if new is not None:
            new.reset()
            self._slots.discard(new)
        for slot, waiter in list(self.waiting.items()):
            slot.rank = None
            waiter.wake()
        self.waiting.clear()
        is_new = not self._is_failing
        self._is_failing, self._problem = True, error
        if is_new:
            self._outages += 1
            logger.warning(
                "the limits store %s is not available (%s); this process counts for itself, up to its "
                "share of each limit",
                self._path,
                error,
                extra={"outages": self._outages},
            )

    def _note_success(self) -> None:
        self._busy_at = -math.inf
        if self._is_failing:
            self._is_failing, self._problem = False, None
            logger.warning("the limits store %s is available again", self._path)

    def _close_file(self) -> None:
        if self._is_open:
            self._is_open = False
            with suppress(Exception):  # it is replaced by another connection in any case
                self._counts.close()


def _do_nothing() -> None: ...
