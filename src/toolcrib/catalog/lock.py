"""`toolcrib.lock`: what every tool said when somebody looked at it, so that nothing else is served unseen.

A lock holds the definitions themselves beside their fingerprints, so that what differs can be shown without
the code of that day. It is written sorted and without times or paths of a machine, so that it can be kept
with the code and reviewed like it. Knows tools and one file; refuses to know who serves.

One tool as it was locked: its name and version, what clients were told, and its fingerprint.

Knows tools and how they are written down; refuses to know files and what becomes of a tool that differs.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from toolcrib.catalog.diff.compare import GRADES, Change, compare_tools, definition_of
from toolcrib.config.atomic_file import write_file
from toolcrib.definition import ToolDefinition
from toolcrib.errors import (
    BatchError,
    ConfigurationError,
    DefinitionError,
    DriftError,
    Finding,
    Level,
    Location,
)
from toolcrib.registry.registry import ToolRegistry
from toolcrib.sources.described import describe
from toolcrib.tool import Tool
from toolcrib.validation import codec

Key = tuple[str, str | None]
FINGERPRINT = "sha256:"


def key_of(tool: Tool) -> Key:
    return tool.name, tool.version


def title_of(name: str, version: str | None) -> str:
    return f"{name}@{version}" if version else name


@dataclass(frozen=True)
class Pin:
    """One tool as it was locked. `definition` is what clients are told; `source` is for people."""

    name: str
    version: str | None
    definition: Mapping[str, Any]
    source: str | None = None
    scopes: tuple[str, ...] = ()

    @classmethod
    def of(cls, tool: Tool, folder: Path | None = None) -> Pin:
        definition = definition_of(tool)
        plain = codec.decode(codec.canonical(definition.to_wire()))
        source = _show_source(definition.source, folder)
        return cls(tool.name, tool.version, plain, source, tuple(sorted(tool.options.scopes)))

    @property
    def key(self) -> Key:
        return self.name, self.version

    @property
    def title(self) -> str:
        return title_of(self.name, self.version)

    @cached_property
    def fingerprint(self) -> str:
        return codec.digest(self.definition)

    @cached_property
    def tool(self) -> Tool:
        """The tool, only described. Raises DefinitionError where nothing can be made of it."""
        wire = self.definition
        definition = ToolDefinition(
            name=self.name,
            description=wire.get("description", ""),
            input_schema=wire.get("inputSchema", {}),
            output_schema=wire.get("outputSchema"),
            title=wire.get("title"),
            annotations=wire.get("annotations", {}),
            version=self.version,
            source=Location(self.source),
            icons=wire.get("icons", ()),
            meta=wire.get("_meta", {}),
        )
        tool = describe(definition)
        return tool.with_options(scopes=self.scopes) if self.scopes else tool

    def fits(self, tool: Tool) -> bool:
        is_same = definition_of(tool).fingerprint == self.fingerprint
        return is_same and tuple(sorted(tool.options.scopes)) == self.scopes

    def to_json(self) -> dict[str, Any]:
        facts = {
            "name": self.name,
            "version": self.version,
            "fingerprint": f"{FINGERPRINT}{self.fingerprint}",
            "scopes": list(self.scopes),
            "source": self.source,
            "definition": self.definition,
        }
        return {key: value for key, value in facts.items() if value not in (None, [])}


def _show_source(source: Location, folder: Path | None) -> str | None:
    """Where a tool is from, as every machine would say it: from the lock's folder, or only the last names."""
    if source.file is None:
        return None
    if re.match(r"https?://", source.file):
        return re.sub(r"//[^/@]*@|[?#].*", lambda found: "//" if found[0][0] == "/" else "", source.file)
    path = Path(source.file)
    if not path.is_absolute() and not path.exists():
        return None  # a command: it may hold anything
    if folder is not None and path.is_absolute():
        try:
            return path.resolve().relative_to(folder.resolve()).as_posix()
        except ValueError:
            pass
    parts = PurePosixPath(path.as_posix()).parts
    return path.as_posix() if not path.is_absolute() else "/".join(parts[-2:])


