"""The supervisor of `toolcrib serve --workers`, with small programs in place of servers."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import tempfile
from typing import Any, Self

import pytest

from tests.support.servers.serve_process import is_running, wait_until
from toolcrib.cli import workers
from toolcrib.cli.workers import Supervisor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs descriptors to inherit, and /proc")

READ = (
    "import json, os, signal, sys, time; config = json.loads(sys.stdin.readline()); "
    "send = lambda **message: print(json.dumps(message), flush=True); "
)
SERVE = READ + (
    "send(loaded={'pid': os.getpid(), 'group': os.getpgrp(), **config}); sys.stdin.readline(); "
    "send(serves=True); sys.stdin.read()"  # until the parent closes it, or is gone
)
DEAF = SERVE + "; time.sleep(600)"
TIMEOUT_S = 30.0


class Running:
    """A running supervisor: the report of its first worker, its warnings, and the pids of all workers."""

    def __init__(self, program: str, count: int = 2, drain_s: float = 10.0) -> None:
        self.warnings: list[str] = []
        self.report: dict[str, Any] = {}
        self.pids: set[int] = set()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.supervisor = Supervisor(
            [sys.executable, "-I", "-S", "-c", program],
            count,
            make_config=lambda number, sockets: {"index": number - 1, "numbers": sockets},
            open_sockets=lambda: [self.socket.dup()],
            warn=self.warnings.append,
            drain_s=drain_s,
        )
        self.task: asyncio.Task[int] = asyncio.create_task(self.supervisor.run(self._take))

    def _take(self, loaded: Any) -> None:
        self.report = loaded

    async def __aenter__(self) -> Self:
        await self.until(lambda: bool(self.report) or self.task.done())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.supervisor.stop()
        await asyncio.wait({self.task}, timeout=TIMEOUT_S)
        self.socket.close()
        await asyncio.to_thread(wait_until, lambda: not [pid for pid in self.pids if is_running(pid)])

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                self.pids |= set(self.supervisor.pids)
                await asyncio.sleep(0.01)
            self.pids |= set(self.supervisor.pids)

    async def end(self) -> int:
        self.supervisor.stop()
        return await asyncio.wait_for(self.task, TIMEOUT_S)


async def test_each_worker_gets_sockets_and_configuration_and_the_first_reports() -> None:
    async with Running(SERVE, count=3) as running:
        assert len(running.supervisor.pids) == 3
        assert running.report["pid"] in running.supervisor.pids
        assert running.report["index"] == 0
        assert len(running.report["numbers"]) == 1
        assert await running.end() == 0
        assert running.warnings == []


async def test_workers_are_not_in_the_process_group_of_the_terminal() -> None:
    async with Running(SERVE, count=1) as running:
        assert running.report["group"] == running.report["pid"] != os.getpgrp()


async def test_the_delay_grows_while_workers_end_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "FIRST_DELAY_S", 0.01)
    monkeypatch.setattr(workers, "MAX_DELAY_S", 0.03)
    program = SERVE.replace("sys.stdin.read()", "sys.stdin.read() if config['index'] == 0 else sys.exit(3)")
    async with Running(program) as running:
        await running.until(lambda: len(running.warnings) >= 4)
        assert [words.rpartition(" in ")[2] for words in running.warnings[:4]] == [
            "0.01 s",
            "0.02 s",
            "0.03 s",
            "0.03 s",
        ]
        assert "exited with code 3" in running.warnings[0]


async def test_a_stable_worker_is_replaced_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "STABLE_S", 0.0)
    async with Running(SERVE, count=1) as running:
        os.kill(running.report["pid"], signal.SIGKILL)
        await running.until(lambda: running.warnings and len(running.supervisor.pids) == 1)
        assert running.warnings[0].endswith("starting another one now")


async def test_a_killed_first_worker_is_a_failure() -> None:
    async with Running(READ + "os.kill(os.getpid(), 9)") as running:
        assert await running.task == 1


async def test_a_worker_that_does_not_stop_in_time_is_killed() -> None:
    async with Running(DEAF, drain_s=0.2) as running:
        assert await running.end() == 0
        assert running.warnings == ["killing 2 of 2 workers, which did not stop in time"]


async def test_stopping_before_the_first_worker_is_ready() -> None:
    running = Running(READ + "time.sleep(60)")
    await running.until(lambda: bool(running.supervisor.pids))
    assert await running.end() == 0
    await running.__aexit__()


async def test_stopping_while_workers_are_started_opens_no_more_sockets() -> None:
    running = Running(SERVE, count=3)
    open_sockets = running.supervisor.open_sockets

    def stop_at_the_second() -> list[socket.socket]:
        opened = open_sockets()
        if running.supervisor.pids:
            running.socket.close()
            running.supervisor.stop()
        return opened

    running.supervisor.open_sockets = stop_at_the_second
    assert await asyncio.wait_for(running.task, TIMEOUT_S) == 0
    assert running.warnings == []
    await running.__aexit__()


def test_metrics_are_not_shared_where_no_folder_can_be_created(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    with workers._open_shared_folder() as folder:
        assert folder is None


async def test_no_worker_outlives_a_cancelled_supervisor() -> None:
    async with Running(DEAF) as running:
        running.task.cancel()
