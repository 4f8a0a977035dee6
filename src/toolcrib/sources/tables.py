"""Tables of definitions: TOOL_DEFINITIONS, TOOL_CONFIGS, TOOL_HANDLERS and their like.

A definition says name, description and schema; its handler stands in the same entry or in a table of
handlers. Every other key is metadata and stays off the wire. Knows these tables; makes no tools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.definition import OptionFields
from toolcrib.finding import Finding

DEFINITION_TABLES = ("TOOL_DEFINITIONS", "TOOL_CONFIGS", "_tool_registry")
HANDLER_TABLE = "TOOL_HANDLERS"
_SCHEMA_KEYS = ("schema", "input_schema", "inputSchema", "parameters")
_OPTION_KEYS = OptionFields.__optional_keys__ - {"name", "description", "input_schema", "metadata"}


@dataclass(slots=True)
class TableEntry:
    handler: Callable[..., Any]
    options: OptionFields


@dataclass(slots=True)
class Table:
    entries: list[TableEntry] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def is_definition(thing: Any) -> bool:
    """Whether this says name and schema of a tool, as a dict or as an object, without running anything."""
    if isinstance(thing, Mapping):
        return "name" in thing and any(key in thing for key in _SCHEMA_KEYS)
    return hasattr(thing, "name") and any(hasattr(thing, key) for key in ("inputSchema", "input_schema"))


def read_mapping(table: Mapping[str, Any], handlers: Mapping[str, Any]) -> Table:
    """`{name: {description, schema, handler}}`, or one definition."""
    if is_definition(table):
        return read_list([table], handlers)
    read = Table()
    for name, entry in table.items():
        if isinstance(entry, Mapping):
            _take(read, {"name": name, **entry}, handlers)
        else:
            _remark(read, str(name), f"Entry '{name}' of the table is not a definition", "give a dict")
    return read


def read_list(definitions: Iterable[Any], handlers: Mapping[str, Any]) -> Table:
    """`[{name, description, schema, ...}]`, with handlers beside or in them."""
    read = Table()
    for definition in definitions:
        _take(read, definition if isinstance(definition, Mapping) else _as_mapping(definition), handlers)
    return read


def read_tables(found: Mapping[str, Any]) -> Table:
    """The tables of one module together; a handler without definition is as wrong as the reverse."""
    handlers = found.get(HANDLER_TABLE, {})
    read = Table()
    named: set[str] = set()
    for name in DEFINITION_TABLES:
        if name in found:
            part = (
                read_mapping(found[name], handlers)
                if isinstance(found[name], Mapping)
                else read_list(found[name], handlers)
            )
            read.entries += part.entries
            read.findings += part.findings
    named = {entry.options["name"] or "" for entry in read.entries}
    for name in handlers:
        if name not in named:
            _remark(
                read,
                name,
                f"Handler '{name}' has no definition: it cannot be listed",
                "add it to TOOL_DEFINITIONS",
            )
    return read


def _as_mapping(definition: Any) -> dict[str, Any]:
    schema = getattr(definition, "inputSchema", None) or getattr(definition, "input_schema", None)
    facts = {
        "name": definition.name,
        "description": getattr(definition, "description", None),
        "schema": schema,
    }
    metadata = getattr(definition, "_metadata", None)
    return {**facts, **metadata} if isinstance(metadata, Mapping) else facts


def _take(read: Table, entry: Mapping[str, Any], handlers: Mapping[str, Any]) -> None:
    name: Any = entry.get("name")
    handler = entry.get("handler") or handlers.get(name)
    if not callable(handler):
        _remark(
            read,
            str(name),
            f"Tool '{name}' is defined but has no handler: it would be listed and could not be called",
            "put its handler in the entry or in TOOL_HANDLERS, under the same name",
        )
        return
    schema_key = next((key for key in _SCHEMA_KEYS if key in entry), None)
    taken = {"name", "description", "handler", schema_key}
    options: dict[str, Any] = {key: entry[key] for key in _OPTION_KEYS if key in entry}
    metadata = {key: value for key, value in entry.items() if key not in taken and key not in _OPTION_KEYS}
    inner = metadata.pop("metadata", {})
    options |= {
        "name": name,
        "description": entry.get("description"),
        "input_schema": entry.get(schema_key) if schema_key else None,
        "metadata": {**metadata, **inner} if isinstance(inner, Mapping) else metadata,
    }
    if "version" in options and options["version"] is not None:
        options["version"] = str(options["version"])
    read.entries.append(TableEntry(handler, options))  # type: ignore[arg-type]


def _remark(read: Table, tool: str, message: str, hint: str) -> None:
    read.findings.append(Finding("table-mismatch", "error", message, tool=tool, hint=hint))
