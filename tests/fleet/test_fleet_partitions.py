"""A replica that is cut off from a server which the others still reach: silence, not an error."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from tests.state.conftest import admit, ask, limits_of, rate_of, slots_of
from tests.support.system.engines import Server
from toolcrib.config.settings import Fleet
from toolcrib.fleet.state import FleetState
from toolcrib.state.base import Lease, NewTask, StateUnavailable

TASK = NewTask("", "ana", "work", "print", "digest", 3_600_000, None)


class Cable:
    """A socket that leads to that of a server. While it is cut, connections stay open and nothing passes."""

    def __init__(self, path: Path, to: Path) -> None:
        self._to = to
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cable", daemon=True)
        self._thread.start()
        self._flows = asyncio.Event()
        self.mend()
        server = asyncio.start_unix_server(self._serve, path)
        self._server = asyncio.run_coroutine_threadsafe(server, self._loop).result(10)

    def cut(self) -> None:
        self._loop.call_soon_threadsafe(self._flows.clear)

    def mend(self) -> None:
        self._loop.call_soon_threadsafe(self._flows.set)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up = None
        try:
            await self._flows.wait()
            up = await asyncio.open_unix_connection(self._to)
            await asyncio.gather(self._pass(reader, up[1]), self._pass(up[0], writer))
        except (OSError, asyncio.CancelledError):
            pass  # one of the ends has gone
        finally:
            writer.transport.abort()
            if up is not None:
                up[1].transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            await self._flows.wait()
            writer.write(data)
        writer.close()

    def close(self) -> None:
        async def stop() -> None:
            self._server.close()
            while serving := asyncio.all_tasks() - {asyncio.current_task()}:
                for task in serving:
                    task.cancel()
                await asyncio.gather(*serving, return_exceptions=True)
            await asyncio.sleep(0.05)  # the event loop closes what was aborted

        self.mend()
        asyncio.run_coroutine_threadsafe(stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Site:
    """A replica, and its cables to both servers."""

    def __init__(self, folder: Path, name: str, postgresql: Server, redis: Server) -> None:
        folder.mkdir()
        sockets = folder / ".s.PGSQL.5432", folder / "redis"
        self.postgresql = Cable(sockets[0], postgresql.folder / sockets[0].name)
        self.redis = Cable(sockets[1], redis.folder / sockets[1].name)
        (folder / "postgres.url").write_text(f"postgresql:///postgres?host={folder}&user=postgres")
        (folder / "redis.url").write_text(f"unix://{sockets[1]}")
        key_file = folder / "key"
        key_file.touch(0o600)
        key_file.write_text("k" * 43)
        self.state = FleetState(
            Fleet(
                postgres=f"file:{folder}/postgres.url",
                redis=f"file:{folder}/redis.url",
                key_file=key_file,
                name=name,
                db_schema=name,
                call_timeout_ms=300,
            )
        )

    async def close(self) -> None:
        await self.state.close()
        self.postgresql.close()
        self.redis.close()


@pytest.fixture
async def sites(
    postgresql_server: Server, redis_server: Server, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[list[Site]]:
    """Two replicas that know each other. Connections that hang are given up soon."""
    import tempfile

    from toolcrib.state.postgresql import database

    monkeypatch.setattr(database, "WAIT_S", 1.0)
    database.migrate(postgresql_server.url, name := f"t{token_hex(4)}")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # names of sockets are short
        made = [
            Site(Path(folder) / f"{number}", name, postgresql_server, redis_server) for number in range(2)
        ]
        for site in made:
            await site.state.open()
        await made[0].state.members.renew()
        yield made
        for site in made:
            await site.close()


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.05)


async def count(state: FleetState, limits: Any, calls: int) -> int:
    """Return how many of some calls are admitted."""
    leases = [await ask(state.counters, limits) for _ in range(calls)]
    return sum(isinstance(lease, Lease) for lease in leases)


async def test_a_replica_without_redis_stays_within_its_share_of_what_the_others_count(
    sites: list[Site],
) -> None:
    cut_off, other = sites
    limits = limits_of(rate_of(100, 3600))
    admitted = await count(cut_off.state, limits, 20) + await count(other.state, limits, 20)
    cut_off.redis.cut()
    admitted += await count(cut_off.state, limits, 100)
    assert cut_off.state.modes() == {"redis": "alone", "postgres": "shared"}
    admitted += await count(other.state, limits, 100)
    assert 40 < admitted <= 100
    assert other.state.modes() == {"redis": "shared", "postgres": "shared"}
    cut_off.redis.mend()

    async def is_back() -> bool:
        await admit(cut_off.state.counters, limits_of())
        return cut_off.state.modes()["redis"] == "shared"

    await until(is_back)
    slot = limits_of(slots_of(1))
    lease = await admit(cut_off.state.counters, slot)
    assert await count(other.state, slot, 1) == 0
    cut_off.state.counters.release(lease, ran=True)


async def test_the_tasks_of_a_replica_without_postgresql_fail_once_and_it_learns_that(
    sites: list[Site],
) -> None:
    cut_off, other = sites
    store, id_ = cut_off.state.tasks, token_hex(8)
    await store.create(TASK._replace(id=id_), queue=None, most=9, most_own=None)
    slot = limits_of(slots_of(3))
    cut_off.postgresql.cut()
    with pytest.raises(StateUnavailable):
        await store.note(id_, "half way")
    assert await count(cut_off.state, slot, 3) == 3  # Redis counts on

    async def has_failed() -> bool:
        found = await other.state.tasks.find(id_, "ana")
        return found is not None and found.status == "failed"

    await until(has_failed)
    cut_off.postgresql.mend()

    async def is_told() -> bool:
        with suppress(StateUnavailable):
            return (await store.changes(0, ())).ended == {id_}
        return False

    await until(is_told)
    assert not await store.finish(id_, "completed", b"{}", max_kept_bytes=10**6)
    assert await has_failed()
    await until(lambda: knows(other, cut_off))


async def knows(one: Site, other: Site) -> bool:
    """Whether a replica sees another one as live."""
    return other.state.process in one.state.members.live
