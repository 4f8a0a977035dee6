"""The catalog that is handed to model providers: a hash, a list for prompts, and function schemas.

`build_catalog` returns a dict of five keys, `version`, `hash`, `count`, `promptList` and `functionSchema`, of
files that are read and never run, or of a live registry. A tool that is wrong hides no other: why it is left
out is a warning in the log, and in `catalog_findings`. Knows definitions and words; where tools are from is
for inputs.py, and providers are for others.

The examples in a docstring: what follows `Ejemplo:` or `Example:`, on its line and indented below it.

One heading in the singular is one example, however many lines it has; `Examples:` and `Ejemplos:` may hold
several. Knows lines; refuses to know whether an example is right.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.catalog.inputs import Adapter, FileInputs, LiveInputs, PathName, Reading, find_inputs
from toolcrib.errors import DefinitionError, Finding, InvalidSchemaError
from toolcrib.schema.docstring_text import clean_lines, find_block_end, indent_of, trim
from toolcrib.schema.docstrings import HEADERS
from toolcrib.schema.parameters import docstring_of
from toolcrib.tool import Tool
from toolcrib.validation import codec
from toolcrib.validation.validator import Validator

_HEADING = re.compile(r" *+(?:[Ee]xample|[Ee]jemplo)(s?)::?(?!:)\s*+(.*)")
_TITLE = re.compile(r" *+(?:[Ee]xample|[Ee]jemplo)(s?):?")
_UNDERLINE = re.compile(r" *+--+")
_BULLET = re.compile(r"(?:[-*+•]|\d{1,3}[.)]) +")
_PROMPT = ">>>"
_CLOSING = (")", "]", "}", '"""', "'''", "```", "~~~")


def examples_in(text: str | None) -> list[str]:
    """Every example in a text, in order."""
    if not text or ("xample" not in text and "jemplo" not in text):
        return []
    lines = clean_lines(text)
    found: list[str] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if match := _HEADING.fullmatch(line):
            end = find_block_end(lines, number, indent_of(line))
        elif (
            (match := _TITLE.fullmatch(line)) and number < len(lines) and _UNDERLINE.fullmatch(lines[number])
        ):
            number += 1
            end = _find_title(lines, number)
        else:
            continue
        first = match[2] if match.re is _HEADING else ""
        below = _dedent(trim(lines[number:end]))
        if match[1]:
            found += [first] if first else []
            found += _split(below)
        elif first or below:
            found.append("\n".join([first, *below] if first else below))
        number = end
    return found


def _find_title(lines: list[str], start: int) -> int:
    """Where the next underlined title begins, or the text ends."""
    for number in range(start, len(lines) - 1):
        if lines[number] and _UNDERLINE.fullmatch(lines[number + 1]):
            return number
    return len(lines)


def _dedent(block: list[str]) -> list[str]:
    margin = min((indent_of(line) for line in block if line), default=0)
    return [line[margin:] for line in block]


def _split(block: list[str]) -> list[str]:
    """The examples in a block: by bullets, by prompts, by empty lines, or one for each line."""
    if any(_BULLET.match(line) for line in block):
        begins = [_BULLET.match(line) is not None for line in block]
        block = [
            _BULLET.sub("", line, count=1) if new else line for line, new in zip(block, begins, strict=True)
        ]
    elif any(line.startswith(_PROMPT) for line in block):
        begins = _find_prompts(block)
    elif "" in block:
        begins = _find_paragraphs(block)
    elif any(line.startswith(("```", "~~~")) for line in block):
        begins = [False] * len(block)
    else:
        begins = [indent_of(line) == 0 and not line.startswith(_CLOSING) for line in block]
    found: list[list[str]] = []
    for line, begins_here in zip(block, begins, strict=True):
        if begins_here or not found:
            found.append([])
        found[-1].append(line)
    return [text for part in found if (text := "\n".join(_dedent_rest(trim(part))))]


def _find_prompts(block: list[str]) -> list[bool]:
    """A prompt begins an example where what was before it is an answer, or nothing."""
    begins = []
    for number, line in enumerate(block):
        before = block[number - 1] if number else ""
        begins.append(line.startswith(_PROMPT) and not before.startswith((_PROMPT, "...")))
    return begins


def _find_paragraphs(block: list[str]) -> list[bool]:
    """A paragraph begins after an empty line; what stands between fences is one, empty lines and all."""
    begins, fenced = [], False
    for number, line in enumerate(block):
        begins.append(
            number > 0 and not block[number - 1] and not fenced and indent_of(line) == 0 and bool(line)
        )
        if line.startswith(("```", "~~~")):
            fenced = not fenced
    return begins


def _dedent_rest(part: list[str]) -> list[str]:
    """The lines of an example, without what those below the first have in common where a bullet stood."""
    return (
        [*part[:1], *_dedent(part[1:])]
        if len(part) > 1 and all(line[:1] in ("", " ") for line in part[1:])
        else part
    )


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
        found += examples_in(docstring_of(tool.info.handler))
    return list(dict.fromkeys(found))


def _said_about(tool: Tool) -> str:
    """A description that was given, else the docstring, else what was made of something else."""
    given = tool.options.description
    if given is not None:
        return given
    return docstring_of(tool.info.handler) or tool.definition.description


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
