"""The client of `toolcrib serve --stdio --reload` keeps its pipe while the process behind it is replaced."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers.serve_process import SOURCES, is_running
from tests.unit.cli.conftest import ADD
from toolcrib.cli.reload import Relay
from toolcrib.client import Client
from toolcrib.context import Answer, Elicitation, URLElicitation
from toolcrib.errors import RemoteError

MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


class Process:
    """A process of a server: what it was sent, and whether it was told that no more comes."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.got: list[Any] = []
        self.is_ended = False

    def send_message(self, line: bytes) -> None:
        self.got.append(json.loads(line))

    def close_stdin(self) -> None:
        self.is_ended = True

    @property
    def methods(self) -> list[str]:
        return [message["method"] for message in self.got]


class Connection:
    """A client at a relay, and all that it receives."""

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.relay = Relay(lambda line: self.received.append(json.loads(line)), self.end)
        self.first, self.second = Process(1), Process(2)
        self.relay.switch(self.first)

    async def end(self) -> None: ...

    def say(self, method: str | None = None, id_: Any = None, **fields: Any) -> None:
        message = {"jsonrpc": "2.0", "id": id_, "method": method, **fields}
        self.relay.feed(
            json.dumps({key: value for key, value in message.items() if value is not None}).encode()
        )

    def hear(self, process: Process, **message: Any) -> None:
        self.relay.receive(process, json.dumps({"jsonrpc": "2.0", **message}).encode())


@pytest.fixture
def client() -> Connection:
    return Connection()


def test_anything_that_a_client_has_set_up_is_repeated_and_answered_once(client: Connection) -> None:
    client.say("initialize", 0, params={"protocolVersion": "2025-11-25"})
    client.say("notifications/initialized")
    client.say("logging/setLevel", 1, params={"level": "error"})
    client.say("resources/subscribe", 2, params={"uri": "a://1"})
    client.say("resources/subscribe", 3, params={"uri": "a://2"})
    client.say("resources/unsubscribe", 4, params={"uri": "a://1"})
    for id_ in range(5):
        client.hear(client.first, id=id_, result={})
    client.relay.switch(client.second)
    assert client.second.methods == [
        "initialize",
        "notifications/initialized",
        "logging/setLevel",
        "resources/subscribe",
    ]
    assert client.second.got[-1]["params"] == {"uri": "a://2"}
    for message in client.second.got:
        if "id" in message:
            client.hear(client.second, id=message["id"], result={})
    assert [message["id"] for message in client.received] == [0, 1, 2, 3, 4]
    assert client.first.is_ended


def test_a_request_is_answered_by_the_process_that_it_was_sent_to(client: Connection) -> None:
    client.say("tools/call", "a")
    client.relay.switch(client.second)
    assert not client.first.is_ended
    client.say("tools/call", "b")
    client.say("notifications/cancelled", params={"requestId": "a"})
    assert client.first.methods == ["tools/call", "notifications/cancelled"]
    assert client.first.is_ended, "it may answer or not"
    assert client.second.methods == ["tools/call"]


def test_questions_of_two_processes_are_told_apart(client: Connection) -> None:
    client.say("tools/call", 1)
    client.relay.switch(client.second)
    client.say("tools/call", 2)
    client.hear(client.first, id="ask-1", method="elicitation/create")
    client.hear(client.second, id="ask-1", method="elicitation/create")
    first, second = (message["id"] for message in client.received)
    assert first != second
    client.say(None, second, result={"action": "accept"})
    client.say(None, first, result={"action": "decline"})
    assert client.first.got[-1] == {"jsonrpc": "2.0", "id": "ask-1", "result": {"action": "decline"}}
    assert client.second.got[-1] == {"jsonrpc": "2.0", "id": "ask-1", "result": {"action": "accept"}}


def test_a_stream_of_changes_goes_on_with_the_next_process(client: Connection) -> None:
    client.say("subscriptions/listen", 7, params={"_meta": MODERN})
    acknowledged = {
        "method": "notifications/subscriptions/acknowledged",
        "params": {"_meta": {SUBSCRIPTION: 7}},
    }
    client.hear(client.first, **acknowledged)
    client.relay.switch(client.second)
    assert client.first.is_ended
    assert client.second.methods == ["subscriptions/listen"]
    client.hear(client.first, id=7, result={"resultType": "complete"})
    client.hear(client.second, **acknowledged)
    assert len(client.received) == 1, "it is one stream for the client"
    client.hear(client.second, id=7, result={"resultType": "complete"})
    assert client.received[-1]["id"] == 7
    client.relay.switch(third := Process(3))
    assert third.got == []


