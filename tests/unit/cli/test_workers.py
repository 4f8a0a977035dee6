"""Several processes that serve as one, with small programs in the place of servers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from typing import Any, Self

import pytest

from tests.support.serve_process import is_running, wait_until
from toolcrib.cli import workers
from toolcrib.cli.workers import Supervisor

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs descriptors to inherit, and /proc")

READ = (
    "import json, os, signal, socket, sys, time; way = socket.socket(fileno=int(sys.argv[1])); "
    "order = json.loads(way.makefile('rb').readline()); "
)
SERVE = READ + (
    "way.sendall(json.dumps({'pid': os.getpid(), 'group': os.getpgrp(), **order}).encode() + b'\\n'); "
    "way.recv(1)"  # until the parent is gone, or a signal ends it
)
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SERVE
TIMEOUT_S = 30.0


class Yard:
    """A crew at work: what its first worker reported, what was said, and everybody it has had."""

    def __init__(self, program: str, count: int = 2, drain_s: float = 10.0) -> None:
        self.said: list[str] = []
        self.report: dict[str, Any] = {}
        self.pids: set[int] = set()
        self.door = socket.create_server(("127.0.0.1", 0))
        self.crew = Supervisor(
            [sys.executable, "-I", "-S", "-c", program],
            count,
            make_config=lambda is_first, numbers: json.dumps(
                {"is_first": is_first, "numbers": numbers}
            ).encode(),
            open_sockets=lambda: [self.door.dup()],
            warn=self.said.append,
            drain_s=drain_s,
        )
        self.running: asyncio.Task[int] = asyncio.create_task(self.crew.run(self._take))

    def _take(self, report: bytes) -> None:
        self.report = json.loads(report)

    async def __aenter__(self) -> Self:
        await self.until(lambda: bool(self.report) or self.running.done())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.crew.stop()
        await asyncio.wait({self.running}, timeout=TIMEOUT_S)
        self.door.close()
        await asyncio.to_thread(wait_until, lambda: not [pid for pid in self.pids if is_running(pid)])

    async def until(self, is_so: Any) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while not is_so():
                self.pids |= set(self.crew.pids)
                await asyncio.sleep(0.01)
            self.pids |= set(self.crew.pids)

    async def end(self) -> int:
        self.crew.stop()
        return await asyncio.wait_for(self.running, TIMEOUT_S)


async def test_each_gets_its_sockets_and_its_order_and_the_first_one_reports() -> None:
    async with Yard(SERVE, count=3) as yard:
        assert len(yard.crew.pids) == 3
        assert yard.report["pid"] in yard.crew.pids
        assert yard.report["is_first"] is True
        assert len(yard.report["numbers"]) == 1
        assert await yard.end() == 0
        assert yard.said == []


async def test_what_is_typed_on_the_terminal_is_for_the_parent_alone() -> None:
    async with Yard(SERVE, count=1) as yard:
        assert yard.report["group"] == yard.report["pid"] != os.getpgrp()


async def test_who_dies_is_replaced_and_it_is_said_why() -> None:
    async with Yard(SERVE) as yard:
        before = set(yard.crew.pids)
        victim = min(before)
        os.kill(victim, signal.SIGKILL)
        await yard.until(lambda: len(set(yard.crew.pids) - before) == 1 and len(yard.crew.pids) == 2)
        assert yard.said == [f"worker {victim} was killed by SIGKILL; starting another one in 0.5 s"]
        assert await yard.end() == 0


async def test_the_pause_grows_while_nobody_lives_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "FIRST_DELAY_S", 0.01)
    monkeypatch.setattr(workers, "MAX_DELAY_S", 0.03)
    program = SERVE.replace("way.recv(1)", "way.recv(1) if order['is_first'] else sys.exit(3)")
    async with Yard(program) as yard:
        await yard.until(lambda: len(yard.said) >= 4)
        assert [words.rpartition(" in ")[2] for words in yard.said[:4]] == [
            "0.01 s",
            "0.02 s",
            "0.03 s",
            "0.03 s",
        ]
        assert "exited with code 3" in yard.said[0]


async def test_who_lived_for_long_is_replaced_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "STABLE_S", 0.0)
    async with Yard(SERVE, count=1) as yard:
        os.kill(yard.report["pid"], signal.SIGKILL)
        await yard.until(lambda: yard.said and len(yard.crew.pids) == 1)
        assert yard.said[0].endswith("starting another one now")


async def test_where_the_first_cannot_serve_no_other_is_tried() -> None:
    async with Yard(READ + "sys.exit(7)", count=3) as yard:
        assert await yard.running == 7
        assert (yard.report, yard.said, len(yard.pids)) == ({}, [], 1)


async def test_a_first_one_that_was_killed_is_a_failure_too() -> None:
    async with Yard(READ + "os.kill(os.getpid(), 9)") as yard:
        assert await yard.running == 1


async def test_who_does_not_end_in_time_is_killed() -> None:
    async with Yard(DEAF, drain_s=0.2) as yard:
        assert await yard.end() == 0
        assert yard.said == ["killing 2 of 2 workers, which did not stop in time"]


async def test_told_to_end_before_the_first_was_ready_it_ends() -> None:
    yard = Yard(READ + "time.sleep(60)")
    await yard.until(lambda: bool(yard.crew.pids))
    assert await yard.end() == 0
    await yard.__aexit__()


async def test_no_worker_outlives_a_crew_that_was_cancelled() -> None:
    async with Yard(DEAF) as yard:
        yard.running.cancel()


async def test_a_worker_sees_that_its_parent_is_gone() -> None:
    """The parent is a process of its own here, so that it can be killed."""
    parent = (
        "import asyncio, sys; from toolcrib.cli.workers import Supervisor\n"
        "async def main():\n"
        "    command = [sys.executable, '-I', '-S', '-c', sys.argv[1]]\n"
        "    crew = Supervisor(command, 2, make_config=lambda is_first, numbers: b'{}', warn=print)\n"
        "    await crew.run(lambda report: print(*crew.pids, flush=True))\n"
        "asyncio.run(main())"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", parent, SERVE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    pids = [int(word) for word in (await process.stdout.readline()).split()]
    assert [is_running(pid) for pid in pids] == [True, True]
    process.kill()
    await process.wait()
    await asyncio.to_thread(wait_until, lambda: not any(is_running(pid) for pid in pids))
