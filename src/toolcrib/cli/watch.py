"""The files that `toolcrib serve --reload` watches, and a way to wait until some of them change.

The worker finds out which files its tools come from; the supervisor, which imports none of them, polls their
states.
"""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import toolcrib
from toolcrib.cli.catalog import find_lock
from toolcrib.cli.load import Loaded, read_configs
from toolcrib.errors import SourceError
from toolcrib.registry.folders import Folder
from toolcrib.sources import find_files
from toolcrib.sources.loading import find_source_folders, is_installed
from toolcrib.sources.targets import default_target, settings_files

POLL_S = 0.1
QUIET_S = 0.15
"""Files have to stay the same for this time before they are loaded."""
GRACE_S = 0.6
"""The same if a file is missing or empty: editors save like that."""
POLL_SHARE = 0.05
"""The part of the time that polling may take, however many files there are."""

Watched = tuple[str, str]
"""How a path is watched, and the path: a `file`, the Python files of a `folder`, those of a whole `source`
tree, or every file that a `published` folder shows."""
States = Mapping[str, tuple[int, ...] | None]
_OWN = os.path.dirname(toolcrib.__file__) + os.sep


def find_watched(
    targets: Sequence[str], lock: str | None = None, loaded: Loaded | None = None
) -> Iterator[Watched]:
    """Yield the files of the targets, their settings and their lock, the folders that modules were imported
    from, except installed ones, the folders that the server publishes, and files with problems."""
    configs = list(read_configs(targets))
    named = [target for target in targets if not target.endswith(".toml")]
    for config in configs:
        named += config.targets
    for path in (*settings_files(targets), *_find_files(named)):
        yield ("source" if path.is_dir() else "file", str(path.absolute()))
    yield ("file", str(find_lock(targets, lock)[0].absolute()))
    for module in list(sys.modules.values()):
        file = str(getattr(module, "__dict__", {}).get("__file__"))
        if file.endswith(".py") and not file.startswith(_OWN) and not is_installed(file):
            yield ("folder", os.path.dirname(os.path.abspath(file)))
    if loaded is not None:
        folders = (getattr(tool, "folder", None) for tool in loaded.server.dispatcher.published())
        yield from {("published", str(folder.path)) for folder in folders if isinstance(folder, Folder)}
        yield from {("file", os.path.abspath(found.file)) for found in loaded.findings if found.file}


def _find_files(named: Sequence[str]) -> list[Path]:
    try:
        return find_files(named or [default_target()])
    except SourceError:
        return []


class WatchedFiles:
    """The states of files. New ones are watched from when they are added."""

    def __init__(self) -> None:
        self._watched: set[Watched] = set()
        self._states: dict[str, tuple[int, ...] | None] = {}

    def add(self, watched: Iterable[Watched]) -> None:
        new = set(watched) - self._watched
        self._watched |= new
        self._states = {**read_states(new), **self._states}

    async def wait_for_change(self) -> list[str]:
        """Return the files that have changed, once they are no longer being saved."""
        last, changed_at = self._states, 0.0
        while True:
            started = time.monotonic()
            now = read_states(self._watched)
            if now != last:
                last, changed_at = now, started
            paths = self._states.keys() | now.keys()
            changed = sorted(path for path in paths if now.get(path) != self._states.get(path))
            is_lost = any(not (state := now.get(path)) or not state[0] for path in changed)
            if changed and started - changed_at >= (GRACE_S if is_lost else QUIET_S):
                self._states = now
                return changed
            took_s = time.monotonic() - started
            await asyncio.sleep(max(POLL_S, took_s / POLL_SHARE))


def read_states(watched: Iterable[Watched]) -> dict[str, tuple[int, ...] | None]:
    """Return size, time and inode of each file; None for one that is missing."""
    found: dict[str, tuple[int, ...] | None] = {}
    for kind, path in watched:
        if kind == "file":
            found[path] = _state_of(path)
        elif kind == "published":
            files = Folder(path).files() if os.path.isdir(path) else ()
            found.update((f"{path}/{each.path}", (each.size, int(each.modified * 1e9))) for each in files)
        else:
            for each in find_source_folders(Path(path)) if kind == "source" else [Path(path)]:
                found.update((str(file), _state_of(str(file))) for file in each.glob("*.py"))
    return found


def _state_of(path: str) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def find_world_writable(files: Iterable[str]) -> Iterator[str]:
    """Yield the files that every user of this machine can change or replace."""
    for file in files if os.name == "posix" else ():
        try:
            mode, folder = os.stat(file).st_mode, os.stat(os.path.dirname(os.path.realpath(file))).st_mode
            if mode & stat.S_IWOTH or (folder & stat.S_IWOTH and not folder & stat.S_ISVTX):
                yield file
        except OSError:
            continue
