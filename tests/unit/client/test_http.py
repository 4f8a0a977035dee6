"""Streamable HTTP in both eras, against a raw server: headers, sessions, streams, redirects, refusals."""

from __future__ import annotations

import asyncio
import base64
import socket
from typing import Any, NoReturn

import pytest

from toolcrib.client import Client
from toolcrib.context import Answer as Said
from toolcrib.errors import RemoteError, TransportError

from .scripted_http import Answer, ScriptedHTTP, legacy, modern
from .scripted_server import DISCOVERED, INITIALIZED, text

TOOL = {
    "name": "find",
    "inputSchema": {
        "type": "object",
        "properties": {"city": {"type": "string", "x-mcp-header": "City"}, "n": {"type": "integer"}},
    },
}


# --- what is sent ---


async def test_a_modern_request_says_in_its_headers_what_it_says_in_its_body() -> None:
    async with modern() as scripted, scripted.client(headers={"Authorization": "Bearer x"}) as client:
        await client.call("find")
    first, call = scripted.requests
    assert (first.headers["mcp-method"], call.headers["mcp-method"]) == ("server/discover", "tools/call")
    assert (call.method, call.path, call.headers["mcp-name"]) == ("POST", "/mcp", "find")
    for request in scripted.requests:
        assert request.headers["mcp-protocol-version"] == "2026-07-28"
        assert request.headers["content-type"] == "application/json"
        assert request.headers["accept"] == "application/json, text/event-stream"
        assert request.headers["authorization"] == "Bearer x"
        assert "mcp-session-id" not in request.headers


@pytest.mark.parametrize("name", ["żółw", " edge", "edge ", "line\nbreak", "=?base64?eA==?="])
async def test_a_name_that_no_header_carries_is_sent_in_base64(name: str) -> None:
    async with modern() as scripted, scripted.client() as client:
        await client.call(name)
    sent = scripted.named("tools/call")[0].headers["mcp-name"]
    assert sent.startswith("=?base64?")
    assert base64.b64decode(sent[9:-2]).decode() == name


async def test_marked_arguments_are_sent_as_headers_once_the_tool_is_known() -> None:
    async with modern(tools_list={"tools": [TOOL]}) as scripted, scripted.client() as client:
        await client.call("find", {"city": "Oslo"})
        await client.list_tools()
        await client.call("find", {"city": "Łódź", "n": 3})
        await client.call("find", {"city": None})
    before, after, none = scripted.named("tools/call")
    assert "mcp-param-city" not in before.headers
    assert after.headers["mcp-param-city"] == "=?base64?xYHDs2TFug==?="
    assert "mcp-param-n" not in after.headers
    assert "mcp-param-city" not in none.headers


async def test_a_server_that_misses_headers_is_asked_which_and_called_again() -> None:
    def strict(answer: Answer) -> None:
        if answer.request.headers.get("mcp-param-city") == "Oslo":
            answer.result(text("well"))
        else:
            answer.error(-32020, "Mcp-Param-City is missing", 400)

    async with (
        modern(tools_list={"tools": [TOOL]}, tools_call=strict) as scripted,
        scripted.client() as client,
    ):
        assert (await client.call("find", {"city": "Oslo"})).text == "well"
        with pytest.raises(RemoteError, match="Mcp-Param-City is missing"):
            await client.call("find", {})
    assert len(scripted.named("tools/list")) == 2


async def test_a_legacy_session_is_kept_and_ended() -> None:
    async with legacy() as scripted, scripted.client() as client:
        assert client.protocol_version == "2025-11-25"
        assert (await client.call("t")).text == "well"
        await client.close()
    methods = [request.rpc or request.method for request in scripted.requests]
    assert methods == ["server/discover", "initialize", "notifications/initialized", "tools/call", "DELETE"]
    greeting, *later = scripted.requests[1:]
    assert "mcp-protocol-version" not in greeting.headers
    for request in later:
        assert request.headers["mcp-session-id"] == "session-1"
        assert request.headers["mcp-protocol-version"] == "2025-11-25"
        assert "mcp-method" not in request.headers


async def test_a_session_the_server_forgot_is_begun_again_and_the_call_repeated() -> None:
    def forgetful(answer: Answer) -> None:
        if answer.request.headers.get("mcp-session-id") == "s2":
            answer.result(text("well"))
        else:
            answer.error(-32600, "Session not found", 404)

    def greet(answer: Answer) -> None:
        answer.result(INITIALIZED, Mcp_Session_Id=f"s{len(scripted.named('initialize'))}")

    async with legacy(initialize=greet, tools_call=forgetful) as scripted, scripted.client() as client:
        results = await asyncio.gather(*(client.call(f"t{number}") for number in range(5)))
        assert [result.text for result in results] == ["well"] * 5
        assert len(scripted.named("initialize")) == 2
    assert "mcp-session-id" not in scripted.named("initialize")[1].headers


async def test_a_session_that_is_always_forgotten_is_an_error() -> None:
    def forgetful(answer: Answer) -> None:
        answer.send(404)

    async with legacy(tools_call=forgetful) as scripted, scripted.client() as client:
        with pytest.raises(TransportError, match="no longer knows the session"):
            await client.call("t")
    assert len(scripted.named("initialize")) == 2


