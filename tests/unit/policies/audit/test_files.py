"""A file that only ever grows: what is written anew is safe before it takes the place of what was there."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from toolcrib.policies.audit.files import GrowingFile


def test_a_file_takes_the_place_of_the_old_one_when_it_is_on_the_disk_and_the_move_is_kept_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = GrowingFile(tmp_path / "audit.jsonl")
    done: list[str] = []
    sync, replace = os.fsync, os.replace

    def note_sync(descriptor: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def note_replace(*names: Any) -> None:
        done.append("moved")
        replace(*names)

    with file.locked() as size:
        file.extend(b"old\nnew\n", size)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", note_sync)
            patch.setattr(os, "replace", note_replace)
            file.replace_from(4)
    with file.locked() as size:
        assert file.read(0, size) == b"new\n"
    file.close()
    assert done == ["file", "moved", "folder"]
