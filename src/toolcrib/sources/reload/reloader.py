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
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Self

from toolcrib.errors import (
    BatchError,
    ConfigurationError,
    DefinitionError,
    Finding,
    Location,
    RegistrationClosedError,
    SourceError,
)
from toolcrib.registry.folders import Folder
from toolcrib.registry.registry import Change, Report, ToolRegistry, is_known_finding
from toolcrib.registry.selection import count_kinds, label_of
from toolcrib.sources.reload.module_swap import ImportHook, ModuleSwap
from toolcrib.sources.reload.watched_files import (
    FileState,
    FileStates,
    SourceTree,
    find_subfolders,
    is_content_lost,
    read_states,
    state_of,
    state_of_folder,
    wait_for_change,
)
from toolcrib.tool import Tool

logger = logging.getLogger("toolcrib")

PAUSE_S = 0.2
"""The shortest time between two loads. Files must be stable for a quarter of it before a load."""
GRACE_S = 0.5
"""The time for a missing or empty file to come back: editors save like that."""
SLOW_S = 10.0
"""Loading that takes longer is logged."""
CHECK_EVERY_S = 1.0
"""The interval of checks where files cannot be watched."""
_MAX_TRIES = 10
_MAX_NAMED = 5

Load = Callable[[], tuple[Sequence[Tool], Sequence[Finding], Sequence[Path]]]
"""Loads all tools, resources and prompts and returns them with findings, and with the files and folders to
watch."""

WORLD_WRITABLE = "world-writable"
INVALID_SKILL = "invalid-skill"


@dataclass(frozen=True, slots=True)
class Watched:
    """The files that are checked: of a tree, others that were imported, and those of `published` folders.
    After a failed load, also the names in their folders: a missing file may appear."""

    tree: SourceTree
    files: frozenset[str]
    published: frozenset[Folder]
    is_failing: bool = False

    def read_states(self) -> FileStates:
        folders = {*self.tree.roots, *map(os.path.dirname, self.files)} if self.is_failing else ()
        states = read_states(self.tree.paths, self.files, folders)
        return {**states, **{f"{folder.path}/*": state_of_folder(folder) for folder in self.published}}

    def folders(self) -> frozenset[str]:
        return self.tree.folders(self.files)


@dataclass(slots=True)
class LoadResult:
    """The result of loading. Later checks compare `states`; `swap` is open until the result is used."""

    watched: Watched
    states: FileStates = field(default_factory=dict)
    tools: list[Tool] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    errors: list[Finding] = field(default_factory=list)
    swap: ModuleSwap | None = None

    def undo(self) -> None:
        if self.swap is not None:
            self.swap.undo()


