"""Calls whose answer waits for their record, on both stacks: what they may do before, and what may befall
them while they wait."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.legacy_client import Older
from tests.support.clients.raw_http_client import TIMEOUT_S, Response, request
from tests.support.hostile.faults import locked
from tests.support.servers.http_servers import HTTP_STACKS, Served, serving
from tests.support.servers.key_server import envelope, headers_of
from toolcrib import Application, Context, MCPServer, tool
from toolcrib.policy import Audit, Limit, Policy
from toolcrib.policy.audit import open_log
from toolcrib.transports.http.connection import Connection
from toolcrib.transports.http.response import Output

BUSY_S = 0.3


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "audit.db"


def make(log: Path) -> MCPServer:
    limits = [Limit(concurrency=1, tools=["add", "inline"]), Limit(daily=1, tools=["rare"])]
    server = MCPServer("last words", policy=Policy(audit=Audit(log, wait_s=5.0), limits=limits))

    @server.tool
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @server.tool(run="inline")
    def inline(a: int, b: int) -> int:
        """Add at once."""
        return a + b

    @server.tool
    async def twice(a: int, ctx: Context) -> int:
        """Have it added by another tool in the same name, which is recorded before this one goes on."""
        before = asyncio.current_task()
        result = await server.call("add", {"a": a, "b": a}, channel=ctx.channel)
        async with asyncio.timeout(5):  # needs the task that the call began in
            await asyncio.sleep(0)
        assert asyncio.current_task() is before
        value: int = result.structured_content
        return value

    @server.tool(audit="required")
    async def settle() -> bool:
        """Is announced on the record before it runs."""
        return asyncio.current_task() is not None

    @server.tool
    async def talkative(ctx: Context) -> str:
        """Say something, and end."""
        ctx.progress(1)
        return "said"

    @server.tool
    async def rare(a: int, b: int) -> int:
        """Once a day."""
        return a + b

    @server.tool
    async def fail() -> str:
        """Fail."""
        raise ValueError("not today")

    return server


@pytest.fixture(params=HTTP_STACKS)
def served(request: Any, log: Path) -> Iterator[Served]:
    with serving(request.param, make(log)) as served:
        assert call(served, "add", a=1, b=1).result["structuredContent"] == 2
        yield served


def ask(tool: str, token: str | None = None, **arguments: Any) -> bytes:
    body = json.loads(envelope("tools/call", {"name": tool, "arguments": arguments}))
    if token is not None:
        body["params"]["_meta"]["progressToken"] = token
    return request(json.dumps(body).encode(), headers_of("tools/call", tool, None))


def call(served: Served, tool: str, token: str | None = None, **arguments: Any) -> Response:
    return served.exchange(ask(tool, token, **arguments))


def outcomes(log: Path) -> list[tuple[str, str]]:
    return [(each["tool"], each["outcome"]) for each in open_log(log).records() if each["kind"] == "call"]


def await_outcomes(log: Path, count: int) -> list[tuple[str, str]]:
    end = time.monotonic() + TIMEOUT_S
    while len(found := outcomes(log)) < count and time.monotonic() < end:
        time.sleep(0.01)
    return found


@pytest.mark.parametrize("name", ["add", "inline"])
def test_an_answer_goes_out_once_its_call_is_on_the_record(served: Served, log: Path, name: str) -> None:
    with served.connect() as peer:
        with locked(log):
            peer.send(ask(name, a=2, b=3))
            peer.socket.settimeout(BUSY_S)
            with pytest.raises(TimeoutError):
                peer.socket.recv(1)
            peer.socket.settimeout(TIMEOUT_S)
        assert peer.read().result["structuredContent"] == 5
    assert outcomes(log) == [("add", "ok"), (name, "ok")]


def test_a_tool_that_calls_another_goes_on_where_it_began(served: Served, log: Path) -> None:
    for _ in range(3):
        assert call(served, "twice", a=4).result["structuredContent"] == 8
    assert outcomes(log)[1:] == [("add", "ok"), ("twice", "ok")] * 3


def test_a_tool_that_is_announced_on_the_record_runs_in_a_task(served: Served) -> None:
    assert call(served, "settle").result["structuredContent"] is True


def test_anything_that_was_said_before_the_end_comes_before_the_answer(served: Served) -> None:
    said, answer = call(served, "talkative", token="t").messages
    assert said["method"] == "notifications/progress"
    assert answer["result"]["content"][0]["text"] == "said"


def test_a_failure_waits_for_its_record_too(served: Served, log: Path) -> None:
    assert call(served, "fail").result["isError"] is True
    assert call(served, "nobody").json["error"]["message"] == "Unknown tool: nobody"
    assert outcomes(log)[1:] == [("fail", "crashed"), ("nobody", "denied")]


def test_anyone_who_leaves_before_the_record_is_kept_leaves_no_trace_but_it(
    served: Served, log: Path
) -> None:
    with locked(log), served.connect() as peer:
        peer.send(ask("add", a=2, b=3))
        time.sleep(BUSY_S)
    assert await_outcomes(log, 2) == [("add", "ok")] * 2
    # Its place is free again, of the tool and of the server.
    assert call(served, "add", a=5, b=5).result["structuredContent"] == 10
    assert served.server.transports.engine.running == 0


def test_requests_sent_ahead_are_answered_in_their_order(served: Served) -> None:
    with served.connect() as peer:
        for number in range(5):
            peer.send(ask("add", a=number, b=0))
        assert [peer.read().result["structuredContent"] for _ in range(5)] == [*range(5)]


def test_an_older_client_may_cancel_a_call_that_waits_for_its_record(served: Served, log: Path) -> None:
    client = Older(served.port, "2025-11-25")
    client.initialize()
    with served.connect() as peer, locked(log):
        number = 77
        body = {"jsonrpc": "2.0", "id": number, "method": "tools/call"}
        body["params"] = {"name": "add", "arguments": {"a": 1, "b": 2}}
        fields = {"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": client.session}
        peer.send(request(json.dumps(body).encode(), fields))
        time.sleep(BUSY_S)
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}
        assert served.post(json.dumps(note).encode(), fields).status == 202
        assert peer.read().status == 202
    assert await_outcomes(log, 2) == [("add", "ok")] * 2


class Desk(Application):
    """Asks another tool before it can be asked itself."""

    def __init__(self, server: MCPServer) -> None:
        super().__init__("desk")
        self.server = server
        self.tries = 0

    async def open(self) -> None:
        self.tries += 1
        if self.tries == 1:
            raise OSError("not there yet")  # when the server starts; the first call tries again
        await self.server.call("add", {"a": 1, "b": 1})

    @tool
    async def look(self) -> bool:
        """Tell whether it runs in a task."""
        async with asyncio.timeout(5):
            await asyncio.sleep(0)
        return asyncio.current_task() is not None


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_an_application_may_call_tools_when_it_opens(http_stack: str, log: Path) -> None:
    server = make(log)
    server.add(Desk(server), namespace=True)
    with serving(http_stack, server) as served:
        for _ in range(2):
            assert call(served, "desk_look").result["structuredContent"] is True


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_an_inline_tool_may_leave_something_to_wait_for(http_stack: str, log: Path) -> None:
    server = make(log)

    @server.tool(run="inline", timeout_s=0.2)
    def nested(seconds: float) -> Any:
        """Call another tool, and wait."""

        async def go() -> bool:
            await server.call("add", {"a": 1, "b": 1})
            async with asyncio.timeout(5):
                await asyncio.sleep(seconds)
            return asyncio.current_task() is not None

        return go()

    with serving(http_stack, server) as served:
        for _ in range(3):
            assert call(served, "nested", seconds=0.0).result["structuredContent"] is True
            late = call(served, "nested", seconds=30.0).result["content"][0]["text"]
            assert "did not finish within 0.2 s" in late
        assert not served.complaints


@pytest.mark.parametrize("name", ["add", "inline", "rare"])
def test_a_call_leaves_nothing_of_ours_to_the_collector(served: Served, name: str) -> None:
    gc.collect()
    gc.freeze()  # so that the next collection looks at what these calls leave, and at nothing else
    gc.disable()
    try:
        for number in range(21):
            call(served, name, a=number, b=1)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        ours = Counter(type(each).__name__ for each in gc.garbage if _is_of_a_call(type(each)))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert max(ours.values(), default=0) < 20, ours


def _is_of_a_call(kind: type) -> bool:
    """Of ours, and not of the connection, which is a new one each time here."""
    return kind.__module__.startswith("toolcrib.") and kind not in (Connection, Output)
