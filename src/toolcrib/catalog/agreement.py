"""Compare the tools that a static scan found with those that importing registers.

A difference that a finding announced, because the scan could not tell, is advice; any other is an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolcrib.definition import ToolDefinition
from toolcrib.errors import Finding, Location
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
_MISSING: Any = object()


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
        return Finding(
            self.code,
            "advice" if self.is_announced else "error",
            self._message(),
            tool=self.tool,
            file=self.where.file,
            line=self.where.line,
            hint=None if self.is_announced else "report it: the scan should have said that it could not tell",
        )

    def _message(self) -> str:
        if self.code == ONLY_SCANNED:
            return f"Tool '{self.tool}' is in the source, but importing does not register it"
        if self.code == ONLY_REGISTERED:
            return f"Tool '{self.tool}' is registered by importing, but was not found in the source"
        scanned, registered = _show(self.scanned), _show(self.registered)
        return f"Tool '{self.tool}', {self.what}: {scanned} in the scan, {registered} when imported"


def compare_scan(
    scanned: Iterable[Tool],
    registered: Iterable[Tool],
    findings: Collection[Finding] = (),
) -> list[ScanDifference]:
    """Return every difference in the order of the scanned tools; those that are only registered come last.

    `findings` of both sides say what was announced.
    """
    left = {_key(tool): tool for tool in scanned}
    right = {_key(tool): tool for tool in registered}
    announced = _Announcements(findings, [*left.values(), *right.values()])
    found: list[ScanDifference] = []
    for key, tool in left.items():
        if key not in right:
            found.append(_one_sided(ONLY_SCANNED, tool, announced))
            continue
        is_announced = announced.is_uncertain(tool.name)
        for what, mine, theirs in _compare_definitions(tool.definition, right[key].definition):
            found.append(ScanDifference(DIFFERS, tool.name, what, mine, theirs, tool.source, is_announced))
    return found + [
        _one_sided(ONLY_REGISTERED, tool, announced) for key, tool in right.items() if key not in left
    ]


def _key(tool: Tool) -> tuple[str, str | None]:
    return tool.name.casefold(), tool.version


def _one_sided(code: str, tool: Tool, announced: _Announcements) -> ScanDifference:
    return ScanDifference(code, tool.name, "", None, None, tool.source, announced.covers(tool))


class _Announcements:
    """The differences that findings announced, by tool and by file.

    What is uncertain about a tool may be its name, so tools at the same location are covered too.
    """

    def __init__(self, findings: Iterable[Finding], tools: Iterable[Tool]) -> None:
        self._uncertain: set[str] = set()
        self._tools: set[str] = set()
        self._files: set[str] = set()
        self._has_more = False
        for finding in findings:
            is_uncertain = finding.code.startswith(_UNCERTAIN)
            self._has_more |= finding.code == "guessed-more"
            if not is_uncertain and finding.level != "error" and finding.code not in _ABOUT_FILES:
                continue
            if finding.tool is not None:
                self._tools.add(finding.tool.casefold())
                if is_uncertain:
                    self._uncertain.add(finding.tool.casefold())
            elif finding.file is not None:
                self._files.add(_real(finding.file))
        sources = [tool.source for tool in tools if self.is_uncertain(tool.name)]
        self._locations = {(_real(item.file), item.line) for item in sources if item.file is not None}

    def is_uncertain(self, name: str) -> bool:
        return name.casefold() in self._uncertain

    def covers(self, tool: Tool) -> bool:
        """Return whether it was announced that one side may not have the tool."""
        source = tool.source
        if tool.name.casefold() in self._tools:
            return True
        if source.file is None:
            return False
        if source.file.startswith("<"):  # the code was a string and is in no file
            return self._has_more
        file = _real(source.file)
        return file in self._files or (file, source.line) in self._locations


def _real(file: str) -> str:
    return str(Path(file).resolve())


def _compare_definitions(
    scanned: ToolDefinition, registered: ToolDefinition
) -> Iterator[tuple[str, Any, Any]]:
    """Yield what differs, with the scanned and the registered value."""
    for field in ("name", "title", "description"):
        mine, theirs = getattr(scanned, field), getattr(registered, field)
        if mine != theirs:
            yield field, mine, theirs
    yield from _compare_parameters(scanned.input_schema, registered.input_schema)
    if not _is_same(scanned.output_schema, registered.output_schema):
        yield "result", scanned.output_schema, registered.output_schema
    for field in ("annotations", "version", "metadata", "icons", "meta"):
        mine, theirs = getattr(scanned, field), getattr(registered, field)
        if not _is_same(mine, theirs):
            yield field, mine, theirs
    if set(scanned.tags) != set(registered.tags):
        yield "tags", sorted(scanned.tags), sorted(registered.tags)
    if not _is_same_location(scanned.source, registered.source):
        yield "source", str(scanned.source), str(registered.source)


def _compare_parameters(
    scanned: Mapping[str, Any], registered: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    mine, theirs = scanned.get("properties", {}), registered.get("properties", {})
    for name in dict.fromkeys((*mine, *theirs)):
        if name in mine and name in theirs:
            yield from _compare_keywords(f"parameter '{name}'", mine[name], theirs[name])
        else:
            states = ("present", "missing") if name in mine else ("missing", "present")
            yield (f"parameter '{name}'", *states)
    if list(mine) != list(theirs) and set(mine) == set(theirs):
        yield "order of parameters", list(mine), list(theirs)
    if set(scanned.get("required", ())) != set(registered.get("required", ())):
        yield "required parameters", list(scanned.get("required", ())), list(registered.get("required", ()))
    rest, others = (
        {key: value for key, value in schema.items() if key not in ("properties", "required")}
        for schema in (scanned, registered)
    )
    yield from _compare_keywords("input schema", rest, others)


def _compare_keywords(where: str, mine: Any, theirs: Any) -> Iterator[tuple[str, Any, Any]]:
    if _is_same(mine, theirs):
        return
    if not isinstance(mine, Mapping) or not isinstance(theirs, Mapping):
        yield where, mine, theirs
        return
    for key in dict.fromkeys((*mine, *theirs)):
        one, other = mine.get(key, _MISSING), theirs.get(key, _MISSING)
        if one is _MISSING or other is _MISSING or not _is_same(one, other):
            yield f"{where}: {key}", one, other


def _is_same(one: Any, other: Any) -> bool:
    try:
        return codec.digest(one) == codec.digest(other)
    except (TypeError, ValueError):
        return bool(one == other)


def _is_same_location(one: Location, other: Location) -> bool:
    if one.file is None or other.file is None:
        return one.file == other.file
    return one.line == other.line and _real(one.file) == _real(other.file)


def _show(value: Any) -> str:
    if value is _MISSING or value is None:
        return "nothing"
    try:
        text = value if isinstance(value, str) else codec.encode(value).decode()
    except (TypeError, ValueError):
        text = repr(value)
    text = " ".join(text.split())
    return f"`{text}`" if len(text) <= _MAX_VALUE else f"`{text[: _MAX_VALUE - 1]}…`"
