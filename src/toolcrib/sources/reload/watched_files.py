"""Watched files: their state, the modules that belong to them, and a watcher for changes.

The state of a file depends on its content, not on its time: two saves within one tick of the clock are two
states, and saving the same text again changes nothing. All modules below the folder that a file is imported
from are loaded again with it, except installed packages, the standard library and toolcrib. The watcher only
reports that something may have changed; it is the only code that imports watchfiles.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from toolcrib.sources.loading import (
    find_import_root,
    find_python_files,
    find_source_folders,
    is_skipped_folder,
)

logger = logging.getLogger("toolcrib")

QUIET_MS = 50
"""A burst of changes ends after this time without a change."""
BURST_MS = 200
"""A longer burst is reported after this time."""
CHECK_EVERY_S = 1.0
"""The interval of checks where files cannot be watched."""

_RECENT_NS = 2_000_000_000
"""A file that changed within this time may change again with the same time stamp: it is read again."""


class FileState(NamedTuple):
    """The real path and content of a file, and whether every user of the machine can change or replace it."""

    real: str
    digest: bytes
    world_writable: bool


FileStates = Mapping[str, FileState | None]
EMPTY = b""


def content_digest(content: bytes) -> bytes:
    """Return a digest of the content; an empty one for an empty file."""
    return hashlib.blake2b(content, digest_size=16).digest() if content else EMPTY


class StateReader:
    """Reads states of files, with a cache for files that have not changed for a while."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, ...], bytes]] = {}

    def read_states(
        self, paths: Iterable[str], files: Iterable[str], listed: Iterable[str] = ()
    ) -> FileStates:
        """Return states of `paths` (of the source files in a folder), of `files`, and of the names in the
        folders `listed`. The state of a missing file is None."""
        found: dict[str, FileState | None] = {}
        for path in paths:
            if os.path.isdir(path):
                found.update((str(file), self.state_of(str(file))) for file in find_python_files(Path(path)))
                found[path] = FileState(os.path.realpath(path), EMPTY, world_writable=False)
            else:
                found[path] = self.state_of(path)
        found.update((file, self.state_of(file)) for file in files if file not in found)
        found.update((f"{folder}{os.sep}", _state_of_names(folder)) for folder in listed)
        self._known = {path: known for path, known in self._known.items() if path in found}
        return found

    def state_of(self, path: str) -> FileState | None:
        try:
            real = os.path.realpath(path)
            status = os.stat(real)
            key = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            known = self._known.get(path)
            if known is not None and known[0] == key:
                return FileState(real, known[1], is_world_writable(real))
            now = time.time_ns()
            digest = content_digest(Path(real).read_bytes())
            if now - max(status.st_mtime_ns, status.st_ctime_ns) > _RECENT_NS:
                self._known[path] = (key, digest)
            return FileState(real, digest, is_world_writable(real))
        except (OSError, ValueError):
            return None  # missing or not readable: it cannot be loaded


def is_world_writable(path: str) -> bool:
    """Return whether every user of the machine can change a file or replace it."""
    if os.name == "nt":
        return False  # the mode has no such bits
    if os.stat(path).st_mode & stat.S_IWOTH:
        return True
    mode = os.stat(os.path.dirname(path)).st_mode
    return bool(mode & stat.S_IWOTH and not mode & stat.S_ISVTX)


def is_content_lost(before: FileStates, now: FileStates) -> bool:
    """Return whether a file has lost its content. Editors do that for a moment when they save."""
    for path, state in before.items():
        if state is not None and state.digest != EMPTY:
            left = now.get(path)
            if left is None or left.digest == EMPTY:
                return True
    return False


def _state_of_names(folder: str) -> FileState | None:
    """Return a state of the names that can be imported from a folder."""
    try:
        names = [entry.name for entry in os.scandir(folder) if _is_importable(entry)]
    except OSError:
        return None
    digest = content_digest("\n".join(sorted(names)).encode(errors="surrogateescape"))
    return FileState(folder, digest, world_writable=False)


def _is_importable(entry: os.DirEntry[str]) -> bool:
    name = entry.name
    return name.endswith(".py") or (name.isidentifier() and not is_skipped_folder(name) and entry.is_dir())


_MAIN = ("__main__", "__mp_main__")
_MAX_LINKS = 40  # the limit of the system


def _real(path: str | Path) -> str:
    return os.path.realpath(path)


def _real_below(file: str, folders: dict[str, str]) -> str:
    if os.path.islink(file):
        return _real(file)
    folder, name = os.path.split(file)
    if folder not in folders:
        folders[folder] = _real(folder)
    return os.path.join(folders[folder], name)


