"""Reading and filtering records."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.support.records.audit_logs import (
    NOON,
    entries,
    kinds,
    make_log,
    make_writer,
    read_lines,
    replace_lines,
    seals,
)
from toolcrib.errors import ConfigurationError
from toolcrib.policy.audit import AuditReader, Problem, open_log
from toolcrib.policy.audit.reader import MAX_PROBLEMS
from toolcrib.policy.audit.record import encode_entry

FACTS: list[dict[str, Any]] = [
    {"id": "a", "principal": "key:ana", "tool": "refund", "outcome": "ok", "code": None},
    {"id": "b", "principal": "key:bob", "tool": "refund_all", "outcome": "denied", "code": "denied"},
    {"id": "c", "principal": "oauth:x", "tool": "search", "outcome": "error", "code": "tool-error"},
    {"id": "d", "principal": "key:ana", "tool": "search", "outcome": "ok", "code": None},
]


@pytest.fixture
def log(tmp_path: Path) -> AuditReader:
    writer = make_writer(tmp_path / "audit.db")
    writer.write([encode_entry(NOON + number, facts) for number, facts in enumerate(FACTS)])
    writer.close()
    return open_log(tmp_path / "audit.db")


def ids(log: AuditReader, **wanted: Any) -> str:
    return "".join(record.get("id", "") for record in log.records(**wanted))


def test_records_come_in_their_order_or_the_other_way_round(log: AuditReader) -> None:
    assert ids(log) == "abcd"
    assert ids(log, newest_first=True) == "dcba"
    assert [record["seq"] for record in log.records(limit=2)] == [1, 2]
    assert [record["seq"] for record in log.records(newest_first=True, limit=2)] == [6, 5]
    assert list(log.records(limit=0)) == []
    assert log.last_seq() == 6


def test_records_are_found_by_what_they_say(log: AuditReader) -> None:
    assert ids(log, principal="key:ana") == "ad"
    assert ids(log, principal="key:*") == "abd"
    assert ids(log, tool="refund") == "a"
    assert ids(log, tool="refund*", newest_first=True) == "ba"
    assert ids(log, tool="[rs]e?*") == "abcd"
    assert ids(log, outcome={"denied", "error"}) == "bc"
    assert ids(log, outcome=set()) == ""
    assert ids(log, code="tool-error") == "c"
    assert ids(log, id="d") == "d"
    assert ids(log, id="d", tool="refund") == ""
    assert ids(log, tool="search", principal="key:*", outcome=["ok"]) == "d"
    assert ids(log, principal="Key:ana") == ""


@pytest.mark.parametrize(
    "time",
    [
        "2026-05-04T10:00:02",
        "2026-05-04T12:00:02+02:00",
        NOON + 2,
        datetime(2026, 5, 4, 10, 0, 2),
        datetime(2026, 5, 4, 12, 0, 2, tzinfo=timezone(timedelta(hours=2))),
        datetime(2026, 5, 4, 10, 0, 2, tzinfo=UTC),
    ],
)
def test_records_are_found_by_their_time(log: AuditReader, time: Any) -> None:
    assert ids(log, since=time) == "cd"
    assert ids(log, until=time) == "ab"
    assert ids(log, since=time, until=time) == ""
    assert ids(log, since="2026-05-04", until="2026-05-05") == "abcd"


@pytest.mark.parametrize("time", ["2026-05-04T10:00:02", datetime(2026, 5, 4, 10, 0, 2)])
def test_a_time_without_a_zone_is_utc_wherever_somebody_asks(
    log: AuditReader, far_east: None, time: Any
) -> None:
    assert ids(log, since=time) == "cd"
    assert ids(log, until=time) == "ab"


@pytest.mark.parametrize("time", ["yesterday", "", float("inf"), float("nan"), 1e30])
def test_a_time_that_is_none_is_an_error(log: AuditReader, time: Any) -> None:
    with pytest.raises(ConfigurationError, match="must be a date or a time such as"):
        log.records(since=time)


def test_a_value_inside_does_not_make_a_record_fit(tmp_path: Path) -> None:
    writer = make_writer(tmp_path / "audit.db")
    writer.write([encode_entry(NOON, {"id": "a", "tool": "x", "values": {"tool": "y", "id": "b", "at": 5}})])
    writer.write([encode_entry(NOON, {"id": "t", "tool": "x", "at": 5})])
    writer.close()
    log = open_log(tmp_path / "audit.db")
    assert ids(log, tool="y") == ids(log, id="b") == ""
    assert ids(log, tool="x", since=0.0, until=9e9) == "a"
    assert ids(log, tool="x", until=9e9) == "a"


def test_a_log_is_followed_while_it_grows(log: AuditReader) -> None:
    writer = make_writer(log.path)
    waits = 0

    def wait() -> bool | None:
        nonlocal waits
        waits += 1
        if waits == 4:
            return False
        if waits != 2:
            writer.write(entries(waits))
        return None

    seen = [record["seq"] for record in log.follow(4, wait)]
    writer.close()
    assert seen == list(range(5, 12))
    assert waits == 4


def test_lines_that_are_no_records_are_skipped(log: AuditReader) -> None:
    lines = read_lines(log.path)
    lines[2] = b'{"seq":3,"at":nonsense' + lines[2][-75:]
    lines[3] = b"garbage"
    replace_lines(log.path, lines)
    assert ids(log) == "ad"
    assert ids(log, newest_first=True) == "da"
    assert [record["seq"] for record in log.follow(1, lambda: False)] == [2, 5, 6]
    assert kinds(log.path) == ["edited", "unreadable"]


def test_json_that_is_no_record_is_skipped(log: AuditReader) -> None:
    lines = read_lines(log.path)
    lines[3] = b'{"id":"x","tool":"refund"}'
    replace_lines(log.path, lines)
    assert ids(log) == "abd"
    assert ids(log, tool="refund") == "a"
    assert [record["seq"] for record in log.follow(0, lambda: False)] == [1, 2, 3, 5, 6]
    assert log.last_seq() == 6


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("path", "{}: no such audit log"),
        ("key_file", "{}: audit.key_file: no such audit key"),
        ("checkpoints", "{}: audit.checkpoints: no such checkpoints"),
        ("copy", "{}: audit.checkpoints: no such checkpoints"),
    ],
)
def test_a_missing_log_or_key_is_an_error(log: AuditReader, missing: str, words: str) -> None:
    nowhere = log.path.with_name("nowhere")
    with pytest.raises(ConfigurationError) as caught:
        open_log(**{"path": log.path, missing: nowhere})
    assert str(caught.value) == words.format(nowhere)


def test_the_own_checkpoints_are_checked_before_the_copy(log: AuditReader) -> None:
    own = seals(log.path)
    copy = own.with_name("copy")
    copy.write_bytes(b"forged\n" + own.read_bytes())
    own.write_bytes(own.read_bytes() + b"forged\n")
    number = len(own.read_bytes().splitlines())
    words = [problem.words for problem in open_log(log.path, copy=copy).verify().problems]
    assert [each.partition(" of ")[0] for each in words] == [f"line {number}", "line 1"]


def test_a_log_without_records_is_a_log(tmp_path: Path) -> None:
    writer = make_writer(tmp_path / "audit.db")
    writer.open()
    writer.release()
    log = open_log(tmp_path / "audit.db")
    assert (log.last_seq(), list(log.records())) == (0, [])
    verdict = log.verify()
    assert (verdict.is_sound, verdict.records, verdict.first_seq, verdict.last_seq) == (True, 0, 0, 0)
    assert verdict.head == "0" * 64
    for beside in ("audit.db.key", "audit.db.checkpoints"):
        (tmp_path / beside).unlink()
    assert open_log(tmp_path / "audit.db").verify().problems == []


def test_a_verdict_says_what_was_looked_at(tmp_path: Path) -> None:
    make_log(tmp_path / "audit.db", 12_000, batch=4000)
    heard: list[int] = []
    verdict = open_log(str(tmp_path / "audit.db")).verify(heard.append)
    assert heard == [5000, 10_000]
    assert verdict.records == verdict.last_seq == verdict.proven_through == 12_002
    assert (verdict.first_seq, verdict.checkpoints_checked, verdict.pruned_before) == (1, 1, None)
    assert verdict.head == read_lines(tmp_path / "audit.db")[-1][-66:-2].decode()
    assert verdict.is_sound
    assert verdict.is_keyed
    assert verdict.problems == []


def test_a_log_is_verified_while_it_is_written(tmp_path: Path) -> None:
    writer = make_writer(tmp_path / "audit.db")
    writer.write(entries(5))
    assert open_log(tmp_path / "audit.db").verify().is_sound

    def grow(_: int) -> None:
        writer.write(entries(10))

    writer.write(entries(6000))
    verdict = open_log(tmp_path / "audit.db").verify(grow)
    assert verdict.is_sound
    assert verdict.records == 6006
    writer.close()


def test_a_verdict_without_the_key_says_so(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 5)
    path.with_name("audit.db.key").unlink()
    verdict = open_log(path).verify()
    assert (verdict.is_sound, verdict.is_keyed, verdict.checkpoints_checked) == (True, False, 1)
    path.with_name("audit.db.checkpoints").unlink()
    verdict = open_log(path).verify()
    assert (verdict.is_sound, verdict.proven_through) == (True, 0)


def test_the_number_of_problems_is_limited(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 300)
    replace_lines(path, [line.replace(b"ana", b"bob") for line in read_lines(path)])
    problems = open_log(path).verify().problems
    assert len(problems) == MAX_PROBLEMS + 1
    words = "record 2 does not match the one before it: one of them was changed"
    assert problems[0] == Problem(2, "edited", words)
    assert problems[-1] == Problem(102, "more", "more problems from record 102 on")


def test_every_problem_is_named(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 10)
    lines = read_lines(path)

    def problems(changed: list[bytes]) -> list[tuple[int, str, str]]:
        replace_lines(path, changed)
        return [problem[:3] for problem in open_log(path).verify().problems]

    assert problems([*lines[:4], *lines[5:]]) == [(5, "missing", "record 5 is missing")]
    assert problems([*lines[:4], *lines[6:]]) == [(5, "missing", "records 5 to 6 are missing")]
    assert problems(lines[:-1]) == [(12, "truncated", "record 12 is missing at the end")]
    assert problems(lines[2:])[0][1:] == ("missing", "records 1 to 2 are missing")
    assert problems([b"", *lines[1:]])[0] == (1, "unreadable", "record 1 is unreadable")


def test_a_log_that_may_only_be_read_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 5)
    connect = sqlite3.connect
    asked: list[str] = []

    class Refusing(sqlite3.Connection):
        def execute(self, *args: Any) -> sqlite3.Cursor:
            if "mode=ro" in asked[-1]:
                raise sqlite3.OperationalError("unable to open database file")
            return super().execute(*args)

    def strict(address: str, **options: Any) -> sqlite3.Connection:
        asked.append(address)
        return connect(address, factory=Refusing, **options)

    monkeypatch.setattr(sqlite3, "connect", strict)
    assert open_log(path).verify().is_sound
    assert [address.rpartition("?")[2] for address in asked] == ["mode=ro", "immutable=1"]
    path.with_name("audit.db-wal").touch()
    with pytest.raises(ConfigurationError, match="not an audit log: unable to open database file"):
        open_log(path).verify()


def test_without_locks_one_process_still_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.policy.audit.checkpoints.fcntl", None)
    make_log(tmp_path / "audit.db", 5)
    assert open_log(tmp_path / "audit.db").verify().is_sound
