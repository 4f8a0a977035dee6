"""Which files an adapter means: a path, several, a folder, the sources of `toolcrib.toml`, or what stands in
for one that is not there.

Knows names of files, and reads settings; reads no tools.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, KeysView, ValuesView
from pathlib import Path
from typing import Any

from toolcrib.catalog.inputs import FileInputs, LiveInputs, Target
from toolcrib.config import FILE_NAME, Config, load_config, switches_in
from toolcrib.errors import ConfigurationError, InvalidToolError, SourceError
from toolcrib.finding import Finding, Source
from toolcrib.sources.descriptors import is_descriptor

DEFAULT_ADAPTER = Path("bridges/mcp_adapter.py")
STAND_INS = (".tools.json", ".tools.yaml", ".tools.yml", ".tools.toml")
"""How the name of a descriptor ends that stands in for a file of the same stem."""

PathName = str | os.PathLike[str]
Adapter = Any
"""A path, several, a registry, a server, tools, or None."""


def find_inputs(adapter: Adapter = None, descriptor: PathName | None = None) -> FileInputs | LiveInputs:
    """What an adapter means. Raises SourceError where it is not there and nothing stands in for it."""
    settings = Config(switches=switches_in(os.environ))
    if adapter is None:
        settings = read_settings()
        adapter = list(settings.targets) or DEFAULT_ADAPTER
    if isinstance(adapter, str | os.PathLike):
        adapter = [adapter]
    if isinstance(adapter, Iterator | KeysView | ValuesView):
        adapter = list(adapter)
    if not isinstance(adapter, list | tuple | set | frozenset):
        return LiveInputs(adapter)
    if not adapter:
        raise SourceError("The list of adapters is empty", hint="name a file: build_catalog('tools.py')")
    are_paths = [isinstance(item, str | os.PathLike) for item in adapter]
    if not all(are_paths):
        if any(are_paths):
            raise InvalidToolError("An adapter is files or tools, not both", hint="build two catalogs")
        if any(isinstance(item, list | tuple | set | frozenset) for item in adapter):
            raise InvalidToolError("An adapter is a flat list of files or of tools")
        return LiveInputs(adapter)
    texts = [os.fspath(item) for item in adapter]
    if any(map(_is_settings, texts)):
        if len(texts) > 1:
            raise ConfigurationError(
                "a file of settings stands alone", file=FILE_NAME, hint="add to its targets"
            )
        settings = load_config(Path(texts[0]), os.environ)
        texts = list(settings.targets)
        if not texts:
            raise ConfigurationError("names no targets", file=str(settings.file), key="server.targets")
    return _find_files(texts, settings, descriptor)


def read_settings() -> Config:
    """The `toolcrib.toml` of the current folder, or no settings but those of the environment."""
    file = Path(FILE_NAME)
    return load_config(file, os.environ) if file.is_file() else Config(switches=switches_in(os.environ))


def _is_settings(text: str) -> bool:
    return text.endswith(".toml") and os.path.isfile(text) and not is_descriptor(Path(text))


def _find_files(texts: Iterable[str], settings: Config, descriptor: PathName | None) -> FileInputs:
    """The targets; where settings name several, those that are not there are for the scan to tell of."""
    targets: list[Target] = []
    missing: list[Target] = []
    remarks: list[Finding] = []
    for text in texts:
        target = Target(text, path := _place_of(text, settings))
        if os.path.exists(path) and os.access(path, os.R_OK):
            target = Target(text, path, is_descriptor(path))
        elif (stand_in := _find_stand_in(path, descriptor)) is not None:
            target = Target(str(stand_in), stand_in, True)
            words = f"{path} is not there: {stand_in} stands in for it"
            remarks.append(Finding("descriptor-stands-in", "warning", words, file=str(stand_in)))
        else:
            missing.append(target)
        targets.append(target)
    if missing and (settings.file is None or len(missing) == len(targets)):
        text, path = missing[0].text, missing[0].path
        is_there = os.path.exists(path)
        raise SourceError(
            f"{path} cannot be read" if is_there else f"There is no file or module {text}",
            source=Source(str(path)),
            hint=f"name one: build_catalog('tools.py'), or let {path.stem}{STAND_INS[0]} describe it",
        )
    return FileInputs(tuple(dict.fromkeys(targets)), settings, remarks)


def _place_of(text: str, settings: Config) -> Path:
    """The file or folder behind `folder/`, `file.py`, `file.py:name`, `package.module` or `module:name`."""
    if os.path.exists(text):  # unlike Path.exists, it takes any text
        return Path(text)
    place, colon, _ = text.rpartition(":")
    place = place if colon and place else text
    if os.path.exists(place) or place.endswith(".py") or not place.replace(".", "").isidentifier():
        return Path(place)
    from toolcrib.sources.static.discovery import find_module_file  # start-up: few adapters are modules

    search = [] if settings.file is None else [str(settings.file.resolve().parent)]
    found = find_module_file(place, search)
    if found is None:
        return Path(place)
    return found.parent if found.name == "__init__.py" else found


def _find_stand_in(path: Path, descriptor: PathName | None) -> Path | None:
    """The descriptor that was given, or the one that lies where the adapter would."""
    if descriptor is not None:
        return Path(descriptor)
    near = [path.with_name(f"{path.stem}{suffix}") for suffix in STAND_INS] if path.name else []
    return next((place for place in near if place.is_file()), None)
