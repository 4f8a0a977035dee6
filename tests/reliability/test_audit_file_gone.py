"""A log that is deleted or replaced while a server writes it: noticed, said, and never called sound."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.support.records.audit_logs import make_log, records
from tests.support.servers.serve_process import Serving, start, wait_until

TOOLS = """\
from toolcrib import tool

@tool
def look() -> str:
    "Look."
    return "seen"

@tool(destructive=True)
def wipe() -> str:
    "Wipe."
    return "wiped"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the log will be; a server that is started in its folder writes it."""
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "toolcrib.toml").write_text(
        '[server]\ntargets = ["tools.py"]\n[audit]\nfile = "audit.db"\ncheckpoints = "elsewhere"\n'
    )
    return tmp_path / "audit.db"


def serve(path: Path) -> Serving:
    return Serving(cwd=path.parent)


def assert_missing(path: Path, *ranges: tuple[int, int]) -> None:
    """`toolcrib audit verify` says which records of each stream are missing, and nothing else."""
    process = start("audit", "verify", "--json", cwd=path.parent)
    out, errors = process.communicate()
    assert process.returncode == 1, errors
    found = []
    for problem in json.loads(out)["problems"]:
        words = problem["words"].replace(f" of stream {problem['stream']}", "").removesuffix(" at the end")
        found.append(words)
    assert found == [
        f"record {first} is missing" if first == last else f"records {first} to {last} are missing"
        for first, last in ranges
    ]


def assert_sound(path: Path) -> None:
    process = start("audit", "verify", cwd=path.parent)
    said = "".join(process.communicate())
    assert process.returncode == 0, said


def assert_refuses(path: Path) -> None:
    """A server that is started on the log says what is wrong with it, and ends."""
    process = start("serve", "--port", "0", cwd=path.parent)
    said = "".join(process.communicate(timeout=60))
    assert process.returncode == 2, said
    assert "the audit log is damaged" in said


@contextmanager
def stopped(server: Serving) -> Iterator[None]:
    """While a server cannot notice anything."""
    server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


def family(path: Path) -> list[Path]:
    return [path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")]


def delete(path: Path) -> None:
    path.unlink()


def delete_all(path: Path) -> None:
    for each in family(path):
        each.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("remove", "sealed"),
    [(delete, 0), (delete_all, 0), (delete_all, 10)],
)
def test_a_log_that_is_deleted_is_not_continued(
    path: Path, remove: Callable[[Path], None], sealed: int
) -> None:
    if sealed:
        make_log(path, sealed - 2, checkpoints=path.parent / "elsewhere")
    with serve(path) as server:
        assert [server.call("look"), server.call("look")] == ["seen", "seen"]
        assert server.is_ready()
        remove(path)
        server.wait_for("the log file was deleted")
        assert server.call("look") == "seen"
        assert "must be recorded" in server.call("wipe")
        assert not path.exists()
        wait_until(lambda: not server.is_ready(), lambda: "it is not ready")
        assert server.end() == 0
        assert "records are lost" in server.errors
    streams = [(1, sealed), (1, 3)] if sealed else [(1, 3)]
    assert_missing(path, *streams)
    assert_refuses(path)
    (path.parent / "elsewhere").unlink()
    delete_all(path)
    with serve(path) as server:  # a new log begins a new chain
        assert server.call("wipe") == "wiped"
        assert server.end() == 0
    assert_sound(path)


def test_a_server_that_nobody_calls_notices_too(path: Path) -> None:
    with serve(path) as server:
        delete_all(path)
        server.wait_for("the log file was deleted")
        server.end(signal.SIGKILL)
    assert_missing(path, (1, 1))


def test_a_server_that_is_killed_before_it_notices_leaves_a_seal(path: Path) -> None:
    with serve(path) as server:
        assert server.call("look") == "seen"
        with stopped(server):
            delete_all(path)
            server.end(signal.SIGKILL)
    assert_missing(path, (1, 1))  # the first record was sealed when it was written, the one after it not yet
    assert_refuses(path)
    assert_missing(path, (1, 1))


def test_a_server_that_ends_before_it_notices_says_so_in_its_last_words(path: Path) -> None:
    with serve(path) as server:
        assert server.call("look") == "seen"
        with stopped(server):
            delete_all(path)
            server.process.send_signal(signal.SIGTERM)
        assert server.end(signal.SIGCONT) == 0
        assert "the log file was deleted" in server.errors
    assert_missing(path, (1, 2))


def test_an_older_copy_in_the_place_of_the_log_is_not_continued(path: Path) -> None:
    copy = path.with_name("copy")
    with serve(path) as server:
        server.call("look")
        with closing(sqlite3.connect(path)) as db, closing(sqlite3.connect(copy)) as target:
            db.backup(target)
        for _ in range(3):
            server.call("look")
        for each in family(path)[1:]:
            each.unlink(missing_ok=True)
        copy.replace(path)
        server.wait_for("the log file was replaced by another file")
        assert "must be recorded" in server.call("wipe")
        assert server.end() == 0
    assert [each["seq"] for each in records(path)] == [1, 2]
    assert_missing(path, (3, 5))
    assert_refuses(path)


def test_workers_all_notice(path: Path) -> None:
    with Serving("--workers", "2", cwd=path.parent) as server:
        for _ in range(20):
            server.call("look")
        delete_all(path)
        server.wait_for("the log file was deleted", 2)
        assert all("must be recorded" in server.call("wipe") for _ in range(10))
        assert server.end() == 0
    assert not path.exists()
    assert_refuses(path)


def test_records_behind_a_deleted_wal_file_outlive_a_kill(path: Path) -> None:
    with serve(path) as server:
        assert server.call("look") == "seen"
        family(path)[1].unlink()
        server.wait_for("audit.db was deleted; its records were saved")
        assert [server.call("look") for _ in range(5)] == ["seen"] * 5
        server.end(signal.SIGKILL)
    assert [each["kind"] for each in records(path)].count("call") == 6
    assert_sound(path)


def test_workers_go_on_behind_a_deleted_wal_file(path: Path) -> None:
    with Serving("--workers", "2", cwd=path.parent) as server:
        for _ in range(20):
            server.call("look")
        family(path)[1].unlink()
        for _ in range(20):
            server.call("look")
        server.wait_for("audit.db was deleted; its records were saved")
        for _ in range(20):
            server.call("look")
        assert server.end() == 0
    assert [each["kind"] for each in records(path)].count("call") == 60
    assert_sound(path)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def drop(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE record")


@pytest.mark.parametrize("damage", [empty, drop])
def test_a_log_that_is_emptied_is_not_sound(path: Path, damage: Callable[[Path], None]) -> None:
    make_log(path, 3, checkpoints=path.parent / "elsewhere")
    damage(path)
    assert_missing(path, (1, 5))
    assert_refuses(path)


def test_a_log_that_was_removed_with_its_checkpoints_is_warned_of(path: Path) -> None:
    words = "but no log"
    with serve(path) as server:
        assert server.end() == 0
        assert words not in server.errors
    for each in (*family(path), path.parent / "elsewhere"):
        each.unlink(missing_ok=True)
    os.utime(path.with_name(f"{path.name}.key"), (0, 0))
    with serve(path) as server:
        server.wait_for(words)
        assert "an earlier log may have been removed" in server.errors
        assert server.end() == 0
    with serve(path) as server:
        assert server.end() == 0
        assert words not in server.errors