logger = logging.getLogger("toolcrib")

FILE_NAME = "toolcrib.lock"
FORMAT = 1
MAX_BYTES = 256 * 1024 * 1024
OnDrift = Literal["refuse", "quarantine"]

_NOTE = "Written by `toolcrib lock`; review what changes here like code, and do not edit it."
_UNSEEN = re.compile(r"[^\x00-\x7f]")
_CONFLICT = re.compile(rb"^(<{7}|={7}|>{7})", re.MULTILINE)
_AGAIN = "restore it, or move it away and run `toolcrib lock`"


# --- the file --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lock:
    """Tools by name and version, as they were when they were locked.

    `targets` is what the tools are loaded from, where that is known: hints name it.
    """

    pins: Mapping[Key, Pin] = field(default_factory=dict)
    file: Path | None = None
    targets: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, tools: Iterable[Tool], file: Path | None = None) -> Lock:
        """What these tools say now. Raises DefinitionError for one that cannot be built."""
        folder = None if file is None else file.parent
        pins = [Pin.of(tool, folder) for tool in tools]
        return cls({pin.key: pin for pin in sorted(pins, key=_order)}, file)

    @classmethod
    def load(cls, file: str | Path) -> Lock:
        """Read a lock. Raises ConfigurationError where it is not there, damaged, or not what was written."""
        path = Path(file)
        try:
            if path.exists() and not path.is_file() and not path.is_dir():
                raise ConfigurationError("is not a file", file=str(path))  # a pipe would be waited for
            with path.open("rb") as stream:
                data = stream.read(MAX_BYTES + 1)
        except FileNotFoundError:
            hint = "`toolcrib lock TARGET...` writes one"
            raise ConfigurationError("there is no such lock file", file=str(path), hint=hint) from None
        except OSError as error:
            raise ConfigurationError(f"cannot be read: {error.strerror}", file=str(path)) from None
        return cls(_read(data, str(path)), path)

    @property
    def tools(self) -> list[Tool]:
        """Every tool, only described. Raises DefinitionError."""
        return [pin.tool for pin in self.pins.values()]

    def to_text(self) -> str:
        """The file: the same for the same tools, everywhere."""
        document = {
            "note": _NOTE,
            "format": FORMAT,
            "tools": [pin.to_json() for pin in sorted(self.pins.values(), key=_order)],
        }
        text = json.dumps(document, indent=2, ensure_ascii=False)
        return _UNSEEN.sub(_spell_unseen, text) + "\n"

    def save(self, file: str | Path | None = None) -> None:
        """Write the file whole or not at all. Raises ConfigurationError."""
        path = Path(file) if file is not None else self.file or Path(FILE_NAME)
        data = self.to_text().encode()
        _read(data, str(path))  # what could not be read again is not written
        try:
            place = Path(os.path.realpath(path))
            os.stat(place.parent)  # a folder that is not there is a slip, and is not made
            write_file(place, data, _mode_of(place))
        except OSError as error:
            raise ConfigurationError(f"cannot be written: {error.strerror}", file=str(path)) from None

    def spell(self, option: str) -> str:
        """What follows a command in a hint: the targets, and the lock by `option` where it is another."""
        words = [shlex.quote(target) for target in self.targets]
        if words and self.file is not None and self.file != Path(FILE_NAME):
            words = [option, shlex.quote(str(self.file)), *words]
        return "".join(f" {word}" for word in words)

    # --- keeping to it ---

    def check(self, tools: Iterable[Tool]) -> Drift:
        """How tools differ from what is locked. One that cannot be built is not served, and not looked at."""
        drift = Drift(self)
        seen: set[Key] = set()
        for tool in tools:
            try:
                seen.add(key_of(tool))
                pin = self.pins.get(key_of(tool))
                if pin is None:
                    _ = tool.definition
                    drift.unknown.append(tool)
                elif not pin.fits(tool):
                    drift.changed.append((pin, tool))
            except DefinitionError:
                continue
        drift.missing.extend([pin for key, pin in self.pins.items() if key not in seen])
        return drift

    def guard(self, registry: ToolRegistry, on_drift: OnDrift = "refuse") -> Drift:
        """Hold a registry to this lock from now on, whatever is added, replaced or loaded again.

        Raises BatchError where something there differs or is not locked; with "quarantine" that is taken out.
        """
        drift = self.check(entry.tool for entry in registry.entries())
        if on_drift == "refuse" and not drift.ok:
            words = f"{len(drift.tools)} not as locked: {drift.findings('error')[0].message}"
            raise BatchError(words, drift.findings("error"))
        registry.guard = Guard(self, on_drift)
        if drift.tools:
            registry.replace_all(drift.tools, ())
        return drift


