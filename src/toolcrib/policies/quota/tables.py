"""The counts of several processes, in one SQLite file.

Times are those of the clock that nobody sets, which all processes since the start of the machine share; what
was counted before that start is forgotten, except budgets and marks. A place belongs to a worker, and a
worker that has not renewed its lease is dead: its places are free. Knows SQL; refuses to know threads, and
who is let in.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolcrib.policies.quota.day import Day
from toolcrib.policies.quota.slot import RUNNING, Slot
from toolcrib.policies.quota.terms import NS

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
