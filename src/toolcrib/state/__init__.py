"""Everything that outlives a call or is shared between processes, behind six small contracts.

`StateHandle` is the state of one server. It is opened when something needs it: few servers have tasks, kept
results or values of their callers.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib.errors import ConfigurationError
from toolcrib.state.memory import MemoryBus, MemoryCounters

if TYPE_CHECKING:
    from toolcrib.state.base import AuditStore, ChangeBus, Counters
    from toolcrib.state.sqlite.state import SQLiteState

MEMORY = "memory:"
_SQLITE = "sqlite:///"


def sqlite_path(url: str) -> Path | None:
    """Return the file that a URL names, None for memory. Raise ConfigurationError for any other URL."""
    if url == MEMORY:
        return None
    if not url.startswith(_SQLITE) or url == _SQLITE:
        hint = 'use "memory:", or a file: "sqlite:///state.db", "sqlite:////var/lib/tools/state.db"'
        raise ConfigurationError(f"must be the URL of a store, got {url!r}", key="state.url", hint=hint)
    return Path(url.removeprefix(_SQLITE))


class StateHandle:
    """The state of one server. `url` names where it is; several processes share one."""

    def __init__(self, url: str = MEMORY) -> None:
        self.path = sqlite_path(url)
        self.is_shared = False
        self.is_concurrent = False

    def share(self, folder: str | None, *, is_concurrent: bool = False) -> None:
        """Share the state with other processes, in a folder of theirs if it would be in memory. With
        `is_concurrent`, they serve at the same time, not only one after another."""
        if self.path is None and folder is not None:
            self.path = Path(folder) / "state.db"
        self.is_shared, self.is_concurrent = True, is_concurrent

    @cached_property
    def engine(self) -> SQLiteState:
        from toolcrib.state.sqlite.state import SQLiteState  # delayed: loads SQLite

        return SQLiteState(self.path, is_shared=self.is_shared)

    @cached_property
    def bus(self) -> ChangeBus:
        """Notices, which need no database in a single process."""
        return self.engine.bus if self.is_shared else MemoryBus("")

    @cached_property
    def counters(self) -> Counters:
        """Counts of calls: in memory, so that a call waits for no thread, unless several processes serve."""
        return self.engine.counters if self.is_concurrent else MemoryCounters()

    @property
    def keys(self) -> tuple[bytes, ...]:
        """What seals ids and states that clients keep; without any, the key of the server."""
        return ()

    @property
    def audit(self) -> AuditStore | None:
        """Where audit records of all replicas are; None for those in a file of this machine."""
        return None

    def note(self, fact: str, version: int) -> None:
        """Tell the other replicas what this one knows, such as a version of the keys."""

    async def open(self) -> None:
        """Connect to what other processes share, if the server cannot start without it."""

    def report(self) -> dict[str, Any]:
        """Return what `/ready` says about the state: nothing about a file of this machine."""
        return {}

    @property
    def is_open(self) -> bool:
        """Whether it was used."""
        return "engine" in self.__dict__

    async def close(self) -> None:
        if self.is_open:
            await self.engine.close()
