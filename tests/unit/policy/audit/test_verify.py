"""Verification: every change of records, streams and checkpoints is a problem."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.records.audit_logs import (
    NOON,
    ManualClocks,
    entries,
    make_log,
    make_writer,
    read_lines,
    read_streams,
    replace_lines,
    restamp,
    seals,
    verify,
)
from toolcrib.policy.audit import Problem, open_log
from toolcrib.policy.audit.reader import MAX_PROBLEMS
from toolcrib.policy.audit.record import encode_entry
from toolcrib.policy.audit.writer import RecordWriter
from toolcrib.state.sqlite.audit import SQLiteAudit

Lines = list[bytes]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of twelve records in one stream, of which the last is sealed."""
    make_log(tmp_path / "audit.db", 10)
    return tmp_path / "audit.db"


def problems(path: Path) -> list[tuple[int, str, str]]:
    """Return the problems of a log with one stream, without its name."""
    [stream] = read_streams(path)
    found = []
    for problem in verify(path).problems:
        assert problem.stream in (stream, "")
        found.append((problem.seq, problem.kind, problem.words.replace(f" of stream {stream}", "")))
    return found


def test_a_log_that_is_whole(path: Path) -> None:
    make_log(path, 5)
    verdict = verify(path)
    assert (verdict.is_sound, verdict.is_keyed, verdict.problems) == (True, True, [])
    assert (verdict.records, verdict.streams, verdict.removed) == (19, 2, 0)
    assert (verdict.checkpoints_checked, verdict.unsealed) == (2, 0)
    assert verdict.proven_at == "2026-05-04T10:00:00.000Z"


def test_without_the_key_checkpoints_are_compared_all_the_same(path: Path) -> None:
    path.with_name("audit.db.key").unlink()
    verdict = open_log(path).verify()
    assert (verdict.is_sound, verdict.is_keyed, verdict.checkpoints_checked) == (True, False, 1)
    replace_lines(path, restamp(read_lines(path)[:-1]))
    assert not verify(path).is_sound
    seals(path).unlink()
    verdict = verify(path)
    assert (verdict.is_sound, verdict.proven_at) == (True, None)


def test_a_log_without_checkpoints_is_a_problem(path: Path) -> None:
    seals(path).unlink()
    words = "there is no checkpoint: missing records cannot be detected"
    assert problems(path) == [(0, "unsealed", words)]


UNSEARCHED = "record {} cannot be found by its time: the column was changed"
UNFIT = "record {} does not match the one before it: one of them was changed"
UNREADABLE = "record {} is unreadable, or in the place of another"


def reword(line: bytes) -> bytes:
    return line.replace(b"ana", b"bob")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda lines: [*lines[:4], *lines[5:]], [(5, "missing", "record 5 is missing")]),
        (lambda lines: [*lines[:4], *lines[7:]], [(5, "missing", "records 5 to 7 are missing")]),
        (lambda lines: lines[1:], [(1, "missing", "record 1 is missing")]),
        (lambda lines: lines[:-1], [(12, "truncated", "record 12 is missing at the end")]),
        (lambda lines: lines[:10], [(11, "truncated", "records 11 to 12 are missing at the end")]),
        (lambda _: [], [(1, "truncated", "records 1 to 12 are missing at the end")]),
        (
            lambda lines: [*lines[:4], reword(lines[4]), *lines[5:]],
            [(5, "edited", UNFIT.format(5))],
        ),
        (
            lambda lines: [*lines[:4], *restamp([reword(lines[4])]), *lines[5:]],
            [(5, "edited", UNFIT.format(5)), (6, "edited", UNFIT.format(6))],
        ),
        (lambda lines: [*lines[:4], b"garbage", *lines[5:]], [(5, "unreadable", UNREADABLE.format(5))]),
        (lambda lines: [b"garbage", *lines[1:]], [(1, "unreadable", UNREADABLE.format(1))]),
        (
            lambda lines: restamp([reword(line) for line in lines]),
            [
                (12, "restamped", "record 12 does not match its checkpoint"),
            ],
        ),
    ],
    ids=[
        "one",
        "some",
        "first",
        "last",
        "end",
        "all",
        "edited",
        "restamped",
        "garbage",
        "first garbage",
        "anew",
    ],
)
def test_every_change_is_a_problem_with_its_record(
    path: Path, change: Callable[[Lines], Lines], found: list[tuple[int, str, str]]
) -> None:
    replace_lines(path, change(read_lines(path)))
    assert problems(path) == found
    assert not verify(path).is_sound


def execute(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)


@pytest.mark.parametrize("change", ["at_ms = at_ms + 1", "at_ms = 1 << 60", "at_ms = 'x'", "at_ms = NULL"])
def test_a_time_that_differs_from_that_of_the_line_is_a_problem(path: Path, change: str) -> None:
    execute(path, f"UPDATE record SET {change} WHERE key & 255 = 5")
    assert problems(path) == [(5, "edited", UNSEARCHED.format(5))]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM record WHERE key >> 40 = 1",
        "DELETE FROM stream WHERE number = 1",
        "UPDATE stream SET name = 'other' WHERE number = 1",
        "UPDATE record SET key = key + 5 WHERE key = (SELECT max(key) FROM record)",
        "INSERT INTO record SELECT 1 << 40, 0, line FROM record LIMIT 1",
    ],
)
def test_streams_cannot_be_removed_or_changed(path: Path, statement: str) -> None:
    make_log(path, 3)
    assert verify(path).is_sound
    execute(path, statement)
    assert not verify(path).is_sound


