"""Keeps a registry up to date with files: looks, loads afresh, exchanges.

Loading happens on a thread, the exchange on the loop. Only a set that loads without a new error, from files
that did not change meanwhile, takes the place of the one that serves; why another was refused is one record
in the log, and the next change is the next try. Knows the order of these steps; refuses to know how tools are
found.
"""

from __future__ import annotations

import asyncio
import linecache
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from toolcrib.errors import BatchError, RegistrationClosedError
from toolcrib.finding import Finding
from toolcrib.registry import Change, ToolRegistry
from toolcrib.reload.attempt import OPEN, Attempt, Load, Loader, Scope
from toolcrib.reload.footprint import Footprint, lost_in
from toolcrib.reload.territory import links_on
from toolcrib.reload.watch import Watch
from toolcrib.swap import is_known
from toolcrib.tool import Tool

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
                report = self._registry.swap(self._tools, attempt.tools, known=self._findings)
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
        if finding.level == "warning" and not is_known(finding, known):
            logger.warning("%s", finding)


def _log_success(tools: Sequence[Tool], changes: Sequence[Change]) -> None:
    names = [name for change in changes for name in change.names]
    words = ", ".join(names[:_MAX_NAMED]) + (", ..." if len(names) > _MAX_NAMED else "")
    logger.info("Reloaded %d tools%s", len(tools), f", changed: {words}" if words else "")
