"""Which store a file name means, what is no log, what may pass, and who is told what to put right."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.audit_logs import entries, make_log, verify
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Audit
from toolcrib.policy.audit import AuditLog
from toolcrib.policy.audit.record import NO_RECORD, chain_entries
from toolcrib.policy.audit.store import (
    DamagedError,
    StoreError,
    create_empty,
    find_foreign_file,
    is_blank,
    is_temporary,
    open_snapshot,
    sync_file,
    unusable_file,
)

ANOTHER = "name a file that does not exist yet: it is created"
WRITABLE = "the user that runs the server must be able to write there"


@pytest.mark.parametrize(
    ("error", "may_pass"),
    [
        (OSError(errno.ENOSPC, "full"), True),
        (OSError(errno.EDQUOT, "full for you"), True),
        (OSError(errno.EIO, "the disk"), True),
        (OSError(errno.EFBIG, "large"), True),
        (OSError(errno.EINTR, "interrupted"), True),
        (OSError(errno.EAGAIN, "busy"), True),
        (OSError(errno.ESTALE, "moved"), True),
        (OSError(errno.EACCES, "not for you"), False),
        (OSError(errno.ENOENT, "nothing there"), False),
        (OSError(errno.EROFS, "only to read"), False),
        (OSError("no number"), False),
        (StoreError("locked"), True),
        (DamagedError("changed"), False),
        (ValueError("ours"), False),
    ],
)
def test_only_what_nobody_needs_to_put_right_is_an_outage(error: Exception, may_pass: bool) -> None:
    assert is_temporary(error) is may_pass


def test_damage_of_no_known_place_is_at_none() -> None:
    assert DamagedError("changed").seq == 0


# --- what is no log ---


def write_database(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)


def test_a_log_and_what_can_become_one_is_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    assert find_foreign_file(path) is None  # not there yet
    path.touch()
    assert find_foreign_file(path) is None
    path.unlink()
    make_log(path, 1)
    assert find_foreign_file(path) is None
    folder = tmp_path / "folder" / "audit.db"
    folder.mkdir(parents=True)
    assert find_foreign_file(folder) is None  # has words of its own, for those who write


def test_an_empty_database_can_become_a_log(tmp_path: Path) -> None:
    write_database(tmp_path / "audit.db", "PRAGMA user_version = 3")
    assert (tmp_path / "audit.db").stat().st_size > 0
    assert find_foreign_file(tmp_path / "audit.db") is None


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("audit.db", b"Dear diary", "not a SQLite file"),
        ("audit.db", b'{"seq":1,', "not a SQLite file"),
    ],
)
def test_a_file_of_something_else_is_told(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    found = find_foreign_file(path)
    assert found is not None
    assert found.message == f"not an audit log: {problem}"
    assert (found.file, found.key, found.hint) == (str(path), "audit.file", ANOTHER)
    assert path.read_bytes() == content


@pytest.mark.parametrize("table", ["book (title)", "record (seq, title)", "record (line)"])
def test_a_database_of_something_else_is_told(tmp_path: Path, table: str) -> None:
    path = tmp_path / "audit.db"
    write_database(path, f"CREATE TABLE {table}")
    found = find_foreign_file(path)
    assert found is not None
    assert found.message == "not an audit log: a database of another program"
    assert [each.name for each in tmp_path.iterdir()] == ["audit.db"]


def test_a_device_is_not_a_log(tmp_path: Path) -> None:
    (tmp_path / "audit.db").symlink_to(os.devnull)
    found = find_foreign_file(tmp_path / "audit.db")
    assert found is not None
    assert found.message == "not an audit log: a device"


@pytest.mark.parametrize("statement", [None, "PRAGMA user_version=1", "CREATE TABLE other (x)"])
def test_a_database_without_tables_is_blank(tmp_path: Path, statement: str | None) -> None:
    path = tmp_path / "audit.db"
    path.touch()
    if statement is not None:
        write_database(path, statement)
    assert is_blank(path) == (statement is None or "TABLE" not in statement)
    path.write_bytes(b"something else")
    assert not is_blank(path)


def test_json_lines_are_no_longer_a_live_store(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        AuditLog(Audit(tmp_path / "audit.jsonl"), server="shop")
    assert caught.value.key == "audit.file"
    assert "audit.db" in str(caught.value.hint)
    assert "toolcrib audit export" in str(caught.value.hint)


# --- files ---


def test_an_empty_file_is_created_once_with_its_folders(tmp_path: Path) -> None:
    path = tmp_path / "var" / "log" / "audit"
    assert [create_empty(path), create_empty(path)] == [True, False]
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"", 0o600)


def test_a_file_is_synced_and_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    sync_file(path)  # a missing file needs nothing
    path.write_bytes(b"key")
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    sync_file(path)
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(synced[0])


# --- an export ---


def test_an_export_has_the_lines_of_the_log(tmp_path: Path) -> None:
    lines = chain_entries(NO_RECORD, entries(4))[1]
    path = tmp_path / "out.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines) + b'{"seq":9,"at"')
    with closing(open_snapshot(path)) as snapshot:
        assert list(snapshot.lines(0)) == [*lines, b'{"seq":9,"at"']
        assert list(snapshot.lines(2)) == [*lines[2:], b'{"seq":9,"at"']
        assert list(snapshot.lines_back())[1:] == lines[::-1]
    assert [problem.kind for problem in verify(path).problems] == ["unreadable"]


# --- what somebody has to put right ---

OPTIONS = Audit("logs/audit.db", key_file="safe/key", checkpoints="safe/seals")


@pytest.mark.parametrize(
    ("error", "file", "key", "words", "hint"),
    [
        (
            PermissionError(errno.EACCES, "Permission denied", "logs/audit.db"),
            "logs/audit.db",
            "audit.file",
            "cannot write the audit log: Permission denied",
            WRITABLE,
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "logs"),
            "logs/audit.db",
            "audit.file",
            "cannot write the audit log: Permission denied: logs",
            WRITABLE,
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "safe/key"),
            "safe/key",
            "audit.key_file",
            "cannot write the audit key: Permission denied",
            WRITABLE,
        ),
        (
            IsADirectoryError(errno.EISDIR, "Is a directory", "safe/seals"),
            "safe/seals",
            "audit.checkpoints",
            "cannot write the audit checkpoints: Is a directory",
            'name a file in it: "safe/seals/audit.checkpoints"',
        ),
        (
            IsADirectoryError(errno.EISDIR, "Is a directory", "safe/key"),
            "safe/key",
            "audit.key_file",
            "cannot write the audit key: Is a directory",
            'name a file in it: "safe/key/audit.key"',
        ),
        (
            IsADirectoryError(errno.EISDIR, "Is a directory", "logs/audit.db"),
            "logs/audit.db",
            "audit.file",
            "cannot write the audit log: Is a directory",
            'name a file in it: "logs/audit.db/audit.db"',
        ),
        (
            FileExistsError(errno.EEXIST, "File exists", "logs"),
            "logs/audit.db",
            "audit.file",
            "cannot write the audit log: Not a directory: logs",
            WRITABLE,
        ),
        (
            OSError("a driver's own words"),
            "logs/audit.db",
            "audit.file",
            "cannot write the audit log: a driver's own words",
            WRITABLE,
        ),
    ],
)
def test_what_cannot_be_written_is_told_with_its_setting(
    error: OSError, file: str, key: str, words: str, hint: str
) -> None:
    found = unusable_file(error, OPTIONS)
    assert (found.file, found.key, found.message, found.hint) == (file, key, words, hint)


def test_what_names_no_file_is_about_the_log(tmp_path: Path) -> None:
    found = unusable_file(OSError(errno.EINVAL, "Invalid argument"), Audit(tmp_path / "audit.db"))
    assert (found.file, found.key) == (str(tmp_path / "audit.db"), "audit.file")
