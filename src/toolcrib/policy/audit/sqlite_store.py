"""Records in a SQLite file: one table, `record(seq, line)`, whose rows are added and ended, never changed.

Several processes may write it at once: each takes the database for itself, looks what the last record is,
adds its own behind it and commits. Knows SQLite; refuses to know what lines say, but for number and hash.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import chain
from pathlib import Path
from urllib.parse import quote

from toolcrib.errors import ConfigurationError
from toolcrib.policy.audit.jsonl_store import claim, sync_path
from toolcrib.policy.audit.record import NO_RECORD, Head, head_of
from toolcrib.policy.audit.store import (
    DELETED,
    DELETED_WAL,
    REPLACED,
    REPLACED_WAL,
    BrokenError,
    Compose,
    GoneError,
    StoreError,
)

SCHEMA = "CREATE TABLE IF NOT EXISTS record (seq INTEGER PRIMARY KEY, line TEXT NOT NULL)"
_LAST = "SELECT line FROM record ORDER BY seq DESC LIMIT 1"
_FORWARD = "SELECT seq, line FROM record WHERE seq >= ? ORDER BY seq"
_BACK = "SELECT seq, line FROM record ORDER BY seq DESC"
_OTHER = (
    "SELECT EXISTS (SELECT 1 FROM sqlite_master) AND"
    " (SELECT count(*) FROM pragma_table_info('record') WHERE name IN ('seq', 'line')) < 2"
)
_LEAST = -(2**63)
_ROWS = (64, 16, 4, 1)
"""Rows to a statement: with each statement the interpreter is given away, and has to be got back."""
_PLACES = {rows: ",".join(["(?,?)"] * rows) for rows in _ROWS}
_INSERTS = {rows: f"INSERT INTO record VALUES {places}" for rows, places in _PLACES.items()}  # nosec B608


class TableStore:
    sync_every: int | None = None
    remove_batch: int | None = 5_000

    def __init__(self, path: Path, *, sync: bool, wait_s: float) -> None:
        self.cut_bytes = 0
        self._path = path
        self._wait_s = wait_s
        self._wal = path.with_name(f"{path.name}-wal")
        # One that is there is left alone: to open and close it behind the back of SQLite would end its locks.
        if not path.exists() and claim(path):
            for orphan in (self._wal, path.with_name(f"{path.name}-shm")):
                orphan.unlink(missing_ok=True)  # of a file that was deleted: another process may have it open
        _refuse_unusable(path)
        self._mark = _mark_of(path)
        self._is_cut_off = False
        with _translated():
            self._db = sqlite3.connect(path, timeout=wait_s, isolation_level=None)
            try:
                self._prepare(sync)
                self._wal_mark = _find_mark(self._wal)
            except BaseException:
                self._db.close()
                raise

    def _prepare(self, sync: bool) -> None:
        self._db.text_factory = bytes
        if self._db.execute(_OTHER).fetchone()[0]:  # before anything is changed in it
            raise BrokenError("it holds other tables, and no records")
        mode = self._db.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        self._has_wal = mode == b"wal"  # not every file system can have one
        self._db.execute(f"PRAGMA synchronous={'FULL' if sync else 'NORMAL'}")
        self._db.execute("PRAGMA secure_delete=ON")  # a record whose time is over is to be gone
        self._db.execute(SCHEMA)

    def append(self, compose: Compose, head: Head | None = None) -> None:
        with _translated():
            self._begin()
            try:
                if head is None:
                    head = self.head()
                self._insert(head.seq, compose(head))
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # some failures end it by themselves
                    self._db.execute("ROLLBACK")
                raise

    def _begin(self) -> None:
        """Take the database for ourselves. Another process may have saved a deleted -wal file and made a new
        one just before: frames that are then written to the old file would be lost."""
        self.look()
        self._db.execute("BEGIN IMMEDIATE")
        while self._has_lost_wal() and not self._is_cut_off:
            self._db.execute("ROLLBACK")
            self.look()
            self._db.execute("BEGIN IMMEDIATE")

    def look(self) -> None:
        found = _find_mark(self._path)
        if found != self._mark:
            words = DELETED if found is None else REPLACED
        elif not self._has_lost_wal():
            return
        elif _find_mark(self._wal) is not None:
            words = REPLACED_WAL
        elif self._empty_wal():
            words = DELETED_WAL  # its records are in the main file now
        else:
            # Somebody reads or writes. All who have the deleted file open still share it, and to open the
            # log again would make another one: go on, and try again with the next record.
            self._is_cut_off = True
            return
        try:
            head = self.head()  # a file that is open can be read although its name is gone
        except StoreError:
            head = NO_RECORD
        raise GoneError(words, head) from None

    def _has_lost_wal(self) -> bool:
        """Whether the -wal file that SQLite has open is not the one beside the log. SQLite never removes it
        while a connection is open, and does not notice when somebody else does."""
        return self._has_wal and _find_mark(self._wal) != self._wal_mark

    def _insert(self, seq: int, lines: list[bytes]) -> None:
        start, count = 0, len(lines)
        texts = [line.decode() for line in lines]
        for rows in _ROWS:
            statement = _INSERTS[rows]
            while count - start >= rows:
                numbers = range(seq + 1 + start, seq + 1 + start + rows)
                values = zip(numbers, texts[start : start + rows], strict=True)
                self._db.execute(statement, list(chain.from_iterable(values)))
                start += rows

    def head(self) -> Head:
        with _translated():
            row = self._db.execute(_LAST).fetchone()
        head = NO_RECORD if row is None else head_of(_as_bytes(row[0]))
        if head is None:
            raise BrokenError("the last row is no record")
        return head

    def first_seq(self) -> int:
        with _translated():
            return self._db.execute("SELECT min(seq) FROM record").fetchone()[0] or 0

    def taken_seq(self) -> int:
        with _translated():
            return self._db.execute("SELECT max(seq) FROM record").fetchone()[0] or 0

    def lines(self, after: int) -> Generator[bytes]:
        with _translated():
            for seq, line in self._db.execute(_FORWARD, (_behind(after),)):
                yield _checked(seq, line)

    def remove_through(self, seq: int) -> None:
        with _translated():
            self._db.execute(
                "DELETE FROM record WHERE seq <= ? AND seq < (SELECT max(seq) FROM record)", (seq,)
            )
            self._empty_wal()

    def _empty_wal(self) -> bool:
        """Move everything to the main file: what was removed is still in the -wal file. Who reads just now is
        not waited for; and where it cannot be done, that does not mean that nothing was removed."""
        self._db.execute("PRAGMA busy_timeout=0")
        try:
            is_busy = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            return not is_busy
        except sqlite3.OperationalError:
            return False  # whoever writes next sees what is wrong; the next removal tries again
        finally:
            self._db.execute(f"PRAGMA busy_timeout={round(self._wait_s * 1000)}")

    def sync(self) -> None:
        self.look()
        if not self._is_cut_off:
            sync_path(self._wal)

    def close(self) -> None:
        with _translated():
            self._db.close()


class TableSource:
    """The rows as they are at one moment, for one who reads."""

    torn_bytes = 0

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._said():
            self._db = self._connect("mode=ro")
            try:
                self._hold()
            except sqlite3.OperationalError:
                # SQLite wants to write beside a log that it reads. Where it may not, and nobody else writes,
                # it can be told that nothing will change.
                if path.with_name(f"{path.name}-wal").exists():
                    raise
                self._db = self._connect("immutable=1")
                self._hold()

    def _connect(self, how: str) -> sqlite3.Connection:
        db = _connect(self._path, how)
        db.text_factory = bytes
        return db

    def _hold(self) -> None:
        """From here on nothing changes for us."""
        try:
            self._db.execute("BEGIN")
            self._db.execute(_LAST).fetchone()
        except BaseException:
            self._db.close()
            raise

    def _said(self) -> AbstractContextManager[None]:
        return _translated(
            lambda words: ConfigurationError(f"is no audit log: {words}", file=str(self._path))
        )

    def lines(self, after: int) -> Iterator[bytes]:
        return self._lines(_FORWARD, _behind(after))

    def lines_back(self) -> Iterator[bytes]:
        return self._lines(_BACK)

    def _lines(self, query: str, *values: int) -> Iterator[bytes]:
        with self._said():
            for seq, line in self._db.execute(query, values):
                yield _checked(seq, line)

    def close(self) -> None:
        self._db.close()


def holds_other(path: Path) -> bool:
    """Whether a database is of something else. Leaves nothing beside it; False where it cannot be told."""
    return _is_true(path, _OTHER)


def holds_nothing(path: Path) -> bool:
    """Whether a database has no table. Leaves nothing beside it; False where it cannot be told."""
    return _is_true(path, "SELECT NOT EXISTS (SELECT 1 FROM sqlite_master)")


def _is_true(path: Path, query: str) -> bool:
    how = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "immutable=1"
    try:
        with closing(_connect(path, how)) as db:
            return bool(db.execute(query).fetchone()[0])
    except sqlite3.Error:
        return False


def _connect(path: Path, how: str) -> sqlite3.Connection:
    uri = f"file:{quote(str(path.absolute()))}?{how}"
    return sqlite3.connect(uri, uri=True)


def _behind(after: int) -> int:
    """Where rows behind a number begin. Behind 0 are all, those that nobody should have made included."""
    return after + 1 if after > 0 else _LEAST


def _as_bytes(value: object) -> bytes:
    """What is in a column; nothing that could be a record where it is not text."""
    return value if isinstance(value, bytes) else b""


def _checked(seq: int, line: object) -> bytes:
    """The line of a row; nothing where it stands at another's number."""
    data = _as_bytes(line)
    return data if data.startswith(b'{"seq":%d,' % seq) else b""


def _refuse_unusable(path: Path) -> None:
    """What SQLite has the same few words for as for what may pass."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(path, os.R_OK | os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def _mark_of(path: Path) -> tuple[int, int]:
    facts = os.stat(path)
    return facts.st_dev, facts.st_ino


def _find_mark(path: Path) -> tuple[int, int] | None:
    try:
        return _mark_of(path)
    except FileNotFoundError:
        return None


@contextmanager
def _translated(broken: Callable[[str], Exception] | None = None) -> Iterator[None]:
    """SQLite's errors as ours; for one who reads, all of them as `broken`."""
    try:
        yield
    except sqlite3.Error as error:
        if broken is not None:
            raise broken(str(error)) from error
        if isinstance(error, sqlite3.OperationalError):
            raise StoreError(str(error)) from error
        raise BrokenError(f"SQLite says: {error}") from error
