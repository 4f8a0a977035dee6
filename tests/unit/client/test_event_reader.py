"""Server-sent events come out whole, however the chunks were cut, and never without a limit."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.client.http import EventReader, ServerSentEvent, TooLongError


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({min(place, len(data)) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(ends)]


def read_events(*chunks: bytes, limit: int = 1000) -> list[ServerSentEvent]:
    events = EventReader(limit)
    return [event for chunk in chunks for event in events.feed(chunk)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_an_event_has_a_name_data_and_an_id(end: bytes) -> None:
    data = end.join(
        [b"event: note", b"data: one", b"data:two", b"id: 7", b"retry: 50", b": comment", b"", b"x", b""]
    )
    assert read_events(data) == [ServerSentEvent("note", b"one\ntwo", "7", 50)]


STREAM = b"\xef\xbb\xbfdata: a\r\n\r\n:c\n\nid: 1\ndata\n\nid\ndata: b\rdata: c\r\revent: x\ndata: d\n\n"


@given(st.lists(st.integers(0, len(STREAM))))
def test_events_are_the_same_however_they_are_cut(places: list[int]) -> None:
    assert read_events(*cut(STREAM, places)) == [
        ServerSentEvent("message", b"a", None, None),
        ServerSentEvent("message", b"", "1", None),
        ServerSentEvent("message", b"b\nc", "", None),
        ServerSentEvent("x", b"d", "", None),
    ]


def test_an_id_alone_is_remembered_without_an_event() -> None:
    events = EventReader(100)
    assert list(events.feed(b"id: 5\nretry: 9\n\nid: a\0b\n\nretry: soon\n\nretry: 9999999999\n\n")) == []
    assert (events.last_id, events.retry_ms) == ("5", 9)


def test_an_event_that_never_ends_is_not_an_event() -> None:
    assert read_events(b"data: a\n\ndata: b\n") == [ServerSentEvent("message", b"a", None, None)]


@pytest.mark.parametrize(
    "chunks", [[b"data: " + b"x" * 200], [b"data: x\n"] * 200, [b"x" * 60, b"x" * 60], [b": " + b"x" * 200]]
)
def test_an_event_beyond_the_limit_is_refused(chunks: list[bytes]) -> None:
    with pytest.raises(TooLongError):
        read_events(*chunks, limit=100)
