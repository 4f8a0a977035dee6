"""Values: transactions with checks, caps, expiry."""

from __future__ import annotations

import asyncio

import pytest

from tests.state.conftest import Machine
from toolcrib.state.base import Check, Item, Space, StateUnavailable, Write

SERVERS = ("postgresql",)
NOTES = Space("notes", 100, 10**6, 10**4, 10, "refuse", True)
CACHE = Space("cache", 5, 10**6, 10**4, 3, "evict", False)


async def test_put_get_delete(engine: Machine) -> None:
    values = engine.start().values
    assert await values.get(NOTES, "a") is None
    assert await values.commit([Write(NOTES, "a", b"1", None), Write(CACHE, "a", b"2", None)])
    first, other = await values.get(NOTES, "a"), await values.get(CACHE, "a")
    assert (first and first.value, other and other.value) == (b"1", b"2")
    assert await values.commit([Write(NOTES, "a", None, None)])
    assert await values.get(NOTES, "a") is None
    assert await values.get(CACHE, "a") == other


async def test_anything_that_is_used_once_is_used_by_one_process(shared: Machine) -> None:
    processes = [shared.start() for _ in range(4)]
    for number in range(5):
        use = [Write(NOTES, f"mark {number}", b"", 60.0)]
        check = [Check(NOTES, f"mark {number}", 0)]
        used = await asyncio.gather(*(process.values.commit(use, check) for process in processes))
        assert sorted(used) == [False, False, False, True]


async def test_a_swap_fails_if_the_value_was_written_meanwhile(engine: Machine) -> None:
    values = engine.start().values
    await values.commit([Write(NOTES, "a", b"1", None)])
    before = await values.get(NOTES, "a")
    assert before is not None
    await values.commit([Write(NOTES, "a", b"1", None)])
    writes = [Write(NOTES, "a", b"3", None), Write(NOTES, "b", b"4", None)]
    assert not await values.commit(writes, [Check(NOTES, "a", before.version)])
    assert await values.get(NOTES, "b") is None
    now = await values.get(NOTES, "a")
    assert now is not None
    assert await values.commit(writes, [Check(NOTES, "a", now.version)])
    assert [item.value for _, item in await values.scan(NOTES)] == [b"3", b"4"]


async def test_a_value_that_was_deleted_and_written_again_has_another_version(engine: Machine) -> None:
    values = engine.start().values
    versions = set()
    for _ in range(3):
        await values.commit([Write(NOTES, "a", b"1", None)])
        item = await values.get(NOTES, "a")
        versions.add(item and item.version)
        await values.commit([Write(NOTES, "a", None, None)])
    assert len(versions) == 3


async def test_an_expired_value_is_absent(engine: Machine) -> None:
    values = engine.start().values
    await values.commit([Write(NOTES, "a", b"1", 60.0), Write(NOTES, "b", b"2", None)])
    engine.pass_s(59)
    assert await values.get(NOTES, "a") is not None
    engine.pass_s(1.1)
    assert await values.get(NOTES, "a") is None
    assert [key for key, _ in await values.scan(NOTES)] == ["b"]
    assert await values.commit([Write(NOTES, "a", b"3", 60.0)], [Check(NOTES, "a", 0)])


async def test_a_clock_that_is_set_expires_no_value(machine: Machine) -> None:
    values = machine.start().values
    await values.commit([Write(NOTES, "a", b"1", 60.0)])
    machine.wall.pass_s(10**8)
    assert await values.get(NOTES, "a") is not None


async def test_values_outlive_a_restart_of_the_machine_until_they_expire(machine: Machine) -> None:
    await machine.start().values.commit([Write(NOTES, "a", b"1", 3600.0), Write(NOTES, "b", b"1", 60.0)])
    machine.restart(120)
    values = machine.start().values
    assert [key for key, _ in await values.scan(NOTES)] == ["a"]
    machine.pass_s(3600 - 119)
    assert await values.scan(NOTES) == []


async def test_a_full_space_refuses_and_keeps_what_it_has(engine: Machine) -> None:
    values = engine.start().values
    for number in range(10):
        await values.commit([Write(NOTES, f"{number}", b"1", None, "ana")])
    with pytest.raises(StateUnavailable, match="too many entries in 'notes'"):
        await values.commit([Write(NOTES, "more", b"1", None, "ana")])
    assert await values.commit([Write(NOTES, "9", b"2", None, "ana")])
    assert await values.commit([Write(NOTES, "more", b"1", None, "ben")])
    assert len(await values.scan(NOTES, owner="ana")) == 10
    with pytest.raises(ValueError, match="at most 10000 bytes"):
        await values.commit([Write(NOTES, "big", b"x" * 10_001, None)])


async def test_a_full_space_makes_room_where_it_evicts(engine: Machine) -> None:
    values = engine.start().values
    for key, owner in (("a", "ana"), ("b", "ben"), ("c", "ana"), ("d", "ana"), ("e", "ana")):
        await values.commit([Write(CACHE, key, b"1", None, owner)])
    assert [key for key, _ in await values.scan(CACHE)] == ["b", "c", "d", "e"]
    for key in "fg":
        await values.commit([Write(CACHE, key, b"1", None, key)])
    assert [key for key, _ in await values.scan(CACHE)] == ["c", "d", "e", "f", "g"]


async def test_bytes_are_limited_in_all(engine: Machine) -> None:
    small, values = CACHE._replace(max_bytes=1_000), engine.start().values
    for key in "abc":
        await values.commit([Write(small, key, b"x" * 300, None, "ana")])
    assert [key for key, _ in await values.scan(small)] == ["b", "c"]
    await values.commit([Write(small, "d", b"x" * 5_000, None, "ana")])
    assert [key for key, _ in await values.scan(small)] == ["d"]


async def test_entries_are_listed_in_the_order_of_their_keys(engine: Machine) -> None:
    values = engine.start().values
    for number in (3, 1, 2, 5, 4):
        owner = "ana" if number % 2 else "ben"
        await values.commit([Write(NOTES, f"k{number}", b"%d" % number, None, owner)])
    assert [key for key, _ in await values.scan(NOTES, limit=2)] == ["k1", "k2"]
    assert [key for key, _ in await values.scan(NOTES, after="k2", limit=2)] == ["k3", "k4"]
    found = await values.scan(NOTES, owner="ana")
    assert [key for key, _ in found] == ["k1", "k3", "k5"]
    assert isinstance(found[0][1], Item)
