"""Three replicas under load, as processes behind a proxy: kills, pauses, clocks that are wrong, upgrades.

Each test runs one round; with TOOLCRIB_SOAK set, the long forms run many.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.system.engines import Server
from tests.support.system.fleet import Fleet, run_fleet
from tests.support.system.requires import lack
from toolcrib.client import Client
from toolcrib.client.tasks import TaskHandle

MODERN, LEGACY = "2026-07-28", "2025-11-25"
LEASE_S = 10.0
TOOLS = '''\
import asyncio, os

from toolcrib import tool


@tool(read_only=True)
def which_replica() -> int:
    """Return the process that answers."""
    return os.getpid()


@tool(read_only=True)
async def hold(seconds: float) -> int:
    """Hold a slot."""
    await asyncio.sleep(seconds)
    return os.getpid()


@tool(read_only=True)
def spend() -> int:
    """Spend a part of a daily budget."""
    return os.getpid()


@tool(task="always")
async def work(path: str, seconds: float) -> int:
    """Write a line, and work for a while."""
    with open(path, "a") as file:
        file.write("started\\n")
    await asyncio.sleep(seconds)
    return os.getpid()
'''
SETTINGS = """\
[server]
name = "chaos"
targets = ["tools.py"]

[fleet]
postgres = "env:TOOLCRIB_POSTGRES"
redis = "env:TOOLCRIB_REDIS"
key_file = "fleet.key"
call_timeout_ms = 500

[[limits]]
tools = ["hold"]
concurrency = 3
per = "all"

[[limits]]
tools = ["spend"]
daily = 60
per = "all"
"""


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A folder with the server of these tests."""
    folder = tmp_path / "chaos"
    folder.mkdir()
    (folder / "tools.py").write_text(TOOLS)
    (folder / "toolcrib.toml").write_text(SETTINGS)
    return folder


@pytest.fixture
def fleet(example: Path, postgresql_server: Server, redis_server: Server) -> AsyncIterator[Fleet]:
    with run_fleet(example) as running:
        yield running


class Load:
    """Calls of clients, one after the other in each, until it ends."""

    def __init__(self) -> None:
        self.answers: Counter[str] = Counter()
        self.failures: list[str] = []
        self.slowest_s = 0.0

    @asynccontextmanager
    async def running(self, fleet: Fleet, *protocols: str) -> AsyncIterator[None]:
        clients = [asyncio.ensure_future(self._call(fleet, protocol)) for protocol in protocols]
        try:
            yield
        finally:
            for client in clients:
                client.cancel()
            await asyncio.gather(*clients, return_exceptions=True)

    async def _call(self, fleet: Fleet, protocol: str) -> None:
        async with Client(fleet.url, protocol=protocol, timeout_s=20) as client:
            while True:
                started = time.monotonic()
                try:
                    result = await client.call("which_replica", {})
                    self.answers[result.content[0]["text"]] += 1
                except Exception as error:
                    self.failures.append(f"{protocol} {type(error).__name__}: {error}")
                self.slowest_s = max(self.slowest_s, time.monotonic() - started)
                await asyncio.sleep(0)

    async def pass_calls(self, count: int) -> None:
        """Wait for so many more answers."""
        until = self.answers.total() + count
        async with asyncio.timeout(60):
            while self.answers.total() < until:
                await asyncio.sleep(0.02)


async def until(condition: Callable[[], Awaitable[bool]], seconds: float) -> float:
    """Wait until something holds, and return how long that took."""
    started = time.monotonic()
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.1)
    return time.monotonic() - started


async def test_a_replica_that_is_killed_under_load_costs_only_what_it_was_doing(fleet: Fleet) -> None:
    """Its slots are free and its tasks have failed within the lease, and nothing hangs."""
    load, path = Load(), fleet.folder / "work.txt"
    victim = fleet.replicas[0]
    direct = f"http://127.0.0.1:{fleet.ports[victim.pid]}/mcp"
    async with (
        Client(fleet.url) as client,
        Client(direct) as doomed,
        load.running(fleet, MODERN, MODERN, MODERN, LEGACY, LEGACY),
    ):
        task = await doomed.start("work", {"path": str(path), "seconds": 600.0})
        assert isinstance(task, TaskHandle)
        held = [asyncio.ensure_future(doomed.call("hold", {"seconds": 600.0})) for _ in range(3)]
        await load.pass_calls(50)
        assert (await client.call("hold", {"seconds": 0.0})).is_error
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        load.slowest_s, before = 0.0, len(load.failures)
        await load.pass_calls(200)
        fleet.start()

        async def is_free() -> bool:
            return not (await client.call("hold", {"seconds": 0.0})).is_error

        async def has_failed() -> bool:
            return (await client.task(task.id).status()).state == "failed"

        assert await until(is_free, LEASE_S + 10) <= LEASE_S + 3
        assert await until(has_failed, LEASE_S + 10) <= LEASE_S + 3
        await load.pass_calls(50)
        results = await asyncio.gather(*held, return_exceptions=True)
    assert all(isinstance(result, Exception) for result in results)
    assert path.read_text() == "started\n"
    assert before == 0
    assert len(load.failures) <= 5, load.failures  # at most the call of each client
    assert load.slowest_s < 5
    assert len(load.answers) == 4


