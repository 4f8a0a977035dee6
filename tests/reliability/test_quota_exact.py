"""64 workers hammer one limit, and exactly as many are let in as it says.

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

from tests.unit.policy.quota.conftest import patient  # noqa: F401 - a fixture
from tests.unit.policy.quota.machines import Crowd, hammer
from toolcrib import MCPServer
from toolcrib.errors import ThrottledError
from toolcrib.policy import Limit, Policy
from toolcrib.policy.quota import Quota

pytestmark = pytest.mark.row("D4")

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 64
LIMIT = 500


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
@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("limit", [Limit(rate=f"{LIMIT}/24h"), Limit(daily=LIMIT)], ids=["rate", "budget"])
async def test_d4_tasks_are_let_in_exactly(limit: Limit, store: str, tmp_path: Path) -> None:
    path = tmp_path / "limits.db" if store == "sqlite" else None
    quota, crowd = Quota(Policy(limits=[limit], store=path)), Crowd()
    await asyncio.gather(*(hammer(quota, crowd, 15) for _ in range(WORKERS)))
    await quota.close()
    assert (crowd.admitted, crowd.refused) == (LIMIT, WORKERS * 15 - LIMIT)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_d4_no_more_than_the_cap_are_inside_and_everybody_gets_in_who_waits(
    store: str, tmp_path: Path
) -> None:
    path = tmp_path / "limits.db" if store == "sqlite" else None
    limits = [Limit(concurrency=7, queue=WORKERS, queue_s=60)]
    quota, crowd = Quota(Policy(limits=limits, store=path)), Crowd()
    await asyncio.gather(*(hammer(quota, crowd, 5) for _ in range(WORKERS)))
    assert (crowd.most_inside, crowd.admitted, crowd.refused) == (7, WORKERS * 5, 0)
    await quota.close()


def test_d4_threads_with_a_loop_each_are_let_in_exactly() -> None:
    limits = [Limit(rate=f"{LIMIT}/24h"), Limit(concurrency=5, queue=WORKERS, queue_s=60)]
    quota, crowd = Quota(Policy(limits=limits)), Crowd()
    run_on_threads(WORKERS, lambda: hammer(quota, crowd, 15))
    assert (crowd.admitted, crowd.refused) == (LIMIT, WORKERS * 15 - LIMIT)
    assert crowd.most_inside <= 5
    assert quota.describe_store() == {"store": "memory", "places": 0, "waiting": 0, "rates": 1}


def test_d4_threads_that_call_one_server_are_let_in_exactly() -> None:
    crowd = Crowd()
    limits = [Limit(rate="200/24h"), Limit(concurrency=3, queue=WORKERS, queue_s=60)]
    server = MCPServer("limited", policy=Policy(limits=limits))

    @server.tool
    async def work() -> str:
        """Do it."""
        crowd.come_in()
        await asyncio.sleep(0)
        crowd.go()
        return "done"

    async def call() -> None:
        for _ in range(40):
            result = await server.call("work")
            if result.is_error:
                assert isinstance(result.error, ThrottledError)
                crowd.turn_away()

    run_on_threads(8, call)
    assert (crowd.admitted, crowd.refused) == (200, 120)
    assert crowd.most_inside <= 3


PROCESS = """
import asyncio, json, sys
from pathlib import Path
from tests.unit.policy.quota.machines import Crowd, hammer
from toolcrib.policy.quota import Quota, sqlite_store as sqlite
from toolcrib.policy import Limit, Policy

sqlite.WAIT_S = sqlite.LOCK_S = 20.0  # a busy machine is no outage

async def main():
    limits = [Limit(rate="500/24h", per="all"), Limit(concurrency=6, per="all", queue=100, queue_s=60)]
    quota, crowd = Quota(Policy(limits=limits, store=Path(sys.argv[1]))), Crowd()
    await quota.open()
    print("ready", flush=True)
    sys.stdin.readline()
    await asyncio.gather(*(hammer(quota, crowd, 20) for _ in range(16)))
    described = quota.describe_store()
    await quota.close()
    print(json.dumps([crowd.admitted, crowd.refused, crowd.most_inside, described["outages"]]))

asyncio.run(main())
"""


def test_d4_processes_that_share_a_file_are_let_in_exactly(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROCESS, str(tmp_path / "limits.db")]
    processes = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        reports = []
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        for process in processes:
            said, _ = process.communicate(timeout=120)
            reports.append(json.loads(said))
    finally:
        for process in processes:
            process.kill()
            process.wait()
    outages = sum(report[3] for report in reports)
    assert outages == 0, reports
    assert sum(report[0] for report in reports) == LIMIT
    assert sum(report[1] for report in reports) == 4 * 16 * 20 - LIMIT
    assert all(report[2] <= 6 for report in reports)
