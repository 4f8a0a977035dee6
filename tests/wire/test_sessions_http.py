"""Sessions of the handshake revisions over HTTP, on both HTTP stacks: how they begin, are used, and end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.clients.legacy_client import Older
from tests.support.servers.http_servers import Served

VERSIONS = ("2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture
def client(connect: Callable[..., Older]) -> Older:
    return connect()


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


def test_a_notification_cancels_a_call_which_is_then_not_answered(client: Older) -> None:
    call = client.call("wait", {"key": "cancelled", "news": 2}, token="t", id_=50)
    assert call.event() is not None
    client.cancel(50)
    assert [item.get("method") for item in call.messages()] == ["notifications/progress"] * 2
    assert "cancelled" in client.call("cancelled").result["content"][0]["text"]


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
