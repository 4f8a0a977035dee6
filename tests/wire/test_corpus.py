"""A1: two thousand hostile messages, in each era and over each transport.

Each gets the answer it is due, the same one everywhere, and the server is there for the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clients.raw_http_client import ClosedError
from tests.support.servers.http_servers import Served
from tests.support.servers.stdio_program import Program
from tests.wire.cases import NO_ID, RESULT, SILENCE, TOOL_ERROR, Case, Verdict, encode, message
from tests.wire.corpus import CORPUS
from tests.wire.sending import count_runs, open_session

_PING = encode(message("ping", id_="probe"))


class Client:
    """Plays cases over HTTP; connects again where the server has hung up."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self.peer = served.connect()
        self.session = open_session(self.peer)

    def play(self, case: Case, place: str) -> str | None:
        """What is wrong with the answer, or None."""
        try:
            response = self.peer.post(case.body, case.headers_at(place, self.session))
        except ClosedError as error:
            self._reconnect()
            return f"no answer: {error}"
        expected = case.verdict_at(place)
        wrong = judge(response.messages, expected, case.id)
        if response.status != case.status_at(place):
            wrong = f"{wrong or ''} status {response.status}, not {case.status_at(place)}"
        try:
            alive = self.peer.post(_PING)
        except ClosedError:
            self._reconnect()
            alive = self.peer.post(_PING)
        return wrong if alive.result == {} else "the server does not answer a ping any more"

    def _reconnect(self) -> None:
        self.peer.socket.close()
        self.peer = self._served.connect()


def judge(replies: list[Any], expected: Verdict | None, id_: Any) -> str | None:
    """What is wrong with replies, or None."""
    if expected == SILENCE:
        return f"not silent: {str(replies)[:200]}" if replies else None
    if len(replies) != 1 or not isinstance(replies[0], dict):
        return f"{len(replies)} replies: {str(replies)[:200]}"
    reply = replies[0]
    found: Any = reply.get("error", {}).get("code")
    if "result" in reply:
        found = TOOL_ERROR if reply["result"].get("isError") else RESULT
    if found != expected:
        return f"{found}, not {expected}: {str(reply)[:200]}"
    if isinstance(found, int) and not (type(reply["error"]["message"]) is str and reply["error"]["message"]):
        return "an error without words"
    if set(reply) - {"id"} != {"jsonrpc", "error" if isinstance(found, int) else "result"}:
        return f"odd keys: {sorted(reply)}"
    answered = reply.get("id", NO_ID)
    return None if type(answered) is type(id_) and answered == id_ else f"id {answered!r}, not {id_!r}"


@pytest.fixture(scope="module")
def client(site: Served) -> Iterator[Client]:
    client = Client(site)
    yield client
    client.peer.socket.close()
    with site.connect() as peer:  # uvicorn may have closed the other connection, which was idle
        assert count_runs(peer) == 0, "a tool ran for a message that was refused"


@pytest.mark.parametrize("place", ["modern", "sessionless", "session"])
@pytest.mark.parametrize("group", CORPUS)
def test_every_hostile_message_over_http_gets_what_it_is_due(client: Client, group: str, place: str) -> None:
    played = [case for case in CORPUS[group] if case.verdict_at(place) is not None]
    wrong = [f"{case.name}: {words}" for case in played if (words := client.play(case, place))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("place", ["stdio-modern", "stdio-legacy"])
@pytest.mark.parametrize("group", CORPUS)
def test_every_hostile_line_gets_what_it_is_due(stdio: Program, group: str, place: str) -> None:
    wrong = []
    for case in CORPUS[group]:
        expected = case.verdict_at(place)
        if expected is not None:
            replies = stdio.replies_to(case.body, expected=0 if expected == SILENCE else 1)
            words = judge(replies, expected, case.id)
            wrong += [f"{case.name}: {words}"] if words else []
    assert not wrong, "\n".join(wrong)


def test_the_corpus_is_large_and_its_cases_differ() -> None:
    cases = [case for group in CORPUS.values() for case in group]
    assert len({case.body for case in cases}) >= 2_000
    for era in ("any", "modern", "legacy"):
        assert sum(case.era == era for case in cases) >= 300
