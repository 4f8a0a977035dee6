"""RecordWriter: streams, checks at the start, checkpoints, retention, and writing again after failures."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Callable
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
    make_audit,
    make_log,
    make_writer,
    read_lines,
    read_streams,
    records,
    refusal,
    replace_lines,
    restamp,
    sealed,
    seals,
    verify,
)
from toolcrib.policy.audit import AuditLog, open_log
from toolcrib.policy.audit.checkpoints import CheckpointFile, Checkpoints
from toolcrib.policy.audit.record import Entry, encode_entry
from toolcrib.policy.audit.writer import (
    FOREIGN_CHECKPOINTS,
    NO_CHECKPOINT,
    RETENTION_S,
    GapCounter,
    RecordWriter,
)
from toolcrib.state.base import StateDamaged, StateUnavailable
from toolcrib.state.sqlite.audit import SQLiteAudit

DAY_S = 86_400


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.db"


@pytest.fixture
def clocks() -> ManualClocks:
    return ManualClocks()


def fail(*_: Any, **__: Any) -> Any:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def said(path: Path) -> list[str]:
    return [record["kind"] for record in records(path)]


def spread(count: int, clocks: ManualClocks, start: int = 1) -> list[Entry]:
    """Calls, one in each millisecond."""
    found = []
    for number in range(start, start + count):
        clocks.advance(0.001)
        found += entries(1, number, clocks.wall_s)
    return found


# --- streams ---


def test_every_run_of_a_writer_is_a_stream(path: Path) -> None:
    make_log(path, 2)
    make_log(path, 1)
    first, second = read_streams(path)
    assert [(each["stream"], each["seq"], each["kind"]) for each in records(path)] == [
        *((first, 1, "opened"), (first, 2, "call"), (first, 3, "call"), (first, 4, "closed")),
        *((second, 1, "opened"), (second, 2, "call"), (second, 3, "closed")),
    ]
    assert records(path)[0] | {"at": "", "hash": ""} == {
        "seq": 1,
        "stream": first,
        "at": "",
        "kind": "opened",
        "server": "shop",
        "process": os.getpid(),
        "hash": "",
    }


def test_a_writer_that_is_used_again_begins_another_stream(path: Path) -> None:
    writer = make_writer(path)
    for _ in range(2):
        writer.write(entries(1))
        writer.close()
    assert len(read_streams(path)) == 2
    assert verify(path).is_sound


def test_processes_write_one_file_at_once(path: Path, clocks: ManualClocks) -> None:
    writers = [make_writer(path, clocks) for _ in range(4)]
    for number in range(20):
        for writer in writers:
            writer.write(entries(1, number))
        clocks.advance(30)
        for writer in writers:
            writer.run_maintenance()
    assert verify(path).is_sound
    for writer in writers[:3]:
        writer.close()
    writers[3].release()  # it was killed
    verdict = verify(path)
    assert (verdict.is_sound, verdict.streams, verdict.records) == (True, 4, 4 * 21 + 3)
    make_log(path, 1)  # seals what the killed one could not
    assert verify(path).unsealed == 0


# --- a start ---


def edit(lines: list[bytes]) -> list[bytes]:
    return [line.replace(b'"c4"', b'"d4"') for line in lines]


DAMAGE: dict[str, tuple[Callable[[list[bytes]], list[bytes]], str]] = {
    "edited": (edit, "record 5 of stream {} does not match"),
    "deleted": (lambda lines: [*lines[:4], *lines[5:]], "record 5 of stream {} is missing"),
    "swapped": (lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]], "record 5 of stream {} is"),
    "doubled": (lambda lines: [*lines[:5], *lines[4:]], "record 6 of stream {} is unreadable"),
    "garbage": (lambda lines: [*lines[:4], b"garbage", *lines[5:]], "record 5 of stream {} is unreadable"),
    "garbage at the end": (lambda lines: [*lines, b"garbage"], "of stream {} is unreadable"),
}


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_refused_and_left_as_it_is(path: Path, kind: str, is_closed: bool) -> None:
    make_log(path, 10, is_closed=is_closed)
    change, words = DAMAGE[kind]
    replace_lines(path, change(read_lines(path)))
    before = read_lines(path)
    assert words.format(read_streams(path)[0]) in str(refusal(path))
    assert read_lines(path) == before
    assert not verify(path).is_sound


def test_records_that_are_gone_or_were_computed_anew_are_refused(path: Path) -> None:
    make_log(path, 10)
    [stream], lines = read_streams(path), read_lines(path)
    replace_lines(path, lines[:7])
    assert str(refusal(path)) == f"records 8 to 12 of stream {stream} are missing at the end"
    replace_lines(path, restamp(edit(lines)))
    assert not verify(path).is_sound
    refusal(path)
    path.unlink()
    assert str(refusal(path)) == f"records 1 to 12 of stream {stream} are missing at the end"


def test_a_log_without_its_checkpoints_is_refused(path: Path) -> None:
    make_log(path, 10)
    seals(path).unlink()
    for _ in range(2):
        assert str(refusal(path)) == NO_CHECKPOINT


def test_checkpoints_of_another_key_are_refused(path: Path) -> None:
    make_log(path, 10)
    path.with_name("audit.db.key").write_text("another key that is long enough to be one\n")
    assert str(refusal(path)) == FOREIGN_CHECKPOINTS
    path.unlink()
    assert str(refusal(path)) == FOREIGN_CHECKPOINTS
    path.unlink()
    seals(path).unlink()
    make_log(path, 1)  # moved away with its checkpoints: a new log
    assert verify(path).is_sound


def test_a_checkpoint_that_was_taken_out_is_refused(path: Path) -> None:
    make_log(path, 10)
    make_log(path, 10)
    lines = seals(path).read_bytes().splitlines(keepends=True)
    seals(path).write_bytes(b"".join([lines[0], *lines[2:]]))
    assert str(refusal(path)) == FOREIGN_CHECKPOINTS
    assert kinds(path) == ["forged"]


def test_a_log_that_was_never_closed_is_opened_again(path: Path) -> None:
    make_log(path, 25, is_closed=False)
    assert verify(path).unsealed == 26
    seals(path).write_bytes(seals(path).read_bytes() + b'{"half of')
    make_log(path, 1)
    assert (verify(path).is_sound, verify(path).unsealed) == (True, 0)


def test_of_a_long_log_only_what_came_after_the_checkpoints_is_checked(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.policy.audit.writer.FULL_CHECK_RECORDS", 31)
    make_log(path, 30)
    make_log(path, 8, is_closed=False)
    first, second = read_lines(path), read_lines(path, 2)
    replace_lines(path, edit(first))
    replace_lines(path, edit(second), 2)
    assert read_streams(path)[1] in str(refusal(path))
    replace_lines(path, second, 2)
    make_log(path, 1)  # takes no time, however long the log is
    assert kinds(path) == ["edited"]
    replace_lines(path, first[:-1])
    assert str(refusal(path)).endswith("missing at the end")


def test_records_that_another_process_removes_meanwhile_are_not_damage(
    path: Path, clocks: ManualClocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = make_writer(path, clocks, keep_records=1_000)
    theirs.write(spread(3_000, clocks))
    clocks.advance(RETENTION_S + 1)
    ours, read = make_writer(path, clocks), CheckpointFile.read

    def interrupted(file: CheckpointFile) -> Checkpoints:
        found = read(file)
        monkeypatch.setattr(CheckpointFile, "read", read)
        theirs.run_maintenance()
        return found

    monkeypatch.setattr(CheckpointFile, "read", interrupted)
    ours.start()
    assert verify(path).removed > 1_000
    ours.close()
    theirs.close()
    assert verify(path).is_sound


# --- checkpoints ---


def last_seals(path: Path) -> list[int]:
    """Return the record that each checkpoint seals, 0 for none."""
    return [max((head.seq for head in each.heads.values()), default=0) for each in sealed(path)]


def test_a_checkpoint_comes_after_a_minute_and_only_if_there_is_something_new(
    path: Path, clocks: ManualClocks
) -> None:
    writer = make_writer(path, clocks)
    assert writer.run_maintenance() is None
    writer.start()
    assert last_seals(path) == [0, 1]  # the first record at once
    writer.write(entries(3))
    assert writer.run_maintenance() == 60.0
    clocks.advance(59.5)
    assert writer.run_maintenance() == 0.5
    assert last_seals(path) == [0, 1]
    clocks.advance(0.5)
    assert writer.run_maintenance() is None
    assert last_seals(path) == [0, 1, 4]
    clocks.advance(600)
    assert writer.run_maintenance() is None
    writer.write(entries(1))
    writer.run_maintenance()
    assert last_seals(path) == [0, 1, 4, 5]
    writer.close()
    assert last_seals(path) == [0, 1, 4, 5, 6]


def test_a_thousand_records_are_sealed_sooner_but_not_twice_in_a_second(
    path: Path, clocks: ManualClocks
) -> None:
    writer = make_writer(path, clocks)
    writer.start()
    writer.write(entries(999))
    clocks.advance(1)
    writer.run_maintenance()
    assert last_seals(path) == [0, 1]
    writer.write(entries(1))
    writer.run_maintenance()
    writer.write(entries(1500))
    assert writer.run_maintenance() == 1.0
    assert last_seals(path) == [0, 1, 1001]
    clocks.advance(1)
    writer.run_maintenance()
    assert last_seals(path) == [0, 1, 1001, 2501]
    writer.close()


def test_records_are_written_although_checkpoints_cannot_be(
    path: Path, clocks: ManualClocks, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    writer = make_writer(path, clocks)
    writer.write(entries(1))
    for times in (1, 2):  # each time that it begins is logged
        seals(path).rename(tmp_path / "aside")
        seals(path).mkdir()
        for _ in range(2):
            clocks.advance(60)
            writer.write(entries(1))
            assert writer.run_maintenance() == 60.0
        assert len(caplog.messages) == times
        seals(path).rmdir()
        (tmp_path / "aside").rename(seals(path))
        clocks.advance(60)
        writer.run_maintenance()
    writer.close()
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    assert caplog.messages[0].startswith(f"audit: cannot write a checkpoint to {seals(path)}: ")
    assert verify(path).is_sound


def test_checkpoints_may_be_kept_elsewhere(path: Path, tmp_path: Path) -> None:
    elsewhere, key = tmp_path / "safe" / "seals", tmp_path / "safe" / "key"
    make_log(path, 3, checkpoints=elsewhere, key_file=key)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["audit.db", "safe"]
    assert open_log(path, key, elsewhere).verify().unsealed == 0
    verdict = open_log(path).verify()
    assert (verdict.is_sound, verdict.is_keyed, verdict.checkpoints_checked) == (True, False, 0)


# --- retention ---


def tend(writer: RecordWriter, clocks: ManualClocks, seconds: float = RETENTION_S) -> None:
    clocks.advance(seconds)
    while writer.run_maintenance() == 0.0:
        pass


def test_only_so_many_records_are_kept(path: Path, clocks: ManualClocks) -> None:
    writer = make_writer(path, clocks, keep_records=1000)
    writer.write(spread(3000, clocks))
    writer.run_maintenance()
    assert verify(path).records == 3001
    for _ in range(3):  # each time at least nine of ten
        tend(writer, clocks)
    verdict = verify(path)
    assert verdict.is_sound
    assert 1000 <= verdict.records <= 1010 + 3
    assert calls(path)[-1] == "c3000"
    assert calls(path) == [f"c{number}" for number in range(3001 - len(calls(path)), 3001)]
    found = [record["removed"] for record in records(path) if record["kind"] == "pruned"]
    assert sum(found) == verdict.removed
    before = verify(path).removed
    tend(writer, clocks)
    assert verify(path).removed == before  # the record of a removal causes no other
    writer.close()
    make_log(path, 1)
    assert verify(path).is_sound


def test_the_oldest_records_of_all_streams_are_removed(path: Path, clocks: ManualClocks) -> None:
    writers = [make_writer(path, clocks, keep_records=1000) for _ in range(2)]
    for number in range(900):
        for writer in writers:
            writer.write(spread(1, clocks, number))
    for _ in range(3):
        tend(writers[0], clocks)
    verdict = verify(path)
    assert verdict.is_sound
    assert verdict.records < 1050
    assert {calls(path).count(f"c{number}") for number in range(420, 900)} == {2}
    for writer in writers:
        writer.close()


def test_a_removal_without_a_checkpoint_is_found(path: Path, clocks: ManualClocks) -> None:
    writer = make_writer(path, clocks, keep_records=1000)
    writer.write(spread(2000, clocks))
    tend(writer, clocks)
    writer.close()
    assert verify(path).is_sound
    replace_lines(path, read_lines(path)[1:])
    assert kinds(path) == ["missing"]


def test_old_records_are_removed_but_the_last_one_stays(path: Path, clocks: ManualClocks) -> None:
    make_log(path, 5)
    writer = make_writer(path, clocks, keep_days=10)
    for day in range(14):
        writer.write(entries(10, start=day * 10, wall=clocks.wall_s))
        for _ in range(24):
            tend(writer, clocks, 3600)
    assert verify(path).is_sound
    assert records(path)[0]["kind"] == "closed"  # the last record of the first stream
    oldest = min(record["at"] for record in records(path) if record["kind"] == "call")
    assert oldest == "2026-05-08T10:00:00.000Z"
    writer.close()
    assert verify(path).is_sound


def test_a_wrong_clock_does_not_empty_the_log(path: Path, clocks: ManualClocks) -> None:
    writer = make_writer(path, clocks, keep_days=30)
    writer.write(spread(1000, clocks))
    clocks.wall_s += 365 * DAY_S
    for _ in range(60):
        tend(writer, clocks, 60)
    assert verify(path).records > 940  # a twentieth in an hour
    clocks.wall_s -= 365 * DAY_S
    before = verify(path).removed
    for _ in range(5):
        tend(writer, clocks, 3600)
    assert verify(path).removed == before
    writer.close()
    assert verify(path).is_sound


def test_records_are_removed_in_batches_that_a_kill_may_interrupt(
    path: Path, clocks: ManualClocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.policy.audit.writer.REMOVE_BATCH", 100)
    writer = make_writer(path, clocks, keep_records=1000)
    writer.write(spread(1600, clocks))
    clocks.advance(60)
    assert writer.run_maintenance() == 0.0
    assert (verify(path).records, verify(path).is_sound) == (1501, True)
    writer.write(entries(1, wall=clocks.wall_s))  # calls do not wait for the rest
    writer.release()
    again = make_writer(path, clocks, keep_records=1000)
    again.start()
    assert verify(path).is_sound
    tend(again, clocks)
    assert (verify(path).records < 1080, verify(path).is_sound) == (True, True)
    again.close()


def test_nothing_is_removed_that_no_checkpoint_covers(
    path: Path, clocks: ManualClocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = make_writer(path, clocks, keep_records=1000)
    writer.write(spread(2000, clocks))
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointFile, "add", fail)
        tend(writer, clocks)
    assert verify(path).records == 2001
    tend(writer, clocks)
    assert verify(path).removed > 900
    writer.close()
    assert verify(path).is_sound


# --- failures ---


@pytest.mark.parametrize("is_written", [False, True])
def test_what_is_in_doubt_is_written_again_and_never_twice(
    path: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    writer, append = make_writer(path), SQLiteAudit.append

    async def write_and_fail(self: SQLiteAudit, *given: Any) -> None:
        if is_written:
            await append(self, *given)
        raise StateUnavailable("not now", in_doubt=True)

    with monkeypatch.context() as patch:
        patch.setattr(SQLiteAudit, "append", write_and_fail)
        for number in (1, 2):
            with pytest.raises(StateUnavailable, match="not now"):
                writer.write(entries(1, number))
    writer.write(entries(1, 3))
    writer.close()
    assert said(path) == ["opened", "call", "call", "call", "closed"]
    assert writer.records == 5
    assert verify(path).is_sound


def test_failing_maintenance_releases_the_store(
    path: Path, clocks: ManualClocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = make_writer(path, clocks)
    writer.write(entries(1))
    clocks.advance(60)
    with monkeypatch.context() as patch:
        patch.setattr(SQLiteAudit, "flush", fail)
        with pytest.raises(OSError, match="Input/output error"):
            writer.run_maintenance()
        assert writer.run_maintenance() is None  # nothing is open, until there is a record again
    writer.write(entries(1, start=2))
    writer.close()
    assert verify(path).is_sound


def test_a_failing_check_of_the_file_is_not_damage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = make_writer(path)
    writer.write(entries(3))
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", fail)
        with pytest.raises(OSError, match="Input/output error"):
            writer.check_file()
    writer.write(entries(1, start=4))
    writer.close()
    assert verify(path).is_sound


def test_a_gap_is_recorded_once_even_if_the_log_was_closed_meanwhile(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = make_writer(path)
    writer.write(entries(1))
    writer.gap.add(late=1, lost=2)
    writer.run_maintenance()
    assert gap_counts(path) == [(1, 2)]
    writer.gap.add(lost=1)
    with monkeypatch.context() as patch:
        patch.setattr(SQLiteAudit, "append", fail)
        with pytest.raises(OSError, match="Input/output error"):
            writer.close()
    writer.write(entries(1))
    writer.close()
    assert gap_counts(path) == [(1, 2), (0, 1)]
    assert said(path) == ["opened", "call", "gap", "opened", "gap", "call", "closed"]


def test_every_gap_begins_with_its_first_record(clocks: ManualClocks) -> None:
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
    assert gap.report() == {"kind": "gap", "since": "2026-05-04T10:03:00.000Z", "late": 0, "lost": 1}
    assert (gap.late, gap.lost) == (3, 2)


async def test_a_failing_close_is_logged(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, logs: list[AuditLog]
) -> None:
    log = make_audit(logs, path)
    assert await log.commit({"id": "c1"})
    with monkeypatch.context() as patch:
        patch.setattr(RecordWriter, "close", fail)
        await log.close()
    assert "audit: closing the log failed: [Errno 5] Input/output error" in caplog.text


# --- a log that is deleted or changed while it is written ---


def delete(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)


def replace(path: Path) -> None:
    other = path.with_name("other") / "audit.db"
    make_log(other, 2)
    delete(path)
    other.rename(path)


def restore(path: Path) -> None:
    copy = path.with_name("copy")
    shutil.copy(path, copy)
    delete(path)
    copy.rename(path)


def cut(path: Path) -> None:
    replace_lines(path, read_lines(path)[:-1])


def compute_anew(path: Path) -> None:
    replace_lines(path, restamp([line.replace(b"ana", b"bob") for line in read_lines(path)]))


@pytest.mark.parametrize("damage", [delete, replace, restore, cut, compute_anew])
def test_a_log_that_was_deleted_or_changed_is_sealed_and_not_continued(
    path: Path, damage: Callable[[Path], None]
) -> None:
    writer = make_writer(path)
    writer.start()
    writer.write(entries(3))
    last = read_lines(path)[-1]
    assert last_seals(path) == [0, 1]
    damage(path)
    for _ in range(2):
        with pytest.raises(StateDamaged, match=r"was (deleted|replaced|changed or removed)"):
            writer.write(entries(1, start=4))
    assert writer.damage is not None
    assert last_seals(path) == [0, 1, 4]  # nobody but this process knows that there was a fourth
    assert next(iter(sealed(path)[-1].heads.values())).hash == last[-66:-2]
    assert path.exists() == (damage is not delete)
    writer.release()
    if path.exists():
        assert "c4" not in calls(path)
    assert not verify(path).is_sound
    refusal(path)


def test_damage_is_noticed_without_a_record(path: Path) -> None:
    writer = make_writer(path)
    writer.check_file()  # nothing is open yet
    writer.start()
    writer.check_file()
    delete(path)
    with pytest.raises(StateDamaged, match="the log file was deleted"):
        writer.check_file()


def test_damage_of_sealed_records_needs_no_other_checkpoint(path: Path, clocks: ManualClocks) -> None:
    writer = make_writer(path, clocks)
    writer.write(entries(3))
    clocks.advance(3600)
    writer.run_maintenance()
    before = seals(path).read_bytes()
    cut(path)
    with pytest.raises(StateDamaged):
        writer.write(entries(1, 4))
    assert seals(path).read_bytes() == before


def test_a_failing_checkpoint_is_logged_besides_the_damage(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writer = make_writer(path)
    writer.write(entries(3))
    seals(path).unlink()
    seals(path).mkdir()
    cut(path)
    with pytest.raises(StateDamaged, match="was changed or removed"):
        writer.write(entries(1, 4))
    assert caplog.messages[0].startswith(f"audit: cannot write a checkpoint to {seals(path)}: ")


def test_a_writer_that_was_closed_accepts_a_new_log(path: Path) -> None:
    writer = make_writer(path)
    writer.write(entries(3))
    delete(path)
    with pytest.raises(StateDamaged):
        writer.close()
    with pytest.raises(StateDamaged, match="missing at the end"):
        writer.open()
    writer.close()
    seals(path).unlink()
    writer.write([encode_entry(NOON, {"id": "new"})])
    writer.close()
    assert calls(path) == ["new"]
    assert verify(path).is_sound
