"""Counters of replicas on a real Redis: exact, and harmless when it hangs, restarts or lies."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from tests.state.conftest import admit, ask, budget_of, count_admitted, limits_of, rate_of, refuse, slots_of
from tests.support.system.engines import Server, redis
from toolcrib.errors import ConfigurationError
from toolcrib.state.base import Lease
from toolcrib.state.memory import MemoryCounters

Make = Callable[..., Any]


@pytest.fixture
async def make(redis_server: Server) -> AsyncIterator[Make]:
    """Return counters of a new replica, of one fleet unless the server is given."""
    from toolcrib.state.redis.counters import RedisCounters
    from toolcrib.state.redis.server import Redis

    name, made = token_hex(4), []

    def make_one(server: Server = redis_server, timeout_s: float = 5.0) -> RedisCounters:
        made.append(Redis(server.url, name, token_hex(4), timeout_s=timeout_s))
        return RedisCounters(made[-1], MemoryCounters())

    yield make_one
    for each in made:
        await each.close()


@pytest.fixture
def own_server(redis_server: Server) -> Iterator[Server]:
    """A server that a test may stop."""
    with redis() as server:
        yield server


async def command(counters: Any, *words: str) -> Any:
    return await counters._redis.pipe().ask(*words)


async def until_open(counters: Any, is_open: bool) -> None:
    async with asyncio.timeout(10):
        while counters._redis.breaker.is_open != is_open:
            await asyncio.sleep(0.01)


async def test_exact_64(make: Make) -> None:
    """Four replicas with 64 calls in flight admit exactly what the limits say."""
    replicas, running, most = [make() for _ in range(4)], 0, 0
    limits = limits_of(rate_of(500, 86_400), budget_of(450), slots_of(20))

    async def call(counters: Any) -> bool:
        nonlocal running, most
        lease = await ask(counters, limits)
        if not isinstance(lease, Lease):
            return False
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        counters.release(lease, ran=True)
        return True

    async def work(counters: Any) -> int:
        return sum([await call(counters) for _ in range(60)])

    admitted = sum(await asyncio.gather(*(work(replicas[number % 4]) for number in range(64))))
    assert admitted == 450
    assert most <= 20
    used = await replicas[0].usage(limits)
    assert used[1] == 450


async def test_mark_twice(make: Make) -> None:
    """A call that answers a question is counted once in the whole fleet."""
    one, two = make(), make()
    limits = limits_of(rate_of(1, 3600))
    await admit(one, limits)
    await admit(one, limits, mark="m")
    await refuse(two, limits, mark="m")
    await admit(two, limits, mark="n")


async def test_a_call_waits_for_one_script_and_its_release_travels_with_another(make: Make) -> None:
    counters = make()
    limits = limits_of(rate_of(10**6, 1), budget_of(10**6), slots_of(100))
    await count_admitted(counters, limits, 10)
    await command(counters, "CONFIG", "RESETSTAT")
    await count_admitted(counters, limits, 200)
    stats = (await command(counters, "INFO", "commandstats")).decode()
    calls = {line.split(":")[0]: int(line.split("calls=")[1].split(",")[0]) for line in stats.split()[2:]}
    assert 200 <= calls["cmdstat_evalsha"] <= 210
    assert calls.get("cmdstat_eval", 0) == 0


async def test_a_script_that_redis_forgot_is_sent_again(make: Make) -> None:
    counters, limits = make(), limits_of(budget_of(5))
    await admit(counters, limits)
    await command(counters, "SCRIPT", "FLUSH")
    await admit(counters, limits)
    assert await counters.usage(limits) == [2]


async def test_a_cancelled_call_takes_nothing(make: Make) -> None:
    counters, limits = make(), limits_of(budget_of(5), slots_of(1))
    for _ in range(3):
        task = asyncio.ensure_future(counters.acquire(limits))
        await asyncio.sleep(0)
        task.cancel()
    await command(counters, "PING")
    await asyncio.sleep(0.05)
    assert await counters.usage(limits) == [0, 0]


# --- while Redis is not available ---


async def test_one_call_waits_for_a_redis_that_hangs_and_what_it_took_is_given_back(
    make: Make, own_server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "toolcrib")
    counters, limits = make(own_server, 0.25), limits_of(budget_of(100), slots_of(9), rate_of(3, 3600))
    counters.release(await admit(counters, limits), ran=True)
    await asyncio.sleep(0.02)
    own_server.pause()
    started = time.monotonic()
    alone = await admit(counters, limits)
    assert time.monotonic() - started < 1
    assert not alone.id.startswith(counters._redis.process)
    started = time.monotonic()
    assert await count_admitted(counters, limits, 50) == 2  # the three of this process alone
    assert time.monotonic() - started < 0.1
    assert (await refuse(counters, limits._replace(when_down="deny"))).limit is None
    await admit(counters, limits._replace(when_down="allow"))
    own_server.resume()
    await until_open(counters, False)
    await asyncio.sleep(0.05)
    assert await counters.usage(limits) == [1, 0, 2]  # of the late one the rate is not given back
    counters.release(alone, ran=True)
    messages = [record.getMessage() for record in caplog.records]
    assert messages == ["Redis is not available: Redis did not reply in time", "Redis is available again"]


async def test_an_event_loop_that_was_blocked_is_no_outage_of_redis(make: Make) -> None:
    counters = make(timeout_s=0.25)
    await admit(counters, limits_of(slots_of(9)))
    for _ in range(3):
        asyncio.get_running_loop().call_soon(time.sleep, 0.4)  # before the request is sent
        lease = await counters.acquire(limits_of(slots_of(9)))
        assert lease.id.startswith(counters._redis.process)
    assert not counters._redis.breaker.is_open


async def test_a_redis_that_restarts_empty_is_used_again(make: Make, own_server: Server) -> None:
    limits = limits_of(slots_of(9), budget_of(5))
    counters = make(own_server, 0.25)
    lease = await admit(counters, limits)
    kept = await admit(counters, limits)
    own_server.kill()
    assert await count_admitted(counters, limits, 9) == 5
    await until_open(counters, True)
    own_server.start()
    await until_open(counters, False)
    counters.release(lease, ran=True)
    async with asyncio.timeout(10):
        while await counters.usage(limits_of(slots_of(9))) != [1]:  # claimed again by its renewal
            await asyncio.sleep(0.05)
    counters.release(kept, ran=True)


@pytest.mark.parametrize(
    ("words", "undo"),
    [
        (("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0")),
        (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE")),
    ],
    ids=["out of memory", "read only"],
)
async def test_a_redis_that_refuses_writes_is_left_alone_until_it_takes_them(
    make: Make, own_server: Server, words: tuple[str, ...], undo: tuple[str, ...]
) -> None:
    counters, limits = make(own_server), limits_of(budget_of(5))
    await admit(counters, limits)
    await command(counters, *words)
    assert await count_admitted(counters, limits, 9) == 5  # alone
    assert counters._redis.breaker.is_open
    await command(counters, *undo)
    await until_open(counters, False)
    assert (await admit(counters, limits)).id.startswith(counters._redis.process)


async def test_a_value_of_the_wrong_type_affects_the_calls_that_need_it(make: Make) -> None:
    counters, other = make(), limits_of(slots_of(5, "other"))
    await command(counters, "SET", f"{counters._redis.prefix}slot:slots", "not a set")
    await command(counters, "SET", f"{counters._redis.prefix}rate:rate 5 3600 None", "9 9 9")
    poisoned = await admit(counters, limits_of(slots_of(5)))
    assert not poisoned.id.startswith(counters._redis.process)
    assert (await admit(counters, other)).id.startswith(counters._redis.process)
    assert await count_admitted(counters, limits_of(rate_of(5, 3600)), 9) == 5


async def test_a_server_that_evicts_counts_is_refused(make: Make, own_server: Server) -> None:
    counters = make(own_server)
    await counters._redis.open()
    await command(counters, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    with pytest.raises(ConfigurationError, match="Redis evicts counts: its policy is allkeys-lru"):
        await counters._redis.open()


PROGRAM = """\
import asyncio, sys
from tests.state.conftest import ask, limits_of, slots_of
from toolcrib.state.memory import MemoryCounters
from toolcrib.state.redis.counters import RedisCounters
from toolcrib.state.redis.server import Redis


