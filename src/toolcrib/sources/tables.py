"""Tables of definitions: TOOL_DEFINITIONS, TOOL_CONFIGS, TOOL_HANDLERS and the like.

A definition has name, description and schema; its handler is in the same entry or in a table of handlers.
Every other key is metadata and is not published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.component import Tool, is_tool_object
from toolcrib.errors import Finding
from toolcrib.options import OptionFields
from toolcrib.registry.registry import finding_of
from toolcrib.sources.base import Batch, MemorySource, ReadOptions

DEFINITION_TABLES = ("TOOL_DEFINITIONS", "TOOL_CONFIGS", "_tool_registry")
HANDLER_TABLE = "TOOL_HANDLERS"
_SCHEMA_KEYS = ("schema", "input_schema", "inputSchema", "parameters")
_OUTPUT_KEYS = ("output_schema", "outputSchema")
_OPTION_KEYS = OptionFields.__optional_keys__ - {"name", "description", "input_schema", "metadata"}


@dataclass(slots=True)
class TableEntry:
    name: str
    handler: Callable[..., Any]
    options: OptionFields


@dataclass(slots=True)
class DefinitionTable:
    entries: list[TableEntry] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    file: str | None = None
    """The file of the module that has the table."""

    def report(self, name: object, message: str, hint: str) -> None:
        found = Finding("table-mismatch", "error", message, tool=str(name), file=self.file, hint=hint)
        self.findings.append(found)

    def make_tools(self, options: ReadOptions) -> Batch:
        batch = Batch(findings=self.findings)
        for entry in self.entries:
            options.used_handlers.add(entry.name)
            try:
                batch.tools.append(options.apply(Tool.from_function(entry.handler, **entry.options)))
            except Exception as error:  # an option of the table may have any type
                batch.findings.append(finding_of(entry.handler, error))
        return batch


class TableSource(MemorySource):
    """A dict or a list of definitions, or one definition, with the handlers given to `add`."""

    def accepts(self, target: Any) -> bool:
        if isinstance(target, Mapping) or is_definition(target):
            return True
        return isinstance(target, list | tuple) and bool(target) and all(map(is_definition, target))

    def read(self, target: Any, options: ReadOptions) -> Batch:
        return read_table(target, options.handlers).make_tools(options)


def is_definition(value: Any) -> bool:
    """Return whether a dict or object has the name and the schema of a tool, without running anything."""
    if isinstance(value, Mapping):
        return "name" in value and any(key in value for key in _SCHEMA_KEYS)
    if not hasattr(value, "name") or isinstance(value, type):
        return False
    return any(hasattr(value, key) for key in ("inputSchema", "input_schema")) and not is_tool_object(value)


def read_table(table: Any, handlers: Mapping[str, Any], file: str | None = None) -> DefinitionTable:
    """Read `{name: {description, schema, handler}}`, `[{name, description, schema}]`, or one definition."""
    result = DefinitionTable(file=file)
    if is_definition(table):
        _add_entry(result, table, handlers)
    elif isinstance(table, Mapping):
        for name, entry in table.items():
            if isinstance(entry, Mapping):
                _add_entry(result, {"name": name, **entry}, handlers)
            else:
                result.report(name, f"Entry '{name}' of the table is not a definition", "give a dict")
    elif isinstance(table, Iterable) and not isinstance(table, str):
        for entry in table:
            if isinstance(entry, Mapping) or is_definition(entry):
                _add_entry(result, entry, handlers)
            else:
                kind = type(entry).__name__
                result.report(kind, f"A {kind} in the table is not a definition", "give dicts with a name")
    else:
        kind = type(table).__name__
        result.report(kind, f"A table of tools cannot be a {kind}", "give a dict or a list of definitions")
    return result


def find_unused(handlers: Iterable[str], used: set[str], file: str | None = None) -> list[Finding]:
    """Report handlers without a definition."""
    result = DefinitionTable(file=file)
    for name in handlers:
        if name not in used:
            text = f"Handler '{name}' has no definition: it cannot be listed"
            result.report(name, text, "add it to TOOL_DEFINITIONS")
    return result.findings


def _add_entry(result: DefinitionTable, definition: Any, handlers: Mapping[str, Any]) -> None:
    entry: Mapping[str, Any] = definition if isinstance(definition, Mapping) else _to_mapping(definition)
    name: Any = entry.get("name")
    if not isinstance(name, str):
        result.report(name, f"Tool name must be string, got {type(name)}", "give every definition a name")
        return
    handler = entry.get("handler") or handlers.get(name)
    if not callable(handler):
        text = f"Tool '{name}' is defined but has no handler: it would be listed and could not be called"
        result.report(name, text, "put its handler in the entry or in TOOL_HANDLERS, under the same name")
        return
    result.entries.append(TableEntry(name, handler, _options_in(entry)))


def _to_mapping(definition: Any) -> dict[str, Any]:
    """Return the attributes of a definition object, in the spelling of MCP or of toolcrib."""
    keys = ("name", "title", "description", "inputSchema", "input_schema", *_OUTPUT_KEYS)
    found = {key: value for key in keys if (value := getattr(definition, key, None)) is not None}
    for ours, theirs in (("input_schema", "inputSchema"), ("output_schema", "outputSchema")):
        if ours in found:
            found.pop(theirs, None)  # an alias of the same value
    metadata = getattr(definition, "_metadata", None)
    return {**metadata, **found} if isinstance(metadata, Mapping) else found


def _options_in(entry: Mapping[str, Any]) -> OptionFields:
    schema_key = next((key for key in _SCHEMA_KEYS if key in entry), None)
    output_key = next((key for key in _OUTPUT_KEYS if key in entry), None)
    known = {"name", "description", "handler", "metadata", schema_key, output_key, *_OPTION_KEYS}
    metadata = {key: value for key, value in entry.items() if key not in known}
    inner = entry.get("metadata")
    options: dict[str, Any] = {key: entry[key] for key in _OPTION_KEYS if key in entry}
    options |= {
        "name": entry["name"],
        "description": entry.get("description"),
        "input_schema": entry[schema_key] if schema_key else None,
        "output_schema": entry[output_key] if output_key else None,
        "metadata": {**metadata, **inner} if isinstance(inner, Mapping) else metadata,
    }
    if options.get("version") is not None:
        options["version"] = str(options["version"])
    return options  # type: ignore[return-value]
