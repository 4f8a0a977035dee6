"""One try to load everything afresh: either a set of tools that could serve, or why not.

Runs on a thread of its own and takes as long as the imports do. What it sets in motion in the import system
is undone where the set cannot serve. Knows the steps of loading; refuses to know when to try, and what comes
of it.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType

from toolcrib.errors import ConfigurationError, DefinitionError, SourceError
from toolcrib.finding import Finding, Source
from toolcrib.registry import Report, ToolRegistry
from toolcrib.reload.footprint import EMPTY, Eye, Footprint, Mark, digest_of, is_open_to_all, lost_in
from toolcrib.reload.modules import Reader, Turn
from toolcrib.reload.territory import Territory
from toolcrib.swap import is_known
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
            errors = [*self._refused.values()] or [e for e in report.errors if not is_known(e, known)]
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
            raise SourceError(finding.message, source=Source(real), hint=finding.hint)

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
