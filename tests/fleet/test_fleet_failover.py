"""Redis behind sentinels, PostgreSQL with a standby and behind PgBouncer."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from tests.state.conftest import admit, budget_of, count_admitted, limits_of
from tests.support.system.engines import Server, as_postgres, find_postgresql, postgresql, redis
from tests.support.system.requires import lack
from toolcrib.state.base import Space, StateUnavailable, Write
from toolcrib.state.memory import MemoryCounters

NOTES = Space("notes", 100, 10**6, 1_000, 100, "refuse", durable=True)


def find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(*command: str, port: int, user: str | None = None) -> Iterator[None]:
    """Run a server until the block ends; it answers at the port when the block begins."""
    if shutil.which(command[0]) is None:
        lack(f"{command[0]} is missing")
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=user
    ) as process:
        try:
            until = time.monotonic() + 10
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 0.1).close()
                    break
                except OSError:
                    assert process.poll() is None
                    assert time.monotonic() < until
                    time.sleep(0.02)
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(10)


async def test_after_a_fail_over_replicas_find_the_new_primary(redis_server: Server, tmp_path: Path) -> None:
    from toolcrib.state.redis.counters import RedisCounters
    from toolcrib.state.redis.server import Redis

    ports = [find_port() for _ in range(3)]
    config = tmp_path / "sentinel.conf"
    config.write_text(
        f"port {ports[2]}\nbind 127.0.0.1\nsentinel monitor shop 127.0.0.1 {ports[0]} 1\n"
        "sentinel down-after-milliseconds shop 300\nsentinel failover-timeout shop 1000\n"
    )
    bind = ("--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0")
    with (
        redis("--port", str(ports[0]), *bind) as primary,
        redis("--port", str(ports[1]), *bind, "--replicaof", f"127.0.0.1 {ports[0]}"),
        running("redis-sentinel", str(config), port=ports[2]),
    ):
        server = Redis(f"redis+sentinel://127.0.0.1:1,127.0.0.1:{ports[2]}/shop", "f", "one", timeout_s=0.2)
        counters, limits = RedisCounters(server, MemoryCounters()), limits_of(budget_of(100))
        assert await count_admitted(counters, limits, 3) == 3
        pipe = server.pipe()
        assert await pipe.ask("CONFIG", "GET", "port") == {b"port": str(ports[0]).encode()}
        async with asyncio.timeout(20):
            while await pipe.ask("WAIT", "1", "100") < 1 or b"slaves=1" not in await sentinel_info(ports[2]):
                await asyncio.sleep(0.05)
        primary.kill()
        await count_admitted(counters, limits, 3)
        async with asyncio.timeout(20):
            while server.breaker.is_open or not (await admit(counters, limits)).id.startswith("one"):
                await asyncio.sleep(0.02)
        assert await pipe.ask("CONFIG", "GET", "port") == {b"port": str(ports[1]).encode()}
        assert (await counters.usage(limits))[0] >= 4
        await server.close()


async def sentinel_info(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"INFO sentinel\r\n")
    size = int((await reader.readline())[1:])
    info = await reader.readexactly(size)
    writer.close()
    await writer.wait_closed()
    return info


async def test_pgbouncer_may_give_each_transaction_another_connection(
    postgresql_server: Server, tmp_path: Path
) -> None:
    from tests.fleet.test_fleet_database import make_record, read_seqs
    from toolcrib.state.postgresql.audit import PostgreSQLAudit
    from toolcrib.state.postgresql.database import Database, migrate
    from toolcrib.state.postgresql.values import PostgreSQLValues

    port, schema = find_port(), f"t{token_hex(4)}"
    folder = postgresql_server.folder
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"[databases]\npostgres = host={folder} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n"
        "default_pool_size = 3\n"
    )
    config.chmod(0o644)
    user = "postgres" if os.geteuid() == 0 else None
    with running("pgbouncer", str(config), port=port, user=user):
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        await asyncio.to_thread(migrate, url, schema)
        databases = [Database(url, schema=schema) for _ in range(8)]
        audits = [PostgreSQLAudit(database) for database in databases]

        async def work(number: int) -> None:
            values = PostgreSQLValues(databases[number])
            for seq in range(1, 11):
                await values.commit([Write(NOTES, f"{number}", b"%d" % seq, None)])
                await audits[number].append(f"{number}", [make_record(seq)])

        await asyncio.gather(*(work(number) for number in range(8)))
        assert len(await PostgreSQLValues(databases[0]).scan(NOTES)) == 8
        assert await read_seqs(audits[0], "7") == list(range(1, 11))
        for each in (*audits, *databases):
            await each.close()


async def test_after_a_fail_over_of_postgresql_no_acknowledged_record_is_lost(
    postgresql_server: Server,
) -> None:
    """The standby confirms each commit; replicas name both servers, and use the one that can be written."""
    from tests.fleet.test_fleet_database import make_record, read_seqs
    from toolcrib.state.postgresql.audit import PostgreSQLAudit
    from toolcrib.state.postgresql.database import Database, migrate

    with (
        postgresql("synchronous_standby_names=*", is_durable=True) as primary,
        postgresql(is_durable=True, standby_of=primary) as standby,
    ):
        hosts = f"{primary.folder},{standby.folder}"
        url = f"postgresql:///postgres?host={hosts}&user=postgres&target_session_attrs=read-write"
        await asyncio.to_thread(migrate, url)
        database = Database(url)
        audit, acknowledged, goal = PostgreSQLAudit(database), 0, 10**9

        async def write() -> None:
            nonlocal acknowledged
            while acknowledged < goal:
                records = [make_record(acknowledged + number) for number in range(1, 6)]
                try:
                    await audit.append("one", records)
                    acknowledged += 5
                except StateUnavailable:  # in doubt, or refused: the same again
                    await asyncio.sleep(0.05)

        writing = asyncio.ensure_future(write())
        async with asyncio.timeout(40):
            while acknowledged < 100:
                await asyncio.sleep(0.02)
            primary.kill()
            promote = [find_postgresql("pg_ctl"), "promote", "-D", str(standby.folder / "data")]
            await asyncio.to_thread(
                subprocess.run, [*as_postgres(), *promote], check=True, stdout=subprocess.DEVNULL
            )
            goal = acknowledged + 100
            await writing
        assert await read_seqs(audit, "one") == list(range(1, acknowledged + 1))
        await audit.close()
        await database.close()