def test_records_after_the_last_checkpoint_are_not_called_proven(path: Path) -> None:
    make_log(path, 3, is_closed=False)
    verdict = verify(path)
    assert (verdict.is_sound, verdict.records, verdict.unsealed) == (True, 16, 4)


def test_the_number_of_problems_is_limited(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 300)
    replace_lines(path, [reword(line) for line in read_lines(path)])
    found, [stream] = verify(path).problems, read_streams(path)
    assert len(found) == MAX_PROBLEMS + 1
    assert found[-1] == Problem(stream, 102, "more", f"more problems from record 102 of stream {stream} on")


def test_progress_is_reported_every_five_thousand_records(tmp_path: Path) -> None:
    make_log(tmp_path / "audit.db", 12_000, batch=4000)
    told: list[int] = []
    assert open_log(str(tmp_path / "audit.db")).verify(told.append).is_sound
    assert told == [5_000, 10_000]


def test_a_log_is_verified_while_it_is_written(tmp_path: Path) -> None:
    writer = make_writer(tmp_path / "audit.db")
    writer.write(entries(6000))
    assert open_log(tmp_path / "audit.db").verify(lambda _: writer.write(entries(10))).is_sound
    writer.close()


# --- checkpoints that were removed ---


def work(writer: RecordWriter, clocks: ManualClocks, minutes: int) -> None:
    """A call every ten seconds."""
    for _ in range(minutes * 6):
        clocks.advance(10)
        writer.write(entries(1, wall=clocks.wall_s))
        writer.run_maintenance()


def test_removed_checkpoints_are_noticed(tmp_path: Path) -> None:
    path, clocks = tmp_path / "audit.db", ManualClocks()
    writer = make_writer(path, clocks)
    work(writer, clocks, 6)
    writer.close()
    assert verify(path).is_sound
    kept, lines = seals(path).read_bytes().splitlines(keepends=True), read_lines(path)
    seals(path).write_bytes(b"".join(kept[:2]))
    [(seq, kind, words)] = problems(path)
    assert (seq, kind) == (3, "unsealed")
    assert words.endswith(
        " continued for minutes after record 2 without a checkpoint: checkpoints were removed, or could not "
        "be written"
    )
    # Nor does it help to compute everything again behind the first checkpoint, which covers no record.
    seals(path).write_bytes(kept[0])
    replace_lines(path, restamp([reword(line) for line in lines]))
    assert not verify(path).is_sound
    copy = tmp_path / "copy"
    copy.write_bytes(kept[1])
    found = {problem.kind for problem in open_log(path, copy=copy).verify().problems}
    assert found >= {"restamped", "unsealed", "forged"}


def test_a_running_or_killed_server_is_not_unsealed(tmp_path: Path) -> None:
    path, clocks = tmp_path / "audit.db", ManualClocks()
    for _ in range(6):  # each is killed before it could seal more than its start
        writer = make_writer(path, clocks)
        work(writer, clocks, 1)
        assert verify(path).is_sound
        writer.release()
        clocks.advance(3600)


@pytest.mark.parametrize(
    ("facts", "is_sound"),
    [
        ([(at, "call") for at in range(0, 240, 10)], True),
        ([(at, "call") for at in range(0, 250, 10)], False),
        ([(at * 3600, "call") for at in range(4)], True),  # three times asleep
        ([*((at, "call") for at in range(0, 200, 10)), (300, "gap"), (310, "call")], True),
    ],
)
def test_minutes_of_work_without_a_checkpoint_are_a_problem(
    tmp_path: Path, facts: list[tuple[float, str]], is_sound: bool
) -> None:
    writer = make_writer(tmp_path / "audit.db")
    writer.start()
    writer.write([encode_entry(NOON + at, {"kind": kind}) for at, kind in facts])
    writer.release()
    assert verify(tmp_path / "audit.db").is_sound is is_sound


def test_minutes_without_a_checkpoint_of_this_machine_are_normal_in_a_fleet(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    writer = make_writer(path)
    writer.start()
    writer.write([encode_entry(NOON + 60 * minute, {"kind": "call"}) for minute in range(10)])
    writer.release()
    assert not verify(path).is_sound
    verdict = open_log(path, store=SQLiteAudit(path)).verify()
    assert (verdict.is_sound, verdict.unsealed) == (True, 10)


def test_no_two_logs_begin_alike(tmp_path: Path) -> None:
    key = tmp_path / "key"
    paths = [tmp_path / "one" / "audit.db", tmp_path / "other" / "audit.db"]
    for path in paths:
        make_log(path, 1, key_file=key)
    assert open_log(paths[0], key).verify().is_sound
    seals(paths[0]).write_bytes(seals(paths[1]).read_bytes())
    assert not open_log(paths[0], key).verify().is_sound
