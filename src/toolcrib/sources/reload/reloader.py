"""Reload tools when their files change: watch, load everything again, replace.

Tools are loaded on a thread and replaced on the event loop. They are replaced only if they load without new
errors, from files that did not change in the meantime. Otherwise the reason is logged, and the current tools
stay until the next change.
"""

from __future__ import annotations

import asyncio
import linecache
import logging
import os
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Self, TypeVar

from toolcrib.errors import (
    BatchError,
    ConfigurationError,
    DefinitionError,
    Finding,
    Location,
    RegistrationClosedError,
    SourceError,
)
from toolcrib.registry.registry import Change, Report, ToolRegistry, is_known_finding
from toolcrib.sources.reload.module_swap import ModuleSwap, SourceImporter
from toolcrib.sources.reload.watched_files import (
    EMPTY,
    FileState,
    FileStates,
    FolderWatcher,
    SourceTree,
    StateReader,
    content_digest,
    find_links,
    is_content_lost,
    is_world_writable,
)
from toolcrib.tool import Tool

logger = logging.getLogger("toolcrib")
T = TypeVar("T")

PAUSE_S = 0.2
"""The shortest time between two loads."""
GRACE_S = 0.5
"""The time for a missing or empty file to come back: editors save like that."""
SLOW_S = 10.0
"""Loading that takes longer is logged."""
QUIET_S = 0.3
"""Files that change with every load must be stable for this long before a forced load."""
_MAX_TRIES = 10
_MAX_NAMED = 5

Load = Callable[[], tuple[Sequence[Tool], Sequence[Finding], Sequence[Path]]]
"""Loads all tools and returns them with findings, and with the files and folders to watch."""

WORLD_WRITABLE = "world-writable"


@dataclass(frozen=True, slots=True)
class Scope:
    """The files to check. After a failure, also the names in folders: a missing file may appear."""

    tree: SourceTree
    files: frozenset[str]
    is_failing: bool = False

    @classmethod
    def of(cls, paths: Iterable[str | Path]) -> Scope:
        tree = SourceTree(paths)
        return cls(tree, _real_files(tree.modules().values()))

    def read_states(self, reader: StateReader) -> FileStates:
        return reader.read_states(
            self.tree.paths, self.files, self._list_folders() if self.is_failing else ()
        )

    def _list_folders(self) -> set[str]:
        return {*self.tree.roots, *(os.path.dirname(file) for file in self.files)}


@dataclass(slots=True)
class LoadResult:
    """The result of loading. Later checks compare with `scope` and `states`; `swap` is open until `keep` or
    `undo`."""

    scope: Scope
    states: FileStates
    tools: list[Tool] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    errors: list[Finding] = field(default_factory=list)
    swap: ModuleSwap | None = None

    def undo(self) -> None:
        if self.swap is not None:
            self.swap.undo()

    def keep(self) -> None:
        if self.swap is not None:
            self.swap.keep()


