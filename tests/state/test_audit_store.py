"""AuditStore: numbered records of streams, the same for every engine."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.state.conftest import PostgreSQLFleet
from toolcrib.state.base import AuditStore, Head, Query, Record, StateDamaged, StateUnavailable
from toolcrib.state.sqlite.audit import SQLiteAudit


class Process(Protocol):
    """Makes a store as another process has it."""

    def __call__(self) -> AuditStore: ...


@pytest.fixture
def sqlite_process(tmp_path: Path) -> Iterator[Process]:
    opened: list[SQLiteAudit] = []

    def start() -> SQLiteAudit:
        opened.append(store := SQLiteAudit(tmp_path / "audit.db"))
        store.open()
        return store

    yield start
    for store in opened:
        store.close()


@pytest.fixture
async def postgresql_process(postgresql_fleet: PostgreSQLFleet) -> AsyncIterator[Process]:
    from toolcrib.state.postgresql.audit import PostgreSQLAudit

    opened: list[PostgreSQLAudit] = []

    def start() -> PostgreSQLAudit:
        opened.append(store := PostgreSQLAudit(postgresql_fleet.start().database))
        return store

    yield start
    for store in opened:
        await store.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def process(request: pytest.FixtureRequest) -> Process:
    """Stores of one log, each as one process has it. An engine is another parameter."""
    started: Process = request.getfixturevalue(f"{request.param}_process")
    return started


@pytest.fixture
def store(process: Process) -> AuditStore:
    return process()


def make_record(seq: int, at_ms: int | None = None, **fields: Any) -> Record:
    texts = {"id": f"c{seq}", "principal": "key:ana", "tool": "add", "outcome": "ok", **fields}
    line = json.dumps({"seq": seq, **texts, "hash": f"{seq:064x}"}, separators=(",", ":")).encode()
    return Record(seq, 1000 + seq if at_ms is None else at_ms, **texts, line=line)


def make_records(first: int, last: int) -> list[Record]:
    return [make_record(seq) for seq in range(first, last + 1)]


async def read(store: AuditStore, stream: str, after: int = 0) -> list[Record]:
    async with aclosing(store.lines(stream, after)) as lines:
        return [record async for record in lines]


async def seqs(store: AuditStore, stream: str, after: int = 0) -> list[int]:
    return [record.seq for record in await read(store, stream, after)]


# --- streams ---


async def test_records_are_read_as_they_were_appended(process: Process) -> None:
    records = make_records(1, 100)
    await process().append("one", records[:99])
    await process().append("two", make_records(1, 2))
    store = process()
    assert await read(store, "one") == records[:99]
    assert await seqs(store, "one", 97) == [98, 99]
    assert await seqs(store, "two") == [1, 2]
    assert await seqs(store, "three") == []


async def test_an_append_that_is_repeated_changes_nothing(store: AuditStore) -> None:
    records = make_records(1, 5)
    await store.append("one", records[:3])
    await store.append("one", records[:3])
    await store.append("one", records)  # and with more
    assert await read(store, "one") == records


async def test_heads_are_the_last_records_of_streams(store: AuditStore) -> None:
    assert await store.heads() == {}
    await store.append("one", make_records(1, 3))
    await store.append("two", make_records(1, 1))
    assert await store.heads() == {"one": Head(3, b"%064x" % 3), "two": Head(1, b"%064x" % 1)}


async def test_heads_before_a_time_end_with_the_first_younger_record(store: AuditStore) -> None:
    await store.append("one", [make_record(seq, at_ms) for seq, at_ms in enumerate((10, 20, 30, 5), 1)])
    await store.append("two", [make_record(1, 30)])
    before = {
        time: {name: head.seq for name, head in (await store.heads(time)).items()}
        for time in (10, 11, 30, 31)
    }
    assert before == {10: {}, 11: {"one": 1}, 30: {"one": 2}, 31: {"one": 4, "two": 1}}


# --- searching ---


async def test_records_are_found_page_by_page_with_the_newest_first(store: AuditStore) -> None:
    await store.append("one", [make_record(seq, seq // 2, id=f"one{seq}") for seq in range(1, 8)])
    await store.append("two", [make_record(seq, seq, id=f"two{seq}") for seq in range(1, 5)])
    whole = await store.find(Query())
    assert whole.older is None
    assert [record.at_ms for record in whole.records] == [4, 3, 3, 3, 2, 2, 2, 1, 1, 1, 0]
    found: list[Record] = []
    cursor: str | None = None
    while True:
        page = await store.find(Query(), before=cursor, limit=2)
        found += page.records
        if (cursor := page.older) is None:
            break
        await store.append("one", [make_record(100 + len(found), 9)])  # does not move the pages
    assert found == whole.records


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        (Query(since_ms=1003), [5, 4, 3]),
        (Query(until_ms=1003), [2, 1]),
        (Query(principal="key:ben"), [2]),
        (Query(tool="pay"), [4, 3]),
        (Query(tool="pay", outcome=("denied",)), [4]),
        (Query(outcome=("denied", "error")), [5, 4]),
        (Query(id="c3"), [3]),
        (Query(id="c%"), []),
    ],
)
async def test_a_query_selects_by_time_and_fields(store: AuditStore, query: Query, wanted: list[int]) -> None:
    fields: list[dict[str, Any]] = [
        {},
        {"principal": "key:ben"},
        {"tool": "pay"},
        {"tool": "pay", "outcome": "denied"},
        {"outcome": "error"},
    ]
    await store.append("one", [make_record(seq, **each) for seq, each in enumerate(fields, 1)])
    assert [record.seq for record in (await store.find(query)).records] == wanted


# --- removing ---


async def test_old_records_are_removed_but_never_the_last(store: AuditStore) -> None:
    await store.append("one", make_records(1, 5))
    await store.append("two", make_records(1, 5))
    assert await store.remove_through({"one": 2}) == 2
    assert (await seqs(store, "one"), await seqs(store, "two")) == ([3, 4, 5], [1, 2, 3, 4, 5])
    assert await store.remove_through({"one": 9, "two": 5}) == 6
    assert (await seqs(store, "one"), await seqs(store, "two")) == ([5], [5])
    await store.append("one", make_records(6, 6))
    assert await seqs(store, "one") == [5, 6]


# --- records that are gone ---

Damage = Callable[[sqlite3.Connection], Any]


@pytest.mark.parametrize(
    "damage",
    [
        lambda db: db.execute("DELETE FROM record WHERE key = (SELECT max(key) FROM record)"),
        lambda db: db.execute("UPDATE record SET line = 'x'"),
        lambda db: db.execute("INSERT INTO record SELECT key + 9, 0, line FROM record WHERE key & 1"),
    ],
    ids=["removed", "changed", "added"],
)
async def test_nothing_is_appended_after_records_that_somebody_changed(
    tmp_path: Path, damage: Damage
) -> None:
    with closing(SQLiteAudit(tmp_path / "audit.db")) as store:
        await store.append("one", make_records(1, 3))
        with closing(sqlite3.connect(tmp_path / "audit.db")) as db, db:
            damage(db)
        with pytest.raises(StateDamaged, match="record 3 of stream one was changed or removed"):
            await store.append("one", make_records(4, 4))


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_a_file_that_was_deleted_or_replaced_is_not_written(tmp_path: Path, is_replaced: bool) -> None:
    path = tmp_path / "audit.db"
    with closing(SQLiteAudit(path)) as store:
        await store.append("one", make_records(1, 1))
        store.check()
        for suffix in ("", "-wal", "-shm"):
            path.with_name(f"audit.db{suffix}").unlink()
        if is_replaced:
            other = SQLiteAudit(path)
            await other.append("other", make_records(1, 1))
            other.close()
        message = "was replaced by another file" if is_replaced else "was deleted"
        with pytest.raises(StateDamaged, match=message):
            store.check()
        for _ in range(2):
            with pytest.raises(StateDamaged, match=message):
                await store.append("one", make_records(2, 2))
            store.release()  # nor after it is opened again
        assert path.exists() == is_replaced
        store.close()
        await store.append("two", make_records(1, 1))  # a new start
        assert await seqs(store, "two") == [1]


async def test_a_deleted_wal_file_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    with closing(SQLiteAudit(path)) as store, closing(SQLiteAudit(path)) as other:
        for number, each in enumerate((store, other)):
            await each.append(str(number), make_records(1, 3))
        path.with_name("audit.db-wal").unlink()
        store.check()
        await other.append("1", make_records(4, 4))
        await store.append("0", make_records(4, 4))
        assert await seqs(SQLiteAudit(path), "0") == await seqs(SQLiteAudit(path), "1") == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("CREATE TABLE other (x)", "it holds other tables, and no records"),
        (
            "CREATE TABLE record (seq INTEGER PRIMARY KEY, line TEXT NOT NULL)",
            "it was written by an older toolcrib, in one chain",
        ),
    ],
)
async def test_another_database_is_neither_written_nor_read(
    tmp_path: Path, schema: str, message: str
) -> None:
    path = tmp_path / "audit.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute(schema)
    before = path.read_bytes()
    with closing(SQLiteAudit(path)) as store:
        with pytest.raises(StateDamaged, match=message):
            store.open()
        with pytest.raises(StateDamaged, match=message):
            await store.heads()
    assert path.read_bytes() == before


async def test_a_file_that_is_not_a_database_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    path.write_bytes(b"not a database, but quite long, and nothing else either" * 100)
    with pytest.raises(StateDamaged, match="SQLite: file is not a database"):
        SQLiteAudit(path).open()


async def test_a_locked_file_is_unavailable_for_now(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    with closing(SQLiteAudit(path, wait_s=0.01)) as store:
        await store.append("one", make_records(1, 1))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StateUnavailable, match="database is locked") as caught:
                await store.append("one", make_records(2, 2))
            assert not isinstance(caught.value, StateDamaged)
            other.execute("ROLLBACK")
        await store.append("one", make_records(2, 2))
        assert await seqs(store, "one") == [1, 2]


async def test_rows_with_values_of_other_types_are_read(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    with closing(SQLiteAudit(path)) as store:
        await store.append("one", make_records(1, 2))
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("UPDATE record SET at_ms = 'x', line = x'ff' WHERE key & 1")
        assert await read(store, "one") == [Record(1, 0, "", "", "", "", b"\xff"), make_record(2)]
        for line, found in (("CAST(x'ff' AS TEXT)", "\ufffd".encode()), ("5", b"5"), ("'[1]'", b"[1]")):
            with closing(sqlite3.connect(path)) as db, db:
                db.execute(f"UPDATE record SET line = {line} WHERE key & 1")
            assert (await read(store, "one"))[0] == Record(1, 0, "", "", "", "", found)


# --- the file ---


async def test_the_file_is_private_and_holds_nothing_that_was_removed(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "audit.db"
    with closing(SQLiteAudit(path)) as store:
        records = [make_record(seq, id=f"<{seq}>") for seq in range(1, 1001)]
        await store.append("one", records)
        assert path.stat().st_mode & 0o777 == 0o600
        await store.remove_through({"one": 900})
        store.flush()
        kept = path.read_bytes() + path.with_name("audit.db-wal").read_bytes()
        assert [seq for seq in range(1, 1001) if b"<%d>" % seq in kept] == list(range(901, 1001))


@pytest.fixture
def modes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How files were opened for reading. SQLite may write no file beside them."""
    connect, tried = sqlite3.connect, list[str]()

    class Refusing(sqlite3.Connection):
        def execute(self, *given: Any) -> sqlite3.Cursor:
            raise sqlite3.OperationalError("attempt to write a readonly database")

    def watch(name: str | Path, **named: Any) -> sqlite3.Connection:
        tried.append(str(name).partition("?")[2])
        return connect(name, factory=Refusing if "mode=ro" in str(name) else sqlite3.Connection, **named)

    monkeypatch.setattr(sqlite3, "connect", watch)
    return tried


