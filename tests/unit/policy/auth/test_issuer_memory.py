"""The tokens that an issuer remembers: that they were good, for as long as they are."""

from __future__ import annotations

import pytest

from tests.support.servers.token_issuer import Clock, KeyServer, Mint, make_key, refuse, refused, see
from toolcrib.context import Principal
from toolcrib.policy.auth import tokens as module
from toolcrib.policy.auth.tokens import Issuer


async def test_a_token_is_checked_once(
    key_server: KeyServer, issuer: Issuer, mint: Mint, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = mint()
    first = issuer.verify(token)
    monkeypatch.setattr(issuer, "_check_claims", None)
    assert issuer.verify(token) is first


def test_a_token_ends_when_it_says_whatever_is_remembered(issuer: Issuer, mint: Mint, wall: Clock) -> None:
    token = mint(nbf=wall.at)
    begin = wall.at
    assert isinstance(issuer.verify(token), Principal)
    wall.at = begin + 329.9
    assert isinstance(issuer.verify(token), Principal)
    wall.at = begin + 330
    assert refuse(issuer, token) == "the token has expired"
    wall.at = begin - 30
    assert isinstance(issuer.verify(token), Principal)
    wall.at = begin - 30.1
    assert refuse(issuer, token) == "the token is not valid yet"


async def test_anything_that_was_proven_with_a_withdrawn_key_is_forgotten(
    key_server: KeyServer, issuer: Issuer, mint: Mint, now: Clock
) -> None:
    token = mint()
    assert isinstance(issuer.verify(token), Principal)
    now.at = 20.0
    fresh = Mint(mint.issuer, make_key(kid="two"), wall=mint.wall)
    key_server.publish(fresh.key)
    await see(issuer.verify(fresh()))
    with refused(module._NOT_SIGNED):
        await see(issuer.verify(token))


async def test_anything_that_was_proven_stays_so_when_the_same_keys_come_again(
    key_server: KeyServer, issuer: Issuer, mint: Mint, now: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = mint()
    first = issuer.verify(token)
    now.at = 20.0
    await issuer.prefetch_keys()
    assert len(key_server.visits) == 2
    monkeypatch.setattr(issuer, "_check_claims", None)
    assert issuer.verify(token) is first


def test_only_so_many_tokens_are_remembered_and_the_least_used_go_first(
    issuer: Issuer, mint: Mint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_REMEMBERED", 2)
    tokens = [mint(sub=name) for name in ("ana", "ben", "cem")]
    first, second = issuer.verify(tokens[0]), issuer.verify(tokens[1])
    assert issuer.verify(tokens[0]) is first
    issuer.verify(tokens[2])
    assert len(issuer._verified) == 2
    assert issuer.verify(tokens[0]) is first
    assert issuer.verify(tokens[1]) == second
    assert issuer.verify(tokens[1]) is not second


def test_no_token_is_kept(issuer: Issuer, mint: Mint) -> None:
    token = mint()
    issuer.verify(token)
    assert token not in repr(vars(issuer))
    assert token.encode() not in issuer._verified
