"""A place that publishes keys, a mint, and an issuer by our own clocks, for the tests of tokens."""

from __future__ import annotations

import pytest

from tests.support.servers.token_issuer import Clock, KeyServer, Mint, key_server, make_issuer
from toolcrib.policy.auth.tokens import Issuer

__all__ = ["key_server"]


@pytest.fixture
def now() -> Clock:
    return Clock(0.0)


@pytest.fixture
def wall() -> Clock:
    return Clock(1_800_000_000.0)


@pytest.fixture
def mint(key_server: KeyServer, wall: Clock) -> Mint:
    return Mint(key_server.origin, wall=wall)


@pytest.fixture
async def issuer(key_server: KeyServer, now: Clock, wall: Clock) -> Issuer:
    """One that has the keys already."""
    made = make_issuer(key_server, now=now, wall=wall)
    await made.prefetch_keys()
    return made
