"""Signing keys of an issuer: parsing, fetching, metadata."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import warnings
from typing import Any

import pytest

from tests.support.servers.token_issuer import (
    SCHEMES,
    Clock,
    KeyServer,
    Page,
    encode,
    make_key,
    publish,
    sign,
)
from toolcrib.config.settings import SIGNING_ALGORITHMS
from toolcrib.errors import APIError
from toolcrib.policy.auth.jwks import (
    MAX_KEYS,
    IssuerKeys,
    KeySet,
    KeysUnavailableError,
    PublicKey,
    is_allowed,
    metadata_addresses,
    read_age_s,
)
from toolcrib.policy.auth.tokens import parse_token

HOUR_S, DAY_S = 3600.0, 86_400.0


@pytest.fixture
def now() -> Clock:
    return Clock()


@pytest.fixture
def keys(key_server: KeyServer, now: Clock) -> IssuerKeys:
    return IssuerKeys(key_server.origin, key_server.jwks_uri, now=now)


async def settle(keys: IssuerKeys) -> None:
    """Wait for what goes on in the background."""
    assert keys._task is not None
    await keys._task


def kids(keys: IssuerKeys) -> list[str | None] | None:
    found = keys.current()
    return None if found is None else [key.kid for key in found.keys]


# --- in time ---


async def test_keys_are_ready_once_they_were_fetched(key_server: KeyServer, keys: IssuerKeys) -> None:
    assert keys.current() is None
    assert key_server.visits == []
    assert (await keys.fetch()) is keys.current()
    assert kids(keys) == ["one"]
    assert key_server.visits == ["/keys"]


async def test_one_who_goes_away_does_not_end_it_for_the_others(
    key_server: KeyServer, keys: IssuerKeys
) -> None:
    key_server.pages["/keys"].holds = True
    first, second = asyncio.create_task(keys.fetch()), asyncio.create_task(keys.fetch())
    while not key_server.visits:
        await asyncio.sleep(0)
    first.cancel()
    key_server.released.set()
    assert (await second).has("one")
    assert first.cancelled()


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
    key_server: KeyServer, keys: IssuerKeys, now: Clock, header: dict[str, str], age_s: float
) -> None:
    key_server.publish(make_key(), **header)
    await keys.fetch()
    now.at = 0.8 * age_s - 0.1
    assert kids(keys) == ["one"]
    assert len(key_server.visits) == 1
    key_server.publish(make_key(kid="two"), **header)
    now.at = 0.8 * age_s
    assert kids(keys) == ["one"]  # no caller waits
    await settle(keys)
    assert kids(keys) == ["two"]
    assert len(key_server.visits) == 2
    now.at = 1.5 * age_s
    assert kids(keys) == ["two"]
    assert len(key_server.visits) == 2


async def test_after_a_long_silence_the_first_one_waits(
    key_server: KeyServer, keys: IssuerKeys, now: Clock
) -> None:
    await keys.fetch()
    key_server.publish(make_key(kid="two"))
    now.at = HOUR_S - 0.1
    assert kids(keys) == ["one"]
    await settle(keys)
    now.at += HOUR_S
    assert keys.current() is None
    assert (await keys.fetch()).has("two")
    assert keys.current() is not None


async def test_without_an_event_loop_nothing_is_fetched(key_server: KeyServer, now: Clock) -> None:
    keys = IssuerKeys(key_server.origin, key_server.jwks_uri, now=now)
    await keys.fetch()
    now.at = 0.9 * HOUR_S
    assert await asyncio.to_thread(kids, keys) == ["one"]
    assert len(key_server.visits) == 1


def test_a_fetch_of_a_loop_that_ended_is_nothing_to_wait_for(key_server: KeyServer, now: Clock) -> None:
    keys = IssuerKeys(key_server.origin, key_server.jwks_uri, now=now)
    key_server.pages["/keys"].holds = True
    asyncio.run(_begin(key_server, keys))
    key_server.pages["/keys"].holds = False
    now.at = 10.0
    assert asyncio.run(keys.fetch()).has("one")
    asyncio.run(_collect())


async def _begin(key_server: KeyServer, keys: IssuerKeys) -> None:
    waiting = asyncio.create_task(keys.fetch())
    while not key_server.visits:
        await asyncio.sleep(0)
    waiting.cancel()


async def _collect() -> None:
    gc.collect()


async def test_another_loop_starts_its_own_fetch(key_server: KeyServer, now: Clock) -> None:
    keys = IssuerKeys(key_server.origin, key_server.jwks_uri, now=now)
    key_server.pages["/keys"].holds = True
    waiting = asyncio.create_task(keys.fetch())
    while not key_server.visits:
        await asyncio.sleep(0)
    key_server.publish(make_key(kid="two"))
    now.at = 10.0
    found = await asyncio.to_thread(asyncio.run, keys.fetch())
    assert found.has("two")
    key_server.released.set()
    await waiting


# --- out of reach ---


async def test_the_last_keys_count_for_a_day_while_the_issuer_is_away(
    key_server: KeyServer, keys: IssuerKeys, now: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    await keys.fetch()
    key_server.pages["/keys"].status = 503
    now.at = HOUR_S
    assert keys.current() is None
    assert (await keys.fetch()).has("one")
    now.at = DAY_S - 0.1
    assert kids(keys) == ["one"]  # no caller waits any more
    await settle(keys)
    assert len(key_server.visits) == 3
    now.at = DAY_S
    assert keys.current() is None
    with pytest.raises(KeysUnavailableError) as caught:
        await keys.fetch()
    assert caught.value.retry_after_s == pytest.approx(9.9)
    told = f"{key_server.jwks_uri} returned 503; the last keys count for now"
    words = [(record.name, record.levelname, record.message) for record in caplog.records]
    assert words == [("toolcrib", "WARNING", f"cannot fetch the keys of {key_server.origin}: {told}")]


async def test_an_issuer_that_comes_back_is_believed_again(
    key_server: KeyServer, keys: IssuerKeys, now: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    key_server.pages["/keys"].status = 500
    for at in (0.0, 10.0):
        now.at = at
        with pytest.raises(KeysUnavailableError) as caught:
            await keys.fetch()
        assert caught.value.retry_after_s == 10.0
    key_server.publish(make_key())
    now.at = 20.0
    assert (await keys.fetch()).has("one")
    words = [record.message for record in caplog.records]
    assert words == [
        f"cannot fetch the keys of {key_server.origin}: {key_server.jwks_uri} returned 500",
        f"the keys of {key_server.origin} are available again",
    ]
    now.at = 20.0 + HOUR_S
    assert keys.current() is None  # what failed before is forgotten


async def test_a_failure_long_ago_does_not_let_old_keys_count(
    key_server: KeyServer, keys: IssuerKeys, now: Clock
) -> None:
    await keys.fetch()
    key_server.pages["/keys"].status = 500
    now.at = 20.0
    assert (await keys.fetch()).has("one")
    key_server.publish(make_key(kid="two"))
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
async def test_whatever_else_comes_is_not_a_key(
    key_server: KeyServer, keys: IssuerKeys, page: Page, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    key_server.pages["/keys"] = page
    key_server.pages["/other"] = Page(publish(make_key()))
    with pytest.raises(KeysUnavailableError):
        await keys.fetch()
    assert key_server.visits == ["/keys"]
    assert any(part in caplog.text for part in words.split("|"))


async def test_a_document_of_256_kib_is_read(key_server: KeyServer, keys: IssuerKeys) -> None:
    key_server.pages["/keys"] = Page(
        b'{"keys":[' + b" " * (256 * 1024 - 500) + house_key() + b"]}", headers={"Cache-Control": "x"}
    )
    assert (await keys.fetch()).has("one")


def house_key() -> bytes:
    return json.dumps(publish(make_key())["keys"][0]).encode()


async def test_anyone_who_waited_long_enough_may_come_back_at_once(now: Clock) -> None:
    async def fetch(address: str) -> Any:
        now.at += 60.0
        raise APIError(f"GET {address}: no answer")

    keys = IssuerKeys("https://login.example.com", "https://login.example.com/keys", now=now, fetch=fetch)
    with pytest.raises(KeysUnavailableError) as caught:
        await keys.fetch()
    assert caught.value.retry_after_s == 0.0


async def test_anything_that_fails_inside_is_seen(now: Clock) -> None:
    async def fetch(address: str) -> Any:
        raise RuntimeError("a bug")

    keys = IssuerKeys("https://login.example.com", "https://login.example.com/keys", now=now, fetch=fetch)
    with pytest.raises(RuntimeError, match="a bug"):
        await keys.fetch()


@pytest.mark.parametrize(
    ("issuer", "places"),
    [
        (
            "https://login.example.com",
            ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"],
        ),
        (
            "https://login.example.com/",
            ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"],
        ),
        (
            "https://login.example.com/realms/one",
            [
                "/.well-known/oauth-authorization-server/realms/one",
                "/.well-known/openid-configuration/realms/one",
                "/realms/one/.well-known/openid-configuration",
            ],
        ),
    ],
)
def test_metadata_is_looked_for_where_it_may_be(issuer: str, places: list[str]) -> None:
    assert list(metadata_addresses(issuer)) == [f"https://login.example.com{place}" for place in places]


@pytest.mark.parametrize("place", range(3))
async def test_keys_are_found_by_way_of_metadata(key_server: KeyServer, now: Clock, place: int) -> None:
    issuer = f"{key_server.origin}/realms/one"
    paths = [address.removeprefix(key_server.origin) for address in metadata_addresses(issuer)]
    key_server.describe(paths[place], issuer=issuer)
    keys = IssuerKeys(issuer, now=now)
    assert (await keys.fetch()).has("one")
    assert key_server.visits == [*paths[: place + 1], "/keys"]
    now.at = 10.0
    await keys.fetch()
    assert key_server.visits == [*paths[: place + 1], "/keys", "/keys"]


async def test_metadata_of_another_issuer_is_not_believed(
    key_server: KeyServer, now: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    key_server.describe(issuer=f"{key_server.origin}/")
    key_server.pages["/.well-known/openid-configuration"] = Page(b"[]")
    with pytest.raises(KeysUnavailableError):
        await IssuerKeys(key_server.origin, now=now).fetch()
    places = list(metadata_addresses(key_server.origin))
    told = f"no metadata: {places[0]} is not about this issuer; {places[1]} is not about this issuer"
    assert caplog.records[0].message == f"cannot fetch the keys of {key_server.origin}: {told}"
    assert "/keys" not in key_server.visits


async def test_metadata_that_cannot_be_read_is_passed_over(
    key_server: KeyServer, now: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    key_server.pages["/.well-known/oauth-authorization-server"] = Page(b"<html>")
    with pytest.raises(KeysUnavailableError):
        await IssuerKeys(key_server.origin, now=now).fetch()
    places = list(metadata_addresses(key_server.origin))
    told = f"no metadata: {places[0]} is not about this issuer; {places[1]} returned 404"
    assert caplog.records[0].message == f"cannot fetch the keys of {key_server.origin}: {told}"


@pytest.mark.parametrize("uri", [None, 5, "", "/keys", "http://login.example.com/keys", "file:///etc/passwd"])
async def test_metadata_without_a_place_for_keys_is_of_no_use(
    key_server: KeyServer, now: Clock, uri: Any, caplog: pytest.LogCaptureFixture
) -> None:
    key_server.describe(jwks_uri=uri)
    key_server.describe("/.well-known/openid-configuration")
    with pytest.raises(KeysUnavailableError):
        await IssuerKeys(key_server.origin, now=now).fetch()
    assert "has no https address for `jwks_uri`" in caplog.text
    assert key_server.visits == ["/.well-known/oauth-authorization-server"]


async def test_keys_that_have_moved_are_found_again(key_server: KeyServer, now: Clock) -> None:
    key_server.describe()
    keys = IssuerKeys(key_server.origin, now=now)
    await keys.fetch()
    key_server.pages["/new"] = Page(publish(make_key(kid="two")))
    del key_server.pages["/keys"]
    key_server.describe(jwks_uri=f"{key_server.origin}/new")
    now.at = 10.0
    assert (await keys.fetch()).has("one")
    now.at = 20.0
    assert (await keys.fetch()).has("two")


@pytest.mark.parametrize(
    ("address", "issuer", "is_fine"),
    [
        ("https://keys.example.net/a?b=c", "https://login.example.com", True),
        ("https://keys.example.net", "https://login.example.com", True),
        ("https://keys.example.net/a", "http://127.0.0.1:9000", True),
        ("http://127.0.0.1:9000/keys", "http://127.0.0.1:9000", True),
        ("http://localhost:9000/keys", "http://[::1]:9000/x", True),
        ("http://127.0.0.1:9000/keys", "https://login.example.com", False),
        ("http://keys.example.net/a", "http://127.0.0.1:9000", False),
        ("http://127.0.0.1.example.net/a", "http://127.0.0.1:9000", False),
        ("https://user@keys.example.net/a", "https://login.example.com", False),
        ("https://keys.example.net/a#b", "https://login.example.com", False),
        ("https://keys.example.net/a b", "https://login.example.com", False),
        ("https://", "https://login.example.com", False),
        ("ftp://keys.example.net/", "https://login.example.com", False),
    ],
)
def test_keys_come_over_https_or_from_this_machine(address: str, issuer: str, is_fine: bool) -> None:
    assert is_allowed(address, issuer) is is_fine


@pytest.mark.parametrize(
    ("said", "age_s"),
    [
        ("", 3600),
        ("max-age=301", 301),
        ("MAX-AGE = 400", 400),
        ("public,max-age=500,must-revalidate", 500),
        ('max-age="600"', 600),
        ("max-age=299", 300),
        ("max-age=86401", 86_400),
        ("s-maxage=900", 3600),
        ("x-max-age=900", 3600),
        ("max-age=soon", 3600),
        ("No-Store", 300),
        ("no-cache", 300),
    ],
)
def test_an_answer_may_say_how_long_it_counts(said: str, age_s: float) -> None:
    assert read_age_s({"cache-control": said}) == age_s
    assert read_age_s({}) == 3600


RSA = publish(make_key())["keys"][0]
EC = publish(make_key("EC", "P-256"))["keys"][0]
ED = publish(make_key("OKP", "Ed25519"))["keys"][0]
ALGORITHMS = frozenset(SIGNING_ALGORITHMS)
ALL_RSA = {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}


def read(document: Any) -> set[str]:
    """What a key fits; nothing where it is left out."""
    key = PublicKey.parse(document)
    return set() if key is None else set(key.algorithms)


def test_the_type_of_a_key_decides_what_it_fits() -> None:
    assert read(RSA) == ALL_RSA
    assert read(EC) == {"ES256"}
    assert read(publish(make_key("EC", "P-384"))["keys"][0]) == {"ES384"}
    assert read(publish(make_key("EC", "P-521"))["keys"][0]) == {"ES512"}
    assert read(ED) == {"EdDSA", "Ed25519"}
    assert set(SCHEMES) == ALGORITHMS


@pytest.mark.parametrize(
    ("document", "fits"),
    [
        ({**RSA, "alg": "PS384"}, {"PS384"}),
        ({**ED, "alg": "EdDSA"}, {"EdDSA", "Ed25519"}),
        ({**ED, "alg": "Ed25519"}, {"EdDSA", "Ed25519"}),
        ({**EC, "alg": "ES256"}, {"ES256"}),
        ({**RSA, "use": "sig", "key_ops": ["verify"]}, ALL_RSA),
        ({**RSA, "x5u": "nonsense", "x5c": 5, "unknown": {}}, ALL_RSA),
    ],
)
def test_an_issuer_may_say_what_a_key_is_for(document: dict[str, Any], fits: set[str]) -> None:
    assert read(document) == fits


@pytest.mark.parametrize(
    "document",
    [
        None,
        "key",
        [],
        {},
        {"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3I"},
        {"kty": "oct"},
        make_key().as_dict(private=True),
        make_key("EC", "P-256").as_dict(private=True),
        *({**RSA, name: "AQAB"} for name in ("d", "p", "q", "dp", "dq", "qi", "oth", "k")),
        {**RSA, "alg": "RS257"},
        {**RSA, "alg": "ES256"},
        {**RSA, "alg": "HS256"},
        {**RSA, "alg": ["RS256"]},
        {**RSA, "alg": ""},
        {**RSA, "use": "enc"},
        {**RSA, "use": None},
        {**RSA, "key_ops": ["encrypt"]},
        {**RSA, "key_ops": "verify"},
        {**RSA, "key_ops": None},
        {**RSA, "kid": 5},
        {**RSA, "kty": "rsa"},
        {**RSA, "kty": ["RSA"]},
        {**RSA, "crv": "P-256"},
        {**RSA, "n": "AQAB"},
        {**RSA, "n": RSA["n"] + "="},
        {**RSA, "n": 5},
        {**RSA, "e": ""},
        {**RSA, "e": "AQ"},
        {**RSA, "e": "Ag"},
        {**RSA, "e": None},
        {"kty": "RSA", "kid": "one"},
        {**EC, "x": EC["y"]},
        {**EC, "y": None},
        {**EC, "crv": "P-384"},
        {**EC, "crv": "secp256k1"},
        {**EC, "crv": ["P-256"]},
        {**ED, "x": "AA"},
        {**ED, "crv": "X25519"},
        {**ED, "crv": "Ed448"},
    ],
)
def test_anything_that_no_token_may_be_checked_with_is_left_out(document: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert PublicKey.parse(document) is None


@pytest.mark.parametrize(("bits", "is_taken"), [(2047, False), (2048, True), (8192, True), (8193, False)])
def test_the_size_of_a_modulus_has_limits(bits: int, is_taken: bool) -> None:
    modulus = ((1 << bits) - 1).to_bytes((bits + 7) // 8)
    assert (PublicKey.parse({**RSA, "n": encode(modulus)}) is not None) == is_taken


@pytest.mark.parametrize("algorithm", SCHEMES)
def test_a_signature_is_of_one_key_one_text_and_one_algorithm(algorithm: str) -> None:
    private = make_key(*SCHEMES[algorithm])
    text = sign(private, algorithm, {"alg": algorithm}, {"a": 1})
    head, payload, signature = text.split(".")
    key = PublicKey.parse(publish(private)["keys"][0])
    other = PublicKey.parse(publish(make_key(*SCHEMES[algorithm], kid="two"))["keys"][0])
    assert key is not None
    assert other is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert key.has_signed(parse_token(text, ALGORITHMS).signed)
        for changed in (
            f"{head}.{encode({'a': 2})}.{signature}",
            f"{head}.{payload}.{encode(bytes(64))}",
            f"{head}.{payload}.",
        ):
            assert not key.has_signed(parse_token(changed, ALGORITHMS).signed)
        assert not other.has_signed(parse_token(text, ALGORITHMS).signed)
    assert "_engine_key" not in repr(key)


def test_a_set_has_the_keys_that_can_be_used() -> None:
    keys = KeySet.parse(json.dumps({"keys": [{"kty": "oct"}, RSA, None, {**EC, "kid": "two"}]}).encode())
    assert [key.kid for key in keys.keys] == ["one", "two"]
    assert keys.has("two")
    assert not keys.has("three")
    assert [key.kid for key in keys.find("one", "RS256")] == ["one"]
    assert [key.kid for key in keys.find(None, "ES256")] == ["two"]
    assert keys.find("one", "ES256") == []
    assert keys.find("three", "RS256") == []


def test_a_set_is_the_same_where_its_text_says_the_same() -> None:
    one = KeySet.parse(json.dumps({"keys": [RSA]}).encode())
    same = KeySet.parse(json.dumps({"x": 1, "keys": [dict(reversed(RSA.items()))]}, indent=1).encode())
    other = KeySet.parse(json.dumps({"keys": [RSA, EC]}).encode())
    assert one.digest == same.digest
    assert one.digest != other.digest


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "truncated"),
        (b"<html>", "malformed|invalid"),
        (b"[]", "^not a JWK Set$"),
        (b"{}", "^not a JWK Set$"),
        (b'{"keys":{}}', "^not a JWK Set$"),
        (b'{"keys":[]}', "^no key that can be used to check tokens$"),
        (b'{"keys":[{"kty":"oct"}]}', "^no key that can be used to check tokens$"),
        (b'{"keys":[],"keys":[]}', "twice"),
    ],
)
def test_anything_that_is_not_a_set_of_keys_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        KeySet.parse(data)


def test_only_so_many_keys_of_a_set_are_read() -> None:
    many = [{**EC, "kid": str(number)} for number in range(MAX_KEYS + 1)]
    assert len(KeySet(many).keys) == MAX_KEYS == 100
