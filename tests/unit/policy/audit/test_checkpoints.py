"""Checkpoint files and checkpoint lines."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path

import pytest

from tests.support.records.audit_logs import make_log, seals, verify
from toolcrib.policy.audit import checkpoints as checkpoint
from toolcrib.policy.audit.checkpoints import (
    AuditKey,
    Checkpoint,
    CheckpointFile,
    parse_checkpoint,
    read_checkpoints,
)

SECRET = AuditKey(b"k" * 32)


def make(seq: int) -> Checkpoint:
    return Checkpoint("checkpoint", seq, "a" * 64, seq, "", 0)


def test_an_unfinished_last_line_is_no_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "seals"
    file = CheckpointFile(path, SECRET)
    file.add(make(5))
    file.add(make(9))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:40])
    assert file.read(is_recent=True).checkpoints[-1] == make(9)
    file.add(make(10))
    assert path.read_bytes() == whole + make(10).to_line(SECRET) + b"\n"


def test_only_checkpoints_of_removed_records_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "_RECENT", 2)
    path = tmp_path / "seals"
    file = CheckpointFile(path, SECRET)
    for seq in range(1, 6):
        file.add(make(seq))
    with path.open("ab") as other:
        other.write(b"not ours\n")
    whole = path.read_bytes()
    file.drop_before(3)  # two lines are not worth it
    assert path.read_bytes() == whole
    file.drop_before(4)
    assert file.read().checkpoints == [make(4), make(5)]
    assert path.read_bytes().endswith(b"\nnot ours\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_adding_a_checkpoint_syncs_and_closes_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "seals"
    used: dict[int, bytes] = {}
    monkeypatch.setattr(os, "fsync", lambda descriptor: used.update({descriptor: path.read_bytes()}))
    file = CheckpointFile(path, SECRET)
    file.add(make(5))
    ((descriptor, synced),) = used.items()
    assert synced == make(5).to_line(SECRET) + b"\n"
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(descriptor)


def test_lines_are_counted_from_one_without_an_unfinished_one(tmp_path: Path) -> None:
    path = tmp_path / "seals"
    line = make(5).to_line(SECRET)
    path.write_bytes(line + b"\nnot ours\n" + line + b"\n" + line)
    assert list(read_checkpoints(path, SECRET)) == [(1, make(5)), (2, None), (3, make(5))]
    assert list(read_checkpoints(tmp_path / "none", SECRET)) == []


@pytest.mark.parametrize("body", [b"", b"{", b"[", b'{"kind":"checkpoint"'])
def test_a_sealed_line_with_other_facts_is_no_checkpoint(body: bytes) -> None:
    line = b'%b,"mac":"%b"}' % (body, SECRET.seal(body))
    assert parse_checkpoint(line, SECRET) is None
    assert parse_checkpoint(line, None) is None


def test_verify_says_which_line_of_the_checkpoints_was_changed(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 3)
    before = seals(path).read_bytes().splitlines(keepends=True)
    seals(path).write_bytes(b"".join([*before, before[0].replace(b'"seq":', b'"seq":7')]))
    (problem,) = verify(path).problems
    words = f"line {len(before) + 1} of the checkpoints was changed, or sealed with another key"
    assert problem.words == words


@pytest.mark.parametrize("line", [b"", b"{}", b"x" * 200, b',"mac":"' + b"0" * 64 + b'"}'])
def test_other_lines_are_no_checkpoints(line: bytes) -> None:
    assert parse_checkpoint(line, None) is None


@pytest.mark.parametrize("written", [0, 10])
def test_a_checkpoint_that_does_not_fit_on_the_disk_leaves_the_file_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    path = tmp_path / "seals"
    file = CheckpointFile(path, SECRET)
    file.add(make(5))
    before, write = path.read_bytes(), os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:written]))
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            file.add(make(6))
    assert path.read_bytes() == before


def test_the_file_is_locked_while_a_checkpoint_is_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "seals"
    locked: list[bool] = []

    def try_to_lock(_: int) -> None:
        with open(path, "rb") as other:
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                locked.append(True)

    monkeypatch.setattr(os, "fsync", try_to_lock)
    CheckpointFile(path, SECRET).add(make(5))
    assert locked == [True]


def test_the_newest_of_many_checkpoints_is_found_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "seals"
    path.write_bytes(b"".join(make(seq).to_line(SECRET) + b"\n" for seq in range(1, 1_001)) + b"unfinished")
    file = CheckpointFile(path, SECRET)
    assert file.read(is_recent=True).checkpoints[-1] == make(1_000)
    file.add(make(1_001))
    assert len(file.read().checkpoints) == 1_001
    path.write_bytes(path.read_bytes() + b"x" * 200_000)
    assert file.read(is_recent=True).checkpoints[-1] == make(1_001)
