"""Which files an adapter means: a path, several, a folder, the sources of `toolcrib.toml`, or what stands in
for one that is not there.

Knows names of files, and reads settings; reads no tools.

What a reading of source files depends on: the bytes of those that were read, and the absence of others.

A file is known by the SHA-1 of its bytes, never by its date: dates can be set, copied and shared. A file that
is imported and not there changes the reading the day it appears, and one that held no tool the day it gets
one, so what imports could lead to is listed too, rather too much than too little. Knows files and names;
refuses to know tools.

What a catalog is made of, and what that holds now: a registry, or files and the settings they are read by.

Location files are read by the static scan and descriptors as data; nothing is imported. A file that changes
while it is read makes the reading be done again, and one that never rests is told. Refuses to know what
becomes of the tools; which files an adapter means is for adapter.py.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import stat
import sys
import time
import tokenize
from collections.abc import Iterable, Iterator, KeysView, Mapping, ValuesView
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolcrib.config import FILE_NAME, Config, load_config, switches_from
from toolcrib.errors import ConfigurationError, Finding, InvalidToolError, Location, SourceError
from toolcrib.registry.registry import ToolRegistry
from toolcrib.registry.selection import select
from toolcrib.sources import collect
from toolcrib.sources.descriptors import is_descriptor
from toolcrib.sources.descriptors.read import descriptor_files
from toolcrib.sources.functions import registry_of
from toolcrib.sources.loading import find_import_root, find_python_files
from toolcrib.tool import Tool

_YOUNG_NS = 2_000_000_000
"""What was changed this shortly before may be changed again unseen: the clocks of file systems are coarse."""
_MAX_BYTES = 16 * 1024 * 1024
_MAX_FILES = 20_000
_CHUNK = 1024 * 1024
_READING = (
    os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
)
_NEVER_READ = frozenset({"mcp", "fastmcp", "pydantic", "toolcrib", *sys.stdlib_module_names})
"""Packages that no file beside the scanned ones stands for."""
_IMPORT = re.compile(r"\b(?:from\s+([.\w]+)\s+)?import\s*(\([^)]*\)|[^\n;#]*)")
_NAME = re.compile(r"[^\W\d][\w.]*")


def hash_files(paths: Iterable[str | Path]) -> dict[str, str]:
    """The SHA-1 of every file, by its absolute path; "" for one that cannot be read."""
    return {os.path.abspath(path): hash_file(path) for path in paths}


def hash_file(path: str | Path) -> str:
    """The SHA-1 of a plain file, "" for anything else. Written for speed: a cache asks it of every file."""
    try:
        # Without O_NONBLOCK, opening a pipe would wait for its other end.
        descriptor = os.open(path, _READING)
    except (OSError, ValueError):  # ValueError: a name that cannot be one
        return ""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        digest = hashlib.sha1(usedforsecurity=False)
        while data := os.read(descriptor, _CHUNK):
            digest.update(data)
        return digest.hexdigest()
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def hash_text(text: str) -> str:
    return hashlib.sha1(text.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()


def was_left_alone(path: str, since_ns: int) -> bool:
    """Whether a file was last changed well before a time."""
    try:
        facts = os.stat(path)
    except OSError:
        return False
    return max(facts.st_mtime_ns, facts.st_ctime_ns) < since_ns - _YOUNG_NS


def follow_imports(files: Iterable[str | Path], roots: Iterable[Path]) -> tuple[set[str], set[str]]:
    """Every file that these may lead to by imports, themselves included, and every file that is not there and
    would be among them if it were. What is installed elsewhere is not followed."""
    waiting = [os.path.abspath(file) for file in files]
    tops = _import_roots(waiting, roots)
    present, absent = set(waiting), set[str]()
    seen: set[tuple[str, str]] = set()
    while waiting and len(present) < _MAX_FILES:
        source = Path(waiting.pop())
        top, parts = find_import_root(source)
        tops.add(str(top))
        candidates = {str(top / "__init__.py")}  # it would make the folder a package
        package = parts if source.name == "__init__.py" else parts[:-1]
        for name in set(_imported_names(_read_text(source), package)):
            for place in () if name.partition(".")[0] in _NEVER_READ else tops:
                if (place, name) not in seen:
                    seen.add((place, name))
                    candidates.update(_spellings(place, name))
        for candidate in candidates - present - absent:
            if os.path.isfile(candidate):
                present.add(candidate)
                waiting.append(candidate)
            else:
                absent.add(candidate)
    return present, absent


def _import_roots(files: Iterable[str], folders: Iterable[Path]) -> set[str]:
    """Every folder that a scan may begin an import at, links followed or not."""
    places = {os.path.abspath(folder) for folder in folders} | {os.path.dirname(file) for file in files}
    places |= {os.path.realpath(place) for place in places}
    places |= {str(find_import_root(Path(place, "_.py"))[0]) for place in places}
    return places | {os.path.join(place, "src") for place in places}


def _spellings(place: str, name: str) -> Iterator[str]:
    """The files that are read where a dotted name is imported from a folder."""
    for part in name.split("."):
        place = os.path.join(place, part)
        yield f"{place}.py"
        yield os.path.join(place, "__init__.py")


def _imported_names(text: str, package: list[str]) -> Iterator[str]:
    """Every dotted name that an import statement may mean; also of those in strings, which does no harm."""
    for found in _IMPORT.finditer(text.replace("\\\n", " ")):
        origin = found[1]
        names = _NAME.findall(found[2])
        if origin is None:
            yield from (name.strip(".") for name in names)
            continue
        bare = origin.lstrip(".")
        climbs = len(origin) - len(bare)
        above = package[: len(package) - climbs + 1] if climbs else []
        base = ".".join([*above, *([bare] if bare else [])])
        if base:
            yield base
        yield from (f"{base}.{name}" if base else name for name in names)


def _read_text(path: Path) -> str:
    """The text of a source file as Python would decode it; "" for what Python could not read either."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_BYTES)
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding, "replace")
    except (OSError, SyntaxError, LookupError, ValueError):
        return ""


