"""A log that is opened again, after it was closed or after it has failed: what is said, sealed and synced."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.audit_logs import (
    Hands,
    calls,
    entries,
    make_log,
    make_writer,
    read_lines,
    records,
    replace_lines,
    sealed,
    seals,
    told,
    verify,
)
from toolcrib.policy.audit.store import DamagedError, SQLiteStore, StoreError
from toolcrib.policy.audit.writer import RecordWriter


def said(path: Path) -> list[str]:
    return [record["kind"] for record in records(path)]


def refuse(*_: Any, **__: Any) -> Any:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("count", [0, 3])
def test_nothing_is_due_where_nothing_was_written(tmp_path: Path, count: int) -> None:
    path, hands = tmp_path / "audit.db", Hands()
    if count:
        make_log(path, count)
    writer = make_writer(path, hands)
    writer.open()
    before = sealed(path)
    assert writer.run_maintenance() is None
    hands.pass_by(3600)
    assert writer.run_maintenance() is None
    assert sealed(path) == before
    writer.release()


def test_nothing_is_left_to_do_once_it_was_closed(tmp_path: Path) -> None:
    writer = make_writer(tmp_path / "audit.db")
    writer.write(entries(3))
    writer.close()
    writer.open()
    assert writer.run_maintenance() is None
    writer.release()


def test_only_the_first_record_of_a_log_has_its_name(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 1)
    make_log(path, 1)
    names = [record.get("log", "") for record in records(path)]
    assert names[1:] == [""] * 5
    assert bytes.fromhex(names[0]).hex() == names[0]
    assert len(names[0]) == 16


def test_a_gap_is_told_though_no_record_comes(tmp_path: Path) -> None:
    writer = make_writer(tmp_path / "audit.db")
    writer.write(entries(1))
    writer.gap.add(late=1, lost=2)
    writer.run_maintenance()
    assert told(tmp_path / "audit.db") == [(1, 2)]
    writer.release()


def test_notes_that_were_written_although_it_failed_are_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.db"
    writer = make_writer(path)
    store = SQLiteStore
    append = store.append

    def write_and_fail(self: Any, lines_after: Any, head: Any = None) -> None:
        append(self, lines_after, head)
        raise StoreError("not now")

    with monkeypatch.context() as patch:
        patch.setattr(store, "append", write_and_fail)
        with pytest.raises(StoreError, match="not now"):
            writer.write(entries(2))
    writer.write(entries(3))
    writer.close()
    assert said(path) == ["opened", "call", "call", "call", "closed"]
    assert writer.records == 5


def test_what_was_written_and_then_changed_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.db"
    writer = make_writer(path, sync=True, accept_gap=True)
    writer.write(entries(2))
    append = SQLiteStore.append

    def write_and_fail(self: Any, lines_after: Any, head: Any = None) -> None:
        append(self, lines_after, head)
        refuse()

    with monkeypatch.context() as patch:
        patch.setattr(SQLiteStore, "append", write_and_fail)
        with pytest.raises(OSError, match="Input/output error"):
            writer.write(entries(3, start=3))
    assert calls(path) == ["c1", "c2", "c3", "c4", "c5"]
    replace_lines(path, [line.replace(b'"c3"', b'"c9"') for line in read_lines(path)])
    writer.write(entries(3, start=3))
    writer.close()
    assert calls(path) == ["c1", "c2", "c9", "c4", "c5", "c3", "c4", "c5"]
    assert verify(path).is_sound  # with what was accepted


def test_a_database_that_was_put_back_from_a_copy_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 2)
    writer = make_writer(path)
    writer.open()
    aside = tmp_path / "aside.db"
    path.rename(aside)
    shutil.copy(aside, path)
    with pytest.raises(DamagedError, match="the log file was replaced by another file"):
        writer.write(entries(1, start=3))
    writer.write(entries(1, start=3))
    writer.close()
    assert calls(path) == ["c1", "c2", "c3"]
    assert verify(path).is_sound


def test_what_fails_when_it_is_due_is_let_go_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hands = Hands()
    writer = make_writer(tmp_path / "audit.db", hands)
    writer.write(entries(1))
    hands.pass_by(60)
    with monkeypatch.context() as patch:
        patch.setattr(SQLiteStore, "sync", refuse)
        with pytest.raises(OSError, match="Input/output error"):
            writer.run_maintenance()
        assert writer.run_maintenance() is None  # nothing is open, until there is a record again
    writer.write(entries(1, start=2))
    writer.close()
    assert verify(tmp_path / "audit.db").is_sound


def test_each_time_that_checkpoints_begin_to_fail_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, hands = tmp_path / "audit.db", Hands()
    writer = make_writer(path, hands)
    writer.write(entries(1))
    aside = tmp_path / "aside"
    for times in (1, 2):
        seals(path).rename(aside)
        seals(path).mkdir()
        for _ in range(2):
            hands.pass_by(60)
            writer.write(entries(1))
            writer.run_maintenance()
        assert len(caplog.messages) == times
        seals(path).rmdir()
        aside.rename(seals(path))
        hands.pass_by(60)
        writer.run_maintenance()
    writer.close()
    words = f"audit: cannot write a checkpoint to {seals(path)}: "
    assert [message.startswith(words) for message in caplog.messages] == [True, True]


def test_a_close_that_failed_leaves_only_what_was_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.db"
    writer = make_writer(path)
    writer.write(entries(1))
    writer.gap.add(lost=1)
    with monkeypatch.context() as patch:
        patch.setattr(SQLiteStore, "append", refuse)
        with pytest.raises(OSError, match="Input/output error"):
            writer.close()
    writer.write(entries(1))
    writer.close()
    assert said(path) == ["opened", "call", "gap", "opened", "call", "closed"]


# --- what we wrote ourselves, and is not there any more ---


def cut(path: Path, writer: RecordWriter) -> None:
    """The last record is gone, as nobody but the writer can know."""
    writer.write(entries(3))
    replace_lines(path, read_lines(path)[:-1])


def test_it_is_not_opened_again_where_our_last_record_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    writer = make_writer(path)
    cut(path, writer)
    writer.release()
    with pytest.raises(DamagedError, match="it ends before record 4, of which there is a checkpoint"):
        writer.open()


def test_what_we_wrote_is_sealed_once_when_it_is_gone(tmp_path: Path) -> None:
    path, hands = tmp_path / "audit.db", Hands()
    writer = make_writer(path, hands, keep_records=1000)
    writer.write(entries(1200))
    hands.pass_by(60)
    writer.run_maintenance()  # records 1 to 201 end
    assert verify(path).first_seq == 202
    cut(path, writer)
    for _ in range(2):
        with pytest.raises(DamagedError):
            writer.write(entries(1))
    newest = sealed(path)[-1]
    assert (newest.kind, newest.seq, newest.count) == ("checkpoint", 1205, 1004)
    assert [each.seq for each in sealed(path)].count(1205) == 1
    verdict = verify(path)
    assert [(each.seq, each.kind) for each in verdict.problems] == [(1205, "truncated")]


def test_with_a_gap_accepted_it_goes_on_behind_what_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    writer = make_writer(path, accept_gap=True)
    cut(path, writer)
    with pytest.raises(DamagedError):
        writer.write(entries(1, start=4))
    writer.write(entries(1, start=4))
    writer.close()
    assert calls(path) == ["c1", "c2", "c4"]
    verdict = verify(path)
    assert verdict.is_sound
    assert [(each.seq, each.kind, each.is_accepted) for each in verdict.problems] == [(4, "missing", True)]


def test_a_log_that_begins_with_no_record_goes_on_where_that_was_accepted(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 3)
    replace_lines(path, [b"nothing", *read_lines(path)[1:]])
    writer = make_writer(path, accept_gap=True)
    writer.write(entries(1, start=4))
    writer.write(entries(1, start=5))
    writer.close()
    assert calls(path) == ["c1", "c2", "c3", "c4", "c5"]
