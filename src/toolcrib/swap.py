"""What it takes to put one set of tools in the place of another: whose place, which switch, what is new.

A tool is the same where it says and does what it did; it may have moved in its file, and stand in a module
that was loaded afresh. Knows key spaces and code objects. Refuses to know locks, events and files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from types import CodeType
from typing import Any

from toolcrib.errors import BatchError, DefinitionError
from toolcrib.finding import NOWHERE, Finding
from toolcrib.keyspace import Entry, KeySpace
from toolcrib.report import ChangeKind, Report
from toolcrib.tool import Tool

Key = tuple[str, str | None]
"""What tells one entry of a registry from all others: its folded name and its version."""


def key_of(tool: Tool) -> Key:
    return tool.name.casefold(), tool.version


# --- in the key space --------------------------------------------------------------------------------


class Swap:
    """One exchange, in a key space that nobody else sees yet: first the old go, so that their spellings are
    free, then the new come."""

    def __init__(self, space: KeySpace, old: Iterable[Tool]) -> None:
        self.space = space
        self._order = list(space.groups)
        self._left: dict[Key, Entry] = {}
        for tool in old:
            entry = space.holder(tool.name, tool.version)
            if entry is not None and entry.tool is tool:  # it may be gone, or another's by now
                self._left[key_of(tool)] = entry
                space.drop([entry])

    def fill(
        self,
        tools: Iterable[Tool],
        store: Callable[[Tool], Tool],
        report: Report,
        known: Collection[Finding],
    ) -> None:
        """Store the new tools. Raises BatchError where the report then has errors that are not known."""
        stored: dict[Tool, None] = {}
        for tool in tools:
            try:
                if store(tool) is tool:  # or else another's was kept, which stays another's
                    stored[tool] = None
            except DefinitionError as error:
                report.findings.append(error.finding)
        wrong = [error for error in report.errors if not is_known(error, known)]
        if wrong:
            raise BatchError(f"Nothing changed, {len(wrong)} refused: {wrong[0]}", wrong)
        report.registered += stored

    def settle(self, stored: Iterable[Tool], unchanged: Collection[Tool]) -> tuple[ChangeKind, list[Tool]]:
        """Give what came the places and the switches of what it came for; returns what changed, and how."""
        order = dict.fromkeys((*self._order, *self.space.groups))
        self.space.groups = {key: self.space.groups[key] for key in order if key in self.space.groups}
        kinds: dict[ChangeKind, list[Tool]] = {}
        for tool in stored:
            old = self._left.pop(key_of(tool), None)
            if old is not None and old.enabled is not old.tool.options.enabled:
                self.space.put(tool, enabled=old.enabled)
            if tool not in unchanged:
                kinds.setdefault("added" if old is None else "replaced", []).append(tool)
        if self._left:
            kinds["removed"] = [entry.tool for entry in self._left.values()]
        changed = [tool for tools in kinds.values() for tool in tools]
        return (next(iter(kinds)) if len(kinds) == 1 else "changed"), changed


# --- sameness ----------------------------------------------------------------------------------------


def find_unchanged(old: Iterable[Tool], new: Iterable[Tool]) -> set[Tool]:
    """Those of the new tools that say and do what the old ones of their name do.

    Compares what authors wrote, which may run their code: not to be called under a lock.
    """
    before = {key_of(tool): tool for tool in old}
    return {tool for tool in new if (twin := before.get(key_of(tool))) is not None and _is_same(twin, tool)}


def _is_same(old: Tool, new: Tool) -> bool:
    try:
        return bool(
            old is new
            or (
                replace(old.definition, source=NOWHERE) == replace(new.definition, source=NOWHERE)
                and old.options == new.options
                and old.long_name == new.long_name
                and _essence(old.callee.function) == _essence(new.callee.function)
            )
        )
    except Exception:
        return False  # a value that does not bear comparing: it may well be another


def _essence(function: Any) -> Any:
    """What a function does, apart from the line where it stands; itself where that cannot be seen."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return function
    cells: Sequence[Any] = function.__closure__ or ()
    enclosed = [_essence(cell.cell_contents) for cell in cells]
    return _without_lines(code), function.__defaults__, function.__kwdefaults__, enclosed


def _without_lines(code: CodeType) -> CodeType:
    constants = (_without_lines(item) if isinstance(item, CodeType) else item for item in code.co_consts)
    return code.replace(co_firstlineno=1, co_linetable=b"", co_consts=tuple(constants))


# --- findings ----------------------------------------------------------------------------------------


def is_known(finding: Finding, known: Iterable[Finding]) -> bool:
    """Whether this was said before, be it of another line."""
    return any(replace(finding, line=other.line, hint=other.hint) == other for other in known)
