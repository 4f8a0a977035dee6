"""Keeps a registry up to date with files: looks, loads afresh, exchanges.

Loading happens on a thread, the exchange on the loop. Only a set that loads without a new error, from files
that did not change meanwhile, takes the place of the one that serves; why another was refused is one record
in the log, and the next change is the next try. Knows the order of these steps; refuses to know how tools are
found.

One try to load everything afresh: either a set of tools that could serve, or why not.

Runs on a thread of its own and takes as long as the imports do. What it sets in motion in the import system
is undone where the set cannot serve. Knows the steps of loading; refuses to know when to try, and what comes
of it.
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
from toolcrib.sources.reload.files import (
    EMPTY,
    Eye,
    Footprint,
    Mark,
    Territory,
    Watch,
    digest_of,
    is_open_to_all,
    links_on,
    lost_in,
)
from toolcrib.sources.reload.modules import Reader, Turn
from toolcrib.tool import Tool

Load = Callable[[], tuple[Sequence[Tool], Sequence[Finding], Sequence[Path]]]
"""Loads everything: the tools, what there is to say of the rest, and the files and folders it comes from."""

OPEN = "world-writable"


@dataclass(frozen=True, slots=True)
class Scope:
    """What is looked at. After a failure, that includes the names of files: one that was missing may come."""

    territory: Territory
    files: frozenset[str]
    is_failing: bool = False

    @classmethod
    def of(cls, paths: Iterable[str | Path]) -> Scope:
        territory = Territory(paths)
        return cls(territory, _real_files(territory.modules().values()))

    def look(self, eye: Eye) -> Footprint:
        return eye.look(self.territory.paths, self.files, self._list_folders() if self.is_failing else ())

    def _list_folders(self) -> set[str]:
        return {*self.territory.roots, *(os.path.dirname(file) for file in self.files)}


@dataclass(slots=True)
class Attempt:
    """What came of a try. `scope` and `footprint` are what to compare with from now on; `turn` is there until
    it is decided which modules stay."""

    scope: Scope
    footprint: Footprint
    tools: list[Tool] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    errors: list[Finding] = field(default_factory=list)
    turn: Turn | None = None

    def undo(self) -> None:
        if self.turn is not None:
            self.turn.undo()

    def keep(self) -> None:
        if self.turn is not None:
            self.turn.keep()


class Loader:
    """Makes attempts. Between them it notes what is imported late, and gives a hint: that is watched too."""

    def __init__(self, load: Load, registry: ToolRegistry, *, allows_open: bool) -> None:
        self.eye = Eye()
        self.reader = Reader(self._covers, self._visit, self._note)
        self._load = load
        self._registry = registry
        self._allows_open = allows_open
        self._territories: tuple[Territory, ...] = ()
        self._reads: dict[str, bytes] = {}
        self._refused: dict[str, Finding] = {}
        self._is_trying = False
        self.hint: Callable[[], None] | None = None
        self.last_load = float("-inf")

    def begin(self, scope: Scope) -> Footprint:
        """The state to begin with: everything is loaded."""
        self._territories = (scope.territory,)
        return scope.look(self.eye)

    def find_open(self, footprint: Footprint) -> list[Finding]:
        """What every user of the machine could change, where that is not allowed."""
        marks = [mark for mark in footprint.values() if mark is not None and mark.is_open]
        return [] if self._allows_open else [_refuse_open(mark.real) for mark in marks]

    def take_late(self, scope: Scope, footprint: Footprint) -> tuple[Scope, Footprint]:
        """The same with what was imported since: a module that is imported by a call is watched too."""
        reads, self._reads = self._reads, {}
        late = {file: digest for file, digest in dict(reads).items() if file not in scope.files}
        if not late:
            return scope, footprint
        marks = {file: Mark(file, digest, is_open=False) for file, digest in late.items()}
        return replace(scope, files=scope.files | late.keys()), {**footprint, **marks}

    def attempt(
        self, scope: Scope, footprint: Footprint, known: Collection[Finding], *, insists: bool
    ) -> Attempt | None:
        """Load everything from files that are as in `footprint`; None where they changed meanwhile. Who
        `insists` gets what was loaded all the same: there are files that loading changes."""
        self._is_trying = True
        try:
            attempt = self._forbid(scope, footprint) or self._try(scope, known)
        finally:
            self._is_trying = False
        now = scope.look(self.eye)
        reads, self._reads = self._reads, {}
        is_steady = now == footprint and all(
            (mark := self.eye.mark(file)) is not None and mark.digest == digest
            for file, digest in reads.items()
        )
        if not is_steady and (not insists or lost_in(footprint, now) or self._is_torn(reads)):
            attempt.undo()
            return None
        self._territories = (attempt.scope.territory,)
        attempt.footprint = {
            path: mark and mark._replace(digest=reads.get(mark.real, mark.digest))
            for path, mark in attempt.scope.look(self.eye).items()
        }
        return attempt

    def _is_torn(self, reads: Mapping[str, bytes]) -> bool:
        """Whether a file was read in the moment when it was empty."""
        marks = (self.eye.mark(file) for file, digest in reads.items() if digest == EMPTY)
        return any(mark is not None and mark.digest != EMPTY for mark in marks)

    def _forbid(self, scope: Scope, footprint: Footprint) -> Attempt | None:
        """Why nothing is loaded at all."""
        errors = self.find_open(footprint) or [
            Finding("missing-file", "error", f"{os.path.basename(path)} is gone", file=path)
            for path in scope.territory.paths
            if footprint.get(path) is None
        ]
        return Attempt(replace(scope, is_failing=True), footprint, errors=errors) if errors else None

    def _try(self, scope: Scope, known: Collection[Finding]) -> Attempt:
        fresh = Territory(scope.territory.paths)  # a link may lead elsewhere by now
        self._territories = (scope.territory, fresh)
        self._reads, self._refused = {}, {}
        turn = Turn(self._modules, lambda root: scope.territory.holds(root) and not fresh.holds(root))
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
                turn.undo()
                files = scope.files | self._reads.keys()
                return Attempt(Scope(fresh, files, is_failing=True), {}, errors=errors)
            territory = Territory(paths)
            files = _real_files(territory.modules().values()) | self._reads.keys()
            return Attempt(Scope(territory, files), {}, tools, report.findings, turn=turn)
        except BaseException:
            turn.undo()
            raise

    # --- what the reader asks ---

    def _covers(self, file: str) -> bool:
        return any(territory.covers(file) for territory in self._territories)

    def _modules(self) -> dict[str, ModuleType]:
        found: dict[str, ModuleType] = {}
        for territory in self._territories:
            found |= territory.modules()
        return found

    def _visit(self, file: str) -> None:
        real = os.path.realpath(file)
        if not self._allows_open and is_open_to_all(real):
            finding = self._refused[real] = _refuse_open(real)
            raise SourceError(finding.message, source=Location(real), hint=finding.hint)

    def _note(self, file: str, content: bytes) -> None:
        self._reads[os.path.realpath(file)] = digest_of(content)
        if self.hint is not None and not self._is_trying:
            self.hint()


def _real_files(modules: Iterable[ModuleType]) -> frozenset[str]:
    files = (vars(module).get("__file__") for module in modules)
    return frozenset(os.path.realpath(file) for file in files if isinstance(file, str))


def _refuse_open(file: str) -> Finding:
    return Finding(
        OPEN,
        "error",
        f"{os.path.basename(file)} can be changed by every user of this machine",
        file=file,
        hint=f"take that right away from {file} or its folder (chmod o-w), or allow it",
    )


def _explain(error: BaseException, territory: Territory) -> Finding:
    """An error as a finding; where it names no place, it is that of what was to be loaded."""
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
    return finding if finding.file or not territory.paths else replace(finding, file=territory.paths[0])


logger = logging.getLogger("toolcrib")
T = TypeVar("T")

PAUSE_S = 0.2
"""There is at most one load in this much time."""
GRACE_S = 0.5
"""How long a file that has vanished or was emptied may take to come back: that is how editors save."""
SLOW_S = 10.0
"""After this much time of loading, the log says what is being waited for."""
QUIET_S = 0.3
"""Files that change whenever they are loaded must be quiet for this long, or else it is not the loading."""
_MAX_TRIES = 10
_MAX_NAMED = 5


class Reloader:
    """Watches what tools were loaded from. `async with` it, or `await run()`, while the server serves.

    `load` loads everything again and may take its time. `paths` are the files and folders that the tools
    came from, `tools` those of the registry that did (all, unless told), `findings` what was said of them: an
    error that was there from the beginning keeps nobody from mending something else. `after_swap` is awaited
    after each exchange, beside everything else.
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
        after_swap: Callable[[], Awaitable[None]] | None = None,
        pause_s: float = PAUSE_S,
    ) -> None:
        self.looks = 0
        self.reloads = 0
        self.failures = 0
        self._registry = registry
        self._tools = [entry.tool for entry in registry.entries()] if tools is None else list(tools)
        self._findings: Collection[Finding] = tuple(findings)
        self._after_swap = after_swap
        self._pause_s = pause_s
        self._loader = Loader(load, registry, allows_open=allow_world_writable)
        self._scope = Scope.of(paths)
        self._footprint: Footprint = self._loader.begin(self._scope)
        self._folders: frozenset[str] = frozenset()
        self._turn = asyncio.Lock()
        self._stopped = threading.Event()
        self._running: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Future[None]] = set()

    # --- living ---

    async def run(self) -> None:
        """Watch and reload until cancelled, or until the registry is closed."""
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()

        def hint() -> None:
            try:
                loop.call_soon_threadsafe(changed.set)
            except RuntimeError:
                pass  # the loop has ended before the watch

        watch: Watch | None = None
        self._stopped.clear()
        self._loader.hint = hint
        _log_refusal(self._loader.find_open(self._footprint), "Changes will not be loaded")
        try:
            while not self._registry.sealed:
                await self._check_safely()
                if watch is None or watch.is_stale or watch.folders != self._folders:
                    if watch is not None:
                        watch.stop()
                    watch = Watch(self._folders, self._names(), hint)
                await changed.wait()
                changed.clear()
        finally:
            self.close()
            if watch is not None:
                watch.stop()
                watch.join(1.0)  # it runs in foreign code, which must not outlive the interpreter

    def close(self) -> None:
        """Leave the import system as it was. What is being loaded will not be taken."""
        self._stopped.set()
        self._loader.reader.stop()

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
        """Look at the files now; where they changed, load and exchange. True: there was an exchange.

        For tests, and for machines where nothing can be watched: `run` does no more when it gets a hint.
        """
        async with self._turn:
            if self._stopped.is_set():
                return False
            self._loader.reader.start()
            work = _start(self._look)
            try:
                attempt = await self._wait(work)
                self.looks += 1
            except asyncio.CancelledError:
                work.add_done_callback(_undo)
                raise
            return attempt is not None and self._take(attempt)

    async def _check_safely(self) -> None:
        try:
            await self.check_now()
        except Exception:
            logger.exception("looking for changed files failed")
            await asyncio.sleep(1.0)

    async def _wait(self, work: Future[T]) -> T:
        waiting = asyncio.wrap_future(work)
        done, _ = await asyncio.wait({waiting}, timeout=SLOW_S)
        if not done:
            logger.warning("the changed files have been loading for %g s; what served before goes on", SLOW_S)
        return await waiting

    def _names(self) -> list[str]:
        """Files that matter whatever they are called, as the watch spells them."""
        paths = self._scope.territory.paths
        named = [*paths, *(link for path in paths for link in links_on(path))]
        return [
            os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)) for path in named
        ]

    # --- on a thread ---

    def _look(self) -> Attempt | None:
        """Load everything if the files changed, and until they have not changed while that was done."""
        attempt: Attempt | None = None
        tries = 0
        while attempt is None and self._is_changed():
            if self._stopped.wait(self._loader.last_load + self._pause_s - time.monotonic()):
                return None
            tries += 1
            insists = tries > _MAX_TRIES
            footprint = self._settle(QUIET_S if insists else 0.0)
            attempt = self._loader.attempt(self._scope, footprint, self._findings, insists=insists)
        scope = self._scope if attempt is None else attempt.scope
        self._folders = scope.territory.folders(scope.files)
        return attempt

    def _is_changed(self) -> bool:
        self._scope, self._footprint = self._loader.take_late(self._scope, self._footprint)
        return self._scope.look(self._loader.eye) != self._footprint

    def _settle(self, quiet_s: float) -> Footprint:
        """What the files are like, when none of them seems to be in the middle of being saved, and nothing
        has changed for a while."""
        until = time.monotonic() + GRACE_S
        while True:
            now = self._scope.look(self._loader.eye)
            if time.monotonic() < until and lost_in(self._footprint, now):
                if self._stopped.wait(0.02):
                    return now
            elif not quiet_s or self._stopped.wait(quiet_s) or self._scope.look(self._loader.eye) == now:
                return now

    # --- on the loop ---

    def _take(self, attempt: Attempt) -> bool:
        """Exchange the tools, or say why not. Nothing else runs on the loop meanwhile."""
        changes: list[Change] = []
        unsubscribe = self._registry.subscribe(changes.append)
        try:
            errors: Sequence[Finding] = attempt.errors
            if not errors:
                report = self._registry.replace_all(self._tools, attempt.tools, known=self._findings)
                attempt.keep()
        except BatchError as error:
            errors = error.findings
        except RegistrationClosedError as error:
            logger.info("No more reloading: %s", error)
            self.close()
            return False
        finally:
            unsubscribe()
            attempt.undo()  # unless it was kept
        self._scope, self._footprint = attempt.scope, attempt.footprint
        if errors:
            self.failures += 1
            _log_refusal(errors, "Not reloaded, what served before goes on")
            return False
        findings = list(dict.fromkeys((*attempt.findings, *report.findings)))
        _log_news(findings, self._findings)
        self._tools, self._findings = report.registered, findings
        self.reloads += 1
        for file in self._scope.files:
            linecache.checkcache(file)
        _log_success(self._tools, changes)
        self._follow_up()
        return True

    def _follow_up(self) -> None:
        if self._after_swap is not None:
            task = asyncio.create_task(_safely(self._after_swap))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _safely(work: Callable[[], Awaitable[None]]) -> None:
    try:
        await work()
    except Exception:
        logger.exception("what follows a reload failed")


