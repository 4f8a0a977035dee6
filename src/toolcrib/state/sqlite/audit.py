"""Audit records in SQLite: AuditStore in a file of its own.

The file is not that of the state: it has other rights, another retention, and its own setting for waiting for
the disk. Several processes append to it at once, each to a stream of its own.

Nothing here waits for an event loop, so that a thread without one may run it. `append`, `remove_through` and
what is beside the contract share the writing connection, and belong to one thread. Reading has connections of
its own, and is done wherever it is called.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from toolcrib.state.base import Head, Page, Query, Record, StateDamaged, StateUnavailable
from toolcrib.validation import codec

T = TypeVar("T")
logger = logging.getLogger("toolcrib")

_SEQ_BITS = 40
_SEQ = (1 << _SEQ_BITS) - 1
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS stream (number INTEGER PRIMARY KEY, name TEXT UNIQUE)",
    # The key is (number of the stream, seq) in one integer: columns and indexes cost time in every call.
    "CREATE TABLE IF NOT EXISTS record (key INTEGER PRIMARY KEY, at_ms INTEGER, line TEXT)",
    "CREATE INDEX IF NOT EXISTS record_at ON record (at_ms)",
)
_FIELDS = ("id", "principal", "tool", "outcome")
_LAST = (
    "SELECT key, line FROM record WHERE key BETWEEN ?1 << 40 AND (?1 << 40) + 0xFFFFFFFFFF"
    " ORDER BY key DESC LIMIT 1"
)
_FIRST_YOUNG = "SELECT key FROM record WHERE key BETWEEN ? AND ? AND +at_ms >= ? ORDER BY key LIMIT 1"
"""Without the index of times, as it begins with the oldest records."""
_ROWS = (64, 16, 4, 1)
"""Rows per statement: each statement releases the interpreter lock and has to acquire it again."""
_INSERTS = {
    rows: f"INSERT OR IGNORE INTO record VALUES {','.join(['(?,?,?)'] * rows)}"  # noqa: S608
    for rows in _ROWS
}
DELETED = "the log file was deleted"
REPLACED = "the log file was replaced by another file"
FOREIGN = "it holds other tables, and no records"
NO_DATABASE = "it is not a SQLite file"
OLD = "it was written by an older toolcrib, in one chain"

FileId = tuple[int, int] | None


class SQLiteAudit:
    """Records in one file, which is created when it is first written."""

    def __init__(self, path: Path, *, sync: bool = False, wait_s: float = 2.0) -> None:
        self._path = path
        self._sync = sync
        self._wait_s = wait_s
        self._wal = path.with_name(f"{path.name}-wal")
        self._db: sqlite3.Connection | None = None
        self._ids: tuple[FileId, FileId] | None = None
        """The file, and its -wal file, that were opened: they must not change before `close`."""
        self._written: dict[str, Head] = {}
        self._numbers: dict[str, int] = {}

    # --- writing ---

    async def append(self, stream: str, records: Sequence[Record]) -> None:
        def write(db: sqlite3.Connection) -> None:
            number = self._number_of(db, stream)
            self._check_last(db, stream, number, records)
            _insert(db, number << _SEQ_BITS, records)

        self._transact(write)
        self._written[stream] = records[-1].head

    async def remove_through(self, ends: Mapping[str, int]) -> int:
        def remove(db: sqlite3.Connection) -> int:
            removed = 0
            for stream, end in ends.items():
                number = self._number_of(db, stream)
                last, _ = db.execute(_LAST, (number,)).fetchone() or (0, "")
                through = min((number << _SEQ_BITS) + end, last - 1)
                statement = "DELETE FROM record WHERE key BETWEEN ? AND ?"
                removed += db.execute(statement, (number << _SEQ_BITS, through)).rowcount
            return removed

        removed = self._transact(remove)
        if removed and self._db is not None:
            with _translated():
                self._empty_wal(self._db)
        return removed

    def open(self) -> None:
        """Create the file, or raise StateUnavailable or OSError."""
        with _translated():
            self._connect()

    def check(self) -> None:
        """Raise StateDamaged if the file that is open was deleted or replaced.

        SQLite never removes the -wal file while a connection is open, and does not notice if somebody else
        does. Its records are then saved to the main file, unless somebody is reading or writing: all
        processes that have the deleted file open still share it, and the next check tries again.
        """
        if self._db is None or self._ids is None:
            return
        with _translated():
            file, wal = self._find_ids()
            if file != self._ids[0]:
                raise StateDamaged(DELETED if file is None else REPLACED)
            if wal == self._ids[1]:
                return
            if wal is None and self._empty_wal(self._db):
                logger.warning("audit: the -wal file of %s was deleted; its records were saved", self._path)
                self._disconnect()
            elif wal is not None:
                self._disconnect()  # another process has done it, and uses the new one

    def flush(self) -> None:
        """Return when everything appended would survive a power failure."""
        self.check()
        try:
            descriptor = os.open(self._wal, os.O_RDONLY)
        except FileNotFoundError:
            return
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def release(self) -> None:
        """Close the connection, to open the same file again later."""
        try:
            self._disconnect()
        except sqlite3.Error:
            pass  # it was failing already

    def close(self) -> None:
        """Close the file. Afterwards another one may be in its place."""
        self.release()
        self._ids = None
        self._written.clear()

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        self._numbers.clear()
        if db is not None:
            db.close()

    def _connect(self) -> sqlite3.Connection:
        if self._db is not None:
            return self._db
        file, _ = self._find_ids()
        if self._ids is not None and file != self._ids[0]:
            raise StateDamaged(DELETED if file is None else REPLACED)
        # An existing file is not opened here: closing it would release the locks that SQLite holds on it.
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            for orphan in (self._wal, self._path.with_name(f"{self._path.name}-shm")):
                orphan.unlink(missing_ok=True)  # of a deleted log: another process may have it open
        # SQLite would report these like temporary failures.
        if self._path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self._path))
        if not os.access(self._path, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self._path))
        db = sqlite3.connect(self._path, timeout=self._wait_s, isolation_level=None)
        try:
            _find_tables(db)  # before anything in it is changed
            db.text_factory = bytes  # lines are read as they are
            db.execute("PRAGMA journal_mode=WAL")  # ignored by a file system that does not support it
            db.execute(f"PRAGMA synchronous={'FULL' if self._sync else 'NORMAL'}")
            db.execute("PRAGMA secure_delete=ON")  # removed records must not stay on the disk
            for statement in SCHEMA:
                db.execute(statement)
        except BaseException:
            db.close()
            raise
        self._db, self._ids = db, self._find_ids()
        return db

    def _transact(self, act: Callable[[sqlite3.Connection], T]) -> T:
        db = None
        try:
            db = self._begin()
            result = act(db)
            db.execute("COMMIT")
        except BaseException as error:
            self._numbers.clear()  # they may be rolled back, too
            with _translated():
                if db is not None and db.in_transaction:  # some failures end it
                    db.execute("ROLLBACK")
                raise error from None
        return result

    def _begin(self) -> sqlite3.Connection:
        """Begin to write to the file of that name. Meanwhile no process replaces the -wal file."""
        db = self._connect()
        try:
            db.execute("BEGIN IMMEDIATE")
            if self._find_ids() == self._ids:
                return db
            db.execute("ROLLBACK")
        except sqlite3.OperationalError:
            if self._find_ids() == self._ids:
                raise
        self.check()
        db = self._connect()
        db.execute("BEGIN IMMEDIATE")
        return db

    def _find_ids(self) -> tuple[FileId, FileId]:
        return _file_id(self._path), _file_id(self._wal)

    def _number_of(self, db: sqlite3.Connection, stream: str) -> int:
        if (known := self._numbers.get(stream)) is None:
            db.execute("INSERT OR IGNORE INTO stream (name) VALUES (?)", (stream,))
            known = db.execute("SELECT number FROM stream WHERE name = ?", (stream,)).fetchone()[0]
            self._numbers[stream] = known
        return known

    def _check_last(
        self, db: sqlite3.Connection, stream: str, number: int, records: Sequence[Record]
    ) -> None:
        """Raise StateDamaged unless the last record of the stream is the one we wrote last, or one of these,
        which we then write again."""
        row = db.execute(_LAST, (number,)).fetchone()
        found = None if row is None else _head(*row)
        ours = self._written.get(stream)
        if found != ours and found not in [record.head for record in records]:
            seq = 1 if ours is None else ours.seq
            raise StateDamaged(f"record {seq} of stream {stream} was changed or removed")

    def _empty_wal(self, db: sqlite3.Connection) -> bool:
        """Move everything to the main file, because the -wal file still holds removed records. Does not wait
        for readers. Failing to do it does not mean that nothing was removed."""
        db.execute("PRAGMA busy_timeout=0")
        try:
            is_busy = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            return not is_busy
        except sqlite3.OperationalError:
            return False  # the next write reports the problem; the next removal tries again
        finally:
            db.execute(f"PRAGMA busy_timeout={round(self._wait_s * 1000)}")

    # --- reading ---

    async def heads(self, before_ms: int | None = None) -> Mapping[str, Head]:
        heads = {}
        with self._reading() as db:
            for number, name in db.execute("SELECT number, name FROM stream").fetchall():
                last = db.execute(_LAST, (number,)).fetchone()
                if before_ms is not None and last is not None:
                    young = db.execute(_FIRST_YOUNG, (number << _SEQ_BITS, last[0], before_ms)).fetchone()
                    if young is not None:
                        before = "SELECT key, line FROM record WHERE key = ? - 1"
                        last = db.execute(before, young).fetchone()
                if last is not None:
                    heads[str(name)] = _head(*last)
        return heads

    async def lines(self, stream: str, after: int) -> AsyncGenerator[Record, None]:
        with self._reading() as db:
            row = db.execute("SELECT number FROM stream WHERE name = ?", (stream,)).fetchone()
            if row is not None:
                first = row[0] << _SEQ_BITS
                # After 0 comes every row, with an invalid number 0 included.
                bounds = (first + after + 1 if after else first, first + _SEQ)
                statement = "SELECT key, at_ms, line FROM record WHERE key BETWEEN ? AND ? ORDER BY key"
                for found in db.execute(statement, bounds):
                    yield _to_record(found)

    async def find(self, query: Query, *, before: str | None = None, limit: int = 100) -> Page:
        at_ms, key = (query.until_ms, 0) if before is None else map(int, before.split("."))
        statement = (
            "SELECT key, at_ms, line FROM record WHERE at_ms >= ? AND at_ms < ? AND (at_ms, key) < (?, ?)"
            " ORDER BY at_ms DESC, key DESC"
        )
        found: list[Record] = []
        with self._reading() as db:
            for row in db.execute(statement, (query.since_ms, query.until_ms, at_ms, key)):
                record = _to_record(row)
                if not _matches(record, query):
                    continue
                if len(found) == limit:
                    return Page(found, f"{at_ms}.{key}")
                found.append(record)
                at_ms, key = record.at_ms, row[0]
        return Page(found, None)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """Connect, and begin a transaction in which nothing changes for this reader."""
        with _translated():
            try:
                db = self._begin_reading("mode=ro") if self._path.exists() else _open_blank()
            except sqlite3.OperationalError:
                # SQLite wants to write beside a file that it reads. If that is not permitted and nobody else
                # writes, it can be told that nothing will change.
                if self._wal.exists():
                    raise
                db = self._begin_reading("immutable=1")
            try:
                yield db
            finally:
                db.close()

    def _begin_reading(self, mode: str) -> sqlite3.Connection:
        url = f"file:{quote(str(self._path.absolute()))}?{mode}"
        db = sqlite3.connect(url, uri=True, isolation_level=None, timeout=self._wait_s)
        try:
            db.execute("BEGIN")
            if _find_tables(db) >= {"stream", "record"}:
                return db
        except BaseException:
            db.close()
            raise
        db.close()  # an empty file, or somebody has removed a table: its records are gone
        return _open_blank()


def find_problem(path: Path) -> str:
    """Return why a file is not a log, empty if it may be one. Leaves no files beside it."""
    wal = path.with_name(f"{path.name}-wal")
    mode = "mode=ro" if wal.exists() else "immutable=1"
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?{mode}", uri=True)) as db:
            _find_tables(db)
    except StateDamaged as error:
        return str(error)
    except sqlite3.OperationalError:
        pass  # it cannot be read now
    except sqlite3.DatabaseError:
        with open(path, "rb") as file:
            return "" if file.read(15) == b"SQLite format 3" else NO_DATABASE
    return ""


def _open_blank() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:")
    for statement in SCHEMA:
        db.execute(statement)
    return db


def _insert(db: sqlite3.Connection, base: int, records: Sequence[Record]) -> None:
    values: list[object] = []
    for record in records:
        values += (base + record[0], record[1], record[6].decode())
    start, count = 0, len(values)
    for size in _ROWS:
        while count - start >= 3 * size:
            db.execute(_INSERTS[size], values[start : start + 3 * size])
            start += 3 * size


def _head(key: int, line: object) -> Head:
    return Head(key & _SEQ, _as_bytes(line)[-66:-2])


def _to_record(row: Sequence[Any]) -> Record:
    """Return the record of a row, in which somebody may have written anything."""
    key, at_ms, line = row[0], row[1] if isinstance(row[1], int) else 0, _as_bytes(row[2])
    try:
        facts = codec.decode(line)
        texts = [text if isinstance(text := facts.get(name), str) else "" for name in _FIELDS]
    except (ValueError, AttributeError):
        texts = [""] * len(_FIELDS)
    return Record._make((key & _SEQ, at_ms, *texts, line))


def _matches(record: Record, query: Query) -> bool:
    return (
        query.principal in ("", record.principal)
        and query.tool in ("", record.tool)
        and query.id in ("", record.id)
        and (not query.outcome or record.outcome in query.outcome)
    )


def _as_bytes(value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return value if isinstance(value, bytes) else b""


def _as_text(data: bytes) -> str:
    """Somebody may have written anything."""
    return data.decode("utf-8", "replace")


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StateUnavailable(str(error)) from error
    except sqlite3.Error as error:
        raise StateDamaged(f"SQLite: {error}") from error


def _find_tables(db: sqlite3.Connection) -> set[str]:
    """Return the names of the tables. Raise StateDamaged for a database that was not created here."""
    db.text_factory = _as_text
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and "stream" not in tables:
        columns = [row[1] for row in db.execute("PRAGMA table_info(record)")]
        raise StateDamaged(OLD if columns == ["seq", "line"] else FOREIGN)
    return tables


def _file_id(path: Path) -> FileId:
    try:
        facts = os.stat(path)
    except FileNotFoundError:
        return None
    return facts.st_dev, facts.st_ino
