"""What a file may be at the start, and what is told of one that may not."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing

import pytest

from tests.unit.policy.quota.support import (
    ANA,
    BEN,
    Clocks,
    count_admitted,
    enter,
    locked,
    quota_of,
    refused,
    works_again,
)
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Limit, Policy
from toolcrib.policy.quota import Quota, Slot


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
    threads = threading.active_count()
    policy = Policy(limits=[Limit(rate="1/s")], store=path, file="toolcrib.toml", lines={"policy.store": 3})
    quota = Quota(policy)
    with pytest.raises(ConfigurationError) as caught:
        await quota.open()
    assert str(caught.value) == f"toolcrib.toml:3: policy.store: {path} {words}"
    assert threading.active_count() == threads  # nobody goes on trying
    assert caught.value.hint == "name a file that does not exist yet"
    assert path.read_bytes() == before


async def test_a_file_of_a_newer_toolcrib_is_refused_at_the_start(on_file, path):
    await on_file(Limit(rate="1/s")).open()
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA user_version = 2")
    other.close()
    quota = on_file(Limit(rate="1/s"))
    with pytest.raises(ConfigurationError) as caught:
        await quota.open()
    assert caught.value.message == f"{path} was made by a newer toolcrib"
    with locked(path):
        pass  # and is left to it


async def test_a_file_says_whose_it_is_and_of_which_format(on_file, path):
    await on_file(Limit(rate="1/s")).open()
    with closing(sqlite3.connect(path)) as other:
        for pragma, value in {"application_id": 0x746F6F71, "user_version": 1}.items():
            assert other.execute(f"PRAGMA {pragma}").fetchone() == (value,)
        names = {name for (name,) in other.execute("SELECT name FROM sqlite_master")}
    assert names == {"facts", "holds", "holds_of_workers", "marks", "rates", "spent", "workers"}


async def test_a_folder_that_is_not_there_is_named_at_the_start(tmp_path):
    quota = quota_of(Clocks(), Limit(rate="1/s"), store=tmp_path / "nowhere" / "limits.db")
    before = threading.active_count()
    with pytest.raises(ConfigurationError) as caught:
        await quota.open()
    assert threading.active_count() == before  # nobody goes on trying
    assert caught.value.message == f"{tmp_path}/nowhere/limits.db cannot be opened: No such file or directory"
    assert caught.value.key == "policy.store"


async def test_a_file_that_is_locked_at_the_start_is_no_reason_not_to_start(on_file, path):
    await on_file(Limit(rate="100/h")).open()
    quota = on_file(Limit(rate="100/h"))
    with locked(path):
        await quota.open()
        assert await count_admitted(quota, 50) == 10
    await works_again(quota)
    assert await count_admitted(quota, 200) == 100


async def test_calls_can_be_made_before_the_start_and_after_the_end(on_file):
    quota = on_file(Limit(concurrency=1))
    slot = await enter(quota)
    await quota.close()
    await quota.close()
    slot.leave(ran=True)
    (await enter(quota)).leave(ran=True)
    await quota.open()
    assert isinstance(await enter(quota, BEN), Slot)
    assert quota.describe_store()["outages"] == 0


async def test_what_waits_in_an_outage_waits_here(on_file, path):
    quota = on_file(Limit(concurrency=10, queue=1, queue_s=30))
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
