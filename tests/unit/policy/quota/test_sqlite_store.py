"""The shared limits file: at the start, with a slow thread, and while it does not work."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import sqlite3
import threading
import time
from contextlib import closing

import pytest

from tests.unit.policy.quota.machines import (
    ANA,
    BEN,
    Clocks,
    Slow,
    Stuck,
    count_admitted,
    enter,
    is_out,
    line_up,
    locked,
    quota_of,
    refused,
    settle,
    wait_until,
    works_again,
)
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Limit, Policy
from toolcrib.policy.quota import Quota, Slot
from toolcrib.policy.quota import sqlite_store as sqlite
from toolcrib.policy.quota.sqlite_store import Job


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
    assert caught.value.key == "store"


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


SOON_S = 3.0
"""The most that a bounded wait of a quarter of a second may take on a noisy machine."""


async def test_a_store_that_hangs_holds_nobody_up(on_file):
    clocks = Stuck()
    quota = on_file(Limit(rate="100/h", concurrency=50), clocks=clocks)
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


async def test_a_store_that_is_only_slow_is_waited_for(on_file, monkeypatch):
    monkeypatch.setattr(sqlite, "BATCH", 1)
    quota = on_file(Limit(rate="100/h"), clocks=Slow())
    await quota.open()
    began = time.monotonic()
    slots = await asyncio.gather(*(enter(quota) for _ in range(12)))
    assert time.monotonic() - began > sqlite.WAIT_S
    assert {slot.store for slot in slots} == {quota._store}
    assert quota.describe_store()["outages"] == 0


class StuckOnce(Clocks):
    """Keeps the store's thread from its work at one of its looks at the clock."""

    def __init__(self, look: int) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self._left = look

    def now(self) -> float:
        if threading.current_thread().name == "toolcrib-limits":
            self._left -= 1
            assert self._left or self.go_on.wait(30)
        return super().now()


@pytest.mark.parametrize("look", [2, 4])  # when it has opened the file; and when it has let in the first
async def test_a_store_that_gets_on_is_waited_for(on_file, monkeypatch, look):
    monkeypatch.setattr(sqlite, "BATCH", 1)
    monkeypatch.setattr(sqlite, "WAIT_S", 0.5)
    clocks = StuckOnce(look)
    quota = on_file(Limit(rate="100/h"), clocks=clocks)
    asyncio.get_running_loop().call_later(0.6, clocks.go_on.set)
    await asyncio.gather(enter(quota), enter(quota))
    assert clocks.go_on.is_set()
    assert quota.describe_store()["outages"] == 0


async def test_a_store_that_nobody_closes_keeps_no_process_from_ending(on_file):
    await on_file(Limit(rate="100/h")).open()
    assert [each.daemon for each in threading.enumerate() if each.name == "toolcrib-limits"] == [True]


async def test_a_call_that_comes_while_the_store_is_closed_is_counted(on_file, monkeypatch, patient):
    monkeypatch.setattr(sqlite, "BATCH", 1)
    clocks, limit = Stuck(), Limit(concurrency=1, per="all")
    quota = on_file(limit, clocks=clocks)
    await quota.open()
    clocks.go_on.clear()
    ending, entering = asyncio.create_task(quota.close()), asyncio.create_task(enter(quota))
    await asyncio.sleep(0)
    clocks.go_on.set()
    await ending
    await entering
    await refused(on_file(limit))


async def test_an_answer_that_comes_before_it_is_waited_for_is_heard():
    job = Job(lambda: True)
    job.expect_answer()
    job.set_answer(1.0)
    assert await job.wait(30)
    job.set_answer(True)
    assert await job.wait_in_queue(30) is True


async def test_a_call_that_is_left_before_the_store_hears_that_it_came_back_takes_no_place(on_file):
    clocks = Stuck()
    quota = on_file(Limit(concurrency=1, per="all"), clocks=clocks)
    await quota.open()
    slot = await enter(quota)
    slot.pause()
    await settle(quota)
    clocks.go_on.clear()
    back = asyncio.create_task(slot.resume())
    await asyncio.sleep(0)
    slot.leave(ran=True)
    clocks.go_on.set()
    await back
    await enter(quota)


