"""Read descriptors: files, or folders of files, that describe tools.

Entries may have the form of MCP, toolcrib, OpenAI, catalogs, or registries with `{id, name, category,
description, schema}`. Most fields have several accepted names; other fields are metadata and are not
published. An invalid entry, or an invalid file of a folder, becomes a finding; the others are read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from toolcrib.definition import MCP, OptionFields, ToolDefinition, find_wrong_annotations
from toolcrib.errors import (
    DefinitionError,
    Finding,
    InvalidNameError,
    InvalidSchemaError,
    InvalidToolError,
    Location,
    SourceError,
)
from toolcrib.sources.described import describe
from toolcrib.sources.descriptors.text import SUFFIXES, Document, kind_of, read_document
from toolcrib.sources.loading import find_python_files, is_skipped_folder
from toolcrib.tool import Tool
from toolcrib.validation import codec

SCHEMA_KEYS = ("inputSchema", "input_schema", "schema", "parameters")
_OUTPUT_KEYS = ("outputSchema", "output_schema")
_META_KEYS = ("_meta", "meta")
_OPTION_KEYS = ("group", "aliases", "scopes", "enabled")
_KNOWN = frozenset(
    (
        *("name", "title", "description", "annotations", "tags", "version", "metadata", "icons"),
        *("returns", "raises", "type", "strict", *SCHEMA_KEYS, *_OUTPUT_KEYS, *_META_KEYS, *_OPTION_KEYS),
    )
)
LISTS = ("tools", "functionSchema", "functions")
"""The keys of the tools in a document."""


def find_entries(value: Any) -> tuple[Any, tuple[str, ...]] | None:
    """Return the list or object of tools in a document and the keys that lead to it; None where there is
    none, or the document is one tool."""
    if isinstance(value, list):
        return value, ()
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("result"), dict) and isinstance(value["result"].get("tools"), list):
        return value["result"]["tools"], ("result", "tools")  # a response to tools/list
    for key in LISTS:
        # The card of a server has a name and a description too, but no schema.
        if isinstance(value.get(key), list | dict) and not any(part in value for part in SCHEMA_KEYS):
            return value[key], (key,)
    return None


def is_entry(value: Any) -> bool:
    """Return whether this describes one tool."""
    if not isinstance(value, dict):
        return False
    inner = value.get("function")
    entry = inner if isinstance(inner, dict) else value
    return ("name" in entry or "id" in entry) and any(key in entry for key in (*SCHEMA_KEYS, "description"))


def make_tool(entry: Any, source: Location, *, key: str | None = None) -> Tool:
    """Return the tool of an entry; `key` is the default of its name. Raises DefinitionError."""
    if not isinstance(entry, Mapping):
        message = f"An entry must be an object that describes a tool, got {type(entry).__name__}"
        raise InvalidToolError(message, tool=key, source=source)
    if isinstance(entry.get("function"), Mapping):
        entry = entry["function"]
    name, title, identity = _names_in(entry, key, source)
    if not any(part in entry for part in (*SCHEMA_KEYS, "description")):
        raise InvalidToolError(
            f"Tool '{name}' has neither a description nor a schema",
            tool=name,
            source=source,
            hint=f"give it a description and one of {', '.join(SCHEMA_KEYS)}",
        )
    definition = ToolDefinition(
        name=name,
        description=_text(entry, "description", name, source) or "",
        input_schema=_object(entry, SCHEMA_KEYS, name, source) or {"type": "object", "properties": {}},
        output_schema=_object(entry, _OUTPUT_KEYS, name, source),
        title=title,
        annotations=_annotations_in(entry, name, source),
        tags=_tags_in(entry, name, source),
        version=_version_in(entry, name, source),
        metadata=_metadata_in(entry, identity, name, source),
        source=source,
        returns=_text(entry, "returns", name, source) or "",
        raises=_raises_in(entry, name, source),
        icons=_value_of(entry, "icons", name, source) or (),
        meta=_object(entry, _META_KEYS, name, source) or {},
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
    title = _text(entry, "title", name, source)
    try:
        return MCP.check(name, source), title, identity
    except InvalidNameError:
        if not isinstance(identity, str) or MCP.pattern.fullmatch(identity) is None:
            raise
    return MCP.check(identity, source), title or name, None


# --- parts -------------------------------------------------------------------------------------------


def _value_of(entry: Mapping[str, Any], key: str, name: str, source: Location) -> Any:
    """Return a part of an entry. In TOML, which has no null, it may be JSON in a string."""
    value = entry.get(key)
    if not isinstance(value, str):
        return value
    try:
        return codec.parse(value.encode())
    except ValueError as error:
        raise InvalidSchemaError(
            f"'{key}' of tool '{name}' is a string that is not JSON: {error}", tool=name, source=source
        ) from None


def _object(entry: Mapping[str, Any], keys: tuple[str, ...], name: str, source: Location) -> Any:
    """Return the first of these parts that is given, as a dict; None without any."""
    for key in keys:
        value = _value_of(entry, key, name, source)
        if value is None:
            continue
        if not isinstance(value, Mapping):
            message = f"'{key}' of tool '{name}' must be an object, got {type(value).__name__}"
            raise InvalidSchemaError(message, tool=name, source=source)
        return value
    return None


def _text(entry: Mapping[str, Any], key: str, name: str, source: Location) -> str | None:
    value = entry.get(key)
    if value is not None and not isinstance(value, str):
        message = f"'{key}' of tool '{name}' must be a string, got {type(value).__name__}"
        raise InvalidToolError(message, tool=name, source=source)
    return value


def _tags_in(entry: Mapping[str, Any], name: str, source: Location) -> tuple[str, ...]:
    tags = entry.get("tags") or []
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        message = f"'tags' of tool '{name}' must be a list of strings, got {tags!r:.80}"
        raise InvalidToolError(message, tool=name, source=source)
    category = entry.get("category")
    labels = [*tags, category] if isinstance(category, str) and category else tags
    return tuple(dict.fromkeys(labels))


def _annotations_in(entry: Mapping[str, Any], name: str, source: Location) -> dict[str, Any]:
    given = _object(entry, ("annotations",), name, source) or {}
    annotations = {key: value for key, value in given.items() if value is not None}
    for key, kind in find_wrong_annotations(annotations):
        message = f"annotations.{key} of tool '{name}' must be {kind}, got {annotations[key]!r:.80}"
        raise InvalidToolError(message, tool=name, source=source)
    return annotations


def _version_in(entry: Mapping[str, Any], name: str, source: Location) -> str | None:
    """Return the version, a string: 1.10 as a number would be 1.1."""
    version = entry.get("version")
    if version is None or isinstance(version, str):
        return version
    if isinstance(version, int) and not isinstance(version, bool):
        return str(version)
    message = f"'version' of tool '{name}' must be a string, got {version!r:.80}"
    raise InvalidToolError(message, tool=name, source=source, hint="write it in quotes")


def _metadata_in(entry: Mapping[str, Any], identity: Any, name: str, source: Location) -> dict[str, Any]:
    """Return the metadata, with every part that has no other meaning."""
    given = _object(entry, ("metadata",), name, source) or {}
    rest = {key: value for key, value in entry.items() if key not in _KNOWN and key != "id"}
    return {**({} if identity is None else {"id": identity}), **rest, **given}


def _raises_in(entry: Mapping[str, Any], name: str, source: Location) -> tuple[tuple[str, str], ...]:
    raises = entry.get("raises") or []
    try:
        return tuple((str(item["name"]), str(item.get("description", ""))) for item in raises)
    except (TypeError, KeyError, AttributeError):
        message = f"'raises' of tool '{name}' must be a list of objects with name and description"
        raise InvalidToolError(message, tool=name, source=source) from None


MAX_FILES = 20_000

_FORMS = 'use a list of tools, {"tools": [...]}, or one {name, description, schema}'


class NothingDescribedError(SourceError):
    """A file does not describe tools."""

    code = "nothing-described"


@dataclass(slots=True)
class Descriptors:
    """The described tools, findings about the rest, and the files that were read."""

    tools: list[Tool] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)


def read_descriptors(path: str | os.PathLike[str]) -> Descriptors:
    """Return the tools that a file, or the files of a folder, describe. Every tool is built and checked.
    Raises SourceError where nothing can be read."""
    file = Path(path)
    found = Descriptors()
    if file.is_dir():
        _read_folder(file, found)
        return found
    if kind_of(file) is None:
        raise SourceError(
            f"{file} is not a descriptor",
            source=Location(str(file)),
            hint=f"descriptors end in {', '.join(SUFFIXES)}",
        )
    take_document(read_document(file), found)
    return found


def is_descriptor(path: Path) -> bool:
    """Return whether a path holds descriptors and not code: a file by its suffix, a folder by its files. A
    TOML file may hold settings instead, so it is read."""
    if path.is_dir():
        return next(descriptor_files(path), None) is not None and not find_python_files(path)
    if kind_of(path) != "toml":
        return kind_of(path) is not None
    try:
        value = read_document(path).value
    except SourceError:
        return False
    found = find_entries(value)
    return is_entry(value) or (found is not None and isinstance(found[0], list))


def descriptor_files(folder: Path) -> Iterator[Path]:
    """Yield every file below a folder with the suffix of a descriptor, in a stable order."""
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not is_skipped_folder(name))
        for name in sorted(files):
            if not name.startswith(".") and kind_of(Path(name)) is not None:
                yield Path(path, name)


def _read_folder(folder: Path, found: Descriptors) -> None:
    for number, path in enumerate(descriptor_files(folder)):
        if number == MAX_FILES:
            text = f"{folder} has more than {MAX_FILES} files; the others were not read"
            found.findings.append(SourceError(text, source=Location(str(folder))).finding)
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
            f"{folder} has no descriptors",
            source=Location(str(folder)),
            hint=f"descriptors end in {', '.join(SUFFIXES)}",
        )


def take_document(document: Document, found: Descriptors) -> None:
    """Add the tools of a document."""
    entries = list(_entries_of(document))  # raises before anything is added
    found.files.append(document.path)
    for entry, key, line in entries:
        source = Location(str(document.path), line)
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
            source=Location(str(path)),
            hint="describe its operations as tools, or write an APIApplication",
        )
    found = find_entries(value)
    if found is None and is_entry(value):
        yield value, None, 1
        return
    if found is None:
        kind = "an object without" if isinstance(value, dict) else f"a {type(value).__name__}, not"
        text = f"{path} describes no tools: it is {kind} a list of tools"
        raise NothingDescribedError(text, source=Location(str(path)), hint=_FORMS)
    container, keys = found
    lines = document.entry_lines(container, keys)
    items = container.items() if isinstance(container, dict) else ((None, entry) for entry in container)
    for (key, entry), line in zip(items, lines, strict=True):
        yield entry, key, line
