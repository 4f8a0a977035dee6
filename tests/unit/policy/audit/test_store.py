"""The SQLite store, snapshots for readers, and errors about files."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.records.audit_logs import Hold, calls, entries, make_log, make_writer, read_lines, verify
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Audit
from toolcrib.policy.audit import AuditLog
from toolcrib.policy.audit.record import NO_RECORD, Head, chain_entries
from toolcrib.policy.audit.store import (
    DamagedError,
    RemovedError,
    SQLiteStore,
    StoreError,
    create_empty,
    find_foreign_file,
    is_blank,
    is_temporary,
    open_snapshot,
    sync_file,
    unusable_file,
)
from toolcrib.policy.audit.writer import RecordWriter

ANOTHER = "name a file that does not exist yet: it is created"
WRITABLE = "the user that runs the server must be able to write there"


@pytest.mark.parametrize(
    ("error", "may_pass"),
    [
        (OSError(errno.ENOSPC, "full"), True),
        (OSError(errno.EDQUOT, "full for you"), True),
        (OSError(errno.EIO, "the disk"), True),
        (OSError(errno.EFBIG, "large"), True),
        (OSError(errno.EINTR, "interrupted"), True),
        (OSError(errno.EAGAIN, "busy"), True),
        (OSError(errno.ESTALE, "moved"), True),
        (OSError(errno.EACCES, "not for you"), False),
        (OSError(errno.ENOENT, "nothing there"), False),
        (OSError(errno.EROFS, "only to read"), False),
        (OSError("no number"), False),
        (StoreError("locked"), True),
        (DamagedError("changed"), False),
        (ValueError("ours"), False),
    ],
)
def test_only_some_errors_are_temporary(error: Exception, may_pass: bool) -> None:
    assert is_temporary(error) is may_pass


def test_damage_at_an_unknown_place_has_no_number() -> None:
    assert DamagedError("changed").seq == 0


# --- what is no log ---


def write_database(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)


def test_a_log_is_not_a_foreign_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    assert find_foreign_file(path) is None  # not there yet
    path.touch()
    assert find_foreign_file(path) is None
    path.unlink()
    make_log(path, 1)
    assert find_foreign_file(path) is None
    folder = tmp_path / "folder" / "audit.db"
    folder.mkdir(parents=True)
    assert find_foreign_file(folder) is None  # has words of its own, for those who write


def test_an_empty_database_can_become_a_log(tmp_path: Path) -> None:
    write_database(tmp_path / "audit.db", "PRAGMA user_version = 3")
    assert (tmp_path / "audit.db").stat().st_size > 0
    assert find_foreign_file(tmp_path / "audit.db") is None


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("audit.db", b"Dear diary", "not a SQLite file"),
        ("audit.db", b'{"seq":1,', "not a SQLite file"),
    ],
)
def test_a_foreign_file_is_reported(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    found = find_foreign_file(path)
    assert found is not None
    assert found.message == f"not an audit log: {problem}"
    assert (found.file, found.key, found.hint) == (str(path), "audit.file", ANOTHER)
    assert path.read_bytes() == content


@pytest.mark.parametrize("table", ["book (title)", "record (seq, title)", "record (line)"])
def test_a_foreign_database_is_reported(tmp_path: Path, table: str) -> None:
    path = tmp_path / "audit.db"
    write_database(path, f"CREATE TABLE {table}")
    found = find_foreign_file(path)
    assert found is not None
    assert found.message == "not an audit log: a database of another program"
    assert [each.name for each in tmp_path.iterdir()] == ["audit.db"]


def test_a_device_is_not_a_log(tmp_path: Path) -> None:
    (tmp_path / "audit.db").symlink_to(os.devnull)
    found = find_foreign_file(tmp_path / "audit.db")
    assert found is not None
    assert found.message == "not an audit log: a device"


@pytest.mark.parametrize("statement", [None, "PRAGMA user_version=1", "CREATE TABLE other (x)"])
def test_a_database_without_tables_is_blank(tmp_path: Path, statement: str | None) -> None:
    path = tmp_path / "audit.db"
    path.touch()
    if statement is not None:
        write_database(path, statement)
    assert is_blank(path) == (statement is None or "TABLE" not in statement)
    path.write_bytes(b"something else")
    assert not is_blank(path)


def test_json_lines_are_no_longer_a_live_store(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        AuditLog(Audit(tmp_path / "audit.jsonl"), server="shop")
    assert caught.value.key == "audit.file"
    assert "audit.db" in str(caught.value.hint)
    assert "toolcrib audit query" in str(caught.value.hint)


# --- files ---


def test_an_empty_file_is_created_once_with_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "var" / "log" / "audit"
    assert [create_empty(path), create_empty(path)] == [True, False]
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"", 0o600)


def test_a_file_is_synced_and_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    sync_file(path)  # a missing file needs nothing
    path.write_bytes(b"key")
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    sync_file(path)
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(synced[0])


# --- an export ---


def test_an_export_has_the_lines_of_the_log(tmp_path: Path) -> None:
    lines = chain_entries(NO_RECORD, entries(4))[1]
    path = tmp_path / "out.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines) + b'{"seq":9,"at"')
    with closing(open_snapshot(path)) as snapshot:
        assert list(snapshot.lines(0)) == [*lines, b'{"seq":9,"at"']
        assert list(snapshot.lines(2)) == [*lines[2:], b'{"seq":9,"at"']
        assert list(snapshot.lines_back())[1:] == lines[::-1]
    assert [problem.kind for problem in verify(path).problems] == ["unreadable"]


# --- what somebody has to put right ---

OPTIONS = Audit("logs/audit.db", key_file="safe/key", checkpoints="safe/seals")


@pytest.mark.parametrize(
    ("error", "file", "key", "words", "hint"),
    [
        (
            PermissionError(errno.EACCES, "Permission denied", "logs/audit.db"),
            "logs/audit.db",
            "audit.file",
            "cannot write the audit log: Permission denied",
            WRITABLE,
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "logs"),
            "logs/audit.db",
            "audit.file",
            "cannot write the audit log: Permission denied: logs",
            WRITABLE,
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "safe/key"),
            "safe/key",
            "audit.key_file",
            "cannot write the audit key: Permission denied",
            WRITABLE,
        ),
        (
            IsADirectoryError(errno.EISDIR, "Is a directory", "safe/seals"),
            "safe/seals",
            "audit.checkpoints",
            "cannot write the audit checkpoints: Is a directory",
            'name a file in it: "safe/seals/audit.checkpoints"',
        ),
        (
            IsADirectoryError(errno.EISDIR, "Is a directory", "safe/key"),
            "safe/key",
            "audit.key_file",
            "cannot write the audit key: Is a directory",
            'name a file in it: "safe/key/audit.key"',
        ),
        (
            IsADirectoryError(errno.EISDIR, "Is a directory", "logs/audit.db"),
            "logs/audit.db",
            "audit.file",
            "cannot write the audit log: Is a directory",
            'name a file in it: "logs/audit.db/audit.db"',
        ),
        (
            FileExistsError(errno.EEXIST, "File exists", "logs"),
            "logs/audit.db",
            "audit.file",
            "cannot write the audit log: Not a directory: logs",
            WRITABLE,
        ),
        (
            OSError("a driver's own words"),
            "logs/audit.db",
            "audit.file",
            "cannot write the audit log: a driver's own words",
            WRITABLE,
        ),
    ],
)
def test_an_unwritable_file_is_reported_with_its_setting(
    error: OSError, file: str, key: str, words: str, hint: str
) -> None:
    found = unusable_file(error, OPTIONS)
    assert (found.file, found.key, found.message, found.hint) == (file, key, words, hint)


def test_an_error_without_a_file_name_is_about_the_log(tmp_path: Path) -> None:
    found = unusable_file(OSError(errno.EINVAL, "Invalid argument"), Audit(tmp_path / "audit.db"))
    assert (found.file, found.key) == (str(tmp_path / "audit.db"), "audit.file")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.db"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[sqlite3.Connection]:
    """Every connection, in the order they are made."""
    found: list[sqlite3.Connection] = []
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect

    def watched(*values: Any, **options: Any) -> sqlite3.Connection:
        found.append(connect(*values, **options))
        return found[-1]

    monkeypatch.setattr(sqlite3, "connect", watched)
    return found


def is_closed(db: sqlite3.Connection) -> bool:
    try:
        db.execute("SELECT 1")
    except sqlite3.ProgrammingError:
        return True
    return False


def open_table(path: Path, *, sync: bool = False, wait_s: float = 0.05) -> closing[SQLiteStore]:
    return closing(SQLiteStore(path, sync=sync, wait_s=wait_s))


def add(store: SQLiteStore, count: int, start: int = 1) -> None:
    store.append(lambda head: chain_entries(head, entries(count, start))[1])


# --- how safely it is kept ---


@pytest.mark.parametrize(("sync", "level"), [(True, 2), (False, 1)])
def test_sync_makes_every_commit_wait_for_the_disk(
    path: Path, made: list[sqlite3.Connection], sync: bool, level: int
) -> None:
    with open_table(path, sync=sync):
        assert made[0].execute("PRAGMA synchronous").fetchone() == (level,)
        assert made[0].execute("PRAGMA journal_mode").fetchone() == (
            b"wal",
        )  # who reads keeps nobody waiting


def test_removed_records_are_overwritten(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Careless(sqlite3.Connection):
        """Some builds of SQLite take care by themselves, others have to be told."""

        def __init__(self, *values: Any, **options: Any) -> None:
            super().__init__(*values, **options)
            self.execute("PRAGMA secure_delete=OFF")

    monkeypatch.setattr(sqlite3, "connect", Careless)
    with open_table(path) as store:
        add(store, 3)
        store.remove_through(2)
    assert b'"c3"' in path.read_bytes()
    assert b'"c2"' not in path.read_bytes()


def test_a_log_is_for_its_owner_only(path: Path) -> None:
    with open_table(path) as store:
        add(store, 1)
        assert {stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()} == {0o600}


def test_sync_flushes_the_wal_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    with open_table(path) as store:
        add(store, 1)
        wal = path.with_name("audit.db-wal").stat().st_ino
        store.sync()
    assert synced == [wal]


# --- what is in it ---


@pytest.mark.parametrize("count", [0, 1, 3, 4, 15, 16, 17, 63, 64, 65, 64 + 16 + 4 + 1, 150])
def test_all_of_any_number_of_records_is_kept(path: Path, count: int) -> None:
    head, lines = chain_entries(Head(0, b"0" * 64), entries(count))
    with open_table(path) as store:
        assert (store.first_seq(), store.last_seq(), store.head().seq) == (0, 0, 0)
        store.append(lambda _: lines)
        assert list(store.lines(0)) == lines == read_lines(path)
        assert list(store.lines(1)) == lines[1:]
        assert list(store.lines(2)) == lines[2:]
        assert (store.first_seq(), store.last_seq()) == (min(count, 1), count)
        assert store.head() == head


def test_the_last_record_is_never_removed(path: Path) -> None:
    with open_table(path) as store:
        add(store, 5)
        store.remove_through(2)
        assert store.first_seq() == 3
        store.remove_through(5)
        assert (store.first_seq(), store.last_seq()) == (5, 5)


def test_a_failed_write_leaves_nothing_and_no_lock(path: Path) -> None:
    def fail(_: Head) -> list[bytes]:
        raise ZeroDivisionError

    with open_table(path) as store, open_table(path) as other:
        add(store, 2)
        with pytest.raises(ZeroDivisionError):
            store.append(fail)
        with pytest.raises(DamagedError, match=r"^SQLite: UNIQUE constraint failed"):
            store.append(lambda head: chain_entries(head, entries(70))[1], Head(1, b"0" * 64))
        add(other, 1, 3)
        add(store, 1, 4)
        assert store.last_seq() == 4
        assert len(list(store.lines(0))) == 4


def test_a_locked_store_is_waited_for_and_then_fails(path: Path) -> None:
    with open_table(path) as store:
        hold = Hold(path)
        with pytest.raises(StoreError, match=r"^database is locked$") as caught:
            add(store, 1)
        assert not isinstance(caught.value, DamagedError)
        hold.release()
        add(store, 1)


# --- what cannot be used ---


@pytest.mark.parametrize(
    "content", [b"no database at all " * 100, b"SQLite format 3\0" + b"\1" * 100], ids=["text", "half"]
)
def test_a_refused_file_is_closed(path: Path, made: list[sqlite3.Connection], content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(DamagedError, match=r"^SQLite: file is not a database$"):
        SQLiteStore(path, sync=False, wait_s=0.05)
    with pytest.raises(ConfigurationError, match="not an audit log: file is not a database") as caught:
        open_snapshot(path)
    assert caught.value.file == str(path)
    assert [is_closed(db) for db in made] == [True] * len(made)
    assert path.read_bytes() == content


def test_other_tables_stay_as_they_are(path: Path, made: list[sqlite3.Connection]) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE book (title)")
    before = path.read_bytes()
    with pytest.raises(DamagedError, match=r"^it holds other tables, and no records$"):
        SQLiteStore(path, sync=False, wait_s=0.05)
    assert [is_closed(db) for db in made] == [True] * len(made)
    assert path.read_bytes() == before
    assert find_foreign_file(path) is not None


def test_a_folder_and_an_unwritable_file_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        SQLiteStore(path, sync=False, wait_s=0.05)
    assert (caught.value.strerror, caught.value.filename) == ("Is a directory", str(path))
    path.rmdir()
    path.touch()
    for missing in (os.R_OK, os.W_OK):
        monkeypatch.setattr(os, "access", lambda _, mode, missing=missing: not mode & missing)
        with pytest.raises(PermissionError) as refused:
            SQLiteStore(path, sync=False, wait_s=0.05)
        assert (refused.value.strerror, refused.value.filename) == ("Permission denied", str(path))


# --- reading ---


def test_a_foreign_database_is_refused_when_opened(path: Path, made: list[sqlite3.Connection]) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE book (title)")
    with pytest.raises(ConfigurationError, match="not an audit log: no such table: record"):
        open_snapshot(path)
    assert [is_closed(db) for db in made] == [True] * len(made)


def test_a_reader_closes_its_connection(path: Path, made: list[sqlite3.Connection]) -> None:
    make_log(path, 1)
    with closing(open_snapshot(path)) as source:
        assert [is_closed(db) for db in made] == [True, False]
        assert len(list(source.lines(0))) == 3
    assert is_closed(made[1])


def test_a_reader_sees_one_moment(path: Path) -> None:
    writer = make_writer(path)
    writer.write(entries(3))
    with closing(open_snapshot(path)) as source:
        writer.write(entries(3, start=4))
        assert len(list(source.lines(0))) == 4
        assert list(source.lines(2)) == list(source.lines(0))[2:]
        assert list(source.lines_back()) == list(source.lines(0))[::-1]
    writer.close()


@pytest.fixture
def ways(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A log in a folder where SQLite may not write: unless it is told that nothing changes, it fails."""
    make_log(path, 3)
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect
    tried: list[str] = []

    class Refusing(sqlite3.Connection):
        def execute(self, *_: Any) -> sqlite3.Cursor:
            raise sqlite3.OperationalError("attempt to write a readonly database")

    def watched(name: str, *, uri: bool = False) -> sqlite3.Connection:
        assert uri  # not every SQLite takes such names unasked
        tried.append(name.partition("?")[2])
        return connect(name, uri=uri, factory=Refusing if "mode=ro" in name else sqlite3.Connection)

    monkeypatch.setattr(sqlite3, "connect", watched)
    return tried


