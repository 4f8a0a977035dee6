"""Records: encoding, the hash chain, times and limits."""

from __future__ import annotations

import json
import os
import stat
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.support.records.audit_logs import (
    NOON,
    ManualClocks,
    entries,
    make_log,
    make_writer,
    read_lines,
)
from toolcrib.policy.audit.record import (
    MAX_LINE,
    NO_RECORD,
    chain_entries,
    encode_entry,
    follows,
    format_time,
    has_time,
    parse_time,
    read_head,
    to_plain,
)
from toolcrib.state.base import Head, Record
from toolcrib.validation import codec

GENESIS = NO_RECORD.hash


def said(facts: dict[str, object]) -> dict[str, object]:
    record: dict[str, object] = codec.decode(b"{%b}" % encode_entry(NOON, facts).body)
    del record["at"]
    return record


def test_texts_of_a_long_record_are_cut() -> None:
    longest = 4096 - len('{"kind":"k","tool":""}')
    assert said({"kind": "k", "tool": "x" * longest})["tool"] == "x" * longest
    cut = said({"kind": "k", "tool": "x" * (longest + 1)})["tool"]
    assert cut == f"{'x' * 512}… ({longest + 1} characters)"


@pytest.mark.parametrize("largest", [{"values": ["x" * 65_254]}, {"values": {"a": "x" * 65_250}}])
def test_values_of_a_record_beyond_the_maximum_are_left_out(
    largest: dict[str, object],
) -> None:
    room = 65_280 - len(codec.write({**largest, "tool": ""}))
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
    [record] = chain_entries("one", NO_RECORD, [encode_entry(NOON, {"id": "c1", "tool": "refund"})])
    body = b'{"seq":1,"stream":"one","at":"2026-05-04T10:00:00.000Z","kind":"call","id":"c1","tool":"refund"'
    digest = sha256(GENESIS + body).hexdigest()
    assert record == Record(
        *(1, int(NOON * 1000), "c1", "", "refund", "", body + b',"hash":"' + digest.encode() + b'"}')
    )
    assert read_head(record.line) == record.head == Head(1, digest.encode())


def test_each_hash_covers_the_one_before() -> None:
    first, second = (record.line for record in chain_entries("one", NO_RECORD, entries(2)))
    assert follows(first, "one", NO_RECORD)
    assert follows(second, "one", Head(1, first[-66:-2]))
    assert not follows(second, "one", NO_RECORD)
    assert not follows(second, "one", Head(1, GENESIS))
    assert not follows(first, "two", NO_RECORD)
    assert not follows(first.replace(b"ana", b"bob"), "one", NO_RECORD)
    changed = first[:-3] + (b"0" if first[-3:-2] != b"0" else b"1") + b'"}'
    assert not follows(changed, "one", NO_RECORD)
    assert chain_entries("one", Head(2, second[-66:-2]), []) == []


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b'{"seq":1,"stream":"s","hash":"' + b"0" * 64 + b'"}'[:-1],
        b'{"seq":0,"stream":"s","hash":"' + b"0" * 64 + b'"}',
        b'{"seq":01,"stream":"s","hash":"' + b"0" * 64 + b'"}',
        b'{"seq":1,"stream":"s","a":1,"hash":"' + b"G" * 64 + b'"}',
        b'{"seq":-1,"stream":"s","a":1,"hash":"' + b"0" * 64 + b'"}',
        b'{"seq":1,"stream":"s","a":1,"hash":"' + b"0" * 64 + b'"}\r',
    ],
)
def test_what_is_no_record_has_no_number(line: bytes) -> None:
    assert read_head(line) is None


def test_the_shortest_line_that_can_be_a_record_is_one() -> None:
    assert read_head(b'{"seq":7,"stream":"s","a":1,"hash":"' + b"a" * 64 + b'"}') == Head(7, b"a" * 64)


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
    [record] = chain_entries("one", NO_RECORD, [encode_entry(NOON, facts)])
    line = record.line
    assert b"\n" not in line
    assert len(line) <= MAX_LINE
    found: dict[str, object] = json.loads(line)
    assert (found.pop("seq"), found.pop("stream"), found.pop("at")) == (1, "one", format_time(NOON))
    del found["hash"]
    return found


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"kind": "intent"}, b'"kind":"intent"'),
        ({"n": 1}, b'"kind":"call","n":1'),
        ({}, b'"kind":"call"'),
    ],
)
def test_an_entry_is_a_call_unless_it_says_its_own_kind(facts: dict[str, object], said: bytes) -> None:
    [record] = chain_entries("one", NO_RECORD, [encode_entry(NOON, facts)])
    line = record.line
    assert line.startswith(
        b'{"seq":1,"stream":"one","at":"%b",%b,"hash":"' % (format_time(NOON).encode(), said)
    )


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


# --- in the store ---


@pytest.mark.parametrize("change", [{"at_ms": 1}, {"at_ms": 1 << 80}, {"line": b"garbage"}])
def test_a_record_is_found_by_the_time_of_its_line(change: dict[str, Any]) -> None:
    [record] = chain_entries("one", NO_RECORD, entries(1))
    assert has_time(record)
    assert not has_time(record._replace(**change))


def test_nobody_else_can_read_the_log_its_key_or_its_checkpoints(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_log(tmp_path / "deep" / "er" / "audit.db", 3)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "deep" / "er").iterdir()}
    assert modes == {"audit.db": 0o600, "audit.db.key": 0o600, "audit.db.checkpoints": 0o600}


def test_writing_nothing_writes_nothing(tmp_path: Path) -> None:
    writer = make_writer(tmp_path / "audit.db", ManualClocks())
    writer.write(entries(1))
    before = read_lines(tmp_path / "audit.db")
    writer.write([])
    assert read_lines(tmp_path / "audit.db") == before
    writer.close()
    writer.close()
    assert len(read_lines(tmp_path / "audit.db")) == 3