class Reloader:
    """Reloads tools when files change. Use `async with`, or `await run()`, while the server serves.

    `load` loads everything again, on a thread. `paths` are the files and folders behind the tools of the
    registry, `findings` the known findings: an error that existed before does not prevent a reload.
    `resources` and `prompts` are the registries of a server for these. `after_reload` is awaited after each
    replacement, in a task of its own.
    """

    def __init__(
        self,
        load: Load,
        registry: ToolRegistry,
        *,
        paths: Iterable[str | Path],
        resources: ToolRegistry | None = None,
        prompts: ToolRegistry | None = None,
        findings: Iterable[Finding] = (),
        after_reload: Callable[[], Awaitable[None]] | None = None,
        pause_s: float = PAUSE_S,
    ) -> None:
        self.checks = 0
        self.reloads = 0
        self.failures = 0
        self._load = load
        self._registry = registry
        given = {"tool": registry, "resource": resources, "prompt": prompts}
        self._registries = {kind: each for kind, each in given.items() if each is not None}
        self._tools = [entry.tool for each in self._registries.values() for entry in each.entries()]
        self._findings: Collection[Finding] = tuple(findings)
        self._after_reload = after_reload
        self._pause_s = pause_s
        tree = SourceTree(paths)
        self._trees: tuple[SourceTree, ...] = (tree,)
        self._watched = Watched(tree, _files_of(tree), _find_published(self._tools, self._findings))
        self._states = self._watched.read_states()
        self._imported: dict[str, FileState | None] = {}
        self._refused: dict[str, Finding] = {}
        self._last_load = float("-inf")
        self._is_loading = False
        self._is_unwatchable = False
        self._hook = ImportHook(self._covers, self._note_import)
        self._turn = asyncio.Lock()
        self._stopped = threading.Event()
        self._interrupted = threading.Event()
        self._running: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Future[None]] = set()

    # --- life cycle ---

    async def run(self) -> None:
        """Watch files and reload until cancelled, or until the registry is closed."""
        self._stopped.clear()
        _log_refusal(_find_world_writable(self._states), "Changes will not be loaded")
        try:
            while not self._registry.sealed:
                self._interrupted.clear()
                try:
                    await self.check_now()
                except Exception:
                    logger.exception("checking for changed files failed")
                    await asyncio.sleep(1.0)
                await asyncio.to_thread(self._wait_for_change)
        finally:
            self.close()

    def close(self) -> None:
        """Restore the import system. A load in progress is discarded."""
        self._stopped.set()
        self._interrupted.set()
        self._hook.stop()

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
            self._hook.start()
            work = _start(self._check)
            try:
                waiting = asyncio.wrap_future(work)
                done, _ = await asyncio.wait({waiting}, timeout=SLOW_S)
                if not done:
                    text = "changed files have been loading for %g s; the previous tools stay active"
                    logger.warning(text, SLOW_S)
                result = await waiting
            except asyncio.CancelledError:
                work.add_done_callback(_undo)
                raise
            return result is not None and self._apply(result)

    # --- on a thread ---

    def _wait_for_change(self) -> None:
        watched = self._watched
        try:
            published = {each for folder in watched.published for each in find_subfolders(folder)}
            folders, names = watched.folders() | published, watched.tree.file_names()
            wait_for_change(folders, names, self._interrupted, self._is_outdated, published)
        except FileNotFoundError:
            self._interrupted.wait(0.1)  # a folder was just removed: the next check finds out
        except Exception as error:  # watchfiles is missing, or the system has no watches left
            if not self._is_unwatchable:
                self._is_unwatchable = True
                reason = f"{type(error).__name__}: {error}"
                logger.info("Files cannot be watched (%s): checking every %g s", reason, CHECK_EVERY_S)
            self._interrupted.wait(CHECK_EVERY_S)

    def _is_outdated(self) -> bool:
        self.checks += 1
        return bool(self._imported) or self._watched.read_states() != self._states

    def _check(self) -> LoadResult | None:
        """Load everything if files changed, and repeat while they change during the load."""
        tries = 0
        while True:
            self._add_late_imports()
            if not self._is_outdated():
                return None
            if self._stopped.wait(self._last_load + self._pause_s - time.monotonic()):
                return None
            tries += 1
            states = self._wait_until_stable()
            self._last_load = time.monotonic()
            self._is_loading = True
            try:
                result = self._refuse(states) or self._load_all()
            finally:
                self._is_loading = False
            imported = self._take_imported()
            is_steady = self._watched.read_states() == states and all(
                state_of(file) == state for file, state in imported.items()
            )
            # Loading may change files itself: then it would be repeated for ever.
            if is_steady or tries > _MAX_TRIES:
                self._trees = (result.watched.tree,)
                result.states = {
                    path: state and imported.get(state.real, state)
                    for path, state in result.watched.read_states().items()
                }
                return result
            result.undo()

    def _add_late_imports(self) -> None:
        """Watch files that were imported since the last load, for example by a call."""
        imported = self._take_imported()
        late = {file: state for file, state in imported.items() if file not in self._watched.files}
        if late:
            self._watched = replace(self._watched, files=self._watched.files | late.keys())
            self._states = {**self._states, **late}

    def _take_imported(self) -> dict[str, FileState | None]:
        imported, self._imported = self._imported, {}
        return dict(imported)  # calls on other threads may still add to the first

    def _wait_until_stable(self) -> FileStates:
        """Return the states of files once none is being saved and nothing changes."""
        until = time.monotonic() + GRACE_S
        while True:
            now = self._watched.read_states()
            is_saving = time.monotonic() < until and is_content_lost(self._states, now)
            has_stopped = self._stopped.wait(max(self._pause_s / 4, 0.02 if is_saving else 0.0))
            if has_stopped or (not is_saving and self._watched.read_states() == now):
                return now

    def _refuse(self, states: FileStates) -> LoadResult | None:
        """Return a failed result if files are world-writable or missing."""
        errors = _find_world_writable(states) or [
            Finding("missing-file", "error", f"{os.path.basename(path)} is missing", file=path)
            for path in self._watched.tree.paths
            if states.get(path) is None
        ]
        return LoadResult(replace(self._watched, is_failing=True), errors=errors) if errors else None

    def _load_all(self) -> LoadResult:
        old = self._watched.tree
        new = SourceTree(old.paths)  # a link may lead elsewhere now
        self._trees = (old, new)
        self._imported, self._refused = {}, {}

        def is_obsolete(folder: str) -> bool:
            file = os.path.join(folder, "_.py")
            return old.covers(file) and not new.covers(file)

        swap = ModuleSwap(self._modules, is_obsolete)
        try:
            report = Report()
            tools: list[Tool] = []
            paths: Sequence[str | Path] = ()
            try:
                found, findings, paths = self._load()
                report.findings += findings
                for kind, registry in self._registries.items():
                    tools += registry.prepare(_only(kind, found), report)
            except (Exception, SystemExit) as error:
                report.findings.append(_explain(error, new))
            known = self._findings
            errors = [*self._refused.values()] or [e for e in report.errors if not is_known_finding(e, known)]
            if errors:
                swap.undo()
                files = self._watched.files | self._imported.keys()
                failing = Watched(new, files, self._watched.published, is_failing=True)
                return LoadResult(failing, errors=errors)
            tree = SourceTree(paths)
            published = _find_published(tools, report.findings)
            watched = Watched(tree, _files_of(tree) | self._imported.keys(), published)
            return LoadResult(watched, {}, tools, report.findings, swap=swap)
        except BaseException:
            swap.undo()
            raise

    # --- called by the import hook ---

    def _covers(self, file: str) -> bool:
        return any(tree.covers(file) for tree in self._trees)

    def _modules(self) -> dict[str, ModuleType]:
        return {name: module for tree in self._trees for name, module in tree.modules().items()}

    def _note_import(self, file: str) -> None:
        """Note the state of a file that is imported; raise SourceError if it is world-writable."""
        state = state_of(file)
        if state is not None and state.world_writable:
            finding = self._refused[state.real] = _report_world_writable(state.real)
            raise SourceError(finding.message, source=Location(state.real), hint=finding.hint)
        self._imported[os.path.realpath(file)] = state
        if not self._is_loading:
            self._interrupted.set()  # its folder may have to be watched

    # --- on the loop ---

    def _apply(self, result: LoadResult) -> bool:
        """Replace the tools, or log why not. Nothing else runs on the loop in the meantime."""
        changes: list[Change] = []
        unsubscribe = [each.subscribe(changes.append) for each in self._registries.values()]
        try:
            errors: Sequence[Finding] = result.errors
            if not errors:
                report = self._replace(result.tools)
                if result.swap is not None:
                    result.swap.keep()
        except BatchError as error:
            errors = error.findings
        except RegistrationClosedError as error:
            logger.info("Reloading stopped: %s", error)
            self.close()
            return False
        finally:
            for end in unsubscribe:
                end()
            result.undo()  # has no effect after `keep`
        self._watched, self._states = result.watched, result.states
        if errors:
            self.failures += 1
            _log_refusal(errors, "Not reloaded, the previous tools stay active")
            return False
        findings = list(dict.fromkeys((*result.findings, *report.findings)))
        for finding in findings:
            if finding.level == "warning" and not is_known_finding(finding, self._findings):
                logger.warning("%s", finding)
        self._tools, self._findings = report.registered, findings
        self.reloads += 1
        for file in self._watched.files:
            linecache.checkcache(file)
        _log_success(self._tools, changes)
        if self._after_reload is not None:
            task = asyncio.create_task(_safely(self._after_reload))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return True

    def _replace(self, tools: Sequence[Tool]) -> Report:
        """Replace what is in each registry, or raise and change none of them."""
        parts = [
            (registry, _only(kind, self._tools), _only(kind, tools))
            for kind, registry in self._registries.items()
        ]
        parts = [(registry, old, new) for registry, old, new in parts if old or new]
        for registry, old, new in parts if len(parts) > 1 else ():
            registry.check_replacement(old, new, known=self._findings)
        report = Report()
        for registry, old, new in parts:
            done = registry.replace_all(old, new, known=self._findings)
            report.registered += done.registered
            report.findings += done.findings
        return report