async def test_calls_go_on_while_the_servers_are_paused_killed_and_restarted(fleet: Fleet) -> None:
    load = Load()
    async with Client(fleet.url) as client, load.running(fleet, MODERN, MODERN, LEGACY):

        async def spend(count: int) -> int:
            results = [await client.call("spend", {}) for _ in range(count)]
            return sum(not result.is_error for result in results)

        async def is_shared() -> bool:
            status = fleet.status()
            modes = [each["modes"] for each in status if each["pid"] in {one.pid for one in fleet.replicas}]
            return all(set(each.values()) == {"shared"} for each in modes)

        spent = await spend(10)
        await load.pass_calls(20)
        await asyncio.sleep(3)  # the budget is copied, and all replicas have seen each other
        for server in (fleet.redis, fleet.postgresql):
            server.pause()
            await load.pass_calls(100)
            server.resume()
            await until(is_shared, 30)
            server.kill()
            await load.pass_calls(100)
            if server is fleet.redis:
                spent += await spend(90)
            server.start()
            await until(is_shared, 30)
        await until(lambda: budget_is(fleet, 10), 10)
        spent += await spend(80)
        task = await client.start("work", {"path": str(fleet.folder / "work.txt"), "seconds": 0.0})
        assert not (await task.result(timeout_s=20)).is_error
    assert load.failures == []
    assert load.slowest_s < 10
    assert spent <= 60 + 60  # what was spent without Redis is within the limit, but unknown to it


async def budget_is(fleet: Fleet, spent: int) -> bool:
    """Whether the budget was restored after Redis lost it."""
    found = subprocess.run(
        ["redis-cli", "-s", fleet.redis.folder / "redis", "--raw", "KEYS", "*:budget:*"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    if not found:
        return False
    get = ["redis-cli", "-s", fleet.redis.folder / "redis", "--raw", "GET", found[0]]
    return int(subprocess.run(get, capture_output=True, text=True, check=True).stdout) >= spent


async def test_a_rolling_upgrade_fails_no_call(fleet: Fleet) -> None:
    """Each replica is taken out of the balancer, ended and replaced, under load of both eras."""
    load, old = Load(), list(fleet.replicas)
    async with load.running(fleet, MODERN, MODERN, LEGACY, LEGACY):
        await load.pass_calls(50)
        for replica in old:
            fleet.start()
            fleet.proxy.ports.remove(fleet.ports[replica.pid])
            await asyncio.to_thread(fleet.end, replica)
            assert replica.returncode == 0
            await load.pass_calls(50)
    assert load.failures == []
    assert {str(replica.pid) for replica in fleet.replicas} == set(load.answers)
    serving = {replica.pid for replica in fleet.replicas[3:]}

    async def is_known() -> bool:
        return {each["pid"] for each in fleet.status() if each["state"] == "live"} == serving

    await until(is_known, LEASE_S + 10)


@pytest.mark.parametrize("offset_s", [3600, pytest.param(-3600, marks=pytest.mark.long)])
async def test_a_replica_whose_clock_is_wrong_works_like_the_others(
    example: Path, postgresql_server: Server, redis_server: Server, offset_s: int
) -> None:
    library = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
    if library is None:
        lack("libfaketime is missing")
    skewed = {"LD_PRELOAD": str(library), "FAKETIME": f"{offset_s:+d}", "DONT_FAKE_MONOTONIC": "1"}
    with run_fleet(example, replicas=2) as fleet:
        fleet.variables |= {**skewed, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        fleet.start()
        urls = [f"http://127.0.0.1:{port}/mcp" for port in fleet.ports.values()]
        assert len(urls) == 3
        async with (
            Client(urls[0]) as right,
            Client(urls[2]) as wrong,
            Client(fleet.url, protocol=LEGACY) as any_,
        ):
            tasks = [
                await each.start("work", {"path": str(fleet.folder / "work.txt"), "seconds": 5.0})
                for each in (right, wrong)
            ]
            results = [await any_.call("which_replica", {}) for _ in range(6)]
            assert {int(result.content[0]["text"]) for result in results} == set(fleet.ports)
            spent = 0
            for number in range(70):
                spent += not (await (right, wrong)[number % 2].call("spend", {})).is_error
            assert spent == 60
            for here, task in ((wrong, tasks[0]), (right, tasks[1])):  # neither fails those of the other
                assert not (await here.task(task.id).result(timeout_s=20)).is_error
        assert all(each["state"] == "live" for each in fleet.status())


@pytest.mark.long
async def test_replicas_that_are_killed_again_and_again(fleet: Fleet) -> None:
    """`TOOLCRIB_KILLS` rounds, 1,000 by default: a kill every 2.5 seconds, in rotation."""
    load, rounds = Load(), int(os.environ.get("TOOLCRIB_KILLS", "1000"))
    protocols = [MODERN, MODERN, MODERN, LEGACY, LEGACY]
    async with load.running(fleet, *protocols):
        for number in range(rounds):
            victim = fleet.replicas[-3]
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            fleet.proxy.ports.remove(fleet.ports[victim.pid])
            await asyncio.to_thread(fleet.start)
            await load.pass_calls(20)
            assert len(load.failures) <= len(protocols) * (number + 1), load.failures[-5:]
    assert load.slowest_s < 5
