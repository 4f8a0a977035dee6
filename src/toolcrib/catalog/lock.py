"""`toolcrib.lock`: a file that pins the definitions of tools, resources and prompts, and a guard that holds a
registry to it.

    Lock.of([*server.registry, *server.prompts], Path("toolcrib.lock")).save()
    lock = Lock.load("toolcrib.lock")
    lock.guard(server.registry)                             # nothing that differs is served from now on
    lock.guard(server.prompts, kind="prompt")

A lock has the definitions themselves beside their fingerprints, so that a difference can be shown without the
code of that day. It is sorted and has no times or absolute paths, so that it can be reviewed like code.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from toolcrib.catalog.compare import compare_tools, content_of, definition_of
from toolcrib.catalog.compare_schemas import GRADES
from toolcrib.component import Component
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
from toolcrib.registry.selection import KINDS
from toolcrib.sources.described import describe, describe_entry
from toolcrib.sources.targets import LOCK_NAME
from toolcrib.validation import codec

Key = tuple[str, str | None]
"""The name and version of a tool; `prompt:NAME` or `resource:URI` for others."""
OnDrift = Literal["refuse", "quarantine"]
FILE_NAME = LOCK_NAME
FORMAT = 1
MAX_BYTES = 256 * 1024 * 1024

_ALGORITHM = "sha256:"
_NOTE = "Written by `toolcrib lock`; review what changes here like code, and do not edit it."
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_LISTS = {kind: f"{kind}s" for kind in KINDS}
"""The lists of pins in the file, by kind."""
_CONFLICT = re.compile(rb"^(<{7}|={7}|>{7})", re.MULTILINE)

logger = logging.getLogger("toolcrib")


def key_of(tool: Component) -> Key:
    return tool.reference, tool.version


def _versioned_name(name: str, version: str | None) -> str:
    return f"{name}@{version}" if version else name


@dataclass(frozen=True)
class Pin:
    """One tool, resource or prompt as it was locked. `definition` is what clients are told; `source` is for
    people."""

    name: str
    version: str | None
    definition: Mapping[str, Any]
    source: str | None = None
    scopes: tuple[str, ...] = ()
    kind: str = "tool"

    @classmethod
    def of(cls, tool: Component, folder: Path | None = None) -> Pin:
        plain = codec.decode(codec.canonical(_definition_in(tool)))
        source = _portable_source(definition_of(tool).source, folder)
        return cls(tool.name, tool.version, plain, source, tuple(sorted(tool.options.scopes)), tool.kind)

    @property
    def key(self) -> Key:
        return self.reference, self.version

    @property
    def reference(self) -> str:
        return self.name if self.kind == "tool" else f"{self.kind}:{self.name}"

    @property
    def title(self) -> str:
        return _versioned_name(self.reference, self.version)

    @cached_property
    def fingerprint(self) -> str:
        return codec.digest(self.definition)

    @cached_property
    def tool(self) -> Component:
        """The tool without its code. Raise DefinitionError if the definition is not valid."""
        wire = self.definition
        if self.kind != "tool":
            feature = describe_entry(wire, Location(self.source), self.version)
            return feature.with_options(scopes=self.scopes) if self.scopes else feature
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

    def matches(self, tool: Component) -> bool:
        """Return whether a tool has the definition and the scopes that were locked."""
        is_same = codec.digest(_definition_in(tool)) == self.fingerprint
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


def _definition_in(tool: Component) -> Mapping[str, Any]:
    """Return the pinned definition of a tool."""
    return definition_of(tool).to_wire() if tool.kind == "tool" else content_of(tool)


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
    """Pinned tools, resources and prompts by name and version. `targets` are for
    hints."""

    pins: Mapping[Key, Pin] = field(default_factory=dict)
    file: Path | None = None
    targets: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, tools: Iterable[Component], file: Path | None = None) -> Lock:
        """Pin tools as they are now. Raise DefinitionError for one that cannot be built."""
        folder = None if file is None else file.parent
        pins = [Pin.of(tool, folder) for tool in tools]
        return cls({pin.key: pin for pin in sorted(pins, key=_order)}, file)

    @classmethod
    def load(cls, file: str | Path) -> Lock:
        """Read a lock file. Raise ConfigurationError if it is missing, damaged or was edited."""
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
        return replace(_parse(data, str(path)), file=path)

    @property
    def tools(self) -> list[Component]:
        """Everything that is pinned, without its code. Raise DefinitionError."""
        return [pin.tool for pin in self.pins.values()]

    def to_text(self) -> str:
        """Return the text of the file: the same for the same tools on every machine."""
        pins = sorted(self.pins.values(), key=_order)
        document = {"note": _NOTE, "format": FORMAT}
        for kind, key in _LISTS.items():
            document[key] = [pin.to_json() for pin in pins if pin.kind == kind]
        text = json.dumps(document, indent=2, ensure_ascii=False)
        return _NOT_ASCII.sub(_escape_invisible, text) + "\n"

    def save(self, file: str | Path | None = None) -> None:
        """Write the file atomically. Raise ConfigurationError if that fails."""
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

    def command_arguments(self) -> str:
        """Return the arguments of `toolcrib lock` in a hint."""
        words = [shlex.quote(target) for target in self.targets]
        if words and self.file is not None and self.file != Path(FILE_NAME):
            words = ["--output", shlex.quote(str(self.file)), *words]
        return "".join(f" {word}" for word in words)

    def update_command(self, reference: str) -> str:
        """Return the command that updates the pin of one tool, resource or prompt."""
        return f"toolcrib lock --update {shlex.quote(reference)}{self.command_arguments()}"

    def check(self, tools: Iterable[Component], kinds: Collection[str] = KINDS) -> Drift:
        """Compare tools, or all of some kinds, with the lock. Those that cannot be built are not served, and
        are ignored."""
        drift = Drift(self)
        seen: set[Key] = set()
        for tool in tools:
            try:
                seen.add(key_of(tool))
                pin = self.pins.get(key_of(tool))
                if pin is None:
                    _ = tool.definition  # raises if it cannot be built
                    drift.unknown.append(tool)
                elif not pin.matches(tool):
                    drift.changed.append((pin, tool))
            except DefinitionError:
                continue
        missing = [pin for key, pin in self.pins.items() if key not in seen and pin.kind in kinds]
        drift.missing.extend(missing)
        return drift

    def guard(self, registry: ToolRegistry, on_drift: OnDrift = "refuse", *, kind: str = "tool") -> Drift:
        """Hold a registry to this lock from now on, whatever is added or replaced. `kind` is the
        kind of its components: "tool", "resource" or "prompt".

        Raise BatchError if a registered tool differs or is not locked; with "quarantine" remove it
        instead.
        """
        drift = self.check((entry.tool for entry in registry.entries()), (kind,))
        if on_drift == "refuse" and not drift.ok:
            findings = drift.findings("error")
            raise BatchError(f"{len(drift.tools)} not as locked: {findings[0].message}", findings)
        registry.guard = Guard(self, on_drift)
        if drift.tools:
            registry.remove_tools(drift.tools)
        return drift


def _order(pin: Pin) -> tuple[str, str]:
    return pin.reference, pin.version or ""


def _escape_invisible(found: re.Match[str]) -> str:
    """Escape a character that is not printable, so that a reviewer sees it."""
    character = found[0]
    return character if character.isprintable() else json.dumps(character)[1:-1]


def _parse(data: bytes, file: str) -> Lock:
    """Return the lock in a file. As strict as `codec.parse`, whose size limit is too small for many tools."""

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
    lists: dict[str, Any] = {kind: document.get(key) for kind, key in _LISTS.items()}
    is_known = not document.keys() - {"note", "format", *_LISTS.values()}
    if not is_known or not all(isinstance(item, list) for item in lists.values()):
        raise error("must have lists of 'tools', 'resources' and 'prompts'", "run `toolcrib lock` again")
    pins: dict[Key, Pin] = {}
    numbered = [(kind, *item) for kind, entries in lists.items() for item in enumerate(entries, start=1)]
    for kind, number, entry in numbered:
        try:
            pin = _parse_pin(entry, kind)
        except (ValueError, TypeError, DefinitionError) as problem:
            name = entry.get("name") if isinstance(entry, dict) else None
            raise error(f"is damaged at {kind} {number} ({name!r:.80}): {problem}") from None
        if pin.key in pins:
            raise error(f"is damaged: it has '{pin.title}' twice")
        pins[pin.key] = pin
    return Lock(pins)


def _parse_pin(entry: Any, kind: str) -> Pin:
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
    wire = entry["definition"]
    pin = Pin(entry["name"], entry.get("version"), wire, entry.get("source"), scopes, kind)
    name = wire.get("uri", wire.get("uriTemplate")) if kind == "resource" else wire.get("name")
    if name != pin.name:
        raise ValueError(f"its definition belongs to another {kind}")
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
    """The differences from a lock: what `changed` since, is `unknown` to it, or is `missing` here."""

    lock: Lock
    changed: list[tuple[Pin, Component]] = field(default_factory=list)
    unknown: list[Component] = field(default_factory=list)
    missing: list[Pin] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True if every tool here is as locked. A missing one does no harm."""
        return not self.changed and not self.unknown

    @property
    def tools(self) -> list[Component]:
        """The tools that may not be served."""
        return [*(tool for _, tool in self.changed), *self.unknown]

    def findings(self, level: Level = "error") -> list[Finding]:
        """Return a finding for each tool; a missing one is always a warning."""
        found = [_explain(self.lock, pin, tool, level) for pin, tool in self.changed]
        found += [_explain(self.lock, None, tool, level) for tool in self.unknown]
        for pin in self.missing:
            message = f"'{pin.title}' is locked but not here"
            hint = f"`{self.lock.update_command(pin.reference)}` removes it from the lock"
            found.append(Finding("locked-but-missing", "warning", message, pin.reference, hint=hint))
        return found


