"""Compare the tools that a static scan found with those that importing registers.

A difference that a finding announced, because the scan could not tell, is advice; any other is an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolcrib.definition import ToolDefinition
from toolcrib.errors import Finding, Level, Location
from toolcrib.tool import Tool
from toolcrib.validation import codec

ONLY_SCANNED = "only-scanned"
ONLY_REGISTERED = "only-registered"
DIFFERS = "scan-differs"
CODES = frozenset({ONLY_SCANNED, ONLY_REGISTERED, DIFFERS})

_UNCERTAIN = ("approximate-", "guessed-", "unresolved-")
"""Prefixes of the codes with which a scan says that it could not tell."""
_ABOUT_FILES = frozenset({"low-level-server", "needs-arguments", "starts-server"})
_MAX_VALUE = 60


@dataclass(frozen=True, slots=True)
class ScanDifference:
    """One thing in which a scanned and a registered tool differ, such as "parameter 'city': type"."""

    code: str
    tool: str
    what: str
    scanned: Any
    registered: Any
    where: Location
    is_announced: bool = False

    @property
    def finding(self) -> Finding:
        if self.code == ONLY_SCANNED:
            message = f"Tool '{self.tool}' is in the source, but importing does not register it"
        elif self.code == ONLY_REGISTERED:
            message = f"Tool '{self.tool}' is registered by importing, but was not found in the source"
        else:
            scanned, registered = _show(self.scanned), _show(self.registered)
            message = f"Tool '{self.tool}', {self.what}: {scanned} in the scan, {registered} when imported"
        hint = None if self.is_announced else "report it: the scan should have said that it could not tell"
        level: Level = "advice" if self.is_announced else "error"
        return Finding(self.code, level, message, self.tool, None, self.where.file, self.where.line, hint)


def compare_scan(
    scanned: Collection[Tool], registered: Collection[Tool], findings: Collection[Finding] = ()
) -> list[ScanDifference]:
    """Return every difference in the order of the scanned tools; those that are only registered come last.

    `findings` of both sides say what was announced.
    """
    # Of equal names on several servers, importing registers the first.
    left, right = (
        {(tool.name.casefold(), tool.version): tool for tool in reversed(list(side))}
        for side in (scanned, registered)
    )
    announced = _Announcements(findings, [*left.values(), *right.values()])
    found: list[ScanDifference] = []
    for key, tool in reversed(left.items()):
        if key not in right:
            found.append(_one_sided(ONLY_SCANNED, tool, announced))
            continue
        mine, theirs = dict(_facts(tool.definition)), dict(_facts(right[key].definition))
        is_announced = tool.name.casefold() in announced.uncertain
        for what in dict.fromkeys((*mine, *theirs)):
            one, other = mine.get(what), theirs.get(what)
            is_in_both = what in mine and what in theirs  # a default of null is not a missing one
            if not is_in_both or not _is_same(one, other):
                found.append(ScanDifference(DIFFERS, tool.name, what, one, other, tool.source, is_announced))
    return found + [
        _one_sided(ONLY_REGISTERED, tool, announced)
        for key, tool in reversed(right.items())
        if key not in left
    ]


def _one_sided(code: str, tool: Tool, announced: _Announcements) -> ScanDifference:
    return ScanDifference(code, tool.name, "", None, None, tool.source, announced.covers(tool))


class _Announcements:
    """The differences that findings announced, by tool and by file.

    What is uncertain about a tool may be its name, so tools at the same location are covered too.
    """

    def __init__(self, findings: Collection[Finding], tools: Collection[Tool]) -> None:
        doubts = [finding for finding in findings if finding.code.startswith(_UNCERTAIN)]
        others = [item for item in findings if item.level == "error" or item.code in _ABOUT_FILES]
        self.uncertain = {finding.tool.casefold() for finding in doubts if finding.tool}
        self._tools = self.uncertain | {finding.tool.casefold() for finding in others if finding.tool}
        self._files = {_real(item.file) for item in (*doubts, *others) if item.file and not item.tool}
        self._has_more = any(finding.code == "guessed-more" for finding in doubts)
        sources = [tool.source for tool in tools if tool.name.casefold() in self.uncertain]
        self._locations = {(_real(source.file), source.line) for source in sources if source.file}

    def covers(self, tool: Tool) -> bool:
        """Return whether it was announced that one side may not have the tool."""
        file, line = tool.source.file, tool.source.line
        if tool.name.casefold() in self._tools:
            return True
        if file is None or file.startswith("<"):  # the code was a string and is in no file
            return file is not None and self._has_more
        return _real(file) in self._files or (_real(file), line) in self._locations


def _facts(definition: ToolDefinition) -> Iterator[tuple[str, Any]]:
    """Yield everything that is compared."""
    source = definition.source
    yield "source", None if source.file is None else f"{_real(source.file)}:{source.line}"
    for field in ("name", "title", "description", "annotations", "version", "metadata", "icons", "meta"):
        yield field, getattr(definition, field)
    yield "tags", sorted(definition.tags)
    yield "result", definition.output_schema
    schema = definition.input_schema
    properties = schema.get("properties", {})
    yield "required parameters", sorted(schema.get("required", ()))
    yield "order of parameters", list(properties)
    for name, parameter in properties.items():
        yield f"parameter '{name}'", "present"
        for key, value in parameter.items() if isinstance(parameter, Mapping) else [("schema", parameter)]:
            yield f"parameter '{name}': {key}", value
    for key, value in schema.items():
        if key not in ("properties", "required"):
            yield f"input schema: {key}", value


def _real(file: str) -> str:
    return str(Path(file).resolve())


def _is_same(one: Any, other: Any) -> bool:
    try:
        return codec.digest(one) == codec.digest(other)
    except (TypeError, ValueError):  # metadata need not be JSON
        return bool(one == other)


def _show(value: Any) -> str:
    if value is None:
        return "nothing"
    try:
        text = value if isinstance(value, str) else codec.encode_text(value)
    except (TypeError, ValueError):
        text = repr(value)
    text = " ".join(text.split())
    return f"`{text}`" if len(text) <= _MAX_VALUE else f"`{text[: _MAX_VALUE - 1]}…`"