_MAX_ATTEMPTS = 3


@dataclass(slots=True)
class Reading:
    """The tools that there are, each once. `files` are all that were read, with their hashes; `absent` would
    be if they were there. `is_stable`: nothing changed on the way."""

    tools: list[Tool] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    hash: str | None = None
    files: dict[str, str] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    is_stable: bool = True


@dataclass(slots=True)
class LiveInputs:
    """Tools that are there already, one by one or in a registry."""

    thing: Any

    @property
    def registry(self) -> ToolRegistry | None:
        return registry_of(self.thing)

    def read(self) -> Reading:
        registry = self.registry
        if registry is not None:
            return Reading(list(registry))
        batch = collect(self.thing)
        reading = _register(batch.tools)
        reading.findings += batch.findings
        return reading


def _register(tools: Iterable[Tool]) -> Reading:
    """What a registry would publish of these tools: one of each name, and the newest."""
    registry = ToolRegistry()
    report = registry.add_all(tools)
    return Reading(list(registry), report.findings)


@dataclass(frozen=True, slots=True)
class Target:
    """A place that tools are read from. `text` is how the scan is told of it."""

    text: str
    path: Path
    is_described: bool = False

    def files(self) -> list[Path]:
        """The files that the target names now; those that they import are not among them."""
        if not self.path.is_dir():
            return [self.path]
        return list(descriptor_files(self.path)) if self.is_described else find_python_files(self.path)


