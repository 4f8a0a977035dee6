"""Storage of audit records in SQLite, and its errors.

The SQLite file has one table, `record(seq, line)`, whose rows are inserted and removed but never changed.
Several processes may write it at once: each transaction reads the last record, appends behind it and commits.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from urllib.parse import quote

from toolcrib.config.atomic_file import PRIVATE
from toolcrib.config.settings import Audit
from toolcrib.errors import ConfigurationError
from toolcrib.policy.audit.record import NO_RECORD, Head, read_head

LinesAfter = Callable[[Head], list[bytes]]
"""Returns the lines to append, given the record that they follow."""

# --- errors ---


class StoreError(Exception):
    """The store cannot be used now; it may work again later."""


class DamagedError(StoreError):
    """The log is not as it was written. `seq` is the first record concerned."""

    def __init__(self, message: str, seq: int = 0) -> None:
        super().__init__(message)
        self.seq = seq


class RemovedError(DamagedError):
    """The log file was deleted or replaced while in use. `head` is the last record it held."""

    def __init__(self, message: str, head: Head) -> None:
        super().__init__(message, head.seq)
        self.head = head


STORE_ERRORS = (OSError, StoreError)
DELETED = "the log file was deleted"
REPLACED = "the log file was replaced by another file"
DELETED_WAL = "the -wal file of the log was deleted"
REPLACED_WAL = "the -wal file of the log was replaced by another file"
_TEMPORARY = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EINTR, errno.EAGAIN, errno.ESTALE}


def is_temporary(error: BaseException) -> bool:
    """Whether a failure may pass without anybody changing a setting or the log."""
    if isinstance(error, OSError):
        return error.errno in _TEMPORARY
    return isinstance(error, StoreError) and not isinstance(error, DamagedError)


def is_export(path: Path) -> bool:
    return path.suffix == ".jsonl"


# --- SQLite ---

SCHEMA = "CREATE TABLE IF NOT EXISTS record (seq INTEGER PRIMARY KEY, line TEXT NOT NULL)"
_LAST = "SELECT line FROM record ORDER BY seq DESC LIMIT 1"
_FORWARD = "SELECT seq, line FROM record WHERE seq >= ? ORDER BY seq"
_BACK = "SELECT seq, line FROM record ORDER BY seq DESC"
_IS_FOREIGN = (
    "SELECT EXISTS (SELECT 1 FROM sqlite_master) AND"
    " (SELECT count(*) FROM pragma_table_info('record') WHERE name IN ('seq', 'line')) < 2"
)
_MIN_SEQ = -(2**63)
_ROWS = (64, 16, 4, 1)
"""Rows per statement: each statement releases the interpreter lock and has to acquire it again."""
_INSERTS = {rows: f"INSERT INTO record VALUES {','.join(['(?,?)'] * rows)}" for rows in _ROWS}  # noqa: S608


class SQLiteStore:
    """Record lines in order, used by one thread and shared between processes. Methods raise STORE_ERRORS."""

    def __init__(self, path: Path, *, sync: bool, wait_s: float) -> None:
        self._path = path
        self._wait_s = wait_s
        self._wal = path.with_name(f"{path.name}-wal")
        # An existing file is not opened here: closing it would release the locks that SQLite holds on it.
        if not path.exists() and create_empty(path):
            for orphan in (self._wal, path.with_name(f"{path.name}-shm")):
                orphan.unlink(missing_ok=True)  # of a deleted log: another process may have it open
        _refuse_unusable(path)
        self._file_id = _file_id(path)
        with _translated():
            self._db = sqlite3.connect(path, timeout=wait_s, isolation_level=None)
            try:
                self._prepare(sync)
                self._wal_id = _file_id(self._wal)
            except BaseException:
                self._db.close()
                raise

    def _prepare(self, sync: bool) -> None:
        self._db.text_factory = bytes
        if self._db.execute(_IS_FOREIGN).fetchone()[0]:  # before anything in it is changed
            raise DamagedError("it holds other tables, and no records")
        self._db.execute("PRAGMA journal_mode=WAL")  # ignored by a file system that does not support it
        self._db.execute(f"PRAGMA synchronous={'FULL' if sync else 'NORMAL'}")
        self._db.execute("PRAGMA secure_delete=ON")  # removed records must not stay on the disk
        self._db.execute(SCHEMA)

    def append(self, lines_after: LinesAfter, head: Head | None = None) -> None:
        """Append all lines or none, in one transaction. They follow `head`, by default the last record."""
        with _translated():
            self.check_file()
            self._db.execute("BEGIN IMMEDIATE")
            try:
                if _file_id(self._wal) not in (None, self._wal_id):
                    # Another process has just replaced a deleted one; lines in the old one would be lost.
                    raise RemovedError(REPLACED_WAL, self.head())
                if head is None:
                    head = self.head()
                self._insert(head.seq, lines_after(head))
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # some failures end it
                    self._db.execute("ROLLBACK")
                raise

    def check_file(self) -> None:
        """Raise RemovedError if the log was deleted or replaced.

        SQLite never removes the -wal file while a connection is open, and does not notice if somebody else
        does. Its records are then saved to the main file, unless somebody is reading or writing: all
        processes that have the deleted file open still share it, and the next call tries again.
        """
        found, wal = _file_id(self._path), _file_id(self._wal)
        if found != self._file_id:
            message = DELETED if found is None else REPLACED
        elif wal == self._wal_id or (wal is None and not self._empty_wal()):
            return
        else:
            message = DELETED_WAL if wal is None else REPLACED_WAL
        try:
            head = self.head()  # an open file can be read although its name is gone
        except StoreError:
            head = NO_RECORD
        raise RemovedError(message, head) from None

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
        head = NO_RECORD if row is None else read_head(_as_bytes(row[0]))
        if head is None:
            raise DamagedError("the last row is not a record")
        return head

    def first_seq(self) -> int:
        """Return the number of the oldest record; 0 if there is none."""
        with _translated():
            return self._db.execute("SELECT min(seq) FROM record").fetchone()[0] or 0

    def last_seq(self) -> int:
        """Return the highest number in use, whether or not its line is a valid record."""
        with _translated():
            return self._db.execute("SELECT max(seq) FROM record").fetchone()[0] or 0

    def line(self, seq: int) -> bytes | None:
        with _translated():
            row = self._db.execute("SELECT line FROM record WHERE seq = ?", (seq,)).fetchone()
        return None if row is None else _as_bytes(row[0])

    def lines(self, after: int) -> Generator[bytes]:
        """Yield everything stored after a number, valid or not."""
        with _translated():
            for seq, line in self._db.execute(_FORWARD, (_first_after(after),)):
                yield _checked(seq, line)

    def remove_through(self, seq: int) -> None:
        """Remove the oldest records up to this one, but never the last record."""
        with _translated():
            self._db.execute(
                "DELETE FROM record WHERE seq <= ? AND seq < (SELECT max(seq) FROM record)", (seq,)
            )
            self._empty_wal()

    def _empty_wal(self) -> bool:
        """Move everything to the main file, because the -wal file still holds removed records. Does not wait
        for readers. Failing to do it does not mean that nothing was removed."""
        self._db.execute("PRAGMA busy_timeout=0")
        try:
            is_busy = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            return not is_busy
        except sqlite3.OperationalError:
            return False  # the next write reports the problem; the next removal tries again
        finally:
            self._db.execute(f"PRAGMA busy_timeout={round(self._wait_s * 1000)}")

    def sync(self) -> None:
        """Return when everything appended would survive a power failure."""
        self.check_file()
        sync_file(self._wal)

    def close(self) -> None:
        with _translated():
            self._db.close()


class SQLiteSnapshot:
    """The lines of a log at one moment, for a reader."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._reading():
            try:
                self._db = self._begin("mode=ro")
            except sqlite3.OperationalError:
                # SQLite wants to write beside a log that it reads. If that is not permitted and nobody else
                # writes, it can be told that nothing will change.
                if path.with_name(f"{path.name}-wal").exists():
                    raise
                self._db = self._begin("immutable=1")

    def _begin(self, mode: str) -> sqlite3.Connection:
        """Connect, and begin the transaction in which nothing changes for this reader."""
        db = _connect(self._path, mode)
        try:
            db.text_factory = bytes
            db.execute("BEGIN")
            db.execute(_LAST).fetchone()
        except BaseException:
            db.close()
            raise
        return db

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise ConfigurationError(f"not an audit log: {error}", file=str(self._path)) from error

    def lines(self, after: int) -> Iterator[bytes]:
        return self._lines(_FORWARD, _first_after(after))

    def lines_back(self) -> Iterator[bytes]:
        return self._lines(_BACK)

    def _lines(self, query: str, *values: int) -> Iterator[bytes]:
        with self._reading():
            for seq, line in self._db.execute(query, values):
                yield _checked(seq, line)

    def close(self) -> None:
        self._db.close()


