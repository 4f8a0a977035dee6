"""Whose a token is: what is accepted, what is remembered, and for how long."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from typing import Any

import pytest

from tests.support.servers.token_issuer import (
    SCHEMES,
    Clock,
    KeyServer,
    Mint,
    make_issuer,
    make_key,
    publish,
    refuse,
    see,
    sign,
)
from toolcrib.context import Principal
from toolcrib.errors import ConfigurationError
from toolcrib.policy import OAuth
from toolcrib.policy.auth import tokens as module
from toolcrib.policy.auth.jwks import InvalidTokenError, KeysUnavailableError
from toolcrib.policy.auth.tokens import Issuer

# --- who ---


def test_a_token_says_who_calls_and_what_they_may_ask_for(issuer: Issuer, mint: Mint) -> None:
    assert issuer.verify(mint()) == Principal(
        "oauth:ana",
        frozenset({"read", "write"}),
        frozenset(),
        f"{mint.issuer}\nana\ndesk",
    )


async def test_the_label_and_the_roles_are_as_configured(
    key_server: KeyServer, mint: Mint, wall: Clock
) -> None:
    issuer = make_issuer(key_server, label="staff", role_claim="realm_access.roles", wall=wall)
    await issuer.prefetch_keys()
    found = issuer.verify(mint(realm_access={"roles": ["support", "boss"]}))
    assert isinstance(found, Principal)
    assert (found.name, found.roles) == ("staff:ana", {"support", "boss"})


@pytest.mark.parametrize(
    ("claims", "client"),
    [
        ({"client_id": "desk", "azp": "other"}, "desk"),
        ({"client_id": ..., "azp": "other"}, "other"),
        ({"client_id": ..., "azp": ...}, ""),
    ],
)
def test_anything_that_is_bound_to_a_caller_is_bound_to_the_client_too(
    issuer: Issuer, mint: Mint, claims: dict[str, Any], client: str
) -> None:
    found = issuer.verify(mint(**claims))
    assert isinstance(found, Principal)
    assert found.binding == f"{mint.issuer}\nana\n{client}"


def test_a_token_without_a_subject_is_nobodys(issuer: Issuer, mint: Mint) -> None:
    assert refuse(issuer, mint(sub=...)) == "the token has no subject"


@pytest.mark.parametrize("name", ["sub", "client_id", "azp"])
def test_a_name_with_a_line_break_in_it_is_refused(issuer: Issuer, mint: Mint, name: str) -> None:
    claims = {"client_id": ..., name: "ana\nroot"}
    assert refuse(issuer, mint(**claims)) == f"the token's '{name}' is not a name"


# --- signatures ---


@pytest.mark.parametrize("algorithm", SCHEMES)
async def test_every_algorithm_is_checked_with_a_key_of_its_kind(
    key_server: KeyServer, wall: Clock, algorithm: str
) -> None:
    key = make_key(*SCHEMES[algorithm])
    key_server.publish(key)
    issuer = make_issuer(key_server, wall=wall)
    await issuer.prefetch_keys()
    mint = Mint(key_server.origin, key, algorithm, wall)
    token = mint()
    assert isinstance(issuer.verify(token), Principal)
    assert refuse(issuer, token[:-8] + "AAAAAAAA") == module._NOT_SIGNED


@pytest.mark.parametrize("algorithm", SCHEMES)
async def test_an_algorithm_that_is_not_configured_is_refused(
    key_server: KeyServer, wall: Clock, algorithm: str
) -> None:
    key = make_key(*SCHEMES[algorithm])
    key_server.publish(key)
    others = [name for name in SCHEMES if name != algorithm]
    issuer = make_issuer(key_server, wall=wall, algorithms=others)
    await issuer.prefetch_keys()
    words = "the token's signature algorithm is not accepted"
    assert refuse(issuer, Mint(key_server.origin, key, algorithm, wall)()) == words


def test_a_key_of_another_type_cannot_be_made_to_fit(issuer: Issuer, mint: Mint) -> None:
    other = Mint(mint.issuer, make_key("EC", "P-256"), "ES256", mint.wall)
    assert refuse(issuer, other()) == module._NOT_SIGNED


async def test_a_key_made_for_one_algorithm_is_not_used_for_another(
    key_server: KeyServer, mint: Mint
) -> None:
    key_server.pages["/keys"].body = publish(make_key(), alg="PS256")
    issuer = make_issuer(key_server, wall=mint.wall)
    await issuer.prefetch_keys()
    assert refuse(issuer, mint()) == module._NOT_SIGNED
    mint.algorithm = "PS256"
    assert isinstance(issuer.verify(mint()), Principal)


def test_a_token_that_names_no_key_is_checked_with_the_only_one(issuer: Issuer, mint: Mint) -> None:
    assert isinstance(issuer.verify(mint({"kid": ...})), Principal)


async def test_a_token_that_names_no_key_is_refused_where_two_fit(key_server: KeyServer, mint: Mint) -> None:
    key_server.publish(make_key(), make_key(kid="two"), make_key("EC", "P-256", "three"))
    issuer = make_issuer(key_server, wall=mint.wall)
    await issuer.prefetch_keys()
    assert refuse(issuer, mint({"kid": ...})) == (
        "the token names no key, and several keys could have signed it"
    )
    elliptic = Mint(mint.issuer, make_key("EC", "P-256", "three"), "ES256", mint.wall)
    assert isinstance(issuer.verify(elliptic({"kid": ...})), Principal)


async def test_two_keys_of_one_name_are_both_tried(key_server: KeyServer, mint: Mint) -> None:
    twin = make_key("RSA", 2056)
    key_server.publish(twin, make_key())
    issuer = make_issuer(key_server, wall=mint.wall)
    await issuer.prefetch_keys()
    assert isinstance(issuer.verify(mint()), Principal)
    mint.key = twin
    assert isinstance(issuer.verify(mint()), Principal)


# --- fetching ---


async def test_the_first_token_waits_for_the_keys_and_the_next_does_not(
    key_server: KeyServer, mint: Mint
) -> None:
    issuer = make_issuer(key_server, wall=mint.wall)
    first = issuer.verify(mint())
    assert inspect.isawaitable(first)
    assert (await first).name == "oauth:ana"
    assert isinstance(issuer.verify(mint(sub="ben")), Principal)
    assert key_server.visits == ["/keys"]


async def test_a_token_that_names_no_key_may_be_signed_with_a_newer_one(
    key_server: KeyServer, issuer: Issuer, mint: Mint, now: Clock
) -> None:
    now.at = 20.0
    mint.key = make_key(kid="two")
    key_server.publish(mint.key)
    assert (await see(issuer.verify(mint({"kid": ...})))).name == "oauth:ana"


async def test_a_bad_signature_of_a_known_key_costs_no_fetch(
    key_server: KeyServer, issuer: Issuer, mint: Mint, now: Clock
) -> None:
    now.at = 20.0
    forged = Mint(mint.issuer, make_key("RSA", 2056), wall=mint.wall)
    assert refuse(issuer, forged()) == module._NOT_SIGNED
    assert len(key_server.visits) == 1


async def test_tokens_of_others_cost_no_fetch(key_server: KeyServer, mint: Mint) -> None:
    issuer = make_issuer(key_server, wall=mint.wall)
    for claims in ({"iss": "https://other.example"}, {"aud": "https://other.example"}, {"exp": 1}):
        refuse(issuer, mint(**claims))
    assert key_server.visits == []


async def test_without_keys_nothing_is_said_against_a_token(key_server: KeyServer, mint: Mint) -> None:
    key_server.pages.clear()
    issuer = make_issuer(key_server, wall=mint.wall)
    await issuer.prefetch_keys()
    with pytest.raises(KeysUnavailableError) as caught:
        await see(issuer.verify(mint()))
    assert str(caught.value) == "the keys of the authorization server are not available"
    assert 9 < caught.value.retry_after_s <= 10


# --- odd input, odd settings ---


@pytest.mark.parametrize("token", ["", "a", "ä.ö.ü", "\ud800", "a.b.c.d.e", "é" * 100, "...", "\x00"])
def test_anything_that_is_not_a_token_is_refused(issuer: Issuer, token: str) -> None:
    with pytest.raises(InvalidTokenError):
        issuer.verify(token)


def test_a_token_is_long_at_most(issuer: Issuer, mint: Mint) -> None:
    assert refuse(issuer, "a" * 16_385) == "the token has more than 16384 bytes"
    assert refuse(issuer, "a" * 16_384) == "the token is not a signed JWT in compact form"
    frame = len(mint(filler=""))
    largest = mint(filler="x" * ((16_384 - frame) * 3 // 4 - 3))
    assert 16_370 < len(largest) <= 16_384
    assert isinstance(issuer.verify(largest), Principal)


@pytest.mark.parametrize(
    ("algorithms", "words"),
    [
        (["RS256", "ES256K"], "algorithms: unknown algorithm 'ES256K'"),
        (["HS256"], "algorithms: HS256 does not prove who signed a token"),
        (["none"], "algorithms: none does not prove who signed a token"),
        ([], "algorithms: must name at least one algorithm"),
    ],
)
def test_an_algorithm_that_is_of_no_use_is_an_error_at_start(algorithms: list[str], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        OAuth(issuer="https://login.example.com", algorithms=algorithms)
    assert str(caught.value) == words


def test_without_its_engine_the_error_says_what_to_install(
    key_server: KeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "joserfc", None)
    with pytest.raises(ConfigurationError) as caught:
        make_issuer(key_server)
    assert str(caught.value) == "auth.oauth: checking tokens requires joserfc, which is not installed"
    assert caught.value.hint == "pip install 'toolcrib[auth]'"


def test_anything_that_is_slow_to_load_is_loaded_before_the_first_token() -> None:
    script = (
        "import sys; from toolcrib.policy.auth.tokens import Issuer; from toolcrib.policy import OAuth;"
        "before = {'joserfc', 'httpx2'} & set(sys.modules); "
        "Issuer(OAuth(issuer='https://login.example.com'), resource='https://tools.example.com/mcp'); "
        "print(before, sorted({'joserfc', 'httpx2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set() ['httpx2', 'joserfc']"


def test_the_clocks_are_the_machines_where_none_are_given(key_server: KeyServer) -> None:
    token = Mint(key_server.origin)()
    issuer = make_issuer(key_server)
    assert asyncio.run(_see_twice(issuer, token)) == "oauth:ana"


async def _see_twice(issuer: Issuer, token: str) -> str:
    await see(issuer.verify(token))
    found = issuer.verify(token)
    assert isinstance(found, Principal)
    return found.name


def test_a_header_with_a_member_twice_is_refused(issuer: Issuer, mint: Mint) -> None:
    header = b'{"alg":"RS256","kid":"one","alg":"RS256"}'
    token = sign(mint.key, "RS256", header, mint.claims())
    assert refuse(issuer, token) == "the token's header is not JSON, or has a duplicate member"
