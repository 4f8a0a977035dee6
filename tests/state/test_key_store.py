"""API keys: versions, names, and revocation."""

from __future__ import annotations

import asyncio

from tests.state.conftest import Machine
from toolcrib.state.base import Key

SERVERS = ("postgresql",)


def make_key(id_: str, name: str = "ana", expires_ms: int | None = None) -> Key:
    return Key(id_, name, f"hash of {id_}", id_[:2], ("a", "b:c"), (), 5, expires_ms, None)


async def test_keys_are_read_as_they_were_added(engine: Machine) -> None:
    keys = engine.start().keys
    version, found = await keys.read()
    assert (version, list(found)) == (1, [])
    one, two = make_key("k1"), make_key("k2", "ben", 10**15)
    assert await keys.add(one)
    assert await keys.add(two)
    version, found = await keys.read()
    assert list(found) == [one, two]
    assert await keys.read(version) is None
    assert await keys.read(version - 1) is not None


async def test_an_active_key_has_its_name_alone(shared: Machine) -> None:
    one, two = shared.start().keys, shared.start().keys
    now_ms = round(shared.wall() * 1000)
    assert await one.add(make_key("k1", expires_ms=now_ms + 5_000))
    assert not await two.add(make_key("k2"))
    shared.pass_s(5)
    added = await asyncio.gather(one.add(make_key("k3")), two.add(make_key("k4")))
    assert sorted(added) == [False, True]


async def test_a_key_is_revoked_by_its_name_hash_or_id(shared: Machine) -> None:
    one, two = shared.start().keys, shared.start().keys
    for number, name in enumerate(("ana", "ben", "cleo", "k1")):
        await one.add(make_key(f"k{number}", name))
    before = await one.read()
    assert before is not None
    for word, revoked in (
        ("ana", ["k0"]),
        ("hash of k2", ["k2"]),
        ("k1", ["k3"]),
        ("k1", ["k1"]),
        ("k1", []),
    ):
        version, found = await two.revoke(word)
        assert [key.id for key in found] == revoked
        assert all(key.revoked_ms == round(shared.wall() * 1000) for key in found)
    after = await one.read(before[0])
    assert after is not None
    assert after[0] == version == before[0] + 4
    assert all(key.revoked_ms is not None for key in after[1])
    assert await one.add(make_key("k9", "ana"))
