"""Build the catalog that is handed to model providers: a hash, a list for prompts, and function schemas.

`build_catalog` returns a dict with the keys `version`, `hash`, `count`, `promptList` and
`functionSchema`, of files that are read and never run, or of a live registry. An invalid tool is left
out, with a warning in the log and in `catalog_findings`; it never hides the others.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

from toolcrib.catalog.inputs import Adapter, FileInputs, LiveInputs, PathName, Snapshot, find_inputs
from toolcrib.component import Component
from toolcrib.errors import DefinitionError, Finding, InvalidSchemaError
from toolcrib.schema.docstrings import HEADERS, clean_lines, find_block_end, indent_of, trim
from toolcrib.schema.parameters import docstring_of
from toolcrib.validation import codec
from toolcrib.validation.validator import Validator

logger = logging.getLogger("toolcrib")

KEYS = ("version", "hash", "count", "promptList", "functionSchema")
ANY_TYPE = ("string", "number", "boolean", "object", "array", "null")
"""The types of a parameter whose type is unknown."""

_MAX_WARNINGS = 20
_NOT_A_TYPE = frozenset(
    ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment")
)


def build_catalog(adapter: Adapter = None, *, descriptor: PathName | None = None) -> dict[str, Any]:
    """Build the catalog of an adapter: files, folders, a descriptor, a registry, a server, or tools.

    Without an adapter, the targets of the `toolcrib.toml` in the current folder are used, or else
    `bridges/mcp_adapter.py`. Files are read, not imported. If the adapter is missing, the `descriptor` is
    used instead, or one next to it: `mcp_adapter.tools.json` for `mcp_adapter.py`, or `toolcrib.lock`.

    Raises:
        SourceError: There is neither an adapter nor a descriptor
    """
    document, findings, _ = build(find_inputs(adapter, descriptor))
    log_findings(findings)
    return document


def catalog_findings(adapter: Adapter = None, *, descriptor: PathName | None = None) -> list[Finding]:
    """Return the findings about the tools of an adapter, including those that its catalog leaves out."""
    return build(find_inputs(adapter, descriptor))[1]


def build(inputs: FileInputs | LiveInputs) -> tuple[dict[str, Any], list[Finding], Snapshot]:
    """Return the catalog of some inputs, the findings about its tools, and the files it was made of."""
    catalog, snapshot = inputs.read()
    findings = list(catalog.findings)
    tools: list[Component] = []
    schemas: list[dict[str, Any]] = []
    for tool in catalog.tools:
        try:
            schemas.append(function_schema(tool))
        except DefinitionError as error:
            findings.append(error.finding)
        else:
            findings += tool.findings
            tools.append(tool)
    digest = snapshot.hash or _hash_definitions(tools)
    document = {
        "version": digest[:12],
        "hash": digest,
        "count": len(tools),
        "promptList": "\n".join(map(prompt_lines, tools)),
        "functionSchema": schemas,
    }
    # Encoded and decoded: the same as from a cache, and nothing is shared with the tools.
    return codec.decode(codec.encode(document)), list(dict.fromkeys(findings)), snapshot


def log_findings(findings: Iterable[Finding]) -> None:
    """Log the tools that a catalog leaves out and problems of its sources, but nothing about tools in it."""
    serious = [
        finding
        for finding in findings
        if finding.level == "error" or (finding.level == "warning" and finding.tool is None)
    ]
    for finding in serious[:_MAX_WARNINGS]:
        logger.warning("catalog: %s", finding)
    if len(serious) > _MAX_WARNINGS:
        logger.warning("catalog: %d more; see catalog_findings()", len(serious) - _MAX_WARNINGS)


def _hash_definitions(tools: list[Component]) -> str:
    definitions = [tool.definition.to_wire() for tool in tools]
    return hashlib.sha1(codec.canonical(definitions), usedforsecurity=False).hexdigest()


# --- one tool -----------------------------------------------------------------------------------------


def prompt_lines(tool: Component) -> str:
    """Return a tool as text for a prompt: `- name: description`, and `  e.g. ...` for each example."""
    lines = [f"- {tool.name}: {first_line(tool)}".rstrip()]
    lines += ["  e.g. " + example.replace("\n", "\n       ") for example in examples_of(tool)]
    return "\n".join(lines)


def first_line(tool: Component) -> str:
    """Return the first line of the description that the author wrote."""
    for text in (_written_description(tool), tool.definition.description):
        lines = trim(clean_lines(text))
        if lines and lines[0] not in HEADERS:
            return lines[0].strip()
    return ""


def examples_of(tool: Component) -> list[str]:
    """Return the examples in a tool's description, and in its docstring if that is another text."""
    found = find_examples(_written_description(tool))
    if tool.options.description is not None:
        found += find_examples(docstring_of(tool.info.handler))
    return list(dict.fromkeys(found))


