"""A log file that is deleted or replaced while a process writes it."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.audit_logs import (
    ManualClocks,
    calls,
    entries,
    gap_counts,
    kinds,
    make_audit,
    make_log,
    make_writer,
    read_lines,
    records,
    refusal,
    sealed,
    seals,
    verify,
)
from toolcrib.errors import ConfigurationError
from toolcrib.policy.audit import AuditLog, open_log
from toolcrib.policy.audit.store import DamagedError, RemovedError, SQLiteStore, StoreError
from toolcrib.policy.audit.writer import FOREIGN_CHECKPOINTS, RecordWriter


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
    assert not writer.is_removed
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
    assert writer.is_removed
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


# --- going on ---


def test_the_log_continues_after_a_loss_that_nobody_accepted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "audit.db"
    writer = begin(path)
    delete(path)
    lose(writer)
    writer.write(entries(2, start=4))
    assert [each["seq"] for each in records(path)] == [5, 6, 7, 8]
    assert [each["kind"] for each in records(path)] == ["recovered", "gap", "call", "call"]
    assert (records(path)[0]["missing"], records(path)[0]["good"]) == (
        "records 1 to 4 are missing at the end",
        0,
    )
    assert gap_counts(path) == [(0, 4)]
    assert writer.gap.lost == 4
    expected = f"audit: {path}: the log file was deleted: records 1 to 4 are missing at the end; "
    assert caplog.messages == [f"{expected}the log continues after record 4"]
    writer.run_maintenance()
    assert sealed(path)[-1].seq == 8  # at once
    writer.close()
    assert kinds(path) == ["missing"]
    assert {each.kind for each in sealed(path)} == {"checkpoint"}
    assert str(refusal(path)) == "records 1 to 4 are missing"
    make_log(path, 1, accept_gap=True)
    assert verify(path).is_sound
    assert [problem.is_accepted for problem in verify(path).problems] == [True]


def test_accept_gap_does_not_accept_a_loss_while_serving(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    writer = begin(path, accept_gap=True)
    delete(path)
    lose(writer)
    writer.close()  # nothing is open
    assert not verify(path).is_sound


def test_a_continued_log_can_fail_and_be_deleted_again(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    writer = begin(path)
    for _ in range(2):
        delete(path)
        lose(writer)
        for _ in range(2):  # opened anew after another failure: the loss is not found again
            writer.write(entries(1))
            writer.release()
        writer.write(())
        assert [each["kind"] for each in records(path)] == ["recovered", "gap", "call", "call"]
    assert [each["seq"] for each in records(path)] == [9, 10, 11, 12]
    assert writer.gap.lost == 4 + 3  # the gap and the calls; the first record is not counted
    writer.close()
    assert kinds(path) == ["missing"]


def test_the_log_continues_in_an_older_copy(tmp_path: Path) -> None:
    path, copy = tmp_path / "audit.db", tmp_path / "copy"
    make_log(path, 3)
    shutil.copy(path, copy)
    writer = begin(path)
    delete(path)
    copy.rename(path)
    lose(writer, "the log file was replaced by another file")
    writer.write(entries(1))
    writer.close()
    assert [each["seq"] for each in records(path)] == [1, 2, 3, 4, 5, 10, 11, 12, 13]
    assert [problem.words for problem in verify(path).problems] == ["records 6 to 9 are missing"]
    assert gap_counts(path) == [(0, 4)]


def test_checkpoints_deleted_with_the_log_are_created_again(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    writer = begin(path)
    delete(path)
    seals(path).unlink()
    lose(writer)
    writer.write(())
    writer.close()
    assert [problem.words for problem in verify(path).problems] == ["records 1 to 4 are missing"]


def test_the_log_does_not_continue_with_changed_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    writer = begin(path)
    delete(path)
    lose(writer)
    with seals(path).open("ab") as file:
        file.write(b"{}\n")
    with pytest.raises(DamagedError, match=FOREIGN_CHECKPOINTS):
        writer.write(())


def test_processes_that_continue_at_once_use_no_number_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.db"
    ours, theirs = begin(path), make_writer(path)
    theirs.start()
    delete(path)
    lose(ours)
    lose(theirs)
    append = RecordWriter._append_after

    def meanwhile(*arguments: Any) -> None:
        monkeypatch.setattr(RecordWriter, "_append_after", append)
        theirs.write(())
        append(*arguments)

    monkeypatch.setattr(RecordWriter, "_append_after", meanwhile)
    with pytest.raises(StoreError, match="another process has continued the log meanwhile"):
        ours.write(())
    ours.write(())
    ours.close()
    theirs.close()
    numbers = [each["seq"] for each in records(path)]
    assert numbers == list(range(6, 6 + len(numbers)))
    assert [problem.words for problem in verify(path).problems] == ["records 1 to 5 are missing"]
    assert gap_counts(path) == [(0, 1), (0, 4)]


# --- the file of a database, and what SQLite keeps beside it ---


def test_orphaned_files_of_a_deleted_database_are_removed(
    tmp_path: Path,
) -> None:
    path, shm = tmp_path / "audit.db", tmp_path / "audit.db-shm"
    writer, other = begin(path), make_writer(path)
    other.start()
    path.unlink()
    lose(writer)
    left = shm.stat().st_ino
    writer.write(())
    assert shm.stat().st_ino != left  # which the other process still uses
    lose(other, "the log file was replaced by another file")
    other.write(())
    other.close()
    writer.close()
    assert kinds(path) == ["missing"]


# --- ending, and looking at it ---


async def test_a_closing_log_writes_its_queue_to_the_new_file(tmp_path: Path, logs: list[AuditLog]) -> None:
    path = tmp_path / "audit.db"
    log = make_audit(logs, path)
    await log.open()
    delete(path)
    log.note({"id": "last"})
    await log.close()
    assert [each["kind"] for each in records(path)] == ["recovered", "gap", "call", "closed"]
    assert (log.lost, log.gaps) == (1, 1)
    with pytest.raises(ConfigurationError, match="the audit log is damaged: record 1 is missing"):
        await log.open()


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
    assert not writer.is_removed
    writer.write(entries(1, start=4))
    writer.close()
    assert verify(path).is_sound
