"""PostgreSQL as one process uses it: threads with one connection each. The only module that imports psycopg.

    database = Database("postgresql://db.example.com/tools")
    await database.run(lambda db: db.run("DELETE FROM @lease WHERE process = %(process)s", process="a"))

`@` is the schema. A call of psycopg that is cancelled waits ten seconds for a server that hangs, so none is
cancelled: the caller waits beside it, and when it gives up, the socket is shut down and the thread goes on.
"""

from __future__ import annotations

import asyncio
import os
import queue
import re
import secrets
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg import sql
from psycopg.types.string import StrDumper

from toolcrib.errors import ConfigurationError
from toolcrib.state.base import StateUnavailable
from toolcrib.state.breaker import Breaker

T = TypeVar("T")
Rows = list[tuple[Any, ...]]

WAIT_S = 5.0
"""How long a request waits for the thread."""
CONNECT_S = 2
BEAT_S = 2.0
CLOSE_S = 5.0
_CONFLICTS = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
_MOST_TRIES = 3
_MIGRATE = "toolcrib fleet migrate"


class DuplicateError(StateUnavailable):
    """A row has a key that another one has."""


class Transaction:
    """Statements of one transaction. Parameters are `%(name)s`; a percent sign is written twice."""

    def __init__(self, connection: psycopg.Connection[Any], schema: str) -> None:
        self._connection = connection
        self._schema = schema

    def rows(self, statement: str, **values: Any) -> Rows:
        """Return the rows of a statement."""
        found: Rows = self._execute(statement, values).fetchall()
        return found

    def value(self, statement: str, **values: Any) -> Any:
        """Return the first value of the first row, or None."""
        row = self._execute(statement, values).fetchone()
        return None if row is None else row[0]

    def run(self, statement: str, **values: Any) -> int:
        """Return how many rows were written."""
        return int(self._execute(statement, values).rowcount)

    def copy(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Append rows, much faster than by statements."""
        statement = _in_schema(f"COPY @{table} FROM STDIN", self._schema)
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)

    def run_many(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run a statement for each row, with `%s` as parameters."""
        with self._connection.cursor() as cursor:
            cursor.executemany(_in_schema(statement, self._schema), rows)

    def open(self, statement: str, values: dict[str, Any]) -> psycopg.ServerCursor[Any]:
        """Return a cursor over rows as they are now."""
        self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor = self._connection.cursor("rows")
        cursor.execute(_in_schema(statement, self._schema), values)
        return cursor

    def _execute(self, statement: str, values: dict[str, Any]) -> psycopg.Cursor[Any]:
        return self._connection.execute(_in_schema(statement, self._schema), values)


@lru_cache(1024)
def _in_schema(statement: str, schema: str) -> str:
    return statement.replace("@", f'"{schema}".')


class _TextDumper(StrDumper):  # type: ignore[misc]
    """PostgreSQL has no text with NUL or lone surrogates. What is stored as text here is for people to read
    or search; the records themselves are bytes."""

    def dump(self, obj: str) -> bytes:
        return obj.replace("\0", "\ufffd").encode("utf-8", "replace")


class Worker:
    """A thread with one connection, which starts and connects when it is needed."""

    def __init__(self, url: str, schema: str, breaker: Breaker) -> None:
        self.url = url
        self.schema = schema
        self.breaker = breaker
        self.beats: list[Callable[[Transaction], object]] = []
        """Called every two seconds in one transaction, also while a tool blocks the event loop."""
        self.goodbyes: list[Callable[[Transaction], object]] = []
        """Called in one transaction at the end."""
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[_Job | None] | None = None
        self._thread: threading.Thread | None = None
        self._connection: psycopg.Connection[Any] | None = None
        self._started_s: float | None = None
        """When the call that runs now began."""
        self._is_committing = False

    async def run(
        self, act: Callable[[Transaction], T], wait_s: float = WAIT_S, *, stays_open: bool = False
    ) -> T:
        """Call a function in a transaction, which may stay open, and return what it returns. Without an event
        loop this blocks, and never suspends."""
        if self.breaker.is_open:
            if self.breaker.is_probe_due():
                self._interrupt(WAIT_S)
                self._submit(_Job(lambda db: db.value("SELECT 1"), Future(), False))
            raise StateUnavailable(f"{self.breaker.name} is not available")
        self._submit(job := _Job(act, Future(), stays_open))
        try:
            if asyncio._get_running_loop() is None:
                result: T = job.done.result(wait_s)
                return result
            waiting = asyncio.wrap_future(job.done)
            waiting.add_done_callback(lambda done: done.cancelled() or done.exception())  # or it is logged
            async with asyncio.timeout(wait_s):
                return await asyncio.shield(waiting)
        except (TimeoutError, FutureTimeoutError):
            if job.done.done():
                raise
            in_doubt = not job.done.cancel()
            failure = StateUnavailable(f"PostgreSQL did not respond within {wait_s:g} s", in_doubt=in_doubt)
            self.breaker.fail(failure, hung=True)
            self._interrupt()
            raise failure from None

    async def read(self, statement: str, size: int, **values: Any) -> AsyncGenerator[Rows, None]:
        """Yield the rows of a query as they are now, in parts. The worker is closed at the end."""
        try:
            cursor = await self.run(lambda db: db.open(statement, values), stays_open=True)
            try:
                while rows := await self.run(lambda _: cursor.fetchmany(size), stays_open=True):
                    yield rows
            finally:
                await self.run(lambda _: cursor.close(), stays_open=True)
        finally:
            await self.close()

    def _submit(self, job: _Job) -> None:
        with self._lock:
            if self._jobs is None:
                self._jobs = queue.SimpleQueue()
                self._thread = threading.Thread(
                    target=self._work, args=(self._jobs,), name="toolcrib-postgresql", daemon=True
                )
                self._thread.start()
            self._jobs.put(job)

    def _interrupt(self, after_s: float = 0.0) -> None:
        """End the call that runs now, if it has taken so long."""
        connection, started_s = self._connection, self._started_s
        if connection is not None and started_s is not None and time.monotonic() - started_s >= after_s:
            with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as twin:
                twin.shutdown(socket.SHUT_RDWR)

    async def close(self) -> None:
        """Do what was submitted, and end the thread. It can be used again."""
        with self._lock:
            jobs, thread, self._jobs, self._thread = self._jobs, self._thread, None, None
        if jobs is None or thread is None:
            return
        if self.goodbyes and not self.breaker.is_open:
            jobs.put(_Job(lambda db: [act(db) for act in self.goodbyes], Future(), False))
        jobs.put(None)
        if asyncio._get_running_loop() is None:
            thread.join(CLOSE_S)
        else:
            await asyncio.to_thread(thread.join, CLOSE_S)

    # --- on the thread ---

    def _work(self, jobs: queue.SimpleQueue[_Job | None]) -> None:
        beat_at = time.monotonic()
        while True:
            if self.beats and time.monotonic() >= beat_at:
                beat_at = time.monotonic() + BEAT_S
                self._do(_Job(lambda db: [act(db) for act in self.beats], Future(), False))
            try:
                job = jobs.get(timeout=max(0.0, beat_at - time.monotonic()) if self.beats else None)
            except queue.Empty:
                continue
            if job is None:
                self._disconnect()
                return
            if job.done.set_running_or_notify_cancel():
                self._do(job)

    def _do(self, job: _Job) -> None:
        self._started_s = time.monotonic()
        try:
            result = self._transact(job)
            self.breaker.succeed()
            job.done.set_result(result)
        except psycopg.Error as error:
            in_doubt = self._is_committing
            lines = str(error).strip().splitlines() or [type(error).__name__]
            kind = DuplicateError if isinstance(error, psycopg.errors.UniqueViolation) else StateUnavailable
            failure = kind(f"PostgreSQL: {lines[0]}", in_doubt=in_doubt)
            if isinstance(error, psycopg.OperationalError):
                self._disconnect()
                self.breaker.fail(failure)
            job.done.set_exception(failure)
        except BaseException as error:
            job.done.set_exception(error)
        finally:
            self._started_s = None

    def _transact(self, job: _Job) -> Any:
        """Run a transaction; again if another one was in its way, or if the connection had been lost."""
        tries = 0
        while True:
            tries += 1
            is_new, self._is_committing = self._connection is None, False
            connection = self._connect()
            try:
                result = job.act(Transaction(connection, self.schema))
                if job.stays_open:
                    return result
                self._is_committing = True
                connection.commit()
                self._is_committing = False
                return result
            except BaseException as error:
                is_lost = connection.closed or connection.broken
                if not is_lost:
                    connection.rollback()
                    self._is_committing = False
                if is_lost and isinstance(error, psycopg.OperationalError):
                    self._disconnect()
                    if not is_new and not self._is_committing and tries < _MOST_TRIES:
                        continue
                if not isinstance(error, _CONFLICTS) or tries >= _MOST_TRIES:
                    raise

    def _connect(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            self._connection = _connect(self.url)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()


class _Job(NamedTuple):
    act: Callable[[Transaction], Any]
    done: Future[Any]
    stays_open: bool


class Database(Worker):
    """The tables of a fleet. `process` names this process."""

    def __init__(self, url: str, *, schema: str = "toolcrib", process: str | None = None) -> None:
        super().__init__(url, schema, Breaker("PostgreSQL"))
        self.process = process or secrets.token_hex(8)

    def make_worker(self) -> Worker:
        """Return a thread with a connection of its own, for what takes long or must not wait for the rest."""
        return Worker(self.url, self.schema, self.breaker)

    async def open(self) -> None:
        """Connect. Raise ConfigurationError if the tables are not those that this code needs."""
        await self.run(check_schema)


def _connect(url: str) -> psycopg.Connection[Any]:
    try:
        connection = psycopg.connect(
            url,
            connect_timeout=CONNECT_S,
            application_name="toolcrib",
            prepare_threshold=None,  # PgBouncer may give each transaction another connection
            keepalives_idle=10,
            tcp_user_timeout=10_000,
        )
    except psycopg.ProgrammingError:  # whose text may show a part of the password
        hint = "use postgresql://USER:PASSWORD@HOST/DATABASE"
        raise ConfigurationError("is not the URL of a database", key="fleet.postgres", hint=hint) from None
    connection.adapters.register_dumper(str, _TextDumper)
    return connection


# --- the schema ---


class Migration(NamedTuple):
    """A numbered file of SQL. The code before `min_code` cannot use its tables."""

    number: int
    name: str
    min_code: int
    statements: str


def load_migrations() -> list[Migration]:
    migrations = []
    folder = files("toolcrib.state.postgresql") / "migrations"
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        if (found := re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name)) is not None:
            text = file.read_text()
            least = re.match(r"-- min_code: (\d+)\n", text)
            migrations.append(Migration(int(found[1]), found[2], int(least[1]) if least else 1, text))
    return migrations


def check_schema(db: Transaction) -> None:
    """Raise ConfigurationError if the tables are older than this code, or too new for it."""
    newest, hint = load_migrations()[-1].number, f"run: {_MIGRATE}"
    try:
        [(version, min_code)] = db.rows("SELECT max(version), max(min_code) FROM @schema")
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        version = min_code = None
    if version is None:
        raise ConfigurationError("PostgreSQL has no tables of toolcrib", key="fleet.postgres", hint=hint)
    if min_code > newest:
        text = f"the tables in PostgreSQL need a newer toolcrib: they have version {version}"
        raise ConfigurationError(text, key="fleet.postgres", hint="install the version of the other replicas")
    if version < newest:
        text = f"the tables in PostgreSQL have version {version}, and this code needs {newest}"
        raise ConfigurationError(text, key="fleet.postgres", hint=hint)


def migrate(url: str, schema: str = "toolcrib") -> list[str]:
    """Bring the tables up to date, each file in one transaction. Return the names of what was applied.
    Raise StateUnavailable."""
    applied = []
    columns, name = "version integer PRIMARY KEY, min_code integer NOT NULL", sql.Identifier(schema)
    try:
        with _connect(url) as connection:
            for each in load_migrations():
                with connection.transaction():
                    connection.execute("SET LOCAL lock_timeout = '60s'")
                    connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"toolcrib {schema}"])
                    connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
                    connection.execute(sql.SQL("SET LOCAL search_path TO {}").format(name))
                    connection.execute(f"CREATE TABLE IF NOT EXISTS schema ({columns})")
                    known = connection.execute("SELECT 1 FROM schema WHERE version = %s", [each.number])
                    if known.fetchone() is None:
                        connection.execute(each.statements.encode())
                        connection.execute("INSERT INTO schema VALUES (%s, %s)", [each.number, each.min_code])
                        applied.append(f"{each.number:04}_{each.name}")
    except psycopg.Error as error:
        raise StateUnavailable(f"PostgreSQL: {str(error).strip().splitlines()[0]}") from None
    return applied
