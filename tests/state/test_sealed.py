"""Encryption of values and tasks in front of an engine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.state.conftest import Machine
from toolcrib.errors import ConfigurationError
from toolcrib.state.base import Check, NewTask, Space, Write
from toolcrib.state.memory import MemoryBus
from toolcrib.state.sealed import (
    OVERHEAD,
    SealedBus,
    SealedTasks,
    SealedValues,
    Sealer,
    derive_key,
    read_key_file,
)

OLD, NEW = b"o" * 43, b"n" * 43
NOTES = Space("notes", 100, 10**6, 50, 10, "refuse", True)
MARKS = Space("marks", 100, 10**6, 0, 10, "refuse", True)
TASK = NewTask("t1", "ana", "work", "print", "digest", 3_600_000, b'{"arguments":"canary-payload"}')


@given(st.binary(max_size=200), st.text(max_size=20))
def test_a_value_is_opened_where_it_was_sealed_and_nowhere_else(value: bytes, place: str) -> None:
    sealer = Sealer([NEW], "values")
    sealed = sealer.seal(value, place)
    assert len(sealed) == len(value) + OVERHEAD
    assert sealer.open(sealed, place) == value
    assert sealer.open(sealed, f"{place}2") is None
    assert Sealer([NEW], "tasks").open(sealed, place) is None


@given(st.binary(max_size=100))
def test_anything_else_is_not_opened(data: bytes) -> None:
    sealer = Sealer([NEW], "values")
    assert sealer.open(data, "a") is None
    sealed = sealer.seal(b"value", "a")
    for position in range(len(sealed)):
        changed = bytearray(sealed)
        changed[position] ^= 1
        assert sealer.open(bytes(changed), "a") is None


def test_secrets_are_rotated() -> None:
    old, both, new = Sealer([OLD], "values"), Sealer([NEW, OLD], "values"), Sealer([NEW], "values")
    before = old.seal(b"before", "a")
    assert both.open(before, "a") == b"before"
    assert new.open(before, "a") is None
    assert new.open(both.seal(b"after", "a"), "a") == b"after"
    assert old.open(both.seal(b"after", "a"), "a") is None


def test_a_key_is_for_one_purpose() -> None:
    assert len({derive_key(NEW, "values"), derive_key(NEW, "sessions"), derive_key(OLD, "values")}) == 3


async def test_values_are_encrypted_in_the_engine(engine: Machine) -> None:
    process = engine.start()
    values = SealedValues(process.values, Sealer([NEW], "values"))
    assert await values.commit([Write(NOTES, "a", b"canary-value", 60.0, "ana")])
    found = await values.get(NOTES, "a")
    assert found is not None
    assert found.value == b"canary-value"
    assert [(key, item.value) for key, item in await values.scan(NOTES, owner="ana")] == [
        ("a", b"canary-value")
    ]
    stored = await process.values.get(NOTES, "a")
    assert stored is not None
    assert b"canary" not in stored.value
    assert not await values.commit([Write(NOTES, "a", b"2", None)], [Check(NOTES, "a", 0)])
    assert await values.commit([Write(NOTES, "a", None, None)], [Check(NOTES, "a", found.version)])
    assert await values.get(NOTES, "a") is None


async def test_a_cap_is_one_of_the_value_before_it_is_sealed(engine: Machine) -> None:
    values = SealedValues(engine.start().values, Sealer([NEW], "values"))
    assert await values.commit([Write(NOTES, "a", b"x" * 50, None)])
    with pytest.raises(ValueError, match="has at most"):
        await values.commit([Write(NOTES, "a", b"x" * 51, None)])
    assert await values.commit([Write(MARKS, "once", b"", None)], [Check(MARKS, "once", 0)])
    assert not await values.commit([Write(MARKS, "once", b"", None)], [Check(MARKS, "once", 0)])


async def test_a_value_moved_to_another_key_is_missing(engine: Machine) -> None:
    process = engine.start()
    values = SealedValues(process.values, Sealer([NEW], "values"))
    roomy = NOTES._replace(max_value=1_000)
    await values.commit([Write(NOTES, "token of ana", b"secret", None)])
    stored = await process.values.get(roomy, "token of ana")
    assert stored is not None
    await process.values.commit([Write(roomy, "token of ben", stored.value, None)])
    assert await values.get(NOTES, "token of ben") is None
    assert [key for key, _ in await values.scan(NOTES)] == ["token of ana"]


async def test_a_task_is_encrypted_in_the_engine(engine: Machine) -> None:
    process = engine.start()
    tasks = SealedTasks(process.tasks, Sealer([NEW], "tasks"))
    created = await tasks.create(TASK, queue=None, most=9, most_own=None)
    assert created is not None
    assert created.new == TASK
    assert await tasks.note("t1", "canary-message")
    assert await tasks.ask("t1", {"q": b"canary-question"})
    found, stored = await tasks.find("t1", "ana"), await process.tasks.find("t1", "ana")
    assert found is not None
    assert (found.new, found.message, found.questions) == (TASK, "canary-message", {"q": b"canary-question"})
    assert "canary" not in repr(stored)
    await tasks.answer("t1", "ana", {"q": b"canary-answer"})
    assert (await tasks.changes(0, ["t1"])).answers == {"t1": {"q": b"canary-answer"}}
    assert await tasks.finish("t1", "completed", b'{"canary":1}', max_kept_bytes=10**6)
    found, stored = await tasks.find("t1", "ana"), await process.tasks.find("t1", "ana")
    assert found is not None
    assert found.outcome == b'{"canary":1}'
    assert [task.outcome for task in (await tasks.changes(0, ["t1"])).seen] == [b'{"canary":1}']
    assert "canary" not in repr(stored)


async def test_what_the_engine_wrote_to_a_task_is_read_as_it_is(machine: Machine) -> None:
    dead, alive = machine.start(), machine.start()
    sealer = Sealer([NEW], "tasks")
    await SealedTasks(dead.tasks, sealer).create(TASK, queue=None, most=9, most_own=None)
    machine.freeze(dead)
    machine.pass_s(11)
    await alive.tasks.renew()
    found = await SealedTasks(alive.tasks, sealer).find("t1", "ana")
    assert found is not None
    assert found.status == "failed"
    assert b"has ended" in (found.outcome or b"")


async def test_a_queued_task_is_claimed_with_its_payload(engine: Machine) -> None:
    process = engine.start()
    tasks = SealedTasks(process.tasks, Sealer([NEW], "tasks"))
    await tasks.create(TASK, queue="q", most=9, most_own=None)
    claimed = await tasks.claim(["q"])
    assert claimed is not None
    assert claimed.new.payload == TASK.payload


async def test_no_sealed_value_is_in_clear_in_the_files_of_the_engine(machine: Machine) -> None:
    process = machine.start()
    sealer = Sealer([NEW], "all")
    await SealedValues(process.values, sealer).commit([Write(NOTES, "a", b"canary-value", None)])
    await SealedTasks(process.tasks, sealer).create(TASK, queue=None, most=9, most_own=None)
    assert machine.path is not None
    files = list(machine.path.parent.glob(f"{machine.path.name}*"))
    assert any(TASK.fingerprint.encode() in file.read_bytes() for file in files)
    assert not any(b"canary" in file.read_bytes() for file in files)


def test_a_key_file_has_a_secret_in_each_line(tmp_path: Path) -> None:
    file = tmp_path / "fleet.key"
    file.write_bytes(NEW + b"\n\n" + OLD + b"\n")
    file.chmod(0o400)
    assert read_key_file(file) == [NEW, OLD]


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        ("", 0o600, "has no secret"),
        (f"{NEW.decode()}\nshort\n", 0o600, "line 2: a secret has at least 43 characters"),
        ("ä" * 50, 0o600, "line 1"),
        (NEW.decode(), 0o644, "can be read or written by other users"),
        (NEW.decode(), 0o660, "can be read or written by other users"),
    ],
)
def test_a_key_file_that_is_weak_or_not_private_is_refused(
    tmp_path: Path, text: str, mode: int, message: str
) -> None:
    file = tmp_path / "fleet.key"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(ConfigurationError, match=message):
        read_key_file(file)


def test_a_key_file_that_is_missing_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="does not exist") as caught:
        read_key_file(tmp_path / "fleet.key")
    assert "secrets.token_urlsafe" in str(caught.value.hint)
    assert os.listdir(tmp_path) == []


async def test_notices_are_encrypted_and_those_of_others_are_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wire = MemoryBus("me")
    bus, rotated = SealedBus(wire, Sealer([OLD], "notices")), SealedBus(wire, Sealer([NEW, OLD], "notices"))
    carried: list[bytes | None] = []
    heard: list[bytes | None] = []
    wire.subscribe("lists", carried.append)
    end = rotated.subscribe("lists", heard.append)
    bus.publish("lists", b"canary-notice")
    assert heard == [b"canary-notice"]
    assert len(carried) == 1
    assert b"canary" not in (carried[0] or b"")
    bus.publish("other", b"x")
    wire.deliver("lists", None)  # some were lost
    assert heard == [b"canary-notice", None]
    assert not caplog.records
    stranger = SealedBus(wire, Sealer([b"x" * 43], "notices"))
    stranger.publish("lists", b"forged")
    for forged in (b"", b"forged", Sealer([OLD], "notices").seal(b"moved", "other")):
        wire.publish("lists", forged)
    assert heard == [b"canary-notice", None]
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 4
    end()
    bus.publish("lists", b"late")
    assert heard == [b"canary-notice", None]


async def test_what_is_sent_to_one_process_is_encrypted_for_it() -> None:
    wire = MemoryBus("me")
    bus = SealedBus(wire, Sealer([NEW], "notices"))
    heard: list[bytes | None] = []
    assert not await bus.send("me", b"early")
    bus.subscribe("me", heard.append)
    assert await bus.send("me", b"answer")
    assert not await bus.send("gone", b"answer")
    assert heard == [b"answer"]
