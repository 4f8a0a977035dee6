"""Notices between the processes that share a SQLite database.

A process that subscribes looks for new notices several times a second. A notice is kept for as long as a
process may be asleep without missing any; after a longer sleep subscribers are told to read everything again.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import suppress

from toolcrib.state.base import StateUnavailable
from toolcrib.state.memory import MemoryBus
from toolcrib.state.sqlite.file import NS, SQLiteFile, Tables, Times

KEEP_NS = 10 * NS

_SCHEMA = (
    """CREATE TABLE notice (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        sender TEXT, target TEXT, topic TEXT, data BLOB, until_ns INTEGER
    )""",
    "CREATE INDEX notice_until ON notice (until_ns)",
)
_ACK = "ack"


def _sweep(db: sqlite3.Connection, times: Times) -> None:
    db.execute("DELETE FROM notice WHERE until_ns <= :now_ns", times)


NOTICES = Tables(_SCHEMA, _sweep, of_boot=["notice"])


class SQLiteBus:
    """ChangeBus over a SQLite database. Subscribers of a topic that is the name of this process get what
    other processes send to it. Notices of others are delivered on the thread of the database."""

    def __init__(self, file: SQLiteFile) -> None:
        self._file = file
        self._local = MemoryBus(file.process)
        self._last: int | None = None
        self._connection: sqlite3.Connection | None = None
        self._acks: dict[int, Callable[[], object]] = {}

    def publish(self, topic: str, data: bytes = b"") -> None:
        self._local.deliver(topic, data)
        with suppress(RuntimeError):  # no thread can be started: the interpreter ends
            self._file.post(lambda db: self._insert(db, "", topic, data))

    def subscribe(self, topic: str, changed: Callable[[bytes | None], None]) -> Callable[[], None]:
        end = self._local.subscribe(topic, changed)
        self._start()
        return end

    def _start(self) -> None:
        """Poll from now on."""
        if self._file.poll is None:
            self._file.poll = self._poll
            self._file.post(self._poll)

    async def send(self, process: str, data: bytes, timeout_s: float = 0.1) -> bool:
        if process == self._file.process:
            return await self._local.send(process, data)
        loop, acknowledged = asyncio.get_running_loop(), asyncio.Event()
        self._start()

        def act(db: sqlite3.Connection) -> int:
            id_ = self._insert(db, process, process, data)
            self._acks[id_] = lambda: loop.call_soon_threadsafe(acknowledged.set)
            return id_

        id_ = None
        try:
            async with asyncio.timeout(timeout_s):
                id_ = await self._file.write(act)
                await acknowledged.wait()
            return True
        except (TimeoutError, StateUnavailable):
            return False
        finally:
            self._acks.pop(id_ or 0, None)

    def _insert(self, db: sqlite3.Connection, target: str, topic: str, data: bytes) -> int:
        times = self._file.times()
        row = (self._file.process, target, topic, data, times["now_ns"] + KEEP_NS)
        insert = "INSERT INTO notice (sender, target, topic, data, until_ns) VALUES (?, ?, ?, ?, ?)"
        return db.execute(insert, row).lastrowid or 0

    # --- on the thread of the file ---

    def _poll(self, db: sqlite3.Connection) -> None:
        is_new, self._connection = db is not self._connection, db
        newest = db.execute("SELECT max(seq) FROM sqlite_sequence WHERE name = 'notice'").fetchone()[0] or 0
        before, self._last = self._last, newest
        if before is None:
            return  # subscribed just now
        unseen = "SELECT id, sender, target, topic, data FROM notice WHERE id > ? AND id <= ? ORDER BY id"
        rows = db.execute(unseen, (before, newest)).fetchall()
        if is_new or len(rows) < newest - before:
            for topic in self._local.topics:
                self._local.deliver(topic, None)
        for id_, sender, target, topic, data in rows:
            if sender != self._file.process and target in ("", self._file.process):
                self._receive(id_, sender, topic, data)

    def _receive(self, id_: int, sender: str, topic: str, data: bytes) -> None:
        if topic == _ACK:
            if (acknowledge := self._acks.get(int(data))) is not None:
                with suppress(RuntimeError):  # its loop is closed
                    acknowledge()
        elif self._local.deliver(topic, data) and topic == self._file.process:
            self._file.post(lambda db: self._insert(db, sender, _ACK, b"%d" % id_))
