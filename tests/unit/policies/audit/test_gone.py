"""A log whose file is deleted or replaced while it is open: where it goes on, and what is proven of it."""

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
    kinds,
    make_audit,
    make_log,
    make_scribe,
    read_lines,
    records,
    refusal,
    sealed,
    seals,
    told,
    verify,
)
from toolcrib.errors import ConfigurationError
from toolcrib.policy.audit import AuditLog, open_log, recovery
from toolcrib.policy.audit import jsonl_store as files
from toolcrib.policy.audit.sqlite_store import TableStore
from toolcrib.policy.audit.store import BrokenError, GoneError, StoreError, open_store
from toolcrib.policy.audit.writer import Scribe

BOTH = pytest.mark.parametrize("name", STORES)


def delete(path: Path) -> None:
    for each in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        each.unlink(missing_ok=True)


def begin(path: Path, count: int = 3, hands: Hands | None = None, **options: Any) -> Scribe:
    """A log that is open: `opened`, which is sealed, and so many calls, which are not."""
    scribe = make_scribe(path, hands, **options)
    scribe.start()
    scribe.write(entries(count))
    return scribe


def lose(scribe: Scribe, words: str = "the file of the log was deleted") -> GoneError:
    with pytest.raises(GoneError) as caught:
        scribe.look()
    assert str(caught.value) == words
    return caught.value


# --- noticing ---


@BOTH
def test_what_comes_first_is_sealed_at_once_however_the_log_was_opened(tmp_path: Path, name: str) -> None:
    scribe = make_scribe(tmp_path / name)
    for number in range(1, 3):
        scribe.write(entries(1))
        scribe.tend()
        scribe.write(entries(1))
        scribe.tend()
        scribe.close()
        assert [each.seq for each in sealed(tmp_path / name)[1:]] == [2, 4, 6, 8][: 2 * number]


@BOTH
def test_a_file_that_is_there_is_not_gone(tmp_path: Path, name: str) -> None:
    scribe = make_scribe(tmp_path / name)
    scribe.look()  # nothing is open yet
    scribe.start()
    scribe.look()
    assert not scribe.is_gone
    scribe.close()


