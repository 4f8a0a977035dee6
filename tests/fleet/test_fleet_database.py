"""PostgreSQL behind replicas: kills, a server that hangs, connections that are lost, and its tables."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from tests.support.system.engines import Server, postgresql
from toolcrib.errors import ConfigurationError
from toolcrib.state.base import Check, NewTask, Query, Record, Space, StateUnavailable, Write

ONCE = Space("once", 1_000, 10**6, 100, 1_000, "refuse", durable=True)
Make = Callable[..., Any]


@pytest.fixture
async def make(postgresql_server: Server) -> AsyncIterator[Make]:
    """Return the database of a new replica, of one fleet unless the server is given."""
    from toolcrib.state.postgresql.database import Database, migrate

    schema, made, servers = f"t{token_hex(4)}", [], set[str]()

    def make_one(server: Server = postgresql_server, *, is_ready: bool = True) -> Database:
        if is_ready and server.url not in servers:
            migrate(server.url, schema)
            servers.add(server.url)
        made.append(Database(server.url, schema=schema))
        return made[-1]

    yield make_one
    for each in made:
        await each.close()


@pytest.fixture
def own_server(postgresql_server: Server) -> Iterator[Server]:
    """A durable server that a test may stop."""
    with postgresql(is_durable=True) as server:
        yield server


def make_record(seq: int) -> Record:
    line = b'{"seq":%d,"hash":"%064x"}' % (seq, seq)
    return Record(seq, 1000 + seq, f"c{seq}", "key:ana", "add", "ok", line)


async def read_seqs(audit: Any, stream: str) -> list[int]:
    async with aclosing(audit.lines(stream, 0)) as lines:
        return [record.seq async for record in lines]


async def test_nonce_once(make: Make) -> None:
    """Of all replicas that use a confirmation at the same time, one may."""
    from toolcrib.state.postgresql.values import PostgreSQLValues

    replicas = [PostgreSQLValues(make()) for _ in range(4)]
    for number in range(10):
        use = [Write(ONCE, f"nonce {number}", b"", 600.0)]
        used = await asyncio.gather(
            *(values.commit(use, [Check(ONCE, f"nonce {number}", 0)]) for values in replicas * 3)
        )
        assert sum(used) == 1


async def test_text_that_postgresql_does_not_have_is_replaced(make: Make) -> None:
    from toolcrib.state.postgresql.audit import PostgreSQLAudit
    from toolcrib.state.postgresql.tasks import PostgreSQLTasks

    database = make()
    tasks, audit = PostgreSQLTasks(database), PostgreSQLAudit(database)
    new = NewTask("t", "ana", "work", "f", "d", 60_000, None)
    await tasks.create(new, queue=None, most=9, most_own=None)
    assert await tasks.note("t", "a\0b\ud800c")
    found = await tasks.find("t", "ana")
    assert found is not None
    assert found.message == "a\ufffdb?c"
    record = make_record(1)._replace(id="\0", tool="\ud800")
    await audit.append("one", [record])
    [kept] = (await audit.find(Query())).records
    assert (kept.id, kept.tool, kept.line) == ("\ufffd", "?", record.line)
    await audit.close()


# --- kills ---

PROGRAM = """\
import asyncio, sys
from tests.fleet.test_fleet_database import make_record
from toolcrib.state.postgresql.audit import PostgreSQLAudit
from toolcrib.state.postgresql.database import Database


async def main(url, schema, stream):
    audit, seq = PostgreSQLAudit(Database(url, schema=schema)), 1
    while True:
        await audit.append(stream, [make_record(seq + number) for number in range(5)])
        seq += 5
        print(seq - 1, flush=True)


