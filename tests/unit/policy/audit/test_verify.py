"""Verification: problems, accepted gaps, unsealed time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.records.audit_logs import (
    NOON,
    ManualClocks,
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
from toolcrib.policy.audit.checkpoints import Checkpoint
from toolcrib.policy.audit.reader import (
    MAX_PROBLEMS,
    CheckpointLines,
    Problem,
    Verdict,
    Verifier,
)
from toolcrib.policy.audit.record import NO_RECORD, Head, chain_entries, encode_entry, read_head
from toolcrib.policy.audit.writer import RecordWriter

LINES = chain_entries(NO_RECORD, entries(12))[1]
OTHERS = restamp([line.replace(b"ana", b"bob") for line in LINES])
GARBAGE = b"nothing"


def seal(seq: int, kind: Any = "checkpoint", at: str = "then") -> Checkpoint:
    """Of the lines above, made when all was well."""
    return Checkpoint(kind, seq, hash_of(seq), seq, at, 0)


def hash_of(seq: int) -> str:
    head = NO_RECORD if seq < 1 or seq > len(LINES) else read_head(LINES[seq - 1])
    assert head is not None
    return head.hash.decode()


def judge(
    lines: Sequence[bytes],
    *checkpoints: Checkpoint,
    is_keyed: bool = True,
    must_be_sealed: bool = False,
) -> Verdict:
    verifier = Verifier(CheckpointLines(list(checkpoints)), is_keyed=is_keyed, must_be_sealed=must_be_sealed)
    return verifier.run(iter(lines))


# --- all is well ---


@pytest.mark.parametrize("is_keyed", [True, False])
def test_a_log_that_is_whole(is_keyed: bool) -> None:
    verdict = judge(LINES, seal(0), seal(5, at="five"), seal(9, at="nine"), is_keyed=is_keyed)
    assert verdict == Verdict(True, 12, 1, 12, hash_of(12), 2, [], None, is_keyed, 9, "nine")


def test_a_log_of_nothing() -> None:
    assert judge([], is_keyed=False).is_sound
    assert judge([], seal(0)) == Verdict(True, 0, 0, 0, "0" * 64, 0, [], None, True, 0, "then")


@pytest.mark.parametrize("ended", [1, 2, 11])
def test_a_log_whose_oldest_records_have_ended(ended: int) -> None:
    verdict = judge(LINES[ended:], seal(ended, "pruned"), seal(12))
    assert verdict == Verdict(
        True, 12 - ended, ended + 1, 12, hash_of(12), 1, [], ended + 1, True, 12, "then"
    )


def test_only_a_pruned_checkpoint_explains_a_missing_beginning() -> None:
    verdict = judge(LINES[3:], seal(3), seal(2, "pruned"))
    assert (verdict.is_sound, verdict.pruned_before) == (False, None)
    assert verdict.problems == [Problem(1, "missing", "records 1 to 3 are missing")]


def test_every_compared_checkpoint_counts_once() -> None:
    verdict = judge(LINES[4:], seal(2), seal(4, "pruned"), seal(6), seal(6))
    assert (verdict.checkpoints_checked, verdict.proven_through, verdict.is_sound) == (1, 6, True)


def test_progress_is_reported_every_five_thousand_lines() -> None:
    told: list[int] = []
    lines = chain_entries(NO_RECORD, entries(10_001))[1]
    assert Verifier(CheckpointLines([]), (), is_keyed=False).run(iter(lines), told.append).is_sound
    assert told == [5_000, 10_000]


# --- what is wrong, one thing at a time ---

UNFIT = "record {} does not match the one before it: one of them was changed"


@pytest.mark.parametrize(
    ("lines", "problems"),
    [
        pytest.param([*LINES[:4], *LINES[5:]], [Problem(5, "missing", "record 5 is missing")], id="one"),
        pytest.param(
            [*LINES[:4], *LINES[7:]], [Problem(5, "missing", "records 5 to 7 are missing")], id="some"
        ),
        pytest.param(LINES[1:], [Problem(1, "missing", "record 1 is missing")], id="the first"),
        pytest.param(
            [*LINES[:4], LINES[4].replace(b"ana", b"bob"), *LINES[5:]],
            [Problem(5, "edited", UNFIT.format(5))],
            id="edited",
        ),
        pytest.param(
            [*LINES[:4], *OTHERS[4:5], *LINES[5:]],
            [Problem(5, "edited", UNFIT.format(5)), Problem(6, "edited", UNFIT.format(6))],
            id="another in its place",
        ),
        pytest.param([*OTHERS[:1], *LINES[1:]], [Problem(2, "edited", UNFIT.format(2))], id="another first"),
        pytest.param(
            [LINES[0].replace(b"ana", b"bob"), *LINES[1:]],
            [Problem(1, "edited", UNFIT.format(1))],
            id="the first edited",
        ),
        pytest.param(
            [*LINES[:4], GARBAGE, *LINES[5:]],
            [Problem(5, "unreadable", "record 5 is unreadable")],
            id="unreadable",
        ),
        pytest.param(
            [GARBAGE, *LINES[1:]],
            [Problem(1, "unreadable", "record 1 is unreadable")],
            id="the first unreadable",
        ),
        pytest.param(
            [*LINES[:4], GARBAGE, *LINES[7:]],
            [
                Problem(5, "unreadable", "record 5 is unreadable"),
                Problem(6, "missing", "records 6 to 7 are missing"),
            ],
            id="unreadable, and then some are missing",
        ),
        pytest.param(
            [*LINES[:4], LINES[3], *LINES[4:]],
            [Problem(4, "out-of-order", "record 4 comes after record 4: it was moved or duplicated")],
            id="twice",
        ),
        pytest.param(
            [*LINES[:6], LINES[1], *LINES[6:]],
            [Problem(2, "out-of-order", "record 2 comes after record 6: it was moved or duplicated")],
            id="again",
        ),
    ],
)
def test_every_problem_is_reported_with_its_record(lines: list[bytes], problems: list[Problem]) -> None:
    verdict = judge(lines, is_keyed=False)
    assert verdict.problems == problems
    assert not verdict.is_sound
    assert (verdict.records, verdict.last_seq, verdict.head) == (len(lines), 12, hash_of(12))


def test_the_first_record_is_the_first_that_can_be_read() -> None:
    assert judge([GARBAGE, *LINES[1:]], is_keyed=False).first_seq == 2
    assert judge([*LINES[1:4], LINES[0], *LINES[4:]], is_keyed=False).first_seq == 2
    assert judge([GARBAGE], is_keyed=False).first_seq == 0


def test_a_record_that_no_checkpoint_has_seen_in_the_place_of_one_that_was() -> None:
    verdict = judge(OTHERS, seal(3), seal(5, at="five"), seal(7))
    assert verdict.problems == [
        Problem(seq, "restamped", f"record {seq} does not match its checkpoint") for seq in (3, 5, 7)
    ]
    assert (verdict.checkpoints_checked, verdict.proven_through, verdict.proven_at) == (3, 0, None)


def test_two_checkpoints_of_one_number_must_both_have_seen_it() -> None:
    other = Checkpoint("checkpoint", 5, "a" * 64, 5, "", 0)
    assert [each.kind for each in judge(LINES, seal(5), other).problems] == ["restamped"]


@pytest.mark.parametrize(
    ("last", "words"),
    [(11, "record 12 is missing at the end"), (10, "records 11 to 12 are missing at the end")],
)
def test_records_that_a_checkpoint_has_seen_and_are_gone(last: int, words: str) -> None:
    assert judge(LINES[:last], seal(12)).problems == [Problem(last + 1, "truncated", words)]


def test_a_log_without_checkpoints_is_a_problem_with_the_key_only() -> None:
    words = "there is no checkpoint: missing records cannot be detected"
    assert judge(LINES).problems == [Problem(0, "unsealed", words)]
    assert judge(LINES, is_keyed=False).problems == []


def test_only_records_after_the_newest_checkpoint_can_be_unsealed() -> None:
    work = [encode_entry(NOON + 10 * number, {"id": "c"}) for number in range(40)]
    lines = chain_entries(NO_RECORD, work)[1]

    def sealed(seq: int) -> Checkpoint:
        head = read_head(lines[seq - 1])
        assert head is not None
        return Checkpoint("checkpoint", seq, head.hash.decode(), seq, "", 0)

    words = (
        "the log continued for minutes after record 15 without a checkpoint: checkpoints were removed, "
        "or could not be written"
    )
    assert judge(lines, sealed(5), sealed(15), must_be_sealed=True).problems == [
        Problem(16, "unsealed", words)
    ]
    assert judge(lines, sealed(15), sealed(25), must_be_sealed=True).problems == []
    assert judge(lines, sealed(15)).problems == []


def test_the_last_problem_says_that_there_are_more() -> None:
    lines = [line.replace(b"ana", b"bob") for line in chain_entries(NO_RECORD, entries(MAX_PROBLEMS + 3))[1]]
    problems = judge(lines, is_keyed=False).problems
    assert len(problems) == MAX_PROBLEMS + 1 == 101
    assert problems[-2].seq == MAX_PROBLEMS
    assert problems[-1] == Problem(
        MAX_PROBLEMS + 1, "more", f"more problems from record {MAX_PROBLEMS + 1} on"
    )


# --- what was accepted ---


def behind(seq: int, count: int = 2) -> list[bytes]:
    """Records that were written behind a gap."""
    return chain_entries(Head(seq, hash_of(seq).encode()), entries(count))[1]


# --- lines that are no checkpoints ---


def test_an_invalid_checkpoint_is_reported_by_its_line() -> None:
    verdict = Verifier(CheckpointLines([seal(12)], [3])).run(iter(LINES))
    words = "line 3 of the checkpoints was changed, or sealed with another key"
    assert verdict.problems == [Problem(0, "forged", words)]
    assert not verdict.is_sound


def work(writer: RecordWriter, clocks: ManualClocks, minutes: int) -> None:
    """A call every ten seconds."""
    for _ in range(minutes * 6):
        clocks.advance(10)
        writer.write(entries(1, wall=clocks.wall_s))
        writer.run_maintenance()


def unsealed(path: Path) -> list[str]:
    return [problem.words for problem in verify(path).problems if problem.kind == "unsealed"]


def test_removed_checkpoints_are_noticed(tmp_path: Path) -> None:
    path, clocks = tmp_path / "audit.db", ManualClocks()
    writer = make_writer(path, clocks)
    work(writer, clocks, 6)
    writer.close()
    assert verify(path).is_sound
    kept = seals(path).read_bytes().splitlines(keepends=True)
    seals(path).write_bytes(b"".join(kept[:2]))
    sealed = verify(path).proven_through
    lines = read_lines(path)
    assert 0 < sealed < len(lines)
    words = f"the log continued for minutes after record {sealed} without a checkpoint"
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
    path, clocks = tmp_path / "audit.db", ManualClocks()
    writer = make_writer(path, clocks)
    work(writer, clocks, 6)
    writer.close()
    copy = tmp_path / "copy"
    copy.write_bytes(seals(path).read_bytes().splitlines(keepends=True)[1])  # of yesterday
    seals(path).unlink()
    assert open_log(path, copy=copy).verify().is_sound


def test_a_running_or_killed_server_is_not_unsealed(tmp_path: Path) -> None:
    path, clocks = tmp_path / "audit.db", ManualClocks()
    for _ in range(6):  # each is killed before it could seal anything
        writer = make_writer(path, clocks)
        writer.open()
        work(writer, clocks, 1)
        assert verify(path).is_sound
        writer.release()
        clocks.advance(3600)
    seals(path).write_bytes(seals(path).read_bytes().splitlines(keepends=True)[0])
    assert verify(path).is_sound


CALL: dict[str, object] = {"id": "c"}
OPENED: dict[str, object] = {"kind": "opened"}
GAP: dict[str, object] = {"kind": "gap", "late": 30}


@pytest.mark.parametrize(
    ("facts", "is_sound"),
    [
        ([(at, CALL) for at in range(0, 240, 10)], True),
        ([(at, CALL) for at in range(0, 250, 10)], False),
        ([(at * 3600, CALL) for at in range(4)], True),  # three times asleep
        ([(at / 10, CALL) for at in range(2000)], True),
        ([*((at, CALL) for at in range(0, 200, 10)), (200, OPENED), (260, CALL)], True),
        ([*((at, CALL) for at in range(0, 300, 10)), (300, OPENED), (310, CALL)], False),
        ([*((at, CALL) for at in range(0, 200, 10)), (300, GAP), (310, CALL)], True),
        ([(at, {**CALL, "values": {"kind": "opened"}}) for at in range(0, 250, 10)], False),
    ],
)
def test_minutes_of_work_without_a_checkpoint_are_a_problem(
    facts: list[tuple[float, dict[str, object]]], is_sound: bool
) -> None:
    lines = chain_entries(NO_RECORD, [encode_entry(NOON + at, fact) for at, fact in facts])[1]
    assert judge(lines, seal(0), must_be_sealed=True).is_sound is is_sound


@pytest.mark.parametrize("count", [1, 12])
def test_no_two_logs_begin_alike(tmp_path: Path, count: int) -> None:
    key = tmp_path / "key"
    paths = [tmp_path / "one" / "audit.db", tmp_path / "other" / "audit.db"]
    for path in paths:
        make_log(path, count, key_file=key)
    assert open_log(paths[0], key).verify().is_sound
    seals(paths[0]).write_bytes(seals(paths[1]).read_bytes())  # the same key, and the same said of the same
    assert not open_log(paths[0], key).verify().is_sound
