"""Logs that are closed again, whatever a test does with them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from toolcrib.policies.audit import AuditLog


@pytest.fixture
async def logs() -> AsyncIterator[list[AuditLog]]:
    opened: list[AuditLog] = []
    yield opened
    for log in opened:
        await log.close()
