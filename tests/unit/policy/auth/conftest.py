"""A place that publishes keys, a mint, and an issuer by our own clocks, for the tests of tokens."""

from __future__ import annotations

import pytest

from tests.support.token_issuer import Clock, KeyHouse, Mint, house, make_issuer
from toolcrib.policy.auth.tokens import Issuer

__all__ = ["house"]


@pytest.fixture
def now() -> Clock:
    return Clock(0.0)


@pytest.fixture
def wall() -> Clock:
    return Clock(1_800_000_000.0)


@pytest.fixture
def mint(house: KeyHouse, wall: Clock) -> Mint:
    return Mint(house.origin, wall=wall)


@pytest.fixture
async def issuer(house: KeyHouse, now: Clock, wall: Clock) -> Issuer:
    """One that has the keys already."""
    made = make_issuer(house, now=now, wall=wall)
    await made.prefetch_keys()
    return made
