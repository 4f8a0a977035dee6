"""Opening a log: what a crash leaves is put right, what a crash cannot do is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.audit_logs import (
    Hands,
    entries,
    kinds,
    make_log,
    make_writer,
    read_lines,
    records,
    refusal,
    replace_lines,
    restamp,
    seals,
    verify,
)
from toolcrib.policy.audit import open_log

# --- a crash ---


def test_a_log_that_was_never_closed_opens_again(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 25, is_closed=False)
    assert verify(path).is_sound
    assert verify(path).proven_through == 0
    make_log(path, 1)
    assert verify(path).is_sound
    assert verify(path).proven_through == verify(path).last_seq == 29


def test_half_a_checkpoint_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 5)
    whole = seals(path).read_bytes()
    seals(path).write_bytes(whole + whole[:40])
    assert verify(path).is_sound
    make_log(path, 1)
    assert verify(path).is_sound
    assert seals(path).read_bytes().startswith(whole)
    assert seals(path).read_bytes().count(b"\n") == whole.count(b"\n") + 1


def test_half_of_the_only_checkpoint_is_cut_too(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    seals(path).write_bytes(b'{"kind":"check')
    path.with_name("audit.db.key").write_text("k" * 40)
    path.with_name("audit.db.key").chmod(0o600)
    make_log(path, 1)
    assert verify(path).is_sound


# --- damage ---


def edit(lines: list[bytes]) -> list[bytes]:
    return [line.replace(b'"c4"', b'"d4"') for line in lines]


DAMAGE = {
    "edited": (edit, 5),
    "deleted": (lambda lines: [*lines[:4], *lines[5:]], 5),
    "swapped": (lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]], 5),
    "doubled": (lambda lines: [*lines[:5], *lines[4:]], 6),
    "garbage": (lambda lines: [*lines[:4], b"garbage", *lines[5:]], 5),
    "garbage at the end": (lambda lines: [*lines, b"garbage"], 12),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_broken_middle_refuses(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10, is_closed=False)  # 11 records that no checkpoint has seen
    change, place = DAMAGE[kind]
    replace_lines(path, change(read_lines(path)))
    before = read_lines(path)
    error = refusal(path)
    assert error.seq == place
    assert str(error) == f"what follows record {place - 1} is not what was written"
    assert read_lines(path) == before
    assert not verify(path).is_sound


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_gap_can_be_accepted(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10, is_closed=False)
    change, place = DAMAGE[kind]
    replace_lines(path, change(read_lines(path)))
    make_log(path, 3, accept_gap=True)
    make_log(path, 3)
    verdict = verify(path)
    assert verdict.problems
    assert all(problem.is_accepted for problem in verdict.problems)
    assert verdict.is_sound
    found = next(record for record in records(path) if record["kind"] == "recovered")
    assert found["good"] == place - 1
    assert found["accepted"] == f"what follows record {place - 1} is not what was written"
    is_longer = kind == "garbage at the end" or (kind == "doubled")
    assert found["seq"] == (13 if is_longer else 12)


def test_behind_an_accepted_gap_everything_is_proven_again_and_before_it_still(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10)
    make_log(path, 10, is_closed=False)
    lines = read_lines(path)
    replace_lines(path, [line.replace(b'"c4"', b'"d4"') if n > 12 else line for n, line in enumerate(lines)])
    make_log(path, 3, accept_gap=True)
    assert verify(path).is_sound
    lines = read_lines(path)
    for place in (2, len(lines) - 2):
        changed = [*lines]
        changed[place] = changed[place].replace(b"ana", b"bob")
        replace_lines(path, changed)
        assert not verify(path).is_sound
    replace_lines(path, restamp([line.replace(b'"c2"', b'"d2"') for line in lines]))
    assert not verify(path).is_sound
    replace_lines(path, lines)
    assert verify(path).is_sound


def test_up_to_an_accepted_gap_nothing_can_be_changed_any_more(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10, is_closed=False)  # no checkpoint has seen any of it
    replace_lines(path, edit(read_lines(path)))  # record 5
    make_log(path, 3, accept_gap=True)
    lines = read_lines(path)
    replace_lines(path, [*restamp([line.replace(b"ana", b"bob") for line in lines[:4]]), *lines[4:]])
    problems = [(each.seq, each.kind) for each in verify(path).problems if not each.is_accepted]
    assert problems == [(4, "restamped")]


def test_a_log_that_was_cut_short_refuses_and_never_gives_a_number_twice(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10)
    replace_lines(path, read_lines(path)[:7])
    error = refusal(path)
    assert str(error) == "it ends before record 12, of which there is a checkpoint"
    assert error.seq == 8
    assert kinds(path) == ["truncated"]
    assert verify(path).problems[0].words == "records 8 to 12 are missing at the end"
    make_log(path, 2, accept_gap=True)
    verdict = verify(path)
    assert [(problem.kind, problem.is_accepted) for problem in verdict.problems] == [("missing", True)]
    assert verdict.is_sound
    assert [record["seq"] for record in records(path)] == [*range(1, 8), *range(13, 18)]
    make_log(path, 2, is_closed=False)
    make_log(path, 2)
    assert verify(path).is_sound


def test_a_log_that_was_emptied_refuses(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10)
    path.unlink()
    error = refusal(path)
    assert str(error) == "it ends before record 12, of which there is a checkpoint"
    assert error.seq == 1
    make_log(path, 1, accept_gap=True)
    assert verify(path).is_sound
    assert records(path)[0]["seq"] == 13


def test_restamping_up_to_the_last_checkpoint_refuses(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10)
    replace_lines(path, restamp(edit(read_lines(path))))
    error = refusal(path)
    assert str(error) == "record 12 does not match its checkpoint"
    assert error.seq == 12
    assert kinds(path) == ["restamped"]
    make_log(path, 1, accept_gap=True)
    assert verify(path).is_sound
    assert [problem.is_accepted for problem in verify(path).problems] == [True]


def test_without_its_checkpoints_a_log_refuses(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10)
    seals(path).unlink()
    error = refusal(path)
    assert str(error) == "there are records, but no checkpoint of them that was sealed with this key"
    assert error.seq == 1
    assert kinds(path) == ["unsealed"]
    make_log(path, 1, accept_gap=True)
    assert verify(path).is_sound
    assert records(path)[12]["good"] == 0


def test_checkpoints_of_another_key_refuse(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10)
    path.with_name("audit.db.key").write_text("another key that is long enough to be one\n")
    error = refusal(path)
    assert str(error) == "its checkpoints were changed, or sealed with another key"
    assert kinds(path) == ["forged", "forged", "unsealed"]
    make_log(path, 1, accept_gap=True)
    verdict = verify(path)
    assert verdict.is_sound
    assert [(problem.kind, problem.is_accepted) for problem in verdict.problems] == [("forged", True)] * 2
    with seals(path).open("ab") as file:
        file.write(b"{}\n")
    assert [problem.is_accepted for problem in verify(path).problems] == [True, True, False]
    assert not verify(path).is_sound
    error = refusal(path)
    assert (str(error), error.seq) == ("its checkpoints were changed, or sealed with another key", 17)


def test_a_log_that_is_gone_with_its_key_begins_with_record_one(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10)
    path.unlink()
    path.with_name("audit.db.key").write_text("another key that is long enough to be one\n")
    assert str(refusal(path)) == "its checkpoints were changed, or sealed with another key"
    make_log(path, 1, accept_gap=True)
    assert [record["seq"] for record in records(path)] == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", [kind for kind in DAMAGE if kind != "garbage at the end"])
def test_a_short_log_that_was_closed_and_then_changed_refuses(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10)  # the last of them is sealed
    change, _ = DAMAGE[kind]
    replace_lines(path, change(read_lines(path)))
    before = read_lines(path)
    refusal(path)
    assert read_lines(path) == before
    make_log(path, 3, accept_gap=True)
    make_log(path, 3)  # what was accepted is accepted for good
    assert verify(path).is_sound
    assert verify(path).problems


def test_recovery_of_a_long_log_looks_at_what_came_after_the_last_checkpoint_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.policy.audit.writer.FULL_CHECK_RECORDS", 31)
    path = tmp_path / "audit.db"
    make_log(path, 30)  # 32 records
    replace_lines(path, edit(read_lines(path)))
    make_log(path, 1)  # opens: that takes no time, however long the log is
    assert kinds(path) == ["edited"]
    assert verify(path).problems[0].seq == 5


def test_a_log_is_short_when_few_records_are_left_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.policy.audit.writer.FULL_CHECK_RECORDS", 1500)
    path, hands = tmp_path / "audit.db", Hands()
    writer = make_writer(path, hands, keep_records=1000)
    writer.write(entries(3000))
    hands.pass_by(60)
    writer.run_maintenance()
    writer.close()
    assert verify(path).records < 1500 < verify(path).first_seq
    replace_lines(path, [line.replace(b'"c2500"', b'"d2500"') for line in read_lines(path)])
    assert str(refusal(path)).startswith("record 2501 does not match the one before it")


@pytest.mark.parametrize("count", [998, 999])
def test_who_is_killed_again_and_again_has_not_more_to_look_at_every_time(tmp_path: Path, count: int) -> None:
    path = tmp_path / "audit.db"
    make_log(path, count, batch=count, is_closed=False)  # and the word that it was opened
    writer = make_writer(path)
    writer.open()
    writer.release()
    assert verify(path).proven_through == (1000 if count == 999 else 0)
    assert verify(path).is_sound


def test_the_checkpoints_may_be_kept_elsewhere(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "audit.db", tmp_path / "safe" / "seals"
    key = tmp_path / "safe" / "key"
    make_log(path, 3, checkpoints=elsewhere, key_file=key)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["audit.db", "safe"]
    assert open_log(path, key, elsewhere).verify().proven_through == 5
    verdict = open_log(path).verify()
    assert (verdict.is_sound, verdict.is_keyed, verdict.checkpoints_checked) == (True, False, 0)


def test_a_checkpoint_says_what_the_log_was(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    hands = Hands()
    writer = make_writer(path, hands)
    writer.write(entries(3))
    hands.pass_by(5)
    writer.close()
    first, last = [json.loads(line) for line in seals(path).read_bytes().splitlines()]
    assert len(first.pop("mac")) == len(last.pop("mac")) == 64
    assert first == {
        "kind": "checkpoint",
        "seq": 0,
        "hash": "0" * 64,
        "count": 0,
        "at": "2026-05-04T10:00:00.000Z",
        "clock": 1_777_888_800,
    }
    assert last == {
        "kind": "checkpoint",
        "seq": 5,
        "hash": verify(path).head,
        "count": 5,
        "at": "2026-05-04T10:00:05.000Z",
        "clock": 1_777_888_805,
    }