_OWN_FOLDER = _real(Path(__file__).parents[2])
_INSTALLED = tuple(_real(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_EXCLUDED_FOLDERS = tuple(folder.rstrip(os.sep) + os.sep for folder in (_OWN_FOLDER, *_INSTALLED))


class SourceTree:
    """The files and folders of targets, with everything below the folders that they are imported from."""

    def __init__(self, paths: Iterable[str | Path]) -> None:
        self.paths = tuple(dict.fromkeys(os.path.abspath(path) for path in paths))
        found = (root for path in self.paths if (root := _root_of(Path(path))) is not None)
        self.roots = tuple(dict.fromkeys(found))

    def covers(self, file: str) -> bool:
        """Return whether a source file is loaded again."""
        return self._covers(file, {})

    def _covers(self, file: str, folders: dict[str, str]) -> bool:
        """Look up a file; `folders` caches the real paths of folders."""
        if not file.endswith(".py") or _is_installed(file):
            return False  # compiled modules cannot be loaded twice
        real = _real_below(file, folders)
        return not _is_installed(real) and any(_is_own(real, root) for root in self.roots)

    def holds(self, folder: str) -> bool:
        """Return whether source files in a folder are loaded again."""
        return self.covers(os.path.join(folder, "_.py"))

    def modules(self) -> dict[str, ModuleType]:
        """Return the imported modules that belong here, by name."""
        covered: dict[str, bool] = {}
        folders: dict[str, str] = {}
        found: dict[str, ModuleType] = {}
        for name, module in list(sys.modules.items()):
            files = _files_of(module)
            if not files or name in _MAIN:
                continue
            for file in files:
                if file not in covered:
                    covered[file] = self._covers(file, folders)
            if all(covered[file] for file in files):
                found[name] = module
        return found

    def folders(self, files: Iterable[str]) -> frozenset[str]:
        """Return every folder to watch: of the paths, of `files`, and of links that lead to them."""
        found: set[str] = set(self.roots)
        for path in self.paths:
            found.update(os.path.dirname(link) for link in find_links(path))
            if os.path.isdir(path):
                found.update(str(folder) for folder in find_source_folders(Path(path)))
            else:
                found.add(os.path.dirname(path))
        found.update(os.path.dirname(file) for file in files)
        return frozenset(_real(_existing(folder)) for folder in found)


def _files_of(module: ModuleType) -> list[str]:
    """Return the file of a module; for a namespace package, an `__init__.py` in each of its folders."""
    try:
        # `sys.modules` may hold objects that import themselves when an attribute is read.
        members: dict[str, Any] = object.__getattribute__(module, "__dict__")
        file = members.get("__file__")
        if isinstance(file, str):
            return [file]
        if members.get("__spec__") is None:
            return []  # created without an import: it cannot be imported again
        return [os.path.join(folder, "__init__.py") for folder in members.get("__path__") or ()]
    except (AttributeError, TypeError):
        return []


def _root_of(path: Path) -> str | None:
    """Return the folder that a path is imported from; None for a file that is not Python."""
    real = Path(_real(path))
    if path.suffix == ".py":
        return str(find_import_root(real)[0])
    return str(find_import_root(real / "_.py")[0]) if real.is_dir() else None


def _is_installed(real: str) -> bool:
    return real.startswith(_EXCLUDED_FOLDERS)


def _is_own(real: str, root: str) -> bool:
    """Return whether a file is below a root, outside of hidden and vendored folders."""
    if not _is_below(real, root):
        return False
    parts = os.path.relpath(real, root).split(os.sep)[:-1]
    return not any(is_skipped_folder(part) for part in parts)


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder if folder.endswith(os.sep) else folder + os.sep)


def _existing(folder: str) -> str:
    """Return the folder, or the nearest existing one above it."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


def find_links(path: str) -> list[str]:
    """Return every symbolic link in a path: replacing one changes the file that it leads to."""
    found: list[str] = []
    here, rest = os.path.splitdrive(path)
    here += os.sep
    waiting = [part for part in rest.split(os.sep) if part]
    while waiting:
        part = waiting.pop(0)
        here = os.path.normpath(os.path.join(here, part))
        if os.path.islink(here) and here not in found and len(found) < _MAX_LINKS:
            found.append(here)
            target = os.readlink(here)
            drive, rest = os.path.splitdrive(target)
            here = drive + os.sep if os.path.isabs(target) else os.path.dirname(here)
            waiting[:0] = [part for part in rest.split(os.sep) if part]
    return found


class FolderWatcher:
    """Watches folders, without the folders below, on its own thread. `names` are files that are watched
    although they are not Python files. `on_change` is called on that thread, first when watching begins."""

    def __init__(self, folders: Iterable[str], names: Iterable[str], on_change: Callable[[], None]) -> None:
        self.folders = frozenset(folders)
        self.is_stale = False
        self._names = frozenset(names)
        self._on_change = on_change
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="toolcrib-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop without waiting; the thread ends within a fraction of a second."""
        self._stopped.set()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            self._watch()
        except FileNotFoundError:
            self.is_stale = True  # a folder was removed: the next check makes a new watcher
        except Exception as error:  # watchfiles is missing, or the system has no watches left
            reason = f"{type(error).__name__}: {error}"
            logger.info("Files cannot be watched (%s): checking every %g s", reason, CHECK_EVERY_S)
        while not self._stopped.wait(CHECK_EVERY_S):
            self._on_change()

    def _watch(self) -> None:
        import watchfiles  # start-up time: few servers reload

        changes = watchfiles.watch(
            *self.folders,
            watch_filter=lambda _, path: self._matters(path),
            step=QUIET_MS,
            debounce=BURST_MS,
            stop_event=self._stopped,
            rust_timeout=BURST_MS,
            yield_on_timeout=True,
            raise_interrupt=False,
            recursive=False,
            ignore_permission_denied=True,
        )
        is_new = True
        for burst in changes:
            gone = {path for change, path in burst if change is watchfiles.Change.deleted}
            self.is_stale = self.is_stale or not gone.isdisjoint(self.folders)
            if burst or is_new:
                self._on_change()
            is_new = False

    def _matters(self, path: str) -> bool:
        """Return whether a change of this path may concern tools; log files may be in the same folders."""
        name = os.path.basename(path)
        return name.endswith(".py") or "." not in name or path in self._names or path in self.folders