def test_a_log_in_a_folder_that_is_only_read_can_be_read(path: Path, ways: list[str]) -> None:
    assert verify(path).records == 5
    assert ways == ["mode=ro", "immutable=1"]
    assert find_foreign_file(path) is None
    assert ways[2:] == ["immutable=1"]


def test_a_log_in_a_read_only_folder_is_not_read_while_it_is_written(path: Path, ways: list[str]) -> None:
    path.with_name("audit.db-wal").touch()
    with pytest.raises(ConfigurationError, match="not an audit log: attempt to write a readonly database"):
        open_snapshot(path)
    assert find_foreign_file(path) is None
    assert ways == ["mode=ro"] * 2


@pytest.mark.parametrize("name", ["a b.db", "a?mode=memory.db", "100%25.db", "ä#1.db"])
def test_a_log_may_have_any_name(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_log(tmp_path / name, 3)
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path / name, Path(name)):
        assert verify(path).records == 5
        assert find_foreign_file(path) is None


def test_a_database_in_use_is_recognized(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE book (title)")  # beside the file still
        assert find_foreign_file(path) is not None


def test_records_are_removed_although_the_wal_file_is_busy(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stubborn(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if "wal_checkpoint" in sql:
                raise sqlite3.OperationalError("disk I/O error")
            return super().execute(sql, *values)

    make_log(path, 5)
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **given: connect(*args, factory=Stubborn, **given))
    with closing(SQLiteStore(path, sync=False, wait_s=1.5)) as store:
        store.remove_through(2)
        assert store.first_seq() == 3
        assert store._db.execute("PRAGMA busy_timeout").fetchone() == (1500,)  # waits as before


DELETED = "the -wal file of the log was deleted"


def wal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def begin(path: Path) -> RecordWriter:
    writer = make_writer(path)
    writer.start()
    writer.write(entries(2))
    return writer


def end(writer: RecordWriter, path: Path, count: int) -> None:
    writer.close()
    assert len(calls(path)) == count
    assert verify(path).is_sound


def test_records_of_a_deleted_file_are_saved_and_the_log_goes_on(path: Path) -> None:
    writer = begin(path)
    wal_of(path).unlink()
    with pytest.raises(RemovedError, match=DELETED):
        writer.write(entries(1))
    writer.write(entries(1))
    assert wal_of(path).stat().st_size
    end(writer, path, 3)


def test_records_of_a_replaced_file_are_saved_and_the_log_goes_on(path: Path) -> None:
    writer = begin(path)
    other = path.with_name("other")
    other.write_bytes(wal_of(path).read_bytes()[:100])
    other.replace(wal_of(path))
    with pytest.raises(RemovedError, match="the -wal file of the log was replaced"):
        writer.check_file()
    writer.write(entries(1))
    end(writer, path, 3)


def test_each_of_two_processes_goes_on_in_the_new_file(path: Path) -> None:
    one, other = begin(path), make_writer(path)
    other.write(entries(1))
    wal_of(path).unlink()
    with pytest.raises(RemovedError, match=DELETED):
        one.check_file()
    one.write(entries(1))
    with pytest.raises(RemovedError, match="another file"):
        other.write(entries(1))
    other.write(entries(1))
    one.write(entries(1))
    other.close()
    end(one, path, 6)


def test_a_deleted_wal_file_is_used_until_nobody_reads(path: Path) -> None:
    writer = begin(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        before = reader.execute("SELECT count(*) FROM record").fetchone()
        wal_of(path).unlink()
        writer.write(entries(1))
        writer.run_maintenance()
        assert reader.execute("SELECT count(*) FROM record").fetchone() == before
    with pytest.raises(RemovedError, match=DELETED):
        writer.check_file()
    writer.write(entries(1))
    end(writer, path, 4)
