"""Values that expire, in PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Sequence

from toolcrib.state.base import Check, Item, Space, StateUnavailable, Write
from toolcrib.state.postgresql.database import Database, Transaction

_ENTRY_BYTES = 100
"""What an entry takes besides its value, about."""
_SWEEP_S = 60.0
_NOW = "(SELECT @now_ms())"
_IS_ALIVE = f"(until_ms IS NULL OR until_ms > {_NOW})"
_DELETE = f"""WITH gone AS (
        DELETE FROM @value WHERE {{}} RETURNING space, length(value) + {_ENTRY_BYTES} AS size
    ), sums AS (SELECT space, count(*) AS entries, sum(size) AS bytes FROM gone GROUP BY space)
    UPDATE @space SET entries = @space.entries - sums.entries, bytes = @space.bytes - sums.bytes
    FROM sums WHERE name = sums.space"""  # noqa: S608 - constants
_OLDEST = "SELECT key FROM @value WHERE space = %(space)s AND key != %(key)s AND {} ORDER BY version LIMIT 1"


class PostgreSQLValues:
    """KeyValue in PostgreSQL. A commit holds the rows of its spaces, so that their caps are exact."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._swept_s = time.monotonic()

    async def get(self, space: Space, key: str) -> Item | None:
        return await self._database.run(lambda db: _find(db, space, key))

    async def commit(self, writes: Sequence[Write], checks: Sequence[Check] = ()) -> bool:
        for write in writes:
            if write.value is not None and len(write.value) > write.space.max_value:
                raise ValueError(f"a value in '{write.space.name}' has at most {write.space.max_value} bytes")
        names = sorted({each.space.name for each in writes} | {each.space.name for each in checks})
        known = "INSERT INTO @space SELECT unnest(%(names)s::text[]), 0, 0 ON CONFLICT DO NOTHING"
        lock = "SELECT 1 FROM @space WHERE name = ANY(%(names)s) ORDER BY name FOR UPDATE"

        def act(db: Transaction) -> bool:
            if len(db.rows(lock, names=names)) < len(names):
                db.run(known, names=names)
                db.rows(lock, names=names)
            for check in checks:
                item = _find(db, check.space, check.key)
                if (0 if item is None else item.version) != check.version:
                    return False
            if time.monotonic() - self._swept_s > _SWEEP_S:
                self._swept_s = time.monotonic()
                _sweep(db, names)
            for write in writes:
                _write(db, write)
            return True

        return await self._database.run(act)

    async def scan(
        self, space: Space, *, owner: str = "", after: str = "", limit: int = 100
    ) -> Sequence[tuple[str, Item]]:
        query = (
            "SELECT key, value, version FROM @value WHERE space = %(space)s AND key > %(after)s"  # noqa: S608
            f" AND (%(owner)s = '' OR owner = %(owner)s) AND {_IS_ALIVE} ORDER BY key LIMIT %(limit)s"
        )
        given = {"space": space.name, "owner": owner, "after": after, "limit": limit}
        rows = await self._database.run(lambda db: db.rows(query, **given))
        return [(key, Item(value, version)) for key, value, version in rows]


def _sweep(db: Transaction, names: Sequence[str]) -> None:
    """Delete what has expired in spaces whose rows are held."""
    db.run(_DELETE.format(f"space = ANY(%(names)s) AND until_ms <= {_NOW}"), names=names)


def _find(db: Transaction, space: Space, key: str) -> Item | None:
    query = f"SELECT value, version FROM @value WHERE space = %(space)s AND key = %(key)s AND {_IS_ALIVE}"  # noqa: S608
    found = db.rows(query, space=space.name, key=key)
    return Item(*found[0]) if found else None


def _write(db: Transaction, write: Write) -> None:
    space, entry = write.space, {"space": write.space.name, "key": write.key, "owner": write.owner}
    delete = _DELETE.format("space = %(space)s AND key = %(key)s")
    db.run(delete, **entry)
    if write.value is None:
        return
    ttl_ms = None if write.ttl_s is None else round(write.ttl_s * 1000)
    insert = (
        "INSERT INTO @value VALUES (%(space)s, %(key)s, %(owner)s, %(value)s, nextval('@value_version'),"
        " @now_ms() + %(ttl_ms)s::bigint)"
    )
    db.run(insert, **entry, value=write.value, ttl_ms=ttl_ms)
    counted = "UPDATE @space SET entries = entries + 1, bytes = bytes + %(size)s WHERE name = %(space)s"
    db.run(counted, space=space.name, size=len(write.value) + _ENTRY_BYTES)
    if _is_over(db, write):
        _sweep(db, [space.name])
    while is_over := _is_over(db, write):
        if space.when_full == "refuse":
            raise StateUnavailable(f"there are too many entries in '{space.name}'")
        oldest = db.value(_OLDEST.format("owner = %(owner)s"), **entry)
        if oldest is None and is_over != "own":
            oldest = db.value(_OLDEST.format("true"), **entry)
        if oldest is None:
            return  # a single entry may have any size that a value may have
        db.run(delete, space=space.name, key=oldest)


def _is_over(db: Transaction, write: Write) -> str:
    """Return which cap is exceeded: "own", "all", or none."""
    space = write.space
    [(entries, size)] = db.rows("SELECT entries, bytes FROM @space WHERE name = %(name)s", name=space.name)
    if entries > space.max_entries or size > space.max_bytes:
        return "all"
    if write.owner:
        own = "SELECT count(*) FROM @value WHERE space = %(name)s AND owner = %(owner)s"
        if db.value(own, name=space.name, owner=write.owner) > space.max_own:
            return "own"
    return ""
