"""Tasks: one end for each, questions, room, time, and processes that die."""

from __future__ import annotations

import sqlite3
from secrets import token_hex

import pytest

from tests.state.conftest import Machine
from toolcrib.state.base import NewTask, Status, Task
from toolcrib.state.sqlite.file import LEASE_NS, NS
from toolcrib.state.sqlite.state import SQLiteState

SERVERS = ("postgresql",)
HOUR_MS = 3_600_000
LEASE_S = LEASE_NS / NS


async def create(
    process: SQLiteState,
    binding: str = "ana",
    ttl_ms: int = HOUR_MS,
    queue: str | None = None,
    most: int = 1_000,
    most_own: int | None = None,
) -> str:
    """Return the id of a new task; "" if there are too many."""
    new = NewTask(token_hex(8), binding, "work", "print", "digest", ttl_ms, None)
    made = await process.tasks.create(new, queue=queue, most=most, most_own=most_own)
    return "" if made is None else made.new.id


async def finish(
    process: SQLiteState,
    id_: str,
    status: Status = "completed",
    outcome: bytes | None = b"{}",
    most: int = 2**30,
) -> bool:
    return await process.tasks.finish(id_, status, outcome, max_kept_bytes=most)


async def find(process: SQLiteState, id_: str, binding: str = "ana") -> Task:
    found = await process.tasks.find(id_, binding)
    assert found is not None
    return found


async def status_of(process: SQLiteState, id_: str, binding: str = "ana") -> str | None:
    found = await process.tasks.find(id_, binding)
    return None if found is None else found.status


async def test_a_task_is_found_as_it_was_created(engine: Machine) -> None:
    process = engine.start()
    task = await find(process, id_ := await create(process))
    assert task.new == NewTask(id_, "ana", "work", "print", "digest", HOUR_MS, None)
    assert (task.status, task.owner, task.attempt) == ("working", process.process, 0)
    assert (task.message, task.outcome, task.questions) == (None, None, {})


async def test_the_first_end_of_a_task_is_its_last(engine: Machine) -> None:
    process = engine.start()
    id_ = await create(process)
    assert await process.tasks.cancel(id_, "ana")
    assert not await process.tasks.cancel(id_, "ana")
    assert not await finish(process, id_)
    assert not await process.tasks.note(id_, "late")
    assert not await process.tasks.ask(id_, {"a": b"1"})
    task = await find(process, id_)
    assert (task.status, task.outcome, task.message, task.questions) == ("cancelled", None, None, {})


async def test_tasks_that_were_ended_from_outside_are_reported_to_their_process(shared: Machine) -> None:
    one, two = shared.start(), shared.start()
    cancelled, expired, going = await create(one), await create(one, ttl_ms=100), await create(one)
    await two.tasks.cancel(cancelled, "ana")
    shared.pass_s(1)
    await two.tasks.renew()
    assert (await one.tasks.changes(0, ())).ended == {cancelled, expired}
    assert await status_of(two, going) == "working"


async def test_an_answer_is_given_once_and_returned_once(engine: Machine) -> None:
    process = engine.start()
    id_ = await create(process)
    assert await process.tasks.ask(id_, {"a": b"1", "b": b"2"})
    assert (await find(process, id_)).questions == {"a": b"1", "b": b"2"}
    await process.tasks.answer(id_, "ana", {"a": b"yes", "c": b"?"})
    await process.tasks.answer(id_, "ana", {"a": b"no"})
    assert (await find(process, id_)).questions == {"b": b"2"}
    assert (await process.tasks.changes(0, ())).answers == {id_: {"a": b"yes"}}
    assert (await process.tasks.changes(0, ())).answers == {}
    await process.tasks.withdraw(id_, ["b"])
    assert (await find(process, id_)).questions == {}


async def test_nobody_answers_or_cancels_the_tasks_of_others(engine: Machine) -> None:
    process = engine.start()
    id_ = await create(process)
    await process.tasks.ask(id_, {"a": b"1"})
    await process.tasks.answer(id_, "ben", {"a": b"yes"})
    assert not await process.tasks.cancel(id_, "ben")
    assert await process.tasks.find(id_, "ben") is None
    assert (await find(process, id_)).questions == {"a": b"1"}


async def test_only_the_process_that_runs_a_task_ends_it(shared: Machine) -> None:
    one, two = shared.start(), shared.start()
    id_ = await create(one)
    assert not await finish(two, id_)
    assert await finish(one, id_)


async def test_watched_tasks_are_reported_when_they_change(engine: Machine) -> None:
    process = engine.start()
    ids = [await create(process) for _ in range(20)]
    changes = await process.tasks.changes(0, [*ids, "unknown"])
    assert {task.new.id for task in changes.seen} == set(ids)
    assert (await process.tasks.changes(changes.version, ids)).seen == []
    await process.tasks.note(ids[7], "half way")
    [task] = (await process.tasks.changes(changes.version, ids)).seen
    assert (task.new.id, task.message) == (ids[7], "half way")
    assert (await process.tasks.changes(changes.version, ids[:5])).seen == []


async def test_open_tasks_are_counted_and_ended_ones_are_not(engine: Machine) -> None:
    process = engine.start()
    first = await create(process)
    assert not await create(process, most=1)
    assert not await create(process, most_own=1)
    assert await create(process, "ben", most=10, most_own=1)
    await finish(process, first)
    assert await create(process, most=10, most_own=1)


