"""A log file that is deleted or replaced while a process writes it."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.records.audit_logs import (
    ManualClocks,
    calls,
    entries,
    make_log,
    make_writer,
    read_lines,
    records,
    sealed,
    seals,
    verify,
)
from toolcrib.errors import ConfigurationError
from toolcrib.policy.audit import open_log
from toolcrib.policy.audit.store import DamagedError, RemovedError, SQLiteStore, StoreError
from toolcrib.policy.audit.writer import RecordWriter


def delete(path: Path) -> None:
    for each in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        each.unlink(missing_ok=True)


def begin(path: Path, count: int = 3, clocks: ManualClocks | None = None, **options: Any) -> RecordWriter:
    """A log that is open: `opened`, which is sealed, and so many calls, which are not."""
    writer = make_writer(path, clocks, **options)
    writer.start()
    writer.write(entries(count))
    return writer


def lose(writer: RecordWriter, words: str = "the log file was deleted") -> RemovedError:
    with pytest.raises(RemovedError) as caught:
        writer.check_file()
    assert str(caught.value) == words
    return caught.value


# --- noticing ---


def test_the_first_record_is_sealed_at_once(tmp_path: Path) -> None:
    writer = make_writer(tmp_path / "audit.db")
    for number in range(1, 3):
        writer.write(entries(1))
        writer.run_maintenance()
        writer.write(entries(1))
        writer.run_maintenance()
        writer.close()
        assert [each.seq for each in sealed(tmp_path / "audit.db")[1:]] == [2, 4, 6, 8][: 2 * number]


def test_a_file_that_is_there_is_not_gone(tmp_path: Path) -> None:
    writer = make_writer(tmp_path / "audit.db")
    writer.check_file()  # nothing is open yet
    writer.start()
    writer.check_file()
    writer.close()


def test_the_last_record_of_a_removed_file_is_sealed(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    writer = begin(path)
    other = make_writer(path)  # of another process, which writes last
    other.write(entries(2))
    other.release()
    assert sealed(path)[-1].seq == 1
    last = read_lines(path)[-1]
    delete(path)
    error = lose(writer)
    assert (error.seq, error.head.hash) == (7, last[-66:-2])
    assert (sealed(path)[-1].seq, sealed(path)[-1].hash) == (7, last[-66:-2].decode())
    with pytest.raises(DamagedError, match="the log file was deleted"):
        writer.write(entries(1))
    assert not path.exists()
    writer.release()


def test_a_file_in_place_of_the_log_is_noticed_without_a_record(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    writer = begin(path)
    other = tmp_path / "other" / "audit.db"
    make_log(other, 2)
    delete(path)
    other.rename(path)
    lose(writer, "the log file was replaced by another file")
    with pytest.raises(DamagedError):
        writer.write(entries(1))  # nothing is written behind the records of another log
    assert calls(path) == ["c1", "c2"]
    writer.release()


def test_retention_in_another_process_is_no_removal(tmp_path: Path) -> None:
    path, clocks = tmp_path / "audit.db", ManualClocks()
    ours = begin(path, 1, clocks)
    theirs = make_writer(path, clocks, keep_records=1_000)
    theirs.write(entries(2_000))
    ours.check_file()
    clocks.advance(60)
    while theirs.run_maintenance() == 0.0:
        pass
    ours.check_file()
    ours.write(entries(1))
    ours.close()
    theirs.close()
    assert verify(path).is_sound


def test_a_removed_database_may_be_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.db"
    store = SQLiteStore(path, sync=False, wait_s=0.1)

    def fail(_: object) -> None:
        raise StoreError("disk I/O error")

    monkeypatch.setattr(SQLiteStore, "head", fail)
    delete(path)
    with pytest.raises(RemovedError) as caught:
        store.check_file()
    assert caught.value.seq == 0
    store.close()


# --- an older copy ---


def test_an_older_copy_of_the_log_is_not_continued(tmp_path: Path) -> None:
    path, copy = tmp_path / "audit.db", tmp_path / "copy"
    make_log(path, 3)
    shutil.copy(path, copy)
    writer = begin(path)
    delete(path)
    copy.rename(path)
    lose(writer, "the log file was replaced by another file")
    for _ in range(2):
        with pytest.raises(DamagedError, match="records 6 to 9 are missing at the end"):
            writer.write(entries(1))
    writer.release()
    assert [each["seq"] for each in records(path)] == [1, 2, 3, 4, 5]
    assert [problem.words for problem in verify(path).problems] == ["records 6 to 9 are missing at the end"]


# --- the file of a database, and what SQLite keeps beside it ---


# --- ending, and looking at it ---


def test_a_missing_log_is_verified_by_its_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 3)
    path.unlink()
    verdict = open_log(path).verify()
    assert (verdict.is_sound, verdict.records, verdict.last_seq) == (False, 0, 0)
    assert [problem.words for problem in verdict.problems] == ["records 1 to 5 are missing at the end"]
    assert list(open_log(path).records()) == []
    assert open_log(path).last_seq() == 0
    seals(path).write_bytes(seals(path).read_bytes().splitlines(keepends=True)[0])  # of the empty log
    with pytest.raises(ConfigurationError, match="no such audit log"):
        open_log(path).verify()
    path.mkdir()
    with pytest.raises(ConfigurationError, match="no such audit log"):
        open_log(path)


def test_a_failing_check_of_the_file_is_no_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.db"
    writer = begin(path)

    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", fail)
        with pytest.raises(OSError, match="Input/output error"):
            writer.check_file()
    writer.write(entries(1, start=4))
    writer.close()
    assert verify(path).is_sound
