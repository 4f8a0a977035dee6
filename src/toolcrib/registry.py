"""Where tools live: one registry, one order, one revision.

Writers take a lock and change the key space; readers use an immutable snapshot, made at the first read
after a write, and take no lock. Knows tools, names and definitions. Refuses to know where tools come from
and how they run.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from toolcrib.definition import NAME_RULES, NameRule, ToolDefinition, shorten_name
from toolcrib.errors import (
    BatchError,
    DefinitionError,
    InvalidToolError,
    RegistrationClosedError,
    ToolAlreadyExistsError,
    ToolNotFoundError,
)
from toolcrib.finding import Finding
from toolcrib.keyspace import Entry, KeySpace, Snapshot
from toolcrib.selection import select
from toolcrib.tool import Tool, is_tool_object

logger = logging.getLogger("toolcrib")

OnDuplicate = Literal["error", "keep", "replace"]
ChangeKind = Literal["added", "removed", "replaced", "enabled", "disabled"]
MAX_TOOLS = 100_000
_LONGEST_NAME = 512  # what is longer is not shortened but refused: it was never a name


@dataclass(frozen=True, slots=True)
class Change:
    """One effective change, told to subscribers after it happened."""

    kind: ChangeKind
    names: tuple[str, ...]
    revision: int


@dataclass(slots=True)
class Report:
    """What a batch came to: what was registered, what was refused and why, what is remarkable."""

    registered: list[Tool] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]

    @property
    def ok(self) -> bool:
        return not self.errors

    def merge(self, other: Report) -> None:
        self.registered += other.registered
        self.findings += other.findings

    def __str__(self) -> str:
        lines = [f"{len(self.registered)} registered, {len(self.errors)} refused"]
        return "\n".join([*lines, *(f"  {finding}" for finding in self.findings)])


class ToolRegistry:
    """Tools by name. Iterating gives the newest enabled version of each, in order of registration."""

    def __init__(
        self,
        *,
        name_rule: str | NameRule = "portable",
        on_duplicate: OnDuplicate = "error",
        separator: str = "_",
        confusable: Literal["error", "allow"] = "error",
    ) -> None:
        if isinstance(name_rule, str) and name_rule not in NAME_RULES:
            raise ValueError(f"name_rule must be one of {', '.join(NAME_RULES)}, got {name_rule!r}")
        if on_duplicate not in ("error", "keep", "replace"):
            raise ValueError(f"on_duplicate must be 'error', 'keep' or 'replace', got {on_duplicate!r}")
        self.rule = NAME_RULES[name_rule] if isinstance(name_rule, str) else name_rule
        self.on_duplicate: OnDuplicate = on_duplicate
        self.separator = separator
        self._refuses_confusable = confusable == "error"
        self._lock = threading.RLock()
        self._space = KeySpace()
        self._revision = 0
        self._disabled = 0
        self._snapshot: Snapshot | None = None
        self._sealed: str | None = None
        self._broken: dict[str, DefinitionError] = {}
        self._subscribers: list[Callable[[Change], None]] = []

    # --- writing ---

    def add(
        self,
        thing: Any,
        *,
        namespace: str | None = None,
        on_duplicate: OnDuplicate | None = None,
        rule: NameRule | None = None,
    ) -> Tool:
        """Register one tool (or a function, or a tool object) and return what is now registered.

        Raises DefinitionError where it is wrong, ToolAlreadyExistsError where its name is taken.
        """
        tool = self._prepare(as_tool(thing), namespace, rule or self.rule)
        with self._lock:
            self._check_open()
            stored, kind = self._store(self._space, tool, on_duplicate or self.on_duplicate)
            change = self._committed(kind, [stored]) if kind else None
        self._tell(change)
        return stored

    def add_all(
        self,
        things: Iterable[Any],
        *,
        namespace: str | None = None,
        on_duplicate: OnDuplicate | None = None,
        strict: bool = False,
    ) -> Report:
        """Register many at once, as one change. The good are registered, the bad reported; `strict` builds
        everything and raises BatchError, registering none, where anything is wrong."""
        report = Report()
        with self._lock:
            self._check_open()
            space = self._space.copy() if strict else self._space
            for thing in things:
                try:
                    tool = self._prepare(as_tool(thing), namespace, self.rule)
                    if strict:
                        report.findings.extend(tool.check().findings)
                    stored, kind = self._store(space, tool, on_duplicate or self.on_duplicate)
                    if kind:
                        report.registered.append(stored)
                except DefinitionError as error:
                    report.findings.append(error.finding)
            if strict and not report.ok:
                count = len(report.errors)
                raise BatchError(f"Nothing registered, {count} refused: {report.errors[0]}", report.findings)
            self._space = space
            change = self._committed("added", report.registered) if report.registered else None
        self._tell(change)
        return report

    def replace(self, thing: Any) -> Tool:
        """Put a tool in the place of the one of its name and version; raises ToolNotFoundError if none is."""
        tool = as_tool(thing)
        with self._lock:
            if self._space.holder(tool) is None:
                raise ToolNotFoundError(tool.name)
            return self.add(tool, on_duplicate="replace")

    def remove(self, name: str) -> None:
        """Take out every version of a name, or the one named after `@`."""
        self._change("removed", name, lambda entries: self._space.drop(entries))

    def enable(self, name: str) -> None:
        self._change("enabled", name, lambda entries: self._space.set_enabled(entries, True))

    def disable(self, name: str) -> None:
        """Neither listed nor callable, until enabled again."""
        self._change("disabled", name, lambda entries: self._space.set_enabled(entries, False))

    def seal(self, message: str = "Cannot register tools after server has started") -> list[Finding]:
        """Build everything and refuse further changes with `message`. Returns what was found wrong."""
        findings = self.check()
        with self._lock:
            self._sealed = message
        return findings

    @property
    def sealed(self) -> bool:
        return self._sealed is not None

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Hear of every change; returns what ends it. A listener that raises is logged and kept."""
        with self._lock:
            self._subscribers.append(listener)

        def unsubscribe() -> None:
            with self._lock:
                if listener in self._subscribers:
                    self._subscribers.remove(listener)

        return unsubscribe

    # --- reading ---

    @property
    def snapshot(self) -> Snapshot:
        snapshot = self._snapshot
        return self._take_snapshot() if snapshot is None else snapshot

    @property
    def revision(self) -> int:
        """Rises by one with every effective change."""
        return self._revision

    def get(self, name: str) -> Tool:
        """The tool of this name; raises ToolNotFoundError."""
        tool = self.snapshot.find(name)
        if tool is None:
            raise ToolNotFoundError(name)
        return tool

    def try_get(self, name: str) -> Tool | None:
        return self.snapshot.find(name)

    def get_all(self) -> list[Tool]:
        return list(self.snapshot.tools)

    def versions(self, name: str) -> list[Tool]:
        """Every version of a name, newest first, disabled ones included."""
        group = self.snapshot.index.get(name.casefold())
        return [] if group is None else [entry.tool for entry in group.entries]

    def select(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> list[Tool]:
        """Tools by name, glob, `tag:` or `re:`; excluding wins; a selector that fits nothing raises."""
        return select(self.snapshot.tools, include, exclude)

    def definitions(self) -> list[ToolDefinition]:
        """What clients are told. A tool that cannot be built is left out with a warning; it hides none."""
        found = []
        for tool in self.snapshot.tools:
            try:
                found.append(tool.definition)
            except DefinitionError as error:
                self._quarantine(tool, error)
        return found

    def check(self) -> list[Finding]:
        """Build everything; every error and remark, in order."""
        findings: list[Finding] = []
        for group in list(self.snapshot.index.values()):
            for entry in group.entries:
                try:
                    findings.extend(entry.tool.check().findings)
                except DefinitionError as error:
                    self._quarantine(entry.tool, error)
                    findings.append(error.finding)
        return list(dict.fromkeys(findings))

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.snapshot.tools)

    def __len__(self) -> int:
        return len(self.snapshot.tools) if self._disabled else len(self._space.groups)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.snapshot.find(name) is not None

    # --- inside ---

    def _prepare(self, tool: Tool, namespace: str | None, rule: NameRule) -> Tool:
        """The tool under the name it will have: prefixed, checked, shortened where it must be."""
        name = tool.name
        namespace = namespace if namespace is not None else tool.namespace
        if namespace:
            name = f"{namespace}{self.separator}{name}"
        if rule.label != "strict" and rule.longest < _length(name) <= _LONGEST_NAME:
            short = shorten_name(name, rule.longest)
            rule.check(short, tool.source)
            logger.warning("tool name '%s' is too long and becomes '%s'; both can be called", name, short)
            return tool.renamed(short, long_name=name)
        rule.check(name, tool.source)
        for alias in tool.options.aliases:
            rule.check(alias, tool.source)
        return tool if name == tool.name else tool.renamed(name)

    def _store(self, space: KeySpace, tool: Tool, policy: OnDuplicate) -> tuple[Tool, ChangeKind | None]:
        holder = space.holder(tool)
        if holder is not None and policy == "keep":
            return holder.tool, None
        if holder is not None and policy == "error":
            raise ToolAlreadyExistsError(tool.name, source=tool.source, existing=holder.tool.source)
        if len(space.groups) >= MAX_TOOLS:
            raise DefinitionError(f"A registry holds at most {MAX_TOOLS} tools", tool=tool.name)
        space.check_free(tool, confusable=self._refuses_confusable)
        self._disabled += not tool.options.enabled
        if holder is not None:
            space.swap(holder, tool, enabled=tool.options.enabled)
            return tool, "replaced"
        space.put(tool, enabled=tool.options.enabled)
        return tool, "added"

    def _change(self, kind: ChangeKind, name: str, act: Callable[[list[Entry]], None]) -> None:
        with self._lock:
            self._check_open()
            entries = self._space.find(name)
            if not entries:
                raise ToolNotFoundError(name)
            act(entries)
            self._disabled += kind == "disabled"
            change = self._committed(kind, [entry.tool for entry in entries])
        self._tell(change)

    def _committed(self, kind: ChangeKind, tools: list[Tool]) -> Change:
        self._revision += 1
        self._snapshot = None
        return Change(kind, tuple(dict.fromkeys(tool.name for tool in tools)), self._revision)

    def _tell(self, change: Change | None) -> None:
        if change is None:
            return
        for listener in tuple(self._subscribers):
            try:
                listener(change)
            except Exception:
                logger.exception("a listener to registry changes failed")

    def _take_snapshot(self) -> Snapshot:
        with self._lock:
            snapshot = self._snapshot
            if snapshot is None:
                snapshot = self._snapshot = Snapshot.of(self._space, self._revision)
            return snapshot

    def _check_open(self) -> None:
        if self._sealed is not None:
            raise RegistrationClosedError(self._sealed)

    def _quarantine(self, tool: Tool, error: DefinitionError) -> None:
        if self._broken.get(tool.name) is not error:
            self._broken[tool.name] = error  # told once, not at every listing
            logger.warning("tool '%s' is not published: %s", tool.name, error.finding)


def _length(name: object) -> int:
    return len(name) if isinstance(name, str) else 0


def as_tool(thing: Any) -> Tool:
    """A Tool out of a Tool, a tool object or anything callable."""
    if isinstance(thing, Tool):
        return thing
    if is_tool_object(thing):
        return Tool.from_object(thing)
    if callable(thing):
        return Tool.from_function(thing)
    raise InvalidToolError(
        f"Not a tool: {type(thing).__name__}", hint="add a function, a tool object or a Tool"
    )
