"""Where the keys of an issuer are: by way of its metadata, and nowhere that it must not be."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.token_issuer import Clock, KeyHouse, Page, make_key, publish
from toolcrib.policy.auth.jwks import IssuerKeys, is_allowed, metadata_addresses, read_age_s
from toolcrib.policy.auth.tokens import KeysUnavailableError


@pytest.fixture
def now() -> Clock:
    return Clock()


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
async def test_keys_are_found_by_way_of_metadata(house: KeyHouse, now: Clock, place: int) -> None:
    issuer = f"{house.origin}/realms/one"
    paths = [address.removeprefix(house.origin) for address in metadata_addresses(issuer)]
    house.describe(paths[place], issuer=issuer)
    keys = IssuerKeys(issuer, now=now)
    assert (await keys.fetch()).has("one")
    assert house.visits == [*paths[: place + 1], "/keys"]
    now.at = 10.0
    await keys.fetch()
    assert house.visits == [*paths[: place + 1], "/keys", "/keys"]


async def test_metadata_of_another_issuer_is_not_believed(
    house: KeyHouse, now: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    house.describe(issuer=f"{house.origin}/")
    house.pages["/.well-known/openid-configuration"] = Page(b"[]")
    with pytest.raises(KeysUnavailableError):
        await IssuerKeys(house.origin, now=now).fetch()
    places = list(metadata_addresses(house.origin))
    told = f"no metadata: {places[0]} is not about this issuer; {places[1]} is not about this issuer"
    assert caplog.records[0].message == f"cannot fetch the keys of {house.origin}: {told}"
    assert "/keys" not in house.visits


async def test_metadata_that_cannot_be_read_is_passed_over(
    house: KeyHouse, now: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    house.pages["/.well-known/oauth-authorization-server"] = Page(b"<html>")
    with pytest.raises(KeysUnavailableError):
        await IssuerKeys(house.origin, now=now).fetch()
    places = list(metadata_addresses(house.origin))
    told = f"no metadata: {places[0]} is not JSON; {places[1]} returned 404"
    assert caplog.records[0].message == f"cannot fetch the keys of {house.origin}: {told}"


@pytest.mark.parametrize("uri", [None, 5, "", "/keys", "http://login.example.com/keys", "file:///etc/passwd"])
async def test_metadata_without_a_place_for_keys_is_of_no_use(
    house: KeyHouse, now: Clock, uri: Any, caplog: pytest.LogCaptureFixture
) -> None:
    house.describe(jwks_uri=uri)
    house.describe("/.well-known/openid-configuration")
    with pytest.raises(KeysUnavailableError):
        await IssuerKeys(house.origin, now=now).fetch()
    assert "has no https address for `jwks_uri`" in caplog.text
    assert house.visits == ["/.well-known/oauth-authorization-server"]


async def test_keys_that_have_moved_are_found_again(house: KeyHouse, now: Clock) -> None:
    house.describe()
    keys = IssuerKeys(house.origin, now=now)
    await keys.fetch()
    house.pages["/new"] = Page(publish(make_key(kid="two")))
    del house.pages["/keys"]
    house.describe(jwks_uri=f"{house.origin}/new")
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
