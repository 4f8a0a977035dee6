"""Whether two ways of learning about tools agree: what a scan read, and what importing registered.

Each difference says which tool and what about it, in words. One that was announced, because a finding already
said that something could not be known, is advice; any other is an error. Knows definitions; refuses to know
how they were come by.
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
_DOUBTS = ("approximate-", "guessed-", "unresolved-")
_LONGEST = 60
_MISSING: Any = object()


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing on which the two do not agree. `what` is a path in words: "parameter 'city': type"."""

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
            self._say(),
            tool=self.tool,
            file=self.where.file,
            line=self.where.line,
            hint=None if self.is_announced else "report it: toolcrib should have said that it could not tell",
        )

    def _say(self) -> str:
        if self.code == ONLY_SCANNED:
            return f"Tool '{self.tool}' is in the source, but importing does not register it"
        if self.code == ONLY_REGISTERED:
            return f"Tool '{self.tool}' is registered by importing, but was not found in the source"
        scanned, registered = _show(self.scanned), _show(self.registered)
        return f"Tool '{self.tool}', {self.what}: the scan says {scanned}, importing {registered}"


def compare(
    scanned: Iterable[Tool],
    registered: Iterable[Tool],
    findings: Collection[Finding] = (),
) -> list[Difference]:
    """Every difference, in the order of the scanned tools; those only registered come last.

    `findings` are those of both sides: they say what was announced.
    """
    left = {_key(tool): tool for tool in scanned}
    right = {_key(tool): tool for tool in registered}
    announced = _Announced(findings, [*left.values(), *right.values()])
    found: list[Difference] = []
    for key, tool in left.items():
        other = right.get(key)
        if other is None:
            is_known = announced.covers(tool.name, tool.source)
            found.append(Difference(ONLY_SCANNED, tool.name, "", None, None, tool.source, is_known))
            continue
        is_known = announced.doubts(tool.name)
        for what, mine, theirs in _differences(tool.definition, other.definition):
            found.append(Difference(DIFFERS, tool.name, what, mine, theirs, tool.source, is_known))
    for key, tool in right.items():
        if key not in left:
            is_known = announced.covers(tool.name, tool.source)
            found.append(Difference(ONLY_REGISTERED, tool.name, "", None, None, tool.source, is_known))
    return found


def _key(tool: Tool) -> tuple[str, str | None]:
    return tool.name.casefold(), tool.version


class _Announced:
    """What findings have said beforehand: about which tools, and about which files as a whole. What is
    doubted of a tool may be its name, so whatever else is written at its place is meant as well."""

    def __init__(self, findings: Iterable[Finding], tools: Iterable[Tool]) -> None:
        self._doubted: set[str] = set()
        self._tools: set[str] = set()
        self._files: set[str] = set()
        self._hides_more = False
        for finding in findings:
            is_doubt = finding.code.startswith(_DOUBTS)
            self._hides_more |= finding.code == "guessed-more"
            if not is_doubt and finding.level != "error" and finding.code not in _ABOUT_FILES:
                continue
            if finding.tool is not None:
                self._tools.add(finding.tool.casefold())
                if is_doubt:
                    self._doubted.add(finding.tool.casefold())
            elif finding.file is not None:
                self._files.add(_real(finding.file))
        sources = [tool.source for tool in tools if self.doubts(tool.name)]
        self._places = {(_real(source.file), source.line) for source in sources if source.file is not None}

    def doubts(self, name: str) -> bool:
        return name.casefold() in self._doubted

    def covers(self, name: str, source: Location) -> bool:
        if name.casefold() in self._tools:
            return True
        if source.file is None:
            return False
        if source.file.startswith("<"):  # it was made of a text, which is in no file
            return self._hides_more
        file = _real(source.file)
        return file in self._files or (file, source.line) in self._places


_ABOUT_FILES = frozenset({"low-level-server", "needs-arguments", "starts-server"})


def _real(file: str) -> str:
    return str(Path(file).resolve())


# --- two definitions ---------------------------------------------------------------------------------


def _differences(scanned: ToolDefinition, registered: ToolDefinition) -> Iterator[tuple[str, Any, Any]]:
    for field in ("name", "title", "description"):
        mine, theirs = getattr(scanned, field), getattr(registered, field)
        if mine != theirs:
            yield field, mine, theirs
    yield from _parameters(scanned.input_schema, registered.input_schema)
    mine, theirs = scanned.output_schema, registered.output_schema
    if not _same(mine, theirs):
        yield "result", mine, theirs
    for field in ("annotations", "version", "metadata", "icons", "meta"):
        mine, theirs = getattr(scanned, field), getattr(registered, field)
        if not _same(mine, theirs):
            yield field, mine, theirs
    if set(scanned.tags) != set(registered.tags):
        yield "tags", sorted(scanned.tags), sorted(registered.tags)
    if not _same_place(scanned.source, registered.source):
        yield "source", str(scanned.source), str(registered.source)


def _parameters(scanned: Mapping[str, Any], registered: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    mine, theirs = scanned.get("properties", {}), registered.get("properties", {})
    for name in dict.fromkeys((*mine, *theirs)):
        if name not in theirs:
            yield f"parameter '{name}'", "it is there", "it is not"
        elif name not in mine:
            yield f"parameter '{name}'", "it is not there", "it is"
        else:
            yield from _keywords(f"parameter '{name}'", mine[name], theirs[name])
    if list(mine) != list(theirs) and set(mine) == set(theirs):
        yield "order of parameters", list(mine), list(theirs)
    if set(scanned.get("required", ())) != set(registered.get("required", ())):
        yield "required parameters", list(scanned.get("required", ())), list(registered.get("required", ()))
    rest = {key: value for key, value in scanned.items() if key not in ("properties", "required")}
    others = {key: value for key, value in registered.items() if key not in ("properties", "required")}
    yield from _keywords("input schema", rest, others)


def _keywords(where: str, mine: Any, theirs: Any) -> Iterator[tuple[str, Any, Any]]:
    if _same(mine, theirs):
        return
    if not isinstance(mine, Mapping) or not isinstance(theirs, Mapping):
        yield where, mine, theirs
        return
    for key in dict.fromkeys((*mine, *theirs)):
        one, other = mine.get(key, _MISSING), theirs.get(key, _MISSING)
        if one is _MISSING or other is _MISSING or not _same(one, other):
            yield f"{where}: {key}", one, other


def _same(one: Any, other: Any) -> bool:
    try:
        return codec.digest(one) == codec.digest(other)
    except (TypeError, ValueError):
        return bool(one == other)


def _same_place(one: Location, other: Location) -> bool:
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
    return f"`{text}`" if len(text) <= _LONGEST else f"`{text[: _LONGEST - 1]}…`"
