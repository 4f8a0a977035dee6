"""The file of tasks: two processes on one file, their leases, clocks, and files that cannot be used."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.manual_clock import Clock
from toolcrib.dispatch import task_store
from toolcrib.dispatch.task_store import (
    LEASE_NS,
    NS,
    NewTask,
    Signals,
    Status,
    TaskFile,
    TaskStore,
    TaskStoreError,
    TooManyTasksError,
)

HOUR_MS = 3_600_000
LEASE_S = LEASE_NS / NS


class Machine:
    """The clocks of a machine, and processes with a file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "tasks.db"
        self.uptime = Clock(1_000.0)
        self.wall = Clock(1_700_000_000.0)

    def process(self, owner: str) -> TaskFile:
        return TaskFile(self.path, owner, now_ns=lambda: int(self.uptime() * NS), wall=self.wall)

    def pass_s(self, seconds: float) -> None:
        self.uptime.pass_s(seconds)
        self.wall.pass_s(seconds)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def create(file: TaskFile, principal: str = "ana", ttl_ms: int = HOUR_MS) -> str:
    return file.create(NewTask(principal, "work", "digest", ttl_ms), 1_000, None).id


def finish(file: TaskFile, id_: str, status: Status, outcome: bytes | None, most: int = 2**30) -> int:
    return file.finish(id_, status, outcome, most)


def status_of(file: TaskFile, id_: str, principal: str = "ana") -> str | None:
    row = file.find(id_, principal)
    return None if row is None else row.status


# --- one task ----------------------------------------------------------------------------------------


def test_a_task_is_read_by_another_process_as_soon_as_it_is_created(machine: Machine) -> None:
    one, two = machine.process("one"), machine.process("two")
    row = two.find(create(one), "ana")
    assert row is not None
    assert (row.tool, row.digest, row.status, row.ttl_ms) == ("work", "digest", "working", HOUR_MS)
    assert (row.message, row.outcome, row.questions) == (None, None, {})


def test_ids_are_128_random_bits() -> None:
    ids = {NewTask("ana", "work", "", 1).id for _ in range(1_000)}
    assert len(ids) == 1_000
    assert {len(id_) for id_ in ids} == {22}


def test_the_first_end_of_a_task_is_its_last(machine: Machine) -> None:
    one, two = machine.process("one"), machine.process("two")
    id_ = create(one)
    two.cancel(id_, "ana")
    finish(one, id_, "completed", b"{}")
    one.note(id_, "late words")
    row = two.find(id_, "ana")
    assert row is not None
    assert (row.status, row.outcome, row.message) == ("cancelled", None, None)
    assert one.collect({id_}, {}).ended == {id_}


def test_an_answer_is_given_once_and_returned_once(machine: Machine) -> None:
    one, two = machine.process("one"), machine.process("two")
    id_ = create(one)
    one.ask(id_, {"a": b"1", "b": b"2"})
    assert status_of(two, id_) == "input_required"
    two.answer(id_, "ana", {"a": b"yes", "c": b"?"})
    two.answer(id_, "ana", {"a": b"no"})
    row = two.find(id_, "ana")
    assert row is not None
    assert row.questions == {"b": b"2"}
    assert one.collect({id_}, {}).answers == {id_: {"a": b"yes"}}
    assert one.collect({id_}, {}).answers == {}
    one.withdraw(id_, ["b"])
    assert status_of(two, id_) == "working"


def test_nobody_answers_or_cancels_the_tasks_of_others(machine: Machine) -> None:
    file = machine.process("one")
    id_ = create(file)
    file.ask(id_, {"a": b"1"})
    file.answer(id_, "ben", {"a": b"yes"})
    file.cancel(id_, "ben")
    assert status_of(file, id_, "ben") is None
    assert status_of(file, id_) == "input_required"
    assert not file.collect({id_}, {})


def test_a_watched_task_is_reported_in_each_version_once(machine: Machine) -> None:
    file = machine.process("one")
    id_ = create(file)
    [row] = file.collect(set(), {id_: 0, "unknown": 0}).changed
    assert not file.collect(set(), {id_: row.version})
    file.note(id_, "words")
    [changed] = file.collect(set(), {id_: row.version}).changed
    assert (changed.message, changed.version) == ("words", row.version + 1)


