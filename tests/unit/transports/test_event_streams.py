"""The streams of a session: events are numbered, kept, and sent again to clients that resume."""

from __future__ import annotations

import pytest

from tests.support.clients.transcripts import Paper
from toolcrib.transports.http import sse as streams
from toolcrib.transports.http.sse import MAX_KEPT_BYTES, EventStream, ReplayBudget, SessionStreams


def ids(paper: Paper) -> list[str]:
    return [line[4:] for line in paper.text.decode().split("\n") if line.startswith("id: ")]


def opened(stream: EventStream, *, resumable: bool = False) -> Paper:
    paper = Paper()
    stream.open(paper, resumable=resumable)
    return paper


def resumed(stream: EventStream, after: int) -> Paper:
    paper = Paper()
    stream.resume(paper, after)
    return paper


def test_events_are_numbered_and_named_by_their_stream() -> None:
    mine = SessionStreams()
    first, second = mine.new(), mine.new()
    one, two = opened(first, resumable=True), opened(second)
    first.send(b"{}"), second.send(b"{}"), first.send(b"{}")
    assert ids(one) == ["1-0", "1-1", "1-2"]
    assert ids(two) == ["2-1"]
    assert one.text.startswith(
        b"200 text/event-stream\nid: 1-0\nretry: 500\ndata: \n\nevent: message\nid: 1-1\n"
    )


def test_a_client_that_resumes_gets_missed_and_new_events() -> None:
    stream = SessionStreams().new()
    reader = opened(stream)
    stream.send(b"1")
    stream.lost(reader)
    stream.send(b"2"), stream.send(b"3")
    back = resumed(stream, 1)
    assert ids(back) == ["1-2", "1-3"]
    stream.send(b"4")
    assert ids(back) == ["1-2", "1-3", "1-4"]
    assert ids(reader) == ["1-1"]
    stream.finish()
    assert back.is_done
    assert ids(resumed(stream, 3)) == ["1-4"]


def test_losing_an_old_reader_does_not_detach_the_new_one() -> None:
    stream = SessionStreams().new()
    first = opened(stream)
    second = resumed(stream, 0)
    assert first.is_done
    stream.lost(first)
    assert stream.writer is second


def test_nothing_is_sent_after_the_end() -> None:
    stream = SessionStreams().new()
    reader = opened(stream)
    stream.finish()
    stream.send(b"late")
    assert ids(reader) == []


def test_the_latest_events_of_a_long_stream_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_KEPT_BYTES", 1000)
    stream = SessionStreams().new()
    for _ in range(5):
        stream.send(b"x" * 300)
    assert ids(resumed(stream, 0)) == ["1-5"]
    stream.send(b"x" * 5000)  # the last event is kept whatever its size
    assert ids(resumed(stream, 0)) == ["1-6"]


def test_the_budget_of_the_server_drops_the_oldest_events() -> None:
    budget = ReplayBudget(2000)
    mine, yours = SessionStreams(budget), SessionStreams(budget)
    first, second, third = mine.new(), yours.new(), mine.new()
    for stream in (first, second, first, third):
        stream.send(b"x" * 300)
        stream.finish() if stream is third else None
    assert budget.bytes <= budget.limit
    assert ids(resumed(second, 0)) == []  # written to before the others
    assert ids(resumed(third, 0)) == ["2-1"]
    mine.close(), yours.close()
    assert budget.bytes == 0


def test_a_finished_stream_without_events_is_not_found() -> None:
    budget = ReplayBudget(600)
    mine = SessionStreams(budget)
    old = mine.new()
    old.send(b"{}")
    old.finish()
    assert mine.find(b"1-0") == (old, 0)
    mine.new().send(b"x" * 500)
    assert mine.find(b"1-0") is None


def test_only_some_of_the_streams_that_ended_are_kept() -> None:
    mine = SessionStreams()
    for number in range(streams.MAX_KEPT_STREAMS + 5):
        stream = mine.new()
        stream.send(b"%d" % number)
        stream.finish()
    mine.new()
    assert mine.find(b"1-0") is None
    assert mine.find(b"6-0") is not None


@pytest.mark.parametrize(
    "last", [b"", b"-", b"1-", b"-1", b"1-x", b"1--1", b"9-1", b"\xff-1", b"1-" + b"9" * 13]
)
def test_an_invalid_event_id_is_not_found(last: bytes) -> None:
    mine = SessionStreams()
    mine.new()
    assert mine.find(last) is None


def test_the_stream_of_the_session_itself() -> None:
    mine = SessionStreams()
    assert mine.find(b"0-0") == (mine.own, 0)
    assert not mine.is_read
    reader = opened(mine.own)
    assert mine.is_read
    mine.notify(b"news")
    mine.own.lost(reader)
    for _ in range(3):
        mine.notify(b"news")  # the same three times
    mine.notify(b"other")
    assert ids(resumed(mine.own, 1)) == ["0-2", "0-3"]
    mine.notify(b"other")
    assert ids(resumed(mine.own, 3)) == ["0-4"]


def test_one_session_cannot_use_the_share_of_another() -> None:
    whole = ReplayBudget()
    mine, theirs = SessionStreams(whole), SessionStreams(whole)
    theirs.own.send(b"x")
    streams = [mine.new() for _ in range(4)]
    for stream in streams:
        stream.send(b"y" * (MAX_KEPT_BYTES // 2 - 1000))
    assert [len(ids(resumed(stream, 0))) for stream in streams] == [0, 0, 1, 1]
    assert ids(resumed(theirs.own, 0)) == ["0-1"]
    mine.close()
    theirs.close()
    assert whole.bytes == 0
