"""Find the files of a target (file, folder, module or object in a module) without importing anything."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from toolcrib.errors import Finding, SourceError
from toolcrib.sources.loading import find_python_files
from toolcrib.sources.targets import DESCRIPTOR_SUFFIXES


@dataclass(slots=True)
class Aim:
    """What one target means. `name` is what in the file is meant; `described` is a descriptor instead."""

    label: str
    files: list[Path] = field(default_factory=list)
    name: str = ""
    is_folder: bool = False
    described: Path | None = None
    findings: list[Finding] = field(default_factory=list)


def take_aim(target: str | os.PathLike[str], search: Sequence[str] | None = None) -> Aim:
    """The files of a target. Raises SourceError where there is nothing of the name."""
    text = os.fspath(target)
    if os.path.exists(text):  # unlike Path.exists, it takes any text
        return _aim_at_path(Path(text))
    place, colon, name = text.rpartition(":")
    if not colon:
        if text.endswith((".py", *DESCRIPTOR_SUFFIXES)) or "/" in text or os.sep in text:
            raise SourceError(f"There is no file or folder {text}")
        return _aim_at_module(text, search)
    if place.endswith(".py"):
        if not os.path.exists(place):
            raise SourceError(f"There is no file {place}")
        aim = _aim_at_path(Path(place))
    else:
        aim = _aim_at_module(place, search)
        aim.files = aim.files[:1]
    aim.name, aim.label = name, text
    return aim


def _aim_at_path(path: Path) -> Aim:
    whole = _in_folder(path, Aim(str(path), is_folder=True)) if path.is_dir() else None
    if whole is not None and whole.files:
        return whole  # where there is code, descriptions stand beside it and not for it
    if whole is not None or path.suffix in DESCRIPTOR_SUFFIXES:
        from toolcrib.sources.descriptors import is_descriptor  # most targets are code

        if is_descriptor(path):
            return Aim(str(path), described=path)
    if whole is not None:
        return whole
    if path.suffix == ".py":
        return Aim(path.name, [_resolved(path)])
    raise SourceError(
        f"Tools cannot be read from {path}", hint="give a Python file, a folder, a module or a descriptor"
    )


def _in_folder(folder: Path, aim: Aim) -> Aim:
    def tell(error: OSError) -> None:
        words = f"The folder cannot be read: {error.strerror or error}"
        hint = "give yourself the right to read it"
        file = str(error.filename or folder)
        aim.findings.append(Finding("unreadable-source", "error", words, file=file, hint=hint))

    aim.files = list(dict.fromkeys([*aim.files, *map(_resolved, find_python_files(folder, tell))]))
    return aim


def _resolved(path: Path) -> Path:
    """The path as importing names it; one whose links go in circles stays as it is, and cannot be read."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path.absolute()


def _aim_at_module(name: str, search: Sequence[str] | None) -> Aim:
    path = find_module_file(name, search)
    if path is None:
        raise SourceError(
            f"There is no module '{name}'", hint="give a file, a folder, a module or module:object"
        )
    if path.is_dir():  # a package without a file of its own
        return _in_folder(path, Aim(name, is_folder=True))
    aim = Aim(name, [_resolved(path)])
    return _in_folder(path.parent, aim) if path.name == "__init__.py" else aim


def find_module_file(name: str, search: Sequence[str] | None = None) -> Path | None:
    """The file or folder of a module, on the import path and in the current folder; nothing is imported."""
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    places = [Path(entry or ".") for entry in dict.fromkeys([os.getcwd(), *sys.path, *(search or ())])]
    for position, part in enumerate(parts):
        is_last = position == len(parts) - 1
        whole = _first(places, lambda place, part=part: place / part / "__init__.py")  # type: ignore[misc]
        if whole is not None:
            if is_last:
                return whole
            places = [whole.parent]
            continue
        file = _first(places, lambda place, part=part: place / f"{part}.py")  # type: ignore[misc]
        if file is not None:
            return file if is_last else None
        # Unlike Path.is_dir, it takes any text.
        places = [place / part for place in places if os.path.isdir(place / part)]
    return places[0] if places else None


def _first(places: Sequence[Path], make: Callable[[Path], Path]) -> Path | None:
    for place in places:
        path = make(place)
        try:
            if path.is_file():
                return path
        except OSError:
            continue  # an entry that is no folder at all
    return None
