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
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

try:
    import pwd
except ImportError:  # pragma: no cover - Windows has no such owners
    pwd = None  # type: ignore[assignment]

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
    remove_stale(path)
    draft = _draft_path(path)
    try:
        with _create(draft, mode, owner) as file:
            yield file
            _sync(file)
        os.replace(draft, path)
    except BaseException:
        _remove(draft)
        raise
    sync_folder(path.parent)


def create_file(
    path: Path, data: bytes, mode: int | None = PRIVATE, owner: os.stat_result | None = None
) -> bool:
    """Create a file with this content, or return False and change nothing where `path` exists.

    Of several processes that do this at the same time, one creates the file. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_stale(path)
    draft = _draft_path(path)
    try:
        with _create(draft, mode, owner) as file:
            file.write(data)
            _sync(file)
        os.link(draft, path)  # unlike a move, a link never replaces what exists
    except FileExistsError:
        return False
    finally:
        _remove(draft)
    sync_folder(path.parent)
    return True


def open_new(path: Path, mode: int = PRIVATE) -> int:
    """Create a file and return a descriptor for writing. Raises OSError where the name or a link exists.

    `mode` applies from the start: others could open a file before its mode is narrowed, and keep it open.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    return os.open(path, flags, mode)


def find_other_owner(facts: os.stat_result) -> str | None:
    """Return the name and uid of a file's owner, or None if it is the current user or root."""
    if not hasattr(os, "geteuid") or facts.st_uid in (0, os.geteuid()):
        return None
    try:
        return f"{pwd.getpwuid(facts.st_uid).pw_name}, uid {facts.st_uid}"
    except KeyError:  # no user has this number
        return f"uid {facts.st_uid}"


def remove_stale(path: Path, older_than_s: float = STALE_S) -> None:
    """Remove temporary files of `path` whose writers were killed."""
    start, now = f".{path.name}.", time.time()
    try:
        with os.scandir(path.parent) as entries:
            drafts = [
                entry for entry in entries if entry.name.startswith(start) and entry.name.endswith(".tmp")
            ]
        for entry in drafts:
            if now - entry.stat(follow_symlinks=False).st_mtime > older_than_s:
                _remove(Path(entry.path))
    except OSError:
        pass  # another process removes them, or the folder is not readable


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk, so that a move survives a power cut; not every system can do it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def _draft_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(6).hex()}.tmp")


def _create(path: Path, mode: int | None, owner: os.stat_result | None) -> BinaryIO:
    allowed = 0o666 if mode is None else mode
    # Until it has its group, the file is private: another group than the intended one could read it.
    descriptor = open_new(path, allowed if owner is None else allowed & 0o700)
    file = open(descriptor, "wb")  # noqa: SIM115 - the caller closes it
    try:
        if owner is not None:
            _set_owner(path, owner)
        if mode is not None:
            os.chmod(path, mode)  # the umask may have removed permissions
    except BaseException:
        file.close()
        raise
    return file


def _set_owner(path: Path, owner: os.stat_result) -> None:
    facts = os.stat(path)
    if hasattr(os, "chown") and (facts.st_uid, facts.st_gid) != (owner.st_uid, owner.st_gid):
        try:
            os.chown(path, owner.st_uid, owner.st_gid)
        except OSError:
            pass  # only an administrator can give a file away


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        pass  # a later write removes it
