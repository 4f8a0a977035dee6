"""One SQLite database: one thread, one writing connection, one table of leases.

    file = SQLiteFile(path, [TASKS, VALUES])
    await file.write(lambda db: db.execute(...))  # one transaction

Without a path the database is in memory, for this process alone. Times are on the monotonic clock, which all
processes share until the machine restarts: setting the clock expires nothing. The first process after a
restart converts them, by the wall clock.

A process that runs something holds a lease, which the thread renews even while the event loop is blocked. The
tasks and slots of a process without a lease belong to nobody: it has died.
"""

from __future__ import annotations

import asyncio
import os
import queue
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from toolcrib.state.base import StateUnavailable
from toolcrib.state.files import create_database

T = TypeVar("T")

NS = 1_000_000_000
LEASE_NS = 10 * NS
"""How long a killed process looks as if it were running."""
RENEW_NS = 2 * NS
SWEEP_NS = 60 * NS
LOCK_S = 2.0
"""How long the thread waits for another process to commit."""
LOCK_RETRY_S = 0.001
WAIT_S = 5.0
"""How long a request waits for the thread."""
CLOSE_S = 2.0
POLL_S = 0.03
IDLE_POLL_S = 0.25
IDLE_S = 5.0
"""After this long without a write of any process, it is looked for less often: each time wakes the thread."""

_APPLICATION_ID = 0x746F6F73
_FORMAT = 1
_SCHEMA = (
    "CREATE TABLE fact (name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    "CREATE TABLE lease (process TEXT PRIMARY KEY, until_ns INTEGER) WITHOUT ROWID",
    "INSERT INTO fact VALUES ('version', 0), ('boot', '')",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_FORMAT}",
)
_SECONDS_LEFT = "UPDATE {} SET until_ns = :now_ns + (until_ms - :wall_ms) * 1000000"

Times = dict[str, Any]
"""`now_ns` on the monotonic clock, `wall_ms` since 1970, and `process`, as parameters of statements."""


class Tables(NamedTuple):
    """Tables of one contract. Those in `expiring` have the columns `until_ns` and `until_ms`, those in
    `of_boot` are emptied when the machine has restarted. `sweep` removes what is over."""

    schema: Sequence[str]
    sweep: Callable[[sqlite3.Connection, Times], None]
    expiring: Sequence[str] = ()
    of_boot: Sequence[str] = ()


