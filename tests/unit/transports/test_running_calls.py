"""The registry of calls: which run now, and which have ended while somebody read."""

from __future__ import annotations

import asyncio

import pytest

from toolcrib import MCPServer
from toolcrib.dispatch.calls import MAX_ENDED
from toolcrib.policy import Policy, Rule
from toolcrib.testing import connect


def make_server(policy: Policy | None = None) -> tuple[MCPServer, asyncio.Event]:
    server, release = MCPServer("desk", policy=policy), asyncio.Event()

    @server.tool
    async def wait(seconds: int) -> str:
        await release.wait()
        return f"{seconds}"

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.resource("desk://notes")
    async def notes() -> str:
        await release.wait()
        return "none"

    return server, release


async def test_calls_that_wait_for_something_are_running() -> None:
    server, release = make_server()
    calls = server.dispatcher.calls
    async with connect(server) as client:
        assert calls.running() == []
        tasks = [
            asyncio.create_task(client.call("wait", {"seconds": 1})),
            asyncio.create_task(client.read("desk://notes")),
        ]
        while len(calls.running()) < 2:
            await asyncio.sleep(0)
        tool, resource = sorted(calls.running(), key=lambda call: call.tool, reverse=True)
        assert (tool.tool, tool.principal) == ("wait", "local")
        assert resource.tool == "resource:desk://notes"
        assert tool.request != resource.request
        assert tool.running_s >= 0
        release.set()
        await asyncio.gather(*tasks)
        assert calls.running() == []


@pytest.mark.parametrize("policy", [None, Policy(rules=[Rule(allow=["*"])])], ids=["bare", "policy"])
async def test_calls_that_end_are_kept_while_somebody_reads(policy: Policy | None) -> None:
    server, _ = make_server(policy)
    async with server:
        calls = server.dispatcher.calls
        await server.call("add", {"a": 1, "b": 2})
        with calls.reading() as ended:
            await server.call("add", {"a": 1, "b": 2})
            await server.call("add", {"a": "one"})
            with pytest.raises(LookupError):
                await server.call("missing")
            found = [(each.tool, each.outcome, each.code, each.decision) for each in ended]
            assert found == [
                ("add", "ok", None, "allowed"),
                ("add", "error", "invalid-arguments", "allowed"),
                ("missing", "denied", "unknown-tool", "unknown"),
            ]
            assert ended[0].result_bytes == 1
            assert ended[0].duration_s > 0
            assert len({each.id for each in ended}) == 3
        assert not calls.ended
        await server.call("add", {"a": 1, "b": 2})
        assert not calls.ended
        assert (server.dispatcher._plans["add"].chain is None) is (policy is None)


async def test_the_last_thousand_calls_are_kept() -> None:
    server, _ = make_server()
    async with server:
        with server.dispatcher.calls.reading() as ended:
            for number in range(MAX_ENDED + 5):
                await server.call("add", {"a": number})
            assert len(ended) == MAX_ENDED
