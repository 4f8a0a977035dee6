"""API keys in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from toolcrib.state.base import Key
from toolcrib.state.sqlite.file import SQLiteFile, Tables, Times
from toolcrib.validation import codec

_SCHEMA = (
    """CREATE TABLE api_key (
        id TEXT PRIMARY KEY, name TEXT, hash TEXT UNIQUE, prefix TEXT, scopes TEXT, roles TEXT,
        created_ms INTEGER, expires_ms INTEGER, revoked_ms INTEGER
    )""",
    "INSERT INTO fact VALUES ('keys', 0)",
)
_CHANGED = "UPDATE fact SET value = value + 1 WHERE name = 'keys'"


def _sweep(_db: sqlite3.Connection, _times: Times) -> None:
    """Keep revoked and expired keys: the audit log names them."""


KEYS = Tables(_SCHEMA, _sweep)


class SQLiteKeys:
    """KeyStore in a SQLite database."""

    def __init__(self, file: SQLiteFile) -> None:
        self._file = file

    async def read(self, known: int = 0) -> tuple[int, Sequence[Key]] | None:
        def act(db: sqlite3.Connection) -> tuple[int, Sequence[Key]] | None:
            version = _version(db)
            return None if version == known else (version, _read(db, "true"))

        return await self._file.read(act)

    async def add(self, key: Key) -> bool:
        def act(db: sqlite3.Connection) -> bool:
            active = "name = ? AND revoked_ms IS NULL AND (expires_ms IS NULL OR expires_ms > ?)"
            if _read(db, active, key.name, self._file.times()["wall_ms"]):
                return False
            row = key._replace(scopes=codec.write(key.scopes), roles=codec.write(key.roles))  # type: ignore[arg-type]
            db.execute("INSERT INTO api_key VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            db.execute(_CHANGED)
            return True

        return await self._file.write(act)

    async def revoke(self, word: str) -> tuple[int, Sequence[Key]]:
        def act(db: sqlite3.Connection) -> tuple[int, Sequence[Key]]:
            # All with this name: a clock set back would make expired ones valid again.
            named = "revoked_ms IS NULL AND (name = ?1 OR hash = ?1)"
            found = _read(db, named, word) or _read(db, "revoked_ms IS NULL AND id = ?", word)
            now_ms = self._file.times()["wall_ms"]
            revoked = [key._replace(revoked_ms=now_ms) for key in found]
            if revoked:
                ids = [(now_ms, key.id) for key in revoked]
                db.executemany("UPDATE api_key SET revoked_ms = ? WHERE id = ?", ids)
                db.execute(_CHANGED)
            return _version(db), revoked

        return await self._file.write(act)


def _version(db: sqlite3.Connection) -> int:
    """Return the version of the keys, 1 if there were never any."""
    return int(db.execute("SELECT value FROM fact WHERE name = 'keys'").fetchone()[0]) + 1


def _read(db: sqlite3.Connection, where: str, *values: object) -> list[Key]:
    rows = db.execute(f"SELECT * FROM api_key WHERE {where} ORDER BY created_ms, id", values)  # noqa: S608
    return [
        key._replace(scopes=tuple(codec.decode(key.scopes)), roles=tuple(codec.decode(key.roles)))  # type: ignore[arg-type]
        for key in map(Key._make, rows)
    ]