def _written_description(tool: Component) -> str:
    given = tool.options.description
    return given if given is not None else docstring_of(tool.info.handler) or tool.definition.description


def function_schema(tool: Component) -> dict[str, Any]:
    """Return a tool in the format of function calling. Raise DefinitionError if its schema is invalid."""
    schema = tool.definition.input_schema
    properties = {name: _with_type(item) for name, item in schema.get("properties", {}).items()}
    required = list(schema.get("required", ()))
    parameters = {"type": "object", "properties": properties}
    if required or "draft-04" not in str(schema.get("$schema")):  # draft 4 refuses an empty list
        parameters["required"] = required
    parameters |= {key: item for key, item in schema.items() if key not in ("type", "properties", "required")}
    try:
        Validator(parameters, trusted=True)  # its size was checked when the tool was built
    except InvalidSchemaError as error:
        raise InvalidSchemaError(
            f"The input schema of tool '{tool.name}' is invalid: {error}",
            tool=tool.name,
            source=tool.source,
            hint=error.hint,
        ) from None
    return {"name": tool.name, "description": first_line(tool), "parameters": parameters}


def _with_type(schema: Any) -> Any:
    """Return the schema of a parameter; one without a type names all of them."""
    if schema is True:
        return {"type": list(ANY_TYPE)}
    if not isinstance(schema, Mapping) or not schema.keys() <= _NOT_A_TYPE:
        return schema
    return {"type": list(ANY_TYPE), **schema}


# --- examples in docstrings ---------------------------------------------------------------------------

_HEADING = re.compile(r" *+(?:[Ee]xample|[Ee]jemplo)(s?)::?(?!:)\s*+(.*)")
_TITLE = re.compile(r" *+(?:[Ee]xample|[Ee]jemplo)(s?):?")
_UNDERLINE = re.compile(r" *+--+")
_BULLET = re.compile(r"(?:[-*+•]|\d{1,3}[.)]) +")
_PROMPT = ">>>"
_FENCES = ("```", "~~~")
_CLOSING = (")", "]", "}", '"""', "'''")


def find_examples(text: str | None) -> list[str]:
    """Return what follows `Example:` or `Ejemplo:`, on its line and indented below it.

    A heading in the singular has one example, however long; `Examples:` and `Ejemplos:` may have several.
    """
    if not text or ("xample" not in text and "jemplo" not in text):
        return []
    lines = clean_lines(text)
    found: list[str] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        following = lines[number] if number < len(lines) else ""
        first = ""
        if match := _HEADING.fullmatch(line):
            first, end = match[2], find_block_end(lines, number, indent_of(line))
        elif (match := _TITLE.fullmatch(line)) and _UNDERLINE.fullmatch(following):
            number += 1
            end = _find_next_title(lines, number)
        else:
            continue
        below = _dedent(trim(lines[number:end]))
        if match[1]:
            found += [*([first] if first else []), *_split_examples(below)]
        elif first or below:
            found.append("\n".join([first, *below] if first else below))
        number = end
    return found


def _find_next_title(lines: list[str], start: int) -> int:
    for number in range(start, len(lines) - 1):
        if lines[number] and _UNDERLINE.fullmatch(lines[number + 1]):
            return number
    return len(lines)


def _dedent(block: list[str]) -> list[str]:
    margin = min((indent_of(line) for line in block if line), default=0)
    return [line[margin:] for line in block]


def _split_examples(block: list[str]) -> list[str]:
    """Split a block into examples: by bullets, prompts, empty lines, or else lines. Fenced code is one."""
    if any(line.startswith(_FENCES) for line in block):
        return ["\n".join(block)]
    if any(_BULLET.match(line) for line in block):
        starts = [_BULLET.match(line) is not None for line in block]
        block = [_BULLET.sub("", line, count=1) for line in block]
    elif any(line.startswith(_PROMPT) for line in block):
        previous = ["", *block]
        starts = [
            line.startswith(_PROMPT) and not before.startswith((_PROMPT, "..."))
            for line, before in zip(block, previous, strict=False)
        ]
    elif "" in block:
        starts = [
            not before and indent_of(line) == 0 for before, line in zip(["x", *block], block, strict=False)
        ]
    else:
        starts = [indent_of(line) == 0 and not line.startswith(_CLOSING) for line in block]
    found: list[list[str]] = []
    for line, is_start in zip(block, starts, strict=True):
        if is_start or not found:
            found.append([])
        found[-1].append(line)
    return [text for part in found if (text := "\n".join(_dedent_rest(trim(part))))]


def _dedent_rest(part: list[str]) -> list[str]:
    """Dedent the lines below the first, which had a bullet."""
    if len(part) > 1 and all(line[:1] in ("", " ") for line in part[1:]):
        return [part[0], *_dedent(part[1:])]
    return part
