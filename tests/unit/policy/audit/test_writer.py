"""RecordWriter: checkpoints, retention, repeated writes after failures."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.support.records.audit_logs import (
    NOON,
    ManualClocks,
    calls,
    entries,
    gap_counts,
    kinds,
    make_log,
    make_writer,
    read_lines,
    records,
    replace_lines,
    sealed,
    seals,
    verify,
)
from toolcrib.policy import Audit
from toolcrib.policy.audit import AuditLog, open_log
from toolcrib.policy.audit import checkpoints as checkpoint
from toolcrib.policy.audit.checkpoints import (
    AuditKey,
    Checkpoint,
    parse_checkpoint,
    read_checkpoints,
)
from toolcrib.policy.audit.record import format_time
from toolcrib.policy.audit.store import DamagedError, SQLiteStore, StoreError
from toolcrib.policy.audit.writer import (
    DAY_S,
    RETENTION_S,
    GapCounter,
    RecordWriter,
    SteadyClock,
    expired_through,
)

SECRET = AuditKey(b"k" * 32)


def sealed_numbers(path: Path) -> list[int]:
    found = [each for _, each in read_checkpoints(path.with_name(f"{path.name}.checkpoints"), None)]
    return [each.seq for each in found if each is not None]


# --- checkpoints ---


def test_a_checkpoint_comes_after_a_minute_and_only_where_there_is_something_new(tmp_path: Path) -> None:
    clocks = ManualClocks()
    writer = make_writer(tmp_path / "audit.db", clocks)
    assert writer.run_maintenance() is None
    writer.start()
    assert sealed_numbers(tmp_path / "audit.db") == [0, 1]
    writer.write(entries(3))
    first_pause_s = 60.0
    assert writer.run_maintenance() == first_pause_s
    clocks.advance(59.5)
    assert writer.run_maintenance() == 0.5
    assert sealed_numbers(tmp_path / "audit.db") == [0, 1]
    clocks.advance(0.5)
    assert writer.run_maintenance() is None
    assert sealed_numbers(tmp_path / "audit.db") == [0, 1, 4]
    clocks.advance(600)
    assert writer.run_maintenance() is None
    assert sealed_numbers(tmp_path / "audit.db") == [0, 1, 4]
    writer.write(entries(1, start=4))
    writer.run_maintenance()
    assert sealed_numbers(tmp_path / "audit.db") == [0, 1, 4, 5]
    writer.close()
    assert sealed_numbers(tmp_path / "audit.db") == [0, 1, 4, 5, 6]


def test_a_thousand_records_are_sealed_sooner_but_not_twice_in_a_second(tmp_path: Path) -> None:
    clocks = ManualClocks()
    writer = make_writer(tmp_path / "audit.db", clocks)
    writer.start()
    writer.write(entries(999))
    clocks.advance(1)
    writer.run_maintenance()
    assert sealed_numbers(tmp_path / "audit.db") == [0, 1]
    writer.write(entries(1))
    writer.run_maintenance()
    assert sealed_numbers(tmp_path / "audit.db") == [0, 1, 1001]
    writer.write(entries(1500))
    assert writer.run_maintenance() == 1.0
    assert sealed_numbers(tmp_path / "audit.db") == [0, 1, 1001]
    clocks.advance(1)
    writer.run_maintenance()
    assert sealed_numbers(tmp_path / "audit.db") == [0, 1, 1001, 2501]
    writer.close()


def test_failing_checkpoints_do_not_stop_records(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clocks = ManualClocks()
    path = tmp_path / "audit.db"
    writer = make_writer(path, clocks)
    writer.write(entries(1))
    seals = path.with_name("audit.db.checkpoints")
    aside = tmp_path / "aside"
    seals.rename(aside)
    seals.mkdir()
    for _ in range(3):
        clocks.advance(60)
        writer.write(entries(1))
        assert writer.run_maintenance() == 60.0
    assert [(record.name, record.levelno) for record in caplog.records] == [("toolcrib", logging.WARNING)]
    assert caplog.messages[0].startswith(f"audit: cannot write a checkpoint to {seals}: ")
    seals.rmdir()
    aside.rename(seals)
    clocks.advance(60)
    writer.run_maintenance()
    assert sealed_numbers(path) == [0, 5]
    writer.close()
    assert verify(path).is_sound


# --- checkpoints as lines ---


def test_a_checkpoint_is_only_what_the_key_has_sealed() -> None:
    made = Checkpoint("pruned", 7, "a" * 64, 5, "2026-05-04T10:00:00.000Z", 99)
    line = made.to_line(SECRET)
    assert parse_checkpoint(line, SECRET) == parse_checkpoint(line, None) == made
    assert parse_checkpoint(line, AuditKey(b"x" * 32)) is None
    changed = line.replace(b'"seq":7', b'"seq":8')
    assert parse_checkpoint(changed, SECRET) is None
    assert parse_checkpoint(changed, None) is not None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[1",
        b'{"kind":"checkpoint"',
        b'{"kind":"other","seq":1,"hash":"","count":1,"at":"","clock":1',
        b'{"kind":"checkpoint","seq":true,"hash":"","count":1,"at":"","clock":1',
        b'{"kind":"checkpoint","seq":1,"hash":5,"count":1,"at":"","clock":1',
        b'{"kind":"checkpoint","seq":1,"hash":"","count":1,"at":5,"clock":1',
        b'{"kind":"checkpoint","seq":1,"hash":"","count":1,"at":"","clock":1.5',
        b'{"kind":"checkpoint","seq":1,"hash":"","count":1,"at":"","clock":1,"good":"x"',
        b'{"kind":"checkpoint","seq":1,"hash":"","count":1,"at":"","clock":1,"good_hash":1',
        b'{"kind":"checkpoint","seq":1,"hash":"","count":1,"at":"","clock":1,"more":1',
    ],
)
def test_lines_that_make_no_sense_are_no_checkpoints(body: bytes) -> None:
    assert parse_checkpoint(body + b',"mac":"' + SECRET.seal(body) + b'"}', SECRET) is None


# --- a clock that does not jump ---


def test_the_clock_follows_the_wall_but_does_not_jump_with_it() -> None:
    clocks = ManualClocks()
    clock = SteadyClock(clocks.wall, clocks.now, None, None)
    assert clock.read() == NOON
    clocks.advance(10)
    assert clock.read() == NOON + 10
    clocks.wall_s += 365 * DAY_S
    assert clock.read() == NOON + 10
    clocks.advance(100)
    assert clock.read() == NOON + 210  # twice as fast, until it has caught up
    clocks.wall_s = NOON - DAY_S
    clocks.advance(100)
    assert clock.read() == NOON + 210
    clocks.now_s -= 50
    assert clock.read() == NOON + 210
    clocks.wall_s = NOON + 1000
    clocks.advance(1000)
    assert clock.read() == NOON + 2000


@pytest.mark.parametrize(
    ("away_s", "keep_days", "gained_s"),
    [
        (3600, None, 3600),
        (10 * DAY_S, None, DAY_S),
        (10 * DAY_S, 5, DAY_S),
        (10 * DAY_S, 30, 3 * DAY_S),
        (-10 * DAY_S, 30, 0),
    ],
)
def test_over_a_restart_the_clock_gains_little(away_s: float, keep_days: int | None, gained_s: float) -> None:
    clocks = ManualClocks()
    clocks.wall_s += away_s
    assert SteadyClock(clocks.wall, clocks.now, NOON, keep_days).read() == NOON + gained_s


def test_a_record_expires_with_the_first_old_checkpoint_after_it() -> None:
    def mark(seq: int, clock: float, kind: Any = "checkpoint", at: float = 0.0) -> Checkpoint:
        return Checkpoint(kind, seq, "a" * 64, seq, format_time(at or clock), int(clock))

    old, young = NOON - 10 * DAY_S - 1, NOON - 10 * DAY_S
    marks = [mark(1, old), mark(3, young)]
    assert expired_through(marks, 10, NOON, NOON) == 1
    assert expired_through([*marks, mark(4, old)], 10, NOON, NOON) == 4
    others = [mark(5, old, "pruned")]
    assert expired_through([*marks, *others], 10, NOON, NOON) == 1
    assert expired_through([], 10, NOON, NOON) == 0
    assert expired_through([*marks, mark(4, old, at=young)], 10, NOON, NOON) == 1  # old by one clock only
    assert expired_through(marks, 1_000_000, NOON, NOON) == 0


# --- the end of old records ---


def tend_all(writer: RecordWriter) -> None:
    while writer.run_maintenance() == 0.0:
        pass


def test_only_so_many_records_are_kept(tmp_path: Path) -> None:
    clocks = ManualClocks()
    path = tmp_path / "audit.db"
    writer = make_writer(path, clocks, keep_records=1000)
    for _ in range(13):
        writer.write(entries(1000))
    writer.run_maintenance()
    assert len(read_lines(path)) == 13_001
    clocks.advance(60)
    tend_all(writer)
    verdict = verify(path)
    assert verdict.is_sound
    assert (verdict.first_seq, verdict.last_seq, verdict.records) == (12_002, 13_002, 1001)
    assert verdict.pruned_before == 12_002
    (word,) = [record for record in open_log(path).records() if record["kind"] == "pruned"]
    assert (word["through"], word["removed"], word["seq"]) == (12_001, 12_001, 13_002)
    clocks.advance(60)
    tend_all(writer)
    assert verify(path).first_seq == 12_002  # few are not worth it
    writer.close()
    again = make_writer(path, clocks)
    again.write(entries(1))
    again.close()
    assert verify(path).is_sound


def test_a_removal_without_a_checkpoint_is_found(tmp_path: Path) -> None:
    clocks = ManualClocks()
    path = tmp_path / "audit.db"
    writer = make_writer(path, clocks, keep_records=1000)
    writer.write(entries(2000))
    clocks.advance(60)
    tend_all(writer)
    writer.close()
    assert verify(path).is_sound
    replace_lines(path, read_lines(path)[1:])
    assert kinds(path) == ["missing"]
    assert verify(path).pruned_before is None
    assert verify(path).problems[0].words == "records 1 to 1002 are missing"


def test_old_records_are_removed(tmp_path: Path) -> None:
    clocks = ManualClocks()
    path = tmp_path / "audit.db"
    writer = make_writer(path, clocks, keep_days=10)
    for day in range(14):
        writer.write(entries(10, start=day * 10, wall=clocks.wall_s))
        clocks.advance(DAY_S)
        tend_all(writer)
        assert verify(path).is_sound
    tools = [record for record in open_log(path).records() if record["kind"] == "call"]
    oldest = min(record["at"] for record in tools)
    assert oldest == "2026-05-07T10:00:00.000Z"
    assert len(tools) >= 100
    writer.close()
    assert verify(path).is_sound


def test_a_clock_that_is_a_year_ahead_removes_nothing(tmp_path: Path) -> None:
    clocks = ManualClocks()
    path = tmp_path / "audit.db"
    writer = make_writer(path, clocks, keep_days=30)
    for _ in range(3):
        writer.write(entries(10))
        clocks.advance(3600)
        tend_all(writer)
    clocks.wall_s += 365 * DAY_S
    for _ in range(5):
        writer.write(entries(10, wall=clocks.wall_s))
        clocks.advance(3600)
        tend_all(writer)
    writer.close()
    for _ in range(3):  # nor does it when the server is started again
        writer = make_writer(path, clocks, keep_days=30)
        writer.write(entries(1, wall=clocks.wall_s))
        clocks.advance(3700)
        tend_all(writer)
        writer.close()
    assert verify(path).first_seq == 1
    clocks.wall_s -= 2 * 365 * DAY_S
    writer = make_writer(path, clocks, keep_days=30)
    writer.write(entries(1, wall=clocks.wall_s))
    clocks.advance(3700)
    tend_all(writer)
    writer.close()
    verdict = verify(path)
    assert verdict.is_sound
    assert verdict.first_seq == 1
    ats = [record["at"] for record in open_log(path).records()]
    assert ats != sorted(ats)
    assert [record["seq"] for record in open_log(path).records()] == list(range(1, len(ats) + 1))


def test_checkpoints_of_removed_records_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "_RECENT", 20)
    clocks = ManualClocks()
    path = tmp_path / "audit.db"
    writer = make_writer(path, clocks, keep_records=1000)
    for _ in range(50):
        writer.write(entries(60))
        clocks.advance(60)
        writer.run_maintenance()
    assert len(sealed_numbers(path)) < 70  # there were 50 checkpoints, and 30 removals
    writer.close()
    assert verify(path).is_sound
    assert min(sealed_numbers(path)) > 1


def said(path: Path) -> list[str]:
    return [record["kind"] for record in records(path)]


def refuse(*_: Any, **__: Any) -> Any:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("count", [0, 3])
def test_nothing_is_due_where_nothing_was_written(tmp_path: Path, count: int) -> None:
    path, clocks = tmp_path / "audit.db", ManualClocks()
    if count:
        make_log(path, count)
    writer = make_writer(path, clocks)
    writer.open()
    before = sealed(path)
    assert writer.run_maintenance() is None
    clocks.advance(3600)
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


def test_only_the_first_record_has_the_id_of_the_log(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 1)
    make_log(path, 1)
    names = [record.get("log", "") for record in records(path)]
    assert names[1:] == [""] * 5
    assert bytes.fromhex(names[0]).hex() == names[0]
    assert len(names[0]) == 16


def test_a_gap_is_recorded_without_another_record(tmp_path: Path) -> None:
    writer = make_writer(tmp_path / "audit.db")
    writer.write(entries(1))
    writer.gap.add(late=1, lost=2)
    writer.run_maintenance()
    assert gap_counts(tmp_path / "audit.db") == [(1, 2)]
    writer.release()


def test_own_records_that_were_written_despite_a_failure_are_not_repeated(
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


def test_a_database_restored_from_a_copy_is_written_again(tmp_path: Path) -> None:
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


def test_failing_maintenance_releases_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = ManualClocks()
    writer = make_writer(tmp_path / "audit.db", clocks)
    writer.write(entries(1))
    clocks.advance(60)
    with monkeypatch.context() as patch:
        patch.setattr(SQLiteStore, "sync", refuse)
        with pytest.raises(OSError, match="Input/output error"):
            writer.run_maintenance()
        assert writer.run_maintenance() is None  # nothing is open, until there is a record again
    writer.write(entries(1, start=2))
    writer.close()
    assert verify(tmp_path / "audit.db").is_sound


def test_every_time_that_checkpoints_begin_to_fail_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, clocks = tmp_path / "audit.db", ManualClocks()
    writer = make_writer(path, clocks)
    writer.write(entries(1))
    aside = tmp_path / "aside"
    for times in (1, 2):
        seals(path).rename(aside)
        seals(path).mkdir()
        for _ in range(2):
            clocks.advance(60)
            writer.write(entries(1))
            writer.run_maintenance()
        assert len(caplog.messages) == times
        seals(path).rmdir()
        aside.rename(seals(path))
        clocks.advance(60)
        writer.run_maintenance()
    writer.close()
    words = f"audit: cannot write a checkpoint to {seals(path)}: "
    assert [message.startswith(words) for message in caplog.messages] == [True, True]


def test_a_failed_close_keeps_only_unreported_gaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_log_without_our_last_record_is_not_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    writer = make_writer(path)
    cut(path, writer)
    writer.release()
    with pytest.raises(DamagedError, match="record 4 is missing at the end"):
        writer.open()


def test_our_last_record_is_sealed_once_when_it_is_gone(tmp_path: Path) -> None:
    path, clocks = tmp_path / "audit.db", ManualClocks()
    writer = make_writer(path, clocks, keep_records=1000)
    writer.write(entries(1200))
    clocks.advance(60)
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


def calls_failing(path: Path) -> list[str]:
    return [record["id"] for record in open_log(path).records() if record["kind"] == "call"]


@pytest.mark.parametrize("is_new", [False, True])
def test_rows_committed_despite_a_failure_are_not_repeated(
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
    assert calls_failing(path) == [f"c{number}" for number in range(first, 8)]
    assert writer.records == len(read_lines(path))
    assert verify(path).is_sound


@pytest.mark.parametrize("others", [0, 2])
def test_rows_of_others_are_not_mistaken_for_ours(
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
    assert calls_failing(path) == ["c1", "c2", *["c1", "c2"][:others], "c3", "c4", "c5"]
    assert verify(path).is_sound


def test_the_last_record_is_kept(tmp_path: Path) -> None:
    make_log(tmp_path / "audit.db", 5)
    store = SQLiteStore(tmp_path / "audit.db", sync=False, wait_s=1)
    store.remove_through(0)
    assert store.first_seq() == 1
    store.remove_through(6)
    assert store.first_seq() == 7
    store.remove_through(7)
    assert store.first_seq() == 7
    store.close()


def test_an_unwritable_database_is_a_permission_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 1)
    monkeypatch.setattr("toolcrib.policy.audit.store.os.access", lambda *_: False)
    with pytest.raises(PermissionError) as caught:
        make_writer(path).open()
    assert (caught.value.errno, caught.value.filename) == (errno.EACCES, str(path))


def test_releasing_a_broken_store_does_not_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = make_writer(tmp_path / "audit.db")
    writer.write(entries(1))
    with monkeypatch.context() as patch:
        patch.setattr(SQLiteStore, "close", refuse)
        writer.release()
    writer.write(entries(1, start=2))
    writer.close()
    assert calls_failing(tmp_path / "audit.db") == ["c1", "c2"]


async def test_a_failing_close_is_logged(
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
    assert calls_failing(tmp_path / "audit.db") == ["c1", *(f"n{number}" for number in range(1, 9))]


def test_what_another_process_writes_meanwhile_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = ManualClocks()
    path = tmp_path / "audit.db"
    ours, theirs = (make_writer(path, clocks, keep_records=1_000) for _ in range(2))
    ours.write(entries(3_000))
    theirs.write(entries(1))
    make_checkpoint = ours._checkpoint

    def interrupted(*facts: Any) -> Any:
        theirs.write(entries(1))
        return make_checkpoint(*facts)

    monkeypatch.setattr(ours, "_checkpoint", interrupted)
    clocks.advance(RETENTION_S + 1)
    ours.run_maintenance()  # used to raise: the database is locked
    monkeypatch.undo()
    ours.close()
    theirs.close()
    verdict = verify(path)
    assert verdict.is_sound
    assert verdict.pruned_before is not None


def test_every_gap_begins_with_its_first_record() -> None:
    clocks = ManualClocks()
    gap = GapCounter(clocks.wall)
    assert (gap.is_unreported, gap.report()) == (False, None)
    gap.add(late=1)
    clocks.advance(60)
    gap.add(late=2, lost=1)
    clocks.advance(60)
    assert gap.is_unreported
    assert gap.report() == {"kind": "gap", "since": "2026-05-04T10:00:00.000Z", "late": 3, "lost": 1}
    assert (gap.is_unreported, gap.report()) == (False, None)
    clocks.advance(60)
    gap.add(lost=1)
    clocks.advance(60)
    gap.add(lost=1)
    assert gap.report() == {"kind": "gap", "since": "2026-05-04T10:03:00.000Z", "late": 0, "lost": 2}
    assert (gap.late, gap.lost) == (3, 3)
