"""Audit logs for tests: written with clocks that tests control, and damaged in every way."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from toolcrib.policy import Audit
from toolcrib.policy.audit import AuditLog, Verdict, open_log
from toolcrib.policy.audit.checkpoints import Checkpoint, read_checkpoints
from toolcrib.policy.audit.record import TAIL, Entry, encode_entry, parse_time, read_head, to_ms
from toolcrib.policy.audit.writer import RecordWriter
from toolcrib.state.base import StateDamaged

NOON = 1_777_888_800.0  # 2026-05-04T10:00:00Z


class ManualClocks:
    """A wall clock and a monotonic clock that only move when a test says so."""

    def __init__(self) -> None:
        self.wall_s = NOON
        self.now_s = 1_000.0

    def wall(self) -> float:
        return self.wall_s

    def now(self) -> float:
        return self.now_s

    def advance(self, seconds: float) -> None:
        self.wall_s += seconds
        self.now_s += seconds


def make_writer(path: Path, clocks: ManualClocks | None = None, **options: Any) -> RecordWriter:
    clocks = clocks or ManualClocks()
    return RecordWriter(Audit(path, **options), server="shop", wall=clocks.wall, now=clocks.now)


def entries(count: int, start: int = 1, wall: float = NOON) -> list[Entry]:
    return [
        encode_entry(
            wall, {"id": f"c{number}", "principal": "key:ana", "tool": f"tool_{number % 3}", "outcome": "ok"}
        )
        for number in range(start, start + count)
    ]


def make_log(
    path: Path, count: int, batch: int = 10, *, is_closed: bool = True, **options: Any
) -> RecordWriter:
    """Write a log of `count` calls, between an `opened` and (if it is closed) a `closed` record."""
    writer = make_writer(path, **options)
    for start in range(1, count + 1, batch):
        writer.write(entries(min(batch, count + 1 - start), start))
    if is_closed:
        writer.close()
    else:
        writer.release()
    return writer


class Hold:
    """Another process that holds the exclusive lock of the log."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.execute("BEGIN EXCLUSIVE")

    def release(self) -> None:
        self._db.execute("ROLLBACK")
        self._db.close()

    def damage(self) -> None:
        self._db.execute("UPDATE record SET line = 'damage'")
        self._db.execute("COMMIT")
        self._db.close()


def read_lines(path: Path, stream: int = 1) -> list[bytes]:
    """Return the lines of one stream; the first one has number 1."""
    with closing(sqlite3.connect(path)) as db:
        db.text_factory = bytes
        rows = db.execute("SELECT line FROM record WHERE key >> 40 = ? ORDER BY key", (stream,))
        return [row[0] for row in rows]


def replace_lines(path: Path, lines: list[bytes], stream: int = 1) -> None:
    """Replace all rows of a stream, as a writer of the file could: with the number of their line if their
    order allows it, and with the fields of their line in the columns."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA synchronous=OFF")
        db.execute("DELETE FROM record WHERE key >> 40 = ?", (stream,))
        last = 0
        for line in lines:
            found = read_head(line)
            last = found.seq if found is not None and found.seq > last else last + 1
            db.execute("INSERT INTO record VALUES (?, ?, ?)", ((stream << 40) + last, _time_of(line), line))


def _time_of(line: bytes) -> int:
    try:
        return to_ms(parse_time(json.loads(line)["at"]))
    except (ValueError, TypeError, LookupError):
        return 0


def restamp(lines: list[bytes], previous: bytes = b"0" * 64) -> list[bytes]:
    """Compute all hashes again, as somebody without the key can."""
    stamped = []
    for line in lines:
        body = line[:-TAIL]
        previous = sha256(previous + body).hexdigest().encode()
        stamped.append(body + b',"hash":"' + previous + b'"}')
    return stamped


def verify(path: Path) -> Verdict:
    return open_log(path).verify()


def kinds(path: Path) -> list[str]:
    return [problem.kind for problem in verify(path).problems]


def make_audit(logs: list[AuditLog], path: Path, **options: Any) -> AuditLog:
    log = AuditLog(Audit(path, **options), server="shop")
    logs.append(log)
    return log


async def committed(log: AuditLog, number: int) -> bool:
    return await log.commit({"id": f"c{number}"})


def read_streams(path: Path) -> list[str]:
    """Return the names of the streams in the order of their beginnings."""
    with closing(sqlite3.connect(path)) as db:
        return [row[0] for row in db.execute("SELECT name FROM stream ORDER BY number")]


def calls(path: Path) -> list[str]:
    return [record["id"] for record in open_log(path).records() if record["kind"] == "call"]


def gap_counts(path: Path) -> list[tuple[int, int]]:
    gaps = [record for record in open_log(path).records() if record["kind"] == "gap"]
    return [(record["late"], record["lost"]) for record in gaps]


def records(path: Path) -> list[dict[str, Any]]:
    return list(open_log(path).records())


def seals(path: Path) -> Path:
    return path.with_name(f"{path.name}.checkpoints")


def sealed(path: Path) -> list[Checkpoint]:
    return read_checkpoints(seals(path), None).lines


def refusal(path: Path, **options: Any) -> StateDamaged:
    with pytest.raises(StateDamaged) as caught:
        make_writer(path, **options).open()
    return caught.value