def test_open_tasks_are_counted_and_ended_ones_are_not(machine: Machine) -> None:
    file = machine.process("one")
    first = create(file)
    for principal, most, most_own in (("ana", 1, None), ("ana", 10, 1)):
        with pytest.raises(TooManyTasksError):
            file.create(NewTask(principal, "work", "", HOUR_MS), most, most_own)
    file.create(NewTask("ben", "work", "", HOUR_MS), 10, 1)
    finish(file, first, "completed", b"{}")
    file.create(NewTask("ana", "work", "", HOUR_MS), 10, 1)


# --- room --------------------------------------------------------------------------------------------

RESULT = b"x" * 9_000  # 10,000 bytes with its row


def test_the_oldest_results_expire_where_all_need_too_much_room(machine: Machine) -> None:
    one, two = machine.process("one"), machine.process("two")
    ids = [create(one) for _ in range(6)]
    for id_ in ids[:5]:
        assert finish(one, id_, "completed", RESULT, 30_000) == (id_ in ids[3:5])
        machine.pass_s(1)
    assert [status_of(two, id_) for id_ in ids] == [None, None, *["completed"] * 3, "working"]
    row = two.find(ids[4], "ana")
    assert row is not None
    assert row.outcome == RESULT


def test_open_tasks_and_a_result_of_any_size_are_kept(machine: Machine) -> None:
    file = machine.process("one")
    ids = [create(file) for _ in range(20)]
    assert finish(file, ids[0], "completed", RESULT * 10, 30_000) == 0
    assert [status_of(file, id_) for id_ in ids] == ["completed", *["working"] * 19]
    assert finish(file, ids[1], "cancelled", None, 30_000) == 1
    assert [status_of(file, id_) for id_ in ids] == [None, "cancelled", *["working"] * 18]


def test_a_principal_loses_its_own_results_first(machine: Machine) -> None:
    file = machine.process("one")
    bens = create(file, "ben")
    finish(file, bens, "completed", RESULT, 30_000)
    anas = [create(file) for _ in range(4)]
    for id_ in anas:
        machine.pass_s(1)
        finish(file, id_, "completed", RESULT, 30_000)
    assert status_of(file, bens, "ben") == "completed"
    assert [status_of(file, id_) for id_ in anas] == [None, None, "completed", "completed"]


def test_the_end_of_a_task_that_has_expired_is_dropped(machine: Machine) -> None:
    file = machine.process("one")
    id_ = create(file, ttl_ms=1_000)
    machine.pass_s(2)
    file.renew()
    assert finish(file, id_, "completed", RESULT, 1) == 0
    assert status_of(file, id_) is None


# --- time --------------------------------------------------------------------------------------------


def test_a_task_expires_when_it_was_promised_and_not_before(machine: Machine) -> None:
    file = machine.process("one")
    id_ = create(file, ttl_ms=60_000)
    finish(file, id_, "completed", b"{}")
    machine.pass_s(59.9)
    assert status_of(file, id_) == "completed"
    machine.pass_s(0.2)
    assert status_of(file, id_) is None
    file.renew()
    assert sqlite3.connect(machine.path).execute("SELECT count(*) FROM tasks").fetchone() == (0,)


@pytest.mark.parametrize("jump_s", [10**8, -(10**8)])
def test_a_clock_that_is_set_expires_nothing_and_kills_nobody(machine: Machine, jump_s: float) -> None:
    one, two = machine.process("one"), machine.process("two")
    id_ = create(one, ttl_ms=60_000)
    machine.wall.pass_s(jump_s)
    two.renew()
    assert status_of(two, id_) == "working"
    machine.pass_s(61)
    assert status_of(two, id_) is None


def test_after_a_restart_of_the_machine_the_wall_clock_counts(machine: Machine) -> None:
    file = machine.process("one")
    kept, expired = create(file, ttl_ms=HOUR_MS), create(file, ttl_ms=60_000)
    for id_ in (kept, expired):
        finish(file, id_, "completed", b"{}")
    machine.wall.pass_s(120)
    machine.uptime.at_s = 30.0
    after = machine.process("two")
    assert status_of(after, kept) == "completed"
    assert status_of(after, expired) is None


# --- processes that die ------------------------------------------------------------------------------


