"""Reads descriptors: a file, or a folder of files that each describe a tool.

One wrong entry, or one wrong file of a folder, is a finding that hides no other. Knows where descriptors lie;
what they say is for forms.py, how they are written for text.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from toolcrib.errors import DefinitionError, SourceError
from toolcrib.finding import Finding, Source
from toolcrib.sources.descriptors.forms import find_entries, is_entry, make_tool
from toolcrib.sources.descriptors.text import SUFFIXES, Document, kind_of, read_document
from toolcrib.sources.loading import is_foreign, python_files
from toolcrib.tool import Tool

MAX_FILES = 20_000

_FORMS = 'give a list of tools, {"tools": [...]}, or one {name, description, schema}'


class NothingDescribedError(SourceError):
    """A file can be read and speaks of something else than tools."""

    code = "nothing-described"


@dataclass(slots=True)
class Descriptors:
    """What was described, what is wrong with the rest, and the files that were read."""

    tools: list[Tool] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)


def read_descriptors(path: str | os.PathLike[str]) -> Descriptors:
    """The tools that a file describes, or the files of a folder. Every tool is built, so that what is wrong
    with it is known. Raises SourceError where nothing can be read at all."""
    place = Path(path)
    found = Descriptors()
    if place.is_dir():
        _read_folder(place, found)
        return found
    if kind_of(place) is None:
        raise SourceError(
            f"{place} is no descriptor", source=Source(str(place)), hint=f"one ends in {', '.join(SUFFIXES)}"
        )
    take_document(read_document(place), found)
    return found


def is_descriptor(path: Path) -> bool:
    """Whether tools are described here, and not written: a file by its name, a folder by what it holds. A
    TOML file may be a configuration as well, so it is looked into."""
    if path.is_dir():
        return next(descriptor_files(path), None) is not None and not python_files(path)
    if kind_of(path) != "toml":
        return kind_of(path) is not None
    try:
        value = read_document(path).value
    except SourceError:
        return False
    found = find_entries(value)
    return is_entry(value) or (found is not None and isinstance(found[0], list))


def descriptor_files(folder: Path) -> Iterator[Path]:
    """Every file below a folder that may be a descriptor, by its name, in a stable order."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not is_foreign(name))
        for name in sorted(files):
            if not name.startswith(".") and kind_of(Path(name)) is not None:
                yield Path(place, name)


def _read_folder(folder: Path, found: Descriptors) -> None:
    for number, path in enumerate(descriptor_files(folder)):
        if number == MAX_FILES:
            words = f"{folder} has more than {MAX_FILES} files; the others were not read"
            found.findings.append(SourceError(words, source=Source(str(folder))).finding)
            break
        try:
            take_document(read_document(path), found)
        except NothingDescribedError as error:  # a folder may hold other files too
            found.files.append(path)
            found.findings.append(replace(error.finding, level="warning"))
        except SourceError as error:
            found.files.append(path)
            found.findings.append(error.finding)
    if not found.files:
        raise SourceError(
            f"{folder} has no file that could describe a tool",
            source=Source(str(folder)),
            hint=f"a descriptor ends in {', '.join(SUFFIXES)}",
        )


def take_document(document: Document, found: Descriptors) -> None:
    """Add what a document describes."""
    entries = list(_entries_of(document))  # raises before anything is added
    found.files.append(document.path)
    for entry, key, line in entries:
        source = Source(str(document.path), line)
        try:
            tool = make_tool(entry, source, key=key)
            found.findings += tool.check().findings
            found.tools.append(tool)
        except DefinitionError as error:
            if error.source.file is None:
                error.source = source
            found.findings.append(error.finding)


def _entries_of(document: Document) -> Iterator[tuple[Any, str | None, int | None]]:
    value, path = document.value, document.path
    if isinstance(value, dict) and ("openapi" in value or "swagger" in value):
        raise NothingDescribedError(
            f"{path} is an OpenAPI document, which is not supported yet",
            source=Source(str(path)),
            hint="describe its operations as tools, or write an APIApplication",
        )
    found = find_entries(value)
    if found is None and is_entry(value):
        yield value, None, 1
        return
    if found is None:
        kind = "an object without" if isinstance(value, dict) else f"a {type(value).__name__}, not"
        words = f"{path} describes no tools: it is {kind} a list of them"
        raise NothingDescribedError(words, source=Source(str(path)), hint=_FORMS)
    container, keys = found
    lines = document.entry_lines(container, keys)
    items = container.items() if isinstance(container, dict) else ((None, entry) for entry in container)
    for (key, entry), line in zip(items, lines, strict=True):
        yield entry, key, line
