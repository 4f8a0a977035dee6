"""Legacy sessions of a server with two processes, on both HTTP stacks: a request may reach either of them."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.legacy_client import Answer, Event, Older
from tests.support.servers.feature_server import make_desk
from tests.support.servers.http_servers import HTTP_STACKS, Served, serving
from tests.support.servers.key_server import Ring
from toolcrib import Context, MCPServer
from toolcrib.policy import Auth, Policy
from toolcrib.protocol.session_ids import MAX_LENGTH, VALID_S, SessionIds

KEY = b"k" * 32
TEA = "shop://tea"
MODERN = "2026-07-28"


def make_server(folder: Path, *, key: bytes = KEY, **options: Any) -> MCPServer:
    server = make_desk(key=key, **options)
    server.storage.share(str(folder), is_concurrent=True)
    server.resource("shop://{name}")(lambda name: name)

    @server.tool
    async def sell(item: str) -> str:
        """Announce that a resource has changed."""
        await server.resource_changed(f"shop://{item}")
        return "sold"

    @server.tool
    async def count(ctx: Context) -> int:
        """Count the calls of the session."""
        calls = (await ctx.get_state("calls") or 0) + 1
        await ctx.set_state("calls", calls)
        return int(calls)

    return server


@contextmanager
def serving_two(http_stack: str, folder: Path, **options: Any) -> Iterator[list[Served]]:
    with (
        serving(http_stack, make_server(folder, **options)) as first,
        serving(http_stack, make_server(folder, **options)) as second,
    ):
        try:
            yield [first, second]
        finally:
            Answer.leave_all()
    assert not first.complaints
    assert not second.complaints


@pytest.fixture(scope="module", params=HTTP_STACKS)
def pair(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Served]]:
    with serving_two(request.param, tmp_path_factory.mktemp("state")) as served:
        yield served


@pytest.fixture(autouse=True)
def hangs_up() -> Iterator[None]:
    yield
    Answer.leave_all()


class Roaming(Older):
    """A client that chooses the process of each request: `client[1].ask(...)`."""

    def __init__(self, served: list[Served], version: str = "2025-11-25", **capabilities: Any) -> None:
        super().__init__(served[0].port, version, **capabilities)
        self._served = served

    def __getitem__(self, number: int) -> Roaming:
        self.port = self._served[number].port
        return self


def open_one(pair: list[Served], version: str = "2025-11-25", **capabilities: Any) -> Roaming:
    client = Roaming(pair, version, **capabilities)
    client[0].initialize()
    return client


def question(answer: Answer) -> Event:
    return next(event for event in answer.events() if event.data and "method" in event.message)


def text_of(answer: Answer) -> str:
    return str(answer.result["content"][0]["text"])


def wait_until(is_done: Callable[[], bool], timeout_s: float = 5.0) -> None:
    end = time.monotonic() + timeout_s
    while not is_done():
        assert time.monotonic() < end
        time.sleep(0.02)


# --- opening -----------------------------------------------------------------------------------------


def test_a_session_is_served_by_every_process(pair: list[Served]) -> None:
    for version in ("2025-03-26", "2025-06-18", "2025-11-25"):
        client = open_one(pair, version)
        assert client.session is not None
        assert len(client.session) <= MAX_LENGTH
        for number in (1, 0, 1):
            assert text_of(client[number].call("add", {"a": 1, "b": 2})) == "3"
            tools = client[number].ask("tools/list").result["tools"]
            tool = next(tool for tool in tools if tool["name"] == "move")
            assert ("outputSchema" in tool, "icons" in tool) == (version > "2025-05", version > "2025-11")
        answer = client[1].ask("initialize", protocolVersion=version, capabilities={})
        assert (answer.status, answer.code) == (400, -32600)
        assert client[1].end() == 200


def test_an_id_that_is_forged_or_of_another_key_is_unknown(pair: list[Served], tmp_path: Path) -> None:
    client = open_one(pair)
    good = client.session or ""
    with serving("own", make_server(tmp_path, key=b"other" * 8)) as other:
        stranger = Older(other.port)
        stranger.initialize()
        foreign = stranger.session or ""
    head, _, seal = good.rpartition(".")
    middle = len(seal) // 2
    changed = head + "." + seal[:middle] + ("A" if seal[middle] != "A" else "B") + seal[middle + 1 :]
    for bad in (changed, foreign, seal, good + "A", good.replace("1.", "2.", 1), "x" * 500, "1.."):
        client.session = bad
        for number in (0, 1):
            assert client[number].ask("ping").status == 404
            assert client[number].end() == 404
    client.session = good
    assert client[1].ask("ping").result == {}


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_a_session_is_for_the_key_that_opened_it(http_stack: str, tmp_path: Path) -> None:
    ring = Ring(tmp_path)
    keys = {name: ring.make(name) for name in ("ana", "ben")}
    policy = Policy(auth=Auth(keys=ring.file))
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with serving_two(http_stack, tmp_path / "state", policy=policy) as served:
        client = Roaming(served)
        params = {"protocolVersion": "2025-11-25", "capabilities": {}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        client.session = client[0].post(message, X_API_Key=keys["ana"]).headers["mcp-session-id"]
        for number in (1, 0, 1):
            assert client[number].post(ping, X_API_Key=keys["ben"]).status == 404
            assert client[number].post(ping).status == 401
            assert client[number].post(ping, X_API_Key=keys["ana"]).status == 200


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_a_session_ends_everywhere_a_day_after_it_was_opened(http_stack: str, tmp_path: Path) -> None:
    now = [1_700_000_000.0]
    with serving_two(http_stack, tmp_path) as served:
        for each in served:
            each.server.transports.engine.sessions.ids = SessionIds([KEY], wall=lambda: now[0])
        known, new = open_one(served), open_one(served)
        now[0] += VALID_S - 1
        assert [known[number].ask("ping").status for number in (0, 1)] == [200, 200]
        call = known[0].call("wait", {"key": "a day", "news": 1}, token="t")
        assert call.event() is not None
        now[0] += 1
        assert [new[number].ask("ping").status for number in (0, 1)] == [404, 404]
        assert known[1].ask("ping").status == 404
        assert known[0].call("ring", {"key": "a day"}).status == 200  # while a call runs, its process serves
        assert text_of(call) == "waited for a day"
        wait_until(lambda: known[0].ask("ping").status == 404)


def test_what_a_tool_keeps_for_a_session_follows_it(pair: list[Served]) -> None:
    client, other = open_one(pair), open_one(pair)
    assert [text_of(client[number].call("count")) for number in (0, 1, 1, 0)] == ["1", "2", "3", "4"]
    assert text_of(other[1].call("count")) == "1"


# --- ending ------------------------------------------------------------------------------------------


def test_a_session_that_was_ended_is_unknown_everywhere(pair: list[Served]) -> None:
    client, other = open_one(pair), open_one(pair)
    assert client[0].end() == 200
    assert client[1].ask("ping").status == 404  # was never there: looked up
    assert client[0].ask("ping").status == 404
    assert other[1].ask("ping").status == 200
    call = other[1].call("wait", {"key": "the end", "news": 1}, token="t")
    assert call.event() is not None
    assert other[0].end() == 200
    wait_until(lambda: other[1].ask("ping").status == 404)  # was there: notified
    assert [event.message["method"] for event in call.events()] == []
    assert "the end" in text_of(open_one(pair)[1].call("cancelled"))


# --- questions and cancellations ---------------------------------------------------------------------


def test_an_answer_reaches_the_process_that_asks(pair: list[Served]) -> None:
    client = open_one(pair, elicitation={}, sampling={}, roots={})
    said = {"role": "assistant", "content": {"type": "text", "text": "a poem"}, "model": "m"}
    answers = {
        "greet": ({"action": "accept", "content": {"name": "Ada"}}, "Hello, Ada!"),
        "complete": (said, "assistant of m: a poem"),
        "where": ({"roots": [{"uri": "file:///work"}]}, "file:///work"),
    }
    for name, (answer, result) in answers.items():
        for caller, answerer in ((0, 1), (1, 0), (1, 1)):
            call = client[caller].call(name)
            asked = question(call)
            assert client[answerer].reply(asked.message["id"], answer).status == 202
            assert result in text_of(call)


def test_a_long_answer_is_forwarded_too(pair: list[Served]) -> None:
    client = open_one(pair, sampling={})
    for size in (60_000, 70_000, 1_000_000):
        poem = "x" * size
        said = {"role": "assistant", "content": {"type": "text", "text": poem}, "model": "m"}
        call = client[0].call("complete")
        assert client[1].reply(question(call).message["id"], said).status == 202
        assert text_of(call) == f"assistant of m: {poem}"
    with closing(sqlite3.connect(pair[0].server.storage.path or "")) as db:
        assert db.execute("SELECT max(length(data)) FROM notice").fetchone()[0] < 65_536
        wait_until(
            lambda: db.execute("SELECT count(*) FROM value WHERE space = 'message'").fetchone() == (0,)
        )


def test_an_answer_of_another_session_is_none(pair: list[Served]) -> None:
    client, thief = open_one(pair, elicitation={}), open_one(pair, elicitation={})
    call = client[0].call("greet")
    number = question(call).message["id"]
    for where in (0, 1):
        assert thief[where].reply(number, {"action": "accept", "content": {"name": "Eve"}}).status == 202
    client[1].reply(number, {"action": "accept", "content": {"name": "Ada"}})
    assert text_of(call) == "Hello, Ada!"


def test_an_answer_to_a_process_that_has_ended_is_refused(pair: list[Served]) -> None:
    client = open_one(pair, elicitation={})
    answer = client[1].reply("ask-0123456789abcdef-7", {"action": "decline"})
    assert answer.status == 404
    assert "make the call again" in answer.json["error"]["message"]
    assert client[1].ask("ping").status == 200
    assert client[1].reply("ask-unknown-7", {"action": "decline"}).status == 202  # dropped, as ever


def test_a_cancellation_reaches_the_process_that_runs_the_call(pair: list[Served]) -> None:
    client = open_one(pair)
    call = client[0].call("wait", {"key": "cancelled elsewhere", "news": 1}, token="t", id_=50)
    assert call.event() is not None
    client[1].cancel(51)
    client[1].cancel(50)
    assert list(call.events()) == []
    assert "cancelled elsewhere" in text_of(client[0].call("cancelled"))


# --- settings and streams ----------------------------------------------------------------------------


def test_a_log_level_follows_its_session(pair: list[Served]) -> None:
    client = open_one(pair)
    assert client[0].ask("logging/setLevel", level="error").result == {}
    assert not client[1].call("chat", {"level": "warning"}).is_stream  # was never there
    assert client[1].ask("logging/setLevel", level="debug").result == {}
    wait_until(lambda: client[0].call("chat", {"level": "debug"}).is_stream)  # was there: notified


def test_subscriptions_follow_their_session(pair: list[Served]) -> None:
    client = open_one(pair)
    assert client[1].ask("resources/subscribe", uri=TEA).result == {}
    own = client[0].listen()
    primed = own.event()
    assert primed is not None
    assert primed.data == ""
    for number in (0, 1):
        assert text_of(Older(pair[number].port).call("sell", {"item": "tea"})) == "sold"
        found = own.event()
        assert found is not None
        assert found.message["params"]["uri"] == TEA
    for uri in ("shop://milk", "shop://milk"):  # acknowledged once the process with the stream has it
        assert client[1].ask("resources/subscribe", uri=uri).result == {}
    assert text_of(Older(pair[0].port).call("sell", {"item": "milk"})) == "sold"
    found = own.event()
    assert found is not None
    assert found.message["params"]["uri"] == "shop://milk"
    assert client[1].ask("resources/unsubscribe", uri="shop://milk").result == {}
    for item in ("milk", "tea"):
        Older(pair[0].port).call("sell", {"item": item})
    found = own.event()
    assert found is not None
    assert found.message["params"]["uri"] == TEA


def test_too_many_subscriptions_are_refused_whichever_process_has_them(pair: list[Served]) -> None:
    client = open_one(pair)
    codes = []
    for number in range(101):
        messages = client[number % 2].ask("resources/subscribe", uri=f"shop://{number}").messages()
        codes.append(messages[-1].get("error", {}).get("code"))
    assert codes == [None] * 100 + [-32602]


def test_a_client_that_reads_its_stream_elsewhere_reads_it_there_only(pair: list[Served]) -> None:
    client = open_one(pair)
    client[0].ask("resources/subscribe", uri="shop://cocoa")
    first = client[0].listen()
    primed = first.event()
    assert primed is not None
    assert client[0].listen().status == 409
    second = client[1].listen(primed.id)
    assert second.status == 200
    assert list(first.events()) == []  # has ended
    assert (second.event() or primed).data == ""
    assert text_of(Older(pair[0].port).call("sell", {"item": "cocoa"})) == "sold"
    found = second.event()
    assert found is not None
    assert found.message["params"]["uri"] == "shop://cocoa"
    third = client[0].listen(found.id)
    assert third.status == 200
    assert list(second.events()) == []


def test_the_stream_of_a_call_cannot_be_resumed(pair: list[Served]) -> None:
    client = open_one(pair)
    call = client[0].call("wait", {"key": "let go", "news": 1, "lets_go": True}, token="t")
    first = call.event()
    assert first is not None
    assert (first.id, first.message["method"]) == (None, "notifications/progress")
    client[0].call("ring", {"key": "let go"})
    assert text_of(call) == "waited for let go"
    assert client[1].listen("1-1").status == 400


def test_the_older_transport_is_not_served_by_several_processes(pair: list[Served]) -> None:
    assert Older(pair[0].port, path="/sse").send("GET").status == 404


def test_a_modern_message_ignores_sessions(pair: list[Served]) -> None:
    client = open_one(pair)
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
    answer = client[1].post(message, MCP_Protocol_Version=MODERN, Mcp_Method="tools/list")
    assert answer.result["resultType"] == "complete"


# --- when the store fails ----------------------------------------------------------------------------


def test_calls_go_on_without_the_store(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with serving_two("own", folder) as served:
        client, other = open_one(served), open_one(served)
        assert client[1].ask("ping").status == 200
        for file in folder.iterdir():
            file.unlink()
        (folder / "state.db").mkdir()
        assert text_of(other[1].call("add", {"a": 1, "b": 2})) == "3"
        answer = other[1].ask("logging/setLevel", level="error")
        assert (answer.status, answer.code) == (503, -32603)