def test_tasks_of_a_process_that_died_have_failed(machine: Machine) -> None:
    one, two = machine.process("one"), machine.process("two")
    id_, ended = create(one), create(one)
    finish(one, ended, "completed", b"{}")
    machine.pass_s(LEASE_S - 0.1)
    assert status_of(two, id_) == "working"
    machine.pass_s(0.2)
    row = two.find(id_, "ana")
    assert row is not None
    assert row.status == "failed"
    assert b"-32603" in (row.outcome or b"")
    assert b"the server process that ran it has ended" in (row.outcome or b"")
    assert status_of(two, ended) == "completed"
    assert one.collect({id_}, {}).ended == {id_}  # if it was only asleep, it learns that


def test_tasks_of_a_machine_that_restarted_have_failed(machine: Machine) -> None:
    id_ = create(machine.process("one"))
    machine.uptime.at_s = 5.0
    assert status_of(machine.process("two"), id_) == "failed"


def test_a_process_that_renews_its_lease_keeps_its_tasks(machine: Machine) -> None:
    one, two = machine.process("one"), machine.process("two")
    id_ = create(one)
    for _ in range(20):
        machine.pass_s(LEASE_S - 1)
        one.renew()
        two.renew()
        assert status_of(two, id_) == "working"


def test_a_process_does_not_give_itself_up(machine: Machine) -> None:
    one = machine.process("one")
    id_ = create(one)
    machine.pass_s(10 * LEASE_S)
    assert status_of(one, id_) == "working"


def test_a_process_that_leaves_fails_its_own_tasks(machine: Machine) -> None:
    one, two = machine.process("one"), machine.process("two")
    own, other = create(one), create(two)
    one.leave()
    assert (status_of(two, own), status_of(two, other)) == ("failed", "working")


# --- the file ----------------------------------------------------------------------------------------


def test_the_file_is_private(machine: Machine) -> None:
    file = machine.process("one")
    create(file)
    found = [stat.S_IMODE(path.stat().st_mode) for path in machine.path.parent.iterdir()]
    assert set(found) == {0o600}
    file.close()


@pytest.mark.parametrize("content", [b"precious", b"SQLite format 3\0" + bytes(84)])
def test_a_file_of_another_kind_is_left_alone(machine: Machine, content: bytes) -> None:
    machine.path.write_bytes(content)
    with pytest.raises(OSError, match="is not a file of tasks"):
        create(machine.process("one"))
    assert machine.path.read_bytes() == content


def test_a_file_of_a_newer_version_is_left_alone(machine: Machine) -> None:
    create(machine.process("one"))
    with sqlite3.connect(machine.path) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(OSError, match="newer toolcrib"):
        create(machine.process("two"))


def test_a_file_that_was_deleted_is_made_again(machine: Machine) -> None:
    file = machine.process("one")
    id_ = create(file)
    for path in machine.path.parent.iterdir():
        path.unlink()
    assert status_of(file, id_) is None
    assert status_of(file, create(file)) == "working"


def plant_link(path: Path) -> None:
    other = path.parent / "of somebody else"
    other.touch(0o600)
    path.symlink_to(other)


def plant_writable(path: Path) -> None:
    path.touch()
    path.chmod(0o602)


def plant_file_of_group(path: Path) -> None:
    path.touch()
    path.chmod(0o660)


@pytest.mark.parametrize("plant", [plant_link, plant_writable, plant_file_of_group])
@pytest.mark.parametrize("beside", ["", "-wal", "-shm", "-journal"])
def test_a_file_that_another_user_may_have_planted_is_refused(
    machine: Machine, plant: Callable[[Path], None], beside: str
) -> None:
    planted = machine.path.with_name(f"tasks.db{beside}")
    plant(planted)
    with pytest.raises(
        PermissionError, match=f"{planted} (is a symbolic link|can be written by other users)"
    ):
        create(machine.process("one"))
    assert planted.stat().st_size == 0


