"""Operations that fail, one at a time: what was there stays, and what was done is not done twice."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.support.audited import STORES, Hands, entries, make_log, make_scribe, read_lines, verify
from toolcrib.policy import Audit
from toolcrib.policy.audit import AuditLog, open_log
from toolcrib.policy.audit import jsonl_store as files
from toolcrib.policy.audit.jsonl_store import LineStore
from toolcrib.policy.audit.sqlite_store import TableStore
from toolcrib.policy.audit.store import Store, StoreError, open_store
from toolcrib.policy.audit.writer import Scribe

BOTH = pytest.mark.parametrize("name", STORES)


class Failing:
    """In the place of `os`: one function fails or does too little."""

    def __init__(self, name: str, instead: Any) -> None:
        self._name = name
        self._instead = instead

    def __getattr__(self, name: str) -> Any:
        return self._instead if name == self._name else getattr(os, name)


def refuse(*_: Any, **__: Any) -> Any:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def calls(path: Path) -> list[str]:
    return [record["id"] for record in open_log(path).records() if record["kind"] == "call"]


def test_lines_that_were_written_although_the_disk_failed_are_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    scribe = make_scribe(path, sync=True)
    scribe.write(entries(2))
    with monkeypatch.context() as patch:
        patch.setattr(files, "os", Failing("fsync", refuse))
        with pytest.raises(OSError, match="Input/output error"):
            scribe.write(entries(3, start=3))
    assert calls(path) == ["c1", "c2", "c3", "c4", "c5"]
    scribe.write(entries(4, start=3))  # the same, and one more
    scribe.close()
    assert calls(path) == [f"c{number}" for number in range(1, 7)]
    assert scribe.records == len(read_lines(path)) == 8
    assert verify(path).is_sound


@pytest.mark.parametrize("is_new", [False, True])
def test_rows_that_were_committed_although_it_failed_are_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    path = tmp_path / "audit.db"
    connect, state = sqlite3.connect, {"left": 0}

    class Connection(sqlite3.Connection):
        def execute(self, *args: Any) -> sqlite3.Cursor:
            cursor = super().execute(*args)
            if args[0] == "COMMIT" and state["left"]:
                state["left"] -= 1
                raise sqlite3.OperationalError("disk I/O error")
            return cursor

    monkeypatch.setattr(
        sqlite3, "connect", lambda *args, **options: connect(*args, factory=Connection, **options)
    )
    scribe = make_scribe(path)
    if not is_new:
        scribe.write(entries(2))
    state["left"] = 2
    for more in range(2):
        with pytest.raises(StoreError, match="disk I/O error"):
            scribe.write(entries(3 + more, start=3))
    scribe.write(entries(5, start=3))
    scribe.close()
    first = 3 if is_new else 1
    assert calls(path) == [f"c{number}" for number in range(first, 8)]
    assert scribe.records == len(read_lines(path))
    assert verify(path).is_sound


@BOTH
@pytest.mark.parametrize("others", [0, 2])
def test_what_others_wrote_meanwhile_is_not_taken_for_ours(
    tmp_path: Path, name: str, others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    scribe = make_scribe(path)
    scribe.write(entries(2))
    store = TableStore if name == "audit.db" else LineStore

    def ask_and_fail(self: Store, compose: Any, head: Any = None) -> None:
        compose(self.head())
        raise StoreError("not now")

    with monkeypatch.context() as patch:
        patch.setattr(store, "append", ask_and_fail)
        with pytest.raises(StoreError, match="not now"):
            scribe.write(entries(3, start=3))
    if others:
        make_log(path, others)
    scribe.write(entries(3, start=3))
    scribe.close()
    assert calls(path) == ["c1", "c2", *["c1", "c2"][:others], "c3", "c4", "c5"]
    assert verify(path).is_sound


def test_a_write_that_takes_nothing_is_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.jsonl"
    make_log(path, 2)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(files, "os", Failing("write", lambda *_: 0))
        with pytest.raises(OSError, match="No space left on device"):
            make_scribe(path).write(entries(1))
    assert path.read_bytes() == before


def test_half_a_write_is_taken_back_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.jsonl"
    scribe = make_scribe(path)
    scribe.write(entries(2))
    before, taken = path.read_bytes(), []

    def take_half(descriptor: int, data: memoryview) -> int:
        if taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken.append(os.write(descriptor, data[: len(data) // 2]))
        return taken[0]

    with monkeypatch.context() as patch:
        patch.setattr(files, "os", Failing("write", take_half))
        with pytest.raises(OSError, match="No space left on device"):
            scribe.write(entries(5, start=3))
    assert taken
    assert path.read_bytes() == before
    scribe.write(entries(5, start=3))
    scribe.close()
    assert calls(path) == [f"c{number}" for number in range(1, 8)]
    assert [record["kind"] for record in open_log(path).records()].count("recovered") == 0


def test_a_key_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "os", Failing("write", lambda *_: 5))
    with pytest.raises(OSError, match="No space left on device") as caught:
        files.write_new(tmp_path / "key", b"k" * 32)
    assert caught.value.errno == errno.ENOSPC  # which may pass
    assert os.listdir(tmp_path) == []


def test_old_lines_stay_where_the_file_cannot_be_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hands = Hands()
    path = tmp_path / "audit.jsonl"
    scribe = make_scribe(path, hands, keep_records=1000)
    scribe.write(entries(3000))
    hands.pass_by(60)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(files, "os", Failing("replace", refuse))
        with pytest.raises(OSError, match="Input/output error"):
            scribe.tend()
    assert path.read_bytes() == before
    assert [each for each in os.listdir(tmp_path) if each.endswith(".tmp")] == []
    assert verify(path).is_sound
    scribe.write(())
    scribe.tend()
    scribe.close()
    assert verify(path).is_sound
    assert verify(path).records == 1002


@BOTH
def test_the_last_record_never_ends(tmp_path: Path, name: str) -> None:
    make_log(tmp_path / name, 5)
    store = open_store(tmp_path / name, sync=False, wait_s=1)
    store.remove_through(0)
    assert store.first_seq() == 1
    store.remove_through(6)
    assert store.first_seq() == 7
    store.remove_through(7)
    assert store.first_seq() == 7
    store.close()


def test_a_database_that_may_not_be_written_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 1)
    monkeypatch.setattr("toolcrib.policy.audit.sqlite_store.os.access", lambda *_: False)
    with pytest.raises(PermissionError) as caught:
        make_scribe(path).open()
    assert (caught.value.errno, caught.value.filename) == (errno.EACCES, str(path))


def test_what_was_never_opened_or_is_not_there_needs_nothing(tmp_path: Path) -> None:
    files.GrowingFile(tmp_path / "x").close()
    files.sync_path(tmp_path / "x")
    assert os.listdir(tmp_path) == []


def test_letting_go_of_a_broken_store_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scribe = make_scribe(tmp_path / "audit.jsonl")
    scribe.write(entries(1))
    with monkeypatch.context() as patch:
        patch.setattr(LineStore, "close", refuse)
        scribe.abandon()
    scribe.write(entries(1, start=2))
    scribe.close()
    assert calls(tmp_path / "audit.jsonl") == ["c1", "c2"]


async def test_a_log_that_cannot_be_closed_well_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = AuditLog(Audit(tmp_path / "audit.db"), server="shop")
    assert await log.commit({"id": "c1"})
    monkeypatch.setattr(Scribe, "close", refuse)
    await log.close()
    assert "audit: the log was not closed well: [Errno 5] Input/output error" in caplog.text


async def test_pauses_between_attempts_grow_to_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = AuditLog(Audit(tmp_path / "audit.db"), server="shop")
    await log.open()
    pauses: list[float] = []
    write = Scribe.write

    def fail(scribe: Scribe, given: Any) -> None:
        pauses.append(log._writer._retry_s)
        if len(pauses) < 9:
            log.note({"id": f"n{len(pauses)}"})  # comes while it is failing
            log._writer._bell.release()  # do not wait for it
            raise OSError(errno.EIO, "no")
        write(scribe, given)

    monkeypatch.setattr(Scribe, "write", fail)
    assert not await log.commit({"id": "c1"})
    while log.is_failing:
        await asyncio.sleep(0)
    assert pauses == [0.05, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]
    await log.close()
    assert calls(tmp_path / "audit.db") == ["c1", *(f"n{number}" for number in range(1, 9))]