@dataclass(slots=True)
class FileInputs:
    """Files and folders, with the settings they are read by. `remarks` are about the choice of them."""

    targets: tuple[Target, ...]
    config: Config
    remarks: list[Finding] = field(default_factory=list)

    @property
    def key(self) -> dict[str, Any]:
        """What is asked for: the same question about the same files has the same answer."""
        return {
            "targets": [
                [target.text, os.path.abspath(target.path), os.path.realpath(target.path)]
                for target in self.targets
            ],
            "switches": dict(sorted(self.config.switches.items())),
            "config": None if self.config.file is None else os.path.abspath(self.config.file),
        }

    def named_files(self) -> list[Path]:
        """Every file that the targets name now, each once, and the one with the settings."""
        files = [file for target in self.targets for file in target.files()]
        return list(dict.fromkeys([*files, *([] if self.config.file is None else [self.config.file])]))

    def read(self) -> Reading:
        """Read everything; once more where something changed meanwhile, or may have."""
        known: Iterable[str | Path] = self.named_files()
        for _ in range(_MAX_ATTEMPTS):
            began_ns = time.time_ns()
            before = hash_files(known)
            reading, files = self._read_once()
            named = self.named_files()
            sources = [file for file in (*named, *files) if file.suffix == ".py"]
            present, absent = follow_imports(sources, self._folders())
            reading.files = known = hash_files([*named, *files, *present])
            reading.absent = sorted(absent)
            reading.hash = self._hash(reading.files)
            late = reading.files.keys() - before.keys()
            reading.is_stable = before.items() <= reading.files.items() and all(
                was_left_alone(path, began_ns) for path in late
            )
            if reading.is_stable:
                break
        return reading

    def _folders(self) -> list[Path]:
        return [target.path for target in self.targets if target.path.is_dir()]

    def _read_once(self) -> tuple[Reading, list[Path]]:
        from toolcrib.sources.scan import scan  # start-up: a warm cache needs none of it

        config = self.config
        if config.file is not None and not self.remarks:
            scanned = scan(config.file)  # it keeps to all that is in there
            return Reading(scanned.tools, scanned.findings), [*scanned.files, *scanned.read]
        scanned = scan(*(target.text for target in self.targets))
        findings = [*self.remarks, *scanned.findings]
        if config.file is None:
            return Reading(scanned.tools, findings), [*scanned.files, *scanned.read]
        everything = [*scanned.tools, *scanned.unlisted]
        batch = collect(everything, namespace=config.namespace, switches=config.switches)
        reading = _register(select(batch.tools, config.include, config.exclude))
        reading.findings += findings
        return reading, [*scanned.files, *scanned.read]

    def _hash(self, hashes: Mapping[str, str]) -> str:
        """Of one file, the SHA-1 of its bytes; of several, that of their sorted relative names and hashes."""
        files = [os.path.abspath(file) for target in self.targets for file in target.files()]
        if len(self.targets) == 1 and not self.targets[0].path.is_dir():
            return hashes.get(files[0], "")
        places = [
            os.path.abspath(target.path if target.path.is_dir() else target.path.parent)
            for target in self.targets
        ]
        base = os.path.commonpath(places)
        lines = {f"{Path(os.path.relpath(file, base)).as_posix()} {hashes.get(file, '')}\n" for file in files}
        return hash_text("".join(sorted(lines)))


DEFAULT_ADAPTER = Path("bridges/mcp_adapter.py")
STAND_INS = (".tools.json", ".tools.yaml", ".tools.yml", ".tools.toml")
"""How the name of a descriptor ends that stands in for a file of the same stem."""

PathName = str | os.PathLike[str]
Adapter = Any
"""A path, several, a registry, a server, tools, or None."""


def find_inputs(adapter: Adapter = None, descriptor: PathName | None = None) -> FileInputs | LiveInputs:
    """What an adapter means. Raises SourceError where it is not there and nothing stands in for it."""
    settings = Config(switches=switches_from(os.environ))
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
    return load_config(file, os.environ) if file.is_file() else Config(switches=switches_from(os.environ))


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
            source=Location(str(path)),
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
    from toolcrib.sources.scan.files import find_module_file  # start-up: few adapters are modules

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