async def test_a_log_in_a_folder_that_is_only_read_can_be_read(tmp_path: Path, modes: list[str]) -> None:
    path = tmp_path / "audit.db"
    with closing(SQLiteAudit(path)) as store:
        await store.append("one", make_records(1, 3))
    modes.clear()
    assert await seqs(SQLiteAudit(path), "one") == [1, 2, 3]
    assert modes == ["mode=ro", "immutable=1"]
    path.with_name("audit.db-wal").touch()  # somebody writes
    with pytest.raises(StateUnavailable, match="attempt to write a readonly database"):
        await seqs(SQLiteAudit(path), "one")


@pytest.mark.parametrize("name", ["a b.db", "a?mode=memory.db", "100%25.db", "ä#1.db"])
async def test_a_log_may_have_any_name(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(SQLiteAudit(Path(name))) as store:
        await store.append("one", make_records(1, 3))
        assert await seqs(SQLiteAudit(tmp_path / name), "one") == [1, 2, 3]
    assert (tmp_path / name).exists()


@pytest.mark.parametrize("damage", ["", "DROP TABLE record"])
async def test_a_log_that_somebody_emptied_has_no_records(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "audit.db"
    with closing(SQLiteAudit(path)) as store:
        await store.append("one", make_records(1, 3))
    if damage:
        with closing(sqlite3.connect(path)) as db:
            db.execute(damage)
    else:
        os.truncate(path, 0)
    assert await SQLiteAudit(path).heads() == {}
    assert (await SQLiteAudit(path).find(Query())).records == []


@pytest.mark.parametrize("sync", [False, True])
async def test_with_sync_every_commit_waits_for_the_disk(tmp_path: Path, sync: bool) -> None:
    with closing(SQLiteAudit(tmp_path / "audit.db", sync=sync)) as store:
        store.open()
        assert store._db is not None
        assert store._db.execute("PRAGMA synchronous").fetchone()[0] == (2 if sync else 1)


async def test_a_reader_sees_one_moment_and_blocks_nobody(store: AuditStore) -> None:
    await store.append("one", make_records(1, 3000))
    async with aclosing(store.lines("one", 0)) as lines:
        first = await anext(lines)
        await store.remove_through({"one": 2000})
        await store.append("one", make_records(3001, 3001))
        assert [first.seq] + [record.seq async for record in lines] == list(range(1, 3001))


@pytest.mark.parametrize("is_folder", [True, False])
async def test_a_file_that_cannot_be_a_log_is_an_error_of_the_system(
    tmp_path: Path, is_folder: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.db"
    if is_folder:
        path.mkdir()
    monkeypatch.setattr("toolcrib.state.sqlite.audit.os.access", lambda *_: False)
    with pytest.raises(IsADirectoryError if is_folder else PermissionError) as caught:
        SQLiteAudit(path).open()
    assert caught.value.filename == str(path)


async def test_rows_that_were_committed_despite_a_failure_are_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, failures = sqlite3.connect, [True, True]

    class Connection(sqlite3.Connection):
        def execute(self, *given: Any) -> sqlite3.Cursor:
            cursor = super().execute(*given)
            if given[0] == "COMMIT" and failures:
                failures.pop()
                raise sqlite3.OperationalError("disk I/O error")
            return cursor

    monkeypatch.setattr(
        sqlite3, "connect", lambda *given, **named: connect(*given, factory=Connection, **named)
    )
    with closing(SQLiteAudit(tmp_path / "audit.db")) as store:
        for last in (3, 4):
            with pytest.raises(StateUnavailable, match="disk I/O error"):
                await store.append("one", make_records(1, last))
            store.release()
        await store.append("one", make_records(1, 5))
        assert await read(store, "one") == make_records(1, 5)
