"""The pair of 2024-11-05, on both HTTP stacks: a stream to read from, and a place to post to."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from tests.support.clients.legacy_client import Answer, Older
from tests.support.servers.feature_server import make_desk
from tests.support.servers.http_servers import Served, hosted, serving
from toolcrib.client import Client
from toolcrib.transports.http import sse


class Oldest:
    """A client of the pair."""

    def __init__(self, port: int, sse: str = "/sse") -> None:
        self._client = Older(port, path=sse)
        self.stream = self._client.send("GET", Accept="text/event-stream")
        assert (self.stream.status, self.stream.is_stream) == (200, True)
        first = self.stream.event()
        assert first is not None
        assert first.kind == "endpoint"
        self.place = self._client.path = first.data

    def post(self, message: Any) -> Answer:
        return self._client.send("POST", json.dumps(message).encode(), Content_Type="application/json")

    def ask(self, method: str, id_: Any = 1, **params: Any) -> Any:
        """Send a request, and read what comes next on the stream."""
        assert self.post({"jsonrpc": "2.0", "id": id_, "method": method, "params": params}).status == 202
        return self.read()

    def read(self) -> Any:
        event = self.stream.event()
        assert event is not None
        assert event.kind == "message"
        return event.message

    def initialize(self, **capabilities: Any) -> Any:
        params = {"protocolVersion": "2024-11-05", "capabilities": capabilities}
        return self.ask("initialize", id_=0, **params)["result"]


def test_a_client_of_2024_11_05_is_served_from_beginning_to_end(desk: Served) -> None:
    client = Oldest(desk.port)
    assert client.place.startswith("/messages?session_id=")
    assert client.ask("tools/list")["error"]["code"] == -32602  # not initialized yet
    facts = client.initialize()
    assert facts["protocolVersion"] == "2024-11-05"
    assert facts["serverInfo"] == {"name": "desk", "version": "1.0.0"}
    assert client.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).status == 202
    tools = client.ask("tools/list")["result"]["tools"]
    assert {key for tool in tools for key in tool} == {"name", "description", "inputSchema"}
    result = client.ask("tools/call", name="mixture")["result"]
    assert [block["type"] for block in result["content"]] == ["text", "image", "text", "text"]
    assert "structuredContent" not in client.ask("tools/call", name="add", arguments={"a": 1})["result"]
    assert client.ask("ping") == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_news_and_questions_come_on_the_same_stream(desk: Served) -> None:
    client = Oldest(desk.port)
    client.initialize(sampling={})
    arguments, meta = {"count": 1, "words": "w"}, {"progressToken": "t"}
    told = client.ask("tools/call", name="steps", arguments=arguments, _meta=meta)
    assert told["params"] == {"progressToken": "t", "progress": 1, "total": 1}  # it knows no words beside it
    assert client.read()["result"]["content"][0]["text"] == "1 steps"
    asked = client.ask("tools/call", id_=2, name="complete")
    reply = {"role": "assistant", "content": {"type": "text", "text": "ode"}, "model": "m"}
    assert client.post({"jsonrpc": "2.0", "id": asked["id"], "result": reply}).status == 202
    assert client.read()["result"]["content"][0]["text"] == "assistant of m: ode"


def test_everybody_hears_that_the_tools_have_changed(desk: Served) -> None:
    client, silent = Oldest(desk.port), Oldest(desk.port)
    client.initialize()
    desk.server.registry.disable("echo")
    assert client.read() == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    desk.server.registry.enable("echo")
    client.read()
    silent.initialize()  # had it heard before that, it would have come first


def test_calls_run_side_by_side_and_are_cancelled_by_id(desk: Served) -> None:
    client = Oldest(desk.port)
    client.initialize()
    for number in (5, 6):
        params = {"name": "wait", "arguments": {"key": f"pair {number}"}}
        client.post({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
    client.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})
    assert client.ask("tools/call", id_=7, name="ring", arguments={"key": "pair 6"})["id"] == 7
    assert client.read()["result"]["content"][0]["text"] == "waited for pair 6"
    assert "pair 5" in client.ask("tools/call", name="cancelled")["result"]["content"][0]["text"]


def test_when_the_reader_goes_its_calls_end_and_its_place_is_gone(desk: Served) -> None:
    client, other = Oldest(desk.port), Oldest(desk.port)
    client.initialize(), other.initialize()
    params = {"name": "wait", "arguments": {"key": "gone reader"}}
    client.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    client.stream.leave()
    while client.post({"jsonrpc": "2.0", "method": "x"}).status != 404:
        pass
    while "gone reader" not in other.ask("tools/call", name="cancelled")["result"]["content"][0]["text"]:
        pass


def test_bad_messages_are_answered_on_the_stream(desk: Served) -> None:
    client = Oldest(desk.port)
    client.initialize()
    place = Older(desk.port, path=client.place)
    for body, code in ((b"{", -32700), (b"[]", -32600), (b'{"jsonrpc":"2.0","id":1,"method":"x"}', -32601)):
        assert place.send("POST", body, Content_Type="application/json").status == 202
        assert client.read()["error"]["code"] == code


async def test_the_client_of_toolcrib_finds_it_below_the_address_of_the_stream(desk: Served) -> None:
    async with Client(f"http://127.0.0.1:{desk.port}/sse") as client:
        assert (await client.call("add", {"a": 1})).text


def test_anything_that_is_wrong_with_the_request_itself_is_answered_at_once(desk: Served) -> None:
    kind = {"Content_Type": "application/json"}
    client = Oldest(desk.port)
    assert Older(desk.port, path="/messages").send("POST", b"{}", **kind).status == 404
    assert Older(desk.port, path="/messages?session_id=nonsense").send("POST", b"{}", **kind).status == 404
    assert Older(desk.port, path=client.place).send("POST", b"{}", Content_Type="text/plain").status == 415
    assert Older(desk.port, path=client.place).send("GET").status == 405
    assert Older(desk.port, path="/sse").send("POST", b"{}", **kind).status == 405
    assert Older(desk.port, path="/sse").send("GET", Origin="http://evil.example").status == 403


def test_there_is_room_for_so_many_readers(desk: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_LEGACY_STREAMS", 0)
    answer = Older(desk.port, path="/sse").send("GET")
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")


def test_a_server_that_keeps_no_sessions_has_nothing_there() -> None:
    with serving("own", make_desk(keeps_sessions=False)) as served:
        assert Older(served.port, path="/sse").send("GET").status == 404
        assert Older(served.port).listen().status == 405
        answer = Older(served.port).ask("initialize", protocolVersion="2025-11-25", capabilities={})
        assert "mcp-session-id" not in answer.headers


def test_a_mounted_server_names_the_place_as_its_clients_see_it() -> None:
    with hosted(Starlette(routes=[Mount("/tools", app=make_desk().asgi())])) as port:
        client = Oldest(port, "/tools/sse")
        assert client.place.startswith("/tools/messages?session_id=")
        assert client.initialize()["protocolVersion"] == "2024-11-05"
        session = Older(port, path="/tools/mcp")
        session.initialize()
        assert session.call("add", {"a": 1}).status == 200
        assert session.end() == 200
        Answer.leave_all()
