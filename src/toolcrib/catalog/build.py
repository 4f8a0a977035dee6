"""The catalog that is handed to model providers: a hash, a list for prompts, and function schemas.

`build_catalog` returns a dict of five keys, `version`, `hash`, `count`, `promptList` and `functionSchema`, of
files that are read and never run, or of a live registry. A tool that is wrong hides no other: why it is left
out is a warning in the log, and in `catalog_findings`. Knows definitions and words; where tools are from is
for inputs.py, and providers are for others.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib import codec
from toolcrib.catalog.adapter import Adapter, PathName, find_inputs
from toolcrib.catalog.examples import examples_in
from toolcrib.catalog.inputs import FileInputs, LiveInputs, Reading
from toolcrib.errors import DefinitionError, InvalidSchemaError
from toolcrib.finding import Finding
from toolcrib.schema.docstring_layout import clean_lines, trim
from toolcrib.schema.docstring_sections import HEADERS
from toolcrib.schema.parameters import words_of
from toolcrib.tool import Tool
from toolcrib.validation import Validator

logger = logging.getLogger("toolcrib")

KEYS = ("version", "hash", "count", "promptList", "functionSchema")
PERMISSIVE = ("string", "number", "boolean", "object", "array", "null")
"""The types of a parameter of which none is known."""

_MAX_WARNINGS = 20
_SAYS_NO_TYPE = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment")
)


def build_catalog(adapter: Adapter = None, *, descriptor: PathName | None = None) -> dict[str, Any]:
    """The catalog of an adapter: a file, several, a folder, a descriptor, a registry, a server, or tools.

    Without one, of the sources that the `toolcrib.toml` here names, else of `bridges/mcp_adapter.py`. Files
    are read, not imported. Where the adapter is not there, the `descriptor` stands in for it, or else one
    that lies where the adapter would: `mcp_adapter.tools.json` for `mcp_adapter.py`. Raises SourceError where
    there is neither.
    """
    draft = draft_catalog(find_inputs(adapter, descriptor))
    warn_of(draft.findings)
    return draft.catalog


def catalog_findings(adapter: Adapter = None, *, descriptor: PathName | None = None) -> list[Finding]:
    """What there is to say about the tools of an adapter, those that its catalog leaves out included."""
    return draft_catalog(find_inputs(adapter, descriptor)).findings


@dataclass(slots=True)
class Draft:
    """A catalog, and what was found on the way."""

    catalog: dict[str, Any]
    findings: list[Finding] = field(default_factory=list)
    reading: Reading = field(default_factory=Reading)


def draft_catalog(inputs: FileInputs | LiveInputs) -> Draft:
    """Read the tools and write them down."""
    reading = inputs.read()
    findings = list(reading.findings)
    shown: list[Tool] = []
    schemas: list[dict[str, Any]] = []
    for tool in reading.tools:
        try:
            schemas.append(function_schema(tool))
        except DefinitionError as error:
            findings.append(error.finding)
        else:
            findings += tool.findings
            shown.append(tool)
    digest = reading.hash or _hash_definitions(shown)
    catalog = {
        "version": digest[:12],
        "hash": digest,
        "count": len(shown),
        "promptList": "\n".join(map(prompt_lines, shown)),
        "functionSchema": schemas,
    }
    # Once there and back: what is returned is what a cache would give, and belongs to the caller alone.
    return Draft(codec.decode(codec.encode(catalog)), list(dict.fromkeys(findings)), reading)


def warn_of(findings: Iterable[Finding]) -> None:
    """Say in the log what a catalog leaves out, and what is odd about its sources. Remarks about a tool that
    is there are for those who ask for them."""
    serious = [
        finding
        for finding in findings
        if finding.level == "error" or (finding.level == "warning" and finding.tool is None)
    ]
    for finding in serious[:_MAX_WARNINGS]:
        logger.warning("catalog: %s", finding)
    if len(serious) > _MAX_WARNINGS:
        logger.warning("catalog: %d more; catalog_findings() has them all", len(serious) - _MAX_WARNINGS)


def _hash_definitions(tools: list[Tool]) -> str:
    wires = [tool.definition.to_wire() for tool in tools]
    return hashlib.sha1(codec.canonical(wires), usedforsecurity=False).hexdigest()


# --- words -------------------------------------------------------------------------------------------


def prompt_lines(tool: Tool) -> str:
    """A tool as a prompt has it: `- name: description`, and `  e.g. ...` for each example."""
    lines = [f"- {tool.name}: {first_line(tool)}".rstrip()]
    lines += ["  e.g. " + example.replace("\n", "\n       ") for example in examples_of(tool)]
    return "\n".join(lines)


def first_line(tool: Tool) -> str:
    """The first line of what its author wrote about a tool."""
    for text in (_said_about(tool), tool.definition.description):
        lines = trim(clean_lines(text))
        if lines and lines[0] not in HEADERS:
            return lines[0].strip()
    return ""


def examples_of(tool: Tool) -> list[str]:
    """The examples in a tool's description, and in its docstring where that is another text."""
    found = examples_in(_said_about(tool))
    if tool.options.description is not None:
        found += examples_in(words_of(tool.callee.handler))
    return list(dict.fromkeys(found))


def _said_about(tool: Tool) -> str:
    """A description that was given, else the docstring, else what was made of something else."""
    given = tool.options.description
    if given is not None:
        return given
    return words_of(tool.callee.handler) or tool.definition.description


# --- schemas -----------------------------------------------------------------------------------------


def function_schema(tool: Tool) -> dict[str, Any]:
    """A tool as function calling wants it. Raises DefinitionError where its schema is no schema."""
    schema = tool.definition.input_schema
    properties = schema.get("properties", {})
    parameters = {
        "type": "object",
        "properties": {name: _with_type(value) for name, value in properties.items()},
        **_required_in(schema),
        **{key: value for key, value in schema.items() if key not in ("type", "properties", "required")},
    }
    try:
        # Not for its size, which only a stranger's is held against, and that was when the tool was built.
        Validator(parameters, trusted=True)
    except InvalidSchemaError as error:
        raise InvalidSchemaError(
            f"The input schema of tool '{tool.name}' is invalid: {error}",
            tool=tool.name,
            source=tool.source,
            hint=error.hint,
        ) from None
    return {"name": tool.name, "description": first_line(tool), "parameters": parameters}


def _required_in(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What is required, shown even where nothing is; but draft 4 refuses an empty list."""
    required = list(schema.get("required", ()))
    return {} if not required and "draft-04" in str(schema.get("$schema")) else {"required": required}


def _with_type(value: Any) -> Any:
    """The schema of a parameter; one that says nothing of its type names them all."""
    if value is True:
        return {"type": list(PERMISSIVE)}
    if not isinstance(value, Mapping) or not value.keys() <= _SAYS_NO_TYPE:
        return value
    return {"type": list(PERMISSIVE), **value}