async def test_a_call_that_comes_back_and_asks_again_at_once_does_not_wait_for_ever(on_file, patient):
    clocks = Stuck()
    quota = on_file(Limit(concurrency=1), clocks=clocks)
    await quota.open()
    asking = await enter(quota)
    asking.pause()
    other = await enter(quota)  # has the only place
    await settle(quota)
    clocks.go_on.clear()
    returning = asyncio.create_task(asking.resume())
    await asyncio.sleep(0)
    asking.pause()  # before the thread has looked: both are done in one go
    clocks.go_on.set()
    other.leave(ran=True)
    await asyncio.wait_for(asyncio.gather(returning, asking.resume()), 10)
    asking.leave(ran=True)


"""The most that a bounded wait of a quarter of a second may take on a noisy machine."""


async def test_a_locked_file_is_waited_for_briefly_and_then_calls_are_counted_here(on_file, path, caplog):
    quota = on_file(Limit(rate="100/h"))
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
    assert [
        vars(record)["outages"] for record in caplog.records if "is not available" in record.getMessage()
    ] == [1]
    assert {record.name for record in caplog.records if record.getMessage() in texts} == {"toolcrib"}
    assert len(texts) == 2
    assert texts[0].startswith(f"the limits store {path} is not available (")
    assert texts[0].endswith("); this process counts for itself, up to its share of each limit")
    assert texts[1] == f"the limits store {path} is available again"
    assert quota.describe_store() == {
        "store": "sqlite",
        "out": False,
        "outages": 1,
        "places": 0,
        "waiting": 0,
    }


async def test_a_lock_that_is_short_is_no_outage(on_file, path, patient):
    quota = on_file(Limit(rate="100/h"))
    await quota.open()
    with locked(path):
        task = asyncio.create_task(enter(quota))
        await asyncio.sleep(0.05)
        assert not task.done()
    await task
    assert quota.describe_store()["outages"] == 0


async def test_what_is_allowed_once_is_not_allowed_while_nobody_can_tell(on_file, path):
    quota = on_file(Limit(rate="100/h"))
    await quota.open()
    with locked(path):
        assert not await quota.use_once("m", 60)
    await works_again(quota)
    assert await quota.use_once("m", 60)


async def test_calls_in_line_are_counted_here_when_the_file_fails(on_file, path):
    quota = on_file(Limit(concurrency=1, queue=3, queue_s=30))
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


async def test_what_is_held_is_still_held_after_an_outage(on_file, path, tmp_path):
    quota = on_file(Limit(concurrency=2, per="all"))
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


async def test_a_call_that_outlived_its_answer_is_still_counted_after_an_outage(on_file, path):
    quota = on_file(Limit(concurrency=1, per="all"))
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


async def test_who_comes_back_from_a_pause_goes_on_without_the_file(on_file, path):
    quota = on_file(Limit(concurrency=1, per="all"))
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


async def test_who_waits_to_come_back_when_the_file_fails_goes_on(on_file, path):
    quota = on_file(Limit(concurrency=1, per="all"))
    await quota.open()
    slot = await enter(quota)
    slot.pause()
    other = await enter(quota)
    back = asyncio.create_task(slot.resume())
    await settle(quota)
    with locked(path):
        assert not await quota.use_once("m", 1)
        await asyncio.wait_for(back, SOON_S)
    slot.leave(ran=True)
    other.leave(ran=True)
    await works_again(quota)
    await enter(quota)


async def test_a_deleted_file_is_made_again(on_file, path):
    quota = on_file(Limit(rate="10/h"))
    await quota.open()
    assert await count_admitted(quota, 7) == 7
    for name in ("limits.db", "limits.db-wal", "limits.db-shm"):
        (path.parent / name).unlink(missing_ok=True)
    await enter(quota)  # counted here
    await works_again(quota)
    assert path.exists()
    assert await count_admitted(quota, 20) == 10