async def test_connections_are_used_again() -> None:
    async with modern() as scripted, scripted.client() as client:
        for _ in range(10):
            await client.call("t")
    assert scripted.connections == 1


# --- streams ---


async def test_an_answer_may_come_as_events() -> None:
    def reply(answer: Answer) -> None:
        answer.start_events()
        answer.writer.write(b": a comment\r\n\r\n")
        note = {"progressToken": answer.request.message["id"], "progress": 1}
        answer.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": note})
        answer.event_result(text("well"))

    steps: list[Any] = []
    async with modern(tools_call=reply) as scripted, scripted.client() as client:
        assert (await client.call("t", on_progress=lambda *step: steps.append(step))).text == "well"
    assert steps == [(1, None, None)]


async def test_cancelling_a_modern_call_closes_its_stream_and_says_nothing_else() -> None:
    closed = asyncio.Event()

    async def hang(answer: Answer) -> None:
        answer.start_events()
        await answer.writer.drain()
        await answer.gone()
        closed.set()

    async with modern(tools_call=hang) as scripted, scripted.client() as client:
        task = asyncio.create_task(client.call("t"))
        await scripted.wait_for("tools/call")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(closed.wait(), 5)
        assert not scripted.named("notifications/cancelled")
        scripted.acts["tools/call"] = text("well")
        assert (await client.call("t")).text == "well"


async def test_cancelling_a_legacy_call_is_told_in_the_session() -> None:
    async def hang(answer: Answer) -> None:
        answer.start_events()
        await answer.writer.drain()
        await answer.gone()

    async with legacy(tools_call=hang) as scripted, scripted.client() as client:
        task = asyncio.create_task(client.call("t"))
        call = await scripted.wait_for("tools/call")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        told = await scripted.wait_for("notifications/cancelled")
        assert told.message["params"]["requestId"] == call.message["id"]
        assert told.headers["mcp-session-id"] == "session-1"


async def test_a_question_on_a_calls_stream_is_answered_by_a_post() -> None:
    answered = asyncio.Event()
    given: list[Any] = []

    async def ask(answer: Answer) -> None:
        answer.start_events()
        params = {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}}
        answer.event({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params})
        await answer.writer.drain()
        await asyncio.wait_for(answered.wait(), 5)
        answer.event_result(text("well"))

    def take(answer: Answer) -> None:
        given.append(answer.request.message)
        answer.send(202)
        answered.set()

    async def on_ask(question: Any) -> Said:
        return Said("accept", {"name": "Ada"})

    async with legacy(tools_call=ask, POST=take) as scripted, scripted.client(on_ask=on_ask) as client:
        assert (await client.call("t")).text == "well"
    content = {"action": "accept", "content": {"name": "Ada"}}
    assert given == [{"jsonrpc": "2.0", "id": "q", "result": content}]


async def test_a_stream_that_ends_early_is_taken_up_again_where_it_ended() -> None:
    def cut(answer: Answer) -> None:
        answer.start_events()
        answer.event(number="e1", retry=20)
        note = {"level": "info", "data": "one"}
        answer.event({"jsonrpc": "2.0", "method": "notifications/message", "params": note}, number="e2")

    def rest(answer: Answer) -> None:
        answer.start_events()
        call = scripted.named("tools/call")[0]
        if len(scripted.named("GET")) < 3:
            answer.event(number=f"g{len(scripted.named('GET'))}")
        else:
            answer.event_result(text("well"), call, number="e3")

    lines: list[Any] = []
    async with legacy(tools_call=cut, GET=rest) as scripted, scripted.client() as client:
        scripted.acts["logging/setLevel"] = {}
        assert (await client.call("t", on_log=lambda *line: lines.append(line))).text == "well"
    gets = scripted.named("GET")
    assert [request.headers["last-event-id"] for request in gets] == ["e2", "g1", "g2"]
    assert all(request.headers["mcp-session-id"] == "session-1" for request in gets)
    assert lines == [("info", "one")]


@pytest.mark.parametrize("status", [400, 404, 405, 500])
async def test_a_rest_that_is_not_given_is_an_error(status: int) -> None:
    def cut(answer: Answer) -> None:
        answer.start_events()
        answer.event(number="e1", retry=1)

    play = legacy(tools_call=cut, GET=lambda answer: answer.send(status))
    async with play as scripted, scripted.client() as client:
        with pytest.raises(TransportError, match="closed the stream early and does not resume it"):
            await client.call("t")


async def test_the_standing_stream_of_a_legacy_session_tells_of_changes_and_is_opened_again() -> None:
    async def stream(answer: Answer) -> None:
        answer.start_events()
        number = len(scripted.named("GET"))
        answer.event(number=f"n{number}", retry=10)
        if number == 2:
            answer.event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            await answer.writer.drain()
            await answer.gone()

    rung = asyncio.Event()
    async with legacy(GET=stream) as scripted, scripted.client() as client:
        assert await client.on_tools_changed(rung.set) is True
        await asyncio.wait_for(rung.wait(), 5)
    assert [request.headers.get("last-event-id") for request in scripted.named("GET")] == [None, "n1"]


