"""The engines that every test of a contract runs over, and machines whose clocks are set by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.support.system.manual_clock import Clock
from toolcrib.state.sqlite import file as sqlite_file
from toolcrib.state.sqlite.file import NS
from toolcrib.state.sqlite.state import SQLiteState


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
