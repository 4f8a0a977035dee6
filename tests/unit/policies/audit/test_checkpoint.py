"""The file of checkpoints, as somebody finds it who was not the last to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib.policies.audit import checkpoint
from toolcrib.policies.audit.checkpoint import Checkpoint, CheckpointFile
from toolcrib.policies.audit.key import Secret

SECRET = Secret(b"k" * 32)


def make(seq: int) -> Checkpoint:
    return Checkpoint("checkpoint", seq, "a" * 64, seq, "", 0)


def test_the_newest_checkpoint_is_the_one_before_a_torn_end(tmp_path: Path) -> None:
    path = tmp_path / "seals"
    file = CheckpointFile(path, SECRET)
    file.add(make(5))
    file.add(make(9))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:40])
    assert file.newest(None) == (make(9), True)
    assert path.read_bytes() == whole
    file.close()


def test_what_is_said_of_records_that_are_gone_is_dropped_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "_LOOK_BACK", 2)
    path = tmp_path / "seals"
    file = CheckpointFile(path, SECRET)
    for seq in range(1, 6):
        file.add(make(seq))
    with path.open("ab") as other:
        other.write(b"not ours\n")
    whole = path.read_bytes()
    file.forget_before(3)  # two lines are not worth it
    assert path.read_bytes() == whole
    file.forget_before(4)
    assert file.read_all() == [make(4), make(5)]
    assert path.read_bytes().endswith(b"\nnot ours\n")
    file.close()