class ToolLoader:
    """Loads all tools again, and records imports between loads, because those files are watched too."""

    def __init__(self, load: Load, registry: ToolRegistry, *, allow_world_writable: bool) -> None:
        self.reader = StateReader()
        self.importer = SourceImporter(self._covers, self._check_file, self._note)
        self._load = load
        self._registry = registry
        self._allow_world_writable = allow_world_writable
        self._trees: tuple[SourceTree, ...] = ()
        self._reads: dict[str, bytes] = {}
        self._refused: dict[str, Finding] = {}
        self._is_loading = False
        self.on_late_import: Callable[[], None] | None = None
        self.last_load = float("-inf")

    def begin(self, scope: Scope) -> FileStates:
        """Return the states of the files at the start."""
        self._trees = (scope.tree,)
        return scope.read_states(self.reader)

    def find_world_writable(self, states: FileStates) -> list[Finding]:
        """Report files that every user of the machine can change, unless that is allowed."""
        if self._allow_world_writable:
            return []
        return [
            _report_world_writable(state.real) for state in states.values() if state and state.world_writable
        ]

    def add_late_imports(self, scope: Scope, states: FileStates) -> tuple[Scope, FileStates]:
        """Return scope and states with the files imported since the last load, for example by a call."""
        reads, self._reads = self._reads, {}
        late = {file: digest for file, digest in dict(reads).items() if file not in scope.files}
        if not late:
            return scope, states
        found_states = {file: FileState(file, digest, world_writable=False) for file, digest in late.items()}
        return replace(scope, files=scope.files | late.keys()), {**states, **found_states}

    def load(
        self, scope: Scope, states: FileStates, known: Collection[Finding], *, force: bool
    ) -> LoadResult | None:
        """Load everything from files with these states; return None where they changed in the meantime.
        With `force`, changed files are accepted: loading may change files itself."""
        self._is_loading = True
        try:
            result = self._refuse(scope, states) or self._load_all(scope, known)
        finally:
            self._is_loading = False
        now = scope.read_states(self.reader)
        reads, self._reads = self._reads, {}
        is_steady = now == states and all(
            (state := self.reader.state_of(file)) is not None and state.digest == digest
            for file, digest in reads.items()
        )
        if not is_steady and (not force or is_content_lost(states, now) or self._is_torn(reads)):
            result.undo()
            return None
        self._trees = (result.scope.tree,)
        result.states = {
            path: state and state._replace(digest=reads.get(state.real, state.digest))
            for path, state in result.scope.read_states(self.reader).items()
        }
        return result

    def _is_torn(self, reads: Mapping[str, bytes]) -> bool:
        """Return whether a file was read while an editor had emptied it to save it."""
        found_states = (self.reader.state_of(file) for file, digest in reads.items() if digest == EMPTY)
        return any(state is not None and state.digest != EMPTY for state in found_states)

    def _refuse(self, scope: Scope, states: FileStates) -> LoadResult | None:
        """Return a failed result if files are world-writable or missing."""
        errors = self.find_world_writable(states) or [
            Finding("missing-file", "error", f"{os.path.basename(path)} is missing", file=path)
            for path in scope.tree.paths
            if states.get(path) is None
        ]
        return LoadResult(replace(scope, is_failing=True), states, errors=errors) if errors else None

    def _load_all(self, scope: Scope, known: Collection[Finding]) -> LoadResult:
        fresh = SourceTree(scope.tree.paths)  # a link may lead elsewhere now
        self._trees = (scope.tree, fresh)
        self._reads, self._refused = {}, {}
        swap = ModuleSwap(self._modules, lambda root: scope.tree.holds(root) and not fresh.holds(root))
        try:
            report = Report()
            tools: list[Tool] = []
            paths: Sequence[str | Path] = fresh.paths
            try:
                self.last_load = time.monotonic()
                found, findings, paths = self._load()
                report.findings += findings
                tools = self._registry.prepare(found, report)
            except (Exception, SystemExit) as error:
                report.findings.append(_explain(error, fresh))
            errors = [*self._refused.values()] or [e for e in report.errors if not is_known_finding(e, known)]
            if errors:
                swap.undo()
                files = scope.files | self._reads.keys()
                return LoadResult(Scope(fresh, files, is_failing=True), {}, errors=errors)
            tree = SourceTree(paths)
            files = _real_files(tree.modules().values()) | self._reads.keys()
            return LoadResult(Scope(tree, files), {}, tools, report.findings, swap=swap)
        except BaseException:
            swap.undo()
            raise

    # --- called by the importer ---

    def _covers(self, file: str) -> bool:
        return any(tree.covers(file) for tree in self._trees)

    def _modules(self) -> dict[str, ModuleType]:
        found: dict[str, ModuleType] = {}
        for tree in self._trees:
            found |= tree.modules()
        return found

    def _check_file(self, file: str) -> None:
        real = os.path.realpath(file)
        if not self._allow_world_writable and is_world_writable(real):
            finding = self._refused[real] = _report_world_writable(real)
            raise SourceError(finding.message, source=Location(real), hint=finding.hint)

    def _note(self, file: str, content: bytes) -> None:
        self._reads[os.path.realpath(file)] = content_digest(content)
        if self.on_late_import is not None and not self._is_loading:
            self.on_late_import()


def _real_files(modules: Iterable[ModuleType]) -> frozenset[str]:
    files = (vars(module).get("__file__") for module in modules)
    return frozenset(os.path.realpath(file) for file in files if isinstance(file, str))


def _report_world_writable(file: str) -> Finding:
    return Finding(
        WORLD_WRITABLE,
        "error",
        f"{os.path.basename(file)} can be changed by every user of this machine",
        file=file,
        hint=f"remove that permission from {file} or its folder (chmod o-w), or allow it",
    )