async def test_a_file_that_became_something_else_is_not_touched(on_file, path):
    quota = on_file(Limit(rate="100/h"))
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


async def test_a_broken_file_is_an_outage(on_file, path):
    quota = on_file(Limit(rate="100/h"))
    await quota.open()
    await enter(quota)
    await quota.close()
    content = bytearray(path.read_bytes())
    for place in range(100, len(content), 1000):
        content[place : place + 500] = b"\xff" * 500
    path.write_bytes(bytes(content))
    quota = on_file(Limit(rate="100/h"))
    await quota.open()
    assert await count_admitted(quota, 200) == 10
    assert is_out(quota)
    path.unlink()
    await works_again(quota)


async def test_a_full_disk_is_an_outage_until_there_is_room(on_file, path):
    quota = on_file(Limit(rate="1000/h"))
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


async def test_a_connection_that_cannot_even_be_closed_is_replaced(on_file, path, caplog):
    caplog.set_level(logging.DEBUG, "toolcrib")
    quota = on_file(Limit(rate="100/h"))
    await quota.open()
    tables = quota._store._counters
    foreign = sqlite3.connect(path)  # of this thread: good for nothing on the other
    mine, tables._db, tables.execute = tables._db, foreign, foreign.execute
    assert await count_admitted(quota, 50) == 10
    await works_again(quota)
    assert await count_admitted(quota, 150) == 100
    assert any(text.startswith(f"closing {path} failed: ") for text in caplog.messages)
    foreign.close()
    del mine


async def test_a_budget_of_a_file_that_is_gone_is_not_given_back_to_the_next(on_file, path):
    quota = on_file(Limit(daily=20))
    await quota.open()
    slot = await enter(quota)
    path.unlink()
    assert not await quota.use_once("m", 1)
    await works_again(quota)
    other = await enter(quota, BEN)  # so that the day has begun in this file
    slot.leave(ran=False)
    assert await count_admitted(quota, 50) == 20
    other.leave(ran=True)


async def test_what_was_not_written_is_not_given_back(on_file, path, monkeypatch):
    quota = on_file(Limit(daily=30, concurrency=20))
    await quota.open()
    monkeypatch.setattr(sqlite, "RETRY_S", 0.0)  # the file is tried again before the call is taken back
    assert await count_admitted(quota, 3) == 3
    await settle(quota)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("CREATE TRIGGER full BEFORE INSERT ON holds BEGIN SELECT RAISE(ABORT, 'full'); END")
        slot = await enter(quota)  # its budget was taken before the file said no: counted here
        other.execute("DROP TRIGGER full")
    await works_again(quota)
    slot.leave(ran=True)
    await settle(quota)
    assert await count_admitted(quota, 50) == 27


async def test_a_file_that_failed_is_left_to_others_and_alone_for_a_while(on_file, path, monkeypatch):
    monkeypatch.setattr(sqlite, "RETRY_S", 60.0)
    quota = on_file(Limit(concurrency=20))
    await quota.open()
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as other:
        other.execute("CREATE TRIGGER full BEFORE INSERT ON holds BEGIN SELECT RAISE(ABORT, 'full'); END")
        await enter(quota)  # fails with the file locked
        assert is_out(quota)
        other.execute("DROP TRIGGER full")
    assert not await quota.use_once("m", 1)
    assert is_out(quota)


async def test_what_was_taken_before_an_outage_is_given_back_after_it(on_file, path):
    quota = on_file(Limit(daily=20))
    await quota.open()
    slot = await enter(quota)
    with locked(path):
        slot.pause()
        await wait_until(lambda: is_out(quota))
    await works_again(quota)
    await slot.resume()
    slot.leave(ran=False)  # the person said no
    await settle(quota)
    assert await count_admitted(quota, 50) == 20
