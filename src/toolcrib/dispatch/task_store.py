"""Tasks in one SQLite file, which all processes of a server share.

`TaskFile` is the file; `TaskStore` uses it from a thread of its own, which also looks for what other
processes have written: answers, and tasks that were cancelled or have expired.

A task is `working` until one of its ends is written, and never changes after that. Each process that runs
tasks renews a lease; tasks of a process without a lease are failed by the next process that sees them. Times
are on the monotonic clock, which all processes share until the machine restarts: setting the clock does not
expire a task.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from toolcrib.state.files import create_database
from toolcrib.validation import codec

logger = logging.getLogger("toolcrib")

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]
T = TypeVar("T")

NS = 1_000_000_000
LEASE_NS = 10 * NS
"""How long the tasks of a killed process look as if they were running."""
RENEW_NS = 2 * NS
POLL_S = 0.1
"""How often a process with open tasks looks for what other processes have written."""
LOCK_S = 2.0
WAIT_S = 5.0
"""How long a request waits for the file."""
CLOSE_S = 2.0

LOST = b'{"code":-32603,"message":"The task was lost: the server process that ran it has ended."}'
STOPPED = b'{"code":-32603,"message":"The task was stopped: the server has shut down."}'

_APPLICATION_ID = 0x746F6F74
_FORMAT = 1
_SCHEMA = (
    """CREATE TABLE tasks (
        id TEXT PRIMARY KEY, owner TEXT, principal TEXT, tool TEXT, digest TEXT, status TEXT, message TEXT,
        created_ms INTEGER, updated_ms INTEGER, created_ns INTEGER, ttl_ms INTEGER, version INTEGER,
        outcome BLOB
    ) WITHOUT ROWID""",
    "CREATE INDEX open_tasks ON tasks (owner) WHERE status = 'working'",
    """CREATE TABLE questions (
        task TEXT, key TEXT, request BLOB, answer BLOB, PRIMARY KEY (task, key)
    ) WITHOUT ROWID""",
    "CREATE TABLE owners (id TEXT PRIMARY KEY, until_ns INTEGER) WITHOUT ROWID",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_FORMAT}",
)
_IS_EXPIRED = """(
    :now_ns - created_ns >= ttl_ms * 1000000 OR (created_ns > :now_ns AND :wall_ms - created_ms >= ttl_ms)
)"""
"""A time of creation that lies ahead was written before the machine restarted; then the wall clock counts."""

_SIZE = "(1000 + ifnull(length(outcome), 0))"
"""The room that a task takes: its result, and about as much as the rest of its row."""
_ROOM = f"SELECT total({_SIZE}) FROM tasks WHERE status != 'working'"  # noqa: S608 # constants
_MAKE_ROOM = f"""DELETE FROM tasks WHERE id != :id AND id IN (SELECT id FROM (
    SELECT id, sum({_SIZE}) OVER (
        ORDER BY id != :id, principal = (SELECT principal FROM tasks WHERE id = :id), updated_ms DESC, id
    ) AS total FROM tasks WHERE status != 'working'
) WHERE total > :most)"""  # noqa: S608 # constants

_THESE = "json_each(:ids) CROSS JOIN tasks ON tasks.id = value"
"""The tasks of a list of ids. The list is the outer loop: its length is the cost, not the number of tasks."""


def _ids(ids: Iterable[str]) -> dict[str, str]:
    return {"ids": codec.write(list(ids)).decode()}


class TaskStoreError(OSError):
    """The file cannot be used now."""


class TooManyTasksError(Exception):
    """As many tasks are open as may be."""


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task to be created. `principal` is the binding of the caller."""

    principal: str
    tool: str
    digest: str
    ttl_ms: int
    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))


@dataclass(frozen=True, slots=True)
class TaskRow:
    """The state of a task. `outcome` is the JSON of its result, or of its error where it has failed.
    `questions` are the requests that are open, as JSON."""

    id: str
    principal: str
    tool: str
    digest: str
    status: Status
    message: str | None
    created_ms: int
    updated_ms: int
    ttl_ms: int
    version: int
    outcome: bytes | None = None
    questions: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Signals:
    """What has happened to the tasks of a process: those that were ended from outside, answers by task and
    key, and watched tasks that have changed."""

    ended: set[str] = field(default_factory=set)
    answers: dict[str, dict[str, bytes]] = field(default_factory=dict)
    changed: list[TaskRow] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.ended or self.answers or self.changed)