def _start(work: Callable[[], T]) -> Future[T]:
    """Begin work on a thread that keeps nobody from ending: an import may never return."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="toolcrib-reload", daemon=True).start()
    return future


def _undo(work: Future[Attempt | None]) -> None:
    """Nobody waits for this attempt any more."""
    attempt = None if work.exception() else work.result()
    if attempt is not None:
        attempt.undo()


def _log_refusal(findings: Sequence[Finding], words: str) -> None:
    if not findings:
        return
    first = findings[0]
    level = logging.WARNING if first.code == OPEN else logging.ERROR
    lines = [str(finding) for finding in findings[:_MAX_NAMED]]
    if len(findings) > _MAX_NAMED:
        lines.append(f"and {len(findings) - _MAX_NAMED} more")
    extra = {"file": first.file, "line": first.line, "errors": len(findings)}
    logger.log(level, "%s: %s", words, "\n  ".join(lines), extra=extra)


def _log_news(findings: Iterable[Finding], known: Collection[Finding]) -> None:
    for finding in findings:
        if finding.level == "warning" and not is_known_finding(finding, known):
            logger.warning("%s", finding)


def _log_success(tools: Sequence[Tool], changes: Sequence[Change]) -> None:
    names = [name for change in changes for name in change.names]
    words = ", ".join(names[:_MAX_NAMED]) + (", ..." if len(names) > _MAX_NAMED else "")
    logger.info("Reloaded %d tools%s", len(tools), f", changed: {words}" if words else "")
