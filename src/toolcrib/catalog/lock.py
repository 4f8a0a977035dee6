"""`toolcrib.lock`: a file that pins tools and skills, and a guard that holds a registry to it.

    Lock.of(server.registry, Path("toolcrib.lock")).save()
    Lock.load("toolcrib.lock").guard(server.registry)       # nothing that differs is served from now on

A lock has the definitions themselves beside their fingerprints, so that a difference can be shown without the
code of that day; of a skill, it has the digest of every file. It is sorted and has no times or absolute
paths, so that it can be reviewed like code.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from toolcrib.catalog.diff import GRADES
from toolcrib.catalog.diff.compare import compare_tools, definition_of
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
    ToolcribError,
)
from toolcrib.registry.registry import ToolRegistry
from toolcrib.sources.described import describe
from toolcrib.sources.skills import MAIN_FILE, Skill
from toolcrib.tool import Tool
from toolcrib.validation import codec

Key = tuple[str, str | None]
"""The name and version of a tool."""
OnDrift = Literal["refuse", "quarantine"]
FILE_NAME = "toolcrib.lock"
FORMAT = 1
MAX_BYTES = 256 * 1024 * 1024

_ALGORITHM = "sha256:"
_SECTIONS = {"note", "format", "tools", "skills"}
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_NOTE = "Written by `toolcrib lock`; review what changes here like code, and do not edit it."
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_CONFLICT = re.compile(rb"^(<{7}|={7}|>{7})", re.MULTILINE)

logger = logging.getLogger("toolcrib")


def key_of(tool: Tool) -> Key:
    return tool.name, tool.version


def _versioned_name(name: str, version: str | None) -> str:
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
        source = _portable_source(definition.source, folder)
        return cls(tool.name, tool.version, plain, source, tuple(sorted(tool.options.scopes)))

    @property
    def key(self) -> Key:
        return self.name, self.version

    @property
    def title(self) -> str:
        return _versioned_name(self.name, self.version)

    @cached_property
    def fingerprint(self) -> str:
        return codec.digest(self.definition)

    @cached_property
    def tool(self) -> Tool:
        """The tool without its code. Raise DefinitionError where the definition is not valid."""
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

    def matches(self, tool: Tool) -> bool:
        """Return whether a tool has the definition and the scopes that were locked."""
        is_same = definition_of(tool).fingerprint == self.fingerprint
        return is_same and tuple(sorted(tool.options.scopes)) == self.scopes

    def to_json(self) -> dict[str, Any]:
        document = {
            "name": self.name,
            "version": self.version,
            "fingerprint": f"{_ALGORITHM}{self.fingerprint}",
            "scopes": list(self.scopes),
            "source": self.source,
            "definition": self.definition,
        }
        return {key: value for key, value in document.items() if value not in (None, [])}


@dataclass(frozen=True)
class SkillPin:
    """One skill as it was locked: the URI of its SKILL.md, and the digest of every file by its path."""

    uri: str
    files: Mapping[str, str]

    @classmethod
    def of(cls, skill: Skill) -> SkillPin:
        return cls(skill.uri, dict(sorted(skill.digests.items())))

    @property
    def name(self) -> str:
        return self.uri.split("/")[-2]

    def to_json(self) -> dict[str, Any]:
        return {"uri": self.uri, "files": dict(self.files)}

    def compare(self, skill: Skill) -> str | None:
        """Return what differs in a skill, None if it is as locked."""
        new = skill.digests
        parts = [f"{path} changed" for path in self.files if path in new and new[path] != self.files[path]]
        parts += [f"{path} is new" for path in new if path not in self.files]
        parts += [f"{path} is gone" for path in self.files if path not in new]
        more = f", and {len(parts) - 3} more" if len(parts) > 3 else ""
        return f"{', '.join(parts[:3])}{more}" if parts else None


def _portable_source(source: Location, folder: Path | None) -> str | None:
    """Return the source of a tool as every machine would: relative to the lock, or the last two names."""
    if source.file is None:
        return None
    if re.match(r"https?://", source.file):  # without user, password, query and fragment
        return re.sub(r"//[^/@]*@|[?#].*", lambda found: "//" if found[0][0] == "/" else "", source.file)
    path = Path(source.file)
    if not path.is_absolute():
        return path.as_posix() if path.exists() else None  # a command may contain secrets
    if folder is not None and path.resolve().is_relative_to(folder.resolve()):
        return path.resolve().relative_to(folder.resolve()).as_posix()
    return "/".join(PurePosixPath(path.as_posix()).parts[-2:])


# --- the file ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lock:
    """Pinned tools by name and version, and skills by URI. `targets` are what they are loaded from, for
    hints."""

    pins: Mapping[Key, Pin] = field(default_factory=dict)
    file: Path | None = None
    targets: tuple[str, ...] = field(default=(), compare=False)
    skills: Mapping[str, SkillPin] = field(default_factory=dict)

    @classmethod
    def of(cls, tools: Iterable[Tool], file: Path | None = None, skills: Iterable[Skill] = ()) -> Lock:
        """Pin tools and skills as they are now. Raise DefinitionError for a tool that cannot be built."""
        folder = None if file is None else file.parent
        pins = [Pin.of(tool, folder) for tool in tools]
        pinned = {skill.uri: SkillPin.of(skill) for skill in sorted(skills, key=lambda skill: skill.uri)}
        return cls({pin.key: pin for pin in sorted(pins, key=_order)}, file, skills=pinned)

    @classmethod
    def load(cls, file: str | Path) -> Lock:
        """Read a lock file. Raise ConfigurationError where it is missing, damaged or was edited."""
        path = Path(file)
        try:
            if path.exists() and not path.is_file() and not path.is_dir():
                raise ConfigurationError("is not a file", file=str(path))  # reading a pipe would block
            with path.open("rb") as stream:
                data = stream.read(MAX_BYTES + 1)
        except FileNotFoundError:
            hint = "`toolcrib lock TARGET...` writes one"
            raise ConfigurationError("there is no such lock file", file=str(path), hint=hint) from None
        except OSError as error:
            raise ConfigurationError(f"cannot be read: {error.strerror}", file=str(path)) from None
        pins, skills = _parse(data, str(path))
        return cls(pins, path, skills=skills)

    @property
    def tools(self) -> list[Tool]:
        """Every tool without its code. Raise DefinitionError."""
        return [pin.tool for pin in self.pins.values()]

    def to_text(self) -> str:
        """Return the text of the file: the same for the same tools on every machine."""
        document: dict[str, Any] = {
            "note": _NOTE,
            "format": FORMAT,
            "tools": [pin.to_json() for pin in sorted(self.pins.values(), key=_order)],
        }
        if self.skills:
            document["skills"] = [self.skills[uri].to_json() for uri in sorted(self.skills)]
        text = json.dumps(document, indent=2, ensure_ascii=False)
        return _NOT_ASCII.sub(_escape_invisible, text) + "\n"

    def save(self, file: str | Path | None = None) -> None:
        """Write the file atomically. Raise ConfigurationError where that fails."""
        path = Path(file) if file is not None else self.file or Path(FILE_NAME)
        data = self.to_text().encode()
        _parse(data, str(path))  # never write what could not be read again
        try:
            target = Path(os.path.realpath(path))
            os.stat(target.parent)  # a missing folder is a mistake, and is not created
            mode = target.stat().st_mode & 0o777 if target.exists() else None
            write_file(target, data, mode)
        except OSError as error:
            raise ConfigurationError(f"cannot be written: {error.strerror}", file=str(path)) from None

    def command_arguments(self, option: str) -> str:
        """Return the arguments of a command in a hint: the targets, and the file by `option`."""
        words = [shlex.quote(target) for target in self.targets]
        if words and self.file is not None and self.file != Path(FILE_NAME):
            words = [option, shlex.quote(str(self.file)), *words]
        return "".join(f" {word}" for word in words)

    def check(self, tools: Iterable[Tool]) -> Drift:
        """Compare tools with the lock. Tools that cannot be built are not served, and are ignored."""
        drift = Drift(self)
        seen: set[Key] = set()
        for tool in tools:
            try:
                seen.add(key_of(tool))
                pin = self.pins.get(key_of(tool))
                if pin is None:
                    _ = tool.definition  # raises where it cannot be built
                    drift.unknown.append(tool)
                elif not pin.matches(tool):
                    drift.changed.append((pin, tool))
            except DefinitionError:
                continue
        drift.missing.extend(pin for key, pin in self.pins.items() if key not in seen)
        return drift

    def check_skills(self, skills: Iterable[Skill], drift: Drift) -> Drift:
        """Add the differences between skills and the lock."""
        here = {skill.uri: skill for skill in skills}
        for uri, skill in here.items():
            pin = self.skills.get(uri)
            difference = "it is not in the lock" if pin is None else pin.compare(skill)
            if difference is not None:
                drift.skills.append((skill, difference))
        drift.missing_skills.extend(pin for uri, pin in self.skills.items() if uri not in here)
        return drift

    def guard(self, registry: ToolRegistry, on_drift: OnDrift = "refuse") -> Drift:
        """Hold a registry to this lock from now on, whatever is added, replaced or reloaded.

        Raise BatchError where a registered tool differs or is not locked; with "quarantine" remove it
        instead.
        """
        drift = self.check(entry.tool for entry in registry.entries())
        if on_drift == "refuse" and not drift.ok:
            findings = drift.findings("error")
            raise BatchError(f"{len(drift.tools)} not as locked: {findings[0].message}", findings)
        registry.guard = Guard(self, on_drift)
        if drift.tools:
            registry.replace_all(drift.tools, ())
        return drift


def _order(pin: Pin) -> tuple[str, str]:
    return pin.name, pin.version or ""


def _escape_invisible(found: re.Match[str]) -> str:
    """Escape a character that is not printable, so that a reviewer sees it."""
    character = found[0]
    return character if character.isprintable() else json.dumps(character)[1:-1]


def _parse(data: bytes, file: str) -> tuple[dict[Key, Pin], dict[str, SkillPin]]:
    """Return the pins of a file, of tools and of skills. As strict as `codec.parse`, whose size limit is too
    small for many tools."""

    def error(
        problem: str, hint: str = "restore it, or move it away and run `toolcrib lock`"
    ) -> ConfigurationError:
        return ConfigurationError(problem, file=file, hint=hint)

    if len(data) > MAX_BYTES:
        raise error(f"is larger than {MAX_BYTES // 1024 // 1024} MiB")
    if _CONFLICT.search(data):
        raise error("contains merge conflict markers", "take either side, then run `toolcrib lock` again")
    try:
        document = json.loads(
            data.decode(), object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant
        )
    except (ValueError, RecursionError) as problem:
        raise error(f"is damaged: {problem}") from None
    if not isinstance(document, dict) or "format" not in document:
        raise error("is not a lock file of toolcrib", "name the file that `toolcrib lock` has written")
    if document["format"] != FORMAT:
        message = f"has format {document['format']!r}, and this version of toolcrib supports format {FORMAT}"
        raise error(message, "use the toolcrib that wrote it, or run `toolcrib lock` again")
    if not isinstance(document.get("tools"), list) or document.keys() - _SECTIONS:
        raise error("is damaged: it must have 'format' and a list of 'tools'")
    pins: dict[Key, Pin] = {}
    for number, entry in enumerate(document["tools"], start=1):
        try:
            pin = _parse_pin(entry)
        except (ValueError, TypeError, DefinitionError) as problem:
            name = entry.get("name") if isinstance(entry, dict) else None
            raise error(f"is damaged at tool {number} ({name!r:.80}): {problem}") from None
        if pin.key in pins:
            raise error(f"is damaged: it has '{pin.title}' twice")
        pins[pin.key] = pin
    try:
        return pins, _parse_skills(document.get("skills", []))
    except ValueError as problem:
        raise error(f"is damaged at its skills: {problem}") from None


def _parse_skills(entries: Any) -> dict[str, SkillPin]:
    if not isinstance(entries, list):
        raise ValueError("they are not a list")
    pins: dict[str, SkillPin] = {}
    for entry in entries:
        if not isinstance(entry, dict) or entry.keys() != {"uri", "files"}:
            raise ValueError("one has not exactly 'uri' and 'files'")
        uri, files = entry["uri"], entry["files"]
        if not isinstance(uri, str) or not uri.endswith(f"/{MAIN_FILE}") or uri in pins:
            raise ValueError(f"{uri!r:.80} is not the URI of a {MAIN_FILE}, or is there twice")
        digests = files.values() if isinstance(files, dict) else [None]
        if not all(isinstance(digest, str) and _DIGEST.fullmatch(digest) for digest in digests):
            raise ValueError(f"the files of {uri!r:.80} have no valid digests")
        pins[uri] = SkillPin(uri, files)
    return pins


def _parse_pin(entry: Any) -> Pin:
    if not isinstance(entry, dict):
        raise ValueError("it is not an object")
    required: dict[str, type] = {"name": str, "fingerprint": str, "definition": dict}
    optional: dict[str, type] = {"version": str, "source": str, "scopes": list}
    for key, expected in (required | optional).items():
        if key in required and key not in entry:
            raise ValueError(f"'{key}' is missing")
        if key in entry and not isinstance(entry[key], expected):
            raise ValueError(f"'{key}' has the wrong type")
    unknown = entry.keys() - required.keys() - optional.keys()
    if unknown:
        raise ValueError(f"unknown key '{min(unknown)}'")
    scopes = tuple(sorted(str(scope) for scope in entry.get("scopes", ())))
    pin = Pin(entry["name"], entry.get("version"), entry["definition"], entry.get("source"), scopes)
    if pin.definition.get("name") != pin.name:
        raise ValueError("its definition is that of another tool")
    if entry["fingerprint"] != f"{_ALGORITHM}{pin.fingerprint}":
        raise ValueError("its fingerprint does not match its definition; it was edited by hand")
    return pin


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _reject_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


# --- drift -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drift:
    """The differences between tools and a lock: `changed` since, `unknown` to it, or `missing` here."""

    lock: Lock
    changed: list[tuple[Pin, Tool]] = field(default_factory=list)
    unknown: list[Tool] = field(default_factory=list)
    missing: list[Pin] = field(default_factory=list)
    skills: list[tuple[Skill, str]] = field(default_factory=list)
    """Skills that are not as locked, and how they differ."""
    missing_skills: list[SkillPin] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True if every tool and skill here is as locked. A missing one does no harm."""
        return not self.changed and not self.unknown and not self.skills

    @property
    def tools(self) -> list[Tool]:
        """The tools that may not be served."""
        return [*(tool for _, tool in self.changed), *self.unknown]

    def findings(self, level: Level = "error") -> list[Finding]:
        """Return a finding for each tool; a missing one is always a warning."""
        found = [_explain(self.lock, pin, tool, level) for pin, tool in self.changed]
        found += [_explain(self.lock, None, tool, level) for tool in self.unknown]
        found += [self._explain_skill(skill, difference, level) for skill, difference in self.skills]
        for pin in self.missing:
            hint = f"`{self._update_command(pin.name)}` removes it from the lock"
            message = f"'{pin.title}' is locked but not here"
            found.append(Finding("locked-but-missing", "warning", message, pin.name, hint=hint))
        for other in self.missing_skills:
            hint = f"`{self._update_command(other.name)}` removes it from the lock"
            message = f"Skill '{other.name}' is locked but not here"
            found.append(Finding("locked-but-missing", "warning", message, hint=hint))
        return found

    def _explain_skill(self, skill: Skill, difference: str, level: Level) -> Finding:
        message = f"Skill '{skill.name}' is not what was locked: {difference}"
        place = (skill.source.file, skill.source.line)
        hint = f"review it; `{self._update_command(skill.name)}` accepts it"
        return Finding(DriftError.code, level, message, None, None, *place, hint)

    def _update_command(self, name: str) -> str:
        return f"toolcrib lock --update {name}{self.lock.command_arguments('--output')}"


