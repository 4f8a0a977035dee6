"""Files that are not audit logs or cannot be written: found, and explained."""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.records.audit_logs import make_log, make_writer
from toolcrib.errors import ConfigurationError
from toolcrib.policy import Audit
from toolcrib.policy.audit import AuditLog, open_log
from toolcrib.policy.audit.files import explain_damage, find_foreign_file, is_temporary, unusable_file
from toolcrib.state.base import StateDamaged, StateUnavailable

ANOTHER = "name a file that does not exist yet: it is created"
WRITABLE = "the user that runs the server must be able to write there"


@pytest.mark.parametrize(
    ("error", "may_pass"),
    [
        (OSError(errno.ENOSPC, "full"), True),
        (OSError(errno.EIO, "broken"), True),
        (PermissionError(errno.EACCES, "no"), False),
        (StateUnavailable("locked"), True),
        (StateDamaged("changed"), False),
        (ValueError("no"), False),
    ],
)
def test_only_some_errors_are_temporary(error: Exception, may_pass: bool) -> None:
    assert is_temporary(error) is may_pass


def write_database(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)


def test_a_log_is_not_a_foreign_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    assert find_foreign_file(path) is None  # not there yet
    path.touch()
    assert find_foreign_file(path) is None
    write_database(path, "PRAGMA user_version = 3")
    assert find_foreign_file(path) is None
    path.unlink()
    make_log(path, 1)
    assert find_foreign_file(path) is None
    assert find_foreign_file(tmp_path) is None  # a folder has a message of its own


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"Dear diary, this is not a database, and long enough" * 100, "it is not a SQLite file"),
        ("CREATE TABLE book (title)", "it holds other tables, and no records"),
        ("CREATE TABLE record (seq, title)", "it holds other tables, and no records"),
    ],
)
def test_a_foreign_file_is_reported_and_left_alone(
    tmp_path: Path, content: bytes | str, problem: str
) -> None:
    path = tmp_path / "audit.db"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        write_database(path, content)
    before = path.read_bytes()
    with pytest.raises(ConfigurationError) as caught:
        make_writer(path).open()
    error = caught.value
    assert (error.message, error.hint) == (f"not an audit log: {problem}", ANOTHER)
    assert (error.file, error.key) == (str(path), "audit.file")
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["audit.db"]


def test_a_device_is_not_a_log(tmp_path: Path) -> None:
    (tmp_path / "audit.db").symlink_to(os.devnull)
    found = find_foreign_file(tmp_path / "audit.db")
    assert found is not None
    assert found.message == "not an audit log: it is a device"


def test_a_log_of_an_older_version_is_to_be_moved_away(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 1)
    path.unlink()
    write_database(path, "CREATE TABLE record (seq INTEGER PRIMARY KEY, line TEXT NOT NULL)")
    with pytest.raises(StateDamaged) as caught:
        make_writer(path).open()
    error = explain_damage(caught.value, path)
    assert error.message == (
        "the audit log cannot be continued: it was written by an older toolcrib, in one chain"
    )
    assert error.hint == "move it and its checkpoints away: a new log is created"
    with pytest.raises(ConfigurationError, match="written by an older toolcrib"):
        open_log(path).verify()


def test_json_lines_are_not_a_log(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        AuditLog(Audit(tmp_path / "audit.jsonl"), server="shop")
    assert caught.value.key == "audit.file"
    assert "audit.db" in str(caught.value.hint)
    assert "toolcrib audit query" in str(caught.value.hint)


# --- files that an operator has to make writable ---

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
def test_an_unwritable_file_is_reported_with_its_setting(
    error: OSError, file: str, key: str, words: str, hint: str
) -> None:
    found = unusable_file(error, OPTIONS)
    assert (found.file, found.key, found.message, found.hint) == (file, key, words, hint)


def test_an_error_without_a_file_name_is_about_the_log(tmp_path: Path) -> None:
    found = unusable_file(OSError(errno.EINVAL, "Invalid argument"), Audit(tmp_path / "audit.db"))
    assert (found.file, found.key) == (str(tmp_path / "audit.db"), "audit.file")
