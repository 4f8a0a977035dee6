"""Tasks in SQLite.

A task is `queued` or `working` until its end is written, and never changes after that. Tasks of a process
whose lease has run out are failed by the next process that sweeps the file.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from toolcrib.state.base import Changes, NewTask, Status, Task
from toolcrib.state.sqlite.file import SQLiteFile, Tables, Times, last_version, next_version
from toolcrib.validation import codec

logger = logging.getLogger("toolcrib")

QUIET_S = 60.0
"""The least time between two messages about results that expire early."""
LOST = b'{"code":-32603,"message":"The task was lost: the server process that ran it has ended."}'
STOPPED = b'{"code":-32603,"message":"The task was stopped: the server has shut down."}'

_SCHEMA = (
    """CREATE TABLE task (
        id TEXT PRIMARY KEY, binding TEXT, tool TEXT, fingerprint TEXT, digest TEXT, ttl_ms INTEGER,
        payload BLOB, status TEXT, message TEXT, created_ms INTEGER, updated_ms INTEGER, version INTEGER,
        attempt INTEGER, owner TEXT, outcome BLOB, queue TEXT, until_ns INTEGER, until_ms INTEGER
    ) WITHOUT ROWID""",
    "CREATE INDEX task_open ON task (owner, binding) WHERE status IN ('queued', 'working')",
    "CREATE INDEX task_until ON task (until_ns)",
    """CREATE TABLE question (
        task TEXT, key TEXT, request BLOB, answer BLOB, PRIMARY KEY (task, key)
    ) WITHOUT ROWID""",
)
_COLUMNS = (
    "id, binding, tool, fingerprint, digest, ttl_ms, payload, status, message, created_ms, updated_ms,"
    " version, attempt, owner, outcome"
)
_NEW_COLUMNS = len(NewTask._fields)
_IS_OPEN = "status IN ('queued', 'working')"
_IS_OWN = "id = :id AND status = 'working' AND owner = :process"
_THESE = "SELECT value FROM json_each(:ids)"
_CLOSED_QUESTIONS = "DELETE FROM question WHERE task NOT IN (SELECT id FROM task WHERE status = 'working')"
_SIZE = "(1000 + ifnull(length(outcome), 0))"
"""The room that a task takes: its result, and about as much as the rest of its row."""
_ROOM = f"SELECT total({_SIZE}) FROM task WHERE NOT {_IS_OPEN}"  # noqa: S608 # constants
_MAKE_ROOM = f"""DELETE FROM task WHERE id != :id AND id IN (SELECT id FROM (
    SELECT id, sum({_SIZE}) OVER (
        ORDER BY id != :id, binding = (SELECT binding FROM task WHERE id = :id), updated_ms DESC, id
    ) AS total FROM task WHERE NOT {_IS_OPEN}
) WHERE total > :most)"""  # noqa: S608 # constants


def _update(db: sqlite3.Connection, assign: str, where: str, values: Mapping[str, Any]) -> int:
    """Change tasks and return how many have changed. All get the same new version."""
    values = {**values, "version": next_version(db)}
    statement = f"UPDATE task SET {assign}, updated_ms = :wall_ms, version = :version WHERE {where}"  # noqa: S608
    return db.execute(statement, values).rowcount


def _sweep(db: sqlite3.Connection, times: Times) -> None:
    lost = "status = 'working' AND owner != :process AND owner NOT IN (SELECT process FROM lease)"
    if db.execute(f"SELECT 1 FROM task WHERE {lost} LIMIT 1", times).fetchone():  # noqa: S608
        _update(db, "status = 'failed', outcome = :outcome", lost, {**times, "outcome": LOST})
    db.execute("DELETE FROM task WHERE until_ns <= :now_ns", times)
    db.execute(_CLOSED_QUESTIONS)


TASKS = Tables(_SCHEMA, _sweep, expiring=["task"])


class SQLiteTasks:
    """TaskStore in a SQLite database."""

    def __init__(self, file: SQLiteFile) -> None:
        self._file = file
        self._own: set[str] = set()
        self._quiet_until_s = 0.0
        file.is_in_use.append(lambda: bool(self._own))

    async def create(
        self, task: NewTask, *, queue: str | None, most: int, most_own: int | None
    ) -> Task | None:
        owner = self._file.process if queue is None else None

        def act(db: sqlite3.Connection) -> Task | None:
            times = self._file.times()
            if owner is not None:
                self._file.hold_lease(db)
                self._file.sweep(db)
            count = f"SELECT count(*) FROM task WHERE {_IS_OPEN}"  # noqa: S608
            if db.execute(count).fetchone()[0] >= most:
                return None
            own = db.execute(f"{count} AND binding = ?", (task.binding,)).fetchone()[0]
            if most_own is not None and own >= most_own:
                return None
            status: Status = "queued" if owner is None else "working"
            now_ms, version = times["wall_ms"], next_version(db)
            created = Task(task, status, None, now_ms, now_ms, version, 0, owner, None, {})
            until = (times["now_ns"] + task.ttl_ms * 1_000_000, now_ms + task.ttl_ms)
            row = (*task, *created[1:-1], queue, *until)
            db.execute(f"INSERT INTO task VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608
            if owner is not None:
                self._own.add(task.id)
            return created

        return await self._file.write(act)

    async def claim(self, queues: Collection[str]) -> Task | None:
        def act(db: sqlite3.Connection) -> Task | None:
            found = db.execute(
                f"SELECT id FROM task WHERE status = 'queued' AND queue IN ({_THESE})"  # noqa: S608
                " AND until_ns > :now_ns ORDER BY created_ms, id LIMIT 1",
                {**self._file.times(), **_ids(queues)},
            ).fetchone()
            if found is None:
                return None
            self._file.hold_lease(db)
            values = {**self._file.times(), "id": found[0]}
            _update(db, "status = 'working', owner = :process, attempt = attempt + 1", "id = :id", values)
            self._own.add(found[0])
            return _read(db, "id = :id", values)[0]

        return await self._file.write(act)

    async def find(self, id_: str, binding: str) -> Task | None:
        where = "id = :id AND binding = :binding AND until_ns > :now_ns"
        lost = "status = 'working' AND owner != :process AND owner NOT IN (SELECT process FROM lease"

        def act(db: sqlite3.Connection) -> tuple[list[Task], bool]:
            values = {**self._file.times(), "id": id_, "binding": binding}
            dead = f"SELECT 1 FROM task WHERE {where} AND {lost} WHERE until_ns > :now_ns)"  # noqa: S608
            return _read(db, where, values), db.execute(dead, values).fetchone() is not None

        found, is_lost = await self._file.read(act)
        if is_lost:
            await self._file.write(self._file.sweep)
            found, _ = await self._file.read(act)
        return found[0] if found else None

    async def note(self, id_: str, message: str) -> bool:
        return await self._change(id_, "message = :message", message=message)

    async def ask(self, id_: str, questions: Mapping[str, bytes]) -> bool:
        def act(db: sqlite3.Connection) -> bool:
            if not _update(db, "owner = owner", _IS_OWN, {**self._file.times(), "id": id_}):
                return False
            rows = [(id_, key, request, None) for key, request in questions.items()]
            db.executemany("INSERT INTO question VALUES (?, ?, ?, ?)", rows)
            return True

        return await self._file.write(act)

    async def withdraw(self, id_: str, keys: Collection[str]) -> None:
        def act(db: sqlite3.Connection) -> None:
            db.executemany("DELETE FROM question WHERE task = ? AND key = ?", [(id_, key) for key in keys])
            _update(db, "owner = owner", _IS_OWN, {**self._file.times(), "id": id_})

        await self._file.write(act)

    async def answer(self, id_: str, binding: str, answers: Mapping[str, bytes]) -> None:
        where = "id = :id AND binding = :binding AND status = 'working'"
        give = "UPDATE question SET answer = ? WHERE task = ? AND key = ? AND answer IS NULL"

        def act(db: sqlite3.Connection) -> None:
            values = {**self._file.times(), "id": id_, "binding": binding}
            if db.execute(f"SELECT 1 FROM task WHERE {where}", values).fetchone() is not None:  # noqa: S608
                db.executemany(give, [(answer, id_, key) for key, answer in answers.items()])
                _update(db, "owner = owner", where, values)

        await self._file.write(act)

    async def finish(self, id_: str, status: Status, outcome: bytes | None, *, max_kept_bytes: int) -> bool:
        def act(db: sqlite3.Connection) -> bool:
            values = {**self._file.times(), "id": id_, "status": status, "outcome": outcome}
            has_ended = _update(db, "status = :status, outcome = :outcome", _IS_OWN, values)
            db.execute("DELETE FROM question WHERE task = ?", (id_,))
            if db.execute(_ROOM).fetchone()[0] > max_kept_bytes:
                dropped = db.execute(_MAKE_ROOM, {"id": id_, "most": max_kept_bytes}).rowcount
                if dropped and time.monotonic() >= self._quiet_until_s:
                    self._quiet_until_s = time.monotonic() + QUIET_S
                    logger.warning("%d ended tasks expired early: max_kept_bytes is reached", dropped)
            return bool(has_ended)

        has_ended = await self._file.write(act)
        self._own.discard(id_)
        return has_ended

    async def cancel(self, id_: str, binding: str) -> bool:
        where = f"id = :id AND binding = :binding AND {_IS_OPEN}"

        def act(db: sqlite3.Connection) -> bool:
            values = {**self._file.times(), "id": id_, "binding": binding}
            has_ended = _update(db, "status = 'cancelled'", where, values)
            db.execute(_CLOSED_QUESTIONS)
            return bool(has_ended)

        return await self._file.write(act)

    async def drop(self, id_: str) -> None:
        def act(db: sqlite3.Connection) -> None:
            self._own.discard(id_)
            db.execute("DELETE FROM task WHERE id = ?", (id_,))
            db.execute("DELETE FROM question WHERE task = ?", (id_,))

        await self._file.write(act)

    async def renew(self) -> None:
        def act(db: sqlite3.Connection) -> None:
            self._file.hold_lease(db)
            self._file.sweep(db)

        await self._file.write(act)

    async def leave(self) -> None:
        def act(db: sqlite3.Connection) -> None:
            own = "status = 'working' AND owner = :process"
            values = {**self._file.times(), "outcome": STOPPED}
            _update(db, "status = 'failed', outcome = :outcome", own, values)
            db.execute(_CLOSED_QUESTIONS)

        if self._own:
            await self._file.write(act)
            self._own.clear()

    async def changes(self, after: int, watched: Collection[str]) -> Changes:
        own = frozenset(self._own)
        is_own = "task IN (SELECT id FROM task WHERE status = 'working' AND owner = :process)"
        answered = f"FROM question WHERE answer IS NOT NULL AND {is_own}"

        def act(db: sqlite3.Connection) -> tuple[Changes, bool]:
            values = {**self._file.times(), **_ids(watched), "after": after}
            working = db.execute("SELECT id FROM task WHERE status = 'working' AND owner = :process", values)
            ended = own.difference(id_ for (id_,) in working)
            these = f"id IN ({_THESE}) AND version > :after AND until_ns > :now_ns"
            seen = _read(db, these, values) if watched else []
            is_answered = db.execute(f"SELECT 1 {answered} LIMIT 1", values).fetchone() is not None
            return Changes(last_version(db), ended, {}, seen), is_answered

        def take(db: sqlite3.Connection) -> dict[str, dict[str, bytes]]:
            values, answers = self._file.times(), dict[str, dict[str, bytes]]()
            for id_, key, answer in db.execute(f"SELECT task, key, answer {answered}", values):
                answers.setdefault(id_, {})[key] = answer
            db.execute(f"DELETE {answered}", values)
            return answers

        found, is_answered = await self._file.read(act)
        return found._replace(answers=await self._file.write(take)) if is_answered else found

    async def _change(self, id_: str, assign: str, **values: Any) -> bool:
        def act(db: sqlite3.Connection) -> bool:
            return bool(_update(db, assign, _IS_OWN, {**self._file.times(), "id": id_, **values}))

        return await self._file.write(act)


def _ids(ids: Iterable[str]) -> dict[str, str]:
    return {"ids": codec.write(list(ids)).decode()}


def _read(db: sqlite3.Connection, where: str, values: Mapping[str, Any]) -> list[Task]:
    """Return tasks with their open questions."""
    rows = db.execute(f"SELECT {_COLUMNS} FROM task WHERE {where}", values).fetchall()  # noqa: S608
    questions: dict[str, dict[str, bytes]] = {}
    asked = f"SELECT task, key, request FROM question WHERE answer IS NULL AND task IN ({_THESE})"  # noqa: S608
    for id_, key, request in db.execute(asked, _ids(row[0] for row in rows)):
        questions.setdefault(id_, {})[key] = request
    tasks = []
    for row in rows:
        new, rest = NewTask(*row[:_NEW_COLUMNS]), row[_NEW_COLUMNS:]
        tasks.append(Task._make((new, *rest, questions.get(new.id, {}))))
    return tasks
