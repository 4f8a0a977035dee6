"""Checkpoints that are missing: what no checkpoint has seen was written for longer than a server waits."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.audit_logs import (
    NOON,
    Hands,
    entries,
    make_log,
    make_writer,
    read_lines,
    replace_lines,
    restamp,
    seals,
    verify,
)
from toolcrib.policy.audit import open_log
from toolcrib.policy.audit.record import NO_RECORD, chain_entries, encode_entry
from toolcrib.policy.audit.verify import UnsealedTime
from toolcrib.policy.audit.writer import RecordWriter


def work(writer: RecordWriter, hands: Hands, minutes: int) -> None:
    """A call every ten seconds."""
    for _ in range(minutes * 6):
        hands.pass_by(10)
        writer.write(entries(1, wall=hands.wall_s))
        writer.run_maintenance()


def unsealed(path: Path) -> list[str]:
    return [problem.words for problem in verify(path).problems if problem.kind == "unsealed"]


def test_checkpoints_that_were_cut_off_are_missed(tmp_path: Path) -> None:
    path, hands = tmp_path / "audit.db", Hands()
    writer = make_writer(path, hands)
    work(writer, hands, 6)
    writer.close()
    assert verify(path).is_sound
    kept = seals(path).read_bytes().splitlines(keepends=True)
    seals(path).write_bytes(b"".join(kept[:2]))
    sealed = verify(path).proven_through
    lines = read_lines(path)
    assert 0 < sealed < len(lines)
    words = f"the log continued for 340 s after record {sealed} without a checkpoint"
    assert [told.partition(": ")[0] for told in unsealed(path)] == [words]
    # Nor does it help to make everything behind the first checkpoint, the one of nothing, anew.
    seals(path).write_bytes(kept[0])
    replace_lines(path, restamp([line.replace(b"ana", b"bob") for line in lines]))
    assert not verify(path).is_sound
    copy = tmp_path / "copy"
    copy.write_bytes(kept[1])
    kinds = {problem.kind for problem in open_log(path, copy=copy).verify().problems}
    assert kinds == {"restamped", "unsealed"}


def test_a_log_whose_checkpoints_are_elsewhere_is_judged_by_the_copy_alone(tmp_path: Path) -> None:
    path, hands = tmp_path / "audit.db", Hands()
    writer = make_writer(path, hands)
    work(writer, hands, 6)
    writer.close()
    copy = tmp_path / "copy"
    copy.write_bytes(seals(path).read_bytes().splitlines(keepends=True)[1])  # of yesterday
    seals(path).unlink()
    assert open_log(path, copy=copy).verify().is_sound


def test_a_server_that_lives_or_was_killed_is_in_time(tmp_path: Path) -> None:
    path, hands = tmp_path / "audit.db", Hands()
    for _ in range(6):  # each is killed before it could seal anything
        writer = make_writer(path, hands)
        writer.open()
        work(writer, hands, 1)
        assert verify(path).is_sound
        writer.release()
        hands.pass_by(3600)
    seals(path).write_bytes(seals(path).read_bytes().splitlines(keepends=True)[0])
    assert verify(path).is_sound


def lag_of(facts: Iterable[tuple[float, dict[str, object]]]) -> float:
    lag = UnsealedTime()
    for line in chain_entries(NO_RECORD, [encode_entry(NOON + at, fact) for at, fact in facts])[1]:
        lag.add(line)
    return lag.worst_s


CALL: dict[str, object] = {"id": "c"}
OPENED: dict[str, object] = {"kind": "opened"}
GAP: dict[str, object] = {"kind": "gap", "late": 30}


@pytest.mark.parametrize(
    ("facts", "lag_s"),
    [
        ([], 0),
        ([(at, CALL) for at in range(0, 181, 10)], 0),
        ([(at, CALL) for at in range(0, 191, 10)], 190),
        ([(at * 3600, CALL) for at in range(4)], 0),  # three times asleep
        ([(at * 3600, CALL) for at in range(5)], 240),
        ([(at / 100, CALL) for at in range(1000)], 0),
        ([(at / 10, CALL) for at in range(1000)], 0),
        ([(at / 34, CALL) for at in range(1010)], 0),
        ([(at / 32, CALL) for at in range(1025)], 32),  # a busy one seals every second
        ([(0, CALL), *((3600 + at / 1000, CALL) for at in range(1500))], 0),  # awake again, and busy at once
        ([*((at, CALL) for at in range(0, 200, 10)), (200, OPENED), (210, CALL)], 190),
        (
            [
                *((at, CALL) for at in range(0, 100, 10)),
                (100, OPENED),
                *((at, CALL) for at in range(110, 250, 10)),
            ],
            0,
        ),
        ([*((at, CALL) for at in range(0, 300, 10)), (300, GAP)], 0),  # they came late
        ([(300, GAP), *((at, CALL) for at in range(0, 300, 10))], 0),
        ([(300, GAP), *((at, CALL) for at in range(0, 600, 10))], 290),
        # A thousand, of which the first is the word of the gap: the one that came late is none of them.
        ([(0, {**GAP, "late": 1}), (-5, CALL), *((at / 31, CALL) for at in range(1, 1000))], 0),
        ([(at % 2, CALL) for at in range(2000)], 0),  # of two processes, not quite in order
        ([(at // 20 / 2, CALL) for at in range(61 * 20)], 0),  # busy for just so long
        ([(at // 100 * 5, CALL) for at in range(21 * 100)], 0),  # busy now and then, for twenty moments
        ([(at // 100 * 5, CALL) for at in range(32 * 100)], 155),  # and for more than thirty
        ([(0, {**GAP, "late": 2}), *((at, CALL) for at in range(60, 301, 60))], 0),  # two of them came late
        ([(0, {"kind": "gap"}), *((at, CALL) for at in range(60, 241, 60))], 240),  # and here none did
    ],
)
def test_only_work_counts(facts: list[tuple[float, dict[str, object]]], lag_s: float) -> None:
    assert lag_of(facts) == pytest.approx(lag_s)


@pytest.mark.parametrize("line", [b"", b"[]", b"{}", b'{"at":1,"kind":"call"}', b'{"at":"x","kind":"call"}'])
def test_what_is_no_record_has_no_time(line: bytes) -> None:
    lag = UnsealedTime()
    lag.add(line)
    assert lag.worst_s == 0


@pytest.mark.parametrize("count", [1, 12])
def test_no_two_logs_begin_alike(tmp_path: Path, count: int) -> None:
    key = tmp_path / "key"
    paths = [tmp_path / "one" / "audit.db", tmp_path / "other" / "audit.db"]
    for path in paths:
        make_log(path, count, key_file=key)
    assert open_log(paths[0], key).verify().is_sound
    seals(paths[0]).write_bytes(seals(paths[1]).read_bytes())  # the same key, and the same said of the same
    assert not open_log(paths[0], key).verify().is_sound
