"""The authenticator and tokens: who is asked about which, beside keys and without."""

from __future__ import annotations

import asyncio
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.records.key_files import Keys
from tests.support.servers.token_issuer import RESOURCE, KeyServer, Mint, make_key
from tests.support.system.manual_clock import Clock
from toolcrib.context import Principal
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Auth, OAuth
from toolcrib.policy.auth import ANONYMOUS, Authenticator, Rejection

NOW_S = 1_800_000_000.0
METADATA = 'resource_metadata="https://tools.example.com/.well-known/oauth-protected-resource/mcp"'
WRONG = "Invalid or expired credentials"


@pytest.fixture
def now() -> Clock:
    return Clock(0.0)


@pytest.fixture
def wall() -> Clock:
    return Clock(NOW_S)


@pytest.fixture
def mint(key_server: KeyServer, wall: Clock) -> Mint:
    return Mint(key_server.origin, wall=wall)


@pytest.fixture
def other_mint(key_server: KeyServer, wall: Clock) -> Mint:
    """Another issuer, whose keys are published beside the first one's."""
    return Mint(f"{key_server.origin}/other", key=make_key(kid="two"), wall=wall)


def issuer(key_server: KeyServer, path: str = "", **options: Any) -> OAuth:
    return OAuth(issuer=f"{key_server.origin}{path}", jwks_uri=key_server.jwks_uri, **options)


def make(now: Clock, wall: Clock, *issuers: OAuth, **options: Any) -> Authenticator:
    return Authenticator(Auth(oauth=issuers, **options), resource=RESOURCE, name="shop", now=now, wall=wall)


async def show(authenticator: Authenticator, token: str, address: str | None = None) -> Principal | Rejection:
    found = authenticator.authenticate({b"authorization": b"Bearer " + token.encode()}, address)
    return await found if inspect.isawaitable(found) else found


def distrusted(words: str, scopes: str = "") -> Rejection:
    asked = f'scope="{scopes}", ' if scopes else ""
    text = f'Bearer error="invalid_token", {asked}{METADATA}, error_description="{words}"'
    return Rejection(401, words, ((b"www-authenticate", text.encode()),))


async def test_a_token_says_who_calls(key_server: KeyServer, mint: Mint, now: Clock, wall: Clock) -> None:
    authenticator = make(now, wall, issuer(key_server))
    token = mint()
    first = await show(authenticator, token)
    assert isinstance(first, Principal)
    assert first.name == "oauth:ana"
    assert (
        authenticator.authenticate({b"authorization": b"bearer " + token.encode()}, None) is first
    )  # nothing to wait for