def _explain(lock: Lock, pin: Pin | None, tool: Component, level: Level) -> Finding:
    """Return why a tool may not be served, with the worst change."""
    title = _versioned_name(tool.reference, tool.version)
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
    show = f"toolcrib lock --check{lock.command_arguments()}"
    hint = f"`{show}` shows it; `{lock.update_command(tool.reference)}` accepts it"
    source = tool.source
    return Finding(DriftError.code, level, message, tool.reference, None, source.file, source.line, hint)


class Guard:
    """Called by a registry for every tool to be added: raises DriftError for one that is not as locked."""

    def __init__(self, lock: Lock, on_drift: OnDrift = "refuse") -> None:
        self.lock = lock
        self.on_drift = on_drift
        self._logged: set[tuple[Key, str]] = set()

    def __call__(self, tool: Component) -> None:
        pin = self.lock.pins.get(key_of(tool))
        if pin is not None and pin.matches(tool):
            return
        is_fatal = self.on_drift == "refuse"
        finding = _explain(self.lock, pin, tool, "error")
        entry = (key_of(tool), codec.digest(_definition_in(tool)))
        if not is_fatal and entry not in self._logged:
            self._logged.add(entry)
            logger.warning("Quarantined: %s", finding.message)
        raise DriftError(
            finding.message, tool=tool.reference, source=tool.source, hint=finding.hint, is_fatal=is_fatal
        )
