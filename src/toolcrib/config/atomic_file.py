"""Atomic file writes: a reader, a crash or a full disk sees the old content or the new, never a part.

    write_file(path, data)                    # replace the content
    with replace_file(path) as file:          # the same, written piece by piece
        file.write(data)
    create_file(path, data)                   # False where the file exists: it is left as it is

Data goes to a temporary file beside the target, is flushed to disk and then moved into place. Temporary files
that a killed process left behind are removed by a later write, after ten minutes.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

STALE_S = 600.0
PRIVATE = 0o600
"""The mode of files with secrets: only their owner reads and writes them."""


def read_file(path: Path, limit: int) -> bytes | None:
    """Return the content of a regular file of at most `limit` bytes, else None."""
    try:
        # Without O_NONBLOCK, opening a pipe would wait for its other end.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        with open(os.open(path, flags), "rb", buffering=0) as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > limit:
                return None
            data = file.readall()
    except (OSError, ValueError):  # ValueError: not a valid file name
        return None
    return data if len(data) <= limit else None


def write_file(path: Path, data: bytes, mode: int | None = None, owner: os.stat_result | None = None) -> None:
    """Replace the content of a file, creating its folder if needed; arguments as of `replace_file`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path, mode, owner) as file:
        file.write(data)


@contextmanager
def replace_file(
    path: Path, mode: int | None = None, owner: os.stat_result | None = None
) -> Iterator[BinaryIO]:
    """Write a temporary file that takes the place of `path` when the block ends without an exception.

    `mode` is the file's mode, by default what the umask leaves of 0o666. `owner` gives it the owner and group
    of another file, as far as the process may do that. Raises OSError; the old content is then unchanged.
    """
    with _draft(path, mode, owner) as (file, draft):
        yield file
        _sync(file)
        file.close()  # Windows moves no open file
        os.replace(draft, path)
    sync_folder(path.parent)


def create_file(
    path: Path, data: bytes, mode: int | None = PRIVATE, owner: os.stat_result | None = None
) -> bool:
    """Create a file with this content, or return False and change nothing where `path` exists.

    Of several processes that do this at the same time, one creates the file. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _draft(path, mode, owner) as (file, draft):
        file.write(data)
        _sync(file)
        try:
            os.link(draft, path)  # unlike a move, a link never replaces what exists
        except FileExistsError:
            return False
    sync_folder(path.parent)
    return True


def open_new(path: Path, mode: int = PRIVATE) -> int:
    """Create a file and return a descriptor for writing. Raises OSError where the name or a link exists.

    `mode` applies from the start: others could open a file before its mode is narrowed, and keep it open.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    return os.open(path, flags, mode)


def remove_stale(path: Path, older_than_s: float = STALE_S) -> None:
    """Remove temporary files of `path` whose writers were killed."""
    start, now = f".{path.name}.", time.time()
    with suppress(OSError):  # another process removes them, or the folder is not readable
        with os.scandir(path.parent) as entries:
            drafts = [
                entry for entry in entries if entry.name.startswith(start) and entry.name.endswith(".tmp")
            ]
        for entry in drafts:
            if now - entry.stat(follow_symlinks=False).st_mtime > older_than_s:
                os.unlink(entry.path)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk, so that a move survives a power cut; not every system can do it."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _draft(path: Path, mode: int | None, owner: os.stat_result | None) -> Iterator[tuple[BinaryIO, Path]]:
    """Create a temporary file beside `path`, and remove it in the end unless it was moved."""
    remove_stale(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(6).hex()}.tmp")
    allowed = 0o666 if mode is None else mode
    try:
        # Until it has its group, the file is private: another group than the intended one could read it.
        with open(open_new(draft, allowed if owner is None else allowed & 0o700), "wb") as file:
            if owner is not None:
                _set_owner(draft, owner)
            if mode is not None:
                os.chmod(draft, mode)  # the umask may have removed permissions
            yield file, draft
    finally:
        with suppress(OSError):  # a later write removes it
            draft.unlink(missing_ok=True)


def _set_owner(path: Path, owner: os.stat_result) -> None:
    facts = os.stat(path)
    if hasattr(os, "chown") and (facts.st_uid, facts.st_gid) != (owner.st_uid, owner.st_gid):
        with suppress(OSError):  # only an administrator can give a file away
            os.chown(path, owner.st_uid, owner.st_gid)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
