"""Where in a file a table speaks of a tool: a dict remembers no lines, the source does.

Knows syntax trees; runs nothing.

Tables of definitions: TOOL_DEFINITIONS, TOOL_CONFIGS, TOOL_HANDLERS and their like.

A definition says name, description and schema; its handler stands in the same entry or in a table of
handlers. Every other key is metadata and stays off the wire. Knows these tables; makes no tools.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from toolcrib.definition import OptionFields
from toolcrib.errors import Finding
from toolcrib.tool import is_tool_object

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
class Table:
    entries: list[TableEntry] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def refuse(self, name: object, message: str, hint: str) -> None:
        self.findings.append(Finding("table-mismatch", "error", message, tool=str(name), hint=hint))


def is_definition(thing: Any) -> bool:
    """Whether this says name and schema of a tool, as a dict or as an object, without running anything."""
    if isinstance(thing, Mapping):
        return "name" in thing and any(key in thing for key in _SCHEMA_KEYS)
    if not hasattr(thing, "name") or isinstance(thing, type):
        return False
    return any(hasattr(thing, key) for key in ("inputSchema", "input_schema")) and not is_tool_object(thing)


def read_table(table: Any, handlers: Mapping[str, Any]) -> Table:
    """`{name: {description, schema, handler}}`, `[{name, description, schema}]`, or one definition."""
    read = Table()
    if is_definition(table):
        _take(read, table, handlers)
    elif isinstance(table, Mapping):
        for name, entry in table.items():
            if isinstance(entry, Mapping):
                _take(read, {"name": name, **entry}, handlers)
            else:
                read.refuse(name, f"Entry '{name}' of the table is not a definition", "give a dict")
    elif isinstance(table, Iterable) and not isinstance(table, str):
        for entry in table:
            if isinstance(entry, Mapping) or is_definition(entry):
                _take(read, entry, handlers)
            else:
                kind = type(entry).__name__
                read.refuse(kind, f"A {kind} in the table is not a definition", "give dicts with a name")
    else:
        kind = type(table).__name__
        read.refuse(kind, f"A table of tools cannot be a {kind}", "give a dict or a list of definitions")
    return read


def find_unused(handlers: Iterable[str], used: set[str]) -> list[Finding]:
    """A handler without definition is as wrong as the reverse."""
    read = Table()
    for name in handlers:
        if name not in used:
            text = f"Handler '{name}' has no definition: it cannot be listed"
            read.refuse(name, text, "add it to TOOL_DEFINITIONS")
    return read.findings


def _take(read: Table, definition: Any, handlers: Mapping[str, Any]) -> None:
    entry: Mapping[str, Any] = definition if isinstance(definition, Mapping) else _as_mapping(definition)
    name: Any = entry.get("name")
    if not isinstance(name, str):
        read.refuse(name, f"Tool name must be string, got {type(name)}", "give every definition a name")
        return
    handler = entry.get("handler") or handlers.get(name)
    if not callable(handler):
        text = f"Tool '{name}' is defined but has no handler: it would be listed and could not be called"
        read.refuse(name, text, "put its handler in the entry or in TOOL_HANDLERS, under the same name")
        return
    read.entries.append(TableEntry(name, handler, _options_in(entry)))


def _as_mapping(definition: Any) -> dict[str, Any]:
    """The facts of a definition that is an object, in the spelling of MCP or in ours."""
    keys = ("name", "title", "description", "inputSchema", "input_schema", *_OUTPUT_KEYS)
    facts = {key: value for key in keys if (value := getattr(definition, key, None)) is not None}
    for ours, theirs in (("input_schema", "inputSchema"), ("output_schema", "outputSchema")):
        if ours in facts:
            facts.pop(theirs, None)  # the same under the name of other days
    metadata = getattr(definition, "_metadata", None)
    return {**metadata, **facts} if isinstance(metadata, Mapping) else facts


def _options_in(entry: Mapping[str, Any]) -> OptionFields:
    schema_key = next((key for key in _SCHEMA_KEYS if key in entry), None)
    output_key = next((key for key in _OUTPUT_KEYS if key in entry), None)
    taken = {"name", "description", "handler", "metadata", schema_key, output_key, *_OPTION_KEYS}
    metadata = {key: value for key, value in entry.items() if key not in taken}
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


_TABLES = frozenset({HANDLER_TABLE, *DEFINITION_TABLES})


def place_findings(findings: Iterable[Finding], modules: Sequence[ModuleType]) -> list[Finding]:
    """The findings; those about an entry of a table get the file and the line that names it."""
    return [_place(finding, modules) if finding.file is None else finding for finding in findings]


def _place(finding: Finding, modules: Sequence[ModuleType]) -> Finding:
    for module in modules:
        file = getattr(module, "__file__", None)
        for text, line in _texts_in_tables(module, file):
            if text == finding.tool:
                return replace(finding, file=file, line=line)
    return finding


def _texts_in_tables(module: ModuleType, file: str | None) -> Iterator[tuple[str, int]]:
    if not _TABLES & vars(module).keys():
        return
    try:
        tree = ast.parse(Path(file or "").read_bytes())
    except (OSError, SyntaxError, ValueError):
        return  # no source to look at
    for statement in tree.body:
        bound = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        if isinstance(statement, ast.Assign | ast.AnnAssign) and bound & _TABLES:
            for node in ast.walk(statement):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value, node.lineno
