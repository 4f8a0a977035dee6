"""Audit records in PostgreSQL: AuditStore over connections of its own.

Nothing here waits for an event loop where none runs, so that the thread of an audit log may use it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from toolcrib.state.base import Head, Page, Query, Record
from toolcrib.state.postgresql.database import Database, DuplicateError, Transaction

_COLUMNS = ", ".join(Record._fields)
_READ_ROWS = 500
_FIRST_YOUNG = (
    "SELECT seq FROM @audit_record WHERE stream = %(stream)s AND at_ms >= %(before)s ORDER BY seq LIMIT 1"
)
_LAST = (
    "SELECT seq, line FROM @audit_record WHERE stream = %(stream)s AND seq < %(end)s"
    " ORDER BY seq DESC LIMIT 1"
)
_STREAMS = """WITH RECURSIVE stream AS (
    (SELECT stream AS name FROM @audit_record ORDER BY stream LIMIT 1) UNION ALL
    SELECT (SELECT stream FROM @audit_record WHERE stream > name ORDER BY stream LIMIT 1)
    FROM stream WHERE name IS NOT NULL
) SELECT name FROM stream WHERE name IS NOT NULL"""
"""One look at the index for each stream."""


class PostgreSQLAudit:
    """Records of all replicas. Appending has a connection of its own, and so has each reader of lines."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writer = database.make_worker()

    async def append(self, stream: str, records: Sequence[Record]) -> None:
        rows = [(*record, stream) for record in records]
        try:
            await self._writer.run(lambda db: db.copy("audit_record", rows))
        except DuplicateError:  # some were committed before, when nobody learnt of it
            insert = "INSERT INTO @audit_record VALUES (%s,%s,%s,%s,%s,%s,%s,%s) ON CONFLICT DO NOTHING"
            await self._writer.run(lambda db: db.run_many(insert, rows))

    async def heads(self, before_ms: int | None = None) -> Mapping[str, Head]:
        def act(db: Transaction) -> dict[str, Head]:
            heads = {}
            for (stream,) in db.rows(_STREAMS):
                end = None
                if before_ms is not None:
                    end = db.value(_FIRST_YOUNG, stream=stream, before=before_ms)
                found = db.rows(_LAST, stream=stream, end=2**62 if end is None else end)
                if found:
                    heads[stream] = Head(found[0][0], found[0][1][-66:-2])
            return heads

        return await self._writer.run(act)

    async def lines(self, stream: str, after: int) -> AsyncGenerator[Record, None]:
        query = (
            f"SELECT {_COLUMNS} FROM @audit_record"  # noqa: S608 - constants
            " WHERE stream = %(stream)s AND seq > %(after)s ORDER BY seq"
        )
        parts = self._database.make_worker().read(query, _READ_ROWS, stream=stream, after=after)
        async with aclosing(parts):
            async for rows in parts:
                for row in rows:
                    yield Record._make(row)

    async def find(self, query: Query, *, before: str | None = None, limit: int = 100) -> Page:
        conditions = ["at_ms >= %(since_ms)s", "at_ms < %(until_ms)s"]
        conditions += [f"{name} = %({name})s" for name in ("principal", "tool", "id") if getattr(query, name)]
        values = {**query._asdict(), "outcome": list(query.outcome), "limit": limit + 1}
        if query.outcome:
            conditions.append("outcome = ANY(%(outcome)s)")
        if before is not None:
            at_ms, seq, stream = before.split(".", 2)
            values |= {"at_ms": int(at_ms), "seq": int(seq), "stream": stream}
            conditions.append("(at_ms, stream, seq) < (%(at_ms)s, %(stream)s, %(seq)s)")
        statement = (
            f"SELECT {_COLUMNS}, stream FROM @audit_record WHERE {' AND '.join(conditions)}"  # noqa: S608
            " ORDER BY at_ms DESC, stream DESC, seq DESC LIMIT %(limit)s"
        )
        rows = await self._database.run(lambda db: db.rows(statement, **values))
        found = [Record._make(row[:-1]) for row in rows[:limit]]
        older = f"{found[-1].at_ms}.{found[-1].seq}.{rows[limit - 1][-1]}" if len(rows) > limit else None
        return Page(found, older)

    async def remove_through(self, ends: Mapping[str, int]) -> int:
        delete = (
            "DELETE FROM @audit_record WHERE stream = %(stream)s AND seq <= %(end)s"
            " AND seq < (SELECT max(seq) FROM @audit_record WHERE stream = %(stream)s)"
        )

        def act(db: Transaction) -> int:
            return sum(db.run(delete, stream=stream, end=end) for stream, end in ends.items())

        return await self._writer.run(act)

    async def close(self) -> None:
        await self._writer.close()
