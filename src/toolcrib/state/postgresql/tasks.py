"""Tasks in PostgreSQL.

A task is `queued` or `working` until its end is written, and never changes after that. A process that runs
tasks has a lease; those of a process whose lease has run out are failed by another one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from typing import Any

from toolcrib.state.base import Changes, NewTask, Status, Task
from toolcrib.state.postgresql.database import Database, Transaction

logger = logging.getLogger("toolcrib")

LEASE_MS = 10_000
"""How long a killed process looks as if it were running."""
QUIET_S = 60.0
"""The least time between two messages about results that expire early."""
LOST = b'{"code":-32603,"message":"The task was lost: the server process that ran it has ended."}'
STOPPED = b'{"code":-32603,"message":"The task was stopped: the server has shut down."}'

_COLUMNS = (
    "id, binding, tool, fingerprint, digest, ttl_ms, payload, status, message, created_ms, updated_ms,"
    " version, attempt, owner, outcome"
)
_NEW_COLUMNS = len(NewTask._fields)
_NOW = "(SELECT @now_ms())"
_IS_OPEN = "status IN ('queued', 'working')"
_IS_OWN = "id = %(id)s AND status = 'working' AND owner = %(process)s"
_IS_LOST = f"""status = 'working' AND owner != %(process)s
    AND NOT EXISTS (SELECT 1 FROM @lease WHERE process = owner AND until_ms > {_NOW})"""  # noqa: S608
_NEXT_VERSION = "UPDATE @fact SET value = value + 1 WHERE name = 'tasks' RETURNING value"
"""It holds the row until the commit, so that versions are committed in their order."""
_HOLD = (
    f"INSERT INTO @lease VALUES (%(process)s, {_NOW} + {LEASE_MS})"  # noqa: S608
    " ON CONFLICT (process) DO UPDATE SET until_ms = excluded.until_ms"
)
_CLOSED_QUESTIONS = "DELETE FROM @question WHERE task IN (SELECT id FROM @task WHERE status != 'working')"
_SIZE = "(1000 + coalesce(length(outcome), 0))"
"""The room that a task takes: its result, and about as much as the rest of its row."""
_ROOM = f"SELECT coalesce(sum({_SIZE}), 0) FROM @task WHERE NOT {_IS_OPEN}"  # noqa: S608
_MAKE_ROOM = f"""DELETE FROM @task WHERE id != %(id)s AND id IN (SELECT id FROM (
    SELECT id, sum({_SIZE}) OVER (
        ORDER BY id != %(id)s, binding = (SELECT binding FROM @task WHERE id = %(id)s), updated_ms DESC, id
    ) AS total FROM @task WHERE NOT {_IS_OPEN}
) AS kept WHERE total > %(most)s)"""  # noqa: S608
_ANSWERED = (
    "answer IS NOT NULL AND task IN (SELECT id FROM @task WHERE status = 'working' AND owner = %(process)s)"
)


class PostgreSQLTasks:
    """TaskStore in PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._own: set[str] = set()
        self._quiet_until_s = 0.0
        database.beats.append(self._keep_lease)
        database.goodbyes.append(self._give_up_lease)

    async def create(
        self, task: NewTask, *, queue: str | None, most: int, most_own: int | None
    ) -> Task | None:
        owner = self._database.process if queue is None else None
        status: Status = "queued" if owner is None else "working"
        names = [*NewTask._fields, "status", "version", "owner", "queue"]
        insert = (
            f"INSERT INTO @task ({', '.join(names)}, created_ms, updated_ms, attempt, until_ms)"  # noqa: S608
            f" SELECT {', '.join(f'%({name})s' for name in names)}, now, now, 0, now + %(ttl_ms)s"
            f" FROM @now_ms() AS now RETURNING created_ms"
        )

        def act(db: Transaction) -> Task | None:
            version = db.value(_NEXT_VERSION)  # from here on nobody else creates one
            if owner is not None:
                db.run(_HOLD, process=owner)
                self._sweep(db)
            count = f"SELECT count(*) FROM @task WHERE {_IS_OPEN}"  # noqa: S608
            if db.value(count) >= most:
                return None
            own = db.value(f"{count} AND binding = %(binding)s", binding=task.binding)
            if most_own is not None and own >= most_own:
                return None
            given = {**task._asdict(), "status": status, "version": version, "owner": owner, "queue": queue}
            now_ms = db.value(insert, **given)
            if owner is not None:
                self._own.add(task.id)
            return Task(task, status, None, now_ms, now_ms, version, 0, owner, None, {})

        return await self._database.run(act)

    async def claim(self, queues: Collection[str]) -> Task | None:
        oldest = (
            "SELECT id FROM @task WHERE status = 'queued' AND queue = ANY(%(queues)s)"  # noqa: S608
            f" AND until_ms > {_NOW} ORDER BY created_ms, id LIMIT 1 FOR UPDATE SKIP LOCKED"
        )

        def act(db: Transaction) -> Task | None:
            id_ = db.value(oldest, queues=list(queues))
            if id_ is None:
                return None
            db.run(_HOLD, process=self._database.process)
            self._update(
                db, "status = 'working', owner = %(process)s, attempt = attempt + 1", "id = %(id)s", id=id_
            )
            self._own.add(id_)
            return _read(db, "id = %(id)s", id=id_)[0]

        return await self._database.run(act)

    async def find(self, id_: str, binding: str) -> Task | None:
        given = {"id": id_, "binding": binding, "process": self._database.process}
        where = f"id = %(id)s AND binding = %(binding)s AND until_ms > {_NOW}"

        def act(db: Transaction) -> list[Task]:
            if db.rows(f"SELECT 1 FROM @task WHERE {where} AND {_IS_LOST}", **given):  # noqa: S608
                self._sweep(db)
            return _read(db, where, **given)

        found = await self._database.run(act)
        return found[0] if found else None

    async def note(self, id_: str, message: str) -> bool:
        return await self._change(id_, "message = %(message)s", message=message)

    async def ask(self, id_: str, questions: Mapping[str, bytes]) -> bool:
        insert = "INSERT INTO @question VALUES (%(id)s, %(key)s, %(request)s, NULL)"

        def act(db: Transaction) -> bool:
            if not self._update(db, "owner = owner", _IS_OWN, id=id_):
                return False
            for key, request in questions.items():
                db.run(insert, id=id_, key=key, request=request)
            return True

        return await self._database.run(act)

    async def withdraw(self, id_: str, keys: Collection[str]) -> None:
        def act(db: Transaction) -> None:
            delete = "DELETE FROM @question WHERE task = %(id)s AND key = ANY(%(keys)s)"
            self._update(db, "owner = owner", _IS_OWN, id=id_)
            db.run(delete, id=id_, keys=list(keys))

        await self._database.run(act)

    async def answer(self, id_: str, binding: str, answers: Mapping[str, bytes]) -> None:
        where = "id = %(id)s AND binding = %(binding)s AND status = 'working'"
        open_ = "task = %(id)s AND key = %(key)s AND answer IS NULL"
        give = f"UPDATE @question SET answer = %(answer)s WHERE {open_}"  # noqa: S608

        def act(db: Transaction) -> None:
            if self._update(db, "owner = owner", where, id=id_, binding=binding):
                for key, answer in answers.items():
                    db.run(give, id=id_, key=key, answer=answer)

        await self._database.run(act)

    async def finish(self, id_: str, status: Status, outcome: bytes | None, *, max_kept_bytes: int) -> bool:
        def act(db: Transaction) -> bool:
            given = {"id": id_, "status": status, "outcome": outcome}
            has_ended = self._update(db, "status = %(status)s, outcome = %(outcome)s", _IS_OWN, **given)
            db.run("DELETE FROM @question WHERE task = %(id)s", id=id_)
            if db.value(_ROOM) > max_kept_bytes:
                dropped = db.run(_MAKE_ROOM, id=id_, most=max_kept_bytes)
                if dropped and time.monotonic() >= self._quiet_until_s:
                    self._quiet_until_s = time.monotonic() + QUIET_S
                    logger.warning("%d ended tasks expired early: max_kept_bytes is reached", dropped)
            return bool(has_ended)

        has_ended = await self._database.run(act)
        self._own.discard(id_)
        return has_ended

    async def cancel(self, id_: str, binding: str) -> bool:
        where = f"id = %(id)s AND binding = %(binding)s AND {_IS_OPEN}"

        def act(db: Transaction) -> bool:
            has_ended = self._update(db, "status = 'cancelled'", where, id=id_, binding=binding)
            db.run(_CLOSED_QUESTIONS)
            return bool(has_ended)

        return await self._database.run(act)

    async def drop(self, id_: str) -> None:
        self._own.discard(id_)
        await self._database.run(lambda db: db.run("DELETE FROM @task WHERE id = %(id)s", id=id_))

    async def renew(self) -> None:
        def act(db: Transaction) -> None:
            db.run(_HOLD, process=self._database.process)
            self._sweep(db)

        await self._database.run(act)

    async def leave(self) -> None:
        def act(db: Transaction) -> None:
            own = "status = 'working' AND owner = %(process)s"
            self._update(db, "status = 'failed', outcome = %(outcome)s", own, outcome=STOPPED)
            db.run(_CLOSED_QUESTIONS)

        if self._own:
            await self._database.run(act)
            self._own.clear()

    async def changes(self, after: int, watched: Collection[str]) -> Changes:
        own, process = frozenset(self._own), self._database.process
        take = f"DELETE FROM @question WHERE {_ANSWERED} RETURNING task, key, answer"  # noqa: S608

        def act(db: Transaction) -> Changes:
            version = db.value("SELECT value FROM @fact WHERE name = 'tasks'")
            ended: frozenset[str] = frozenset()
            answers: dict[str, dict[str, bytes]] = {}
            if own:
                working = "SELECT id FROM @task WHERE status = 'working' AND owner = %(process)s"
                ended = own.difference(id_ for (id_,) in db.rows(working, process=process))
                for id_, key, answer in db.rows(take, process=process):
                    answers.setdefault(id_, {})[key] = answer
            these = f"id = ANY(%(ids)s) AND version > %(after)s AND until_ms > {_NOW}"
            seen = _read(db, these, ids=list(watched), after=after) if watched else []
            return Changes(version, ended, answers, seen)

        return await self._database.run(act)

    async def _change(self, id_: str, assign: str, **values: Any) -> bool:
        return await self._database.run(lambda db: bool(self._update(db, assign, _IS_OWN, id=id_, **values)))

    # --- in a transaction ---

    def _update(self, db: Transaction, assign: str, where: str, **values: Any) -> int:
        """Change tasks and return how many have changed. All get the same new version."""
        values |= {"process": self._database.process, "version": db.value(_NEXT_VERSION)}
        return db.run(
            f"UPDATE @task SET {assign}, updated_ms = {_NOW}, version = %(version)s WHERE {where}",  # noqa: S608
            **values,
        )

    def _sweep(self, db: Transaction) -> None:
        """Fail the tasks of dead processes, and delete what is over."""
        process = self._database.process
        if db.rows(f"SELECT 1 FROM @task WHERE {_IS_LOST} LIMIT 1", process=process):  # noqa: S608
            self._update(db, "status = 'failed', outcome = %(outcome)s", _IS_LOST, outcome=LOST)
            db.run(_CLOSED_QUESTIONS)
        over = f"DELETE FROM @lease WHERE until_ms <= {_NOW} AND process != %(process)s"  # noqa: S608
        db.run(over, process=process)
        db.run(f"DELETE FROM @task WHERE until_ms <= {_NOW}")  # noqa: S608

    def _keep_lease(self, db: Transaction) -> None:
        if self._own:
            db.run(_HOLD, process=self._database.process)

    def _give_up_lease(self, db: Transaction) -> None:
        db.run("DELETE FROM @lease WHERE process = %(process)s", process=self._database.process)


def _read(db: Transaction, where: str, **values: Any) -> list[Task]:
    """Return tasks with their open questions."""
    rows = db.rows(f"SELECT {_COLUMNS} FROM @task WHERE {where}", **values)  # noqa: S608
    questions: dict[str, dict[str, bytes]] = {}
    asked = "SELECT task, key, request FROM @question WHERE answer IS NULL AND task = ANY(%(ids)s)"
    for id_, key, request in db.rows(asked, ids=[row[0] for row in rows]) if rows else ():
        questions.setdefault(id_, {})[key] = request
    tasks = []
    for row in rows:
        new, rest = NewTask(*row[:_NEW_COLUMNS]), row[_NEW_COLUMNS:]
        tasks.append(Task._make((new, *rest, questions.get(new.id, {}))))
    return tasks