def _explain(lock: Lock, pin: Pin | None, tool: Tool, level: Level) -> Finding:
    """Return why a tool may not be served, with the worst change."""
    title = _versioned_name(tool.name, tool.version)
    if pin is None:
        message = f"'{title}' is not in the lock"
    else:
        try:
            changes = compare_tools(pin.tool, tool)
        except ToolcribError:  # it has no definition, or the schema engine cannot compare
            changes = []
        worst = max(changes, key=lambda change: GRADES.index(change.grade), default=None)
        first = f"{worst.message} ({worst.grade})" if worst is not None else "it differs"
        more = f", and {len(changes) - 1} more" if len(changes) > 1 else ""
        message = f"'{title}' is not what was locked: {first}{more}"
    accept = f"toolcrib lock --update {tool.name}{lock.command_arguments('--output')}"
    show = f"toolcrib diff{lock.command_arguments('--lock')}"
    if len(lock.targets) > 1:  # `diff` takes only one
        show = f"toolcrib lock --check{lock.command_arguments('--output')}"
    hint = f"`{show}` shows it; `{accept}` accepts it"
    source = tool.source
    return Finding(DriftError.code, level, message, tool.name, None, source.file, source.line, hint)


class Guard:
    """Called by a registry for every tool to be added: raises DriftError for one that is not as locked."""

    def __init__(self, lock: Lock, on_drift: OnDrift = "refuse") -> None:
        self.lock = lock
        self.on_drift = on_drift
        self._logged: set[tuple[Key, str]] = set()

    def __call__(self, tool: Tool) -> None:
        pin = self.lock.pins.get(key_of(tool))
        if pin is not None and pin.matches(tool):
            return
        is_fatal = self.on_drift == "refuse"
        finding = _explain(self.lock, pin, tool, "error")
        entry = (key_of(tool), tool.definition.fingerprint)
        if not is_fatal and entry not in self._logged:
            self._logged.add(entry)
            logger.warning("Quarantined: %s", finding.message)
        raise DriftError(
            finding.message, tool=tool.name, source=tool.source, hint=finding.hint, is_fatal=is_fatal
        )
