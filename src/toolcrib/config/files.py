"""One file that holds some bytes, or does not: never half of them.

Written beside its place and moved there when it is safely on the disk, so that a reader, a crash, a full disk
or another writer at the same time sees the old bytes or the new. What a writer that was killed left behind is
removed after ten minutes. Knows files; refuses to know what is in them.
"""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

try:
    import pwd
except ImportError:  # pragma: no cover - Windows, where files have no such owners
    pwd = None  # type: ignore[assignment]

STALE_S = 600.0
PRIVATE = 0o600
"""For files with secrets: their owner reads and writes them, and nobody else."""


def read_file(path: Path, limit: int) -> bytes | None:
    """The bytes of a file; None where there is none, or no plain file of at most `limit` bytes."""
    try:
        # Without O_NONBLOCK, opening a pipe would wait for its other end.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        with open(os.open(path, flags), "rb", buffering=0) as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > limit:
                return None
            data = file.readall()
    except (OSError, ValueError):  # ValueError: a name that cannot be one
        return None
    return data if len(data) <= limit else None


def write_file(path: Path, data: bytes, mode: int | None = None) -> None:
    """Put these bytes in the place of whatever was there; `mode` is who may do what with them, in place of
    what the umask says. Raises OSError, and the old bytes are then as they were."""
    folder = path.parent
    folder.mkdir(parents=True, exist_ok=True)
    sweep(path)
    draft = folder / f".{path.name}.{os.getpid()}.{os.urandom(6).hex()}.tmp"
    try:
        # As any new file: whoever may read the sources may read what was made of them, as the umask says.
        with open(open_new(draft, 0o666 if mode is None else mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(draft, mode)  # only ever wider: the umask may have taken away what is wanted
        os.replace(draft, path)
    except BaseException:
        _remove(draft)
        raise
    sync_folder(folder)


def open_new(path: Path, mode: int = PRIVATE) -> int:
    """Create a file and return a descriptor to write it with. Raises OSError where the name is taken, also by
    a link.

    `mode` applies from the start. A file that is narrowed later can be opened by others before that, and
    their descriptors stay good.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    return os.open(path, flags, mode)


def find_other_owner(facts: os.stat_result) -> str | None:
    """Return the name and number of a file's owner unless that is the current user or root."""
    if not hasattr(os, "geteuid") or facts.st_uid in (0, os.geteuid()):
        return None
    try:
        return f"{pwd.getpwuid(facts.st_uid).pw_name}, uid {facts.st_uid}"
    except KeyError:  # nobody has that number here
        return f"uid {facts.st_uid}"


def sweep(path: Path, older_than_s: float = STALE_S) -> None:
    """Remove what writers of this file left behind long ago: they were killed, and will not come back."""
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
        pass  # another is doing the same, or it is not ours to do


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        pass  # it is small, and the next writer tries again


def sync_folder(folder: Path) -> None:
    """So that the move survives a power cut too; not every system can do it."""
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
