"""Keys of an issuer over time: found, shared, kept, fetched again; at a real server, by our own clocks."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from typing import Any

import pytest

from tests.support.token_issuer import Clock, KeyHouse, Page, make_key, publish
from toolcrib.errors import APIError
from toolcrib.policy.auth.jwks import IssuerKeys
from toolcrib.policy.auth.tokens import KeysUnavailableError

HOUR_S, DAY_S = 3600.0, 86_400.0


@pytest.fixture
def now() -> Clock:
    return Clock()


@pytest.fixture
def keys(house: KeyHouse, now: Clock) -> IssuerKeys:
    return IssuerKeys(house.origin, house.jwks_uri, now=now)


async def settle(keys: IssuerKeys) -> None:
    """Wait for what goes on in the background."""
    assert keys._task is not None
    await keys._task


def kids(keys: IssuerKeys) -> list[str | None] | None:
    found = keys.current()
    return None if found is None else [key.kid for key in found.keys]


# --- in time ---


async def test_keys_are_ready_once_they_were_fetched(house: KeyHouse, keys: IssuerKeys) -> None:
    assert keys.current() is None
    assert house.visits == []
    assert (await keys.fetch()) is keys.current()
    assert kids(keys) == ["one"]
    assert house.visits == ["/keys"]


async def test_all_who_wait_share_one_fetch(house: KeyHouse, keys: IssuerKeys) -> None:
    found = await asyncio.gather(*(keys.fetch() for _ in range(50)))
    assert len(set(map(id, found))) == 1
    assert house.visits == ["/keys"]


async def test_one_who_goes_away_does_not_end_it_for_the_others(house: KeyHouse, keys: IssuerKeys) -> None:
    house.pages["/keys"].holds = True
    first, second = asyncio.create_task(keys.fetch()), asyncio.create_task(keys.fetch())
    while not house.visits:
        await asyncio.sleep(0)
    first.cancel()
    house.released.set()
    assert (await second).has("one")
    assert first.cancelled()


async def test_there_is_one_fetch_in_ten_seconds(house: KeyHouse, keys: IssuerKeys, now: Clock) -> None:
    old = await keys.fetch()
    house.publish(make_key(kid="two"))
    now.at = 9.99
    assert (await keys.fetch()) is old
    assert len(house.visits) == 1
    now.at = 10.0
    assert (await keys.fetch()).has("two")
    assert len(house.visits) == 2


@pytest.mark.parametrize(
    ("header", "age_s"),
    [
        ({}, HOUR_S),
        ({"Cache_Control": "public"}, HOUR_S),
        ({"Cache_Control": "public, max-age=7200"}, 7200.0),
        ({"Cache_Control": "max-age=1"}, 300.0),
        ({"Cache_Control": "max-age=999999"}, DAY_S),
        ({"Cache_Control": "no-cache"}, 300.0),
    ],
)
async def test_keys_are_fetched_again_in_the_background_before_they_are_old(
    house: KeyHouse, keys: IssuerKeys, now: Clock, header: dict[str, str], age_s: float
) -> None:
    house.publish(make_key(), **header)
    await keys.fetch()
    now.at = 0.8 * age_s - 0.1
    assert kids(keys) == ["one"]
    assert len(house.visits) == 1
    house.publish(make_key(kid="two"), **header)
    now.at = 0.8 * age_s
    assert kids(keys) == ["one"]  # nobody waits
    await settle(keys)
    assert kids(keys) == ["two"]
    assert len(house.visits) == 2
    now.at = 1.5 * age_s
    assert kids(keys) == ["two"]
    assert len(house.visits) == 2


async def test_after_a_long_silence_the_first_one_waits(
    house: KeyHouse, keys: IssuerKeys, now: Clock
) -> None:
    await keys.fetch()
    house.publish(make_key(kid="two"))
    now.at = HOUR_S - 0.1
    assert kids(keys) == ["one"]
    await settle(keys)
    now.at += HOUR_S
    assert keys.current() is None
    assert (await keys.fetch()).has("two")
    assert keys.current() is not None


async def test_without_an_event_loop_nothing_is_fetched(house: KeyHouse, now: Clock) -> None:
    keys = IssuerKeys(house.origin, house.jwks_uri, now=now)
    await keys.fetch()
    now.at = 0.9 * HOUR_S
    assert await asyncio.to_thread(kids, keys) == ["one"]
    assert len(house.visits) == 1


def test_a_fetch_of_a_loop_that_ended_is_nothing_to_wait_for(house: KeyHouse, now: Clock) -> None:
    keys = IssuerKeys(house.origin, house.jwks_uri, now=now)
    house.pages["/keys"].holds = True
    asyncio.run(_begin(house, keys))
    house.pages["/keys"].holds = False
    now.at = 10.0
    assert asyncio.run(keys.fetch()).has("one")
    asyncio.run(_collect())


async def _begin(house: KeyHouse, keys: IssuerKeys) -> None:
    waiting = asyncio.create_task(keys.fetch())
    while not house.visits:
        await asyncio.sleep(0)
    waiting.cancel()


async def _collect() -> None:
    gc.collect()


async def test_another_loop_starts_its_own_fetch(house: KeyHouse, now: Clock) -> None:
    keys = IssuerKeys(house.origin, house.jwks_uri, now=now)
    house.pages["/keys"].holds = True
    waiting = asyncio.create_task(keys.fetch())
    while not house.visits:
        await asyncio.sleep(0)
    house.publish(make_key(kid="two"))
    now.at = 10.0
    found = await asyncio.to_thread(asyncio.run, keys.fetch())
    assert found.has("two")
    house.released.set()
    await waiting


# --- out of reach ---


async def test_the_last_keys_count_for_a_day_while_the_issuer_is_away(
    house: KeyHouse, keys: IssuerKeys, now: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    await keys.fetch()
    house.pages["/keys"].status = 503
    now.at = HOUR_S
    assert keys.current() is None
    assert (await keys.fetch()).has("one")
    now.at = DAY_S - 0.1
    assert kids(keys) == ["one"]  # nobody waits any more
    await settle(keys)
    assert len(house.visits) == 3
    now.at = DAY_S
    assert keys.current() is None
    with pytest.raises(KeysUnavailableError) as caught:
        await keys.fetch()
    assert caught.value.retry_after_s == pytest.approx(9.9)
    told = f"{house.jwks_uri} returned 503; the last keys count for now"
    words = [(record.name, record.levelname, record.message) for record in caplog.records]
    assert words == [("toolcrib", "WARNING", f"cannot fetch the keys of {house.origin}: {told}")]


async def test_an_issuer_that_comes_back_is_believed_again(
    house: KeyHouse, keys: IssuerKeys, now: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    house.pages["/keys"].status = 500
    for at in (0.0, 10.0):
        now.at = at
        with pytest.raises(KeysUnavailableError) as caught:
            await keys.fetch()
        assert caught.value.retry_after_s == 10.0
    house.publish(make_key())
    now.at = 20.0
    assert (await keys.fetch()).has("one")
    words = [record.message for record in caplog.records]
    assert words == [
        f"cannot fetch the keys of {house.origin}: {house.jwks_uri} returned 500",
        f"the keys of {house.origin} are available again",
    ]
    now.at = 20.0 + HOUR_S
    assert keys.current() is None  # what failed before is forgotten


async def test_a_failure_long_ago_does_not_let_old_keys_count(
    house: KeyHouse, keys: IssuerKeys, now: Clock
) -> None:
    await keys.fetch()
    house.pages["/keys"].status = 500
    now.at = 20.0
    assert (await keys.fetch()).has("one")
    house.publish(make_key(kid="two"))
    now.at = HOUR_S
    assert keys.current() is None
    assert (await keys.fetch()).has("two")


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (Page(b"<html>"), "malformed|invalid"),
        (Page({"keys": []}), "no key that can be used to check tokens"),
        (Page(publish(make_key()), 302, {"Location": "/other"}), "/keys returned 302"),
        (Page(publish(make_key()), 204), "/keys returned 204"),
        (Page(b" " * (256 * 1024 + 1)), "GET /keys: the response is larger than 262144 bytes"),
    ],
)
async def test_whatever_else_comes_is_no_key(
    house: KeyHouse, keys: IssuerKeys, page: Page, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    house.pages["/keys"] = page
    house.pages["/other"] = Page(publish(make_key()))
    with pytest.raises(KeysUnavailableError):
        await keys.fetch()
    assert house.visits == ["/keys"]
    assert any(part in caplog.text for part in words.split("|"))


async def test_a_document_of_256_kib_is_read(house: KeyHouse, keys: IssuerKeys) -> None:
    house.pages["/keys"] = Page(
        b'{"keys":[' + b" " * (256 * 1024 - 500) + house_key() + b"]}", headers={"Cache-Control": "x"}
    )
    assert (await keys.fetch()).has("one")


def house_key() -> bytes:
    return json.dumps(publish(make_key())["keys"][0]).encode()


async def test_who_waited_long_enough_may_come_back_at_once(now: Clock) -> None:
    async def fetch(address: str) -> Any:
        now.at += 60.0
        raise APIError(f"GET {address}: no answer")

    keys = IssuerKeys("https://login.example.com", "https://login.example.com/keys", now=now, fetch=fetch)
    with pytest.raises(KeysUnavailableError) as caught:
        await keys.fetch()
    assert caught.value.retry_after_s == 0.0


async def test_what_fails_inside_is_seen(now: Clock) -> None:
    async def fetch(address: str) -> Any:
        raise RuntimeError("a bug")

    keys = IssuerKeys("https://login.example.com", "https://login.example.com/keys", now=now, fetch=fetch)
    with pytest.raises(RuntimeError, match="a bug"):
        await keys.fetch()
