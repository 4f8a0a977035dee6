"""The state of a replica: engines on PostgreSQL and Redis, opened from the settings of a fleet."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.config.settings import Fleet
from toolcrib.errors import ConfigurationError
from toolcrib.fleet.membership import Membership, read_replicas
from toolcrib.fleet.shares import ShareCounters
from toolcrib.state import StateHandle
from toolcrib.state.base import AuditStore, ChangeBus, Counters, KeyValue, StateUnavailable, TaskStore

if TYPE_CHECKING:
    from toolcrib.state.postgresql.database import Database

_MISSING = "install it: pip install 'toolcrib[fleet]'"
_SAME_FILE = "use the same file on all replicas; add a new secret below the old one on all of them first"


def resolve_reference(reference: str, key: str) -> str:
    """Return the text that `env:NAME` or `file:PATH` refers to. Raise ConfigurationError."""
    kind, _, name = reference.partition(":")
    if kind == "env":
        value = os.environ.get(name, "")
        if not value.strip():
            raise ConfigurationError(f"the variable {name} is not set", key=key)
        return value.strip()
    try:
        return Path(name).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read {name}: {error}", key=key) from None


@contextmanager
def requiring_drivers() -> Iterator[None]:
    """Raise ConfigurationError where a package of the extra is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"a fleet needs {error.name}", key="fleet", hint=_MISSING) from None


def open_database(fleet: Fleet) -> Database:
    """Return the database of a fleet, for a command. Raise ConfigurationError."""
    with requiring_drivers():
        from toolcrib.state.postgresql.database import Database

    return Database(resolve_reference(fleet.postgres, "fleet.postgres"), schema=fleet.db_schema)


class FleetState:
    """All shared state of one replica. `process` owns its leases, tasks and streams."""

    def __init__(self, fleet: Fleet) -> None:
        with requiring_drivers():
            from toolcrib.state import sealed
            from toolcrib.state.postgresql.audit import PostgreSQLAudit
            from toolcrib.state.postgresql.budgets import BudgetCopies
            from toolcrib.state.postgresql.database import Database
            from toolcrib.state.postgresql.keys import PostgreSQLKeys
            from toolcrib.state.postgresql.tasks import PostgreSQLTasks
            from toolcrib.state.postgresql.values import PostgreSQLValues
            from toolcrib.state.redis.bus import RedisBus
            from toolcrib.state.redis.counters import RedisCounters
            from toolcrib.state.redis.server import Redis
        self.fleet = fleet
        self.process = secrets.token_hex(8)
        found = sealed.read_key_file(Path(fleet.key_file))
        self.client_keys = tuple(sealed.derive_key(each, "clients") for each in found)
        """What seals what clients keep: sessions, and the state of calls that wait for answers."""
        self.redis = Redis(
            resolve_reference(fleet.redis, "fleet.redis"),
            fleet.name,
            self.process,
            timeout_s=fleet.call_timeout_ms / 1000,
        )
        postgres = resolve_reference(fleet.postgres, "fleet.postgres")
        self.database = Database(postgres, schema=fleet.db_schema, process=self.process)
        self.reports: dict[str, Any] = {
            "secrets": [sealed.derive_key(each, "name")[:4].hex() for each in found]
        }
        """What this replica tells the others about itself, such as the version of the keys that it knows."""
        self.members = Membership(self.database, self._facts)
        alone = ShareCounters(
            self.process, lambda: self.members.live, lambda key: counters.count_held(key), fleet.outage
        )
        self.counters: Counters = (counters := RedisCounters(self.redis, alone))
        counters.on_empty = BudgetCopies(self.database, counters).restore
        self.bus: ChangeBus = sealed.SealedBus(RedisBus(self.redis), sealed.Sealer(found, "notices"))
        tasks, values = PostgreSQLTasks(self.database), PostgreSQLValues(self.database)
        self.tasks: TaskStore = sealed.SealedTasks(tasks, sealed.Sealer(found, "tasks"))
        self.values: KeyValue = sealed.SealedValues(values, sealed.Sealer(found, "values"))
        self.keys = PostgreSQLKeys(self.database)
        self.audit = PostgreSQLAudit(self.database)

    def modes(self) -> dict[str, str]:
        """Return how this replica works with each server: `shared`, or `alone` while it is away."""
        breakers = {"redis": self.redis.breaker, "postgres": self.database.breaker}
        return {name: "alone" if breaker.is_open else "shared" for name, breaker in breakers.items()}

    def _facts(self) -> Mapping[str, Any]:
        return {"modes": self.modes(), **self.reports}

    async def open(self) -> None:
        """Connect to both. Raise ConfigurationError or StateUnavailable: a replica does not start alone."""
        await self.redis.open()
        await self.database.open()
        await self.members.renew()
        own = self.reports["secrets"]
        for each in await self.database.run(read_replicas):
            other = each.facts.get("secrets", own)
            if each.is_live and not each.is_draining and (own[0] not in other or other[0] not in own):
                problem = f"replica {each.process} on {each.facts.get('host')} has another secret"
                raise ConfigurationError(problem, key="fleet.key_file", hint=_SAME_FILE)

    async def close(self) -> None:
        await self.audit.close()
        await self.database.close()
        await self.redis.close()


class FleetHandle(StateHandle):
    """The state of a server that is a replica."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__()
        self.fleet = fleet
        self.is_shared = self.is_concurrent = True

    def share(self, folder: str | None, *, is_concurrent: bool = False) -> None:
        """Do nothing: each worker is a replica."""

    @cached_property
    def engine(self) -> FleetState:  # type: ignore[override]
        return FleetState(self.fleet)

    @property
    def keys(self) -> tuple[bytes, ...]:
        return self.engine.client_keys

    async def open(self) -> None:
        """Connect. When somebody drains this replica, it ends as at a signal."""
        await self.engine.open()
        self.engine.members.on_drain.append(lambda: os.kill(os.getpid(), signal.SIGTERM))

    @property
    def audit(self) -> AuditStore:
        return self.engine.audit

    def note(self, fact: str, version: int) -> None:
        if self.engine.reports.get(fact) != version:
            self.engine.reports[fact] = version
            self._reporting = asyncio.ensure_future(self._report_now())

    async def _report_now(self) -> None:
        with suppress(StateUnavailable):  # then with the next renewal
            await self.engine.members.renew()

    def report(self) -> dict[str, Any]:
        """Return what `/ready` says about the engines."""
        return {"modes": self.engine.modes(), "live": len(self.engine.members.live)}