def _order(pin: Pin) -> tuple[str, str]:
    return pin.name, pin.version or ""


def _spell_unseen(found: re.Match[str]) -> str:
    """A character that no reader would see, written out; every other as it is."""
    character = found[0]
    if character.isprintable():
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def _mode_of(path: Path) -> int | None:
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        return None


# --- reading ---------------------------------------------------------------------------------------------


def _read(data: bytes, file: str) -> dict[Key, Pin]:
    """The pins of a file, each as it was written. A lock of many tools is larger than what `codec.parse`
    takes from strangers; as strict, this takes what the disk holds."""

    def refuse(problem: str, hint: str = _AGAIN) -> ConfigurationError:
        return ConfigurationError(problem, file=file, hint=hint)

    if len(data) > MAX_BYTES:
        raise refuse(f"is larger than {MAX_BYTES // 1024 // 1024} MiB")
    if _CONFLICT.search(data):
        raise refuse(
            "holds the marks of a merge conflict", "take either side, then run `toolcrib lock` again"
        )
    try:
        document = json.loads(
            data.decode(), object_pairs_hook=_without_repeats, parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError) as error:
        raise refuse(f"is damaged: {error}") from None
    if not isinstance(document, dict) or "format" not in document:
        raise refuse("is not a lock file of toolcrib", "name the file that `toolcrib lock` has written")
    if document["format"] != FORMAT:
        words = f"has format {document['format']!r}, and this toolcrib knows format {FORMAT}"
        raise refuse(words, "use the toolcrib that wrote it, or run `toolcrib lock` again")
    if not isinstance(document.get("tools"), list) or document.keys() - {"note", "format", "tools"}:
        raise refuse("is damaged: it should hold 'format' and a list of 'tools'")
    pins: dict[Key, Pin] = {}
    for number, entry in enumerate(document["tools"], start=1):
        try:
            pin = _read_pin(entry)
        except (ValueError, TypeError, DefinitionError) as error:
            name = entry.get("name") if isinstance(entry, dict) else None
            raise refuse(f"is damaged at tool {number} ({name!r:.80}): {error}") from None
        if pin.key in pins:
            raise refuse(f"is damaged: it has '{pin.title}' twice")
        pins[pin.key] = pin
    return pins


def _read_pin(entry: Any) -> Pin:
    if not isinstance(entry, dict):
        raise ValueError("it is not an object")
    kinds: dict[str, type] = {"name": str, "fingerprint": str, "definition": dict}
    others: dict[str, type] = {"version": str, "source": str, "scopes": list}
    for key, kind in (kinds | others).items():
        if key in kinds and key not in entry:
            raise ValueError(f"'{key}' is missing")
        if key in entry and not isinstance(entry[key], kind):
            raise ValueError(f"'{key}' is of a wrong kind")
    if entry.keys() - kinds.keys() - others.keys():
        raise ValueError(f"'{min(entry.keys() - kinds.keys() - others.keys())}' is not known here")
    scopes = tuple(sorted(str(scope) for scope in entry.get("scopes", ())))
    pin = Pin(entry["name"], entry.get("version"), entry["definition"], entry.get("source"), scopes)
    if pin.definition.get("name") != pin.name:
        raise ValueError("its definition is that of another tool")
    if entry["fingerprint"] != f"{FINGERPRINT}{pin.fingerprint}":
        raise ValueError("its fingerprint is not that of its definition; it was edited by hand")
    return pin


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


