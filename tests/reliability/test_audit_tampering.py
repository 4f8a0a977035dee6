"""Whatever is done to the records of a log without its key, the last checkpoint gives it away.

600 random changes every day, 10,000 with `TOOLCRIB_SOAK=1`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.records.audit_logs import (
    make_log,
    read_lines,
    read_streams,
    replace_lines,
    restamp,
    verify,
)
from toolcrib.policy.audit import open_log
from toolcrib.policy.audit.record import NO_RECORD, TAIL, chain_entries, encode_entry, read_head

pytestmark = pytest.mark.row("H1")

COUNT = 5_000 if os.environ.get("TOOLCRIB_SOAK") else 300
"""For each of the stores."""
Lines = list[bytes]


def turn_bit(lines: Lines, dice: random.Random) -> Lines:
    place = dice.randrange(len(lines))
    line = bytearray(lines[place])
    line[dice.randrange(len(line))] ^= 1 << dice.randrange(8)
    return [*lines[:place], bytes(line), *lines[place + 1 :]]


def reword(lines: Lines, dice: random.Random) -> Lines:
    old, new = dice.choice([(b"ana", b"bob"), (b'"ok"', b'"no"'), (b"tool_", b"toll_"), (b"call", b"calm")])
    places = [place for place, line in enumerate(lines) if old in line]
    place = dice.choice(places)
    return [*lines[:place], lines[place].replace(old, new), *lines[place + 1 :]]


def delete(lines: Lines, dice: random.Random) -> Lines:
    start = dice.randrange(len(lines))
    return [*lines[:start], *lines[start + dice.randrange(1, 4) :]]


def swap(lines: Lines, dice: random.Random) -> Lines:
    one, other = sorted(dice.sample(range(len(lines)), 2))
    changed = [*lines]
    changed[one], changed[other] = lines[other], lines[one]
    return changed


def double(lines: Lines, dice: random.Random) -> Lines:
    place, target = dice.randrange(len(lines)), dice.randrange(len(lines) + 1)
    return [*lines[:target], lines[place], *lines[target:]]


def cut(lines: Lines, dice: random.Random) -> Lines:
    return lines[: dice.randrange(len(lines))]


def cut_start(lines: Lines, dice: random.Random) -> Lines:
    return lines[dice.randrange(1, len(lines)) :]


def reword_and_restamp(lines: Lines, dice: random.Random) -> Lines:
    return restamp(reword(lines, dice))


def delete_and_restamp(lines: Lines, dice: random.Random) -> Lines:
    """Numbers closed up and hashes made anew: without a checkpoint nobody could tell."""
    bodies = [line[:-TAIL].split(b",", 1)[1] for line in delete(lines, dice)]
    return restamp([b'{"seq":%d,%b' % (seq, body) + b"x" * TAIL for seq, body in enumerate(bodies, start=1)])


def restamp_one(lines: Lines, dice: random.Random) -> Lines:
    changed = reword(lines, dice)
    place = next(place for place, line in enumerate(changed) if line != lines[place])
    previous = read_head(changed[place - 1]) if place else NO_RECORD
    assert previous is not None
    return [*changed[:place], *restamp([changed[place]], previous.hash), *changed[place + 1 :]]


CHANGES: list[Callable[[Lines, random.Random], Lines]] = [
    turn_bit,
    reword,
    delete,
    swap,
    double,
    cut,
    cut_start,
    reword_and_restamp,
    delete_and_restamp,
    restamp_one,
]


def test_h1_every_change_is_found(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 20)
    lines, log = read_lines(path), open_log(path)
    dice = random.Random(1)
    missed: list[tuple[int, str]] = []
    for number in range(COUNT):
        change = CHANGES[number % len(CHANGES)]
        changed = change(lines, dice)
        if changed == lines:
            continue
        replace_lines(path, changed)
        if log.verify().is_sound:
            missed.append((number, change.__name__))
    assert missed == []
    replace_lines(path, lines)
    assert log.verify().is_sound


def test_h1_every_byte_of_a_record_counts(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 1)
    lines, log, dice = read_lines(path), open_log(path), random.Random(2)
    for number, line in enumerate(lines):
        for place in range(len(line)):
            changed = bytearray(line)
            changed[place] ^= 1 << dice.randrange(8)
            replace_lines(path, [*lines[:number], bytes(changed), *lines[number + 1 :]])
            assert not log.verify().is_sound, place


def test_h1_what_is_added_behind_the_last_checkpoint_is_not_called_proven(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10)
    head, [stream] = read_head(read_lines(path)[-1]), read_streams(path)
    assert head is not None
    forged = chain_entries(stream, head, [encode_entry(0, {"id": "forged"})])
    replace_lines(path, [*read_lines(path), *(record.line for record in forged)])
    verdict = verify(path)
    assert (verdict.records, verdict.unsealed) == (13, 1)


def test_h1_checkpoints_cannot_be_made_without_the_key(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10)
    seals = path.with_name("audit.db.checkpoints")
    lines = seals.read_bytes().splitlines(keepends=True)
    dice = random.Random(3)
    for _ in range(100):
        changed = bytearray(lines[-1])
        changed[dice.randrange(len(changed) - 1)] ^= 1 << dice.randrange(8)
        seals.write_bytes(b"".join(lines[:-1]) + changed)
        assert not verify(path).is_sound
    other = tmp_path / "other" / "audit.db"
    make_log(other, 3)
    seals.write_bytes(other.with_name("audit.db.checkpoints").read_bytes())
    assert not verify(path).is_sound


def test_h1_who_has_a_copy_of_the_last_checkpoint_finds_what_was_cut_off_with_the_others(
    tmp_path: Path,
) -> None:
    path, copy = tmp_path / "audit.db", tmp_path / "copy"
    for _ in range(3):
        make_log(path, 4)
    seals = path.with_name("audit.db.checkpoints")
    lines, sealed, dice = read_lines(path), seals.read_bytes().splitlines(keepends=True), random.Random(4)
    copy.write_bytes(sealed[-1])
    for left in range(len(sealed)):
        seals.write_bytes(b"".join(sealed[:left]))
        for change in (reword_and_restamp, delete_and_restamp, cut):
            changed = change(lines, dice)
            replace_lines(path, changed)
            assert not open_log(path, copy=copy).verify().is_sound, (left, change.__name__)
    replace_lines(path, lines)
    seals.write_bytes(b"".join(sealed))
    assert open_log(path, copy=copy).verify().is_sound
