"""Counters of several processes: dead ones, a file that is not available, restarts of the machine."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.state.conftest import (
    YEAR_S,
    Machine,
    admit,
    ask,
    budget_of,
    count_admitted,
    limits_of,
    rate_of,
    refuse,
    slots_of,
)
from tests.support.hostile.faults import locked
from toolcrib.state.base import Counters
from toolcrib.state.rate_limit import DAY_S
from toolcrib.state.sqlite import counters as sqlite_counters
from toolcrib.state.sqlite import file as sqlite_file
from toolcrib.state.sqlite.counters import SQLiteCounters
from toolcrib.state.sqlite.state import SQLiteState

SERVERS = ("redis",)
LIMITS = limits_of(rate_of(5, 3600), budget_of(4), slots_of(2))
ONE = limits_of(slots_of(1))


@pytest.fixture
def path(machine: Machine) -> Path:
    assert machine.path is not None
    return machine.path


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up a file soon, and try it again soon."""
    monkeypatch.setattr(sqlite_counters, "WAIT_S", 0.1)
    monkeypatch.setattr(sqlite_counters, "RETRY_S", 0.02)
    monkeypatch.setattr(sqlite_file, "LOCK_S", 0.05)


async def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.005)


async def until_counted_together(counters: Counters) -> None:
    assert isinstance(counters, SQLiteCounters)
    while counters._retry_at is not None:
        lease = await admit(counters, limits_of())
        counters.release(lease, ran=True)
        await asyncio.sleep(0.005)


@pytest.mark.usefixtures("patient")
async def test_processes_count_together(shared: Machine) -> None:
    one, two = shared.start().counters, shared.start().counters
    first, second = await admit(one, LIMITS), await admit(two, LIMITS)
    assert (await refuse(one, LIMITS)).limit == slots_of(2)
    one.release(first, ran=False)
    two.release(second, ran=True)
    assert (await one.usage(LIMITS))[:2] == [2, 1]  # the slot that the other released may be on its way
    assert await two.usage(LIMITS) == [2, 1, 0]
    assert await count_admitted(one, LIMITS, 2) + await count_admitted(two, LIMITS, 9) == 3
    assert (await refuse(two, LIMITS)).limit in (LIMITS.each[0], LIMITS.each[1])


@pytest.mark.usefixtures("patient")
async def test_the_slots_of_a_dead_process_are_free_after_ten_seconds(shared: Machine) -> None:
    dead, alive = shared.start(), shared.start()
    await admit(dead.counters, limits_of(slots_of(2)))
    await admit(alive.counters, limits_of(slots_of(2)))
    shared.freeze(dead)
    for _ in range(9):
        shared.pass_s(1)
        await refuse(alive.counters, limits_of(slots_of(2)))
    shared.pass_s(1)
    await admit(alive.counters, limits_of(slots_of(2)))
    await refuse(alive.counters, limits_of(slots_of(2)))


@pytest.mark.usefixtures("patient")
async def test_a_process_that_ends_leaves_its_slots(shared: Machine) -> None:
    one, two = shared.start(), shared.start()
    await admit(one.counters, ONE)
    await refuse(two.counters, ONE)
    await one.close()
    await admit(two.counters, ONE)


@pytest.mark.usefixtures("patient")
async def test_a_restart_of_the_machine_ends_slots_and_rates_and_keeps_budgets_and_marks(
    machine: Machine,
) -> None:
    machine.wall.at_s = 20_000 * DAY_S + 3600
    rate, budget, slot = limits_of(rate_of(1, 3600)), limits_of(budget_of(1)), limits_of(slots_of(1))
    before = machine.start().counters
    for limits in (rate, budget, slot):
        await admit(before, limits)
    await admit(before, rate, mark="m")
    machine.restart(60)
    after = machine.start().counters
    for limits in (rate, slot):
        await admit(after, limits)
    await refuse(after, budget)
    await refuse(after, rate, mark="m")
    machine.pass_s(841)
    await admit(after, rate, mark="m")
    machine.pass_s(DAY_S)
    await admit(after, budget)


@pytest.mark.usefixtures("patient")
async def test_a_call_that_is_cancelled_before_it_is_admitted_takes_nothing(
    machine: Machine, path: Path
) -> None:
    counters, limits = machine.start().counters, limits_of(budget_of(5), slots_of(1))
    assert await counters.usage(limits) == [0, 0]
    with locked(path):
        task = asyncio.ensure_future(ask(counters, limits))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await asyncio.sleep(0.05)
    assert await counters.usage(limits) == [0, 0]


# --- while the file is not available ---


