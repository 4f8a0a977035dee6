"""The place of an issuer's keys is down, slow, enormous, full of garbage, or elsewhere; and keys rotate.
What is known serves on, a fetch takes two seconds at most, and nobody is asked more than once in ten.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.servers.token_issuer import RESOURCE, Clock, KeyServer, Mint, Page, make_key, publish, see
from toolcrib.policy import OAuth
from toolcrib.policy.auth.jwks import InvalidTokenError
from toolcrib.policy.auth.tokens import Issuer

pytestmark = pytest.mark.row("D7")

MB = 1024 * 1024
HOUR_S, DAY_S = 3600.0, 86_400.0


@pytest.fixture
def now() -> Clock:
    return Clock()


@pytest.fixture
def issuer(key_server: KeyServer, now: Clock) -> Issuer:
    return Issuer(OAuth(issuer=key_server.origin, jwks_uri=key_server.jwks_uri), resource=RESOURCE, now=now)


@pytest.fixture
def mint(key_server: KeyServer) -> Mint:
    return Mint(key_server.origin)


async def outcome(issuer: Issuer, token: str) -> str:
    try:
        return (await see(issuer.verify(token))).name
    except InvalidTokenError as error:
        return type(error).__name__


def processor_wait_s() -> float:
    """Return for how long this thread was ready to run while other programs had the processors."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except FileNotFoundError:
        return 0.0


@asynccontextmanager
async def watching() -> AsyncIterator[Callable[[], float]]:
    """How long the event loop stood still at most, but for the time in which its thread had no processor."""
    worst = 0.0

    async def watch() -> None:
        nonlocal worst
        while True:
            begin = time.perf_counter() - processor_wait_s()
            await asyncio.sleep(0.005)
            worst = max(worst, time.perf_counter() - processor_wait_s() - begin)

    task = asyncio.create_task(watch())
    try:
        yield lambda: worst
    finally:
        task.cancel()


BROKEN: dict[str, Callable[[KeyServer], Page]] = {
    "an error": lambda _: Page(b"", 500),
    "gone": lambda _: Page(b"", 404),
    "garbage": lambda _: Page(b"\x00\xff" * 1000),
    "a web page": lambda _: Page(b"<!doctype html><p>Please log in"),
    "no keys": lambda _: Page({"keys": []}),
    "keys of the wrong kind": lambda _: Page({"keys": [{"kty": "oct", "k": "AAAA", "kid": "one"}]}),
    "private keys": lambda _: Page({"keys": [make_key().as_dict(private=True)]}),
    "a redirect": lambda server: Page(b"", 302, {"Location": f"{server.origin}/elsewhere"}),
    "50 MB": lambda _: Page(b" " * (50 * MB)),
    "bombs": lambda _: Page(b"[" * 200_000),
    "unpacks to more": lambda _: Page(b"x" * 100, headers={"Content-Encoding": "gzip"}),
}


def break_down(key_server: KeyServer, how: str) -> None:
    key_server.pages["/keys"] = BROKEN[how](key_server)
    key_server.pages["/elsewhere"] = Page(publish(make_key(), make_key(kid="two")))


@pytest.mark.parametrize("how", BROKEN)
async def test_without_keys_nobody_gets_in_and_nobody_is_called_a_liar(
    key_server: KeyServer, issuer: Issuer, mint: Mint, now: Clock, how: str
) -> None:
    break_down(key_server, how)
    async with watching() as standstill_s:
        for at in (0.0, 9.9, 10.0, 19.9):
            now.at = at
            assert [await outcome(issuer, mint()) for _ in range(20)] == ["KeysUnavailableError"] * 20
        assert standstill_s() < 0.5
    assert key_server.visits == ["/keys"] * 2
    key_server.publish(make_key())
    now.at = 20.0
    assert await outcome(issuer, mint()) == "oauth:ana"


@pytest.mark.parametrize("how", BROKEN)
async def test_known_keys_serve_on_for_a_day(
    key_server: KeyServer, issuer: Issuer, mint: Mint, now: Clock, how: str
) -> None:
    assert await outcome(issuer, mint()) == "oauth:ana"
    break_down(key_server, how)
    key_server.visits.clear()
    for at in (1.0, HOUR_S - 1, HOUR_S, 2 * HOUR_S, DAY_S - 1):
        now.at = at
        assert await outcome(issuer, mint()) == "oauth:ana"
        await issuer.prefetch_keys()  # waits for what goes on in the background
    assert key_server.visits == ["/keys"] * 3  # not a second after another
    now.at = DAY_S
    assert await outcome(issuer, mint()) == "KeysUnavailableError"


async def test_a_slow_issuer_is_waited_for_two_seconds_by_all_together(
    key_server: KeyServer, issuer: Issuer, mint: Mint
) -> None:
    key_server.pages["/keys"].holds = True
    begin = time.perf_counter()
    async with watching() as standstill_s:
        found = await asyncio.gather(*(outcome(issuer, mint()) for _ in range(50)))
        assert standstill_s() < 0.5
    assert set(found) == {"KeysUnavailableError"}
    assert 1.9 < time.perf_counter() - begin < 3.0
    assert key_server.visits == ["/keys"]


async def test_a_storm_of_unknown_keys_is_one_fetch_in_ten_seconds(
    key_server: KeyServer, issuer: Issuer, mint: Mint, now: Clock
) -> None:
    await issuer.prefetch_keys()
    forged = Mint(key_server.origin, make_key(kid="two"))
    for second in range(60):
        now.at = float(second)
        tokens = [forged({"kid": f"{second}-{number}"}) for number in range(3)]
        found = await asyncio.gather(*(outcome(issuer, token) for token in tokens))
        assert set(found) == {"InvalidTokenError"}
        assert await outcome(issuer, mint()) == "oauth:ana"
    assert len(key_server.visits) == 6


async def test_rotation_is_noticed_by_the_first_token_of_the_new_key(
    key_server: KeyServer, issuer: Issuer, mint: Mint, now: Clock
) -> None:
    old = mint()
    assert await outcome(issuer, old) == "oauth:ana"
    fresh = Mint(key_server.origin, make_key(kid="two"))
    key_server.publish(fresh.key, make_key())
    now.at = 10.0
    found = await asyncio.gather(*(outcome(issuer, fresh(sub=f"u{number}")) for number in range(50)))
    assert found == [f"oauth:u{number}" for number in range(50)]
    assert await outcome(issuer, old) == "oauth:ana"
    assert key_server.visits == ["/keys"] * 2
    key_server.publish(fresh.key)
    now.at = 10.0 + 0.8 * HOUR_S
    assert await outcome(issuer, old) == "oauth:ana"
    await issuer.prefetch_keys()
    assert await outcome(issuer, old) == "InvalidTokenError"