def _explain(error: BaseException, tree: SourceTree) -> Finding:
    """Return an error as a finding; without a location, with that of the first path."""
    if isinstance(error, DefinitionError):
        finding = error.finding
    elif isinstance(error, ConfigurationError):
        finding = Finding(
            error.code, "error", error.message, file=error.file, line=error.line, hint=error.hint
        )
    else:
        text = f"{type(error).__name__}: {error}"
        last = traceback.extract_tb(error.__traceback__)[-1]
        finding = Finding(SourceError.code, "error", text, file=last.filename, line=last.lineno)
    return finding if finding.file or not tree.paths else replace(finding, file=tree.paths[0])


class Reloader:
    """Reloads tools when files change. Use `async with`, or `await run()`, while the server serves.

    `load` loads everything again, on a thread. `paths` are the files and folders behind the tools, `tools`
    the tools of the registry that come from them (by default all), `findings` the known findings: an error
    that existed before does not prevent a reload. `after_reload` is awaited after each replacement, in a
    task of its own.
    """

    def __init__(
        self,
        load: Load,
        registry: ToolRegistry,
        *,
        paths: Iterable[str | Path],
        tools: Iterable[Tool] | None = None,
        findings: Iterable[Finding] = (),
        allow_world_writable: bool = False,
        after_reload: Callable[[], Awaitable[None]] | None = None,
        pause_s: float = PAUSE_S,
    ) -> None:
        self.checks = 0
        self.reloads = 0
        self.failures = 0
        self._registry = registry
        self._tools = [entry.tool for entry in registry.entries()] if tools is None else list(tools)
        self._findings: Collection[Finding] = tuple(findings)
        self._after_reload = after_reload
        self._pause_s = pause_s
        self._loader = ToolLoader(load, registry, allow_world_writable=allow_world_writable)
        self._scope = Scope.of(paths)
        self._states: FileStates = self._loader.begin(self._scope)
        self._folders: frozenset[str] = frozenset()
        self._turn = asyncio.Lock()
        self._stopped = threading.Event()
        self._running: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Future[None]] = set()

    # --- life cycle ---

    async def run(self) -> None:
        """Watch files and reload until cancelled, or until the registry is closed."""
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()

        def wake() -> None:
            try:
                loop.call_soon_threadsafe(changed.set)
            except RuntimeError:
                pass  # the loop has ended before the watcher

        watch: FolderWatcher | None = None
        self._stopped.clear()
        self._loader.on_late_import = wake
        _log_refusal(self._loader.find_world_writable(self._states), "Changes will not be loaded")
        try:
            while not self._registry.sealed:
                await self._check_safely()
                if watch is None or watch.is_stale or watch.folders != self._folders:
                    if watch is not None:
                        watch.stop()
                    watch = FolderWatcher(self._folders, self._names(), wake)
                await changed.wait()
                changed.clear()
        finally:
            self.close()
            if watch is not None:
                watch.stop()
                watch.join(1.0)  # native code must not outlive the interpreter

    def close(self) -> None:
        """Restore the import system. A load in progress is discarded."""
        self._stopped.set()
        self._loader.importer.stop()

    async def __aenter__(self) -> Self:
        self._running = asyncio.create_task(self.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})

    async def check_now(self) -> bool:
        """Check the files now, load and replace where they changed; return whether tools were replaced.

        For tests, and for machines where files cannot be watched.
        """
        async with self._turn:
            if self._stopped.is_set():
                return False
            self._loader.importer.start()
            work = _start(self._check)
            try:
                result = await self._wait(work)
                self.checks += 1
            except asyncio.CancelledError:
                work.add_done_callback(_undo)
                raise
            return result is not None and self._apply(result)

    async def _check_safely(self) -> None:
        try:
            await self.check_now()
        except Exception:
            logger.exception("checking for changed files failed")
            await asyncio.sleep(1.0)

    async def _wait(self, work: Future[T]) -> T:
        waiting = asyncio.wrap_future(work)
        done, _ = await asyncio.wait({waiting}, timeout=SLOW_S)
        if not done:
            logger.warning("changed files have been loading for %g s; the previous tools stay active", SLOW_S)
        return await waiting

    def _names(self) -> list[str]:
        """Return the real paths of watched files that may not be Python files."""
        paths = self._scope.tree.paths
        named = [*paths, *(link for path in paths for link in find_links(path))]
        return [
            os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)) for path in named
        ]

    # --- on a thread ---

    def _check(self) -> LoadResult | None:
        """Load everything if files changed, and repeat while they change during the load."""
        result: LoadResult | None = None
        tries = 0
        while result is None and self._is_changed():
            if self._stopped.wait(self._loader.last_load + self._pause_s - time.monotonic()):
                return None
            tries += 1
            force = tries > _MAX_TRIES
            states = self._wait_until_stable(QUIET_S if force else 0.0)
            result = self._loader.load(self._scope, states, self._findings, force=force)
        scope = self._scope if result is None else result.scope
        self._folders = scope.tree.folders(scope.files)
        return result

    def _is_changed(self) -> bool:
        self._scope, self._states = self._loader.add_late_imports(self._scope, self._states)
        return self._scope.read_states(self._loader.reader) != self._states

    def _wait_until_stable(self, quiet_s: float) -> FileStates:
        """Return the states of files once none is being saved and nothing changes."""
        until = time.monotonic() + GRACE_S
        while True:
            now = self._scope.read_states(self._loader.reader)
            if time.monotonic() < until and is_content_lost(self._states, now):
                if self._stopped.wait(0.02):
                    return now
            elif (
                not quiet_s
                or self._stopped.wait(quiet_s)
                or self._scope.read_states(self._loader.reader) == now
            ):
                return now

    # --- on the loop ---

    def _apply(self, result: LoadResult) -> bool:
        """Replace the tools, or log why not. Nothing else runs on the loop in the meantime."""
        changes: list[Change] = []
        unsubscribe = self._registry.subscribe(changes.append)
        try:
            errors: Sequence[Finding] = result.errors
            if not errors:
                report = self._registry.replace_all(self._tools, result.tools, known=self._findings)
                result.keep()
        except BatchError as error:
            errors = error.findings
        except RegistrationClosedError as error:
            logger.info("Reloading stopped: %s", error)
            self.close()
            return False
        finally:
            unsubscribe()
            result.undo()  # has no effect after `keep`
        self._scope, self._states = result.scope, result.states
        if errors:
            self.failures += 1
            _log_refusal(errors, "Not reloaded, the previous tools stay active")
            return False
        findings = list(dict.fromkeys((*result.findings, *report.findings)))
        _log_new_warnings(findings, self._findings)
        self._tools, self._findings = report.registered, findings
        self.reloads += 1
        for file in self._scope.files:
            linecache.checkcache(file)
        _log_success(self._tools, changes)
        self._follow_up()
        return True

    def _follow_up(self) -> None:
        if self._after_reload is not None:
            task = asyncio.create_task(_safely(self._after_reload))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _safely(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except Exception:
        logger.exception("the task after a reload failed")


def _start(work: Callable[[], T]) -> Future[T]:
    """Start work on a daemon thread: an import may never return."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="toolcrib-reload", daemon=True).start()
    return future


def _undo(work: Future[LoadResult | None]) -> None:
    """Undo a load whose caller has left."""
    result = None if work.exception() else work.result()
    if result is not None:
        result.undo()


def _log_refusal(findings: Sequence[Finding], message: str) -> None:
    if not findings:
        return
    first = findings[0]
    level = logging.WARNING if first.code == WORLD_WRITABLE else logging.ERROR
    lines = [str(finding) for finding in findings[:_MAX_NAMED]]
    if len(findings) > _MAX_NAMED:
        lines.append(f"and {len(findings) - _MAX_NAMED} more")
    extra = {"file": first.file, "line": first.line, "errors": len(findings)}
    logger.log(level, "%s: %s", message, "\n  ".join(lines), extra=extra)


def _log_new_warnings(findings: Iterable[Finding], known: Collection[Finding]) -> None:
    for finding in findings:
        if finding.level == "warning" and not is_known_finding(finding, known):
            logger.warning("%s", finding)


def _log_success(tools: Sequence[Tool], changes: Sequence[Change]) -> None:
    names = [name for change in changes for name in change.names]
    words = ", ".join(names[:_MAX_NAMED]) + (", ..." if len(names) > _MAX_NAMED else "")
    logger.info("Reloaded %d tools%s", len(tools), f", changed: {words}" if words else "")
