"""An audit log of calls, recorded as a server does."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.system.manual_clock import Clock
from toolcrib.policy import Audit
from toolcrib.policy.audit import AuditLog

START_S = 1_800_000_000.0  # 2027-01-15T08:00:00Z
CALLS: list[dict[str, Any]] = [
    {"principal": "local", "tool": "add", "outcome": "ok", "duration_ms": 1.25},
    {"principal": "key:ana", "tool": "refund", "outcome": "denied", "code": "denied", "decision": "denied",
     "rule": "rules[1]"},
    {"principal": "key:ana", "tool": "refund", "version": "2", "outcome": "cancelled", "duration_ms": 20},
    {"principal": "oauth:bo", "tool": "report", "outcome": "disconnected", "duration_ms": 3000.04},
    {"principal": "key:ana", "tool": "refund", "outcome": "error", "code": "tool-error",
     "values": {"amount": 5}},
]  # fmt: skip


def record(path: str, calls: list[dict[str, Any]], **options: Any) -> None:
    """Record calls as a server does, one per second."""
    wall = Clock(START_S)

    async def run() -> None:
        log = AuditLog(Audit(path, **options), server="shop", wall=wall)
        await log.open()
        for number, call in enumerate(calls):
            wall.at_s = START_S + number
            usual = {"id": f"c{number}", "decision": "allowed", "rule": None, "code": None}
            assert await log.commit({**usual, **call})
        await log.close()

    asyncio.run(run())
