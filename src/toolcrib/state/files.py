"""Files that hold state: private, and neither planted nor changeable by other users."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

try:
    import pwd
except ImportError:  # pragma: no cover - Windows has no such owners
    pwd = None  # type: ignore[assignment]


def create_database(path: Path) -> None:
    """Create a private file for SQLite where there is none. Raise OSError for one that another user may have
    planted or can change; the same holds for its folder, and the files that SQLite keeps beside it."""
    _refuse_foreign(path.parent, os.stat(path.parent))
    for beside in ("", "-wal", "-shm", "-journal"):
        each = path.with_name(f"{path.name}{beside}")
        with suppress(FileNotFoundError):
            _refuse_foreign(each, os.lstat(each))
    with suppress(FileExistsError):  # opening and closing it here would release the locks of SQLite
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600))
    _refuse_foreign(path, os.lstat(path))  # somebody may have created it just before


def _refuse_foreign(path: Path, facts: os.stat_result) -> None:
    is_folder = stat.S_ISDIR(facts.st_mode)
    if stat.S_ISLNK(facts.st_mode):
        problem = "is a symbolic link"
    elif (owner := find_other_owner(facts)) is not None:
        problem = f"belongs to another user ({owner})"
    elif facts.st_mode & 0o022 and not (is_folder and facts.st_mode & stat.S_ISVTX) and os.name != "nt":
        problem = f"can be written by other users: chmod go-w {path}"
    else:
        return
    raise PermissionError(f"{path} {problem}")


def find_other_owner(facts: os.stat_result) -> str | None:
    """Return the name and uid of a file's owner, or None if it is the current user or root."""
    if not hasattr(os, "geteuid") or facts.st_uid in (0, os.geteuid()):
        return None
    try:
        return f"{pwd.getpwuid(facts.st_uid).pw_name}, uid {facts.st_uid}"
    except KeyError:  # no user has this number
        return f"uid {facts.st_uid}"
