"""Where tools live: one registry, one order, one revision.

Writers take a lock and change the key space; readers use an immutable snapshot, made at the first read
after a write, and take no lock. Code of others (generators, tool objects, listeners) never runs under the
lock. Knows tools, names and definitions. Refuses to know where tools come from and how they run.

What changing a registry came to: the change that is told, and the report of a batch.

Knows findings and tools as results. Refuses to know how anything is stored.

What it takes to put one set of tools in the place of another: whose place, which switch, what is new.

A tool is the same where it says and does what it did; it may have moved in its file, and stand in a module
that was loaded afresh. Knows key spaces and code objects. Refuses to know locks, events and files.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any, Literal, get_args

from toolcrib.definition import NAME_RULES, NameRule, ToolDefinition
from toolcrib.errors import (
    NO_LOCATION,
    BatchError,
    DefinitionError,
    Finding,
    InvalidToolError,
    RegistrationClosedError,
    ToolAlreadyExistsError,
    ToolNotFoundError,
)
from toolcrib.registry.index import Entry, KeySpace, Snapshot, name_tool, remark_shortened
from toolcrib.registry.selection import select
from toolcrib.tool import Tool, is_tool_object

ChangeKind = Literal["added", "removed", "replaced", "enabled", "disabled", "changed"]


@dataclass(frozen=True, slots=True)
class Change:
    """One effective change, told to subscribers after it happened. A batch that both added and replaced
    tools is "changed"."""

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

    def __str__(self) -> str:
        lines = [f"{len(self.registered)} registered, {len(self.errors)} refused"]
        return "\n".join([*lines, *(f"  {finding}" for finding in self.findings)])


def finding_of(thing: Any, error: Exception) -> Finding:
    """What a report says of a thing that could not become a tool."""
    if isinstance(error, DefinitionError):
        return error.finding
    words = f"{type(thing).__name__} cannot be read as a tool: {type(error).__name__}: {error}"
    return InvalidToolError(words).finding


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
                replace(old.definition, source=NO_LOCATION) == replace(new.definition, source=NO_LOCATION)
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
                report.findings.append(finding_of(thing, error))
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
