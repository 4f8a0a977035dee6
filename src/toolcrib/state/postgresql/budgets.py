"""Copies of daily budgets, for a Redis that loses its data.

Redis counts; every replica copies what it learns every two seconds. A budget that is spent is not given to
callers again because a server was replaced: rates and slots are over in minutes anyway.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from toolcrib.state.base import StateUnavailable
from toolcrib.state.postgresql.database import Database, Transaction

logger = logging.getLogger("toolcrib")

RETRY_S = 1.0
_KEPT_DAYS = 2
_COPY = """INSERT INTO @budget
    SELECT * FROM unnest(%(days)s::bigint[], %(keys)s::text[], %(used)s::bigint[]) AS new (day, key, used)
    ORDER BY day, key ON CONFLICT (day, key) DO UPDATE SET used = greatest(budget.used, excluded.used)"""


class SharedBudgets(Protocol):
    """Counters that can lose their budgets: `RedisCounters`."""

    spent: dict[tuple[int, str], int] | None

    async def restore(self, budgets: Sequence[tuple[int, str, int]]) -> None: ...


class BudgetCopies:
    """Copies budgets to PostgreSQL. `restore` is for `RedisCounters.on_empty`."""

    def __init__(self, database: Database, counters: SharedBudgets) -> None:
        self._database = database
        self._counters = counters
        self._restoring: asyncio.Task[None] | None = None
        counters.spent = {}
        database.beats.append(self._copy)

    def _copy(self, db: Transaction) -> None:
        spent, self._counters.spent = self._counters.spent, {}
        if not spent:
            return
        days, keys = [day for day, _ in spent], [key for _, key in spent]
        try:
            db.run(_COPY, days=days, keys=keys, used=list(spent.values()))
            db.run("DELETE FROM @budget WHERE day <= %(over)s", over=max(days) - _KEPT_DAYS)
        except BaseException:
            self._counters.spent = {**spent, **self._counters.spent}
            raise

    def restore(self) -> None:
        """Give Redis the budgets of the copies, in the background of the running event loop."""
        self._restoring = asyncio.get_running_loop().create_task(self._restore())

    async def _restore(self) -> None:
        while True:
            try:
                rows = await self._database.run(lambda db: db.rows("SELECT day, key, used FROM @budget"))
                if rows:
                    await self._counters.restore([(day, key, used) for day, key, used in rows])
                    logger.warning("Redis has lost its data: %d budgets were restored", len(rows))
                return
            except StateUnavailable:
                await asyncio.sleep(RETRY_S)
