"""The SQLite file: private, of the right kind, shared, and never waited for without end."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.state.conftest import Machine
from tests.state.test_task_store import create, status_of
from toolcrib.state.base import StateUnavailable
from toolcrib.state.sqlite import file as sqlite_file
from toolcrib.state.sqlite.state import SQLiteState


async def test_the_file_is_private(machine: Machine) -> None:
    await create(machine.start())
    assert machine.path is not None
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in machine.path.parent.iterdir()}
    assert modes == dict.fromkeys(["state.db", "state.db-wal", "state.db-shm"], 0o600)


@pytest.mark.parametrize("content", [b"precious", b"SQLite format 3\0" + bytes(84)])
async def test_a_file_of_another_kind_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(StateUnavailable, match="not a state file of toolcrib"):
        await SQLiteState(path).open()
    assert path.read_bytes() == content


async def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE theirs (name)")
    path.chmod(0o600)
    before = path.read_bytes()
    with pytest.raises(StateUnavailable, match="not a state file of toolcrib"):
        await SQLiteState(path).open()
    assert path.read_bytes() == before


async def test_a_file_of_a_newer_version_is_left_alone(machine: Machine) -> None:
    await machine.start().open()
    with sqlite3.connect(str(machine.path)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(StateUnavailable, match="newer toolcrib"):
        await machine.start().open()


async def test_a_file_that_was_deleted_is_made_again(machine: Machine) -> None:
    process = machine.start()
    id_ = await create(process)
    assert machine.path is not None
    for path in machine.path.parent.iterdir():
        path.unlink()
    assert await status_of(process, id_) is None
    assert await status_of(process, await create(process)) == "working"
    assert (await process.tasks.changes(0, ())).ended == {id_}


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
async def test_a_file_that_another_user_may_have_planted_is_refused(
    machine: Machine, plant: Callable[[Path], None], beside: str
) -> None:
    assert machine.path is not None
    planted = machine.path.with_name(f"state.db{beside}")
    plant(planted)
    with pytest.raises(
        StateUnavailable, match=f"{planted} (is a symbolic link|can be written by other users)"
    ):
        await machine.start().open()
    assert planted.stat().st_size == 0


@pytest.mark.parametrize("name", ["", "state.db", "state.db-wal"])
async def test_a_file_or_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    path = folder / name
    path.touch(0o600)
    if os.geteuid() == 0:
        os.chown(path, 1234, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(StateUnavailable, match="belongs to another user"):
        await SQLiteState(folder / "state.db").open()


@pytest.mark.parametrize(
    ("mode", "is_refused"), [(0o777, True), (0o770, True), (0o1777, False), (0o755, False)]
)
async def test_a_folder_is_refused_where_others_can_replace_its_files(
    tmp_path: Path, mode: int, is_refused: bool
) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    state = SQLiteState(folder / "state.db")
    if is_refused:
        with pytest.raises(StateUnavailable, match=f"{folder} can be written by other users"):
            await state.open()
    else:
        await state.open()
    await state.close()


async def test_a_folder_is_created_for_its_user_only(tmp_path: Path) -> None:
    state = SQLiteState(tmp_path / "cache" / "state.db")
    await state.open()
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700
    await state.close()


async def test_the_lease_is_renewed_while_the_loop_is_blocked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "LEASE_NS", sqlite_file.NS // 2)
    monkeypatch.setattr(sqlite_file, "RENEW_NS", sqlite_file.NS // 10)
    one, two = SQLiteState(tmp_path / "state.db"), SQLiteState(tmp_path / "state.db")
    id_ = await create(one)
    threading.Event().wait(1.2)  # blocks the loop
    assert await status_of(two, id_) == "working"
    for state in (one, two):
        await state.close()


async def test_a_file_that_does_not_respond_is_an_error_and_not_a_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "LOCK_S", 0.05)
    state = SQLiteState(tmp_path / "state.db")
    await state.open()
    with sqlite3.connect(tmp_path / "state.db", isolation_level=None) as db:
        db.execute("BEGIN IMMEDIATE")
        with pytest.raises(StateUnavailable, match="locked") as caught:
            await state.tasks.renew()
        assert not caught.value.in_doubt
        release = threading.Event()
        with pytest.raises(StateUnavailable, match=r"did not respond within 0\.1 s") as caught:
            await state.file.read(lambda _: release.wait(5), 0.1)
        assert caught.value.in_doubt
        release.set()
    db.close()
    await state.tasks.renew()
    await state.close()


async def test_state_can_be_used_again_after_it_was_closed(tmp_path: Path) -> None:
    before, state = set(threading.enumerate()), SQLiteState(tmp_path / "state.db")
    for _ in range(2):
        assert await create(state)
        await state.close()
    assert "toolcrib-state" not in {thread.name for thread in set(threading.enumerate()) - before}


async def test_an_error_of_the_caller_is_raised_as_it_is(tmp_path: Path) -> None:
    def fail(_: sqlite3.Connection) -> None:
        raise KeyError("mine")

    state = SQLiteState(tmp_path / "state.db")
    with pytest.raises(KeyError, match="mine"):
        await state.file.write(fail)
    assert await asyncio.wait_for(create(state), 5)
    await state.close()
