"""The engines that every test of a contract runs over, and machines whose clocks are set by hand."""

from __future__ import annotations

import inspect
import socket
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

import pytest

from tests.support.system.engines import Server
from tests.support.system.manual_clock import Clock
from toolcrib.state.base import Counters, Lease, Limit, Limits, Refused, Space
from toolcrib.state.memory import MemoryCounters
from toolcrib.state.sqlite import counters as sqlite_counters
from toolcrib.state.sqlite import file as sqlite_file
from toolcrib.state.sqlite.file import NS
from toolcrib.state.sqlite.state import SQLiteState

YEAR_S = 366 * 86_400
"""A period in which nothing of a rate comes back during a test."""


NOTHING = Space("nothing", 1, 1, 1, 1, "refuse", False)


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

    async def settle(self, process: SQLiteState) -> None:
        """Wait until a process has done what it was told, and listens to notices."""
        await process.values.scan(NOTHING)

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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test of a contract over every engine that its module names: `engine` is for one process of each,
    `shared` for processes that share one. Only some have room for a number of keys."""
    for fixture, usual in (("engine", ("memory", "sqlite")), ("shared", ("sqlite",))):
        if fixture in metafunc.fixturenames:
            others = () if "few" in metafunc.fixturenames else getattr(metafunc.module, "SERVERS", ())
            metafunc.parametrize(fixture, [*usual, *others], indirect=True)


@pytest.fixture
def engine(
    request: pytest.FixtureRequest, tmp_path: Path, make_machine: Callable[[Path | None], Machine]
) -> Machine:
    """A machine for one process of an engine."""
    if request.param in ("memory", "sqlite"):
        return make_machine(None if request.param == "memory" else tmp_path / "state.db")
    fleet: Machine = request.getfixturevalue(f"{request.param}_fleet")
    return fleet


shared = engine
"""A machine whose processes share an engine."""


class FleetClock(Clock):
    """The clock of an engine that many machines share."""

    def __init__(self, write: Callable[[float], object]) -> None:
        self._write = write
        super().__init__(1_700_000_000.0)

    @property
    def at_s(self) -> float:
        return self._at_s

    @at_s.setter
    def at_s(self, at_s: float) -> None:
        self._at_s = at_s
        self._write(at_s)


class Replica(NamedTuple):
    process: str
    redis: Any
    counters: Any
    bus: Any

    async def close(self) -> None:
        await self.redis.close()


class RedisFleet(Machine):
    """Replicas that share Redis. Its script takes the time from a key."""

    def __init__(self, server: Server, name: str) -> None:
        self.path = server.folder
        self.name = name
        self.url = server.url
        self.wall = self.uptime = FleetClock(self._write_time)
        self.processes = []

    def _write_time(self, at_s: float) -> None:
        time_us = round(at_s * 1_000_000)
        with socket.socket(socket.AF_UNIX) as redis:
            redis.connect(self.url.removeprefix("unix://"))
            redis.sendall(b"HSET %s:clock s %d us %d\r\n" % (self.name.encode(), *divmod(time_us, 1_000_000)))
            assert redis.recv(100).startswith(b":")

    def pass_s(self, seconds: float) -> None:
        self.wall.pass_s(seconds)
        for replica in self.processes:  # as their threads do every three seconds
            replica.redis.post(lambda pipe, redis=replica.redis: redis._renew(pipe, False))
            self._wait_for(replica)

    def start(self, *, is_shared: bool = False) -> Any:
        from toolcrib.state.redis.bus import RedisBus
        from toolcrib.state.redis.counters import RedisCounters
        from toolcrib.state.redis.server import Redis

        redis = Redis(self.url, self.name, token_hex(4), timeout_s=30.0)
        replica = Replica(redis.process, redis, RedisCounters(redis, MemoryCounters()), RedisBus(redis))
        self.processes.append(replica)
        return replica

    def freeze(self, process: Any) -> None:
        process.redis.on_renew.clear()

    async def settle(self, process: Any) -> None:
        self._wait_for(process)

    def _wait_for(self, process: Any) -> None:
        is_done = threading.Event()
        process.redis.start()
        process.redis.post(lambda pipe: pipe.send(("PING",), lambda _: is_done.set()))
        assert is_done.wait(10)


@pytest.fixture
async def redis_fleet(redis_server: Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RedisFleet]:
    from toolcrib.state.redis import counters

    clock = "redis.call('HMGET', prefix .. 'clock', 's', 'us')"
    assert "redis.call('TIME')" in counters.SCRIPT
    monkeypatch.setattr(counters, "SCRIPT", counters.SCRIPT.replace("redis.call('TIME')", clock))
    fleet = RedisFleet(redis_server, token_hex(4))
    yield fleet
    for replica in fleet.processes:
        await replica.close()


class Process(NamedTuple):
    """A process that uses PostgreSQL."""

    process: str
    database: Any
    tasks: Any
    values: Any
    keys: Any


class PostgreSQLFleet(Machine):
    """Replicas that share PostgreSQL. Its tables take the time from a function that a test replaces."""

    def __init__(self, server: Server, name: str) -> None:
        import psycopg

        from toolcrib.state.postgresql.database import migrate

        self.path = server.folder
        self.name = name
        self.url = server.url
        self.processes = []
        migrate(server.url, name)
        self.db = psycopg.connect(server.url, autocommit=True, options=f"-c search_path={name}")
        self.db.execute("CREATE TABLE clock AS SELECT 0::bigint AS ms")
        body = f"SELECT ms FROM {name}.clock"
        self.db.execute(f"CREATE OR REPLACE FUNCTION now_ms() RETURNS bigint LANGUAGE sql AS '{body}'")
        self.wall = self.uptime = FleetClock(self._write_time)

    def _write_time(self, at_s: float) -> None:
        self.db.execute("UPDATE clock SET ms = %s", [round(at_s * 1000)])

    def pass_s(self, seconds: float) -> None:
        self.wall.pass_s(seconds)

    def start(self, *, is_shared: bool = False) -> Any:
        from toolcrib.state.postgresql.database import Database
        from toolcrib.state.postgresql.keys import PostgreSQLKeys
        from toolcrib.state.postgresql.tasks import PostgreSQLTasks
        from toolcrib.state.postgresql.values import PostgreSQLValues

        database = Database(self.url, schema=self.name)
        stores = (PostgreSQLTasks(database), PostgreSQLValues(database), PostgreSQLKeys(database))
        self.processes.append(process := Process(database.process, database, *stores))
        return process

    def freeze(self, process: Any) -> None:
        process.database.beats.clear()

    async def close(self) -> None:
        for process in self.processes:
            await process.database.close()
        self.db.execute(f"DROP SCHEMA {self.name} CASCADE")
        self.db.close()


@pytest.fixture
async def postgresql_fleet(postgresql_server: Server) -> AsyncIterator[PostgreSQLFleet]:
    fleet = PostgreSQLFleet(postgresql_server, f"t{token_hex(4)}")
    yield fleet
    await fleet.close()


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
