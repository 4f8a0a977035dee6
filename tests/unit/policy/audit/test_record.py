"""Records: encoding, the hash chain, times and limits."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest

from tests.support.records.audit_logs import (
    NOON,
    ManualClocks,
    entries,
    make_log,
    make_writer,
    read_lines,
    verify,
)
from toolcrib.policy.audit import open_log
from toolcrib.policy.audit.record import (
    GENESIS,
    MAX_LINE,
    NO_RECORD,
    Entry,
    Head,
    chain_entries,
    encode_entry,
    follows,
    format_time,
    parse_time,
    read_head,
    to_plain,
)
from toolcrib.validation import codec


def said(facts: dict[str, object]) -> dict[str, object]:
    record: dict[str, object] = codec.decode(b"{%b}" % encode_entry(NOON, facts))
    del record["at"]
    return record


def test_texts_of_a_long_record_are_cut() -> None:
    longest = 4096 - len('{"kind":"k","tool":""}')
    assert said({"kind": "k", "tool": "x" * longest})["tool"] == "x" * longest
    cut = said({"kind": "k", "tool": "x" * (longest + 1)})["tool"]
    assert cut == f"{'x' * 512}… ({longest + 1} characters)"


@pytest.mark.parametrize("largest", [{"values": ["x" * 65_510]}, {"values": {"a": "x" * 65_506}}])
def test_values_of_a_record_beyond_the_maximum_are_left_out(
    largest: dict[str, object],
) -> None:
    room = 65_536 - len(codec.write({**largest, "tool": ""}))
    assert room >= 0
    assert said({**largest, "tool": "t" * room}) == {"kind": "call", **largest, "tool": "t" * room}
    assert said({**largest, "tool": "t" * (room + 1)}) == {"kind": "call", "tool": "t" * (room + 1)}


def test_an_approximation_has_a_limited_number_of_items() -> None:
    assert to_plain([[]] * 20_000) == [[]] * 9_998 + ["<list>"] * 10_002
    assert to_plain({"a": [{}] * 20_000}) == {"a": [{}] * 9_996 + ["<dict>"] * 10_004}


@pytest.mark.parametrize("nested", [lambda value: [value], lambda value: {"a": value}])
def test_an_approximation_is_at_most_thirty_two_levels_deep(nested: object) -> None:
    assert callable(nested)
    value: object = "inside"
    for _ in range(32):
        value = nested(value)
    assert to_plain(value) == value
    assert "inside" not in str(to_plain(nested(value)))


def test_a_time_does_not_depend_on_the_one_before() -> None:
    for wall in (0.001, 1000.0, 1001.0, 1000.0, 1000.5, 1000.25, -0.5, 0.0, 0.5, NOON):
        spelt = datetime.fromtimestamp(wall, UTC).isoformat(timespec="milliseconds")
        assert format_time(wall) == spelt.replace("+00:00", "Z")


@pytest.mark.parametrize("line", [b'{"seq":1,', b"", b',"hash":"%b"}' % GENESIS])
def test_what_is_shorter_than_any_record_is_none(line: bytes) -> None:
    assert read_head(line) is None


def test_a_record_is_one_line_of_json_with_its_number_first_and_its_hash_last() -> None:
    head, lines = chain_entries(NO_RECORD, [encode_entry(NOON, {"id": "c1", "tool": "refund"})])
    body = b'{"seq":1,"at":"2026-05-04T10:00:00.000Z","kind":"call","id":"c1","tool":"refund"'
    digest = sha256(GENESIS + body).hexdigest()
    assert lines == [body + b',"hash":"' + digest.encode() + b'"}']
    assert head == Head(1, digest.encode())
    assert read_head(lines[0]) == head


def test_each_hash_covers_the_one_before() -> None:
    head, (first, second) = chain_entries(NO_RECORD, entries(2))
    assert follows(first, NO_RECORD)
    assert follows(second, Head(1, first[-66:-2]))
    assert not follows(second, NO_RECORD)
    assert not follows(second, Head(1, GENESIS))
    assert not follows(first.replace(b"ana", b"bob"), NO_RECORD)
    assert not follows(first[:-3] + (b"0" if first[-3:-2] != b"0" else b"1") + b'"}', NO_RECORD)
    assert head == Head(2, second[-66:-2])
    assert chain_entries(head, []) == (head, [])


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b'{"seq":1,"hash":"' + b"0" * 64 + b'"}'[:-1],
        b'{"seq":0,"hash":"' + b"0" * 64 + b'"}',
        b'{"seq":01,"hash":"' + b"0" * 64 + b'"}',
        b'{"seq":1,"a":1,"hash":"' + b"G" * 64 + b'"}',
        b'{"seq":-1,"a":1,"hash":"' + b"0" * 64 + b'"}',
        b'{"seq":1,"a":1,"hash":"' + b"0" * 64 + b'"}\r',
    ],
)
def test_what_is_no_record_has_no_number(line: bytes) -> None:
    assert read_head(line) is None


def test_the_shortest_line_that_can_be_a_record_is_one() -> None:
    assert read_head(b'{"seq":7,"a":1,"hash":"' + b"a" * 64 + b'"}') == Head(7, b"a" * 64)


@pytest.mark.parametrize(
    ("wall", "text"),
    [
        (0.0, "1970-01-01T00:00:00.000Z"),
        (NOON, "2026-05-04T10:00:00.000Z"),
        (NOON + 0.0625, "2026-05-04T10:00:00.062Z"),
        (NOON + 59.5, "2026-05-04T10:00:59.500Z"),
        (NOON - 0.5, "2026-05-04T09:59:59.500Z"),
    ],
)
def test_times_are_utc_with_milliseconds(wall: float, text: str) -> None:
    assert format_time(wall) == text
    assert format_time(wall) == text
    assert parse_time(text) == pytest.approx(wall, abs=0.001)


def test_a_time_without_a_zone_is_utc() -> None:
    assert parse_time("2026-05-04T10:00") == NOON
    assert parse_time("2026-05-04T12:00+02:00") == NOON
    with pytest.raises(ValueError):
        parse_time("yesterday")


# --- whatever is in an entry ---


def encoded(**facts: object) -> dict[str, object]:
    _, (line,) = chain_entries(NO_RECORD, [encode_entry(NOON, facts)])
    assert b"\n" not in line
    assert len(line) <= MAX_LINE + 200
    record = json.loads(line)
    assert (record.pop("seq"), record.pop("at"), len(record.pop("hash"))) == (1, format_time(NOON), 64)
    return record


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"kind": "intent"}, b'"kind":"intent"'),
        ({"n": 1}, b'"kind":"call","n":1'),
        ({}, b'"kind":"call"'),
    ],
)
def test_an_entry_is_a_call_unless_it_says_its_own_kind(facts: dict[str, object], said: bytes) -> None:
    _, (line,) = chain_entries(NO_RECORD, [encode_entry(NOON, facts)])
    assert line.startswith(b'{"seq":1,"at":"%b",%b,"hash":"' % (format_time(NOON).encode(), said))


def test_values_that_are_not_json_are_approximated() -> None:
    loop: list[object] = []
    loop.append(loop)
    odd = encoded(tool="a\ud800b", values={"x": object(), "n": 1 << 5000, "b": b"raw"}, loop=loop)
    assert odd["tool"] == "a\\ud800b"
    assert odd["values"] == {"x": "<object>", "n": "<integer of 5001 bits>", "b": "<bytes>"}
    assert json.dumps(odd["loop"]).count("[") == 32


def test_a_thing_that_only_looks_like_a_dict_does_no_harm() -> None:
    class Evil(dict[str, object]):
        def items(self) -> object:  # type: ignore[override]
            raise RuntimeError("no")

    assert to_plain(Evil(a=1)) == "<Evil>"
    both: list[object] = []
    both += [both, both]
    assert "<list>" in str(to_plain(both))
    assert to_plain((1, 2.5, None, True, 1 << 1023, 1 << 1024)) == [
        1,
        2.5,
        None,
        True,
        1 << 1023,
        "<integer of 1025 bits>",
    ]


def test_a_long_name_is_cut_and_its_length_told() -> None:
    record = encoded(tool="x" * 5000, principal="ana", code=None)
    assert record == {
        "kind": "call",
        "tool": "x" * 512 + "… (5000 characters)",
        "principal": "ana",
        "code": None,
    }
    assert encoded(tool="x" * 512 + "y", rest="z" * 5000)["tool"] == "x" * 512 + "… (513 characters)"
    assert encoded(tool="x" * 512, rest="z" * 5000)["tool"] == "x" * 512
    assert encoded(tool="x" * 3000)["tool"] == "x" * 3000  # the line is short enough


def test_values_that_are_far_too_many_are_left_out() -> None:
    values = {str(number): "x" * 100 for number in range(2000)}
    assert encoded(tool="t", values=values, listed=["x" * 70_000]) == {"kind": "call", "tool": "t"}


# --- in the stores ---


def test_a_log_keeps_lines_as_they_were_written(tmp_path: Path) -> None:
    make_log(tmp_path / "audit.db", 200, batch=77)
    lines = read_lines(tmp_path / "audit.db")
    assert len(lines) == 202
    opened, first = json.loads(lines[0]), json.loads(lines[1])
    assert opened["kind"] == "opened"
    assert (opened["server"], opened["process"]) == ("shop", os.getpid())
    assert (first["seq"], first["kind"], first["id"]) == (2, "call", "c1")
    closed = json.loads(lines[-1])
    assert (closed["kind"], closed["process"]) == ("closed", os.getpid())
    assert chain_entries(NO_RECORD, [entry_of(line) for line in lines])[1] == lines


def entry_of(line: bytes) -> Entry:
    record = json.loads(line)
    facts = {key: value for key, value in record.items() if key not in ("seq", "at", "hash")}
    return encode_entry(parse_time(record["at"]), facts)


def test_nobody_else_can_read_the_log_its_key_or_its_checkpoints(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_log(tmp_path / "deep" / "er" / "audit.db", 3)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "deep" / "er").iterdir()}
    assert modes == {"audit.db": 0o600, "audit.db.key": 0o600, "audit.db.checkpoints": 0o600}


def test_several_writers_share_one_log(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    writers = [make_writer(path) for _ in range(3)]
    for turn in range(12):
        writers[turn % 3].write(entries(turn, start=turn * 100))
    for writer in writers:
        writer.close()
    verdict = verify(path)
    assert verdict.is_sound
    assert verdict.records == sum(range(12)) + 6
    assert sum(writer.records for writer in writers) == verdict.records
    assert len(set(read_lines(path))) == verdict.records


def test_a_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 5)
    writer = make_log(path, 5)
    assert verify(path).is_sound
    assert verify(path).last_seq == writer.head.seq == 14
    assert [record["kind"] for record in open_log(path).records()].count("opened") == 2


def test_rows_are_inserted_in_groups(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    make_log(path, 64 + 8 + 8 + 1 + 1, batch=1000)
    rows = sqlite3.connect(path)
    numbers = [row[0] for row in rows.execute("SELECT seq FROM record ORDER BY seq")]
    rows.close()
    assert numbers == list(range(1, 85))
    assert verify(path).is_sound


def test_sync_waits_for_the_disk(tmp_path: Path) -> None:
    make_log(tmp_path / "audit.db", 5, sync=True)
    assert verify(tmp_path / "audit.db").records == 7


def test_writing_nothing_writes_nothing(tmp_path: Path) -> None:
    writer = make_writer(tmp_path / "audit.db", ManualClocks())
    writer.write(entries(1))
    before = read_lines(tmp_path / "audit.db")
    writer.write([])
    assert read_lines(tmp_path / "audit.db") == before
    writer.close()
    writer.close()
    assert len(read_lines(tmp_path / "audit.db")) == 3