# --- drift -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drift:
    """How tools differ from a lock: `changed` since, `unknown` to it, or `missing` here."""

    lock: Lock
    changed: list[tuple[Pin, Tool]] = field(default_factory=list)
    unknown: list[Tool] = field(default_factory=list)
    missing: list[Pin] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether everything that is here is as it was locked. What is missing harms nobody."""
        return not self.changed and not self.unknown

    @property
    def tools(self) -> list[Tool]:
        """What may not be served."""
        return [*(tool for _, tool in self.changed), *self.unknown]

    def findings(self, level: Level = "error") -> list[Finding]:
        """Each in words; what is missing is a warning in any case."""
        found = [explain(self.lock, pin, tool, level) for pin, tool in self.changed]
        found += [explain(self.lock, None, tool, level) for tool in self.unknown]
        for pin in self.missing:
            words = f"'{pin.title}' is locked but not here"
            hint = f"`toolcrib lock --update {pin.name}{self.lock.spell('--output')}` forgets it"
            found.append(Finding("locked-but-missing", "warning", words, pin.name, hint=hint))
        return found


def explain(lock: Lock, pin: Pin | None, tool: Tool, level: Level) -> Finding:
    """Why a tool may not be served: the worst of what changed, in words."""
    source = tool.source
    title = title_of(tool.name, tool.version)
    if pin is None:
        words = f"'{title}' is not in the lock"
    else:
        changes = sorted(_changes(pin, tool), key=_by_grade)
        first = f"{changes[0].message} ({changes[0].grade})" if changes else "it differs"
        more = f", and {len(changes) - 1} more" if len(changes) > 1 else ""
        words = f"'{title}' is not what was locked: {first}{more}"
    accepting = f"toolcrib lock --update {tool.name}{lock.spell('--output')}"
    showing = f"toolcrib diff{lock.spell('--lock')}"
    if len(lock.targets) > 1:  # of which `diff` takes one
        showing = f"toolcrib lock --check{lock.spell('--output')}"
    hint = f"`{showing}` shows it; `{accepting}` accepts it"
    return Finding(DriftError.code, level, words, tool.name, None, source.file, source.line, hint)


def _changes(pin: Pin, tool: Tool) -> Iterator[Change]:
    try:
        yield from compare_tools(pin.tool, tool)
    except DefinitionError:
        return  # the lock holds what can be told apart, and no more


def _by_grade(change: Change) -> int:
    return -GRADES.index(change.grade)


class Guard:
    """Asked by a registry of every tool that is to come: raises DriftError for one that is not as locked."""

    def __init__(self, lock: Lock, on_drift: OnDrift = "refuse") -> None:
        self.lock = lock
        self.on_drift = on_drift
        self._said: set[tuple[Key, str]] = set()

    def __call__(self, tool: Tool) -> None:
        pin = self.lock.pins.get(key_of(tool))
        if pin is not None and pin.fits(tool):
            return
        is_fatal = self.on_drift == "refuse"
        finding = explain(self.lock, pin, tool, "error")
        if not is_fatal and (key_of(tool), tool.definition.fingerprint) not in self._said:
            self._said.add((key_of(tool), tool.definition.fingerprint))
            logger.warning("Quarantined: %s", finding.message)
        raise DriftError(
            finding.message, tool=tool.name, source=tool.source, hint=finding.hint, is_fatal=is_fatal
        )