async def test_a_queued_task_is_claimed_once(shared: Machine) -> None:
    one, two = shared.start(), shared.start()
    ids = []
    for _ in range(3):
        ids.append(await create(one, queue="slow"))
        shared.pass_s(1)
    assert await status_of(one, ids[0]) == "queued"
    assert await two.tasks.claim(["fast"]) is None
    assert await two.tasks.cancel(ids[1], "ana")
    claimed = [await process.tasks.claim(["slow", "fast"]) for process in (two, one, two)]
    assert [task and (task.new.id, task.owner, task.attempt) for task in claimed] == [
        (ids[0], two.process, 1),
        (ids[2], one.process, 1),
        None,
    ]
    assert await finish(two, ids[0])


async def test_a_dropped_task_is_gone(engine: Machine) -> None:
    process = engine.start()
    id_ = await create(process)
    await process.tasks.drop(id_)
    assert await status_of(process, id_) is None
    assert (await process.tasks.changes(0, [id_])).ended == frozenset()


# --- room --------------------------------------------------------------------------------------------

RESULT = b"x" * 9_000  # 10,000 bytes with its row


async def test_the_oldest_results_expire_if_all_need_too_much_room(engine: Machine) -> None:
    process = engine.start()
    ids = [await create(process) for _ in range(6)]
    for id_ in ids[:5]:
        await finish(process, id_, outcome=RESULT, most=30_000)
        engine.pass_s(1)
    assert [await status_of(process, id_) for id_ in ids] == [None, None, *["completed"] * 3, "working"]
    assert (await find(process, ids[4])).outcome == RESULT


async def test_open_tasks_and_a_result_of_any_size_are_kept(engine: Machine) -> None:
    process = engine.start()
    ids = [await create(process) for _ in range(20)]
    await finish(process, ids[0], outcome=RESULT * 10, most=30_000)
    assert [await status_of(process, id_) for id_ in ids] == ["completed", *["working"] * 19]
    await finish(process, ids[1], "cancelled", None, 30_000)
    assert [await status_of(process, id_) for id_ in ids] == [None, "cancelled", *["working"] * 18]


async def test_a_principal_loses_its_own_results_first(engine: Machine) -> None:
    process = engine.start()
    bens = await create(process, "ben")
    await finish(process, bens, outcome=RESULT, most=30_000)
    anas = [await create(process) for _ in range(4)]
    for id_ in anas:
        engine.pass_s(1)
        await finish(process, id_, outcome=RESULT, most=30_000)
    assert await status_of(process, bens, "ben") == "completed"
    assert [await status_of(process, id_) for id_ in anas] == [None, None, "completed", "completed"]


# --- time --------------------------------------------------------------------------------------------


async def test_a_task_expires_when_it_was_promised_and_not_before(machine: Machine) -> None:
    process = machine.start()
    id_ = await create(process, ttl_ms=60_000)
    await finish(process, id_)
    machine.pass_s(59.9)
    assert await status_of(process, id_) == "completed"
    machine.pass_s(0.2)
    assert await status_of(process, id_) is None
    await process.tasks.renew()
    assert sqlite3.connect(str(machine.path)).execute("SELECT count(*) FROM task").fetchone() == (0,)


@pytest.mark.parametrize("jump_s", [10**8, -(10**8)])
async def test_a_clock_that_is_set_expires_nothing_and_kills_nobody(machine: Machine, jump_s: float) -> None:
    one, two = machine.start(), machine.start()
    id_ = await create(one, ttl_ms=60_000)
    machine.wall.pass_s(jump_s)
    await two.tasks.renew()
    assert await status_of(two, id_) == "working"
    machine.pass_s(61)
    assert await status_of(two, id_) is None


async def test_after_a_restart_of_the_machine_the_wall_clock_counts(machine: Machine) -> None:
    process = machine.start()
    kept, expired = await create(process, ttl_ms=HOUR_MS), await create(process, ttl_ms=60_000)
    for id_ in (kept, expired):
        await finish(process, id_)
    machine.restart(120)
    after = machine.start()
    assert await status_of(after, kept) == "completed"
    assert await status_of(after, expired) is None
    machine.pass_s(HOUR_MS / 1000 - 119)
    assert await status_of(after, kept) is None


# --- processes that die ------------------------------------------------------------------------------


async def test_tasks_of_a_process_that_died_have_failed(shared: Machine) -> None:
    one, two = shared.start(), shared.start()
    id_, ended = await create(one), await create(one)
    await finish(one, ended)
    shared.freeze(one)
    shared.pass_s(LEASE_S - 0.1)
    assert await status_of(two, id_) == "working"
    shared.pass_s(0.2)
    task = await find(two, id_)
    assert task.status == "failed"
    assert b"-32603" in (task.outcome or b"")
    assert b"the server process that ran it has ended" in (task.outcome or b"")
    assert await status_of(two, ended) == "completed"
    assert (await one.tasks.changes(0, ())).ended == {id_}  # if it was only asleep, it learns that
    assert not await finish(one, id_)


async def test_tasks_of_a_machine_that_restarted_have_failed(machine: Machine) -> None:
    id_ = await create(machine.start())
    machine.restart(1)
    assert await status_of(machine.start(), id_) == "failed"


async def test_a_process_that_renews_its_lease_keeps_its_tasks(shared: Machine) -> None:
    one, two = shared.start(), shared.start()
    id_ = await create(one)
    for _ in range(20):
        shared.pass_s(LEASE_S - 1)
        await one.tasks.renew()
        await two.tasks.renew()
        assert await status_of(two, id_) == "working"


async def test_a_process_does_not_fail_its_own_tasks(shared: Machine) -> None:
    one = shared.start()
    id_ = await create(one)
    shared.pass_s(10 * LEASE_S)
    assert await status_of(one, id_) == "working"


async def test_a_process_that_leaves_fails_its_own_tasks(shared: Machine) -> None:
    one, two = shared.start(), shared.start()
    own, other = await create(one), await create(two)
    await one.tasks.leave()
    assert (await status_of(two, own), await status_of(two, other)) == ("failed", "working")
