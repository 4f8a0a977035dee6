"""The name index of a registry: tools by name, alias and version.

A name, its case-folded form, the long form of a shortened name and every alias share one index. Entries of
one name differ by version. URIs, which name resources, are not folded: case matters in them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from toolcrib.component import Component
from toolcrib.errors import Finding, ToolAlreadyExistsError
from toolcrib.names import PORTABLE, NameRule, shorten_name

_MAX_SHORTENED = 512
"""Longer names are refused instead of shortened."""


def name_tool(tool: Component, namespace: str | None, separator: str, rule: NameRule) -> Component:
    """Return the tool under its name in a registry. `namespace` overrides that of the tool; "" removes it."""
    options = tool.options
    for alias in options.aliases:
        rule.check(alias, tool.source)
    prefix = tool.namespace if namespace is None else namespace
    full = tool.long_name or tool.name
    if prefix and isinstance(full, str):
        full = f"{prefix}{separator}{full}"
        if options.aliases:
            tool = tool.with_options(aliases=[f"{prefix}{separator}{alias}" for alias in options.aliases])
    # A name that a prefix made long is cut to what every provider accepts; one that was written is kept.
    is_longer = bool(prefix) or tool.long_name is not None
    name = _fit(full, tool, rule, min(rule.max_length, PORTABLE.max_length) if is_longer else rule.max_length)
    if name == tool.name and tool.namespace is None:
        return tool
    tool = tool.renamed(name, long_name=None if name == full else full)
    tool.namespace = None  # the name has it now
    return tool


def _fit(name: object, tool: Component, rule: NameRule, max_length: int) -> str:
    """Return the name, shortened where it breaks the rule by its length only; `strict` shortens nothing."""
    if (
        isinstance(name, str)
        and rule.label != "strict"
        and max_length < len(name) <= _MAX_SHORTENED
        and rule.pattern.fullmatch(name)
    ):
        name = shorten_name(name, max_length)
    return rule.check(name, tool.source)


def report_shortened(tool: Component) -> list[Finding]:
    """Return a finding about a shortened name."""
    if tool.long_name is None:
        return []
    text = f"Tool name '{tool.long_name}' is too long and becomes '{tool.name}'; both can be called"
    source = tool.source
    return [Finding("shortened-name", "warning", text, tool=tool.name, file=source.file, line=source.line)]


_PARTS = re.compile(r"[0-9]+|[A-Za-z]+")
_END = (0, 0, "~")


def version_key(version: str | None) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key: numbers by value, no version first, `2.0beta` before `2.0` before `2.0.1`."""
    if version is None:
        return ()
    return (*(_part_key(part) for part in _PARTS.findall(version)), _END)


def _part_key(part: str) -> tuple[int, int, str]:
    if not part.isdigit():
        return (0, 0, part.lower())
    digits = part.lstrip("0")
    return (1, len(digits), digits)  # compares like numbers of any length


@dataclass(frozen=True, slots=True)
class Entry:
    """One version of one tool, as registered."""

    tool: Component
    enabled: bool


class VersionGroup:
    """All versions of one name, newest first. Replaced as a whole on every change."""

    __slots__ = ("entries", "newest", "spellings")

    def __init__(self, entries: Sequence[Entry]) -> None:
        if len(entries) == 1:  # nearly always
            self.entries: tuple[Entry, ...] = (entries[0],)
            self.newest = entries[0] if entries[0].enabled else None
            self.spellings = spellings(entries[0].tool)
            return
        self.entries = tuple(sorted(entries, key=lambda entry: version_key(entry.tool.version), reverse=True))
        self.newest = next((entry for entry in self.entries if entry.enabled), None)
        names = (name for entry in self.entries for name in spellings(entry.tool))
        self.spellings = tuple(dict.fromkeys(names))

    def of_version(self, version: str | None) -> Entry | None:
        return next((entry for entry in self.entries if entry.tool.version == version), None)


