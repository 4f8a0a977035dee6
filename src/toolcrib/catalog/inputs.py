"""What a catalog is made of, and what that holds now: a registry, or files and the settings they are read by.

Source files are read by the static scan and descriptors as data; nothing is imported. A file that changes
while it is read makes the reading be done again, and one that never rests is told. Refuses to know what
becomes of the tools; which files an adapter means is for adapter.py.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolcrib.catalog.footprint import follow_imports, hash_files, hash_text, was_left_alone
from toolcrib.config import Config
from toolcrib.finding import Finding
from toolcrib.registry import ToolRegistry
from toolcrib.selection import select
from toolcrib.sources import collect
from toolcrib.sources.descriptors.reading import descriptor_files
from toolcrib.sources.loading import python_files
from toolcrib.sources.packages import registry_of
from toolcrib.tool import Tool

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
        return list(descriptor_files(self.path)) if self.is_described else python_files(self.path)


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
        from toolcrib.sources.static import scan  # start-up: a warm cache needs none of it

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
