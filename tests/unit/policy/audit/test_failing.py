"""Operations that fail, one at a time: what was there stays, and what was done is not done twice."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.support.audit_logs import entries, make_log, make_writer, read_lines, verify
from toolcrib.policy import Audit
from toolcrib.policy.audit import AuditLog, open_log
from toolcrib.policy.audit.store import SQLiteStore, StoreError
from toolcrib.policy.audit.writer import RecordWriter


def refuse(*_: Any, **__: Any) -> Any:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def calls(path: Path) -> list[str]:
    return [record["id"] for record in open_log(path).records() if record["kind"] == "call"]


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
    writer = make_writer(path)
    if not is_new:
        writer.write(entries(2))
    state["left"] = 2
    for more in range(2):
        with pytest.raises(StoreError, match="disk I/O error"):
            writer.write(entries(3 + more, start=3))
    writer.write(entries(5, start=3))
    writer.close()
    first = 3 if is_new else 1
    assert calls(path) == [f"c{number}" for number in range(first, 8)]
    assert writer.records == len(read_lines(path))
    assert verify(path).is_sound


@pytest.mark.parametrize("others", [0, 2])
def test_what_others_wrote_meanwhile_is_not_taken_for_ours(
    tmp_path: Path, others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.db"
    writer = make_writer(path)
    writer.write(entries(2))
    store = SQLiteStore

    def ask_and_fail(self: SQLiteStore, lines_after: Any, head: Any = None) -> None:
        lines_after(self.head())
        raise StoreError("not now")

    with monkeypatch.context() as patch:
        patch.setattr(store, "append", ask_and_fail)
        with pytest.raises(StoreError, match="not now"):
            writer.write(entries(3, start=3))
    if others:
        make_log(path, others)
    writer.write(entries(3, start=3))
    writer.close()
    assert calls(path) == ["c1", "c2", *["c1", "c2"][:others], "c3", "c4", "c5"]
    assert verify(path).is_sound


def test_the_last_record_never_ends(tmp_path: Path) -> None:
    make_log(tmp_path / "audit.db", 5)
    store = SQLiteStore(tmp_path / "audit.db", sync=False, wait_s=1)
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
    monkeypatch.setattr("toolcrib.policy.audit.store.os.access", lambda *_: False)
    with pytest.raises(PermissionError) as caught:
        make_writer(path).open()
    assert (caught.value.errno, caught.value.filename) == (errno.EACCES, str(path))


def test_letting_go_of_a_broken_store_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = make_writer(tmp_path / "audit.db")
    writer.write(entries(1))
    with monkeypatch.context() as patch:
        patch.setattr(SQLiteStore, "close", refuse)
        writer.release()
    writer.write(entries(1, start=2))
    writer.close()
    assert calls(tmp_path / "audit.db") == ["c1", "c2"]


async def test_a_log_that_cannot_be_closed_well_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = AuditLog(Audit(tmp_path / "audit.db"), server="shop")
    assert await log.commit({"id": "c1"})
    monkeypatch.setattr(RecordWriter, "close", refuse)
    await log.close()
    assert "audit: closing the log failed: [Errno 5] Input/output error" in caplog.text


async def test_pauses_between_attempts_grow_to_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = AuditLog(Audit(tmp_path / "audit.db"), server="shop")
    await log.open()
    pauses: list[float] = []
    write = RecordWriter.write

    def fail(writer: RecordWriter, given: Any) -> None:
        pauses.append(log._thread._retry_s)
        if len(pauses) < 9:
            log.note({"id": f"n{len(pauses)}"})  # comes while it is failing
            log._thread._wakeup.release()  # do not wait for it
            raise OSError(errno.EIO, "no")
        write(writer, given)

    monkeypatch.setattr(RecordWriter, "write", fail)
    assert not await log.commit({"id": "c1"})
    while log.is_failing:
        await asyncio.sleep(0)
    assert pauses == [0.05, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]
    await log.close()
    assert calls(tmp_path / "audit.db") == ["c1", *(f"n{number}" for number in range(1, 9))]