async def test_a_token_that_is_not_good_is_told_why(
    key_server: KeyServer, mint: Mint, now: Clock, wall: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    authenticator = make(now, wall, issuer(key_server, scopes=["read", "write"]))
    words = "the token is for another server"
    assert await show(authenticator, mint(aud="https://else.example.com"), "192.0.2.7") == distrusted(
        words, "read write"
    )
    assert caplog.messages == [f"rejected credentials from 192.0.2.7: {words}"]


async def test_a_token_that_turns_out_not_to_be_good_is_told_why(
    key_server: KeyServer, mint: Mint, now: Clock, wall: Clock
) -> None:
    authenticator = make(now, wall, issuer(key_server), max_failures="1/min")
    mint.key = make_key(kid="unpublished")
    words = "the token is not signed with a key of its issuer"
    assert await show(authenticator, mint()) == distrusted(words)
    again = await show(authenticator, mint(jti="x"))
    assert isinstance(again, Rejection)
    assert (again.status, again.retry_after_s) == (429, 60.0)


async def test_keys_that_cannot_be_had_are_not_a_fault_of_the_caller(
    key_server: KeyServer, mint: Mint, now: Clock, wall: Clock
) -> None:
    key_server.pages.clear()
    authenticator = make(now, wall, issuer(key_server), max_failures="1/min")
    for _ in range(3):
        answer = await show(authenticator, mint())
        assert isinstance(answer, Rejection)
        assert answer.status == 503
        assert answer.headers == ()
        assert answer.retry_after_s is not None
        assert answer.retry_after_s > 0


async def test_of_several_issuers_the_one_is_asked_that_the_token_names(
    key_server: KeyServer, mint: Mint, other_mint: Mint, now: Clock, wall: Clock
) -> None:
    key_server.publish(mint.key, other_mint.key)
    authenticator = make(now, wall, issuer(key_server), issuer(key_server, "/other", label="staff"))
    first, second = mint(), other_mint()
    for _ in range(2):
        assert [getattr(await show(authenticator, token), "name", None) for token in (first, second)] == [
            "oauth:ana",
            "staff:ana",
        ]
    words = "the token is not signed with a key of its issuer"
    key_server.publish(mint.key)
    forged = Mint(mint.issuer, key=make_key(kid="three"), wall=wall)
    assert await show(authenticator, forged()) == distrusted(words)


@pytest.mark.parametrize(
    "token",
    ["x", "a.b.c", "..", "e30.e30.e30", "e30.WzFd.e30", "e30.eyJpc3MiOjV9.e30", "e30.NQ.e30", "a.WwWwWwWw.c"],
)
async def test_of_several_issuers_none_is_asked_about_what_names_none(
    key_server: KeyServer, now: Clock, wall: Clock, token: str
) -> None:
    authenticator = make(now, wall, issuer(key_server), issuer(key_server, "/other", label="staff"))
    assert authenticator.authenticate({b"authorization": f"Bearer {token}".encode()}, None) == distrusted(
        WRONG
    )
    assert key_server.visits == []


async def test_keys_and_tokens_are_told_apart_by_how_keys_begin(
    key_server: KeyServer, mint: Mint, now: Clock, wall: Clock, tmp_path: Path
) -> None:
    secret, _ = Keys(tmp_path / "keys.json").create("ana")
    authenticator = make(now, wall, issuer(key_server), keys=tmp_path / "keys.json")
    assert getattr(await show(authenticator, secret), "name", None) == "key:ana"
    assert getattr(await show(authenticator, mint()), "name", None) == "oauth:ana"
    assert await show(authenticator, "tck_x") == distrusted(WRONG)
    as_key = authenticator.authenticate({b"x-api-key": mint().encode()}, None)
    assert as_key == distrusted(WRONG)


async def test_without_keys_a_key_is_not_good_and_its_header_is_somebody_elses(
    key_server: KeyServer,
    mint: Mint,
    now: Clock,
    wall: Clock,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    secret, _ = Keys(tmp_path / "keys.json").create("ana")
    authenticator = make(now, wall, issuer(key_server))
    assert await show(authenticator, secret) == distrusted(WRONG)
    assert caplog.messages == [
        "rejected credentials from an unknown address: a key, but no keys are configured"
    ]
    unshown = authenticator.authenticate({b"x-api-key": secret.encode()}, None)
    fields = ((b"www-authenticate", f"Bearer {METADATA}".encode()),)
    assert unshown == Rejection(401, "Credentials are required", fields)
    headers = {b"x-api-key": b"a gateway's", b"authorization": b"Bearer " + mint().encode()}
    found = authenticator.authenticate(headers, None)
    assert isinstance(await found if inspect.isawaitable(found) else found, Principal)


async def test_anyone_who_shows_nothing_is_told_which_scopes_to_ask_for(
    key_server: KeyServer, now: Clock, wall: Clock
) -> None:
    both = (
        issuer(key_server, scopes=["read"]),
        issuer(key_server, "/other", label="staff", scopes=["read", "pay"]),
    )
    authenticator = make(now, wall, *both)
    fields = ((b"www-authenticate", f'Bearer scope="read pay", {METADATA}'.encode()),)
    assert authenticator.authenticate({}, None) == Rejection(401, "Credentials are required", fields)
    assert make(now, wall, *both, optional=True).authenticate({}, None) is ANONYMOUS
    document = authenticator.metadata("/.well-known/oauth-protected-resource/mcp")
    assert json.loads(document or b"") == {
        "resource": RESOURCE,
        "authorization_servers": [key_server.origin, f"{key_server.origin}/other"],
        "scopes_supported": ["read", "pay"],
        "bearer_methods_supported": ["header"],
        "resource_name": "shop",
    }
    assert METADATA.encode() in authenticator.challenge(["pay"])[0][1]


# --- beginning and end ---


async def test_anything_that_issuers_publish_is_fetched_while_the_server_starts(
    key_server: KeyServer, mint: Mint, now: Clock, wall: Clock
) -> None:
    authenticator = make(now, wall, issuer(key_server))
    await authenticator.open()
    await asyncio.gather(*authenticator._running)
    assert key_server.visits == ["/keys"]
    assert isinstance(
        authenticator.authenticate({b"authorization": b"Bearer " + mint().encode()}, None), Principal
    )
    await authenticator.close()


async def test_an_issuer_that_does_not_answer_delays_neither_the_beginning_nor_the_end(
    key_server: KeyServer, now: Clock, wall: Clock
) -> None:
    key_server.pages["/keys"].holds = True
    authenticator = make(now, wall, issuer(key_server))
    async with asyncio.timeout(1):
        await authenticator.open()
        await asyncio.sleep(0)
        await authenticator.close()


# --- what makes no sense ---


def test_tokens_need_an_address_to_be_meant_for() -> None:
    auth = Auth(oauth=[OAuth(issuer="https://a.example")])
    with pytest.raises(ConfigurationError, match="required to check tokens") as caught:
        Authenticator(auth, resource=None)
    assert caught.value.key == "auth.oauth.resource"
    assert caught.value.hint == 'set the address of this server: resource="https://tools.example.com/mcp"'


def test_anything_that_is_written_goes_before_where_the_server_is_bound() -> None:
    said = "https://public.example.com/mcp"
    auth = Auth(oauth=[OAuth(issuer="https://a.example", resource=said)])
    authenticator = Authenticator(auth, resource="http://127.0.0.1:8000/mcp")
    document = authenticator.metadata("/.well-known/oauth-protected-resource/mcp")
    assert json.loads(document or b"")["resource"] == said


def test_one_server_has_one_address() -> None:
    first = OAuth(issuer="https://a.example", resource="https://one.example.com/mcp")
    second = OAuth(issuer="https://b.example", label="b")
    with pytest.raises(ConfigurationError, match="a server has one address") as caught:
        Authenticator(Auth(oauth=[first, second]), resource="https://two.example.com/mcp")
    assert caught.value.key == "auth.oauth.resource"
    assert caught.value.hint == "set the same resource for all of them"
    Authenticator(Auth(oauth=[first, second]), resource="https://one.example.com/mcp")


def test_an_issuer_is_named_once() -> None:
    twice = [OAuth(issuer="https://a.example"), OAuth(issuer="https://a.example", label="b")]
    with pytest.raises(ConfigurationError, match="two authorization servers have the same issuer") as caught:
        Authenticator(Auth(oauth=twice), resource=RESOURCE)
    assert caught.value.key == "auth.oauth.issuer"
