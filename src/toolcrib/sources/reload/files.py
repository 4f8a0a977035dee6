"""Watches folders and gives a hint when something in them may matter.

The only module that imports watchfiles. A hint is no more than that: whoever gets it looks for itself. Where
nothing can be watched, hints come by the clock. Knows folders and names; refuses to know what changes mean.

What files are like: a footprint is a mark for each, and another footprint is another state.

A mark goes by content, not by time: two saves within one tick of the clock are two states, and saving the
same text again is none. Knows files and their rights; refuses to know modules and tools.

Which source files and which modules belong to what is watched, and where to look for changes.

A file's territory is the folder it is imported from: what lies below is loaded afresh together with it. What
was installed, the standard library and toolcrib itself are in nobody's territory. Knows paths and the names
of modules; loads nothing.
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
                found.update((str(file), self.mark(str(file))) for file in find_python_files(Path(path)))
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
    return name.endswith(".py") or (name.isidentifier() and not is_skipped_folder(name) and entry.is_dir())


_MAIN = ("__main__", "__mp_main__")
_MAX_LINKS = 40  # as many as the system follows


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
_NOBODYS = tuple(folder.rstrip(os.sep) + os.sep for folder in (_OWN_FOLDER, *_INSTALLED))


class Territory:
    """The files and folders that were named, and what lies in the folders they are imported from."""

    def __init__(self, paths: Iterable[str | Path]) -> None:
        self.paths = tuple(dict.fromkeys(os.path.abspath(path) for path in paths))
        found = (root for path in self.paths if (root := _root_of(Path(path))) is not None)
        self.roots = tuple(dict.fromkeys(found))

    def covers(self, file: str) -> bool:
        """Whether a source file would be loaded afresh."""
        return self._covers(file, {})

    def _covers(self, file: str, folders: dict[str, str]) -> bool:
        """`folders` keeps where folders really are: one holds many modules, and a look costs a call each."""
        if not file.endswith(".py") or _is_installed(file):
            return False  # what is compiled cannot be loaded twice; most modules are told by their spelling
        real = _real_below(file, folders)
        return not _is_installed(real) and any(_is_own(real, root) for root in self.roots)

    def holds(self, folder: str) -> bool:
        """Whether source files in a folder would be loaded afresh."""
        return self.covers(os.path.join(folder, "_.py"))

    def modules(self) -> dict[str, ModuleType]:
        """The modules that are loaded and belong here, by name."""
        judged: dict[str, bool] = {}
        folders: dict[str, str] = {}
        found: dict[str, ModuleType] = {}
        for name, module in list(sys.modules.items()):
            files = _files_of(module)
            if not files or name in _MAIN:
                continue
            for file in files:
                if file not in judged:
                    judged[file] = self._covers(file, folders)
            if all(judged[file] for file in files):
                found[name] = module
        return found

    def folders(self, files: Iterable[str]) -> frozenset[str]:
        """Every folder where a change may matter: of what was named, of `files`, of links on the way."""
        found: set[str] = set(self.roots)
        for path in self.paths:
            found.update(os.path.dirname(link) for link in links_on(path))
            if os.path.isdir(path):
                found.update(str(folder) for folder in find_source_folders(Path(path)))
            else:
                found.add(os.path.dirname(path))
        found.update(os.path.dirname(file) for file in files)
        return frozenset(_real(_existing(folder)) for folder in found)


def _files_of(module: ModuleType) -> list[str]:
    """The file of a module; for a package without one, stand-ins for what its folders hold."""
    try:
        # Anything may stand among the modules, also what loads itself when it is looked at.
        members: dict[str, Any] = object.__getattribute__(module, "__dict__")
        file = members.get("__file__")
        if isinstance(file, str):
            return [file]
        if members.get("__spec__") is None:
            return []  # made by hand: nothing would bring it back
        return [os.path.join(folder, "__init__.py") for folder in members.get("__path__") or ()]
    except (AttributeError, TypeError):
        return []


def _root_of(path: Path) -> str | None:
    """The folder that what is named is imported from. A file that is no source has none."""
    real = Path(_real(path))
    if path.suffix == ".py":
        return str(find_import_root(real)[0])
    return str(find_import_root(real / "_.py")[0]) if real.is_dir() else None


def _is_installed(real: str) -> bool:
    return real.startswith(_NOBODYS)


def _is_own(real: str, root: str) -> bool:
    """Whether a file lies below a root, and in no folder on the way that holds what others wrote."""
    if not _is_below(real, root):
        return False
    parts = os.path.relpath(real, root).split(os.sep)[:-1]
    return not any(is_skipped_folder(part) for part in parts)


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder if folder.endswith(os.sep) else folder + os.sep)


def _existing(folder: str) -> str:
    """The folder, or the nearest one above it that is there."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


def links_on(path: str) -> list[str]:
    """Every symbolic link that leads to a path: exchanging one of them changes what is there."""
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


logger = logging.getLogger("toolcrib")

QUIET_MS = 50
"""A burst of changes is over when nothing has come for this long."""
BURST_MS = 200
"""A burst that goes on is told of all the same."""
LOOK_EVERY_S = 1.0
"""How often to look where nothing can be watched."""


class Watch:
    """Watches folders, not what is below them, on a thread of its own. `names` are files that matter whatever
    they are called. `hint` is called on that thread, the first time when the watch stands."""

    def __init__(self, folders: Iterable[str], names: Iterable[str], hint: Callable[[], None]) -> None:
        self.folders = frozenset(folders)
        self.is_stale = False
        self._names = frozenset(names)
        self._hint = hint
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._live, name="toolcrib-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Returns at once; the thread ends within a tenth of a second."""
        self._stopped.set()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    def _live(self) -> None:
        try:
            self._watch()
        except FileNotFoundError:
            self.is_stale = True  # a folder has gone: whoever looks next knows which folders are left
        except Exception as error:  # no watcher is installed, or no more can be had
            reason = f"{type(error).__name__}: {error}"
            logger.info("Files cannot be watched (%s): looking every %g s", reason, LOOK_EVERY_S)
        while not self._stopped.wait(LOOK_EVERY_S):
            self._hint()

    def _watch(self) -> None:
        import watchfiles  # delayed: few servers reload, and it brings an event library along

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
                self._hint()
            is_new = False

    def _matters(self, path: str) -> bool:
        """Whether a change of this path may be one of sources: log files are written in such folders too."""
        name = os.path.basename(path)
        return name.endswith(".py") or "." not in name or path in self._names or path in self.folders