@pytest.mark.usefixtures("hasty")
async def test_a_process_counts_for_itself_while_the_file_is_locked(
    machine: Machine, path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING, "toolcrib")
    counters = machine.start().counters
    limits = limits_of(rate_of(5, 3600), slots_of(9))
    assert await count_admitted(counters, limits, 3) == 3
    with locked(path):
        started = time.monotonic()
        assert await count_admitted(counters, limits, 200) == 5
        assert time.monotonic() - started < 1  # one call has waited
        held = await admit(counters, limits_of(slots_of(9)))
        assert await count_admitted(counters, limits_of(slots_of(9)), 3) == 3
    monkeypatch.setattr(sqlite_counters, "WAIT_S", 30.0)  # from here on, a slow answer is not an outage
    monkeypatch.setattr(sqlite_file, "LOCK_S", 30.0)
    await until_counted_together(counters)
    counters.release(held, ran=True)
    assert await count_admitted(counters, limits, 9) in (1, 2)  # one may have been admitted late
    messages = [message for message in caplog.messages if "available" in message]
    assert len(messages) == 2
    assert messages[0].endswith("this process counts calls for itself")
    assert messages[1] == f"{path} is available again: calls of all processes are counted"


@pytest.mark.usefixtures("hasty")
async def test_limits_may_refuse_or_allow_calls_while_the_file_is_not_available(
    machine: Machine, path: Path
) -> None:
    counters = machine.start().counters
    assert await counters.usage(ONE) == [0]
    with locked(path):
        assert (await refuse(counters, limits_of(slots_of(1), when_down="deny"))).limit is None
        allowing = limits_of(slots_of(1), when_down="allow")
        leases = [await admit(counters, allowing) for _ in range(3)]
        resumed = await admit(counters, limits_of(slots_of(1), when_down="deny"), resumed=True)
        for lease in (*leases, resumed):
            counters.release(lease, ran=True)


@pytest.mark.usefixtures("hasty")
async def test_anything_that_is_released_meanwhile_is_free_when_the_file_is_available_again(
    machine: Machine, path: Path
) -> None:
    one, two = machine.start().counters, machine.start().counters
    limits = limits_of(slots_of(1), budget_of(5))
    lease = await admit(one, limits)
    with locked(path):
        one.release(lease, ran=False)
        assert isinstance(one, SQLiteCounters)
        await until(lambda: one._retry_at is not None)
    await until_counted_together(one)
    assert await two.usage(limits) == [0, 0]


@pytest.mark.usefixtures("hasty")
async def test_a_deleted_file_is_made_again(machine: Machine, path: Path) -> None:
    counters = machine.start().counters
    limits = limits_of(rate_of(10, 3600))
    assert await count_admitted(counters, limits, 7) == 7
    for name in ("state.db", "state.db-wal", "state.db-shm"):
        (path.parent / name).unlink(missing_ok=True)
    assert await count_admitted(counters, limits, 20) == 10
    assert path.exists()


@pytest.mark.usefixtures("hasty")
async def test_a_file_that_became_something_else_is_not_touched(machine: Machine, path: Path) -> None:
    counters = machine.start().counters
    limits = limits_of(rate_of(10, 3600))
    await admit(counters, limits)
    (path.parent / "new").write_bytes(b"not a database, and precious" * 100)
    os.chmod(path.parent / "new", 0o600)
    os.replace(path.parent / "new", path)
    assert await count_admitted(counters, limits, 50) == 10
    assert path.read_bytes() == b"not a database, and precious" * 100


# --- kills ---

PROGRAM = """\
import asyncio, sys
from pathlib import Path
from tests.state.conftest import YEAR_S, ask, limits_of, rate_of, slots_of
from toolcrib.state.base import Lease
from toolcrib.state.sqlite import counters, file
from toolcrib.state.sqlite.state import SQLiteState

counters.WAIT_S = file.LOCK_S = 30.0


async def main():
    counters = SQLiteState(Path(sys.argv[1])).counters
    while True:
        if isinstance(lease := await ask(counters, limits_of(rate_of(9_999, YEAR_S), slots_of(9))), Lease):
            print("admitted", flush=True)
            await asyncio.sleep(0)
            counters.release(lease, ran=True)
        else:
            await asyncio.sleep(0.005)


asyncio.run(main())
"""


def start(path: Path) -> subprocess.Popen[str]:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", PROGRAM, str(path)]
    return subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True)


@pytest.mark.usefixtures("patient")
async def test_killed_processes_exceed_no_limit_and_keep_no_slot(tmp_path: Path) -> None:
    path, admitted = tmp_path / "state.db", 0
    for _ in range(2):
        processes = [start(path) for _ in range(3)]
        for process in processes:
            assert process.stdout is not None
            for _ in range(5):
                admitted += process.stdout.readline() == "admitted\n"
            process.send_signal(signal.SIGKILL)
        for process in processes:
            assert process.stdout is not None
            admitted += process.stdout.read().count("admitted\n")
            process.stdout.close()
            assert process.wait() == -signal.SIGKILL
    state = SQLiteState(path, now_ns=lambda: time.monotonic_ns() + 10 * 10**9)
    used, slots = await state.counters.usage(limits_of(rate_of(9_999, YEAR_S), slots_of(9)))
    assert slots == 0
    assert used - 9 <= admitted <= used  # a call of each may have been counted and not been told yet
    await state.close()
