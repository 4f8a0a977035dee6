"""Sessions of the handshake revisions over HTTP, on both HTTP stacks: how they begin, are used, and end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clients.legacy_client import Answer, Older
from tests.support.servers.feature_server import make_desk
from tests.support.servers.http_servers import HTTP_STACKS, Served, serving
from toolcrib.protocol.sessions import Sessions

VERSIONS = ("2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module", params=HTTP_STACKS)
def desk(request: Any) -> Iterator[Served]:
    with serving(request.param, make_desk()) as served:
        yield served
        assert not served.complaints


@pytest.fixture(autouse=True)
def hangs_up() -> Iterator[None]:
    yield
    Answer.leave_all()


@pytest.fixture
def client(desk: Served) -> Iterator[Older]:
    client = Older(desk.port)
    client.initialize()
    yield client
    if client.session is not None:
        client.end()


# --- beginning ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [*VERSIONS, "2024-11-05"])
def test_initialize_answers_with_the_asked_version_and_the_id_of_a_session(
    desk: Served, version: str
) -> None:
    client = Older(desk.port, version)
    result = client.initialize()
    assert result["protocolVersion"] == version
    assert client.session is not None
    assert len(client.session) >= 32
    assert all("!" <= letter <= "~" for letter in client.session)
    assert client.call("add", {"a": 1, "b": 2}).result["content"] == [{"type": "text", "text": "3"}]
    assert client.end() == 200


@pytest.mark.parametrize("asked", [MODERN, "2023-01-01", "1.0", ""])
def test_another_version_is_answered_with_the_newest_of_its_era(desk: Served, asked: str) -> None:
    answer = Older(desk.port).ask("initialize", protocolVersion=asked, capabilities={})
    assert answer.result["protocolVersion"] == "2025-11-25"


def test_every_session_has_an_id_of_its_own(desk: Served) -> None:
    ids = set()
    for _ in range(20):
        client = Older(desk.port)
        client.initialize()
        ids.add(client.session)
        client.end()
    assert len(ids) == 20


def test_a_session_is_initialized_once(client: Older) -> None:
    answer = client.ask("initialize", protocolVersion="2025-11-25", capabilities={})
    assert (answer.status, answer.code) == (400, -32600)
    assert client.ask("ping").result == {}


def test_a_refused_handshake_opens_no_session(desk: Served) -> None:
    before = len(desk.server.transports.engine.sessions)
    for params in ({}, {"protocolVersion": 1}, {"protocolVersion": "2025-11-25", "capabilities": []}):
        answer = Older(desk.port).ask("initialize", **params)
        assert "mcp-session-id" not in answer.headers
        assert (answer.status, answer.code) == (200, -32602)
    assert len(desk.server.transports.engine.sessions) == before


# --- ending ------------------------------------------------------------------------------------------


def test_an_ended_session_is_not_found_any_more(client: Older) -> None:
    assert client.end() == 200
    assert client.ask("tools/list").status == 404
    assert client.listen().status == 404
    assert client.end() == 404
    client.session = None


def test_an_unknown_session_is_not_found(desk: Served) -> None:
    client = Older(desk.port)
    for unknown in ("nonsense", "x" * 5000, "ü"):
        client.session = unknown
        for answer in (client.ask("ping"), client.listen(), client.post({"jsonrpc": "2.0", "method": "x"})):
            assert answer.status == 404
            assert "initialize again" in answer.json["error"]["message"]
        assert client.end() == 404


def test_delete_and_get_need_a_session(desk: Served) -> None:
    client = Older(desk.port)
    assert client.end() == 400
    assert client.listen().status == 400


def test_an_ended_session_ends_its_calls_its_questions_and_its_stream(desk: Served) -> None:
    client = Older(desk.port, elicitation={})
    client.initialize()
    own = client.listen()
    assert own.event() is not None  # the priming one
    call = client.call("wait", {"key": "the end", "news": 1}, token="t")
    assert call.event() is not None
    asked = client.call("greet")
    assert asked.event() is not None
    assert client.end() == 200
    assert own.event() is None
    assert [event.message["method"] for event in call.events() if event.data] == ["notifications/progress"]
    assert [event.message.get("method") for event in asked.events() if event.data] == ["elicitation/create"]
    assert "the end" in Older(desk.port).call("cancelled").result["content"][0]["text"]


# --- whose it is, and how it is used -----------------------------------------------------------------


def test_calls_of_several_sessions_do_not_meet(desk: Served) -> None:
    """The same ids, at the same time, in two sessions: each hears of its own, and cancels its own."""
    first, second = Older(desk.port), Older(desk.port)
    first.initialize(), second.initialize()
    one = first.call("wait", {"key": "one", "news": 1}, token="a", id_=7)
    two = second.call("wait", {"key": "two", "news": 1}, token="b", id_=7)
    first.cancel(7)
    second.call("ring", {"key": "two"})
    heard = two.messages()
    assert {item["params"]["progressToken"] for item in heard[:-1]} == {"b"}
    assert heard[-1]["result"]["content"][0]["text"] == "waited for two"
    assert [item["params"]["progressToken"] for item in one.messages()] == ["a"]
    first.end(), second.end()


def test_the_same_id_twice_under_way_is_refused_and_the_first_is_answered(client: Older) -> None:
    first = client.call("wait", {"key": "twice", "news": 1}, token=1, id_="same")
    assert first.event() is not None
    second = client.call("add", {"a": 1}, id_="same")
    assert (second.status, second.code) == (400, -32600)
    client.call("ring", {"key": "twice"})
    assert first.messages()[-1]["result"]["content"][0]["text"] == "waited for twice"
    assert client.call("add", {"a": 1}, id_="same").status == 200


def test_a_notification_cancels_a_call_which_is_then_not_answered(client: Older) -> None:
    call = client.call("wait", {"key": "cancelled", "news": 2}, token="t", id_=50)
    assert call.event() is not None
    client.cancel(50)
    assert [item.get("method") for item in call.messages()] == ["notifications/progress"] * 2
    assert "cancelled" in client.call("cancelled").result["content"][0]["text"]


def test_cancelling_what_does_not_run_does_nothing(client: Older) -> None:
    for number in (1, 999, "x", -1):
        client.cancel(number)
    assert client.post({"jsonrpc": "2.0", "method": "notifications/cancelled"}).status == 202
    assert client.ask("ping").result == {}


def test_a_log_level_holds_for_its_session(desk: Served) -> None:
    quiet, loud = Older(desk.port), Older(desk.port)
    quiet.initialize(), loud.initialize()
    assert quiet.ask("logging/setLevel", level="error").result == {}
    assert quiet.call("chat", {"level": "warning"}).result["content"][0]["text"] == "said"
    assert not quiet.call("chat", {"level": "warning"}).is_stream
    assert quiet.call("chat", {"level": "error"}).messages()[0]["params"]["level"] == "error"
    assert loud.call("chat", {"level": "warning"}).messages()[0]["params"]["level"] == "warning"
    quiet.end(), loud.end()


# --- without a session -------------------------------------------------------------------------------


def test_without_a_session_tools_are_listed_and_called(desk: Served) -> None:
    client = Older(desk.port)
    listed = client.ask("tools/list")
    assert "mcp-session-id" not in listed.headers
    tools = {tool["name"]: tool for tool in listed.result["tools"]}
    assert "outputSchema" not in tools["add"]  # a client that says nothing speaks 2025-03-26
    assert client.call("add", {"a": 1, "b": 2}).result["content"][0]["text"] == "3"
    assert client.ask("ping").result == {}
    assert client.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202


def test_without_a_session_nobody_can_be_asked(desk: Served) -> None:
    client = Older(desk.port)
    result = client.call("greet").result
    assert result["isError"] is True
    assert "cannot be asked" in result["content"][0]["text"]
    assert client.call("careful").result["content"][0]["text"] == "nobody to ask"
    answer = client.reply("ask-1", {"action": "accept"})
    assert (answer.status, answer.code) == (400, -32600)


def test_a_call_without_a_session_still_tells_of_its_progress(desk: Served) -> None:
    events = list(Older(desk.port).call("steps", {"count": 2}, token=5).events())
    assert [event.message.get("method") for event in events] == ["notifications/progress"] * 2 + [None]
    assert {event.id for event in events} == {None}  # nobody could come back for it


# --- versions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_without_a_session_the_header_says_the_version(desk: Served, version: str) -> None:
    answer = Older(desk.port).post(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, MCP_Protocol_Version=version
    )
    tool = next(tool for tool in answer.result["tools"] if tool["name"] == "move")
    assert ("outputSchema" in tool) == (version >= "2025-06-18")
    assert ("icons" in tool) == (version >= "2025-11-25")


def test_a_session_keeps_its_version_whatever_older_header_comes(desk: Served) -> None:
    client = Older(desk.port, "2025-06-18")
    client.initialize()
    for version in ("", "2025-03-26", "2025-11-25"):
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        tools = client.post(message, MCP_Protocol_Version=version).result["tools"]
        tool = next(tool for tool in tools if tool["name"] == "move")
        assert "outputSchema" in tool
        assert "icons" not in tool
    client.end()


@pytest.mark.parametrize("version", ["2025-13-99", "nonsense", "2025-11-25, 2025-06-18"])
def test_an_unknown_version_in_the_header_is_a_bad_request(client: Older, version: str) -> None:
    answer = client.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, MCP_Protocol_Version=version)
    assert (answer.status, answer.code) == (400, -32602)


def test_a_modern_message_ignores_sessions_good_or_bad(client: Older) -> None:
    good = client.session or ""
    for session in (good, "nonsense"):
        answer = client.post(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE}},
            MCP_Protocol_Version=MODERN,
            Mcp_Method="tools/list",
            Mcp_Session_Id=session,
        )
        assert answer.status == 200
        assert "mcp-session-id" not in answer.headers
        assert answer.result["resultType"] == "complete"


def test_get_and_delete_are_not_for_modern_clients(client: Older) -> None:
    for method in ("GET", "DELETE"):
        answer = client.send(method, Accept="text/event-stream", MCP_Protocol_Version=MODERN)
        assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert client.ask("ping").result == {}


def test_an_argument_that_looks_like_an_envelope_does_not_lose_its_session(client: Older) -> None:
    value = {"_meta": ENVELOPE}
    assert client.call("echo", {"value": value}).result["structuredContent"] == value
    assert client.call("wait", {"key": json.dumps(ENVELOPE), "lets_go": True}).is_stream


# --- how many, and for how long ----------------------------------------------------------------------


@pytest.fixture(params=HTTP_STACKS)
def small(request: Any) -> Iterator[tuple[Served, Clock]]:
    """A server with room for three sessions, which expire after a minute."""
    server, clock = make_desk(), Clock()
    server.transports.engine.sessions = Sessions(clock, limit=3, idle_s=60)
    with serving(request.param, server) as served:
        yield served, clock
        assert not served.complaints


def test_a_session_expires_when_nobody_has_used_it_for_long(small: tuple[Served, Clock]) -> None:
    served, clock = small
    used, unused = Older(served.port), Older(served.port)
    used.initialize(), unused.initialize()
    for _ in range(3):
        clock.now += 50
        assert used.ask("ping").status == 200
    assert unused.ask("ping").status == 404
    clock.now += 61
    assert used.ask("ping").status == 404


def test_a_session_does_not_expire_while_it_reads_or_runs_nor_right_after(
    small: tuple[Served, Clock],
) -> None:
    served, clock = small
    reader, caller = Older(served.port), Older(served.port)
    reader.initialize(), caller.initialize()
    own = reader.listen()
    assert own.event() is not None
    call = caller.call("wait", {"key": "long", "news": 1}, token="t")
    assert call.event() is not None
    clock.now += 1000
    Older(served.port).initialize()  # which looks for expired ones
    caller.call("ring", {"key": "long"})
    assert call.messages()[-1]["result"]["content"][0]["text"] == "waited for long"
    assert reader.ask("ping").status == 200
    assert caller.ask("ping").status == 200
    own.leave()


def test_when_there_are_too_many_sessions_an_idle_one_makes_room(small: tuple[Served, Clock]) -> None:
    served, _ = small
    used, unused, third, late = (Older(served.port) for _ in range(4))
    used.initialize(), unused.initialize()
    assert used.ask("ping").status == 200
    third.initialize(), late.initialize()
    assert [client.ask("ping").status for client in (used, unused, third, late)] == [200, 404, 200, 200]


def test_when_all_sessions_are_busy_the_next_is_told_to_come_later(small: tuple[Served, Clock]) -> None:
    served, clock = small
    clients = [Older(served.port) for _ in range(3)]
    streams = []
    for client in clients:
        client.initialize()
        streams.append(client.listen())
        assert streams[-1].event() is not None
    late = Older(served.port)
    answer = late.ask("initialize", protocolVersion="2025-11-25", capabilities={})
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert clients[0].ask("ping").status == 200
    clients[1].end()
    late.initialize()
    for stream in (streams[0], streams[2]):
        stream.leave()
    deadline = time.monotonic() + 5
    while any(session.is_busy for session in served.server.transports.engine.sessions):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    clock.now += 61
    Older(served.port).initialize()  # those of before have expired
    assert len(served.server.transports.engine.sessions) == 1
