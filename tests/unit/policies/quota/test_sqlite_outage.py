"""A file that does not work: calls go on, counted here, within this process's share, and come back to it."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.policies.quota.support import (
    ANA,
    BEN,
    Clocks,
    count_admitted,
    enter,
    line_up,
    quota_of,
    refused,
    settle,
    wait_until,
)
from toolcrib.errors import ConfigurationError
from toolcrib.policies.quota import Quota, Slot, sqlite
from toolcrib.policy import Limit, Policy

SOON_S = 1.0
"""The most that a bounded wait of a quarter of a second may take on a noisy machine."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "limits.db"


@pytest.fixture
async def make(path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    monkeypatch.setattr(sqlite, "RETRY_S", 0.03)
    made: list[Quota] = []

    def build(*limits: Limit, clocks: Clocks | None = None) -> Quota:
        made.append(quota_of(clocks or Clocks(), *limits, store=path))
        return made[-1]

    yield build
    for quota in made:
        await quota.close()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


def is_out(quota: Quota) -> bool:
    return bool(quota.describe_store()["out"])


async def works_again(quota: Quota) -> None:
    await wait_until(lambda: not is_out(quota))


async def test_a_locked_file_is_waited_for_briefly_and_then_calls_are_counted_here(make, path, caplog):
    quota = make(Limit(rate="100/h"))
    await quota.open()
    assert await count_admitted(quota, 5) == 5
    with locked(path):
        began = time.monotonic()
        await enter(quota)
        assert time.monotonic() - began < SOON_S
        began = time.monotonic()
        assert await count_admitted(quota, 50) == 9  # a tenth of the limit, one of which came before
        assert time.monotonic() - began < 0.2  # nobody waits for a file that is known not to work
        assert is_out(quota)
    await works_again(quota)
    assert await count_admitted(quota, 200) == 95
    texts = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(texts) == 2
    assert texts[0].startswith(f"the store of limits, {path}, does not work (")
    assert texts[0].endswith(
        "); until it does, this process counts for itself, up to its share of each limit"
    )
    assert texts[1] == f"the store of limits, {path}, works again"
    assert quota.describe_store() == {
        "store": "sqlite",
        "out": False,
        "outages": 1,
        "places": 0,
        "waiting": 0,
    }


async def test_a_lock_that_is_short_is_no_outage(make, path):
    quota = make(Limit(rate="100/h"))
    await quota.open()
    with locked(path):
        task = asyncio.create_task(enter(quota))
        await asyncio.sleep(0.05)
        assert not task.done()
    await task
    assert quota.describe_store()["outages"] == 0


async def test_what_is_allowed_once_is_not_allowed_while_nobody_can_tell(make, path):
    quota = make(Limit(rate="100/h"))
    await quota.open()
    with locked(path):
        assert not await quota.burn("m", 60)
    await works_again(quota)
    assert await quota.burn("m", 60)


async def test_calls_in_line_are_counted_here_when_the_file_fails(make, path):
    quota = make(Limit(concurrency=1, queue=3, queue_s=30))
    await quota.open()
    running = await enter(quota)
    first, second = await line_up(quota, enter(quota), enter(quota))
    with locked(path):
        running.leave(ran=True)  # has to be written, and cannot be
        slot = await first  # let in here, where one may
        assert slot.store is not running.store
        assert not second.done()
        slot.leave(ran=True)
        (await second).leave(ran=True)
    await works_again(quota)
    (await enter(quota)).leave(ran=True)  # what was left meanwhile is free in the file, too


async def test_what_is_held_is_still_held_after_an_outage(make, path, tmp_path):
    quota = make(Limit(concurrency=2, per="all"))
    await quota.open()
    kept, left = await enter(quota), await enter(quota)
    with locked(path):
        left.leave(ran=True)
        await wait_until(lambda: is_out(quota))
    await works_again(quota)
    third = await enter(quota)
    await refused(quota)
    kept.leave(ran=True)
    third.leave(ran=True)
    assert await count_admitted(quota, 3) == 3


async def test_a_call_that_outlived_its_answer_is_still_counted_after_an_outage(make, path):
    quota = make(Limit(concurrency=1, per="all"))
    await quota.open()
    slot = await enter(quota)
    end = slot.outlive()
    with locked(path):
        slot.leave(ran=True)
        await wait_until(lambda: is_out(quota))
    await works_again(quota)
    await refused(quota)
    end()
    await settle(quota)
    await enter(quota)


async def test_who_comes_back_from_a_pause_goes_on_without_the_file(make, path):
    quota = make(Limit(concurrency=1, per="all"))
    await quota.open()
    slot = await enter(quota)
    slot.pause()
    await settle(quota)
    with locked(path):
        await asyncio.wait_for(slot.resume(), SOON_S)
    await works_again(quota)
    slot.leave(ran=True)
    await settle(quota)
    await enter(quota)


async def test_who_waits_to_come_back_when_the_file_fails_goes_on(make, path):
    quota = make(Limit(concurrency=1, per="all"))
    await quota.open()
    slot = await enter(quota)
    slot.pause()
    other = await enter(quota)
    back = asyncio.create_task(slot.resume())
    await settle(quota)
    with locked(path):
        assert not await quota.burn("m", 1)
        await asyncio.wait_for(back, SOON_S)
    slot.leave(ran=True)
    other.leave(ran=True)
    await works_again(quota)
    await enter(quota)


async def test_a_deleted_file_is_made_again(make, path):
    quota = make(Limit(rate="10/h"))
    await quota.open()
    assert await count_admitted(quota, 7) == 7
    for name in ("limits.db", "limits.db-wal", "limits.db-shm"):
        (path.parent / name).unlink(missing_ok=True)
    await enter(quota)  # counted here
    await works_again(quota)
    assert path.exists()
    assert await count_admitted(quota, 20) == 10


async def test_a_file_that_became_something_else_is_not_touched(make, path):
    quota = make(Limit(rate="100/h"))
    await quota.open()
    await enter(quota)
    (path.parent / "new").write_bytes(b"not a database, and precious" * 100)
    os.replace(path.parent / "new", path)
    assert await count_admitted(quota, 200) == 10
    await asyncio.sleep(0.1)  # it is tried again several times meanwhile
    assert is_out(quota)
    assert quota.describe_store()["outages"] == 1
    assert path.read_bytes() == b"not a database, and precious" * 100
    for name in ("limits.db", "limits.db-wal", "limits.db-shm"):
        (path.parent / name).unlink(missing_ok=True)
    await works_again(quota)
    assert await count_admitted(quota, 200) == 100


async def test_a_broken_file_is_an_outage(make, path):
    quota = make(Limit(rate="100/h"))
    await quota.open()
    await enter(quota)
    await quota.close()
    content = bytearray(path.read_bytes())
    for place in range(100, len(content), 1000):
        content[place : place + 500] = b"\xff" * 500
    path.write_bytes(bytes(content))
    quota = make(Limit(rate="100/h"))
    await quota.open()
    assert await count_admitted(quota, 200) == 10
    assert is_out(quota)
    path.unlink()
    await works_again(quota)


async def test_a_full_disk_is_an_outage_until_there_is_room(make, path):
    quota = make(Limit(rate="1000/h"))
    await quota.open()
    assert await count_admitted(quota, 5) == 5
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size, hard))
    try:
        assert await count_admitted(quota, 500) < 500
        assert is_out(quota)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    await works_again(quota)
    admitted = await count_admitted(quota, 2000)
    assert 500 < admitted <= 995


