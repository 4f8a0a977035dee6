"""Sessions: whose they are, how many there may be, when they expire, and how they end."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.context import ANONYMOUS, LOCAL, Principal
from toolcrib.protocol.calls import Peer, PendingRequest
from toolcrib.protocol.messages import RPCError
from toolcrib.protocol.questions import relevant_capabilities
from toolcrib.protocol.revisions import LEGACY, NEWEST_LEGACY
from toolcrib.protocol.sessions import Session, Sessions
from toolcrib.transports.http.sse import SessionStreams

ADA, EVE = Principal("ada"), Principal("eve")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def open_one(sessions: Sessions, principal: Principal = ADA) -> Session:
    return sessions.open(principal, None, NEWEST_LEGACY, {})


def test_a_session_is_found_by_its_id_and_by_anyone_who_opened_it(clock: Clock) -> None:
    sessions = Sessions(clock)
    session = open_one(sessions)
    assert session.id is not None
    assert sessions.find(session.id, ADA) is session
    assert sessions.find(session.id, Principal("ada", frozenset({"more"}))) is session
    assert sessions.find(session.id, EVE) is None
    assert sessions.find("", ADA) is None


def test_anyone_who_opens_too_many_loses_the_one_used_longest_ago(clock: Clock) -> None:
    sessions = Sessions(clock, per_principal=3)
    first, second, third = (open_one(sessions) for _ in range(3))
    other = open_one(sessions, EVE)
    clock.now = 1
    assert sessions.find(first.id or "", ADA) is first
    fourth = open_one(sessions)
    assert list(sessions) == [third, other, first, fourth]
    assert sessions.find(second.id or "", ADA) is None


def test_a_session_with_a_call_under_way_is_not_the_one_that_is_lost(clock: Clock) -> None:
    sessions = Sessions(clock, per_principal=2)
    busy = open_one(sessions)
    busy.inflight[1] = PendingRequest(Peer(session=busy), 1)
    idle = open_one(sessions)
    newest = open_one(sessions)
    assert list(sessions) == [busy, newest]
    assert idle not in sessions


def test_in_a_full_table_the_owner_with_the_most_loses_the_one_that_is_missed_least(clock: Clock) -> None:
    sessions = Sessions(clock, limit=4, per_principal=9)
    eve, first, second, third = (open_one(sessions, who) for who in (EVE, ADA, ADA, ADA))
    clock.now = 1
    sessions.find(first.id or "", ADA)
    ben = open_one(sessions, Principal("ben"))
    assert list(sessions) == [eve, third, first, ben]  # one that nobody has used since it was opened
    sessions.find(third.id or "", ADA)
    other = open_one(sessions, Principal("dan"))
    assert list(sessions) == [eve, ben, third, other]  # the one used longest ago
    assert second not in sessions


def test_anyone_who_shows_nothing_is_counted_by_address(clock: Clock) -> None:
    sessions = Sessions(clock, limit=4, per_principal=1)
    addresses = ["192.0.2.1", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "2001:db8::3"]
    opened = []
    for address, principal in zip(addresses, [LOCAL, ANONYMOUS, LOCAL, ANONYMOUS, LOCAL], strict=True):
        opened.append(sessions.open(principal, address, NEWEST_LEGACY, {}))
    assert list(sessions) == [opened[0], *opened[2:]]  # of one network, the oldest


def test_when_every_session_is_busy_there_is_no_room(clock: Clock) -> None:
    sessions = Sessions(clock, limit=2, per_principal=2)
    for who in (EVE, ADA):
        session = open_one(sessions, who)
        session.inflight[1] = PendingRequest(Peer(session=session), 1)
    with pytest.raises(RPCError) as refused:
        open_one(sessions, Principal("ben"))
    assert refused.value.status == 503


def test_a_principal_with_only_busy_sessions_loses_its_oldest(clock: Clock) -> None:
    sessions = Sessions(clock, per_principal=2)
    busy = [open_one(sessions) for _ in range(2)]
    for session in busy:
        session.inflight[1] = PendingRequest(Peer(session=session), 1)
    newest = open_one(sessions)
    assert list(sessions) == [busy[1], newest]


def test_a_session_expires_when_it_is_asked_for_or_another_begins(clock: Clock) -> None:
    sessions = Sessions(clock, idle_s=10)
    first, second = open_one(sessions), open_one(sessions)
    clock.now = 10
    assert sessions.find(first.id or "", ADA) is first
    clock.now = 11
    assert sessions.find(second.id or "", ADA) is None
    clock.now = 21
    open_one(sessions, EVE)
    assert len(sessions) == 1


def test_anything_that_is_read_or_runs_does_not_expire_and_its_time_begins_when_that_ends(
    clock: Clock,
) -> None:
    sessions = Sessions(clock, idle_s=10)
    reading, running, idle = (open_one(sessions) for _ in range(3))
    reading.streams = SessionStreams()
    reading.streams.own.writer = object()  # somebody
    running.inflight[1] = PendingRequest(Peer(session=running), 1)
    clock.now = 100
    sessions.expire()
    assert list(sessions) == [reading, running]
    clock.now = 105
    reading.streams.own.writer = None
    reading.touch()
    del running.inflight[1]
    running.touch()
    clock.now = 114
    sessions.expire()
    assert len(sessions) == 2
    clock.now = 116
    sessions.expire()
    assert len(sessions) == 0
    assert idle not in sessions


def test_touching_what_has_ended_does_not_bring_it_back(clock: Clock) -> None:
    sessions = Sessions(clock)
    session = open_one(sessions)
    sessions.end(session)
    session.touch()
    Session(ADA).touch()
    assert len(sessions) == 0


def test_ending_a_session_ends_its_streams_and_calls(clock: Clock) -> None:
    sessions = Sessions(clock)
    session = open_one(sessions)
    session.streams = SessionStreams()
    call = session.inflight[1] = PendingRequest(Peer(session=session), 1)
    sessions.close()
    assert call.is_cancelled
    assert session.streams.own.is_done


@pytest.mark.parametrize("id_", [None, 1, "ask-1", [], "ask-2"])
def test_an_answer_that_no_caller_waits_for_is_dropped(id_: Any) -> None:
    Session().receive_answer({"id": id_, "result": {}})


def test_a_session_keeps_of_its_client_what_questions_look_at_and_no_more() -> None:
    told = {
        "elicitation": {"form": {"x": ["y" * 1000]}, "url": {}, "other": 1},
        "sampling": {"tools": {"a": 1}},
        "roots": [],
        "experimental": {"much": "x" * 1000},
    }
    session = Session()
    session.open(LEGACY["2025-11-25"], told)
    assert session.capabilities == {"elicitation": {"form": {}, "url": {}}, "sampling": {}}
    assert relevant_capabilities({}) == {}
