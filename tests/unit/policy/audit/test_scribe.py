"""What time brings to a log: the disk, checkpoints, and the end of old records."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.support.audit_logs import (
    NOON,
    Hands,
    entries,
    kinds,
    make_writer,
    read_lines,
    replace_lines,
    verify,
)
from toolcrib.policy.audit import checkpoints as checkpoint
from toolcrib.policy.audit import open_log
from toolcrib.policy.audit.checkpoints import Checkpoint, CheckpointFile, parse_checkpoint, read_checkpoints
from toolcrib.policy.audit.key import AuditKey
from toolcrib.policy.audit.writer import DAY_S, RecordWriter, SteadyClock, expired_through

SECRET = AuditKey(b"k" * 32)


def sealed(path: Path) -> list[int]:
    found = [each for _, each in read_checkpoints(path.with_name(f"{path.name}.checkpoints"), None)]
    return [each.seq for each in found if each is not None]


# --- checkpoints ---


def test_a_checkpoint_comes_after_a_minute_and_only_where_there_is_something_new(tmp_path: Path) -> None:
    hands = Hands()
    writer = make_writer(tmp_path / "audit.db", hands)
    assert writer.run_maintenance() is None
    writer.start()
    assert sealed(tmp_path / "audit.db") == [0, 1]
    writer.write(entries(3))
    first_pause_s = 60.0
    assert writer.run_maintenance() == first_pause_s
    hands.pass_by(59.5)
    assert writer.run_maintenance() == 0.5
    assert sealed(tmp_path / "audit.db") == [0, 1]
    hands.pass_by(0.5)
    assert writer.run_maintenance() is None
    assert sealed(tmp_path / "audit.db") == [0, 1, 4]
    hands.pass_by(600)
    assert writer.run_maintenance() is None
    assert sealed(tmp_path / "audit.db") == [0, 1, 4]
    writer.write(entries(1, start=4))
    writer.run_maintenance()
    assert sealed(tmp_path / "audit.db") == [0, 1, 4, 5]
    writer.close()
    assert sealed(tmp_path / "audit.db") == [0, 1, 4, 5, 6]


def test_a_thousand_records_are_sealed_sooner_but_not_twice_in_a_second(tmp_path: Path) -> None:
    hands = Hands()
    writer = make_writer(tmp_path / "audit.db", hands)
    writer.start()
    writer.write(entries(999))
    hands.pass_by(1)
    writer.run_maintenance()
    assert sealed(tmp_path / "audit.db") == [0, 1]
    writer.write(entries(1))
    writer.run_maintenance()
    assert sealed(tmp_path / "audit.db") == [0, 1, 1001]
    writer.write(entries(1500))
    assert writer.run_maintenance() == 1.0
    assert sealed(tmp_path / "audit.db") == [0, 1, 1001]
    hands.pass_by(1)
    writer.run_maintenance()
    assert sealed(tmp_path / "audit.db") == [0, 1, 1001, 2501]
    writer.close()


def test_checkpoints_that_cannot_be_written_stop_no_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hands = Hands()
    path = tmp_path / "audit.db"
    writer = make_writer(path, hands)
    writer.write(entries(1))
    seals = path.with_name("audit.db.checkpoints")
    aside = tmp_path / "aside"
    seals.rename(aside)
    seals.mkdir()
    for _ in range(3):
        hands.pass_by(60)
        writer.write(entries(1))
        assert writer.run_maintenance() == 60.0
    assert [(record.name, record.levelno) for record in caplog.records] == [("toolcrib", logging.WARNING)]
    assert caplog.messages[0].startswith(f"audit: cannot write a checkpoint to {seals}: ")
    seals.rmdir()
    aside.rename(seals)
    hands.pass_by(60)
    writer.run_maintenance()
    assert sealed(path) == [0, 5]
    writer.close()
    assert verify(path).is_sound


# --- checkpoints as lines ---


def test_a_checkpoint_is_only_what_the_key_has_sealed() -> None:
    made = Checkpoint("accepted", 7, "a" * 64, 5, "2026-05-04T10:00:00.000Z", 99, 3, "b" * 64)
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


def test_the_newest_checkpoint_has_the_highest_number_and_of_two_it_is_the_later(tmp_path: Path) -> None:
    file = CheckpointFile(tmp_path / "seals", SECRET)
    assert file.newest(None) == (None, True)

    def add(kind: Any, seq: int, count: int) -> Checkpoint:
        made = Checkpoint(kind, seq, "a" * 64, count, "", 0)
        file.add(made)
        return made

    add("checkpoint", 5, 1)
    high = add("checkpoint", 9, 2)
    add("checkpoint", 7, 3)
    assert file.newest(None) == (high, True)
    later = add("pruned", 9, 4)
    assert file.newest(None) == (later, True)
    with (tmp_path / "seals").open("ab") as other:
        other.write(b"x\n")
    assert file.newest(None) == (later, False)


# --- a clock that does not jump ---


def test_the_clock_follows_the_wall_but_does_not_jump_with_it() -> None:
    hands = Hands()
    clock = SteadyClock(hands.wall, hands.now, None, None)
    assert clock.read() == NOON
    hands.pass_by(10)
    assert clock.read() == NOON + 10
    hands.wall_s += 365 * DAY_S
    assert clock.read() == NOON + 10
    hands.pass_by(100)
    assert clock.read() == NOON + 210  # twice as fast, until it has caught up
    hands.wall_s = NOON - DAY_S
    hands.pass_by(100)
    assert clock.read() == NOON + 210
    hands.now_s -= 50
    assert clock.read() == NOON + 210
    hands.wall_s = NOON + 1000
    hands.pass_by(1000)
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
    hands = Hands()
    hands.wall_s += away_s
    assert SteadyClock(hands.wall, hands.now, NOON, keep_days).read() == NOON + gained_s


def test_old_is_what_both_clocks_call_old() -> None:
    def mark(
        seq: int, clock: float, at: str = "2026-04-01T00:00:00.000Z", kind: Any = "checkpoint"
    ) -> Checkpoint:
        return Checkpoint(kind, seq, "", 0, at, int(clock))

    old, young = NOON - 10 * DAY_S - 1, NOON - 10 * DAY_S
    marks = [mark(1, old), mark(2, old, "2027-01-01T00:00:00.000Z"), mark(3, young)]
    assert expired_through(marks, 10, NOON, NOON) == 1
    assert expired_through([*marks, mark(4, old)], 10, NOON, NOON) == 4
    assert (
        expired_through([*marks, mark(4, old, kind="accepted"), mark(5, old, kind="pruned")], 10, NOON, NOON)
        == 1
    )
    assert expired_through([mark(1, old, "whenever")], 10, NOON, NOON) == 0
    assert expired_through([mark(4, old), mark(1, old)], 10, NOON, NOON) == 4
    assert expired_through([], 10, NOON, NOON) == 0
    assert expired_through([mark(1, old, "2026-04-24T10:00:00.000Z")], 10, NOON, NOON) == 0


# --- the end of old records ---


def tend_all(writer: RecordWriter) -> None:
    while writer.run_maintenance() == 0.0:
        pass


def test_only_so_many_records_are_kept(tmp_path: Path) -> None:
    hands = Hands()
    path = tmp_path / "audit.db"
    writer = make_writer(path, hands, keep_records=1000)
    for _ in range(13):
        writer.write(entries(1000))
    writer.run_maintenance()
    assert len(read_lines(path)) == 13_001
    hands.pass_by(60)
    tend_all(writer)
    verdict = verify(path)
    assert verdict.is_sound
    assert (verdict.first_seq, verdict.last_seq, verdict.records) == (12_002, 13_002, 1001)
    assert verdict.pruned_before == 12_002
    (word,) = [record for record in open_log(path).records() if record["kind"] == "pruned"]
    assert (word["through"], word["removed"], word["seq"]) == (12_001, 12_001, 13_002)
    hands.pass_by(60)
    tend_all(writer)
    assert verify(path).first_seq == 12_002  # few are not worth it
    writer.close()
    again = make_writer(path, hands)
    again.write(entries(1))
    again.close()
    assert verify(path).is_sound


def test_pruned_without_a_word_is_found(tmp_path: Path) -> None:
    hands = Hands()
    path = tmp_path / "audit.db"
    writer = make_writer(path, hands, keep_records=1000)
    writer.write(entries(2000))
    hands.pass_by(60)
    tend_all(writer)
    writer.close()
    assert verify(path).is_sound
    replace_lines(path, read_lines(path)[1:])
    assert kinds(path) == ["missing"]
    assert verify(path).pruned_before is None
    assert verify(path).problems[0].words == "records 1 to 1002 are missing"


def test_records_end_when_they_are_too_old(tmp_path: Path) -> None:
    hands = Hands()
    path = tmp_path / "audit.db"
    writer = make_writer(path, hands, keep_days=10)
    for day in range(14):
        writer.write(entries(10, start=day * 10, wall=hands.wall_s))
        hands.pass_by(DAY_S)
        tend_all(writer)
        assert verify(path).is_sound
    tools = [record for record in open_log(path).records() if record["kind"] == "call"]
    oldest = min(record["at"] for record in tools)
    assert oldest == "2026-05-07T10:00:00.000Z"
    assert len(tools) >= 100
    writer.close()
    assert verify(path).is_sound


def test_a_clock_that_is_a_year_ahead_ends_nothing(tmp_path: Path) -> None:
    hands = Hands()
    path = tmp_path / "audit.db"
    writer = make_writer(path, hands, keep_days=30)
    for _ in range(3):
        writer.write(entries(10))
        hands.pass_by(3600)
        tend_all(writer)
    hands.wall_s += 365 * DAY_S
    for _ in range(5):
        writer.write(entries(10, wall=hands.wall_s))
        hands.pass_by(3600)
        tend_all(writer)
    writer.close()
    for _ in range(3):  # nor does it when the server is started again
        writer = make_writer(path, hands, keep_days=30)
        writer.write(entries(1, wall=hands.wall_s))
        hands.pass_by(3700)
        tend_all(writer)
        writer.close()
    assert verify(path).first_seq == 1
    hands.wall_s -= 2 * 365 * DAY_S
    writer = make_writer(path, hands, keep_days=30)
    writer.write(entries(1, wall=hands.wall_s))
    hands.pass_by(3700)
    tend_all(writer)
    writer.close()
    verdict = verify(path)
    assert verdict.is_sound
    assert verdict.first_seq == 1
    ats = [record["at"] for record in open_log(path).records()]
    assert ats != sorted(ats)
    assert [record["seq"] for record in open_log(path).records()] == list(range(1, len(ats) + 1))


def test_checkpoints_of_records_that_are_gone_go_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "_RECENT", 20)
    hands = Hands()
    path = tmp_path / "audit.db"
    writer = make_writer(path, hands, keep_records=1000)
    for _ in range(50):
        writer.write(entries(60))
        hands.pass_by(60)
        writer.run_maintenance()
    assert len(sealed(path)) < 70  # there were 50 checkpoints, and 30 removals
    writer.close()
    assert verify(path).is_sound
    assert min(sealed(path)) > 1


def test_records_around_an_accepted_gap_end_in_their_time(tmp_path: Path) -> None:
    hands = Hands()
    path = tmp_path / "audit.db"
    writer = make_writer(path, hands)
    writer.write(entries(3000))
    writer.close()
    replace_lines(path, read_lines(path)[:1500])
    writer = make_writer(path, hands, keep_records=1000, accept_gap=True)
    writer.write(entries(500))
    hands.pass_by(60)
    tend_all(writer)
    assert verify(path).first_seq == 1  # the last that might go is in the gap
    writer.write(entries(600))
    hands.pass_by(60)
    tend_all(writer)
    assert verify(path).first_seq == 3_105
    writer.close()
    assert verify(path).is_sound
    assert verify(path).problems == []
