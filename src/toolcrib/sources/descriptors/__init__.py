"""Descriptors: JSON and YAML files, or folders of them, that describe tools whose code is elsewhere.

Entries may have the form of MCP, toolcrib, a lock file, OpenAI, catalogs, or registries with `{id, name,
category, description, schema}`. Most fields have several accepted names; other fields are metadata and are
not published. An invalid entry, or an invalid file of a folder, becomes a finding; the others are read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from toolcrib.component import Component
from toolcrib.definition import ToolDefinition, find_wrong_annotations
from toolcrib.errors import (
    DefinitionError,
    Finding,
    InvalidNameError,
    InvalidSchemaError,
    InvalidToolError,
    Location,
    SourceError,
)
from toolcrib.names import MCP
from toolcrib.options import OptionFields
from toolcrib.sources.described import describe
from toolcrib.sources.loading import find_python_files, is_skipped_folder
from toolcrib.validation.formats import (
    LOCK_SUFFIX,
    SUFFIXES,
    format_of,
    parse_text,
    read_text,
)

__all__ = ["SUFFIXES", "Descriptors", "descriptor_files", "is_descriptor", "read_descriptors"]

MAX_FILES = 20_000
_SCHEMA_KEYS = ("inputSchema", "input_schema", "schema", "parameters")
_OUTPUT_KEYS = ("outputSchema", "output_schema")
_META_KEYS = ("_meta", "meta")
_OPTION_KEYS = ("group", "aliases", "scopes", "enabled")
_KNOWN = frozenset(
    (
        *("id", "name", "title", "description", "annotations", "tags", "version", "metadata", "icons"),
        *("returns", "raises", "type", "strict", *_SCHEMA_KEYS, *_OUTPUT_KEYS, *_META_KEYS, *_OPTION_KEYS),
    )
)
_LISTS = ("tools", "functionSchema", "functions")
"""The keys of the tools in a document."""
_MAX_MISSES = 10
"""Names that may be missing in the text, because they are escaped there: each is searched for to its end."""
_FORMS = 'use a list of tools, {"tools": [...]}, or one {name, description, schema}'


class NothingDescribedError(SourceError):
    """A file does not describe tools."""

    code = "nothing-described"


@dataclass(slots=True)
class Descriptors:
    """The described tools, findings about the rest, and the files that were read."""

    tools: list[Component] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)


# --- files -------------------------------------------------------------------------------------------


def read_descriptors(path: str | os.PathLike[str]) -> Descriptors:
    """Return the tools that a file, or the files of a folder, describe. Every tool is built and checked.
    Raises SourceError where nothing can be read."""
    file = Path(path)
    found = Descriptors()
    if file.is_dir():
        _read_folder(file, found)
    elif format_of(file) is None:
        raise _not_a_descriptor(file, "is not a descriptor")
    else:
        add_document(read_text(file), file, found)
    return found


def is_descriptor(path: Path) -> bool:
    """Return whether a path holds descriptors and not code: a file by its suffix, a folder by its files."""
    if path.is_dir():
        return next(descriptor_files(path), None) is not None and not find_python_files(path)
    return format_of(path) is not None


def descriptor_files(folder: Path) -> Iterator[Path]:
    """Yield every file below a folder with the suffix of a descriptor, in a stable order."""
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not is_skipped_folder(name))
        for name in sorted(files):
            is_hidden = name.startswith(".") or name.endswith(LOCK_SUFFIX)  # locks of other tools, too
            if not is_hidden and format_of(name) is not None:
                yield Path(path, name)


def _read_folder(folder: Path, found: Descriptors) -> None:
    for path in descriptor_files(folder):
        if len(found.files) == MAX_FILES:
            text = f"{folder} has more than {MAX_FILES} files; the others were not read"
            found.findings.append(SourceError(text, source=Location(str(folder))).finding)
            break
        found.files.append(path)
        try:
            add_document(read_text(path), path, found)
        except NothingDescribedError as error:  # a folder may hold other files too
            found.findings.append(replace(error.finding, level="warning"))
        except SourceError as error:
            found.findings.append(error.finding)
    if not found.files:
        raise _not_a_descriptor(folder, "has no descriptors")


def _not_a_descriptor(path: Path, problem: str) -> SourceError:
    hint = f"descriptors end in {', '.join(SUFFIXES)}"
    return SourceError(f"{path} {problem}", source=Location(str(path)), hint=hint)


# --- documents ---------------------------------------------------------------------------------------


def add_document(text: str, path: Path, found: Descriptors) -> None:
    """Add the tools of a file. Raises SourceError where it does not describe tools at all."""
    entries = _entries_of(parse_text(text, path), path)
    lines = _find_lines(text, [_name_in(entry, key) for key, entry in entries])
    for (key, entry), line in zip(entries, lines, strict=True):
        source = Location(str(path), line)
        try:
            tool = _make_tool(entry, source, key)
            found.findings += tool.check().findings
            found.tools.append(tool)
        except DefinitionError as error:
            if error.source.file is None:
                error.source = source
            found.findings.append(error.finding)


def _entries_of(value: Any, path: Path) -> list[tuple[str | None, Any]]:
    """Return the entries of a document, with their keys where it has an object of tools."""
    source = Location(str(path))
    if isinstance(value, dict) and ("openapi" in value or "swagger" in value):
        raise NothingDescribedError(
            f"{path} is an OpenAPI document, which is not supported yet",
            source=source,
            hint="describe its operations as tools, or write an APIApplication",
        )
    container = _find_entries(value)
    if container is None and _is_entry(value):
        return [(None, value)]
    if container is None:
        kind = "an object without" if isinstance(value, dict) else f"a {type(value).__name__}, not"
        text = f"{path} describes no tools: it is {kind} a list of tools"
        raise NothingDescribedError(text, source=source, hint=_FORMS)
    return list(container.items()) if isinstance(container, dict) else [(None, each) for each in container]


def _find_entries(value: Any) -> list[Any] | dict[str, Any] | None:
    """Return the list or object of tools in a document; None where there is none, or it is one tool."""
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("result"), dict):
        value = value["result"]  # a response to tools/list
    for key in _LISTS:
        # The card of a server has a name and a description too, but no schema.
        if isinstance(value.get(key), list | dict) and not any(part in value for part in _SCHEMA_KEYS):
            return value[key]  # type: ignore[no-any-return]
    return None


def _is_entry(value: Any) -> bool:
    """Return whether this describes one tool."""
    if not isinstance(value, dict):
        return False
    inner = value.get("function")
    entry = inner if isinstance(inner, dict) else value
    return ("name" in entry or "id" in entry) and any(key in entry for key in (*_SCHEMA_KEYS, "description"))


def _name_in(entry: Any, key: str | None) -> str | None:
    """Return the name of an entry as it is written in the text."""
    if isinstance(entry, Mapping):
        inner = entry.get("function")
        entry = inner if isinstance(inner, Mapping) else entry
        key = next((entry[part] for part in ("name", "id") if isinstance(entry.get(part), str)), key)
    return key


def _find_lines(text: str, names: Sequence[str | None]) -> Iterator[int | None]:
    """Yield the line of each name, in order. Parsers do not keep lines, so the text is searched for
    `"name": "NAME"` and `NAME:`."""
    line, position, misses = 1, 0, 0
    for name in names:
        if not name or misses == _MAX_MISSES:
            yield None
            continue
        wanted = re.escape(name)
        pattern = rf"""\b(?:name|id)["']?\s*:\s*["']?{wanted}\b|(?:^|[\s"'{{,]){wanted}["']?\s*:"""
        found = re.compile(pattern, re.MULTILINE).search(text, position)
        if found is None:
            misses += 1
            yield None
            continue
        start = found.start() + (text[found.start()] == "\n")
        line, position = line + text.count("\n", position, start), start
        yield line


# --- entries -----------------------------------------------------------------------------------------


def _make_tool(entry: Any, source: Location, key: str | None) -> Component:
    """Return the tool of an entry; `key` is the default of its name. Raises DefinitionError."""
    if not isinstance(entry, Mapping):
        message = f"An entry must be an object that describes a tool, got {type(entry).__name__}"
        raise InvalidToolError(message, tool=key, source=source)
    if isinstance(entry.get("function"), Mapping):
        entry = entry["function"]
    if "fingerprint" in entry and isinstance(entry.get("definition"), Mapping):  # of a lock file
        entry = {**entry["definition"], **{key: entry[key] for key in ("version", "scopes") if key in entry}}
    name, title, identity = _names_in(entry, key, source)
    fields = _Fields(entry, name, source)
    if not any(part in entry for part in (*_SCHEMA_KEYS, "description")):
        hint = f"give it a description and one of {', '.join(_SCHEMA_KEYS)}"
        raise fields.error(f"Tool '{name}' has neither a description nor a schema", hint)
    given_title = fields.text("title")
    definition = ToolDefinition(
        name=name,
        description=fields.text("description") or "",
        input_schema=fields.object(*_SCHEMA_KEYS) or {"type": "object", "properties": {}},
        output_schema=fields.object(*_OUTPUT_KEYS),
        title=title if given_title is None else given_title,
        annotations=fields.annotations(),
        tags=fields.tags(),
        version=fields.version(),
        metadata=fields.metadata(identity),
        source=source,
        returns=fields.text("returns") or "",
        raises=fields.raises(),
        icons=entry.get("icons") or (),
        meta=fields.object(*_META_KEYS) or {},
    )
    options: OptionFields = {}
    for option in _OPTION_KEYS:
        if entry.get(option) is not None:
            options[option] = entry[option]  # type: ignore[literal-required]
    tool = describe(definition)
    return tool.with_options(**options) if options else tool


def _names_in(entry: Mapping[str, Any], key: str | None, source: Location) -> tuple[str, str | None, Any]:
    """Return name, title, and an id that is neither. Registries use `id` for the name and `name` for the
    title."""
    identity, name = entry.get("id"), entry.get("name", key)
    if name is None and isinstance(identity, str):
        name, identity = identity, None
    if not isinstance(name, str):
        message = "A tool has no name" if name is None else f"Tool name must be string, got {type(name)}"
        raise InvalidToolError(message, source=source, hint="give every tool a name")
    try:
        return MCP.check(name, source), None, identity
    except InvalidNameError:
        if not isinstance(identity, str) or MCP.pattern.fullmatch(identity) is None:
            raise
    return MCP.check(identity, source), name, None


@dataclass(slots=True)
class _Fields:
    """The fields of an entry, of the types that a definition requires. Methods raise DefinitionError."""

    entry: Mapping[str, Any]
    name: str
    source: Location

    def error(self, message: str, hint: str | None = None) -> InvalidToolError:
        return InvalidToolError(message, tool=self.name, source=self.source, hint=hint)

    def object(self, *keys: str) -> Any:
        """Return the first of these fields that is given, as a dict; None without any."""
        for key in keys:
            value = self.entry.get(key)
            if isinstance(value, Mapping):
                return value
            if value is not None:
                message = f"'{key}' of tool '{self.name}' must be an object, got {type(value).__name__}"
                raise InvalidSchemaError(message, tool=self.name, source=self.source)
        return None

    def text(self, key: str) -> str | None:
        value = self.entry.get(key)
        if value is not None and not isinstance(value, str):
            raise self.error(f"'{key}' of tool '{self.name}' must be a string, got {type(value).__name__}")
        return value

    def tags(self) -> tuple[str, ...]:
        tags = self.entry.get("tags") or []
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise self.error(f"'tags' of tool '{self.name}' must be a list of strings, got {tags!r:.80}")
        category = self.entry.get("category")
        labels = [*tags, category] if isinstance(category, str) and category else tags
        return tuple(dict.fromkeys(labels))

    def annotations(self) -> dict[str, Any]:
        given = self.object("annotations") or {}
        annotations = {key: value for key, value in given.items() if value is not None}
        for key, kind in find_wrong_annotations(annotations):
            what = f"annotations.{key} of tool '{self.name}'"
            raise self.error(f"{what} must be {kind}, got {annotations[key]!r:.80}")
        return annotations

    def version(self) -> str | None:
        """Return the version, a string: 1.10 as a number would be 1.1."""
        version = self.entry.get("version")
        if version is None or isinstance(version, str):
            return version
        if isinstance(version, int) and not isinstance(version, bool):
            return str(version)
        message = f"'version' of tool '{self.name}' must be a string, got {version!r:.80}"
        raise self.error(message, "write it in quotes")

    def metadata(self, identity: Any) -> dict[str, Any]:
        """Return the metadata, with every field that has no other meaning."""
        given = self.object("metadata") or {}
        rest = {key: value for key, value in self.entry.items() if key not in _KNOWN}
        return {**({} if identity is None else {"id": identity}), **rest, **given}

    def raises(self) -> tuple[tuple[str, str], ...]:
        raises = self.entry.get("raises") or []
        try:
            return tuple((str(item["name"]), str(item.get("description", ""))) for item in raises)
        except (TypeError, KeyError, AttributeError):
            message = f"'raises' of tool '{self.name}' must be a list of objects with name and description"
            raise self.error(message) from None
