"""The -wal file of a SQLite log that is deleted or replaced while the log is written: no record is lost."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.audit_logs import calls, entries, make_writer, verify
from toolcrib.policy.audit import store as table
from toolcrib.policy.audit.store import RemovedError
from toolcrib.policy.audit.writer import RecordWriter

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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.db"


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


def test_a_file_that_is_read_is_left_when_nobody_reads_any_more(path: Path) -> None:
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


def test_a_file_that_is_deleted_at_the_last_moment_gets_no_record(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = begin(path)
    look = table.SQLiteStore.check_file

    def look_too_early(store: table.SQLiteStore) -> None:
        look(store)
        wal_of(path).unlink(missing_ok=True)

    monkeypatch.setattr(table.SQLiteStore, "check_file", look_too_early)
    with pytest.raises(RemovedError, match=DELETED):
        writer.write(entries(1))
    monkeypatch.undo()
    writer.write(entries(1))
    end(writer, path, 3)


def test_a_file_system_without_shared_memory_has_no_such_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = begin(path)
    monkeypatch.setattr(writer._store, "_has_wal", False)
    wal_of(path).unlink()
    writer.check_file()
    writer.close()
