"""The -wal file of a SQLite log that is deleted or replaced while the log is written: no record is lost."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.audited import calls, entries, make_scribe, verify
from toolcrib.policy.audit import sqlite_store as table
from toolcrib.policy.audit.store import GoneError
from toolcrib.policy.audit.writer import Scribe

DELETED = "the -wal file of the log was deleted"


def wal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def begin(path: Path) -> Scribe:
    scribe = make_scribe(path)
    scribe.start()
    scribe.write(entries(2))
    return scribe


def end(scribe: Scribe, path: Path, count: int) -> None:
    scribe.close()
    assert len(calls(path)) == count
    assert verify(path).is_sound


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.db"


def test_records_of_a_deleted_file_are_saved_and_the_log_goes_on(path: Path) -> None:
    scribe = begin(path)
    wal_of(path).unlink()
    with pytest.raises(GoneError, match=DELETED):
        scribe.write(entries(1))
    scribe.write(entries(1))
    assert wal_of(path).stat().st_size
    end(scribe, path, 3)


def test_records_of_a_replaced_file_are_saved_and_the_log_goes_on(path: Path) -> None:
    scribe = begin(path)
    other = path.with_name("other")
    other.write_bytes(wal_of(path).read_bytes()[:100])
    other.replace(wal_of(path))
    with pytest.raises(GoneError, match="another file is in the place of the -wal file"):
        scribe.look()
    scribe.write(entries(1))
    end(scribe, path, 3)


def test_each_of_two_processes_goes_on_in_the_new_file(path: Path) -> None:
    one, other = begin(path), make_scribe(path)
    other.write(entries(1))
    wal_of(path).unlink()
    with pytest.raises(GoneError, match=DELETED):
        one.look()
    one.write(entries(1))
    with pytest.raises(GoneError, match="another file"):
        other.write(entries(1))
    other.write(entries(1))
    one.write(entries(1))
    other.close()
    end(one, path, 6)


def test_a_file_that_is_read_is_left_when_nobody_reads_any_more(path: Path) -> None:
    scribe = begin(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        before = reader.execute("SELECT count(*) FROM record").fetchone()
        wal_of(path).unlink()
        scribe.write(entries(1))
        scribe.tend()
        assert reader.execute("SELECT count(*) FROM record").fetchone() == before
    with pytest.raises(GoneError, match=DELETED):
        scribe.look()
    scribe.write(entries(1))
    end(scribe, path, 4)


def test_a_file_that_is_deleted_at_the_last_moment_gets_no_record(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scribe = begin(path)
    look = table.TableStore.look

    def look_too_early(store: table.TableStore) -> None:
        look(store)
        wal_of(path).unlink(missing_ok=True)

    monkeypatch.setattr(table.TableStore, "look", look_too_early)
    with pytest.raises(GoneError, match=DELETED):
        scribe.write(entries(1))
    monkeypatch.undo()
    scribe.write(entries(1))
    end(scribe, path, 3)


def test_a_file_system_without_shared_memory_has_no_such_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scribe = begin(path)
    monkeypatch.setattr(scribe._store, "_has_wal", False)
    wal_of(path).unlink()
    scribe.look()
    scribe.close()
