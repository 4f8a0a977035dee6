"""Quotas on both stores: what holds for one must hold for the other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.policy.quota.machines import Clocks, quota_of
from toolcrib.policy import Limit
from toolcrib.policy.quota import Quota
from toolcrib.policy.quota import sqlite_store as sqlite

Make = Callable[..., Quota]


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "limits.db" if request.param == "sqlite" else None


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that count exactly: a machine that is busy with other things is no outage."""
    monkeypatch.setattr(sqlite, "WAIT_S", 20.0)
    monkeypatch.setattr(sqlite, "LOCK_S", 20.0)


@pytest.fixture
async def make(clocks: Clocks, store: Path | None, patient: None) -> AsyncIterator[Make]:
    """Makes a quota of limits, on one of the stores."""
    made: list[Quota] = []

    def build(*limits: Any, **demands: Any) -> Quota:
        made.append(quota_of(clocks, *limits, store=store, **demands))
        return made[-1]

    yield build
    for quota in made:
        await quota.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "limits.db"


@pytest.fixture
async def on_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Make]:
    """Makes a quota of limits that is counted in a file, which is tried again quickly when it fails."""
    monkeypatch.setattr(sqlite, "RETRY_S", 0.03)
    made: list[Quota] = []

    def build(*limits: Limit, clocks: Clocks | None = None) -> Quota:
        made.append(quota_of(clocks or Clocks(), *limits, store=path))
        return made[-1]

    yield build
    for quota in made:
        await quota.close()