def test_a_cancelled_stream_is_not_opened_again(client: Connection) -> None:
    client.say("subscriptions/listen", 7, params={"_meta": MODERN})
    client.say("notifications/cancelled", params={"requestId": 7})
    client.relay.switch(client.second)
    assert client.second.got == []


def test_the_requests_of_a_process_that_has_died_fail_and_later_ones_wait(client: Connection) -> None:
    client.say("tools/call", 1)
    client.relay.lose(client.first)
    assert client.received[0]["id"] == 1
    assert "restarted" in client.received[0]["error"]["message"]
    client.say("tools/call", 2)
    client.relay.switch(client.second)
    assert [message["id"] for message in client.second.got] == [2]


def test_anything_that_is_not_a_message_is_passed_on_or_refused(client: Connection) -> None:
    client.relay.feed(b'[{"jsonrpc": "2.0"}]')
    client.say("tools/call", {"not": "an id"})
    assert len(client.first.got) == 2
    client.relay.refuse("Invalid request: too long")
    assert client.received[-1]["error"]["message"] == "Invalid request: too long"


# --- a real client, server and files -----------------------------------------------------------------

SHOP = '''
import asyncio, os
from typing import Annotated
from toolcrib import Context, tool

@tool
async def hold(ctx: Context) -> str:
    """Ask, then answer."""
    answer = await ctx.ask("sure", "Sure?", {"type": "object", "properties": {"sure": {"type": "boolean"}}})
    return f"old {answer['sure']}"

@tool
def pid() -> int:
    """The number of the process."""
    return os.getpid()
'''


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("protocol", ["2026-07-28", "2025-11-25"])
async def test_a_client_over_stdio_sees_new_tools_and_keeps_its_calls(
    tmp_path: Path, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", SOURCES)
    file = tmp_path / "shop.py"
    file.write_text(SHOP)
    asked, may_answer = asyncio.Event(), asyncio.Event()

    async def answer(question: Elicitation | URLElicitation) -> Answer:
        asked.set()
        await may_answer.wait()
        return Answer("accept", {"sure": True})

    command = [sys.executable, "-m", "toolcrib", "serve", str(file), "--stdio", "--reload"]
    async with Client(command, protocol=protocol, on_ask=answer) as client, asyncio.timeout(60):
        heard = asyncio.Event()
        await client.on_tools_changed(heard.set)
        old = int((await client.call("pid")).text)
        call = asyncio.create_task(client.call("hold"))
        await asked.wait()
        file.write_text(SHOP.replace('"old', '"new').replace("def pid", "def number"))
        await heard.wait()
        assert [found.name for found in await client.list_tools()] == ["hold", "number"]
        new = int((await client.call("number")).text)
        assert new != old
        may_answer.set()
        # In 2026-07-28 the call is made again with the answer, by the process that serves then.
        assert (await call).text == ("old True" if protocol < "2026" else "new True")
        while is_running(old):
            await asyncio.sleep(0.01)
        os.kill(new, signal.SIGKILL)
        with suppress(RemoteError):  # it was sent before the end of the process was noticed
            await client.call("number")
        assert int((await client.call("number")).text) not in (old, new)
    assert not is_running(new)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
async def test_a_file_that_does_not_load_changes_nothing_for_a_client(tmp_path: Path) -> None:
    file = tmp_path / "tools.py"
    file.write_text(ADD)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "toolcrib", "serve", str(file), "--stdio", "--reload"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": SOURCES},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    call = {"name": "add", "arguments": {"a": 1}, "_meta": {**MODERN}}
    call["_meta"]["io.modelcontextprotocol/clientCapabilities"] = {}  # type: ignore[index]
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    async with asyncio.timeout(60):
        process.stdin.write(json.dumps(message).encode() + b"\n")
        assert json.loads(await process.stdout.readline())["result"]["structuredContent"] == 2
        file.write_text(ADD + "\ndef broken(:\n")
        while b"not reloaded" not in await process.stderr.readline():
            pass
        process.stdin.write(json.dumps({**message, "id": 2}).encode() + b"\n")
        process.stdin.write_eof()
        rest, errors = await process.communicate()
    assert json.loads(rest)["id"] == 2
    assert process.returncode == 0
    assert b"Traceback" not in errors
