"""API keys in PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.state.base import Key
from toolcrib.state.postgresql.database import Database, Transaction

_COLUMNS = ", ".join(Key._fields)
_VERSION = "SELECT value + 1 FROM @fact WHERE name = 'keys'"
_CHANGED = "UPDATE @fact SET value = value + 1 WHERE name = 'keys' RETURNING value + 1"
"""It holds the row until the commit, so that changes come one after the other."""


class PostgreSQLKeys:
    """KeyStore in PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, known: int = 0) -> tuple[int, Sequence[Key]] | None:
        def act(db: Transaction) -> tuple[int, Sequence[Key]] | None:
            version = db.value(_VERSION)
            return None if version == known else (version, _read(db, "true"))

        return await self._database.run(act)

    async def add(self, key: Key) -> bool:
        active = "name = %(name)s AND revoked_ms IS NULL AND (expires_ms IS NULL OR expires_ms > @now_ms())"
        row = key._replace(scopes=list(key.scopes), roles=list(key.roles))  # type: ignore[arg-type]
        places = ", ".join(f"%({name})s" for name in Key._fields)

        def act(db: Transaction) -> bool:
            db.run(_CHANGED)
            if db.rows(f"SELECT 1 FROM @api_key WHERE {active}", name=key.name):  # noqa: S608
                return False
            db.run(f"INSERT INTO @api_key ({_COLUMNS}) VALUES ({places})", **row._asdict())  # noqa: S608
            return True

        return await self._database.run(act)

    async def revoke(self, word: str) -> tuple[int, Sequence[Key]]:
        def act(db: Transaction) -> tuple[int, Sequence[Key]]:
            # All with this name: a clock set back would make expired ones valid again.
            named = "revoked_ms IS NULL AND (name = %(word)s OR hash = %(word)s)"
            by_id = "revoked_ms IS NULL AND id = %(word)s"
            ids = [key.id for key in _read(db, named, word=word) or _read(db, by_id, word=word)]
            if not ids:
                return db.value(_VERSION), []
            version = db.value(_CHANGED)
            revoke = (
                "UPDATE @api_key SET revoked_ms = @now_ms() WHERE revoked_ms IS NULL AND id = ANY(%(ids)s)"
            )
            db.run(revoke, ids=ids)
            return version, _read(db, "id = ANY(%(ids)s)", ids=ids)

        return await self._database.run(act)


def _read(db: Transaction, where: str, **values: object) -> list[Key]:
    rows = db.rows(f"SELECT {_COLUMNS} FROM @api_key WHERE {where} ORDER BY created_ms, id", **values)  # noqa: S608
    return [key._replace(scopes=tuple(key.scopes), roles=tuple(key.roles)) for key in map(Key._make, rows)]