class SQLiteFile:
    """A database that is used from a thread of its own, which starts when it is needed.

    `write` and `read` raise StateUnavailable if the file cannot be used, and what their function raises. A
    file that was deleted or replaced is opened again. `process` names this process.
    """

    def __init__(
        self,
        path: Path | None,
        tables: Sequence[Tables],
        *,
        now_ns: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self.process = secrets.token_hex(8)
        self.is_in_use: list[Callable[[], bool]] = []
        """Whether the lease is still needed: one function for each contract that uses it."""
        self.poll: Callable[[sqlite3.Connection], None] | None = None
        """Called on the thread when another process has written, which is looked for every `POLL_S`, and less
        often while nothing happens."""
        self._tables = tables
        self.now_ns = now_ns
        self.wall = wall
        self._db: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._is_committing = False
        self._polled_s = self._active_s = 0.0
        self._seen: tuple[sqlite3.Connection, int] | None = None
        self._renewed_ns: int | None = None
        self._swept_ns = now_ns()
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[_Job | None] | None = None
        self._thread: threading.Thread | None = None

    def times(self) -> Times:
        return {"now_ns": self.now_ns(), "wall_ms": int(self.wall() * 1000), "process": self.process}

    # --- called from any thread ---

    async def write(self, act: Callable[[sqlite3.Connection], T], wait_s: float = WAIT_S) -> T:
        """Call a function in a transaction and return what it returns."""
        return await self._wait_for(self._submit(_Job(act, Future(), "BEGIN IMMEDIATE")), wait_s)

    async def read(self, act: Callable[[sqlite3.Connection], T], wait_s: float = WAIT_S) -> T:
        """Call a function that changes nothing."""
        return await self._wait_for(self._submit(_Job(act, Future(), "BEGIN")), wait_s)

    def post(self, act: Callable[[sqlite3.Connection], object]) -> Future[Any]:
        """Have a function called in a transaction, without waiting."""
        return self._submit(_Job(act, Future(), "BEGIN IMMEDIATE"))

    async def close(self) -> None:
        """Do what was submitted and end the thread. The file can be used again."""
        with self._lock:
            jobs, thread, self._jobs, self._thread = self._jobs, self._thread, None, None
        if jobs is not None and thread is not None:
            jobs.put(_Job(self._give_up_lease, Future(), "BEGIN IMMEDIATE"))
            jobs.put(None)
            await asyncio.to_thread(thread.join, CLOSE_S)

    def _submit(self, job: _Job) -> Future[Any]:
        with self._lock:
            if self._jobs is None:
                self._jobs = queue.SimpleQueue()
                self._thread = threading.Thread(
                    target=self._work, args=(self._jobs,), name="toolcrib-state", daemon=True
                )
                self._thread.start()
            self._jobs.put(job)
        return job.done

    async def _wait_for(self, done: Future[T], wait_s: float) -> T:
        try:
            waiting = asyncio.wrap_future(done)
            waiting.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # or it is logged
            async with asyncio.timeout(wait_s):
                return await asyncio.shield(waiting)
        except TimeoutError:
            raise StateUnavailable(
                f"{self.path} did not respond within {wait_s:g} s", in_doubt=True
            ) from None

    # --- in a transaction ---

    def hold_lease(self, db: sqlite3.Connection) -> None:
        """Take or renew the lease of this process."""
        self._renewed_ns = self.now_ns()
        until = self._renewed_ns + LEASE_NS
        db.execute("REPLACE INTO lease VALUES (?, ?)", (self.process, until))

    def keep_lease(self, db: sqlite3.Connection) -> None:
        """Hold the lease of this process, which is renewed only if that is due."""
        if self._renewed_ns is None or not 0 <= self.now_ns() - self._renewed_ns < RENEW_NS:
            self.hold_lease(db)

    def sweep(self, db: sqlite3.Connection) -> None:
        """Remove the leases of dead processes, what they held, and everything that is over."""
        times = self.times()
        self._swept_ns = times["now_ns"]
        # A lease too far ahead is of a dead process, too: the clock has restarted.
        dead = "until_ns <= :now_ns OR until_ns > :now_ns + :lease_ns"
        lease = {**times, "lease_ns": LEASE_NS}
        db.execute(f"DELETE FROM lease WHERE ({dead}) AND process != :process", lease)  # noqa: S608
        for each in self._tables:
            each.sweep(db, times)

    def _give_up_lease(self, db: sqlite3.Connection) -> None:
        self._renewed_ns = None
        db.execute("DELETE FROM lease WHERE process = ?", (self.process,))
        self.sweep(db)

    # --- on the thread ---

    def _work(self, jobs: queue.SimpleQueue[_Job | None]) -> None:
        while True:
            pause_s = self._poll_interval_s() if self.poll is not None else None
            if pause_s is None and self._renewed_ns is not None:
                pause_s = RENEW_NS / NS / 4
            try:
                job = jobs.get(timeout=pause_s)
            except queue.Empty:
                pass
            else:
                if job is None:
                    self._disconnect()
                    return
                self._do(job)
                self._active_s = time.monotonic()
            self._maintain()

    def _do(self, job: _Job) -> None:
        try:
            job.done.set_result(self._transact(job))
        except (sqlite3.Error, OSError) as error:
            in_doubt = self._is_committing
            if self.path is not None and not _is_busy(error):
                self._disconnect()
            job.done.set_exception(StateUnavailable(f"{self.path}: {error}", in_doubt=in_doubt))
        except BaseException as error:
            job.done.set_exception(error)

    def _transact(self, job: _Job) -> Any:
        renewed_ns, self._is_committing = self._renewed_ns, False
        db = self._connect()
        _execute_patiently(db, job.begin)
        try:
            result = job.act(db)
            if job.begin != "BEGIN" and self.now_ns() - self._swept_ns >= SWEEP_NS:
                self.sweep(db)
            self._is_committing = True
            db.execute("COMMIT")
            self._is_committing = False
        except BaseException:
            self._renewed_ns = renewed_ns
            with suppress(sqlite3.Error):
                if db.in_transaction:
                    db.execute("ROLLBACK")
                    self._is_committing = False
            raise
        return result

    def _maintain(self) -> None:
        """Renew the lease while it is needed, and poll."""
        if self._renewed_ns is not None and not 0 <= self.now_ns() - self._renewed_ns < RENEW_NS:
            if any(is_in_use() for is_in_use in self.is_in_use):
                self._do(_Job(self._renew, Future(), "BEGIN IMMEDIATE"))
            else:
                self._renewed_ns = None
        if self.poll is not None and time.monotonic() - self._polled_s >= POLL_S:
            self._polled_s = time.monotonic()
            if self._has_changed():
                self._active_s = time.monotonic()
                self._do(_Job(self.poll, Future(), "BEGIN"))

    def _poll_interval_s(self) -> float:
        return IDLE_POLL_S if time.monotonic() - self._active_s > IDLE_S else POLL_S

    def _has_changed(self) -> bool:
        """Whether another process has written since this was called."""
        try:
            db = self._connect()
            before, self._seen = self._seen, (db, db.execute("PRAGMA data_version").fetchone()[0])
        except (sqlite3.Error, OSError):
            return False  # a request that uses the file reports it
        return before != self._seen

    def _renew(self, db: sqlite3.Connection) -> None:
        self.hold_lease(db)
        self.sweep(db)

    def _connect(self) -> sqlite3.Connection:
        if self._db is not None:
            if self.path is None or _file_id(self.path) == self._file:
                return self._db
            self._disconnect()  # it was deleted or replaced
        if self.path is None:
            db = sqlite3.connect(":memory:", isolation_level=None)
        else:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            create_database(self.path)  # private: it holds results and tokens
            db = sqlite3.connect(self.path, timeout=0, isolation_level=None)
        try:
            self._prepare(db)
        except BaseException:
            db.close()
            raise
        self._db = db
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        try:
            _execute_patiently(db, "BEGIN IMMEDIATE")
            self._create(db)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            raise OSError("not a state file of toolcrib") from None
        if self.path is not None:
            # After the commit, so that the application id is in the file and not only in its journal.
            _execute_patiently(db, "PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            self._file = _file_id(self.path)

    def _create(self, db: sqlite3.Connection) -> None:
        if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            for statement in (*_SCHEMA, *(line for each in self._tables for line in each.schema)):
                db.execute(statement)
        if db.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION_ID:
            raise OSError("not a state file of toolcrib")
        if db.execute("PRAGMA user_version").fetchone()[0] > _FORMAT:
            raise OSError("the file was made by a newer toolcrib")
        boot, times = find_boot(), self.times()
        if db.execute("SELECT value FROM fact WHERE name = 'boot'").fetchone()[0] != boot:
            db.execute("UPDATE fact SET value = ? WHERE name = 'boot'", (boot,))
            db.execute("DELETE FROM lease")
            for each in self._tables:
                for name in each.expiring:
                    db.execute(_SECONDS_LEFT.format(name), times)
                for name in each.of_boot:
                    db.execute(f"DELETE FROM {name}")  # noqa: S608 - a name of ours
        db.execute("COMMIT")

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()


class _Job(NamedTuple):
    act: Callable[[sqlite3.Connection], Any]
    done: Future[Any]
    begin: str


def next_version(db: sqlite3.Connection) -> int:
    """Return a number that no write to the file has had."""
    db.execute("UPDATE fact SET value = value + 1 WHERE name = 'version'")
    return last_version(db)


def last_version(db: sqlite3.Connection) -> int:
    return int(db.execute("SELECT value FROM fact WHERE name = 'version'").fetchone()[0])


def find_boot() -> str:
    """Return an id of this start of the machine. Where the system has none, the time it started, in steps
    that are long enough for a clock that is adjusted."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"{(time.time() - time.monotonic()) / 3600:.0f} h"


def _execute_patiently(db: sqlite3.Connection, statement: str) -> None:
    """Execute a statement, again while another process holds the lock. SQLite itself would wait in steps that
    grow to 0.1 s."""
    until = time.monotonic() + LOCK_S
    while True:
        try:
            db.execute(statement)
            return
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() >= until:
                raise
            time.sleep(LOCK_RETRY_S)


def _is_busy(error: Exception) -> bool:
    """Whether another process holds the lock."""
    return isinstance(error, sqlite3.Error) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _file_id(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
