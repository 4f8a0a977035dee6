"""Reading and filtering records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.support.records.audit_logs import (
    NOON,
    ManualClocks,
    entries,
    kinds,
    make_log,
    make_writer,
    read_lines,
    replace_lines,
    seals,
)
from toolcrib.errors import ConfigurationError
from toolcrib.policy.audit import AuditReader, open_log
from toolcrib.policy.audit.record import encode_entry

FACTS: list[dict[str, Any]] = [
    {"id": "a", "principal": "key:ana", "tool": "refund", "outcome": "ok", "code": None},
    {"id": "b", "principal": "key:bob", "tool": "refund_all", "outcome": "denied", "code": "denied"},
    {"id": "c", "principal": "oauth:x", "tool": "search", "outcome": "error", "code": "tool-error"},
    {"id": "d", "principal": "key:ana", "tool": "search", "outcome": "ok", "code": None},
]


@pytest.fixture
def log(tmp_path: Path) -> AuditReader:
    clocks = ManualClocks()
    clocks.advance(len(FACTS))
    writer = make_writer(tmp_path / "audit.db", clocks)
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
    assert list(log.last_seqs().values()) == [6]


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
    writer.close()
    log = open_log(tmp_path / "audit.db")
    assert ids(log, tool="y") == ids(log, id="b") == ""
    assert ids(log, tool="x", since=0.0, until=9e9) == "a"


def test_a_log_is_followed_while_it_grows(log: AuditReader) -> None:
    clocks = ManualClocks()
    clocks.advance(60)
    writer = make_writer(log.path, clocks)
    waits = 0

    def wait() -> bool | None:
        nonlocal waits
        waits += 1
        if waits == 4:
            return False
        if waits != 2:
            writer.write(entries(waits, wall=clocks.wall_s))
        return None

    [stream] = log.last_seqs()
    seen = [record["seq"] for record in log.follow({stream: 4}, wait)]
    writer.close()
    assert seen == [5, 6, 1, 2, 3, 4, 5]
    assert waits == 4


def test_lines_that_are_no_records_are_skipped(log: AuditReader) -> None:
    lines = read_lines(log.path)
    lines[2] = b'{"seq":3,"at":nonsense' + lines[2][-75:]
    lines[3] = b"garbage"
    replace_lines(log.path, lines)
    assert ids(log) == "ad"
    assert ids(log, newest_first=True) == "da"
    assert [record["seq"] for record in log.follow({}, lambda: False)] == [1, 2, 5, 6]
    assert kinds(log.path) == ["unreadable", "unreadable"]


def test_json_that_is_no_record_is_skipped(log: AuditReader) -> None:
    lines = read_lines(log.path)
    lines[3] = b'{"id":"x","tool":"refund"}'
    replace_lines(log.path, lines)
    assert ids(log) == "abd"
    assert ids(log, tool="refund") == "a"
    assert [record["seq"] for record in log.follow({}, lambda: False)] == [1, 2, 3, 5, 6]


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
    assert (log.last_seqs(), list(log.records())) == ({}, [])
    verdict = log.verify()
    assert (verdict.is_sound, verdict.records, verdict.streams) == (True, 0, 0)
    for beside in ("audit.db.key", "audit.db.checkpoints"):
        (tmp_path / beside).unlink()
    assert open_log(tmp_path / "audit.db").verify().problems == []


def test_a_missing_log_is_verified_by_its_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 3)
    path.unlink()
    assert kinds(path) == ["truncated"]
    assert list(open_log(path).records()) == []
    assert open_log(path).last_seqs() == {}
    seals(path).write_bytes(seals(path).read_bytes().splitlines(keepends=True)[0])  # of the empty log
    with pytest.raises(ConfigurationError, match="no such audit log"):
        open_log(path).verify()
    path.mkdir()
    with pytest.raises(ConfigurationError, match="no such audit log"):
        open_log(path)


def test_records_of_all_streams_come_in_the_order_of_their_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolcrib.policy.audit.reader._PAGE", 3)
    writers = [make_writer(tmp_path / "audit.db") for _ in range(2)]
    for number in range(10):
        writers[number % 2].write(entries(1, number, NOON + number))
    for writer in writers:
        writer.release()
    log = open_log(tmp_path / "audit.db")
    wanted = [f"c{number}" for number in range(10)]
    assert [record["id"] for record in log.records() if "id" in record] == wanted
    assert [record["id"] for record in log.records(newest_first=True) if "id" in record] == wanted[::-1]
    assert [record["id"] for record in log.records(tool="tool_0", newest_first=True, limit=2)] == ["c9", "c6"]
    assert [record["id"] for record in log.follow({}, lambda: False) if "id" in record] == wanted


def test_without_locks_one_process_still_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.policy.audit.checkpoints.fcntl", None)
    make_log(tmp_path / "audit.db", 5)
    assert open_log(tmp_path / "audit.db").verify().is_sound