async def main(url, name):
    counters = RedisCounters(Redis(url, name, "killed", timeout_s=30), MemoryCounters())
    for _ in range(3):
        await ask(counters, limits_of(slots_of(9)))
    print("running", flush=True)
    await asyncio.sleep(3600)


asyncio.run(main(*sys.argv[1:]))
"""


async def test_slots_after_kill(make: Make, redis_server: Server) -> None:
    """The slots of a killed replica are leases that end in ten seconds."""
    counters, limits = make(), limits_of(slots_of(9))
    name = counters._redis.prefix.removesuffix(":")
    root = Path(__file__).resolve().parents[2]
    arguments = [sys.executable, "-c", PROGRAM, redis_server.url, name]
    with subprocess.Popen(arguments, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        process.send_signal(signal.SIGKILL)
    assert await counters.usage(limits) == [3]
    seconds, _ = await command(counters, "TIME")
    slots = await command(counters, "ZRANGE", f"{name}:slot:slots", "0", "-1", "WITHSCORES")
    assert all(0 < score / 1_000_000 - int(seconds) < 11 for _, score in slots)
    await command(
        counters, "ZADD", f"{name}:slot:slots", "XX", "1", "killed:1", "1", "killed:2"
    )  # time passes
    assert await counters.usage(limits) == [1]


async def test_budget_restore(make: Make, own_server: Server, postgresql_server: Server) -> None:
    """A Redis that lost its data learns from PostgreSQL how much of budgets is spent."""
    from toolcrib.state.postgresql.budgets import BudgetCopies
    from toolcrib.state.postgresql.database import Database, migrate

    migrate(postgresql_server.url, schema := f"t{token_hex(4)}")
    limits, databases = limits_of(budget_of(10, "a"), slots_of(9)), []
    for counters in (replicas := [make(own_server, 0.25) for _ in range(2)]):
        databases.append(database := Database(postgresql_server.url, schema=schema))
        counters.on_empty = BudgetCopies(database, counters).restore
        await database.open()
    assert await count_admitted(replicas[0], limits, 4) == 4
    assert await count_admitted(replicas[1], limits, 3) == 3
    await count_admitted(replicas[1], limits_of(budget_of(5, "b")), 9)
    async with asyncio.timeout(10):
        while await databases[0].run(lambda db: db.value("SELECT sum(used) FROM @budget")) != 7 + 5:
            await asyncio.sleep(0.05)
    await command(replicas[0], "FLUSHALL")
    async with asyncio.timeout(10):
        while await replicas[0].usage(limits_of(budget_of(10, "a"), budget_of(5, "b"))) != [7, 5]:
            await asyncio.sleep(0.05)
    assert await count_admitted(replicas[0], limits, 9) == 3
    for database in databases:
        await database.close()
