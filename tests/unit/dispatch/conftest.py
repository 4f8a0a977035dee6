"""A runner and a slots for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from toolcrib.dispatch.concurrency import ToolSlots
from toolcrib.dispatch.runners import Runner


@pytest.fixture
def runner() -> Iterator[Runner]:
    made = Runner()
    yield made
    made.close()


@pytest.fixture
def slots() -> ToolSlots:
    return ToolSlots("probe")
