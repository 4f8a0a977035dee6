"""The SQLite file: how safely it is kept, who may read it, and what is said when it is none."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.audit_logs import Hold, entries, make_log, make_writer, read_lines, verify
from toolcrib.errors import ConfigurationError
from toolcrib.policy.audit.record import Head, chain_entries
from toolcrib.policy.audit.store import (
    DamagedError,
    SQLiteStore,
    StoreError,
    find_foreign_file,
    open_snapshot,
)


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
def test_the_disk_is_waited_for_where_that_was_asked_for(
    path: Path, made: list[sqlite3.Connection], sync: bool, level: int
) -> None:
    with open_table(path, sync=sync):
        assert made[0].execute("PRAGMA synchronous").fetchone() == (level,)
        assert made[0].execute("PRAGMA journal_mode").fetchone() == (
            b"wal",
        )  # who reads keeps nobody waiting


def test_what_was_ended_is_gone_from_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_syncing_has_the_file_beside_the_log_on_the_disk(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_last_record_is_never_ended(path: Path) -> None:
    with open_table(path) as store:
        add(store, 5)
        store.remove_through(2)
        assert store.first_seq() == 3
        store.remove_through(5)
        assert (store.first_seq(), store.last_seq()) == (5, 5)


def test_what_cannot_be_written_as_a_whole_is_not_there_and_keeps_nobody(path: Path) -> None:
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


def test_a_store_in_use_is_waited_for_and_then_an_outage(path: Path) -> None:
    with open_table(path) as store:
        hold = Hold(path)
        with pytest.raises(StoreError, match=r"^database is locked$") as caught:
            add(store, 1)
        assert not isinstance(caught.value, DamagedError)
        hold.let_go()
        add(store, 1)


# --- what cannot be used ---


@pytest.mark.parametrize(
    "content", [b"no database at all " * 100, b"SQLite format 3\0" + b"\1" * 100], ids=["text", "half"]
)
def test_of_what_is_no_database_nothing_stays_open(
    path: Path, made: list[sqlite3.Connection], content: bytes
) -> None:
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


def test_a_folder_and_a_file_of_others_are_told_as_such(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_database_without_records_is_said_to_be_none_at_once(
    path: Path, made: list[sqlite3.Connection]
) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE book (title)")
    with pytest.raises(ConfigurationError, match="not an audit log: no such table: record"):
        open_snapshot(path)
    assert [is_closed(db) for db in made] == [True] * len(made)


def test_who_has_read_lets_go(path: Path, made: list[sqlite3.Connection]) -> None:
    make_log(path, 1)
    with closing(open_snapshot(path)) as source:
        assert [is_closed(db) for db in made] == [True, False]
        assert len(list(source.lines(0))) == 3
    assert is_closed(made[1])


def test_who_reads_sees_one_moment(path: Path) -> None:
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


def test_but_not_while_others_write_it(path: Path, ways: list[str]) -> None:
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


def test_a_database_that_others_write_now_is_known_too(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("CREATE TABLE book (title)")  # beside the file still
        assert find_foreign_file(path) is not None


def test_a_log_beside_the_file_that_cannot_be_emptied_now_keeps_no_row(
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