def _only(kind: str, tools: Iterable[Tool]) -> list[Tool]:
    return [tool for tool in tools if tool.kind == kind]


def _files_of(tree: SourceTree) -> frozenset[str]:
    """Return the real paths of the imported modules of a tree."""
    files = (vars(module).get("__file__") for module in tree.modules().values())
    return frozenset(os.path.realpath(file) for file in files if isinstance(file, str))


def _find_published(tools: Iterable[Tool], findings: Iterable[Finding]) -> frozenset[Folder]:
    """Return the folders whose files are resources, and those of skills that cannot be read."""
    broken = [Path(found.file).parent for found in findings if found.code == INVALID_SKILL and found.file]
    folders = (getattr(tool, "folder", None) for tool in tools)
    return frozenset([*filter(None, folders), *(Folder(path) for path in broken if path.is_dir())])


def _find_world_writable(states: FileStates) -> list[Finding]:
    """Report files that every user of the machine can change."""
    return [_report_world_writable(state.real) for state in states.values() if state and state.world_writable]


def _report_world_writable(file: str) -> Finding:
    return Finding(
        WORLD_WRITABLE,
        "error",
        f"{os.path.basename(file)} can be changed by every user of this machine",
        file=file,
        hint=f"remove that permission from {file} or its folder: chmod o-w",
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


async def _safely(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except Exception:
        logger.exception("the task after a reload failed")


def _start(work: Callable[[], LoadResult | None]) -> Future[LoadResult | None]:
    """Start work on a daemon thread: an import may never return."""
    future: Future[LoadResult | None] = Future()
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


def _log_success(tools: Sequence[Tool], changes: Sequence[Change]) -> None:
    names = [name for change in changes for name in change.names]
    words = ", ".join(names[:_MAX_NAMED]) + (", ..." if len(names) > _MAX_NAMED else "")
    counts = count_kinds(map(label_of, tools))
    logger.info("Reloaded %s%s", counts, f", changed: {words}" if words else "")
