"""What files are like: a footprint is a mark for each, and another footprint is another state.

A mark goes by content, not by time: two saves within one tick of the clock are two states, and saving the
same text again is none. Knows files and their rights; refuses to know modules and tools.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from toolcrib.sources.loading import is_foreign, python_files

_RACY_NS = 2_000_000_000
"""A file that changed less than this ago may change again without a new time: its content is read again."""


class Mark(NamedTuple):
    """What a file is like. `is_open`: every user of the machine can change it, or exchange it for another."""

    real: str
    digest: bytes
    is_open: bool


Footprint = Mapping[str, Mark | None]
EMPTY = b""


def digest_of(content: bytes) -> bytes:
    """The digest of a content; that of nothing is nothing, so that an emptied file can be told."""
    return hashlib.blake2b(content, digest_size=16).digest() if content else EMPTY


class Eye:
    """Looks at files, and remembers those that have been quiet, so that looking again is cheap."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, ...], bytes]] = {}

    def look(self, paths: Iterable[str], files: Iterable[str], listed: Iterable[str] = ()) -> Footprint:
        """Marks of what was named (the source files in it, where it is a folder), of `files`, and of the
        names that stand in the folders `listed`. What is not there is None."""
        found: dict[str, Mark | None] = {}
        for path in paths:
            if os.path.isdir(path):
                found.update((str(file), self.mark(str(file))) for file in python_files(Path(path)))
                found[path] = Mark(os.path.realpath(path), EMPTY, is_open=False)
            else:
                found[path] = self.mark(path)
        found.update((file, self.mark(file)) for file in files if file not in found)
        found.update((f"{folder}{os.sep}", _mark_names(folder)) for folder in listed)
        self._known = {path: known for path, known in self._known.items() if path in found}
        return found

    def mark(self, path: str) -> Mark | None:
        try:
            real = os.path.realpath(path)
            status = os.stat(real)
            key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            known = self._known.get(path)
            if known is not None and known[0] == key:
                return Mark(real, known[1], is_open_to_all(real))
            now = time.time_ns()
            digest = digest_of(Path(real).read_bytes())
            if now - max(status.st_mtime_ns, status.st_ctime_ns) > _RACY_NS:
                self._known[path] = (key, digest)
            return Mark(real, digest, is_open_to_all(real))
        except (OSError, ValueError):
            return None  # gone, or not to be read: either way it cannot be loaded


def is_open_to_all(path: str) -> bool:
    """Whether every user of the machine can change a file, or put another in its place."""
    if os.name == "nt":
        return False  # rights are kept in another way there, and the mode says nothing
    if os.stat(path).st_mode & stat.S_IWOTH:
        return True
    mode = os.stat(os.path.dirname(path)).st_mode
    return bool(mode & stat.S_IWOTH and not mode & stat.S_ISVTX)


def lost_in(before: Footprint, now: Footprint) -> bool:
    """Whether a file that had content has none now. Editors make that so for a moment when they save."""
    for path, mark in before.items():
        if mark is not None and mark.digest != EMPTY:
            left = now.get(path)
            if left is None or left.digest == EMPTY:
                return True
    return False


def _mark_names(folder: str) -> Mark | None:
    """What could be imported from a folder, by the names in it."""
    try:
        names = [entry.name for entry in os.scandir(folder) if _is_importable(entry)]
    except OSError:
        return None
    return Mark(folder, digest_of("\n".join(sorted(names)).encode(errors="surrogateescape")), is_open=False)


def _is_importable(entry: os.DirEntry[str]) -> bool:
    name = entry.name
    return name.endswith(".py") or (name.isidentifier() and not is_foreign(name) and entry.is_dir())