class Stuck(Clocks):
    """Keeps the store's thread from its work."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.go_on.set()

    def now(self) -> float:
        if threading.current_thread().name == "toolcrib-limits":
            assert self.go_on.wait(30)
        return super().now()


async def test_a_store_that_hangs_holds_nobody_up(make):
    clocks = Stuck()
    quota = make(Limit(rate="100/h", concurrency=50), clocks=clocks)
    await quota.open()
    paused = await enter(quota)
    paused.pause()
    await settle(quota)
    clocks.go_on.clear()
    try:
        began = time.monotonic()
        slots = await asyncio.gather(*(enter(quota) for _ in range(5)))
        await paused.resume()
        assert time.monotonic() - began < SOON_S
        assert await count_admitted(quota, 50) == 0  # as five run here, which is its share
        for slot in slots:
            slot.leave(ran=True)
        assert await count_admitted(quota, 50) == 5
    finally:
        clocks.go_on.set()
    await works_again(quota)
    paused.leave(ran=True)
    await settle(quota)
    assert quota.describe_store()["places"] == 0  # what hung has been let in meanwhile, and has left
    assert await count_admitted(quota, 300) == 94  # though its rate was taken


# --- at the start ---


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"no database at all, but long enough to be one" * 30, "is not a SQLite file"), (None, "other")],
)
async def test_a_file_of_something_else_is_refused_at_the_start(path, content, words):
    if content is not None:
        path.write_bytes(content)
    else:
        words = "belongs to another program"
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE precious (x)")
        other.close()
    before = path.read_bytes()
    policy = Policy(limits=[Limit(rate="1/s")], store=path, file="toolcrib.toml", lines={"store": 3})
    quota = Quota(policy)
    with pytest.raises(ConfigurationError) as caught:
        await quota.open()
    assert str(caught.value) == f"toolcrib.toml:3: store: {path} {words}"
    assert caught.value.hint == "name a file that is not there yet"
    assert path.read_bytes() == before


async def test_a_file_of_a_newer_toolcrib_is_refused_at_the_start(make, path):
    await make(Limit(rate="1/s")).open()
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 2")
    other.close()
    quota = make(Limit(rate="1/s"))
    with pytest.raises(ConfigurationError, match="was made by a newer toolcrib"):
        await quota.open()


async def test_a_folder_that_is_not_there_is_named_at_the_start(tmp_path):
    quota = quota_of(Clocks(), Limit(rate="1/s"), store=tmp_path / "nowhere" / "limits.db")
    with pytest.raises(ConfigurationError) as caught:
        await quota.open()
    assert caught.value.message == f"{tmp_path}/nowhere/limits.db cannot be opened: No such file or directory"


async def test_a_file_that_is_locked_at_the_start_is_no_reason_not_to_start(make, path):
    await make(Limit(rate="100/h")).open()
    quota = make(Limit(rate="100/h"))
    with locked(path):
        await quota.open()
        assert await count_admitted(quota, 50) == 10
    await works_again(quota)
    assert await count_admitted(quota, 200) == 100


async def test_calls_can_be_made_before_the_start_and_after_the_end(make):
    quota = make(Limit(concurrency=1))
    slot = await enter(quota)
    await quota.close()
    await quota.close()
    slot.leave(ran=True)
    (await enter(quota)).leave(ran=True)
    await quota.open()
    assert isinstance(await enter(quota, BEN), Slot)


async def test_what_waits_in_an_outage_waits_here(make, path):
    quota = make(Limit(concurrency=10, queue=1, queue_s=30))
    await quota.open()
    with locked(path):
        running = await enter(quota)
        task = asyncio.create_task(enter(quota, ANA))
        await asyncio.sleep(0.01)
        assert not task.done()
        await refused(quota)
        running.leave(ran=True)
        (await task).leave(ran=True)
    await works_again(quota)
