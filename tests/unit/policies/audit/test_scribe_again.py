"""A log that is opened again, after it was closed or after it has failed: what is said, sealed and synced."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.audited import (
    STORES,
    Hands,
    calls,
    entries,
    make_log,
    make_scribe,
    read_lines,
    records,
    replace_lines,
    sealed,
    seals,
    told,
    verify,
)
from toolcrib.policy.audit import jsonl_store as files
from toolcrib.policy.audit.jsonl_store import LineStore
from toolcrib.policy.audit.sqlite_store import TableStore
from toolcrib.policy.audit.store import BrokenError, StoreError
from toolcrib.policy.audit.writer import Scribe

BOTH = pytest.mark.parametrize("name", STORES)


def said(path: Path) -> list[str]:
    return [record["kind"] for record in records(path)]


def refuse(*_: Any, **__: Any) -> Any:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@BOTH
@pytest.mark.parametrize("count", [0, 3])
def test_nothing_is_due_where_nothing_was_written(tmp_path: Path, name: str, count: int) -> None:
    path, hands = tmp_path / name, Hands()
    if count:
        make_log(path, count)
    scribe = make_scribe(path, hands)
    scribe.open()
    before = sealed(path)
    assert scribe.tend() is None
    hands.pass_by(3600)
    assert scribe.tend() is None
    assert sealed(path) == before
    scribe.abandon()


@BOTH
def test_nothing_is_left_to_do_once_it_was_closed(tmp_path: Path, name: str) -> None:
    scribe = make_scribe(tmp_path / name)
    scribe.write(entries(3))
    scribe.close()
    scribe.open()
    assert scribe.tend() is None
    scribe.abandon()


def test_what_a_seal_has_brought_to_the_disk_is_not_brought_there_again(tmp_path: Path) -> None:
    hands = Hands()
    scribe = make_scribe(tmp_path / "audit.jsonl", hands)
    scribe.start()
    hands.pass_by(59.5)
    scribe.write(entries(1))
    assert scribe.tend() == 0.5  # synced, for the first time
    scribe.write(entries(1))
    hands.pass_by(0.5)
    assert scribe.tend() is None
    scribe.close()


def test_what_was_not_on_the_disk_before_a_failure_is_soon_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hands = Hands()
    scribe = make_scribe(tmp_path / "audit.jsonl", hands)
    scribe.start()
    scribe.write(entries(3))
    scribe.abandon()
    scribe.write(())  # opened anew, and nothing new to write
    assert scribe.tend() == 1.0
    synced: list[Path] = []
    sync = files.GrowingFile.sync
    monkeypatch.setattr(files.GrowingFile, "sync", lambda file: (synced.append(file.path), sync(file)))
    hands.pass_by(1.0)
    scribe.tend()
    assert synced == [tmp_path / "audit.jsonl"]
    scribe.close()


@BOTH
def test_only_the_first_record_of_a_log_has_its_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    make_log(path, 1)
    make_log(path, 1)
    names = [record.get("log", "") for record in records(path)]
    assert names[1:] == [""] * 5
    assert bytes.fromhex(names[0]).hex() == names[0]
    assert len(names[0]) == 16


@BOTH
def test_a_gap_is_told_though_no_record_comes(tmp_path: Path, name: str) -> None:
    scribe = make_scribe(tmp_path / name)
    scribe.write(entries(1))
    scribe.gap.add(late=1, lost=2)
    scribe.tend()
    assert told(tmp_path / name) == [(1, 2)]
    scribe.abandon()


@BOTH
def test_notes_that_were_written_although_it_failed_are_not_written_again(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    scribe = make_scribe(path)
    store = TableStore if name == "audit.db" else LineStore
    append = store.append

    def write_and_fail(self: Any, compose: Any, head: Any = None) -> None:
        append(self, compose, head)
        raise StoreError("not now")

    with monkeypatch.context() as patch:
        patch.setattr(store, "append", write_and_fail)
        with pytest.raises(StoreError, match="not now"):
            scribe.write(entries(2))
    scribe.write(entries(3))
    scribe.close()
    assert said(path) == ["opened", "call", "call", "call", "closed"]
    assert scribe.records == 5


def test_what_was_written_and_then_changed_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    scribe = make_scribe(path, sync=True, accept_gap=True)
    scribe.write(entries(2))
    with monkeypatch.context() as patch:
        patch.setattr(files.GrowingFile, "sync", refuse)
        with pytest.raises(OSError, match="Input/output error"):
            scribe.write(entries(3, start=3))
    assert calls(path) == ["c1", "c2", "c3", "c4", "c5"]
    replace_lines(path, [line.replace(b'"c3"', b'"c9"') for line in read_lines(path)])
    scribe.write(entries(3, start=3))
    scribe.close()
    assert calls(path) == ["c1", "c2", "c9", "c4", "c5", "c3", "c4", "c5"]
    assert verify(path).is_sound  # with what was accepted


def test_a_database_that_was_put_back_from_a_copy_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 2)
    scribe = make_scribe(path)
    scribe.open()
    aside = tmp_path / "aside.db"
    path.rename(aside)
    shutil.copy(aside, path)
    with pytest.raises(BrokenError, match="another file is in the place of the log"):
        scribe.write(entries(1, start=3))
    scribe.write(entries(1, start=3))
    scribe.close()
    assert calls(path) == ["c1", "c2", "c3"]
    assert verify(path).is_sound


def test_what_fails_when_it_is_due_is_let_go_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hands = Hands()
    scribe = make_scribe(tmp_path / "audit.jsonl", hands)
    scribe.write(entries(1))
    hands.pass_by(1)
    with monkeypatch.context() as patch:
        patch.setattr(files.GrowingFile, "sync", refuse)
        with pytest.raises(OSError, match="Input/output error"):
            scribe.tend()
        assert scribe.tend() is None  # nothing is open, until there is a record again
    scribe.write(entries(1, start=2))
    scribe.close()
    assert verify(tmp_path / "audit.jsonl").is_sound


def test_each_time_that_checkpoints_begin_to_fail_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, hands = tmp_path / "audit.db", Hands()
    scribe = make_scribe(path, hands)
    scribe.write(entries(1))
    aside = tmp_path / "aside"
    for times in (1, 2):
        seals(path).rename(aside)
        seals(path).mkdir()
        for _ in range(2):
            hands.pass_by(60)
            scribe.write(entries(1))
            scribe.tend()
        assert len(caplog.messages) == times
        seals(path).rmdir()
        aside.rename(seals(path))
        hands.pass_by(60)
        scribe.tend()
    scribe.close()
    words = f"audit: no checkpoint can be written to {seals(path)}: "
    assert [message.startswith(words) for message in caplog.messages] == [True, True]


@BOTH
def test_a_close_that_failed_leaves_only_what_was_not_told(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    scribe = make_scribe(path)
    scribe.write(entries(1))
    scribe.gap.add(lost=1)
    with monkeypatch.context() as patch:
        patch.setattr(TableStore if name == "audit.db" else LineStore, "append", refuse)
        with pytest.raises(OSError, match="Input/output error"):
            scribe.close()
    scribe.write(entries(1))
    scribe.close()
    assert said(path) == ["opened", "call", "gap", "opened", "call", "closed"]


# --- what we wrote ourselves, and is not there any more ---


def cut(path: Path, scribe: Scribe) -> None:
    """The last record is gone, as nobody but the scribe can know."""
    scribe.write(entries(3))
    replace_lines(path, read_lines(path)[:-1])


@BOTH
def test_it_is_not_opened_again_where_our_last_record_is_gone(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    scribe = make_scribe(path)
    cut(path, scribe)
    scribe.abandon()
    with pytest.raises(BrokenError, match="it ends before record 4, which a checkpoint has seen"):
        scribe.open()


@BOTH
def test_what_we_wrote_is_sealed_once_when_it_is_gone(tmp_path: Path, name: str) -> None:
    path, hands = tmp_path / name, Hands()
    scribe = make_scribe(path, hands, keep_records=1000)
    scribe.write(entries(1200))
    hands.pass_by(60)
    scribe.tend()  # records 1 to 201 end
    assert verify(path).first_seq == 202
    cut(path, scribe)
    for _ in range(2):
        with pytest.raises(BrokenError):
            scribe.write(entries(1))
    newest = sealed(path)[-1]
    assert (newest.kind, newest.seq, newest.count) == ("checkpoint", 1205, 1004)
    assert [each.seq for each in sealed(path)].count(1205) == 1
    verdict = verify(path)
    assert [(each.seq, each.kind) for each in verdict.problems] == [(1205, "truncated")]


@BOTH
def test_with_a_gap_accepted_it_goes_on_behind_what_is_gone(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    scribe = make_scribe(path, accept_gap=True)
    cut(path, scribe)
    with pytest.raises(BrokenError):
        scribe.write(entries(1, start=4))
    scribe.write(entries(1, start=4))
    scribe.close()
    assert calls(path) == ["c1", "c2", "c4"]
    verdict = verify(path)
    assert verdict.is_sound
    assert [(each.seq, each.kind, each.is_accepted) for each in verdict.problems] == [(4, "missing", True)]


@BOTH
def test_a_log_that_begins_with_no_record_goes_on_where_that_was_accepted(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    make_log(path, 3)
    replace_lines(path, [b"nothing", *read_lines(path)[1:]])
    scribe = make_scribe(path, accept_gap=True)
    scribe.write(entries(1, start=4))
    scribe.write(entries(1, start=5))
    scribe.close()
    assert calls(path) == ["c1", "c2", "c3", "c4", "c5"]
