"""Which source files and which modules belong to what is watched, and where to look for changes.

A file's territory is the folder it is imported from: what lies below is loaded afresh together with it. What
was installed, the standard library and toolcrib itself are in nobody's territory. Knows paths and the names
of modules; loads nothing.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from toolcrib.sources.loading import is_foreign, place_of, source_folders

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


_OWN_FOLDER = _real(Path(__file__).parents[1])
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
                found.update(str(folder) for folder in source_folders(Path(path)))
            else:
                found.add(os.path.dirname(path))
        found.update(os.path.dirname(file) for file in files)
        return frozenset(_real(_existing(folder)) for folder in found)


def find_places(targets: Iterable[str]) -> list[Path]:
    """The files and folders behind targets: `file.py`, `folder/`, `module`, each with `:object` or without.

    A module is known where it was loaded; one that was not has no place.
    """
    return [path for target in targets for path in _places_of(target)]


def _places_of(target: str) -> Iterator[Path]:
    place, colon, _ = target.rpartition(":")
    for text in (target, place) if colon else (target,):
        if os.path.exists(text) or text.endswith((".py", ".toml")):
            yield Path(text)
            return
        module = sys.modules.get(text)
        if module is not None:
            folders = list(getattr(module, "__path__", ()))
            file = getattr(module, "__file__", None)
            yield from (Path(found) for found in folders or ([file] if file else []))
            return


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
        return str(place_of(real)[0])
    return str(place_of(real / "_.py")[0]) if real.is_dir() else None


def _is_installed(real: str) -> bool:
    return real.startswith(_NOBODYS)


def _is_own(real: str, root: str) -> bool:
    """Whether a file lies below a root, and in no folder on the way that holds what others wrote."""
    if not _is_below(real, root):
        return False
    parts = os.path.relpath(real, root).split(os.sep)[:-1]
    return not any(is_foreign(part) for part in parts)


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
