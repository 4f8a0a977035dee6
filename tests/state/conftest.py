"""The engines that every test of a contract runs over, and machines whose clocks are set by hand."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.system.manual_clock import Clock
from toolcrib.state.base import Counters, Lease, Limit, Limits, Refused
from toolcrib.state.memory import MemoryCounters
from toolcrib.state.sqlite import counters as sqlite_counters
from toolcrib.state.sqlite import file as sqlite_file
from toolcrib.state.sqlite.file import NS
from toolcrib.state.sqlite.state import SQLiteState

YEAR_S = 366 * 86_400
"""A period in which nothing of a rate comes back during a test."""


class Machine:
    """A machine with clocks, and processes that share a file. Without a path each has its own memory."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.uptime = Clock(1_000.0)
        self.wall = Clock(1_700_000_000.0)
        self.boot = "first"
        self.processes: list[SQLiteState] = []

    def start(self, *, is_shared: bool = False) -> SQLiteState:
        process = SQLiteState(
            self.path, is_shared=is_shared, now_ns=lambda: int(self.uptime() * NS), wall=self.wall
        )
        self.processes.append(process)
        return process

    def pass_s(self, seconds: float) -> None:
        self.uptime.pass_s(seconds)
        self.wall.pass_s(seconds)

    def count_alone(self) -> MemoryCounters:
        """Return counters of a process that shares nothing."""
        return MemoryCounters(now_ns=lambda: int(self.uptime() * NS), wall=self.wall)

    def freeze(self, process: SQLiteState) -> None:
        """Stop the thread of a process from renewing its lease."""
        process.file.is_in_use.clear()

    def restart(self, pause_s: float) -> None:
        """Restart, which takes a while. Its processes are gone."""
        for process in self.processes:
            self.freeze(process)
        self.wall.pass_s(pause_s)
        self.uptime.at_s = 5.0
        self.boot = f"{self.boot} and again"


@pytest.fixture
async def make_machine(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[[Path | None], Machine]]:
    machines: list[Machine] = []

    def make(path: Path | None) -> Machine:
        machines.append(machine := Machine(path))
        monkeypatch.setattr(sqlite_file, "find_boot", lambda: machine.boot)
        return machine

    yield make
    for machine in machines:
        for process in machine.processes:
            await process.close()


@pytest.fixture
def machine(tmp_path: Path, make_machine: Callable[[Path | None], Machine]) -> Machine:
    """A machine whose processes share a file."""
    return make_machine(tmp_path / "state.db")


@pytest.fixture(params=["memory", "sqlite"])
def engine(
    request: pytest.FixtureRequest, tmp_path: Path, make_machine: Callable[[Path | None], Machine]
) -> Machine:
    """A machine for one process of each engine."""
    return make_machine(None if request.param == "memory" else tmp_path / "state.db")


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that count exactly: a machine that is busy with other things is not an outage."""
    monkeypatch.setattr(sqlite_counters, "WAIT_S", 30.0)
    monkeypatch.setattr(sqlite_file, "LOCK_S", 30.0)


@pytest.fixture
def noon(engine: Machine) -> None:
    """Begin at noon UTC."""
    engine.wall.at_s = 20_000.5 * 86_400


@pytest.fixture
def counters(engine: Machine, patient: None) -> Counters:
    """The counters of each engine."""
    return engine.count_alone() if engine.path is None else engine.start().counters


def limits_of(*each: Limit, when_down: Any = "local") -> Limits:
    return Limits(each, "ana report", when_down)


def rate_of(maximum: int, period_s: float, *, burst: int | None = None, key: str = "rate") -> Limit:
    return Limit(
        "rate", f"{key} {maximum} {period_s} {burst}", maximum, round(period_s * 1000), burst or maximum
    )


def budget_of(maximum: int, key: str = "budget") -> Limit:
    return Limit("budget", key, maximum, 0, 0)


def slots_of(maximum: int, key: str = "slots") -> Limit:
    return Limit("concurrency", key, maximum, 0, 0)


async def ask(counters: Counters, limits: Limits, **given: Any) -> Lease | Refused:
    answer = counters.acquire(limits, **given)
    return await answer if inspect.isawaitable(answer) else answer


async def admit(counters: Counters, limits: Limits, **given: Any) -> Lease:
    lease = await ask(counters, limits, **given)
    assert isinstance(lease, Lease), lease
    return lease


async def refuse(counters: Counters, limits: Limits, **given: Any) -> Refused:
    refused = await ask(counters, limits, **given)
    assert isinstance(refused, Refused)
    return refused


async def count_admitted(counters: Counters, limits: Limits, attempts: int) -> int:
    """Return how many of some calls are admitted that run and end one after the other."""
    admitted = 0
    for _ in range(attempts):
        if isinstance(lease := await ask(counters, limits), Lease):
            counters.release(lease, ran=True)
            admitted += 1
    return admitted