async def test_a_server_without_a_standing_stream_is_known_as_one() -> None:
    async with legacy() as scripted, scripted.client() as client:
        assert await client.on_tools_changed(lambda: None) is False
    assert len(scripted.named("GET")) == 1


async def test_a_modern_subscription_is_a_stream_that_closing_ends() -> None:
    ended = asyncio.Event()

    async def listen(answer: Answer) -> None:
        tag = {"io.modelcontextprotocol/subscriptionId": answer.request.message["id"]}
        answer.start_events()
        for name in ("subscriptions/acknowledged", "tools/list_changed"):
            answer.event({"jsonrpc": "2.0", "method": f"notifications/{name}", "params": {"_meta": tag}})
        await answer.writer.drain()
        await answer.gone()
        ended.set()

    rung = asyncio.Event()
    async with modern(subscriptions_listen=listen) as scripted:
        async with scripted.client() as client:
            assert await client.on_tools_changed(rung.set) is True
            await asyncio.wait_for(rung.wait(), 5)
        await asyncio.wait_for(ended.wait(), 5)
        assert not scripted.named("notifications/cancelled")


# --- refusals ---


async def test_an_address_where_nothing_answers_is_said_in_words() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(TransportError) as caught:
            await Client(f"http://ann:s3cret@{place}/mcp?key=s3cret").connect()
    assert str(caught.value) == f"Cannot connect to http://{place}/mcp: is the server running?"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "denied access (401 Unauthorized): an Authorization header may be required"),
        (403, "denied access (403 Forbidden)"),
        (404, "No MCP server at"),
        (405, "(405 Method Not Allowed): check the path, one that is mounted has a prefix, /tools/mcp"),
        (500, "answered 500 Internal Server Error: oh no"),
        (799, "answered 799: oh no"),
    ],
)
async def test_a_refusal_is_said_in_words(status: int, words: str) -> None:
    def refuse(answer: Answer) -> None:
        answer.send(status, b"oh no", Content_Type="text/plain")

    acts = {"server/discover": refuse, "initialize": refuse, "GET": refuse}
    async with ScriptedHTTP({**acts}) as scripted:
        with pytest.raises(TransportError) as caught:
            await scripted.client().connect()
        assert words in str(caught.value)
        assert caught.value.status == status
        assert len(scripted.named("initialize")) == (0 if status in (401, 403) else 1)


async def test_a_reason_other_than_a_missing_server_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(*args: Any, **options: Any) -> NoReturn:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", find_nothing)
    with pytest.raises(TransportError) as caught:
        await Client("http://tools.example.com/mcp").connect()
    assert str(caught.value) == "Cannot connect to http://tools.example.com/mcp: unknown host"


async def test_anyone_who_has_shown_credentials_is_not_asked_for_some() -> None:
    def refuse(answer: Answer) -> None:
        answer.send(401, b"", WWW_Authenticate='Bearer realm="x", error="invalid_token"')

    async with ScriptedHTTP({"server/discover": refuse, "initialize": refuse, "GET": refuse}) as scripted:
        with pytest.raises(TransportError) as caught:
            await scripted.client().connect()
    assert "rejected the credentials (401 Unauthorized)" in str(caught.value)


@pytest.mark.parametrize("status", [200, 400, 404, 500])
async def test_an_error_in_json_counts_whatever_the_status(status: int) -> None:
    def refuse(answer: Answer) -> None:
        answer.json({"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": "Oh"}}, status)

    async with modern(tools_call=refuse) as scripted, scripted.client() as client:
        with pytest.raises(RemoteError, match=r"^Oh$"):
            await client.call("t")


@pytest.mark.parametrize(
    ("target", "followed"),
    [
        ("/mcp/", True),
        ("http://127.0.0.1:{port}/mcp/?x=1", True),
        ("http://localhost:{port}/mcp/", False),
        ("https://127.0.0.1:{port}/mcp/", False),
        ("//elsewhere.example/mcp", False),
        ("http://[", False),
    ],
)
async def test_a_redirect_is_followed_on_the_same_server_only(target: str, followed: bool) -> None:
    def move(answer: Answer) -> None:
        if answer.request.path.startswith("/mcp/"):
            answer.result(DISCOVERED if answer.request.rpc == "server/discover" else text("well"))
        else:
            answer.send(307, Location=target.format(port=scripted.port))

    async with ScriptedHTTP({"server/discover": move, "tools/call": move, "initialize": move}) as scripted:
        if followed:
            async with scripted.client() as client:
                assert (await client.call("t")).text == "well"
            assert len(scripted.requests) == 3
        else:
            with pytest.raises(TransportError, match=r"redirects to .*; use that address if you trust it"):
                await scripted.client().connect()


async def test_redirects_without_end_are_an_error() -> None:
    def move(answer: Answer) -> None:
        answer.send(308, Location=f"/n{len(scripted.requests)}")

    async with ScriptedHTTP({"server/discover": move, "initialize": move}) as scripted:
        with pytest.raises(TransportError, match="redirects too many times"):
            await scripted.client().connect()
