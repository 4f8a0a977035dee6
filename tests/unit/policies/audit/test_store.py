"""Which store a file name means, what is no log, what may pass, and who is told what to put right."""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.audited import STORES, make_log
from toolcrib.policy import Audit
from toolcrib.policy.audit.jsonl_store import LineStore
from toolcrib.policy.audit.sqlite_store import TableStore
from toolcrib.policy.audit.store import (
    BrokenError,
    StoreError,
    find_other,
    is_outage,
    name_unusable,
    open_store,
)

ANOTHER = "name one that is not there yet: it is made; *.jsonl holds JSON Lines, every other name SQLite"
WRITABLE = "it has to be a place where whoever runs the server may write"


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
        (BrokenError("changed"), False),
        (ValueError("ours"), False),
    ],
)
def test_only_what_nobody_needs_to_put_right_is_an_outage(error: Exception, may_pass: bool) -> None:
    assert is_outage(error) is may_pass


def test_damage_of_no_known_place_is_at_none() -> None:
    assert BrokenError("changed").seq == 0


@pytest.mark.parametrize(
    ("name", "kind"),
    [("audit.jsonl", LineStore), ("audit.db", TableStore), ("audit", TableStore), ("a.jsonl.x", TableStore)],
)
def test_the_name_says_which_store_it_is(tmp_path: Path, name: str, kind: type) -> None:
    with closing(open_store(tmp_path / name, sync=False, wait_s=0.1)) as store:
        assert isinstance(store, kind)


# --- what is no log ---


def write_database(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)


@pytest.mark.parametrize("name", STORES)
def test_a_log_and_what_can_become_one_is_nothing_else(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    assert find_other(path) is None  # not there yet
    path.touch()
    assert find_other(path) is None
    path.unlink()
    make_log(path, 1)
    assert find_other(path) is None
    folder = tmp_path / "folder" / name
    folder.mkdir(parents=True)
    assert find_other(folder) is None  # has words of its own, for those who write


def test_an_empty_database_can_become_a_log(tmp_path: Path) -> None:
    write_database(tmp_path / "audit.db", "PRAGMA user_version = 3")
    assert (tmp_path / "audit.db").stat().st_size > 0
    assert find_other(tmp_path / "audit.db") is None


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("audit.jsonl", b"Dear diary", "does not hold JSON Lines of records"),
        ("audit.jsonl", b'{"seq', "does not hold JSON Lines of records"),
        ("audit.jsonl", b"SQLite format 3\0", "does not hold JSON Lines of records"),
        ("audit.db", b"Dear diary", "is not a SQLite file"),
        ("audit.db", b'{"seq":1,', "is not a SQLite file"),
    ],
)
def test_a_file_of_something_else_is_told(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    found = find_other(path)
    assert found is not None
    assert found.message == f"is no audit log: it {problem}"
    assert (found.file, found.key, found.hint) == (str(path), "audit.file", ANOTHER)
    assert path.read_bytes() == content


@pytest.mark.parametrize("table", ["book (title)", "record (seq, title)", "record (line)"])
def test_a_database_of_something_else_is_told(tmp_path: Path, table: str) -> None:
    path = tmp_path / "audit.db"
    write_database(path, f"CREATE TABLE {table}")
    found = find_other(path)
    assert found is not None
    assert found.message == "is no audit log: it is a database of something else"
    assert [each.name for each in tmp_path.iterdir()] == ["audit.db"]


@pytest.mark.parametrize(("name", "is_other"), [("audit.db", True), ("audit.jsonl", False)])
def test_a_device_can_hold_lines_and_no_database(tmp_path: Path, name: str, is_other: bool) -> None:
    (tmp_path / name).symlink_to(os.devnull)
    found = find_other(tmp_path / name)
    assert (found is not None) is is_other
    assert found is None or found.message == "is no audit log: it is a device"


# --- what somebody has to put right ---

OPTIONS = Audit("logs/audit.db", key_file="safe/key", checkpoints="safe/seals")


@pytest.mark.parametrize(
    ("error", "file", "key", "words", "hint"),
    [
        (
            PermissionError(errno.EACCES, "Permission denied", "logs/audit.db"),
            "logs/audit.db",
            "audit.file",
            "the audit log cannot be written: Permission denied",
            WRITABLE,
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "logs"),
            "logs/audit.db",
            "audit.file",
            "the audit log cannot be written: Permission denied: logs",
            WRITABLE,
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "safe/key"),
            "safe/key",
            "audit.key_file",
            "it cannot be written: Permission denied",
            WRITABLE,
        ),
        (
            IsADirectoryError(errno.EISDIR, "Is a directory", "safe/seals"),
            "safe/seals",
            "audit.checkpoints",
            "it cannot be written: Is a directory",
            'name a file in it: "safe/seals/audit.checkpoints"',
        ),
        (
            IsADirectoryError(errno.EISDIR, "Is a directory", "safe/key"),
            "safe/key",
            "audit.key_file",
            "it cannot be written: Is a directory",
            'name a file in it: "safe/key/audit.key"',
        ),
        (
            IsADirectoryError(errno.EISDIR, "Is a directory", "logs/audit.db"),
            "logs/audit.db",
            "audit.file",
            "the audit log cannot be written: Is a directory",
            'name a file in it: "logs/audit.db/audit.db"',
        ),
        (
            FileExistsError(errno.EEXIST, "File exists", "logs"),
            "logs/audit.db",
            "audit.file",
            "the audit log cannot be written: Not a directory: logs",
            WRITABLE,
        ),
        (
            OSError("a driver's own words"),
            "logs/audit.db",
            "audit.file",
            "the audit log cannot be written: a driver's own words",
            WRITABLE,
        ),
    ],
)
def test_what_cannot_be_written_is_told_with_its_setting(
    error: OSError, file: str, key: str, words: str, hint: str
) -> None:
    found = name_unusable(error, OPTIONS)
    assert (found.file, found.key, found.message, found.hint) == (file, key, words, hint)


def test_what_names_no_file_is_about_the_log(tmp_path: Path) -> None:
    found = name_unusable(OSError(errno.EINVAL, "Invalid argument"), Audit(tmp_path / "audit.db"))
    assert (found.file, found.key) == (str(tmp_path / "audit.db"), "audit.file")