class ExportedLines:
    """A JSON Lines export of a log, with the interface of a snapshot."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "rb")  # noqa: SIM115 - closed by `close`

    def lines(self, after: int) -> Iterator[bytes]:
        self._file.seek(0)
        for line in self._file:
            head = read_head(line.rstrip(b"\n"))
            if head is None or head.seq > after:
                yield line.rstrip(b"\n")

    def lines_back(self) -> Iterator[bytes]:
        return reversed(list(self.lines(0)))

    def close(self) -> None:
        self._file.close()


LogSnapshot = SQLiteSnapshot | ExportedLines


def open_snapshot(path: Path) -> LogSnapshot:
    """Open a log or a JSON Lines export for reading. Raises ConfigurationError and OSError."""
    return ExportedLines(path) if is_export(path) else SQLiteSnapshot(path)


def is_blank(path: Path) -> bool:
    """Whether a file is empty or a database without tables: all records of the log are missing."""
    return not path.stat().st_size or _query_flag(path, "SELECT NOT EXISTS (SELECT 1 FROM sqlite_master)")


def _query_flag(path: Path, query: str) -> bool:
    """Evaluate a query without leaving files beside the database; False if that fails."""
    mode = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "immutable=1"
    try:
        with closing(_connect(path, mode)) as db:
            return bool(db.execute(query).fetchone()[0])
    except sqlite3.Error:
        return False


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(path.absolute()))}?{mode}", uri=True)


def _first_after(after: int) -> int:
    """Return where rows after a number begin. After 0 comes every row, with invalid numbers included."""
    return after + 1 if after > 0 else _MIN_SEQ


def _as_bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else b""


def _checked(seq: int, line: object) -> bytes:
    """Return the line of a row; empty if it claims another number."""
    data = _as_bytes(line)
    return data if data.startswith(b'{"seq":%d,' % seq) else b""


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise StoreError(str(error)) from error
    except sqlite3.Error as error:
        raise DamagedError(f"SQLite: {error}") from error


# --- files ---


def create_empty(path: Path) -> bool:
    """Create an empty private file. Returns False if the name is taken."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE))
    except FileExistsError:
        return False
    return True