class TaskFile:
    """The file, for one thread. `owner` stands for this process.

    All methods raise sqlite3.Error or OSError where the file cannot be used.
    """

    def __init__(
        self,
        path: Path,
        owner: str,
        *,
        now_ns: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self.owner = owner
        self._now_ns = now_ns
        self._wall = wall
        self._db: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._seen: tuple[int, int] | None = None

    # --- the file ---

    def open(self) -> None:
        """Open the file where it is not open, and create it where there is none."""
        if self._db is not None:
            if self._file_id() == self._file:
                return
            self.close()  # it was deleted or replaced
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        create_database(self.path)  # private: it holds results of tools
        self._check_header()
        db = sqlite3.connect(self.path, timeout=LOCK_S, isolation_level=None, check_same_thread=False)
        try:
            db.execute("BEGIN IMMEDIATE")
            self._create(db)
            db.execute("COMMIT")
            # After the commit, so that the application id is in the file and not only in its journal.
            db.execute("PRAGMA journal_mode = WAL").fetchone()
            db.execute("PRAGMA synchronous = NORMAL")
            self._file = self._file_id()
        except BaseException:
            db.close()
            raise
        self._db = db

    def close(self) -> None:
        db, self._db = self._db, None
        self._seen = None
        if db is not None:
            db.close()

    def _check_header(self) -> None:
        with self.path.open("rb") as file:
            header = file.read(100)
        if header and (
            header[:16] != b"SQLite format 3\0" or int.from_bytes(header[68:72], "big") != _APPLICATION_ID
        ):
            raise OSError(f"{self.path} is not a file of tasks")

    @staticmethod
    def _create(db: sqlite3.Connection) -> None:
        if db.execute("PRAGMA user_version").fetchone()[0] > _FORMAT:
            raise OSError("the file was made by a newer toolcrib")
        if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            for statement in _SCHEMA:
                db.execute(statement)

    def _file_id(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self.open()
        db = self._db
        assert db is not None  # `open` has set it  # noqa: S101
        db.execute("BEGIN IMMEDIATE")
        try:
            yield db
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _times(self) -> dict[str, int]:
        return {"now_ns": self._now_ns(), "wall_ms": int(self._wall() * 1000)}

    # --- owners ---

    def renew(self) -> None:
        """Renew the lease of this process, fail tasks of dead processes, and delete expired tasks."""
        with self._transaction() as db:
            self._renew(db)

    def _renew(self, db: sqlite3.Connection) -> None:
        db.execute("REPLACE INTO owners VALUES (?, ?)", (self.owner, self._now_ns() + LEASE_NS))
        self._sweep(db)

    def _sweep(self, db: sqlite3.Connection) -> None:
        times = self._times()
        # A lease too far ahead is of a dead process, too: it was written before the machine restarted.
        lease = (times["now_ns"], times["now_ns"] + LEASE_NS, self.owner)
        db.execute("DELETE FROM owners WHERE (until_ns <= ? OR until_ns > ?) AND id != ?", lease)
        lost = "owner != ? AND owner NOT IN (SELECT id FROM owners)"
        self._end(db, "failed", LOST, lost, (self.owner,))
        db.execute(f"DELETE FROM tasks WHERE {_IS_EXPIRED}", times)  # noqa: S608 # a constant
        db.execute("DELETE FROM questions WHERE task NOT IN (SELECT id FROM tasks WHERE status = 'working')")

    def leave(self) -> None:
        """Fail what this process still runs, and give up its lease."""
        with self._transaction() as db:
            self._end(db, "failed", STOPPED, "owner = ?", (self.owner,))
            db.execute("DELETE FROM owners WHERE id = ?", (self.owner,))

    # --- the process that runs a task ---

    def create(self, task: NewTask, max_open: int, max_per_principal: int | None) -> TaskRow:
        """Add a task. Raises TooManyTasksError."""
        with self._transaction() as db:
            self._renew(db)
            count = "SELECT count(*) FROM tasks WHERE status = 'working'"
            if db.execute(count).fetchone()[0] >= max_open:
                raise TooManyTasksError(f"{max_open} tasks are open")
            own = db.execute(f"{count} AND principal = ?", (task.principal,)).fetchone()[0]
            if max_per_principal is not None and own >= max_per_principal:
                raise TooManyTasksError(f"{max_per_principal} tasks of this caller are open")
            times = self._times()
            values = (task.id, self.owner, task.principal, task.tool, task.digest, "working", None)
            stamps = (times["wall_ms"], times["wall_ms"], times["now_ns"], task.ttl_ms, 1, None)
            db.execute(f"INSERT INTO tasks VALUES ({', '.join('?' * 13)})", (*values, *stamps))  # noqa: S608
        return self._read(task.id)  # type: ignore[return-value]  # it is there

    def note(self, id_: str, message: str) -> None:
        """Set the words about a task that is working."""
        with self._transaction() as db:
            db.execute(
                "UPDATE tasks SET message = ?, updated_ms = ?, version = version + 1"
                " WHERE id = ? AND status = 'working'",
                (message, self._times()["wall_ms"], id_),
            )

    def ask(self, id_: str, requests: Mapping[str, bytes]) -> None:
        """Add questions to a task. Keys must be new."""
        with self._transaction() as db:
            rows = [(id_, key, request, None) for key, request in requests.items()]
            db.executemany("INSERT INTO questions VALUES (?, ?, ?, ?)", rows)
            self._touch(db, id_)

    def withdraw(self, id_: str, keys: Iterable[str]) -> None:
        """Remove questions that are no longer asked."""
        with self._transaction() as db:
            db.executemany("DELETE FROM questions WHERE task = ? AND key = ?", [(id_, key) for key in keys])
            self._touch(db, id_)

    def finish(self, id_: str, status: Status, outcome: bytes | None, max_kept_bytes: int) -> int:
        """Write the end of a task, unless it has one. Where ended tasks need more room than they may, the
        oldest expire, those of the same principal first. Return how many have."""
        with self._transaction() as db:
            self._end(db, status, outcome, "id = ?", (id_,))
            db.execute("DELETE FROM questions WHERE task = ?", (id_,))
            if db.execute(_ROOM).fetchone()[0] <= max_kept_bytes:
                return 0
            return db.execute(_MAKE_ROOM, {"id": id_, "most": max_kept_bytes}).rowcount

    def forget(self, id_: str) -> None:
        """Delete a task that no client knows of."""
        with self._transaction() as db:
            db.execute("DELETE FROM tasks WHERE id = ?", (id_,))
            db.execute("DELETE FROM questions WHERE task = ?", (id_,))

    def collect(self, open_ids: set[str], watched: Mapping[str, int]) -> Signals:
        """Return what has happened to open tasks of this process, and watched tasks in another version than
        the given one. Answers are returned once."""
        self.open()
        db = self._db
        assert db is not None  # `open` has set it  # noqa: S101
        signals = Signals()
        working = db.execute("SELECT id FROM tasks WHERE owner = ? AND status = 'working'", (self.owner,))
        signals.ended = open_ids - {id_ for (id_,) in working}
        is_own = "task IN (SELECT id FROM tasks WHERE owner = ? AND status = 'working')"
        answered = f"FROM questions WHERE answer IS NOT NULL AND {is_own}"
        if db.execute(f"SELECT 1 {answered} LIMIT 1", (self.owner,)).fetchone():
            with self._transaction():
                for id_, key, answer in db.execute(f"SELECT task, key, answer {answered}", (self.owner,)):
                    signals.answers.setdefault(id_, {})[key] = answer
                db.execute(f"DELETE {answered}", (self.owner,))
        if watched:
            versions = f"SELECT tasks.id, version FROM {_THESE}"  # noqa: S608 # a constant
            changed = [
                id_ for id_, version in db.execute(versions, _ids(watched)) if version != watched.get(id_)
            ]
            signals.changed = [row for id_ in changed if (row := self._read(id_)) is not None]
        return signals

    def has_changed(self) -> bool:
        """Whether this process or another has written since the last time this was called."""
        self.open()
        db = self._db
        assert db is not None  # `open` has set it  # noqa: S101
        before, self._seen = self._seen, (db.execute("PRAGMA data_version").fetchone()[0], db.total_changes)
        return before != self._seen

    def look_again(self) -> None:
        """Have `has_changed` say yes the next time."""
        self._seen = None

    # --- clients, in any process ---

    def find_tools(self, ids: Sequence[str], principal: str) -> dict[str, str]:
        """Return those of the tasks that are of this principal, each with its tool."""
        self.open()
        assert self._db is not None  # `open` has set it  # noqa: S101
        query = f"SELECT tasks.id, tool FROM {_THESE} WHERE principal = :principal AND NOT {_IS_EXPIRED}"  # noqa: S608
        return dict(
            self._db.execute(query, {**_ids(ids), "principal": principal, **self._times()}).fetchall()
        )

    def find(self, id_: str, principal: str) -> TaskRow | None:
        """Return a task of this principal; None for one that is unknown, expired, or of somebody else."""
        self.open()
        row = self._read(id_)
        if row is None or row.principal != principal:
            return None
        if row.status in ("working", "input_required") and not self._is_alive(id_):
            with self._transaction() as db:
                self._sweep(db)
            row = self._read(id_)
        return row

    def answer(self, id_: str, principal: str, answers: Mapping[str, bytes]) -> None:
        """Write answers. Those to questions that are not open are ignored."""
        update = (
            "UPDATE questions SET answer = ? WHERE task = ? AND key = ? AND answer IS NULL"
            " AND task IN (SELECT id FROM tasks WHERE principal = ? AND status = 'working')"
        )
        with self._transaction() as db:
            written = 0
            for key, answer in answers.items():
                written += db.execute(update, (answer, id_, key, principal)).rowcount
            if written:
                self._touch(db, id_)

    def cancel(self, id_: str, principal: str) -> None:
        """End a task that is working. The process that runs it will see that."""
        with self._transaction() as db:
            self._end(db, "cancelled", None, "id = ? AND principal = ?", (id_, principal))
            db.execute(
                "DELETE FROM questions WHERE task = ? AND task NOT IN"
                " (SELECT id FROM tasks WHERE status = 'working')",
                (id_,),
            )

    # --- inside ---

    def _end(
        self,
        db: sqlite3.Connection,
        status: Status,
        outcome: bytes | None,
        where: str,
        values: tuple[Any, ...],
    ) -> None:
        db.execute(
            "UPDATE tasks SET status = ?, outcome = ?, updated_ms = ?, version = version + 1"  # noqa: S608
            f" WHERE status = 'working' AND {where}",
            (status, outcome, self._times()["wall_ms"], *values),
        )

    def _touch(self, db: sqlite3.Connection, id_: str) -> None:
        db.execute(
            "UPDATE tasks SET updated_ms = ?, version = version + 1 WHERE id = ?",
            (self._times()["wall_ms"], id_),
        )

    def _is_alive(self, id_: str) -> bool:
        assert self._db is not None  # `find` has opened it  # noqa: S101
        now_ns = self._now_ns()
        found = self._db.execute(
            "SELECT tasks.owner, until_ns FROM tasks LEFT JOIN owners ON owners.id = tasks.owner"
            " WHERE tasks.id = ?",
            (id_,),
        ).fetchone()
        if found is None:
            return True  # there is nothing to fail
        owner, until_ns = found
        return owner == self.owner or (until_ns is not None and now_ns < until_ns <= now_ns + LEASE_NS)

    def _read(self, id_: str) -> TaskRow | None:
        assert self._db is not None  # the callers have opened it  # noqa: S101
        columns = (
            "id, principal, tool, digest, status, message, created_ms, updated_ms, ttl_ms, version, outcome"
        )
        query = f"SELECT {columns} FROM tasks WHERE id = :id AND NOT {_IS_EXPIRED}"  # noqa: S608 # constants
        self._db.execute("BEGIN")  # both queries see the same state
        try:
            found = self._db.execute(query, {"id": id_, **self._times()}).fetchone()
            open_questions = dict(
                self._db.execute(
                    "SELECT key, request FROM questions WHERE task = ? AND answer IS NULL", (id_,)
                )
            )
        finally:
            self._db.execute("COMMIT")
        if found is None:
            return None
        row = TaskRow(*found)
        is_waiting = row.status == "working" and open_questions
        return replace(row, status="input_required", questions=open_questions) if is_waiting else row


class TaskStore:
    """Uses the file from a thread of its own, which starts with the first `run`.

    `open` are the ids of tasks that this process runs, `watched` the versions of tasks that somebody wants to
    know changes of. While there are any, `on_signals` is called with what other processes, or this one, have
    written; on the event loop of the last `run`.
    """

    def __init__(
        self,
        path: Path,
        on_signals: Callable[[Signals], None],
        *,
        now_ns: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.path = path
        self.open: set[str] = set()
        self.watched: dict[str, int] = {}
        self._on_signals = on_signals
        self._now_ns = now_ns
        self._file = TaskFile(path, secrets.token_hex(8), now_ns=now_ns, wall=wall)
        self._jobs: queue.SimpleQueue[tuple[Callable[[TaskFile], Any], Future[Any]] | None] = (
            queue.SimpleQueue()
        )
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._renewed_ns = 0
        self._has_lease = False
        self._is_failing = False

    async def run(self, act: Callable[[TaskFile], T], wait_s: float = WAIT_S) -> T:
        """Return what `act` returns for the file. Raises TaskStoreError, and what `act` raises by itself."""
        job = self._submit(act)
        try:
            async with asyncio.timeout(wait_s):
                done: T = await asyncio.shield(asyncio.wrap_future(job))
                return done
        except TimeoutError:
            raise TaskStoreError(f"{self.path} did not respond within {wait_s:g} s") from None

    async def create(self, task: NewTask, max_open: int, max_per_principal: int | None) -> TaskRow:
        """Add a task that this process runs. Raises TooManyTasksError and TaskStoreError."""

        def act(file: TaskFile) -> TaskRow:
            row = file.create(task, max_open, max_per_principal)
            self._has_lease = True
            self.open.add(task.id)  # here: before the file is looked at again
            return row

        return await self.run(act)

    def post(self, act: Callable[[TaskFile], object]) -> None:
        """Have `act` called for the file, without waiting for that."""
        self._submit(act)

    def discard(self, id_: str) -> None:
        """Delete a task that no client knows of."""

        def act(file: TaskFile) -> None:
            self.open.discard(id_)
            file.forget(id_)

        self.post(act)

    def wake(self) -> None:
        """Look for changes now."""
        self.post(TaskFile.look_again)

    async def leave(self) -> None:
        """Fail the tasks that this process still runs."""
        if self._has_lease:
            self._has_lease = False
            try:
                await self.run(lambda file: file.leave(), CLOSE_S)
            except TaskStoreError as error:
                logger.warning("tasks: cannot write to %s: %s", self.path, error)

    async def close(self) -> None:
        """Fail what is still open, and end the thread. The store can be used again."""
        await self.leave()
        thread, self._thread = self._thread, None
        self.open.clear()
        self.watched.clear()
        if thread is not None:
            self._jobs.put(None)
            thread.join(CLOSE_S)  # its last step: closing the file

    def _submit(self, act: Callable[[TaskFile], Any]) -> Future[Any]:
        self._loop = asyncio.get_running_loop()
        done: Future[Any] = Future()
        self._jobs.put((act, done))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="toolcrib-tasks", daemon=True)
            self._thread.start()
        return done

    # --- the thread ---

    def _work(self) -> None:
        while True:
            is_polling = bool(self.open or self.watched)
            try:
                job = self._jobs.get(timeout=POLL_S if is_polling else None)
            except queue.Empty:
                self._poll()
                continue
            if job is None:
                self._file.close()
                return
            self._do(*job)
            if is_polling or self.open or self.watched:
                self._poll()

    def _do(self, act: Callable[[TaskFile], Any], done: Future[Any]) -> None:
        try:
            done.set_result(act(self._file))
        except (sqlite3.Error, OSError) as error:
            self._file.close()
            done.set_exception(TaskStoreError(f"{self.path}: {error}"))
        except Exception as error:
            done.set_exception(error)

    def _poll(self) -> None:
        try:
            now_ns = self._now_ns()
            if self.open and not 0 <= now_ns - self._renewed_ns < RENEW_NS:
                self._file.renew()
                self._renewed_ns = now_ns
            if not self._file.has_changed():
                return
            signals = self._file.collect(set(self.open), dict(self.watched))
        except (sqlite3.Error, OSError) as error:
            self._file.close()
            if not self._is_failing:
                logger.warning("tasks: cannot read %s: %s", self.path, error)
            self._is_failing = True
            return
        self._is_failing = False
        if signals and self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._on_signals, signals)
            except RuntimeError:
                pass  # the loop is closed