asyncio.run(main(*sys.argv[1:]))
"""


def start_writer(database: Any, stream: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM, database.url, database.schema, stream]
    root = Path(__file__).resolve().parents[2]
    return subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


@pytest.mark.parametrize("killed", ["replica", "postgresql"])
async def test_kill_lossless(make: Make, own_server: Server, killed: str) -> None:
    """No record that was acknowledged is lost when a replica or PostgreSQL is killed under load."""
    from toolcrib.state.postgresql.audit import PostgreSQLAudit

    database = make(own_server)
    with start_writer(database, "one") as writer:
        assert writer.stdout is not None
        for _ in range(20):
            acknowledged = int(writer.stdout.readline())
        if killed == "replica":
            writer.send_signal(signal.SIGKILL)
        else:
            own_server.kill()
        for line in writer.stdout:
            acknowledged = int(line)
    if killed == "postgresql":
        own_server.start()
    audit = PostgreSQLAudit(make(own_server))
    async with asyncio.timeout(20):
        while True:
            try:
                seqs = await read_seqs(audit, "one")
                break
            except StateUnavailable:  # it recovers
                await asyncio.sleep(0.1)
    assert acknowledged >= 100
    assert seqs == list(range(1, len(seqs) + 1))
    assert acknowledged <= len(seqs) <= acknowledged + 5
    await audit.append("one", [make_record(seq) for seq in range(acknowledged - 4, acknowledged + 11)])
    assert await read_seqs(audit, "one") == list(range(1, acknowledged + 11))
    await audit.close()


# --- a server that hangs, and connections that are lost ---


async def test_nobody_waits_long_for_a_server_that_hangs(make: Make, own_server: Server) -> None:
    database = make(own_server)
    await database.open()
    own_server.pause()
    started, turns = time.monotonic(), 0
    waiting = asyncio.ensure_future(database.run(lambda db: db.value("SELECT 1"), 0.3))
    while not waiting.done():
        await asyncio.sleep(0.01)
        turns += 1
    with pytest.raises(StateUnavailable, match=r"did not respond within 0\.3 s") as caught:
        await waiting
    assert caught.value.in_doubt
    assert turns > 10
    for _ in range(100):
        with pytest.raises(StateUnavailable, match="PostgreSQL is not available"):
            await database.run(lambda db: db.value("SELECT 1"))
    assert time.monotonic() - started < 2
    own_server.resume()
    async with asyncio.timeout(10):
        while True:
            try:
                assert await database.run(lambda db: db.value("SELECT 1")) == 1
                break
            except StateUnavailable:
                await asyncio.sleep(0.05)


async def test_a_connection_that_was_lost_costs_no_request(make: Make) -> None:
    database, other = make(), make()
    for _ in range(3):
        pid = await database.run(lambda db: db.value("SELECT pg_backend_pid()"))
        await other.run(lambda db, pid=pid: db.run("SELECT pg_terminate_backend(%(pid)s)", pid=pid))
        assert await database.run(lambda db: db.value("SELECT pg_backend_pid()")) != pid


async def test_a_replica_without_an_event_loop_waits_for_the_thread(make: Make) -> None:
    from toolcrib.state.postgresql.audit import PostgreSQLAudit

    audit = PostgreSQLAudit(make())

    def work() -> object:
        for method in (audit.append("one", [make_record(1)]), audit.heads()):
            with pytest.raises(StopIteration) as ended:
                method.send(None)
        return ended.value.value

    assert await asyncio.to_thread(work) == {"one": make_record(1).head}
    await audit.close()


async def test_a_replica_that_ends_gives_up_its_lease(make: Make) -> None:
    from toolcrib.state.postgresql.tasks import PostgreSQLTasks

    database, other = make(), make()
    await PostgreSQLTasks(database).renew()
    count = "SELECT count(*) FROM @lease"
    assert await other.run(lambda db: db.value(count)) == 1
    await database.close()
    assert await other.run(lambda db: db.value(count)) == 0


# --- the tables ---


async def test_tables_are_made_once_by_everybody_who_tries(make: Make) -> None:
    from toolcrib.state.postgresql.database import load_migrations, migrate

    database = make(is_ready=False)
    with pytest.raises(ConfigurationError, match="PostgreSQL has no tables of toolcrib") as caught:
        await database.open()
    assert caught.value.hint == "run: toolcrib fleet migrate"
    applied = await asyncio.gather(
        *(asyncio.to_thread(migrate, database.url, database.schema) for _ in range(4))
    )
    assert sum(map(len, applied)) == len(load_migrations())
    await database.open()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("INSERT INTO @schema VALUES (999, 999)", "need a newer toolcrib: they have version 999"),
        ("UPDATE @schema SET version = version - 1", "have version 0, and this code needs 1"),
    ],
)
async def test_tables_of_another_version_are_refused(make: Make, change: str, message: str) -> None:
    database = make()
    await database.run(lambda db: db.run(change))
    with pytest.raises(ConfigurationError, match=message):
        await database.open()


async def test_tables_of_a_newer_version_that_this_code_can_use_are_used(make: Make) -> None:
    database = make()
    await database.run(lambda db: db.run("INSERT INTO @schema VALUES (999, 1)"))
    await database.open()


async def test_a_url_that_cannot_be_read_is_not_shown() -> None:
    from toolcrib.state.postgresql.database import Database, migrate

    url = "postgresql://shop:secret%zz@db.example.com/tools"
    database = Database(url)
    with pytest.raises(ConfigurationError, match="is not the URL of a database") as caught:
        await database.open()
    assert "secret" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="is not the URL of a database"):
        migrate(url)
    await database.close()
