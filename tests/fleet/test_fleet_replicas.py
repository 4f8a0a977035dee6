"""Servers that are replicas of one fleet, on real engines: what works with one works with all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from tests.support.system.engines import Server, redis
from toolcrib import Context, MCPServer
from toolcrib.config.settings import Fleet
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Limit, Policy, Tasks

SECRET = "s" * 43
CANARY = "canary-4711"
Make = Callable[..., Any]


def make_server(fleet: Fleet, **settings: Any) -> MCPServer:
    limits = [Limit(tools=["count"], rate="5/h", per="all"), Limit(tools=["hold"], concurrency=2, per="all")]
    tasks = Tasks(wait_s=0.05, poll_s=0.05)
    server = MCPServer("shop", policy=Policy(limits=limits), tasks=tasks, fleet=fleet, **settings)
    server.gate = asyncio.Event()  # type: ignore[attr-defined]

    @server.tool
    def count() -> str:
        """Count a call."""
        return "counted"

    @server.tool
    async def hold() -> str:
        """Hold a slot until the gate opens."""
        await server.gate.wait()  # type: ignore[attr-defined]
        return "held"

    @server.tool(task="always")
    async def work(note: str) -> str:
        """Work for a while."""
        await asyncio.sleep(0.3)
        return f"worked on {note}"

    @server.tool
    async def keep(text: str, ctx: Context) -> str:
        """Keep a text for the caller."""
        await ctx.set_state("text", text, of="principal")
        return "kept"

    @server.tool
    async def recall(ctx: Context) -> str:
        """Return the text that was kept."""
        return str(await ctx.get_state("text", of="principal"))

    return server


@pytest.fixture
def own_redis() -> Iterator[Server]:
    """A server that a test may stop."""
    with redis() as server:
        yield server


@pytest.fixture
async def make(
    postgresql_server: Server, redis_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Make]:
    """Return a function that starts a replica of one fleet."""
    from toolcrib.state.postgresql.database import migrate

    schema = f"t{token_hex(4)}"
    migrate(postgresql_server.url, schema)
    key_file = tmp_path / "fleet.key"
    key_file.write_text(SECRET)
    key_file.chmod(0o600)
    monkeypatch.setenv("POSTGRES", postgresql_server.url)
    monkeypatch.setenv("REDIS", redis_server.url)
    async with AsyncExitStack() as stack:

        async def start(**settings: Any) -> MCPServer:
            fleet = Fleet(
                postgres="env:POSTGRES", redis="env:REDIS", key_file=key_file, name=schema, db_schema=schema
            )
            return await stack.enter_async_context(make_server(fleet, **settings))

        yield start


async def count_of(servers: list[MCPServer], attempts: int) -> int:
    """Return how many of some calls, spread over servers, are admitted."""
    results = [await servers[number % len(servers)].call("count") for number in range(attempts)]
    return sum(not result.is_error for result in results)


async def test_a_rate_is_that_of_all_replicas(make: Make) -> None:
    assert await count_of([await make(), await make()], 12) == 5


async def test_slots_are_those_of_all_replicas(make: Make) -> None:
    one, two = await make(), await make()
    calls = [asyncio.create_task(each.call("hold")) for each in (one, two)]
    await asyncio.sleep(0.1)
    refused = await one.call("hold")
    assert refused.is_error
    assert "at once" in refused.text
    for each in (one, two):
        each.gate.set()
    assert [(await call).text for call in calls] == ["held", "held"]
    assert not (await two.call("hold")).is_error


async def test_a_task_is_read_at_any_replica(make: Make) -> None:
    one, two = await make(), await make()
    async with one.connect() as first, two.connect() as second:
        handle = await first.start("work", {"note": CANARY})
        result = await second.task(handle.id).result(timeout_s=10)
        assert result.text == f"worked on {CANARY}"


async def test_the_state_of_a_caller_is_read_at_any_replica(make: Make) -> None:
    one, two = await make(), await make()
    await one.call("keep", text="hello")
    assert (await two.call("recall")).text == "hello"


async def test_nothing_that_callers_sent_is_in_clear_in_the_database(
    make: Make, postgresql_server: Server
) -> None:
    import psycopg

    one = await make()
    schema = one.settings.fleet.db_schema
    await one.call("keep", text=CANARY)
    async with one.connect() as client:
        await (await client.start("work", {"note": CANARY})).result(timeout_s=10)
    with psycopg.connect(postgresql_server.url) as database:
        tables = database.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s", [schema]
        ).fetchall()
        rows = [
            repr(row)
            for (table,) in tables
            for row in database.execute(f'SELECT * FROM "{schema}"."{table}"').fetchall()
        ]
        database.execute("CHECKPOINT")
    assert len(rows) > 5
    assert CANARY not in "".join(rows)
    written = [path for path in (postgresql_server.folder / "data").rglob("*") if path.is_file()]
    assert not [path for path in written if CANARY.encode() in path.read_bytes()]


async def test_replicas_know_each_other_until_they_end(make: Make) -> None:
    from toolcrib.fleet.membership import read_replicas

    one, two = await make(), await make()
    members = one.storage.engine.members
    await members.renew()
    assert set(members.live) == {one.storage.engine.process, two.storage.engine.process}
    (found,) = [
        each
        for each in await one.storage.engine.database.run(read_replicas)
        if each.process == two.storage.engine.process
    ]
    assert (found.is_live, found.is_draining) == (True, False)
    assert found.facts["modes"] == {"redis": "shared", "postgres": "shared"}
    await two.stop()
    await members.renew()
    assert list(members.live) == [one.storage.engine.process]


async def test_a_replica_that_is_asked_to_end_knows_it(make: Make) -> None:
    from toolcrib.fleet.membership import mark_draining

    engine = (await make()).storage.engine
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    engine.members.on_drain[:] = [lambda: loop.call_soon_threadsafe(asked.set)]  # instead of a signal to us
    assert await engine.database.run(lambda db: mark_draining(db, engine.process))
    assert not await engine.database.run(lambda db: mark_draining(db, "nobody"))
    async with asyncio.timeout(5):
        await asked.wait()
    assert engine.members.is_draining


async def test_a_barrier_waits_for_every_live_replica(make: Make) -> None:
    from toolcrib.fleet.membership import wait_until_known

    one, two = (await make()).storage.engine, (await make()).storage.engine
    one.reports["keys"], two.reports["keys"] = 2, 1
    for each in (one, two):
        await each.members.renew()
    late = await wait_until_known(one.database, "keys", 2, within_s=0.2)
    assert [each.process for each in late] == [two.process]
    two.reports["keys"] = 3
    waiting = asyncio.create_task(wait_until_known(one.database, "keys", 2, within_s=5))
    await two.members.renew()
    assert await waiting == []


async def test_without_redis_replicas_count_their_shares_and_say_so(
    make: Make, own_redis: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS", own_redis.url)
    one, two = await make(), await make()
    for each in (one, two):
        await each.storage.engine.members.renew()
    assert await count_of([one, two], 2) == 2
    own_redis.kill()
    assert await count_of([one, two], 20) <= 3
    assert one.storage.report() == {"modes": {"redis": "alone", "postgres": "shared"}, "live": 2}
    calls = [asyncio.create_task(each.call("hold")) for each in (one, two) for _ in range(3)]
    await asyncio.sleep(0.2)
    for each in (one, two):
        each.gate.set()
    assert [(await call).is_error for call in calls].count(False) == 2


async def test_a_secret_is_changed_in_steps_that_every_replica_can_read(make: Make, tmp_path: Path) -> None:
    old, new = SECRET, "n" * 43
    key_file = tmp_path / "fleet.key"
    running = await make()
    key_file.write_text(f"{new}\n{old}\n")
    with pytest.raises(
        ConfigurationError, match=f"replica {running.storage.engine.process} on .* has another"
    ):
        await make()
    for lines in (f"{old}\n{new}\n", f"{new}\n{old}\n"):
        key_file.write_text(lines)
        replaced = await make()
        await replaced.call("keep", text=lines)
        assert (await running.call("recall")).text == lines
        await running.stop()
        running = replaced
    key_file.write_text(new)
    assert (await (await make()).call("recall")).text == lines


async def test_a_key_file_that_others_do_not_have_is_an_error(make: Make, tmp_path: Path) -> None:
    engine = (await make()).storage.engine
    (tmp_path / "fleet.key").write_text("x" * 43)
    with pytest.raises(ConfigurationError, match="has another secret") as caught:
        await make()
    assert "the same file on all replicas" in str(caught.value.hint)
    await engine.members.renew()
    assert list(engine.members.live) == [engine.process]


async def test_without_the_tables_it_does_not_start_and_says_what_to_run(make: Make) -> None:
    fleet = (await make()).settings.fleet
    other = make_server(Fleet(postgres="env:POSTGRES", redis="env:REDIS", key_file=fleet.key_file))
    with pytest.raises(ConfigurationError, match="has no tables") as caught:
        await other.start()
    assert caught.value.hint == "run: toolcrib fleet migrate"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"postgres": "postgresql://user:secret@host/db"}, "must be a reference"),
        ({"postgres": "env:NOWHERE"}, "the variable NOWHERE is not set"),
        ({"redis": "file:/nowhere"}, "cannot read /nowhere"),
        ({"key_file": "/nowhere.key"}, "does not exist"),
        ({"name": "Shop 1"}, "must be a short name"),
    ],
)
async def test_wrong_settings_are_errors_without_secrets(
    make: Make, settings: dict[str, Any], message: str
) -> None:
    given = {"postgres": "env:POSTGRES", "redis": "env:REDIS", "key_file": "x.key"}
    given["key_file"] = (await make()).settings.fleet.key_file
    with pytest.raises(ConfigurationError, match=message) as caught:
        await make_server(Fleet(**{**given, **settings})).start()
    assert "secret@" not in f"{caught.value} {caught.value.hint}"
