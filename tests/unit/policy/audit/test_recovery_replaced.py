"""A log that is not the file it was: replaced, cut, or made into something else."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.support.audit_logs import (
    entries,
    kinds,
    make_log,
    make_writer,
    read_lines,
    refusal,
    replace_lines,
    verify,
)
from toolcrib.errors import ConfigurationError
from toolcrib.policy.audit import open_log
from toolcrib.policy.audit.store import DamagedError


def test_a_log_that_is_replaced_while_it_is_written_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    writer = make_writer(path)
    writer.start()
    writer.write(entries(5))
    for each in (path, path.with_name("audit.db-wal"), path.with_name("audit.db-shm")):
        if each.exists():
            each.rename(each.with_name(f"old-{each.name}"))
    with pytest.raises((DamagedError, FileNotFoundError)):
        writer.write(entries(1, start=6))
    other = tmp_path / "other" / "audit.db"
    make_log(other, 2)
    path.write_bytes(other.read_bytes())
    with pytest.raises(DamagedError):
        writer.write(entries(1, start=6))
    writer.release()


def test_another_file_in_the_place_of_a_database_is_noticed(tmp_path: Path) -> None:
    path, other = tmp_path / "audit.db", tmp_path / "other.db"
    writer = make_writer(path)
    writer.write(entries(5))
    make_log(other, 2)
    other.replace(path)
    with pytest.raises(DamagedError, match=r"^the log file was replaced by another file$"):
        writer.write(entries(1, start=6))


def test_a_file_that_became_shorter_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    writer = make_writer(path)
    writer.write(entries(5))
    replace_lines(path, read_lines(path)[:-2])
    with pytest.raises(DamagedError, match="record 6 was changed or removed") as caught:
        writer.write(entries(1, start=6))
    assert caught.value.seq == 6


def test_a_file_that_is_no_database_refuses(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    path.write_bytes(b"not a database, but quite long, and nothing else either" * 100)
    path.with_name("audit.db.key").write_text("k" * 40)
    path.with_name("audit.db.key").chmod(0o600)
    assert "SQLite: " in str(refusal(path))
    with pytest.raises(ConfigurationError, match="not an audit log: file is not a database"):
        open_log(path).verify()


@pytest.mark.parametrize(
    "change", ["UPDATE record SET line = 5 WHERE seq = 11", "UPDATE record SET seq = 99 WHERE seq = 11"]
)
def test_a_last_row_that_is_none_refuses(tmp_path: Path, change: str) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10, is_closed=False)
    with sqlite3.connect(path) as db:
        db.execute(change)
    db.close()
    assert refusal(path).seq == 11
    assert not verify(path).is_sound
    make_log(path, 1, accept_gap=True) if "line" in change else None


@pytest.mark.parametrize("seq", [0, -5, -(2**63)])
def test_a_row_before_the_first_is_found(tmp_path: Path, seq: int) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 3)
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO record VALUES (?, 'x')", (seq,))
    db.close()
    assert "unreadable" in kinds(path)