@BOTH
def test_what_was_last_in_a_file_that_is_gone_is_known_and_sealed(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    scribe = begin(path)
    other = make_scribe(path)  # of another process, which writes last
    other.write(entries(2))
    other.abandon()
    assert sealed(path)[-1].seq == 1
    last = read_lines(path)[-1]
    delete(path)
    error = lose(scribe)
    assert (error.seq, error.head.hash) == (7, last[-66:-2])
    assert (sealed(path)[-1].seq, sealed(path)[-1].hash) == (7, last[-66:-2].decode())
    assert scribe.is_gone
    scribe.abandon()


@BOTH
def test_a_file_in_place_of_the_log_is_noticed_without_a_record(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    scribe = begin(path)
    other = tmp_path / "other" / name
    make_log(other, 2)
    delete(path)
    other.rename(path)
    lose(scribe, "another file is in the place of the log")
    with pytest.raises(BrokenError):
        scribe.write(entries(1))  # nothing is written behind the records of another log
    assert calls(path) == ["c1", "c2"]
    scribe.abandon()


@BOTH
def test_a_log_that_another_process_has_shortened_is_not_gone(tmp_path: Path, name: str) -> None:
    path, hands = tmp_path / name, Hands()
    ours = begin(path, 1, hands)
    theirs = make_scribe(path, hands, keep_records=1_000)
    theirs.write(entries(2_000))
    ours.look()
    hands.pass_by(60)
    while theirs.tend() == 0.0:
        pass
    ours.look()
    ours.write(entries(1))
    ours.close()
    theirs.close()
    assert verify(path).is_sound


def test_a_database_that_cannot_be_read_any_more_is_gone_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.db"
    store = open_store(path, sync=False, wait_s=0.1)

    def fail(_: object) -> None:
        raise StoreError("disk I/O error")

    monkeypatch.setattr(TableStore, "head", fail)
    delete(path)
    with pytest.raises(GoneError) as caught:
        store.look()
    assert caught.value.seq == 0
    store.close()


# --- going on ---


@BOTH
def test_the_log_goes_on_behind_what_is_missing_and_nobody_has_accepted_that(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / name
    scribe = begin(path)
    delete(path)
    lose(scribe)
    scribe.write(entries(2, start=4))
    assert [each["seq"] for each in records(path)] == [5, 6, 7, 8]
    assert [each["kind"] for each in records(path)] == ["recovered", "gap", "call", "call"]
    assert (records(path)[0]["missing"], records(path)[0]["good"]) == (
        "records 1 to 4 are missing at the end",
        0,
    )
    assert told(path) == [(0, 4)]
    assert scribe.gap.lost == 4
    expected = f"audit: {path}: the file of the log was deleted: records 1 to 4 are missing at the end; "
    assert caplog.messages == [f"{expected}the log goes on behind record 4"]
    scribe.tend()
    assert sealed(path)[-1].seq == 8  # at once
    scribe.close()
    assert kinds(path) == ["missing"]
    assert {each.kind for each in sealed(path)} == {"checkpoint"}
    assert str(refusal(path)) == "records 1 to 4 are missing"
    make_log(path, 1, accept_gap=True)
    assert verify(path).is_sound
    assert [problem.is_accepted for problem in verify(path).problems] == [True]


@BOTH
def test_a_setting_that_accepts_damage_at_the_start_accepts_no_loss_while_serving(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    scribe = begin(path, accept_gap=True)
    delete(path)
    lose(scribe)
    scribe.close()  # nothing is open
    assert not verify(path).is_sound


@BOTH
def test_a_log_that_goes_on_can_fail_and_be_deleted_again(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    scribe = begin(path)
    for _ in range(2):
        delete(path)
        lose(scribe)
        for _ in range(2):  # opened anew after another failure: the loss is not found again
            scribe.write(entries(1))
            scribe.abandon()
        scribe.write(())
        assert [each["kind"] for each in records(path)] == ["recovered", "gap", "call", "call"]
    assert [each["seq"] for each in records(path)] == [9, 10, 11, 12]
    assert scribe.gap.lost == 4 + 3  # the gap and the calls; the first record is not counted
    scribe.close()
    assert kinds(path) == ["missing"]


@BOTH
def test_an_older_copy_is_gone_on_behind(tmp_path: Path, name: str) -> None:
    path, copy = tmp_path / name, tmp_path / "copy"
    make_log(path, 3)
    shutil.copy(path, copy)
    scribe = begin(path)
    delete(path)
    copy.rename(path)
    lose(scribe, "another file is in the place of the log")
    scribe.write(entries(1))
    scribe.close()
    assert [each["seq"] for each in records(path)] == [1, 2, 3, 4, 5, 10, 11, 12, 13]
    assert [problem.words for problem in verify(path).problems] == ["records 6 to 9 are missing"]
    assert told(path) == [(0, 4)]


@BOTH
def test_checkpoints_that_are_deleted_with_the_log_are_made_anew(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    scribe = begin(path)
    delete(path)
    seals(path).unlink()
    lose(scribe)
    scribe.write(())
    scribe.close()
    assert [problem.words for problem in verify(path).problems] == ["records 1 to 4 are missing"]


@BOTH
def test_checkpoints_that_were_changed_are_not_gone_on_behind(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    scribe = begin(path)
    delete(path)
    lose(scribe)
    with seals(path).open("ab") as file:
        file.write(b"{}\n")
    with pytest.raises(BrokenError, match=recovery.FOREIGN):
        scribe.write(())


@BOTH
def test_two_that_begin_a_file_anew_at_once_do_not_give_a_number_twice(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    ours, theirs = begin(path), make_scribe(path)
    theirs.start()
    delete(path)
    lose(ours)
    lose(theirs)
    find = recovery._find_loss

    def meanwhile(*arguments: Any) -> str | None:
        found = find(*arguments)
        monkeypatch.setattr(recovery, "_find_loss", find)
        theirs.write(())
        return found

    monkeypatch.setattr(recovery, "_find_loss", meanwhile)
    with pytest.raises(StoreError, match="another process has gone on with the log just now"):
        ours.write(())
    ours.write(())
    ours.close()
    theirs.close()
    numbers = [each["seq"] for each in records(path)]
    assert numbers == list(range(6, 6 + len(numbers)))
    assert [problem.words for problem in verify(path).problems] == ["records 1 to 5 are missing"]
    assert told(path) == [(0, 1), (0, 4)]


# --- the file of a database, and what SQLite keeps beside it ---


def test_what_is_left_of_a_deleted_database_is_removed_with_the_first_file_in_its_place(
    tmp_path: Path,
) -> None:
    path, shm = tmp_path / "audit.db", tmp_path / "audit.db-shm"
    scribe, other = begin(path), make_scribe(path)
    other.start()
    path.unlink()
    lose(scribe)
    left = shm.stat().st_ino
    scribe.write(())
    assert shm.stat().st_ino != left  # which the other process still uses
    lose(other, "another file is in the place of the log")
    other.write(())
    other.close()
    scribe.close()
    assert kinds(path) == ["missing"]


def test_a_file_is_claimed_by_one_only(tmp_path: Path) -> None:
    assert files.claim(tmp_path / "new" / "audit.db")
    assert not files.claim(tmp_path / "new" / "audit.db")


# --- ending, and looking at it ---


@BOTH
async def test_what_a_closing_log_had_left_to_write_goes_into_the_new_file(
    tmp_path: Path, name: str, logs: list[AuditLog]
) -> None:
    path = tmp_path / name
    log = make_audit(logs, path)
    await log.open()
    delete(path)
    log.note({"id": "last"})
    await log.close()
    assert [each["kind"] for each in records(path)] == ["recovered", "gap", "call", "closed"]
    assert (log.lost, log.gaps) == (1, 1)
    with pytest.raises(ConfigurationError, match="the audit log is damaged: record 1 is missing"):
        await log.open()


@BOTH
def test_what_checkpoints_say_of_a_log_that_is_not_there(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    make_log(path, 3)
    path.unlink()
    verdict = open_log(path).verify()
    assert (verdict.is_sound, verdict.records, verdict.last_seq) == (False, 0, 0)
    assert [problem.words for problem in verdict.problems] == ["records 1 to 5 are missing at the end"]
    assert list(open_log(path).records()) == []
    assert open_log(path).last_seq() == 0
    seals(path).write_bytes(seals(path).read_bytes().splitlines(keepends=True)[0])  # of the empty log
    with pytest.raises(ConfigurationError, match="there is no audit log"):
        open_log(path).verify()
    path.mkdir()
    with pytest.raises(ConfigurationError, match="there is no audit log"):
        open_log(path)


@BOTH
def test_another_failure_to_look_is_not_taken_for_a_loss(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    scribe = begin(path)

    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", fail)
        with pytest.raises(OSError, match="Input/output error"):
            scribe.look()
    assert not scribe.is_gone
    scribe.write(entries(1, start=4))
    scribe.close()
    assert verify(path).is_sound
