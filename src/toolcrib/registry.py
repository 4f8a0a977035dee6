"""Where tools live: one registry, one order, one revision.

Writers take a lock and change the key space; readers use an immutable snapshot, made at the first read
after a write, and take no lock. Code of others (generators, tool objects, listeners) never runs under the
lock. Knows tools, names and definitions. Refuses to know where tools come from and how they run.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Literal, get_args

from toolcrib.definition import NAME_RULES, NameRule, ToolDefinition
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
from toolcrib.naming import name_tool, remark_shortened
from toolcrib.report import Change as Change
from toolcrib.report import ChangeKind, refusal
from toolcrib.report import Report as Report
from toolcrib.selection import select
from toolcrib.swap import Swap, find_unchanged
from toolcrib.tool import Tool, is_tool_object

logger = logging.getLogger("toolcrib")

OnDuplicate = Literal["error", "keep", "replace"]
_POLICIES = get_args(OnDuplicate)
MAX_TOOLS = 100_000


class ToolRegistry:
    """Tools by name. Iterating gives the newest enabled version of each, in order of registration.

    `eager` builds every tool as it comes, so that nothing wrong is found after somebody was told of it.
    """

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
        self.rule = NAME_RULES[name_rule] if isinstance(name_rule, str) else name_rule
        self.on_duplicate = _check_policy(on_duplicate)
        self.separator = separator
        self.eager = False
        self.guard: Callable[[Tool], None] | None = None  # raises where a tool may not come
        self._refuses_confusable = confusable == "error"
        self._lock = threading.Lock()
        self._space = KeySpace()
        self._snapshot: Snapshot | None = None
        self._revision = 0
        self._listed = 0
        self._closed: str | None = None
        self._broken: dict[tuple[str, str | None], DefinitionError] = {}
        self._subscribers: tuple[Callable[[Change], None], ...] = ()

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
        policy = _check_policy(on_duplicate or self.on_duplicate)
        tool = self._prepare(thing, namespace, rule or self.rule)
        if self.eager:
            tool.check()
        with self._lock:
            self._check_open()
            stored, kind = self._store(self._space, tool, policy)
            change = self._commit(kind, [stored]) if kind else None
        self._tell(change, [stored])
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
        policy = _check_policy(on_duplicate or self.on_duplicate)
        report = Report()
        ready = list(self._prepare_all(things, namespace, strict or self.eager, report))
        kinds: set[ChangeKind] = set()
        changed: dict[tuple[str, str | None], Tool] = {}
        with self._lock:
            self._check_open()
            space = self._space.copy() if strict else self._space
            for tool in ready:
                try:
                    stored, kind = self._store(space, tool, policy)
                except DefinitionError as error:
                    report.findings.append(error.finding)
                    continue
                if kind:
                    kinds.add(kind)
                    changed[stored.name.casefold(), stored.version] = stored
            if strict and report.errors:
                words = f"Nothing registered, {len(report.errors)} refused: {report.errors[0]}"
                raise BatchError(words, report.findings)
            self._space = space
            report.registered += changed.values()
            kind = kinds.pop() if len(kinds) == 1 else "changed"
            change = self._commit(kind, report.registered) if changed else None
        self._tell(change, report.registered)
        return report

    def replace(self, thing: Any) -> Tool:
        """Put a tool in the place of the one of its name and version; raises ToolNotFoundError if none is.

        Its place in the order stays, and so does what `enable` or `disable` said of it.
        """
        tool = self._prepare(thing, None, self.rule)
        if self.eager:
            tool.check()
        with self._lock:
            self._check_open()
            if self._space.holder(tool.name, tool.version) is None:
                raise ToolNotFoundError(tool.name)
            self._store(self._space, tool, "replace")
            change = self._commit("replaced", [tool])
        self._tell(change, [tool])
        return tool

    def swap(self, old: Collection[Tool], new: Iterable[Any], *, known: Collection[Finding] = ()) -> Report:
        """Put new tools in the place of old ones, as one change; BatchError where anything is wrong that is
        not `known`. A name that stays keeps its place and what `enable` or `disable` said. A tool that says
        and does what it did is no change: where all are so, the revision stays and nobody is told."""
        report = Report()
        ready = self.prepare(new, report)
        unchanged = find_unchanged(old, ready)
        with self._lock:
            self._check_open()
            swap = Swap(self._space.copy(), old)
            swap.fill(ready, lambda tool: self._store(swap.space, tool, self.on_duplicate)[0], report, known)
            kind, changed = swap.settle(report.registered, unchanged)
            self._space, self._snapshot = swap.space, None
            change = self._commit(kind, changed) if changed else None
            self._broken.clear()  # errors remember where they were raised, and with it whole modules
        self._tell(change, report.registered)
        return report

    def prepare(self, things: Iterable[Any], report: Report) -> list[Tool]:
        """The tools as they would be registered: named and built. What is wrong goes into the report."""
        return list(self._prepare_all(things, None, True, report))

    def remove(self, name: str) -> None:
        """Take out every version of a name, or the one named after `@`."""
        self._change("removed", name, lambda entries: self._space.drop(entries))

    def enable(self, name: str) -> None:
        self._change("enabled", name, lambda entries: self._space.set_enabled(entries, True))

    def disable(self, name: str) -> None:
        """Neither listed nor callable, until enabled again. Where one version is disabled, the newest of
        the others answers to the plain name."""
        self._change("disabled", name, lambda entries: self._space.set_enabled(entries, False))

    def check_free(self, name: str, version: str | None = None) -> None:
        """Raise ToolAlreadyExistsError where a tool of this name and version could not be added."""
        with self._lock:
            group = self._space.group_of(name)
            twin = self._space.holder(name, version)
        if twin is None and group is not None and name.casefold() != group.entries[0].tool.name.casefold():
            twin = group.entries[0]  # an alias or a long form of another tool
        if twin is not None:
            raise ToolAlreadyExistsError(name, existing=twin.tool.source)

    def seal(self, message: str = "Cannot register tools after server has started") -> list[Finding]:
        """Refuse further changes with `message`, and build everything. Returns what was found wrong."""
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
        """Hear of every change; returns what ends it. A listener that raises is logged and kept. Changes made
        by several threads may be told in another order than that of their revisions."""

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers = tuple(other for other in self._subscribers if other is not listener)

        with self._lock:
            self._subscribers = (*self._subscribers, listener)
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

    def entries(self) -> list[Entry]:
        """Everything there is, disabled tools and all versions included, the newest of a name first."""
        return [entry for group in self.snapshot.groups for entry in group.entries]

    def versions(self, name: str) -> list[Tool]:
        """Every version of a name, newest first, disabled ones included."""
        group = self.snapshot.group_of(name)
        return [] if group is None else [entry.tool for entry in group.entries]

    def select(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> list[Tool]:
        """Tools by name, glob, `tag:` or `re:`; excluding wins; a selector that fits nothing raises."""
        return select(self.snapshot.tools, include, exclude)

    def published(self) -> list[Tool]:
        """The tools clients are told of. One that cannot be built is left out, with a warning."""
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
        """What clients are told."""
        return [tool.definition for tool in self.published()]

    def check(self) -> list[Finding]:
        """Build everything, disabled tools and older versions too; every error and remark, in order."""
        findings: list[Finding] = []
        for entry in self.entries():
            try:
                findings += _check_tool(entry.tool)
            except DefinitionError as error:
                self.quarantine(entry.tool, error)
                findings.append(error.finding)
        return findings

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.snapshot.tools)

    def __len__(self) -> int:
        return self._listed

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.snapshot.find(name) is not None

    # --- inside ---

    def _prepare(self, thing: Any, namespace: str | None, rule: NameRule) -> Tool:
        tool = name_tool(as_tool(thing), namespace, self.separator, rule)
        if self.guard is not None:
            self.guard(tool)
        return tool

    def _prepare_all(
        self, things: Iterable[Any], namespace: str | None, builds: bool, report: Report
    ) -> Iterator[Tool]:
        for thing in things:
            try:
                tool = self._prepare(thing, namespace, self.rule)
                if builds:
                    report.findings += _check_tool(tool)
            except Exception as error:  # reading a tool object runs its author's code
                report.findings.append(refusal(thing, error))
            else:
                yield tool

    def _store(self, space: KeySpace, tool: Tool, policy: OnDuplicate) -> tuple[Tool, ChangeKind | None]:
        holder = space.holder(tool.name, tool.version)
        if holder is None:
            if len(space.groups) >= MAX_TOOLS:
                raise DefinitionError(f"A registry holds at most {MAX_TOOLS} tools", tool=tool.name)
            space.check_free(tool, confusable=self._refuses_confusable)
            space.put(tool, enabled=tool.options.enabled)
            return tool, "added"
        if policy == "keep":
            return holder.tool, None
        if policy == "error":
            raise ToolAlreadyExistsError(tool.name, source=tool.source, existing=holder.tool.source)
        space.check_free(tool, confusable=self._refuses_confusable)
        was_switched = holder.enabled is not holder.tool.options.enabled
        space.put(tool, enabled=holder.enabled if was_switched else tool.options.enabled)
        return tool, "replaced"

    def _change(self, kind: ChangeKind, name: str, act: Callable[[list[Entry]], list[Entry]]) -> None:
        with self._lock:
            self._check_open()
            entries = self._space.find(name)
            if not entries:
                raise ToolNotFoundError(name)
            changed = [entry.tool for entry in act(entries)]
            change = self._commit(kind, changed) if changed else None
        self._tell(change)

    def _commit(self, kind: ChangeKind, tools: list[Tool]) -> Change:
        self._snapshot = None  # before the revision rises: nobody may read the old state as the new one
        self._listed = self._space.listed
        self._revision += 1
        return Change(kind, tuple(dict.fromkeys(tool.name for tool in tools)), self._revision)

    def _tell(self, change: Change | None, stored: Sequence[Tool] = ()) -> None:
        if change is None:
            return
        for tool in stored:
            for finding in remark_shortened(tool):
                logger.warning("%s", finding.message)
        for listener in self._subscribers:
            try:
                listener(change)
            except Exception:
                logger.exception("a listener to registry changes failed")

    def _take_snapshot(self) -> Snapshot:
        with self._lock:
            self._snapshot = self._snapshot or Snapshot.of(self._space, self._revision)  # or it is there now
            return self._snapshot

    def _check_open(self) -> None:
        if self._closed is not None:
            raise RegistrationClosedError(self._closed)

    def quarantine(self, tool: Tool, error: DefinitionError) -> None:
        """Say why a tool is not published: once, not at every listing."""
        key = (tool.name, tool.version)
        if self._broken.get(key) is not error:
            self._broken[key] = error
            logger.warning("tool '%s' is not published: %s", tool.name, error.finding)


def as_tool(thing: Any) -> Tool:
    """A Tool out of a Tool, a tool object or anything callable."""
    if isinstance(thing, Tool):
        return thing
    if is_tool_object(thing):
        return Tool.from_object(thing)
    if callable(thing):
        return Tool.from_function(thing)
    raise InvalidToolError(f"Not a tool: {type(thing).__name__}", hint="add a function or a tool object")


def _check_policy(policy: OnDuplicate) -> OnDuplicate:
    if policy not in _POLICIES:
        raise ValueError(f"on_duplicate must be 'error', 'keep' or 'replace', got {policy!r}")
    return policy


def _check_tool(tool: Tool) -> list[Finding]:
    return [*remark_shortened(tool), *tool.check().findings]
