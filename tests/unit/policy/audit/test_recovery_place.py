"""Where damage begins, as far as opening a log can tell, and what is kept of a decision to go on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.audit_logs import (
    Hands,
    entries,
    make_log,
    make_writer,
    read_lines,
    records,
    refusal,
    replace_lines,
    seals,
    verify,
)
from toolcrib.policy import Audit
from toolcrib.policy.audit.checkpoints import Checkpoint
from toolcrib.policy.audit.writer import NO_CHECKPOINT, RETENTION_S, RecordWriter


def change(path: Path, seq: int) -> None:
    """One record says something else, with its hash as it was."""
    lines = read_lines(path)
    lines[seq - 1] = lines[seq - 1].replace(b'"at":"2026', b'"at":"2025')
    replace_lines(path, lines)


@pytest.mark.parametrize(("seq", "good"), [(5, 0), (12, 0), (13, 12), (20, 12), (25, 24), (35, 24)])
def test_what_a_checkpoint_has_seen_before_the_damage_stays_good(tmp_path: Path, seq: int, good: int) -> None:
    path = tmp_path / "audit.db"
    for _ in range(3):
        make_log(path, 10)  # the last of them are sealed: 12, 24 and 36
    change(path, seq)
    error = refusal(path)
    assert (error.seq, f"record {seq} does not match" in str(error)) == (good + 1, True)
    make_log(path, 1, accept_gap=True)
    assert next(each for each in records(path) if each["kind"] == "recovered")["good"] == good
    assert verify(path).is_sound


def test_nothing_is_good_where_no_checkpoint_came_before_the_damage(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10)
    last = seals(path).read_bytes().splitlines(keepends=True)[-1]
    seals(path).write_bytes(last)  # the one of the empty log is gone
    change(path, 5)
    assert refusal(path).seq == 1


def test_of_a_log_that_was_cut_to_its_first_record_that_one_is_good(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10)
    replace_lines(path, read_lines(path)[:1])
    assert refusal(path).seq == 2


def test_a_log_with_a_broken_end_and_no_checkpoints_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10)
    seals(path).unlink()
    replace_lines(path, [*read_lines(path), b"garbage"])
    for _ in range(2):
        error = refusal(path)
        assert (str(error), error.seq) == (NO_CHECKPOINT, 1)


def test_a_decision_to_go_on_says_how_many_records_there_were(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10, is_closed=False)
    change(path, 5)
    make_log(path, 1, accept_gap=True)
    found = [json.loads(line) for line in seals(path).read_bytes().splitlines()]
    accepted = next(each for each in found if each["kind"] == "accepted")
    assert (accepted["count"], accepted["seq"], accepted["good"]) == (11, 11, 4)


class Interrupted(RecordWriter):
    """Who opens a log, and is held up after reading its checkpoints."""

    meanwhile: Callable[[], object]

    def all_checkpoints(self) -> list[Checkpoint]:
        found = super().all_checkpoints()
        self.meanwhile()
        return found


def test_records_that_another_process_ends_while_a_log_is_opened_are_no_damage(tmp_path: Path) -> None:
    path, hands = tmp_path / "audit.db", Hands()
    theirs = make_writer(path, hands, keep_records=1_000)
    theirs.write(entries(3_000))
    hands.pass_by(RETENTION_S + 1)
    ours = Interrupted(Audit(path), server="shop", wall=hands.wall, now=hands.now)
    ours.meanwhile = theirs.run_maintenance
    ours.open()
    assert (verify(path).pruned_before or 0) > 1_000
    ours.close()
    theirs.close()
    assert verify(path).is_sound