def sync_file(path: Path) -> None:
    """Flush a file that another part of the process writes; a missing one needs nothing."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _file_id(path: Path) -> tuple[int, int] | None:
    try:
        facts = os.stat(path)
    except FileNotFoundError:
        return None
    return facts.st_dev, facts.st_ino


def _refuse_unusable(path: Path) -> None:
    """Raise OSError for files that SQLite would report like a temporary failure."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(path, os.R_OK | os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


# --- problems that an operator has to solve ---


def refuse_export(path: Path) -> None:
    """Raise ConfigurationError for a configured log that is named like a JSON Lines export."""
    if is_export(path):
        raise ConfigurationError(
            "the audit log is a SQLite file, not JSON Lines",
            file=str(path),
            key="audit.file",
            hint=f'use "{path.with_suffix(".db")}"; for JSON Lines, run `toolcrib audit query '
            "--limit 0 --json`, with --follow for new records",
        )


def find_foreign_file(path: Path) -> ConfigurationError | None:
    """Return the error for a file that exists and is not an audit log. Must not be called for a log in use:
    opening and closing it here would release the locks that SQLite holds on it."""
    if path.is_file():
        with open(path, "rb") as file:
            start = file.read(15)
        if not start or (start == b"SQLite format 3" and not _query_flag(path, _IS_FOREIGN)):
            return None
        problem = "a database of another program" if start == b"SQLite format 3" else "not a SQLite file"
    elif path.is_dir() or not path.exists():
        return None
    else:
        problem = "a device"
    hint = "name a file that does not exist yet: it is created"
    return ConfigurationError(f"not an audit log: {problem}", file=str(path), key="audit.file", hint=hint)


def unusable_file(error: OSError, options: Audit) -> ConfigurationError:
    """Return the error for a log, key or checkpoint file that cannot be written, naming its setting."""
    settings = {
        str(options.key_file): ("audit.key_file", "key"),
        str(options.checkpoints): ("audit.checkpoints", "checkpoints"),
    }
    named = None if error.filename is None else str(error.filename)
    key, what = settings.get(named or "", ("audit.file", "log"))
    file = str(options.file) if what == "log" else str(named)
    reason = error.strerror or str(error)
    if isinstance(error, FileExistsError):  # a folder was to be created, and a file has its name
        reason = os.strerror(errno.ENOTDIR)
    if named not in (None, file):
        reason = f"{reason}: {named}"
    hint = "the user that runs the server must be able to write there"
    if isinstance(error, IsADirectoryError):
        hint = f'name a file in it: "{file}/audit.{"db" if what == "log" else what}"'
    return ConfigurationError(f"cannot write the audit {what}: {reason}", file=file, key=key, hint=hint)
