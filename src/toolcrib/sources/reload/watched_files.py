"""Watched files: their state, the modules that belong to them, and a way to wait for changes.

The state of a file depends on its content, not on its time: two saves within one tick of the clock are two
states, and saving the same text again changes nothing. All modules below the folder that a file is imported
from are loaded again with it, except installed packages, the standard library and toolcrib. The only module
that imports watchfiles.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import sysconfig
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from toolcrib.registry.folders import Folder
from toolcrib.sources.loading import (
    find_import_root,
    find_python_files,
    find_source_folders,
    is_skipped_folder,
)

QUIET_MS = 50
"""A burst of changes ends after this time without a change."""
BURST_MS = 200
"""A longer burst is reported after this time."""
_MAX_LINKS = 40  # the limit of the system


# --- states ------------------------------------------------------------------------------------------


class FileState(NamedTuple):
    """The real path and content of a file, and whether every user of the machine can change or replace it."""

    real: str
    digest: bytes
    world_writable: bool


FileStates = Mapping[str, FileState | None]
EMPTY = b""


def state_of(path: str) -> FileState | None:
    """Return the state of a file; None if it is missing or not readable, so that it cannot be loaded."""
    try:
        real = os.path.realpath(path)
        return FileState(real, _digest(Path(real).read_bytes()), _is_world_writable(real))
    except (OSError, ValueError):
        return None


def read_states(paths: Iterable[str], files: Iterable[str], listed: Iterable[str] = ()) -> FileStates:
    """Return states of `paths` (of the source files in a folder), of `files`, and of the names in the folders
    `listed`. The state of a missing file is None."""
    found: dict[str, FileState | None] = {}
    for path in paths:
        if os.path.isdir(path):
            found.update((str(file), state_of(str(file))) for file in find_python_files(Path(path)))
            found[path] = FileState(os.path.realpath(path), EMPTY, world_writable=False)
        else:
            found[path] = state_of(path)
    found.update((file, state_of(file)) for file in files if file not in found)
    found.update((f"{folder}{os.sep}", _state_of_names(folder)) for folder in listed)
    return found


def state_of_folder(folder: Folder) -> FileState:
    """Return a state of the files that a folder publishes: their names, sizes and times."""
    files = islice(folder.files(), folder.max_files)  # it warns of more
    text = "\n".join(f"{file.path} {file.size} {file.modified}" for file in files)
    return FileState(str(folder.path), _digest(text.encode(errors="surrogateescape")), world_writable=False)


def find_subfolders(folder: Folder) -> Iterator[str]:
    """Yield a folder and those below; of one that is gone, the nearest above it."""
    path = os.path.realpath(folder.path)
    yield _existing(path)
    for here, names, _ in os.walk(path):
        names[:] = [name for name in names if folder.hidden or not name.startswith(".")]
        yield here


def is_content_lost(before: FileStates, now: FileStates) -> bool:
    """Return whether a file has lost its content. Editors do that for a moment when they save."""
    for path, state in before.items():
        if state is not None and state.digest != EMPTY:
            left = now.get(path)
            if left is None or left.digest == EMPTY:
                return True
    return False


def _digest(content: bytes) -> bytes:
    """Return a digest of the content; an empty one for an empty file."""
    return hashlib.blake2b(content, digest_size=16).digest() if content else EMPTY


def _is_world_writable(path: str) -> bool:
    """Return whether every user of the machine can change a file or replace it."""
    if os.name == "nt":
        return False  # the mode has no such bits
    mode = os.stat(os.path.dirname(path)).st_mode
    is_replaceable = mode & stat.S_IWOTH and not mode & stat.S_ISVTX
    return bool(is_replaceable or os.stat(path).st_mode & stat.S_IWOTH)


def _state_of_names(folder: str) -> FileState | None:
    """Return a state of the names in a folder that can be imported."""
    try:
        names = [name for name in sorted(os.listdir(folder)) if name.removesuffix(".py").isidentifier()]
    except OSError:
        return None
    names = [name for name in names if not is_skipped_folder(name)]
    return FileState(folder, _digest("\n".join(names).encode(errors="surrogateescape")), world_writable=False)


# --- the modules of a tree ---------------------------------------------------------------------------

_OWN_FOLDER = str(Path(__file__).parents[2])
_INSTALLED = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_EXCLUDED_FOLDERS = tuple(os.path.join(os.path.realpath(folder), "") for folder in (_OWN_FOLDER, *_INSTALLED))


class SourceTree:
    """The files and folders of targets, with everything below the folders that they are imported from."""

    def __init__(self, paths: Iterable[str | Path]) -> None:
        self.paths = tuple(dict.fromkeys(os.path.abspath(path) for path in paths))
        found = (root for path in self.paths if (root := _root_of(Path(path))) is not None)
        self.roots = tuple(dict.fromkeys(found))

    def covers(self, file: str) -> bool:
        """Return whether a source file is loaded again. Compiled modules cannot be loaded twice."""
        if not file.endswith(".py") or file.startswith(_EXCLUDED_FOLDERS):
            return False
        real = os.path.realpath(file)
        return not real.startswith(_EXCLUDED_FOLDERS) and any(_is_own(real, root) for root in self.roots)

    def modules(self) -> dict[str, ModuleType]:
        """Return the imported modules that belong here, by name."""
        found: dict[str, ModuleType] = {}
        for name, module in list(sys.modules.items()):
            files = () if name in ("__main__", "__mp_main__") else _files_of(module)
            if files and all(map(self.covers, files)):
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
        return frozenset(os.path.realpath(_existing(folder)) for folder in found)

    def file_names(self) -> frozenset[str]:
        """Return the names of the paths, which may not be Python files, and of links that lead to them."""
        return frozenset(os.path.basename(each) for path in self.paths for each in (path, *find_links(path)))


def find_links(path: str) -> list[str]:
    """Return every symbolic link on the way to a file: replacing one changes the file that it leads to."""
    found: list[str] = []
    waiting = [Path(path)]
    while waiting:
        here = waiting.pop()
        for part in (here, *here.parents):
            if part.is_symlink() and str(part) not in found and len(found) < _MAX_LINKS:
                found.append(str(part))
                target = part.parent / part.readlink() / here.relative_to(part)
                waiting.append(Path(os.path.normpath(target)))
    return found


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
    real = Path(os.path.realpath(path))
    if path.suffix == ".py":
        return str(find_import_root(real)[0])
    return str(find_import_root(real / "_.py")[0]) if real.is_dir() else None


def _is_own(real: str, root: str) -> bool:
    """Return whether a file is below a root, outside of hidden and vendored folders."""
    if not real.startswith(os.path.join(root, "")):
        return False
    parts = os.path.relpath(real, root).split(os.sep)[:-1]
    return not any(is_skipped_folder(part) for part in parts)


def _existing(folder: str) -> str:
    """Return the folder, or the nearest existing one above it."""
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


# --- watching ----------------------------------------------------------------------------------------


def wait_for_change(
    folders: Collection[str],
    names: Collection[str],
    stop: threading.Event,
    is_changed: Callable[[], bool],
    published: Collection[str] = (),
) -> None:
    """Wait until something may have changed in folders, without those below, or until `stop` is set.

    Files that are not Python files count if they have one of the `names`, or are in a `published` folder.
    `is_changed` is called once when watching has begun, because files may have changed before. Raises where
    files cannot be watched.
    """
    import watchfiles  # start-up time: few servers reload

    def is_source(_: watchfiles.Change, path: str) -> bool:
        name = os.path.basename(path)
        is_named = name.endswith(".py") or "." not in name or name in names or path in folders
        return is_named or os.path.dirname(path) in published

    changes = watchfiles.watch(
        *folders,
        watch_filter=is_source,
        step=QUIET_MS,
        debounce=BURST_MS,
        stop_event=stop,
        rust_timeout=BURST_MS,
        yield_on_timeout=True,
        raise_interrupt=False,
        recursive=False,
        ignore_permission_denied=True,
    )
    for number, burst in enumerate(changes):
        if burst or (number == 0 and is_changed()):
            return
