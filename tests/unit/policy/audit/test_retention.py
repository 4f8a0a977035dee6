"""Retention: old records are removed in batches, sealed and reported."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.support.records.audit_logs import (
    ManualClocks,
    calls,
    entries,
    make_writer,
    read_lines,
    records,
    sealed,
    verify,
)
from toolcrib.policy.audit import checkpoints as checkpoint
from toolcrib.policy.audit.record import encode_entry, read_head
from toolcrib.policy.audit.store import open_snapshot
from toolcrib.policy.audit.writer import DAY_S, RecordWriter


def words(path: Path) -> list[tuple[int, int]]:
    said = [record for record in records(path) if record["kind"] == "pruned"]
    return [(record["through"], record["removed"]) for record in said]


def wait_a_minute(writer: RecordWriter, clocks: ManualClocks) -> None:
    clocks.advance(60)
    while writer.run_maintenance() == 0.0:
        pass


def test_the_last_record_stays_however_old_it_is(tmp_path: Path) -> None:
    path, clocks = tmp_path / "audit.db", ManualClocks()
    writer = make_writer(path, clocks, keep_days=1)
    writer.write(entries(10))
    wait_a_minute(writer, clocks)
    clocks.advance(2 * DAY_S)
    wait_a_minute(writer, clocks)
    verdict = verify(path)
    assert verdict.is_sound
    assert (verdict.first_seq, verdict.last_seq, verdict.pruned_before) == (11, 12, 11)
    writer.close()


def test_restarts_with_a_wrong_date_that_was_corrected_remove_nothing(tmp_path: Path) -> None:
    path, clocks = tmp_path / "audit.db", ManualClocks()
    make_writer(path, clocks, keep_days=2).start()
    clocks.wall_s += 365 * DAY_S
    for _ in range(5):  # each restart may advance the steady clock by a day
        writer = make_writer(path, clocks)
        writer.start()
        writer.close()
    clocks.wall_s -= 365 * DAY_S
    writer = make_writer(path, clocks, keep_days=2)
    writer.start()
    wait_a_minute(writer, clocks)
    assert verify(path).first_seq == 1
    writer.close()


def test_a_single_old_record_is_removed(tmp_path: Path) -> None:
    path, clocks = tmp_path / "audit.db", ManualClocks()
    writer = make_writer(path, clocks, keep_days=1)
    writer.write(())
    wait_a_minute(writer, clocks)
    clocks.advance(2 * DAY_S)
    writer.write(entries(3, wall=clocks.wall_s))
    wait_a_minute(writer, clocks)
    assert words(path) == [(1, 1)]
    assert verify(path).first_seq == 2
    writer.close()


def test_the_record_of_a_removal_causes_no_other_removal(tmp_path: Path) -> None:
    path, clocks = tmp_path / "audit.db", ManualClocks()
    writer = make_writer(path, clocks, keep_records=1000)
    writer.write(entries(1199))
    for _ in range(30):
        wait_a_minute(writer, clocks)
    assert words(path) == [(200, 200)]
    assert len(calls(path)) == 1000
    writer.write(entries(8))
    wait_a_minute(writer, clocks)
    assert verify(path).records == 1009
    writer.write(entries(1))
    wait_a_minute(writer, clocks)
    assert verify(path).records == 1001  # it, and the word of it
    writer.close()


def test_records_are_removed_in_sealed_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.policy.audit.writer.REMOVE_BATCH", 6)
    path, clocks = tmp_path / "audit.db", ManualClocks()
    writer = make_writer(path, clocks, keep_records=1000)
    writer.write(entries(1019))
    clocks.advance(60)
    firsts = []
    while not words(path):
        writer.run_maintenance()
        firsts.append(verify(path).first_seq)
        assert verify(path).is_sound
    assert firsts == [7, 13, 13]  # the last few are not worth a word
    pruned = [(each.seq, each.count) for each in sealed(path) if each.kind == "pruned"]
    assert pruned == [(6, 1014), (12, 1008)]
    assert words(path) == [(12, 12)]
    writer.close()


def test_every_removal_is_recorded_with_its_number(tmp_path: Path) -> None:
    path, clocks = tmp_path / "audit.db", ManualClocks()
    writer = make_writer(path, clocks, keep_records=1000)
    writer.write(entries(1999))
    wait_a_minute(writer, clocks)
    writer.write(entries(200))
    wait_a_minute(writer, clocks)
    assert words(path) == [(1000, 1000), (1201, 201)]
    writer.close()
    again = make_writer(path, clocks)
    again.write(entries(1))
    again.close()
    verdict = verify(path)
    assert (verdict.first_seq, verdict.records) == (1202, sealed(path)[-1].count)


def test_the_checkpoint_of_the_last_removed_record_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "_RECENT", 0)
    path, clocks = tmp_path / "audit.db", ManualClocks()
    writer = make_writer(path, clocks, keep_records=1000)
    writer.write(entries(7))
    for _ in range(4):
        writer.write(entries(1))
        wait_a_minute(writer, clocks)
    assert [each.seq for each in sealed(path)] == [0, 9, 10, 11, 12]
    monkeypatch.undo()  # else the newest is not found
    writer.write(entries(998))
    clocks.advance(60)
    monkeypatch.setattr(checkpoint, "_RECENT", 0)
    writer.run_maintenance()
    monkeypatch.undo()
    kept = [("checkpoint", 10), ("checkpoint", 11), ("checkpoint", 12), ("checkpoint", 1010), ("pruned", 10)]
    assert [(each.kind, each.seq) for each in sealed(path)] == kept
    writer.close()
    assert verify(path).is_sound
    assert verify(path).first_seq == 11


# --- ended by another process ---


@pytest.mark.parametrize("is_opened_again", [False, True])
def test_a_writer_continues_after_another_removed_its_last_record(
    tmp_path: Path, is_opened_again: bool
) -> None:
    path = tmp_path / "audit.db"
    ours, theirs = make_writer(path), make_writer(path)
    ours.write(entries(3))
    theirs.write(entries(3))
    last = read_head(read_lines(path)[3])
    assert last is not None
    theirs._checkpoint_file.add(theirs._checkpoint("pruned", last, 4))
    theirs.open().remove_through(last.seq)
    if is_opened_again:
        ours.release()
    ours.write(entries(1))
    ours.close()
    theirs.close()
    assert verify(path).first_seq == 5
    assert verify(path).is_sound


def test_removed_records_are_in_no_file(tmp_path: Path) -> None:
    path, clocks = tmp_path / "audit.db", ManualClocks()
    writer = make_writer(path, clocks, keep_records=1000)
    writer.write([encode_entry(clocks.wall_s, {"id": f"<{number}>"}) for number in range(1500)])
    wait_a_minute(writer, clocks)
    kept = path.read_bytes() + path.with_name("audit.db-wal").read_bytes()
    found = [number for number in range(1500) if b'"<%d>"' % number in kept]
    assert found == list(range(1500))[-1000:]
    writer.close()


def test_a_reader_does_not_block_records(tmp_path: Path) -> None:
    path, clocks = tmp_path / "audit.db", ManualClocks()
    writer = make_writer(path, clocks, keep_records=1000)
    writer.write(entries(1500))
    with closing(open_snapshot(path)) as source:
        before = sum(1 for _ in source.lines(0))
        wait_a_minute(writer, clocks)
        writer.write(entries(1))
        assert sum(1 for _ in source.lines(0)) == before  # it is shown one moment
    assert verify(path).is_sound
    writer.close()
