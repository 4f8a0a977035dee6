"""Values that expire, in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from toolcrib.state.base import Check, Item, Space, StateUnavailable, Write
from toolcrib.state.sqlite.file import SQLiteFile, Tables, Times, next_version

_ENTRY_BYTES = 100
"""What an entry takes besides its value, about."""
_COUNT = """CREATE TRIGGER value_{0} AFTER {0} ON value BEGIN
    INSERT OR IGNORE INTO space VALUES ({1}.space, 0, 0);
    UPDATE space SET entries = entries {2} 1, bytes = bytes {2} length({1}.value) {2} {3}
        WHERE name = {1}.space;
END"""
_SCHEMA = (
    """CREATE TABLE value (
        space TEXT, key TEXT, owner TEXT, value BLOB, version INTEGER, until_ns INTEGER, until_ms INTEGER,
        PRIMARY KEY (space, key)
    )""",
    "CREATE INDEX value_owner ON value (space, owner, key)",
    "CREATE INDEX value_age ON value (space, version)",
    "CREATE INDEX value_until ON value (until_ns)",
    "CREATE TABLE space (name TEXT PRIMARY KEY, entries INTEGER, bytes INTEGER) WITHOUT ROWID",
    _COUNT.format("INSERT", "new", "+", _ENTRY_BYTES),
    _COUNT.format("DELETE", "old", "-", _ENTRY_BYTES),
)
_IS_ALIVE = "(until_ns IS NULL OR until_ns > :now_ns)"
_OLDEST = "SELECT key FROM value WHERE space = :space AND key != :key AND {} ORDER BY version LIMIT 1"


def _sweep(db: sqlite3.Connection, times: Times) -> None:
    db.execute("DELETE FROM value WHERE until_ns <= :now_ns", times)


VALUES = Tables(_SCHEMA, _sweep, expiring=["value"])


class SQLiteValues:
    """KeyValue in a SQLite database. A space that is full evicts the oldest entries, those of the same owner
    first, or raises StateUnavailable."""

    def __init__(self, file: SQLiteFile) -> None:
        self._file = file

    async def get(self, space: Space, key: str) -> Item | None:
        return await self._file.read(lambda db: self._find(db, space, key))

    def _find(self, db: sqlite3.Connection, space: Space, key: str) -> Item | None:
        query = f"SELECT value, version FROM value WHERE space = :space AND key = :key AND {_IS_ALIVE}"  # noqa: S608
        found = db.execute(query, {**self._file.times(), "space": space.name, "key": key}).fetchone()
        return None if found is None else Item(*found)

    async def commit(self, writes: Sequence[Write], checks: Sequence[Check] = ()) -> bool:
        for write in writes:
            if write.value is not None and len(write.value) > write.space.max_value:
                raise ValueError(f"a value in '{write.space.name}' has at most {write.space.max_value} bytes")

        def act(db: sqlite3.Connection) -> bool:
            for check in checks:
                item = self._find(db, check.space, check.key)
                if (0 if item is None else item.version) != check.version:
                    return False
            for write in writes:
                self._write(db, write)
            return True

        return await self._file.write(act)

    def _write(self, db: sqlite3.Connection, write: Write) -> None:
        space, times = write.space, self._file.times()
        entry = {"space": space.name, "key": write.key, "owner": write.owner}
        db.execute("DELETE FROM value WHERE space = :space AND key = :key", entry)
        if write.value is None:
            return
        until = dict.fromkeys(("until_ns", "until_ms"))
        if write.ttl_s is not None:
            until["until_ns"] = times["now_ns"] + round(write.ttl_s * 1e9)
            until["until_ms"] = times["wall_ms"] + round(write.ttl_s * 1e3)
        db.execute(
            "INSERT INTO value VALUES (:space, :key, :owner, :value, :version, :until_ns, :until_ms)",
            {**entry, **until, "value": write.value, "version": next_version(db)},
        )
        if self._is_over(db, write):
            _sweep(db, times)
        while is_over := self._is_over(db, write):
            if space.when_full == "refuse":
                raise StateUnavailable(f"there are too many entries in '{space.name}'")
            oldest = db.execute(_OLDEST.format("owner = :owner"), entry).fetchone()
            if oldest is None and is_over != "own":
                oldest = db.execute(_OLDEST.format("true"), entry).fetchone()
            if oldest is None:
                return  # a single entry may have any size that a value may have
            db.execute("DELETE FROM value WHERE space = ? AND key = ?", (space.name, *oldest))

    def _is_over(self, db: sqlite3.Connection, write: Write) -> str:
        """Return which cap is exceeded: "own", "all", or none."""
        space = write.space
        counted = "SELECT entries, bytes FROM space WHERE name = ?"
        entries, size = db.execute(counted, (space.name,)).fetchone()
        if entries > space.max_entries or size > space.max_bytes:
            return "all"
        if write.owner:
            own = "SELECT count(*) FROM value WHERE space = ? AND owner = ?"
            if db.execute(own, (space.name, write.owner)).fetchone()[0] > space.max_own:
                return "own"
        return ""

    async def scan(
        self, space: Space, *, owner: str = "", after: str = "", limit: int = 100
    ) -> Sequence[tuple[str, Item]]:
        query = (
            "SELECT key, value, version FROM value WHERE space = :space AND key > :after"  # noqa: S608
            f" AND (:owner = '' OR owner = :owner) AND {_IS_ALIVE} ORDER BY key LIMIT :limit"
        )
        values = {"space": space.name, "owner": owner, "after": after, "limit": limit, **self._file.times()}
        rows = await self._file.read(lambda db: db.execute(query, values).fetchall())
        return [(key, Item(value, version)) for key, value, version in rows]
