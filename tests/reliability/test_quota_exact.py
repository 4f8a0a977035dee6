"""64 workers hammer one limit, and exactly as many calls are admitted as it says.

On tasks of one loop, on threads with a loop each, on threads that call one server, and on four processes that
share a file. The rates are of a day, so that the time that a test takes adds nothing.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.state.conftest import ask, budget_of, limits_of, patient, rate_of, slots_of  # noqa: F401
from toolcrib import MCPServer
from toolcrib.errors import ThrottledError
from toolcrib.policy import Limit, Policy
from toolcrib.state.base import Counters, Lease, Limits
from toolcrib.state.base import Limit as Counted
from toolcrib.state.memory import MemoryCounters
from toolcrib.state.sqlite.state import SQLiteState

pytestmark = pytest.mark.row("D4")

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 64
LIMIT = 500


class Tally:
    """Counts calls, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.admitted = self.refused = self.running = self.most_running = 0

    def begin(self) -> None:
        with self._lock:
            self.admitted += 1
            self.running += 1
            self.most_running = max(self.most_running, self.running)

    def end(self) -> None:
        with self._lock:
            self.running -= 1

    def refuse(self) -> None:
        with self._lock:
            self.refused += 1


async def hammer(counters: Counters, limits: Limits, tally: Tally, attempts: int) -> None:
    for _ in range(attempts):
        lease = await ask(counters, limits)
        if not isinstance(lease, Lease):
            tally.refuse()
            await asyncio.sleep(0)
            continue
        tally.begin()
        await asyncio.sleep(0)
        tally.end()
        counters.release(lease, ran=True)


def run_on_threads(count: int, work: Callable[[], Any]) -> None:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("engine", ["memory", "sqlite"])
@pytest.mark.parametrize("limit", [rate_of(LIMIT, 86_400), budget_of(LIMIT)], ids=["rate", "budget"])
async def test_d4_tasks_are_admitted_exactly(limit: Counted, engine: str, tmp_path: Path) -> None:
    state = SQLiteState(tmp_path / "state.db")
    counters: Counters = MemoryCounters() if engine == "memory" else state.counters
    tally = Tally()
    await asyncio.gather(*(hammer(counters, limits_of(limit), tally, 15) for _ in range(WORKERS)))
    await state.close()
    assert (tally.admitted, tally.refused) == (LIMIT, WORKERS * 15 - LIMIT)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("engine", ["memory", "sqlite"])
async def test_d4_tasks_never_exceed_the_slots(engine: str, tmp_path: Path) -> None:
    state = SQLiteState(tmp_path / "state.db")
    counters: Counters = MemoryCounters() if engine == "memory" else state.counters
    tally = Tally()
    await asyncio.gather(*(hammer(counters, limits_of(slots_of(7)), tally, 15) for _ in range(WORKERS)))
    assert await counters.usage(limits_of(slots_of(7))) == [0]
    await state.close()
    assert tally.most_running == 7


def test_d4_threads_that_call_one_server_are_admitted_exactly() -> None:
    tally = Tally()
    server = MCPServer("limited", policy=Policy(limits=[Limit(rate="200/24h"), Limit(concurrency=8)]))

    @server.tool
    async def work() -> str:
        """Do it."""
        tally.begin()
        await asyncio.sleep(0)
        tally.end()
        return "done"

    async def call() -> None:
        for _ in range(40):
            result = await server.call("work")
            if result.is_error:
                assert isinstance(result.error, ThrottledError)
                tally.refuse()

    run_on_threads(8, call)
    assert (tally.admitted, tally.refused) == (200, 120)
    assert tally.most_running <= 8


PROCESS = """
import asyncio, json, sys
from pathlib import Path
from tests.reliability.test_quota_exact import Tally, hammer, limits_of, rate_of, slots_of
from toolcrib.state.sqlite import counters, file
from toolcrib.state.sqlite.state import SQLiteState

counters.WAIT_S = file.LOCK_S = 60.0  # a busy machine is not an outage

async def main():
    state, tally = SQLiteState(Path(sys.argv[1])), Tally()
    await state.open()
    print("ready", flush=True)
    sys.stdin.readline()
    limits = limits_of(rate_of(300, 86_400))
    await asyncio.gather(*(hammer(state.counters, limits, tally, 10) for _ in range(16)))
    slots = limits_of(slots_of(6))
    held = [lease for _ in range(6) if hasattr(lease := await state.counters.acquire(slots), "id")]
    print(json.dumps([tally.admitted, tally.refused, len(held)]), flush=True)
    sys.stdin.readline()
    await state.close()

asyncio.run(main())
"""


def test_d4_processes_that_share_a_file_are_admitted_exactly(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROCESS, str(tmp_path / "state.db")]
    processes = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        reports = [json.loads(process.stdout.readline()) for process in processes if process.stdout]
        for process in processes:
            process.communicate("\n", timeout=120)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert sum(report[0] for report in reports) == 300
    assert sum(report[1] for report in reports) == 4 * 160 - 300
    assert sum(report[2] for report in reports) == 6
