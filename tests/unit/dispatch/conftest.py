"""A runner and a lane for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from toolcrib.dispatch.concurrency import Lane
from toolcrib.dispatch.runners import Runner


@pytest.fixture
def runner() -> Iterator[Runner]:
    made = Runner()
    yield made
    made.close()


@pytest.fixture
def lane() -> Lane:
    return Lane("probe")