@pytest.mark.parametrize("name", ["", "tasks.db", "tasks.db-wal"])
def test_a_file_or_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    machine = Machine(tmp_path / "cache")
    machine.path.parent.mkdir()
    path = machine.path.parent / name
    path.touch(0o600)
    if os.geteuid() == 0:
        os.chown(path, 1234, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(PermissionError, match="belongs to another user"):
        create(machine.process("one"))


@pytest.mark.parametrize(
    ("mode", "is_refused"), [(0o777, True), (0o770, True), (0o1777, False), (0o755, False)]
)
def test_a_folder_is_refused_where_others_can_replace_its_files(
    tmp_path: Path, mode: int, is_refused: bool
) -> None:
    machine = Machine(tmp_path / "cache")
    machine.path.parent.mkdir()
    machine.path.parent.chmod(mode)
    if is_refused:
        with pytest.raises(PermissionError, match=f"{machine.path.parent} can be written by other users"):
            create(machine.process("one"))
    else:
        create(machine.process("one"))


def test_a_folder_is_created_for_its_user_only(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "cache")
    create(machine.process("one"))
    assert stat.S_IMODE(machine.path.parent.stat().st_mode) == 0o700


# --- tasks that are watched --------------------------------------------------------------------------


def test_changes_of_all_watched_tasks_are_found_with_one_query(machine: Machine) -> None:
    one, two = machine.process("one"), machine.process("two")
    ids = [create(one) for _ in range(200)]
    watched = dict.fromkeys(ids, 1)
    assert one.collect(set(), watched).changed == []
    two.note(ids[7], "half way")
    said: list[str] = []
    assert one._db is not None
    one._db.set_trace_callback(said.append)
    assert [row.id for row in one.collect(set(), watched | {"unknown": 1}).changed] == [ids[7]]
    assert len(said) < 10


def test_the_file_is_looked_at_after_writes_of_any_process_only(machine: Machine) -> None:
    one, two = machine.process("one"), machine.process("two")
    id_ = create(one)
    assert [one.has_changed(), one.has_changed()] == [True, False]
    status_of(one, id_)
    status_of(two, id_)
    assert not one.has_changed()
    for file in (one, two):
        file.note(id_, "a step")
        assert [one.has_changed(), one.has_changed()] == [True, False]


# --- the thread --------------------------------------------------------------------------------------


async def test_what_other_processes_write_is_reported_on_the_loop(tmp_path: Path) -> None:
    seen: asyncio.Queue[Signals] = asyncio.Queue()
    store = TaskStore(tmp_path / "tasks.db", seen.put_nowait)
    row = await store.create(NewTask("ana", "work", "", HOUR_MS), 10, None)
    await store.run(lambda file: file.ask(row.id, {"a": b"1"}))
    other = TaskFile(tmp_path / "tasks.db", "other")
    async with asyncio.timeout(5):
        other.answer(row.id, "ana", {"a": b"yes"})
        assert (await seen.get()).answers == {row.id: {"a": b"yes"}}
        other.cancel(row.id, "ana")
        assert (await seen.get()).ended == {row.id}
    await store.close()


async def test_the_lease_is_renewed_while_the_loop_is_blocked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_store, "LEASE_NS", NS // 2)
    monkeypatch.setattr(task_store, "RENEW_NS", NS // 10)
    store = TaskStore(tmp_path / "tasks.db", lambda _: None)
    row = await store.create(NewTask("ana", "work", "", HOUR_MS), 10, None)
    threading.Event().wait(1.2)  # blocks the loop
    assert status_of(TaskFile(tmp_path / "tasks.db", "other"), row.id) == "working"
    await store.close()


async def test_a_file_that_does_not_respond_is_an_error_and_not_a_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_store, "LOCK_S", 0.05)
    store = TaskStore(tmp_path / "tasks.db", lambda _: None)
    await store.run(lambda file: file.renew())
    with sqlite3.connect(tmp_path / "tasks.db", isolation_level=None) as db:
        db.execute("BEGIN IMMEDIATE")
        store._file.close()
        with pytest.raises(TaskStoreError, match="locked"):
            await store.run(lambda file: file.renew())
        release = threading.Event()
        with pytest.raises(TaskStoreError, match=r"did not respond within 0\.1 s"):
            await store.run(lambda _: release.wait(5), 0.1)
        release.set()
    await store.run(lambda file: file.renew())
    await store.close()


async def test_a_store_can_be_used_again_after_it_was_closed(tmp_path: Path) -> None:
    store = TaskStore(tmp_path / "tasks.db", lambda _: None)
    for _ in range(2):
        await store.create(NewTask("ana", "work", "", HOUR_MS), 1, None)
        await store.close()
    assert "toolcrib-tasks" not in {thread.name for thread in threading.enumerate()}


async def test_an_error_of_the_caller_is_raised_as_it_is(tmp_path: Path) -> None:
    def fail(_: Any) -> None:
        raise KeyError("mine")

    store = TaskStore(tmp_path / "tasks.db", lambda _: None)
    with pytest.raises(KeyError, match="mine"):
        await store.run(fail)
    await store.close()
