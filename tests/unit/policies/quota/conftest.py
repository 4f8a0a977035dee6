"""Quotas on both stores: whatever holds for one holds for the other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.policies.quota.support import Clocks, quota_of
from toolcrib.policies.quota import Quota

Make = Callable[..., Quota]


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "limits.db" if request.param == "sqlite" else None


@pytest.fixture
async def make(clocks: Clocks, store: Path | None) -> AsyncIterator[Make]:
    """Makes a quota of limits, on one of the stores."""
    made: list[Quota] = []

    def build(*limits: Any, **demands: Any) -> Quota:
        made.append(quota_of(clocks, *limits, store=store, **demands))
        return made[-1]

    yield build
    for quota in made:
        await quota.close()
