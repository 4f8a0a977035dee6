"""One key space: which tool answers to which spelling.

A name, its case-folded form, the long form of a shortened name and every alias share one index. Entries of
one name differ by version. Knows names and versions; refuses to know locks, events and definitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from toolcrib.errors import ConfusableNameError, ToolAlreadyExistsError
from toolcrib.tool import Tool

_LOOKS_LIKE = str.maketrans({"I": "l", "1": "l", "0": "o", "O": "o"})
_PARTS = re.compile(r"\d+|[A-Za-z]+")
_END = (0, 0, "~")


def version_key(version: str | None) -> tuple[tuple[int, int, str], ...]:
    """Orders versions: numbers as numbers, none oldest, `2.0beta` before `2.0` before `2.0.1`."""
    if version is None:
        return ()
    parts = _PARTS.findall(version)
    return (*((1, int(part), "") if part.isdigit() else (0, 0, part.lower()) for part in parts), _END)


def skeleton(name: str) -> str:
    """What a name looks like: names with one skeleton are easily taken for each other."""
    return name.translate(_LOOKS_LIKE).casefold().replace("rn", "m")


@dataclass(frozen=True, slots=True)
class Entry:
    """One version of one tool, as registered."""

    tool: Tool
    enabled: bool = True


class Group:
    """All versions of one name, newest first. Replaced whole on every change, so readers see one state."""

    __slots__ = ("entries", "newest")

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = tuple(sorted(entries, key=lambda entry: version_key(entry.tool.version), reverse=True))
        self.newest = next((entry for entry in self.entries if entry.enabled), None)

    def of_version(self, version: str) -> Entry | None:
        return next((entry for entry in self.entries if entry.tool.version == version), None)


@dataclass(slots=True)
class KeySpace:
    """The mutable truth behind a registry. `groups` keep the order of registration."""

    groups: dict[str, Group] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    looks: dict[str, str] = field(default_factory=dict)

    def copy(self) -> KeySpace:
        return KeySpace(dict(self.groups), dict(self.keys), dict(self.looks))

    def holder(self, tool: Tool) -> Entry | None:
        """The entry that keeps `tool` out: same folded name and version."""
        group = self.groups.get(self.keys.get(tool.name.casefold(), ""))
        if group is None:
            return None
        return next((entry for entry in group.entries if entry.tool.version == tool.version), None)

    def check_free(self, tool: Tool, *, confusable: bool) -> None:
        """Raise where a spelling of `tool` belongs to another tool, or looks like one that does."""
        folded = tool.name.casefold()
        for spelling in spellings(tool):
            owner = self.keys.get(spelling.casefold())
            if owner is not None and owner != folded:
                self._refuse(tool, spelling, owner)
        twin = self.looks.get(skeleton(tool.name)) if confusable else None
        if twin is not None and twin != folded and twin in self.groups:
            existing = self.groups[twin].entries[0].tool
            raise ConfusableNameError(
                tool.name,
                message=f"Tool '{tool.name}' looks like '{existing.name}', already registered",
                source=tool.source,
                existing=existing.source,
            )

    def _refuse(self, tool: Tool, spelling: str, owner: str) -> None:
        existing = self.groups[owner].entries[0].tool
        raise ToolAlreadyExistsError(spelling, source=tool.source, existing=existing.source)

    def put(self, tool: Tool, *, enabled: bool) -> None:
        """Store `tool`, in place of one of the same name and version if there is one."""
        folded = tool.name.casefold()
        group = self.groups.get(folded)
        others = () if group is None else tuple(e for e in group.entries if e.tool.version != tool.version)
        for spelling in spellings(tool):
            self.keys[spelling.casefold()] = folded
        self.looks.setdefault(skeleton(tool.name), folded)
        self.groups[folded] = Group((*others, Entry(tool, enabled)))

    def swap(self, old: Entry, tool: Tool, *, enabled: bool) -> None:
        """Put `tool` in the place of `old`, which has its name and version; the order stays."""
        group = self.groups[tool.name.casefold()]
        self._forget_spellings(old.tool, tuple(entry for entry in group.entries if entry is not old))
        self.put(tool, enabled=enabled)

    def _forget_spellings(self, tool: Tool, rest: tuple[Entry, ...]) -> None:
        kept = {spelling.casefold() for other in rest for spelling in spellings(other.tool)}
        for spelling in spellings(tool):
            if spelling.casefold() not in kept:
                self.keys.pop(spelling.casefold(), None)

    def drop(self, entries: list[Entry]) -> None:
        for entry in entries:
            folded = entry.tool.name.casefold()
            rest = tuple(other for other in self.groups[folded].entries if other is not entry)
            if rest:
                self.groups[folded] = Group(rest)
            else:
                del self.groups[folded]
                self.looks.pop(skeleton(entry.tool.name), None)
            self._forget_spellings(entry.tool, rest)

    def set_enabled(self, entries: list[Entry], enabled: bool) -> None:
        for entry in entries:
            folded = entry.tool.name.casefold()
            others = self.groups[folded].entries
            self.groups[folded] = Group(Entry(e.tool, enabled) if e is entry else e for e in others)

    def find(self, name: str) -> list[Entry]:
        """Every entry a name means: all versions, or the one after `@`."""
        group = self.groups.get(self.keys.get(name.casefold(), ""))
        if group is not None:
            return list(group.entries)
        base, at, version = name.rpartition("@")
        group = self.groups.get(self.keys.get(base.casefold(), "")) if at else None
        entry = group.of_version(version) if group is not None else None
        return [] if entry is None else [entry]


def spellings(tool: Tool) -> Iterator[str]:
    yield tool.name
    if tool.long_name is not None:
        yield tool.long_name
    yield from tool.options.aliases


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An immutable view: everything a reader needs, nothing it could see change."""

    revision: int
    index: dict[str, Group]
    tools: tuple[Tool, ...]

    @classmethod
    def of(cls, space: KeySpace, revision: int) -> Snapshot:
        index = {key: space.groups[folded] for key, folded in space.keys.items()}
        for group in space.groups.values():
            for entry in group.entries:
                for spelling in spellings(entry.tool):
                    index[spelling] = group  # the exact spelling is looked up first
        listed = (group.newest for group in space.groups.values())
        return cls(revision, index, tuple(entry.tool for entry in listed if entry is not None))

    def find(self, name: str) -> Tool | None:
        """The tool a name means: the newest enabled version, or the one after `@`."""
        group = self.index.get(name)
        if group is None:
            group = self.index.get(name.casefold())
        if group is not None:
            entry = group.newest
            return None if entry is None else entry.tool
        base, at, version = name.rpartition("@")
        group = self.index.get(base) or self.index.get(base.casefold()) if at else None
        entry = group.of_version(version) if group is not None else None
        return entry.tool if entry is not None and entry.enabled else None
