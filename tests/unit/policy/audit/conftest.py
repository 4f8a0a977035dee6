"""Logs that are closed again, whatever a test does with them, and a clock that shows another time."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator

import pytest

from toolcrib.policy.audit import AuditLog


@pytest.fixture
async def logs() -> AsyncIterator[list[AuditLog]]:
    opened: list[AuditLog] = []
    yield opened
    for log in opened:
        await log.close()


@pytest.fixture
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nine hours ahead of UTC."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "JST-9")
        time.tzset()
        yield
    time.tzset()
