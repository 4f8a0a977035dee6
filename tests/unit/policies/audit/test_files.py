"""Plain files of the audit: shared, whole, on the disk, for their owner only, and let go of in the end."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib.config.atomic_file import STALE_S
from toolcrib.policy.audit import jsonl_store as files
from toolcrib.policy.audit.jsonl_store import GrowingFile


def is_open(path: Path) -> bool:
    """Whether this process has a file open."""
    return any(_is_of(descriptor, os.stat(path)) for descriptor in range(256))


def _is_of(descriptor: int, facts: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), facts)
    except OSError:
        return False


def is_held(path: Path, how: int = fcntl.LOCK_EX) -> bool:
    """Whether somebody has a lock that keeps out whoever wants this one."""
    with open(path, "rb") as other:
        try:
            fcntl.flock(other, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def make_file(path: Path, data: bytes) -> GrowingFile:
    file = GrowingFile(path)
    with file.locked() as size:
        file.extend(data, size)
    return file


def test_a_file_takes_the_place_of_the_old_one_when_it_is_on_the_disk_and_the_move_is_kept_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    file = make_file(path, b"old\nnew\n")
    done: list[str] = []
    sync, replace = os.fsync, os.replace

    def note_sync(descriptor: int) -> None:
        facts = os.fstat(descriptor)
        done.append("folder" if stat.S_ISDIR(facts.st_mode) else f"{facts.st_size} bytes")
        sync(descriptor)

    def note_replace(*names: Any) -> None:
        done.append("moved")
        replace(*names)

    with file.locked(), monkeypatch.context() as patch:
        patch.setattr(os, "fsync", note_sync)
        patch.setattr(os, "replace", note_replace)
        file.replace_from(4)
    with file.locked() as size:
        assert size == 4
    file.close()
    assert path.read_bytes() == b"new\n"
    assert mode_of(path) == 0o600
    assert done == ["4 bytes", "moved", "folder"]


def test_what_one_who_was_killed_left_of_a_replacement_goes_with_the_next(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    left = tmp_path / ".audit.jsonl.1.aa.tmp"
    left.write_bytes(b"half")
    long_ago = time.time() - STALE_S - 1
    os.utime(left, (long_ago, long_ago))
    file = make_file(path, b"old\nnew\n")
    with file.locked():
        file.replace_from(4)
    file.close()
    assert os.listdir(tmp_path) == ["audit.jsonl"]


@pytest.mark.parametrize("is_made", [True, False])
def test_a_file_that_cannot_be_replaced_stays_and_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_made: bool
) -> None:
    path = tmp_path / "audit.jsonl"
    file = make_file(path, b"old\nnew\n")

    def fail(*_: Any) -> Any:
        raise OSError(errno.EDQUOT, "no more of it")

    with file.locked(), monkeypatch.context() as patch:
        patch.setattr(os, "replace" if is_made else "open", fail)
        with pytest.raises(OSError, match="no more of it"):
            file.replace_from(4)
    file.close()
    assert path.read_bytes() == b"old\nnew\n"
    assert os.listdir(tmp_path) == ["audit.jsonl"]


def test_a_disk_that_takes_nothing_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.jsonl"
    file = make_file(path, b"old\n")
    with file.locked() as size, monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda *_: 0)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as caught:
            file.extend(b"new\n", size)
    file.close()
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == b"old\n"


def test_a_process_without_standard_input_may_get_its_number_for_a_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    file = GrowingFile(path)
    kept = os.dup(0)
    os.close(0)
    try:
        for _ in range(2):
            with file.locked() as size:
                assert file.descriptor == 0
                assert is_held(path)
                file.extend(b"line\n", size)
            assert not is_held(path)
        file.close()
        assert not is_open(path)
    finally:
        os.dup2(kept, 0)
        os.close(kept)
    assert path.read_bytes() == b"line\nline\n"


def test_while_one_reads_others_may_read_but_nobody_writes(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b"line\n")
    with open(path, "rb") as reader:
        with files.shared(reader.fileno()):
            assert is_held(path)
            assert not is_held(path, fcntl.LOCK_SH)
        assert not is_held(path)


def test_a_file_that_comes_in_small_parts_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b"one\ntwo\n")
    read = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, length: read(descriptor, min(length, 3)))
    with open(path, "rb") as file:
        assert list(files.read_lines(file.fileno(), 0, 8)) == [(0, b"one"), (4, b"two")]


@pytest.mark.parametrize("make", [files.claim, lambda path: make_file(path, b"").close()])
def test_the_folders_of_a_file_are_made_with_it(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "var" / "log" / "audit"
    make(path)
    make(path)
    assert (path.read_bytes(), mode_of(path), is_open(path)) == (b"", 0o600, False)


@pytest.mark.parametrize("make", [lambda path: files.write_new(path, b"key"), files.sync_path])
def test_a_file_is_on_the_disk_and_let_go_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    path = tmp_path / "file"
    if make is files.sync_path:
        make(path)  # one that is not there needs no such thing
        path.write_bytes(b"key")
    synced: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(_is_of(descriptor, os.stat(path))))
    make(path)
    assert synced == [True]
    assert not is_open(path)
    assert path.read_bytes() == b"key"


@pytest.mark.parametrize("is_there", [True, False])
def test_a_new_file_that_cannot_be_written_is_none_and_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    path = tmp_path / "key"

    def fail(*_: Any) -> int:
        if not is_there:
            path.unlink()  # somebody was quicker
        raise OSError(errno.EDQUOT, "no more of it")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OSError, match="no more of it"):
        files.write_new(path, b"key")
    assert not path.exists()
