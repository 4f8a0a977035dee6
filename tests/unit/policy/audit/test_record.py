"""What a record has room for, and how its time is spelt."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.support.audit_logs import NOON
from toolcrib.policy.audit.record import GENESIS, encode_entry, format_time, read_head, to_plain
from toolcrib.validation import codec


def said(facts: dict[str, object]) -> dict[str, object]:
    record: dict[str, object] = codec.decode(b"{%b}" % encode_entry(NOON, facts))
    del record["at"]
    return record


def test_a_text_is_cut_where_all_of_it_would_take_more_than_four_thousand_bytes() -> None:
    longest = 4096 - len('{"kind":"k","tool":""}')
    assert said({"kind": "k", "tool": "x" * longest})["tool"] == "x" * longest
    cut = said({"kind": "k", "tool": "x" * (longest + 1)})["tool"]
    assert cut == f"{'x' * 512}… ({longest + 1} characters)"


@pytest.mark.parametrize("largest", [{"values": ["x" * 65_510]}, {"values": {"a": "x" * 65_506}}])
def test_values_are_left_out_where_all_of_it_would_take_more_than_a_line_may(
    largest: dict[str, object],
) -> None:
    room = 65_536 - len(codec.write({**largest, "tool": ""}))
    assert room >= 0
    assert said({**largest, "tool": "t" * room}) == {"kind": "call", **largest, "tool": "t" * room}
    assert said({**largest, "tool": "t" * (room + 1)}) == {"kind": "call", "tool": "t" * (room + 1)}


def test_something_like_it_has_an_end() -> None:
    assert to_plain([[]] * 20_000) == [[]] * 9_998 + ["<list>"] * 10_002
    assert to_plain({"a": [{}] * 20_000}) == {"a": [{}] * 9_996 + ["<dict>"] * 10_004}


@pytest.mark.parametrize("nested", [lambda value: [value], lambda value: {"a": value}])
def test_something_like_it_is_thirty_two_deep(nested: object) -> None:
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
