"""All state of a process in one SQLite database."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from toolcrib.state.base import ChangeBus
from toolcrib.state.memory import MemoryBus
from toolcrib.state.sqlite.bus import NOTICES, SQLiteBus
from toolcrib.state.sqlite.counters import COUNTS, SQLiteCounters
from toolcrib.state.sqlite.file import SQLiteFile
from toolcrib.state.sqlite.keys import KEYS, SQLiteKeys
from toolcrib.state.sqlite.tasks import TASKS, SQLiteTasks
from toolcrib.state.sqlite.values import VALUES, SQLiteValues


class SQLiteState:
    """Tasks, keys, values and counts in a file, or without one in memory. Only several processes
    (`is_shared`) need their notices in it, too."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        is_shared: bool = False,
        now_ns: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.file = SQLiteFile(path, [TASKS, VALUES, NOTICES, KEYS, COUNTS], now_ns=now_ns, wall=wall)
        self.process = self.file.process
        self.tasks = SQLiteTasks(self.file)
        self.values = SQLiteValues(self.file)
        self.keys = SQLiteKeys(self.file)
        self.counters = SQLiteCounters(self.file)
        self.bus: ChangeBus = SQLiteBus(self.file) if is_shared else MemoryBus(self.process)

    async def open(self) -> None:
        """Create the database, or raise StateUnavailable."""
        await self.file.read(lambda _: None)

    async def close(self) -> None:
        await self.file.close()
