"""Several processes count in one file; killed ones do not count for ever."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.policy.quota.machines import (
    ANA,
    BEN,
    REPORT,
    Clocks,
    count_admitted,
    enter,
    line_up,
    quota_of,
    refused,
    settle,
    wait_until,
)
from toolcrib.config.settings import DAY_S
from toolcrib.policy import Limit, Policy
from toolcrib.policy.quota import Quota
from toolcrib.policy.quota import sqlite_store as sqlite
from toolcrib.policy.quota import sqlite_store as tables
from toolcrib.policy.quota.ledger import MAX_BUCKETS
from toolcrib.policy.quota.sqlite_store import SqliteCounters, find_boot

LEASE_S = 10.0
"""How long the places of a worker that was killed stay taken."""


@pytest.fixture
async def make(clocks: Clocks, path: Path, patient: None) -> AsyncIterator[Any]:
    """Each one is a worker of its own: with its own thread, connection and lease."""
    made: list[Quota] = []

    def build(*limits: Limit) -> Quota:
        made.append(quota_of(clocks, *limits, store=path))
        return made[-1]

    yield build
    for quota in made:
        await quota.close()


def rows(path: Path, table: str) -> list[Any]:
    other = sqlite3.connect(path)
    try:
        return other.execute(f"SELECT * FROM {table}").fetchall()
    finally:
        other.close()


async def test_workers_share_rates_budgets_places_and_marks(make):
    limits = [Limit(rate="5/h"), Limit(tools=["other"], daily=3), Limit(concurrency=2, per="all")]
    one, two = make(*limits), make(*limits)
    first, second = await enter(one), await enter(two)
    assert (await refused(one)).details["kind"] == "concurrency"
    first.leave(ran=True)
    second.leave(ran=True)
    await settle(one)
    await settle(two)
    assert await count_admitted(one, 2) + await count_admitted(two, 9) == 3
    assert await one.use_once("m", 60)
    assert not await two.use_once("m", 60)


async def test_a_place_that_another_worker_frees_goes_to_who_waits_longest(make, clocks):
    limit = Limit(concurrency=1, per="all", queue=5, queue_s=30)
    one, two = make(limit), make(limit)
    running = await enter(one)
    (first,) = await line_up(two, enter(two))
    clocks.tick(0.001)
    (second,) = await line_up(one, enter(one))
    running.leave(ran=True)
    slot = await asyncio.wait_for(first, 5)
    assert not second.done()
    slot.leave(ran=True)
    (await asyncio.wait_for(second, 5)).leave(ran=True)


async def test_a_place_that_another_worker_frees_is_taken_soon(make):
    limit = Limit(concurrency=1, per="all", queue=1, queue_s=30)
    one, two = make(limit), make(limit)
    async with asyncio.timeout(3):
        for _ in range(5):
            running = await enter(one)
            (waiting,) = await line_up(two, enter(two))
            running.leave(ran=True)
            (await waiting).leave(ran=True)


async def test_who_comes_back_first_goes_first_whichever_worker_it_is(make, clocks):
    limit = Limit(concurrency=1, per="all")
    one, two = make(limit), make(limit)
    slots = []
    for quota in (one, two):
        slots.append(await enter(quota))
        slots[-1].pause()
        await settle(quota)
    running = await enter(one)
    back = []
    for quota, slot in zip((two, one), reversed(slots), strict=True):
        back.append(asyncio.create_task(slot.resume()))
        await settle(quota)
        clocks.tick(0.001)
    running.leave(ran=True)
    await asyncio.wait_for(back[0], 5)
    assert not back[1].done()
    slots[1].leave(ran=True)
    await asyncio.wait_for(back[1], 5)
    slots[0].leave(ran=True)


async def test_who_waits_for_another_worker_only_looks_and_writes_nothing(make, path):
    quota = make(Limit(concurrency=1, per="all", queue=5, queue_s=30))
    running = await enter(quota)
    (waiting,) = await line_up(quota, enter(quota))
    await settle(quota)  # that it waits is written, too
    watcher = sqlite3.connect(path)
    versions = set()
    for _ in range(30):
        versions.add(watcher.execute("PRAGMA data_version").fetchone()[0])
        await asyncio.sleep(0.002)
    watcher.close()
    assert len(versions) == 1
    running.leave(ran=True)
    (await waiting).leave(ran=True)


async def test_the_places_of_a_dead_worker_are_free_after_its_lease(make, clocks, path):
    limit = Limit(concurrency=2, per="all")
    dead, alive = make(limit), make(limit)
    await enter(dead)
    await enter(alive)
    assert len(rows(path, "workers")) == 2
    # It renews nothing from now on, as its clock stands still for it.
    stopped_ns = clocks.now_ns()
    dead._store._now_ns = lambda: stopped_ns  # type: ignore[attr-defined]
    clocks.tick(LEASE_S - 0.001)
    await refused(alive)
    clocks.tick(0.001)
    await refused(alive)  # it was looked at just now
    clocks.tick(LEASE_S / 3)
    await enter(alive)
    await refused(alive)
    assert len(rows(path, "workers")) == 1


async def test_a_worker_that_was_taken_for_dead_takes_its_places_again(make, clocks, path):
    limit = Limit(concurrency=2, per="all", queue=1, queue_s=30)
    slow, other = make(limit), make(limit)
    held = [await enter(slow), await enter(slow)]
    (waiting,) = await line_up(slow, enter(slow))
    clocks.tick(LEASE_S + 1)
    await asyncio.sleep(0)
    erase = sqlite3.connect(path, isolation_level=None)
    erase.execute("DELETE FROM holds")
    erase.execute("DELETE FROM workers")
    erase.close()
    clocks.tick(LEASE_S)
    await settle(slow)
    assert len(rows(path, "holds")) == 3
    assert (await refused(other)).details["kind"] == "concurrency"
    held[0].leave(ran=True)
    (await asyncio.wait_for(waiting, 5)).leave(ran=True)


async def test_a_worker_renews_its_lease_while_it_holds_a_place(make, clocks, path, monkeypatch):
    quota = make(Limit(concurrency=1))
    slot = await enter(quota)
    before = rows(path, "workers")
    clocks.tick(LEASE_S / 3)
    await settle(quota)
    after = rows(path, "workers")
    assert after[0][1] - before[0][1] == round(LEASE_S / 3 * 1e9)
    slot.leave(ran=True)


@pytest.mark.parametrize("is_reopened", [False, True])
async def test_a_worker_renews_its_lease_though_nobody_calls(make, clocks, path, monkeypatch, is_reopened):
    monkeypatch.setattr(sqlite, "LEASE_NS", 30_000_000)  # how often it looks, not how long the lease is
    quota = make(Limit(concurrency=1))
    if is_reopened:
        await quota.open()
        await quota.close()
        await quota.open()
    slot = await enter(quota)
    before = rows(path, "workers")
    clocks.tick(0.02)
    await wait_until(lambda: rows(path, "workers") != before)
    slot.leave(ran=True)


async def test_a_worker_that_ends_leaves_nothing_behind(make, path):
    quota = make(Limit(concurrency=1))
    await enter(quota)
    await quota.close()
    assert [each.name for each in path.parent.iterdir()] == ["limits.db"]  # as nobody has it open any more
    assert rows(path, "holds") == rows(path, "workers") == []


async def test_a_restart_of_the_machine_forgets_rates_and_places_and_keeps_budgets_and_marks(
    make, clocks, path, monkeypatch
):
    limits = [Limit(rate="1/h", concurrency=1), Limit(tools=["report"], who=["key:ben"], daily=1)]
    before = make(*limits)
    await enter(before, ANA)
    await enter(before, BEN)
    assert await before.use_once("m", 60)
    await settle(before)
    monkeypatch.setattr("toolcrib.policy.quota.sqlite_store.find_boot", lambda: "another")
    clocks.now_s = 7.0
    after = make(*limits)
    await enter(after, ANA)
    assert (await refused(after, BEN)).details["kind"] == "budget"
    assert not await after.use_once("m", 60)
    clocks.tick(899.999)
    assert not await after.use_once("m", 60)
    clocks.tick(0.001)
    await wait_until(lambda: True)
    assert await after.use_once("m", 60)


async def test_after_a_restart_a_wall_that_is_wrong_freezes_a_budget_for_a_day_at_most(
    make, clocks, monkeypatch
):
    before = make(Limit(daily=1))
    await enter(before)
    await settle(before)
    monkeypatch.setattr("toolcrib.policy.quota.sqlite_store.find_boot", lambda: "another")
    clocks.now_s = 7.0
    clocks.wall_s -= 3 * DAY_S
    after = make(Limit(daily=1))
    assert (await refused(after)).details["retryAfterS"] == DAY_S
    clocks.tick(DAY_S)
    await enter(after)


async def test_marks_are_dropped_when_their_time_is_over(make, clocks, path):
    quota = make(Limit(rate="1/s"))
    assert await quota.use_once("short", 5)
    assert await quota.use_once("long", 50)
    clocks.tick(5)
    assert await quota.use_once("new", 5)
    assert {mark for mark, _ in rows(path, "marks")} == {"once long", "once new"}


async def test_where_the_system_does_not_tell_restarts_apart_times_that_cannot_be_do(
    make, clocks, monkeypatch
):
    monkeypatch.setattr("toolcrib.policy.quota.sqlite_store.find_boot", lambda: "")
    before = make(Limit(rate="2/min", concurrency=1))
    await enter(before)
    await settle(before)
    clocks.now_s = 7.0
    after = make(Limit(rate="2/min", concurrency=1))
    error = await refused(after)
    assert error.details == {"limit": "limits[1]", "kind": "rate", "retryAfterS": 30.0}
    clocks.tick(30)
    await enter(after)  # and the place of the one before is free


def test_a_system_that_says_nothing_of_its_start_is_none(monkeypatch):
    assert len(find_boot()) > 10

    def fail(self: Path) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", fail)
    assert find_boot() == ""


async def test_the_file_is_for_its_owner_alone(make, path):
    await make(Limit(rate="1/s")).open()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_the_day_is_one_for_all_workers(make, clocks):
    limit = Limit(daily=2)
    one, two = make(limit), make(limit)
    assert await count_admitted(one, 5) == 2
    clocks.tick(13 * 3600)
    assert await count_admitted(two, 5) == 2
    clocks.wall_s -= 2 * 3600
    assert await count_admitted(one, 5) == 0
    assert (await refused(one)).details["retryAfterS"] == 25 * 3600.0


def test_marks_are_bounded_and_idle_rates_are_swept(path, monkeypatch):
    counters = SqliteCounters(path, "me", "boot", max_marks=2)
    counters.open(0, 0.1)
    counters.begin(0.1)
    for mark in ("a", "b"):
        assert counters.is_unused(mark, 5)
        counters.add_mark(mark, 10)
    assert not counters.is_unused("c", 5)
    assert counters.is_unused("a", 10)
    counters.set_rate("big", 7 * 10**30 + 1, 10**12)
    counters.set_rate("small", 21, 2)
    assert counters.rate("big") == (7 * 10**30 + 1, 10**12)
    for now_ns, left in ((10, 2), (11, 1), (7 * 10**18, 1), (7 * 10**18 + 1, 0)):
        counters.sweep_rates(now_ns)
        assert counters.count_rates() == left
    counters.close()
    assert MAX_BUCKETS == 100_000


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.unit.policy.quota.machines import REPORT, ANA, enter
from toolcrib.policy.quota import Quota
from toolcrib.policy import Limit, Policy
async def main():
    quota = Quota(Policy(limits=[Limit(concurrency=1, per="all")], store=Path(sys.argv[1])))
    await enter(quota)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


async def test_a_killed_process_gives_its_place_back(path, monkeypatch, patient):
    monkeypatch.setattr(tables, "LEASE_NS", 10**9)
    root = Path(__file__).resolve().parents[4]
    # Its lease is as written in the code; this one looks at it with less patience.
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", KILLED, str(path)], cwd=root, capture_output=True, timeout=60
    )
    assert done.returncode == -9, done.stderr
    assert len(rows(path, "holds")) == 1
    quota = Quota(Policy(limits=[Limit(concurrency=1, per="all")], store=path))
    await enter(quota, BEN, REPORT)  # a lease of ten seconds cannot be right where it is one
    await quota.close()
