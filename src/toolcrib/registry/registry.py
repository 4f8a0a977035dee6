"""ToolRegistry: tools by name, with versions, aliases, events and atomic replacement.

Writers take a lock and change the name index; readers use an immutable snapshot, made at the first read after
a write, and take no lock. Code of users (generators, tool objects, listeners) never runs under the lock.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from toolcrib.component import Component, Tool, is_tool_object
from toolcrib.definition import ToolDefinition
from toolcrib.errors import (
    BatchError,
    ConfigurationError,
    DefinitionError,
    Finding,
    InvalidToolError,
    RegistrationClosedError,
    ToolAlreadyExistsError,
    ToolNotFoundError,
)
from toolcrib.names import NAME_RULES, URI, NameRule
from toolcrib.registry.index import Entry, NameIndex, Snapshot, name_tool, report_shortened
from toolcrib.registry.selection import select

logger = logging.getLogger("toolcrib")

OnDuplicate = Literal["error", "keep", "replace"]
_MODES = get_args(OnDuplicate)
MAX_TOOLS = 100_000

ChangeKind = Literal["added", "removed", "replaced", "enabled", "disabled", "changed"]


@dataclass(frozen=True, slots=True)
class Change:
    """A change that has happened, as subscribers get it. A batch of several kinds is "changed"."""

    kind: ChangeKind
    names: tuple[str, ...]
    revision: int


@dataclass(slots=True)
class Report:
    """The result of a batch: the registered tools, and findings about refused and questionable ones."""

    registered: list[Component] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    others: list[Component] = field(default_factory=list)
    """Resources and prompts that were registered with the tools."""

    @property
    def errors(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "error"]

    @property
    def ok(self) -> bool:
        return not self.errors

    def __str__(self) -> str:
        lines = [f"{len(self.registered)} registered, {len(self.errors)} refused"]
        return "\n".join([*lines, *(f"  {finding}" for finding in self.findings)])


def finding_of(item: Any, error: Exception) -> Finding:
    """Return the finding about an object that could not become a tool."""
    if isinstance(error, DefinitionError):
        return error.finding
    text = f"{type(item).__name__} cannot be read as a tool: {type(error).__name__}: {error}"
    return InvalidToolError(text).finding


Key = tuple[str, str | None]
"""The folded name and the version: unique in a registry."""


def key_of(tool: Component) -> Key:
    return (tool.name if tool.kind == "resource" else tool.name.casefold()), tool.version


def is_known_finding(finding: Finding, known: Iterable[Finding]) -> bool:
    """Return whether the same finding is known, even at another line."""
    return any(replace(finding, line=other.line, hint=other.hint) == other for other in known)


class ToolRegistry:
    """Tools by name. Iterating yields the newest enabled version of each, in order of registration.

    `eager` builds every tool when it is added, so that its problems are found before clients see it. `guard`
    raises DefinitionError for tools that must not be added.
    """

    def __init__(
        self,
        *,
        name_rule: str | NameRule = "mcp",
        on_duplicate: OnDuplicate = "error",
        separator: str = "_",
    ) -> None:
        if isinstance(name_rule, str) and name_rule not in NAME_RULES:
            message = f"must be one of {', '.join(NAME_RULES)}, got {name_rule!r}"
            raise ConfigurationError(message, key="name_rule")
        self.rule = NAME_RULES[name_rule] if isinstance(name_rule, str) else name_rule
        self.on_duplicate = _check_mode(on_duplicate)
        self.separator = separator
        self.eager = False
        self.guard: Callable[[Component], None] | None = None
        self._lock = threading.Lock()
        self._names = NameIndex(fold=str if self.rule is URI else str.casefold)
        self.cached_snapshot: Snapshot | None = None
        """The snapshot if it is current, or None after a change; `snapshot` makes a new one."""
        self.has_tasks = False
        """Whether a tool was added whose calls may become tasks. Stays true."""
        self._revision = 0
        self._listed = 0
        self._closed: str | None = None
        self._broken: dict[Key, DefinitionError] = {}
        self._subscribers: tuple[Callable[[Change], None], ...] = ()
        self.refused: list[Finding] = []
        """Tools that a decorator could not register while their file was imported, see `MCPServer.tool`."""

    # --- writing ---

    def add(
        self,
        item: Any,
        *,
        namespace: str | None = None,
        on_duplicate: OnDuplicate | None = None,
        rule: NameRule | None = None,
    ) -> Component:
        """Register a tool, a function or a tool object and return the tool that is registered now.

        Raises DefinitionError, and ToolAlreadyExistsError where the name is taken.
        """
        mode = _check_mode(on_duplicate or self.on_duplicate)
        tool = self._prepare(item, namespace, rule or self.rule)
        if self.eager or tool.options.changes_arguments:
            tool.check()
        with self._lock:
            self._check_open()
            stored, kind = self._store(self._names, tool, mode)
            change = self._commit(kind, [stored]) if kind else None
        self._notify(change, [stored])
        return stored

    def add_all(
        self,
        items: Iterable[Any],
        *,
        namespace: str | None = None,
        on_duplicate: OnDuplicate | None = None,
        strict: bool = False,
    ) -> Report:
        """Register several tools as one change and report those that are refused. `strict` builds all of them
        and raises BatchError, registering none, where one has a problem."""
        mode = _check_mode(on_duplicate or self.on_duplicate)
        report = Report()
        ready = list(self._prepare_all(items, namespace, strict or self.eager, report))
        kinds: set[ChangeKind] = set()
        changed: dict[Key, Component] = {}
        with self._lock:
            self._check_open()
            names = self._names.copy() if strict else self._names
            for tool in ready:
                try:
                    stored, kind = self._store(names, tool, mode)
                except DefinitionError as error:
                    report.findings.extend(error.all_findings)
                    continue
                if kind:
                    kinds.add(kind)
                    changed[key_of(stored)] = stored
            if strict and report.errors:
                text = f"Nothing registered, {len(report.errors)} refused: {report.errors[0]}"
                raise BatchError(text, report.findings)
            self._names = names
            report.registered += changed.values()
            kind = kinds.pop() if len(kinds) == 1 else "changed"
            change = self._commit(kind, report.registered) if changed else None
        self._notify(change, report.registered)
        return report

    def replace(self, item: Any) -> Component:
        """Replace the tool of the same name and version. Raises ToolNotFoundError.

        Its position stays, and so does the state set by `enable` or `disable`.
        """
        tool = self._prepare(item, None, self.rule)
        if self.eager or tool.options.changes_arguments:
            tool.check()
        with self._lock:
            self._check_open()
            if self._names.find_exact(tool.name, tool.version) is None:
                raise ToolNotFoundError(tool.name)
            self._store(self._names, tool, "replace")
            change = self._commit("replaced", [tool])
        self._notify(change, [tool])
        return tool

    def remove_tools(self, tools: Iterable[Component]) -> None:
        """Remove exactly these tools, as one change."""
        removed = list(tools)
        with self._lock:
            self._check_open()
            for tool in removed:
                entry = self._names.find_exact(tool.name, tool.version)
                if entry is not None and entry.tool is tool:
                    self._names.drop([entry])
            change = self._commit("removed", removed)
        self._notify(change, removed)

    def prepare(self, items: Iterable[Any], report: Report) -> list[Component]:
        """Return the tools as they would be registered, named and built. Problems go to the report."""
        return list(self._prepare_all(items, None, True, report))

    def remove(self, name: str) -> None:
        """Remove all versions of a name, or the one after `@`."""
        self._change("removed", name, lambda entries: self._names.drop(entries))

    def enable(self, name: str) -> None:
        self._change("enabled", name, lambda entries: self._names.set_enabled(entries, True))

    def disable(self, name: str) -> None:
        """Make a tool neither listed nor callable. Where one version is disabled, the newest of the others
        answers to the plain name."""
        self._change("disabled", name, lambda entries: self._names.set_enabled(entries, False))

    def check_free(self, name: str, version: str | None = None) -> None:
        """Raise ToolAlreadyExistsError where a name and version are taken."""
        with self._lock:
            group = self._names.group_of(name)
            existing = self._names.find_exact(name, version)
        if (
            existing is None
            and group is not None
            and self._names.fold(name) != self._names.fold(group.entries[0].tool.name)
        ):
            existing = group.entries[0]  # an alias or a long form of another tool
        if existing is not None:
            raise ToolAlreadyExistsError(name, existing=existing.tool.source)

    def seal(self, message: str = "Cannot register tools after server has started") -> list[Finding]:
        """Refuse further changes with `message`, build all tools and return the findings about them."""
        self.close(message)
        return self.check()

    def close(self, message: str) -> None:
        """Refuse further changes with `message`."""
        with self._lock:
            self._closed = message

    def reopen(self) -> None:
        with self._lock:
            self._closed = None

    @property
    def sealed(self) -> bool:
        return self._closed is not None

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call `listener` after every change; return a function that ends it. A listener that raises is
        logged and kept. Changes by several threads may arrive out of the order of their revisions."""

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers = tuple(other for other in self._subscribers if other is not listener)

        with self._lock:
            self._subscribers = (*self._subscribers, listener)
        return unsubscribe

    # --- reading ---

    @property
    def snapshot(self) -> Snapshot:
        snapshot = self.cached_snapshot
        return self._take_snapshot() if snapshot is None else snapshot

    @property
    def revision(self) -> int:
        """A number that grows by one with every change."""
        return self._revision

    def get(self, name: str) -> Component:
        """Return the tool of this name. Raises ToolNotFoundError."""
        tool = self.snapshot.find(name)
        if tool is None:
            raise ToolNotFoundError(name)
        return tool

    def try_get(self, name: str) -> Component | None:
        return self.snapshot.find(name)

    def get_all(self) -> list[Component]:
        return list(self.snapshot.tools)

    def entries(self) -> list[Entry]:
        """Return all tools, with disabled ones and all versions, the newest of a name first."""
        return [entry for group in self.snapshot.groups for entry in group.entries]

    def versions(self, name: str) -> list[Component]:
        """Return all versions of a name, newest first, with disabled ones."""
        group = self.snapshot.group_of(name)
        return [] if group is None else [entry.tool for entry in group.entries]

    def select(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> list[Component]:
        """Return tools by selectors, see `registry.selection`."""
        return select(self.snapshot.tools, include, exclude)

    def published(self) -> list[Component]:
        """Return the tools that clients see. One that cannot be built is left out, with a warning."""
        found = []
        for tool in self.snapshot.tools:
            try:
                _ = tool.definition
            except DefinitionError as error:
                self.quarantine(tool, error)
            else:
                found.append(tool)
        return found

    def definitions(self) -> list[ToolDefinition]:
        """Return the definitions that clients see."""
        return [tool.definition for tool in self.published()]

    def check(self) -> list[Finding]:
        """Build all tools, with disabled ones and older versions, and return all findings in order."""
        findings: list[Finding] = []
        for entry in self.entries():
            try:
                findings += _check_tool(entry.tool)
            except DefinitionError as error:
                self.quarantine(entry.tool, error)
                findings.extend(error.all_findings)
        return findings

    def __iter__(self) -> Iterator[Component]:
        return iter(self.snapshot.tools)

    def __len__(self) -> int:
        return self._listed

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.snapshot.find(name) is not None

    # --- internals ---

    def _prepare(self, item: Any, namespace: str | None, rule: NameRule) -> Component:
        tool = name_tool(as_tool(item), namespace, self.separator, rule)
        if self.guard is not None:
            self.guard(tool)
        return tool

    def _prepare_all(
        self, items: Iterable[Any], namespace: str | None, build: bool, report: Report
    ) -> Iterator[Component]:
        for item in items:
            try:
                tool = self._prepare(item, namespace, self.rule)
                if build or tool.options.changes_arguments:
                    report.findings += _check_tool(tool)
            except Exception as error:  # reading a tool object runs code of its author
                report.findings.append(finding_of(item, error))
            else:
                yield tool

    def _store(
        self, names: NameIndex, tool: Component, mode: OnDuplicate
    ) -> tuple[Component, ChangeKind | None]:
        if tool.options.task != "never":
            self.has_tasks = True
        existing = names.find_exact(tool.name, tool.version)
        if existing is None:
            if len(names.groups) >= MAX_TOOLS:
                raise DefinitionError(f"A registry holds at most {MAX_TOOLS} tools", tool=tool.name)
            names.check_free(tool)
            names.put(tool, enabled=tool.options.enabled)
            return tool, "added"
        if mode == "keep":
            return existing.tool, None
        if mode == "error":
            message = f"{tool.label} already registered"
            raise ToolAlreadyExistsError(
                tool.name, message=message, source=tool.source, existing=existing.tool.source
            )
        names.check_free(tool)
        was_switched = existing.enabled is not existing.tool.options.enabled
        names.put(tool, enabled=existing.enabled if was_switched else tool.options.enabled)
        return tool, "replaced"

    def _change(self, kind: ChangeKind, name: str, act: Callable[[list[Entry]], list[Entry]]) -> None:
        with self._lock:
            self._check_open()
            entries = self._names.find(name)
            if not entries:
                raise ToolNotFoundError(name)
            changed = [entry.tool for entry in act(entries)]
            change = self._commit(kind, changed) if changed else None
        self._notify(change)

    def _commit(self, kind: ChangeKind, tools: list[Component]) -> Change:
        self.cached_snapshot = None  # before the revision changes: a reader must not take it for the new one
        self._listed = self._names.listed
        self._revision += 1
        return Change(kind, tuple(dict.fromkeys(tool.name for tool in tools)), self._revision)

    def _notify(self, change: Change | None, stored: Sequence[Component] = ()) -> None:
        if change is None:
            return
        for tool in stored:
            for finding in report_shortened(tool):
                logger.warning("%s", finding.message)
        for listener in self._subscribers:
            try:
                listener(change)
            except Exception:
                logger.exception("a listener of registry changes failed")

    def _take_snapshot(self) -> Snapshot:
        with self._lock:
            self.cached_snapshot = self.cached_snapshot or Snapshot.of(self._names, self._revision)
            return self.cached_snapshot

    def _check_open(self) -> None:
        if self._closed is not None:
            raise RegistrationClosedError(self._closed)

    def quarantine(self, tool: Component, error: DefinitionError) -> None:
        """Log once why a tool is not published."""
        key = key_of(tool)
        if self._broken.get(key) is not error:
            self._broken[key] = error
            logger.warning("tool '%s' is not published: %s", tool.name, error.finding)


def as_tool(item: Any) -> Component:
    """Return a tool made of a tool, a tool object or a callable."""
    if isinstance(item, Component):
        return item
    if is_tool_object(item):
        return Tool.from_object(item)
    if callable(item) and not isinstance(getattr(item, "registry", None), ToolRegistry):  # not a server
        return Tool.from_function(item)
    raise InvalidToolError(f"Not a tool: {type(item).__name__}", hint="add a function or a tool object")


def _check_mode(mode: OnDuplicate) -> OnDuplicate:
    if mode not in _MODES:
        raise ValueError(f"on_duplicate must be 'error', 'keep' or 'replace', got {mode!r}")
    return mode


def _check_tool(tool: Component) -> list[Finding]:
    return [*report_shortened(tool), *tool.check().findings]
