"""Membership: a row for each replica, renewed every two seconds, which says who serves and what it knows.

A replica that was not seen for ten seconds is not live. Rows of dead ones are kept for an hour, for people.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from toolcrib import __version__
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.state.postgresql.database import Database, Transaction

LIVE_MS = 10_000
FORGET_MS = 3_600_000
POLL_S = 0.05


class Replica(NamedTuple):
    """A replica as the others know it. `facts` are its own words; `age_ms` is the time since it was seen."""

    process: str
    facts: Mapping[str, Any]
    age_ms: int
    is_draining: bool

    @property
    def is_live(self) -> bool:
        return self.age_ms <= LIVE_MS


class Membership:
    """The row of this replica, and those of the others as of the last renewal."""

    def __init__(self, database: Database, facts: Callable[[], Mapping[str, Any]]) -> None:
        self.live: Sequence[str] = (database.process,)
        self.is_draining = False
        self.on_drain: list[Callable[[], None]] = []
        """Called once, on a thread, when somebody asks this replica to end."""
        self._database = database
        self._facts = facts
        self._own = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": __version__,
            "started_ms": int(time.time() * 1000),
        }
        database.beats.append(self._renew)
        database.goodbyes.append(self._leave)

    async def renew(self) -> None:
        """Report now, without waiting for the next renewal."""
        await self._database.run(self._renew)

    def _renew(self, db: Transaction) -> None:
        facts = codec.write({**self._own, **self._facts()}).decode()
        db.run(
            "INSERT INTO @replica VALUES (%(process)s, %(facts)s::jsonb, @now_ms(), false)"
            " ON CONFLICT (process) DO UPDATE SET facts = EXCLUDED.facts, seen_ms = EXCLUDED.seen_ms",
            process=self._database.process,
            facts=facts,
        )
        db.run("DELETE FROM @replica WHERE seen_ms < @now_ms() - %(age)s", age=FORGET_MS)
        replicas = read_replicas(db)
        self.live = [each.process for each in replicas if each.is_live]
        own = next(each for each in replicas if each.process == self._database.process)
        if own.is_draining and not self.is_draining:
            self.is_draining = True
            for act in self.on_drain:
                act()

    def _leave(self, db: Transaction) -> None:
        db.run("DELETE FROM @replica WHERE process = %(process)s", process=self._database.process)


def read_replicas(db: Transaction) -> list[Replica]:
    """Return all replicas that are remembered, in the order of their ids."""
    rows = db.rows("SELECT process, facts, @now_ms() - seen_ms, draining FROM @replica ORDER BY process")
    return [Replica(process, facts, int(age_ms), draining) for process, facts, age_ms, draining in rows]


def mark_draining(db: Transaction, process: str) -> bool:
    """Ask a replica to end. Return whether there is one."""
    return db.run("UPDATE @replica SET draining = true WHERE process = %(process)s", process=process) > 0


async def wait_until_known(database: Database, fact: str, version: int, *, within_s: float) -> list[Replica]:
    """Wait until every live replica that reports a fact has at least a version. Return those that do not in
    time."""
    end_s = time.monotonic() + within_s
    while True:
        replicas = await database.run(read_replicas)
        knowing = [each for each in replicas if each.is_live and fact in each.facts]
        late = [each for each in knowing if int(each.facts[fact]) < version]
        if not late or time.monotonic() >= end_s:
            return late
        await asyncio.sleep(POLL_S)
