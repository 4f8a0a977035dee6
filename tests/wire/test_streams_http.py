"""Streams of the handshake revisions over HTTP, on both stacks: a session's own, those of calls, and how a
client comes back to them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.support.clients.legacy_client import Answer, Event, Older
from tests.support.servers.http_servers import Served

Connect = Callable[..., Older]
CHANGED = "notifications/tools/list_changed"


def change(desk: Served) -> None:
    """Change the tools, and change them back: two changes that clients hear of as one."""
    desk.server.registry.disable("echo")
    desk.server.registry.enable("echo")


def next_event(answer: Answer) -> Event:
    event = answer.event()
    assert event is not None
    return event


def until(ask: Callable[[], Answer], status: int) -> Answer:
    """Ask until the server has seen what happened meanwhile on another connection."""
    end = time.monotonic() + 5
    while (answer := ask()).status != status:
        assert time.monotonic() < end, answer.status
    return answer


def texts(answer: Answer) -> list[str]:
    return [item["result"]["content"][0]["text"] for item in answer.messages() if "result" in item]


# --- the session's own stream ------------------------------------------------------------------------


def test_a_client_of_2025_11_25_is_told_first_where_to_come_back_to(connect: Connect) -> None:
    stream = connect().listen()
    assert (stream.status, stream.is_stream) == (200, True)
    assert stream.headers["x-accel-buffering"] == "no"
    assert next_event(stream) == Event(id="0-0", retry=500, data="")


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18"])
def test_an_older_one_is_not_for_it_could_not_read_that(desk: Served, connect: Connect, version: str) -> None:
    stream = connect(version).listen()
    change(desk)
    event = next_event(stream)
    assert (event.id, event.message["method"]) == ("0-1", CHANGED)


def test_a_session_has_one_stream_of_its_own(connect: Connect) -> None:
    client = connect()
    first = client.listen()
    assert client.listen().status == 409
    first.leave()
    until(client.listen, 200)


def test_everybody_who_listens_hears_once_that_the_tools_have_changed(desk: Served, connect: Connect) -> None:
    streams = [connect().listen() for _ in range(3)]
    for stream in streams:
        next_event(stream)
    change(desk)
    for stream in streams:
        assert next_event(stream).message == {"jsonrpc": "2.0", "method": CHANGED}
    change(desk)
    assert [next_event(stream).id for stream in streams] == ["0-2"] * 3


def test_news_for_all_are_not_sent_on_the_stream_of_a_call(desk: Served, connect: Connect) -> None:
    client = connect()
    own = client.listen()
    next_event(own)
    call = client.call("wait", {"key": "not here", "news": 1}, token="t")
    next_event(call), next_event(call)
    change(desk)
    assert next_event(own).message["method"] == CHANGED
    client.call("ring", {"key": "not here"})
    assert CHANGED not in [message.get("method") for message in call.messages()]


# --- the stream of a call ----------------------------------------------------------------------------


def test_a_call_with_news_is_a_stream_of_numbered_events(connect: Connect) -> None:
    client = connect()
    for number in (1, 2):
        events = list(client.call("steps", {"count": 2}, token="t").events())
        assert [event.id for event in events] == [f"{number}-{place}" for place in range(4)]
        assert [event.retry for event in events] == [500, None, None, None]
        assert [event.message.get("method") for event in events[1:]] == ["notifications/progress"] * 2 + [
            None
        ]


def test_the_stream_of_a_call_begins_with_its_news_for_older_clients(connect: Connect) -> None:
    events = list(connect("2025-06-18").call("steps", {"count": 1}, token="t").events())
    assert [(event.id, bool(event.data), event.retry) for event in events] == [
        ("1-1", True, None),
        ("1-2", True, None),
    ]


def test_going_away_in_mid_stream_cancels_nothing_and_the_rest_can_be_fetched(
    connect: Connect,
) -> None:
    client = connect()
    call = client.call("wait", {"key": "left", "news": 2}, token="t")
    assert next_event(call).data == ""
    seen = next_event(call)
    call.leave()
    client.call("ring", {"key": "left"})
    back = client.listen(seen.id)
    assert [event.id for event in back.events()] == ["1-2", "1-3", "1-4", "1-5"]
    assert "left" not in client.call("cancelled").result["content"][0]["text"].split('"')


def test_a_client_that_comes_back_before_the_end_hears_the_rest_as_it_comes(
    connect: Connect,
) -> None:
    client = connect()
    call = client.call("wait", {"key": "back", "news": 1}, token="t")
    seen = [next_event(call), next_event(call)]
    call.leave()
    back = client.listen(seen[-1].id)
    assert back.status == 200
    client.call("ring", {"key": "back"})
    assert [event.id for event in back.events()] == ["1-2", "1-3"]


def test_a_call_lets_go_of_its_stream_and_the_client_fetches_the_rest(connect: Connect) -> None:
    client = connect()
    events = list(client.call("wait", {"key": "let go", "news": 1, "lets_go": True}, token="t").events())
    assert [event.id for event in events] == ["1-0", "1-1"]
    assert events[0].retry == 500
    back = client.listen(events[-1].id)
    client.call("ring", {"key": "let go"})
    assert [event.id for event in back.events()] == ["1-2", "1-3"]


def test_a_call_that_lets_go_before_it_has_told_anything_still_says_where_to_come_back_to(
    connect: Connect,
) -> None:
    client = connect()
    events = list(client.call("wait", {"key": "quiet", "lets_go": True}).events())
    assert events == [Event(id="1-0", retry=500, data="")]
    client.call("ring", {"key": "quiet"})
    assert texts(client.listen("1-0")) == ["waited for quiet"]