@dataclass(slots=True)
class NameIndex:
    """The mutable state of a registry.

    `groups` has the versions by folded name, in order of registration; `names` maps every folded spelling to
    a folded name. `listed` counts the groups with an enabled version. `fold` makes spellings equal that
    differ in upper and lower case only.
    """

    groups: dict[str, VersionGroup] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    listed: int = 0
    fold: Callable[[str], str] = str.casefold

    def copy(self) -> NameIndex:
        return NameIndex(dict(self.groups), dict(self.names), self.listed, self.fold)

    def group_of(self, spelling: str) -> VersionGroup | None:
        return self.groups.get(self.names.get(self.fold(spelling), ""))

    def find(self, name: str) -> list[Entry]:
        """Return all versions of a name, or the one after `@`."""
        group = self.group_of(name)
        if group is not None:
            return list(group.entries)
        base, _, version = name.rpartition("@")
        group = self.group_of(base)
        entry = None if group is None else group.of_version(version)
        return [] if entry is None else [entry]

    def find_exact(self, name: str, version: str | None) -> Entry | None:
        """Return the entry of this folded name and version: a tool with the same would be a duplicate."""
        group = self.groups.get(self.fold(name))
        return None if group is None else group.of_version(version)

    def check_free(self, tool: Component) -> None:
        """Raise where a spelling of `tool` belongs to a tool of another name."""
        folded = self.fold(tool.name)
        for spelling in spellings(tool):
            owner = self.names.get(self.fold(spelling), folded)
            if owner != folded:
                existing = self.groups[owner].entries[0].tool
                raise ToolAlreadyExistsError(spelling, source=tool.source, existing=existing.source)

    def put(self, tool: Component, *, enabled: bool) -> None:
        """Store `tool`, replacing the entry of its name and version; the order stays."""
        folded = self.fold(tool.name)
        group = self.groups.get(folded)
        others = [] if group is None else [e for e in group.entries if e.tool.version != tool.version]
        self._set(folded, [*others, Entry(tool, enabled)])

    def drop(self, entries: list[Entry]) -> list[Entry]:
        """Remove entries of one group and return them."""
        folded = self.fold(entries[0].tool.name)
        self._set(folded, [entry for entry in self.groups[folded].entries if entry not in entries])
        return entries

    def set_enabled(self, entries: list[Entry], enabled: bool) -> list[Entry]:
        """Enable or disable entries of one group; return those that changed."""
        folded = self.fold(entries[0].tool.name)
        changed = [entry for entry in entries if entry.enabled is not enabled]
        if changed:
            everything = self.groups[folded].entries
            self._set(folded, [Entry(e.tool, enabled) if e in changed else e for e in everything])
        return changed

    def _set(self, folded: str, entries: list[Entry]) -> None:
        """Set the entries of a name. The only place that changes the indexes."""
        before = self.groups.get(folded)
        if before is not None:
            self.listed -= before.newest is not None
            for spelling in before.spellings:
                self.names.pop(self.fold(spelling), None)
        if not entries:
            del self.groups[folded]
            return
        group = self.groups[folded] = VersionGroup(entries)
        self.listed += group.newest is not None
        for spelling in group.spellings:
            self.names[self.fold(spelling)] = folded


def spellings(tool: Component) -> tuple[str, ...]:
    """Return every name that a tool answers to."""
    if tool.long_name is None:
        return (tool.name, *tool.options.aliases)
    return (tool.name, tool.long_name, *tool.options.aliases)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An immutable view of a registry, for readers without a lock."""

    revision: int
    index: dict[str, VersionGroup]
    groups: tuple[VersionGroup, ...]
    tools: tuple[Component, ...]
    extensions: frozenset[str]
    """The MCP extensions that tools belong to."""
    fold: Callable[[str], str] = str.casefold

    @classmethod
    def of(cls, names: NameIndex, revision: int) -> Snapshot:
        groups = tuple(names.groups.values())
        index: dict[str, VersionGroup] = {}
        for group in groups:
            for spelling in group.spellings:
                index[names.fold(spelling)] = group
                index[spelling] = group  # tried first: it needs no folding
        tools = tuple(group.newest.tool for group in groups if group.newest)
        extensions = frozenset(tool.extension for tool in tools if tool.extension is not None)
        return cls(revision, index, groups, tools, extensions, names.fold)

    def find(self, name: str) -> Component | None:
        """Return the newest enabled version of a name, or the one after `@`."""
        group = self.group_of(name)
        if group is not None:
            return None if group.newest is None else group.newest.tool
        base, _, version = name.rpartition("@")
        group = self.group_of(base)
        entry = None if group is None else group.of_version(version)
        return entry.tool if entry is not None and entry.enabled else None

    def group_of(self, spelling: str) -> VersionGroup | None:
        """Return all versions that answer to a spelling."""
        group = self.index.get(spelling)
        return self.index.get(self.fold(spelling)) if group is None else group
