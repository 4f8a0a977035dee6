"""A runner and a slots for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from toolcrib.dispatch.runners import Runner, ToolSlots


@pytest.fixture
def runner() -> Iterator[Runner]:
    made = Runner()
    yield made
    made.close()


@pytest.fixture
def slots() -> ToolSlots:
    return ToolSlots("probe")
