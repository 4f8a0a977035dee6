"""Checkpoint files and checkpoint lines."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path

import pytest

from toolcrib.policy.audit import checkpoints as module
from toolcrib.policy.audit.checkpoints import (
    AuditKey,
    Checkpoint,
    CheckpointFile,
    collect_checkpoints,
    parse_checkpoint,
    read_checkpoints,
)
from toolcrib.state.base import Head

SECRET = AuditKey(b"k" * 32)
OTHER = AuditKey(b"x" * 32)


def head(seq: int) -> Head:
    return Head(seq, b"%064x" % seq)


@pytest.fixture
def file(tmp_path: Path) -> CheckpointFile:
    return CheckpointFile(tmp_path / "seals", SECRET)


def fill(file: CheckpointFile, first: int, last: int) -> list[bytes]:
    """Add checkpoints of one stream, and return all lines."""
    for seq in range(first, last + 1):
        file.add("then", {"one": head(seq)})
    return file.path.read_bytes().splitlines()


# --- lines ---


def test_a_checkpoint_is_only_what_the_key_has_sealed() -> None:
    made = Checkpoint(7, "2026-05-04T10:00:00.000Z", {"one": head(7)}, {"two": head(5)}, "before")
    line = made.to_line(SECRET)
    found = parse_checkpoint(line, SECRET)
    assert found is not None
    assert (found.number, found.at, found.heads, found.pruned, found.previous) == (
        *(7, "2026-05-04T10:00:00.000Z", {"one": head(7)}, {"two": head(5)}, "before"),
    )
    assert parse_checkpoint(line, None) == found
    assert parse_checkpoint(line, OTHER) is None
    changed = line.replace(b'"one":[7', b'"one":[8')
    assert parse_checkpoint(changed, SECRET) is None
    assert parse_checkpoint(changed, None) is not None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[1",
        b'{"number":1',
        b'{"number":true,"at":"","heads":{},"pruned":{},"previous":""',
        b'{"number":1,"at":5,"heads":{},"pruned":{},"previous":""',
        b'{"number":1,"at":"","heads":[],"pruned":{},"previous":""',
        b'{"number":1,"at":"","heads":{"a":1},"pruned":{},"previous":""',
        b'{"number":1,"at":"","heads":{"a":["1",""]},"pruned":{},"previous":""',
        b'{"number":1,"at":"","heads":{"a":[1,2]},"pruned":{},"previous":""',
        b'{"number":1,"at":"","heads":{},"pruned":{},"previous":null',
        b'{"number":1,"at":"","heads":{},"pruned":{},"previous":"","more":1',
        b'{"kind":"checkpoint","seq":1,"hash":"","count":1,"at":"","clock":1',
    ],
)
def test_a_sealed_line_with_other_facts_is_not_a_checkpoint(body: bytes) -> None:
    line = b'%b,"mac":"%b"}' % (body, SECRET.seal(body))
    assert parse_checkpoint(line, SECRET) is None
    assert parse_checkpoint(line, None) is None


@pytest.mark.parametrize("line", [b"", b"{}", b"x" * 200, b',"mac":"' + b"0" * 64 + b'"}'])
def test_other_lines_are_not_checkpoints(line: bytes) -> None:
    assert parse_checkpoint(line, None) is None


# --- the lines of a file ---


@pytest.mark.parametrize("key", [SECRET, None])
def test_a_line_that_was_taken_out_is_noticed(file: CheckpointFile, key: AuditKey | None) -> None:
    lines = fill(file, 1, 4)
    assert collect_checkpoints(lines, key).problems == []
    assert collect_checkpoints(lines[1:], key).problems == ["checkpoints before number 2 were removed"]
    assert collect_checkpoints([lines[0], *lines[2:]], key).problems == [
        "checkpoints before number 3 were removed"
    ]
    assert collect_checkpoints([lines[1], lines[0]], key).problems != []


def test_lines_that_were_changed_are_counted_from_one(file: CheckpointFile) -> None:
    lines = fill(file, 1, 3)
    found = collect_checkpoints([lines[0], lines[1].replace(b"one", b"two"), lines[2]], SECRET)
    assert found.problems == ["line 2 of the checkpoints was changed, or sealed with another key"]
    assert [each.number for each in found.lines] == [1, 3]


def test_a_file_that_was_cut_is_continued_where_it_was(file: CheckpointFile) -> None:
    fill(file, 1, 3)
    file.path.write_bytes(file.path.read_bytes().splitlines(keepends=True)[0])
    fill(file, 4, 4)
    assert file.read().problems == ["checkpoints before number 4 were removed"]
    file.path.unlink()
    fill(file, 5, 5)
    assert file.read().problems == ["checkpoints before number 5 were removed"]


def test_processes_continue_the_lines_of_each_other(file: CheckpointFile) -> None:
    other = CheckpointFile(file.path, SECRET)
    fill(file, 1, 2)
    other.add("then", {"two": head(1)})
    fill(file, 3, 3)
    found = file.read()
    assert (found.problems, [each.number for each in found.lines]) == ([], [1, 2, 3, 4])
    assert found.newest() == {"one": head(3), "two": head(1)}


def test_many_lines_are_replaced_by_one_that_says_the_same(
    file: CheckpointFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COMPACT_LINES", 5)
    other = CheckpointFile(file.path, SECRET)
    file.add("then", {"two": head(9)}, {"two": head(8)})
    before = fill(file, 1, 4)
    file.compact("now")
    assert file.path.read_bytes().splitlines() == before
    file.add("then", {"two": head(12)}, {"two": head(11)})
    copy = file.read()
    file.compact("now")
    [line] = file.read().lines
    assert (line.number, line.at) == (7, "now")
    assert line.heads == {"one": head(4), "two": head(12)}
    assert line.pruned == {"two": head(11)}
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    other.add("then", {"one": head(5)})
    found = file.read()
    found.compare(copy)
    assert (found.problems, found.pruned) == ([], {"two": head(11)})
    assert found.newest() == {"one": head(5), "two": head(12)}


def test_lines_with_a_problem_are_not_replaced(file: CheckpointFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMPACT_LINES", 2)
    lines = fill(file, 1, 4)
    file.path.write_bytes(b"".join(line + b"\n" for line in lines[1:]))
    before = file.path.read_bytes()
    file.compact("now")
    assert file.path.read_bytes() == before


def test_a_copy_shows_that_the_last_lines_were_cut_off_or_written_anew(
    file: CheckpointFile, tmp_path: Path
) -> None:
    lines = fill(file, 1, 4)
    copy = tmp_path / "copy"
    copy.write_bytes(lines[2] + b"\n")

    def compare(with_key: AuditKey | None = SECRET) -> list[str]:
        found = file.read()
        found.compare(read_checkpoints(copy, with_key, is_copy=True))
        return found.problems

    assert compare() == []
    file.path.write_bytes(b"".join(line + b"\n" for line in lines[:2]))
    assert compare() == ["checkpoint 3, which the copy has, is missing"]
    CheckpointFile(file.path, SECRET).add("then", {"one": head(9)})
    assert compare() == ["checkpoint 3 differs from the copy"]
    file.path.unlink()
    assert compare() == ["checkpoint 3, which the copy has, is missing"]
    copy.write_bytes(b"".join(line + b"\n" for line in lines))
    assert compare() == []  # a complete copy may be all there is


# --- the file ---


def test_an_unfinished_last_line_is_cut(file: CheckpointFile) -> None:
    fill(file, 1, 2)
    whole = file.path.read_bytes()
    file.path.write_bytes(whole + whole[:40])
    assert read_checkpoints(file.path, SECRET).newest() == file.read().newest() == {"one": head(2)}
    lines = fill(file, 3, 3)
    assert file.path.read_bytes().startswith(whole)
    assert (len(lines), file.read().problems) == (3, [])
    assert read_checkpoints(file.path.with_name("none"), SECRET).lines == []


def test_a_checkpoint_follows_the_last_line_of_a_long_file(file: CheckpointFile) -> None:
    fill(file, 1, 3)
    file.path.write_bytes(file.path.read_bytes() + b"x" * 200_000)
    CheckpointFile(file.path, SECRET).add("then", {"one": head(4)})
    assert [each.number for each in file.read().lines] == [1, 2, 3, 4]
    assert file.read().problems == []


def test_adding_a_checkpoint_syncs_and_closes_the_file(
    file: CheckpointFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: dict[int, bytes] = {}
    monkeypatch.setattr(os, "fsync", lambda descriptor: used.update({descriptor: file.path.read_bytes()}))
    fill(file, 1, 1)
    ((descriptor, synced),) = used.items()
    assert synced == file.path.read_bytes()
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(descriptor)


@pytest.mark.parametrize("written", [0, 10])
def test_a_checkpoint_that_does_not_fit_on_the_disk_leaves_the_file_unchanged(
    file: CheckpointFile, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    fill(file, 1, 1)
    before, write = file.path.read_bytes(), os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:written]))
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            fill(file, 2, 2)
    assert file.path.read_bytes() == before
    fill(file, 2, 2)
    assert file.read().problems == []


def test_the_file_is_locked_while_a_checkpoint_is_added(
    file: CheckpointFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked: list[bool] = []

    def try_to_lock(_: int) -> None:
        with open(file.path, "rb") as other:
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                locked.append(True)

    monkeypatch.setattr(os, "fsync", try_to_lock)
    fill(file, 1, 1)
    assert locked == [True]
