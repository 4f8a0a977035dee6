"""Ends of calls: nothing of one gets into the next, and whatever ends one, its caller hears of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clients.abusive_clients import Socket, call
from tests.support.servers.http_servers import HTTP_STACKS, Served, serving
from toolcrib import Context, MCPServer
from toolcrib.context import Answer, InputNeeded, Question
from toolcrib.errors import ConfigurationError

PROTOCOLS = ["2026-07-28", "2025-11-25"]


def make() -> MCPServer:
    server = MCPServer("ends")
    late: set[asyncio.Task[None]] = set()

    @server.tool
    async def late_progress(ctx: Context) -> str:
        """Report progress after the end."""

        async def go_on() -> None:
            for number in range(20):
                await asyncio.sleep(0.01)
                ctx.progress(number + 1)
                ctx.log("info", "late")
                ctx.close_stream()

        late.add(asyncio.create_task(go_on()))
        await asyncio.sleep(0.005)
        return "ended"

    @server.tool
    async def slow() -> str:
        """Wait a little."""
        await asyncio.sleep(0.15)
        return "slow"

    @server.tool
    async def group_fails() -> str:
        """Fail in a task group."""

        async def fail() -> None:
            await asyncio.sleep(0)
            raise ValueError("inside")

        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            group.create_task(asyncio.sleep(5))
        return "never"

    @server.tool
    async def group_asks(ctx: Context) -> str:
        """Ask in a task group."""
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(ctx.ask("sure", "Sure?"))
        return "yes" if asked.result() else "no"

    @server.tool
    async def asks_nothing() -> str:
        """Claim to have asked."""
        raise InputNeeded({})

    return server


@pytest.fixture(params=HTTP_STACKS)
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    with serving(request.param, make()) as running:
        yield running


@pytest.mark.parametrize("token", [{}, {"progressToken": 1}])
async def test_anything_that_a_call_says_after_its_end_gets_into_nobodys_answer(
    served: Served, token: Any
) -> None:
    socket = await Socket.open(served.port)
    try:
        _, _, first = await socket.ask(call("late_progress", **token))
        assert b"ended" in first
        status, fields, body = await socket.ask(call("slow"))
        assert (status, fields["content-type"]) == (200, "application/json")
        assert json.loads(body)["result"]["content"][0]["text"] == "slow"
    finally:
        Socket.abort_all()


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_task_group_that_fails_is_a_failed_call_like_any_other(protocol: str) -> None:
    async with make().connect(protocol=protocol) as client:
        async with asyncio.timeout(5):
            result = await client.call("group_fails")
        assert (result.is_error, "failed unexpectedly" in result.text) == (True, True)
    task = asyncio.current_task()
    assert task is not None
    assert (await make().call("group_fails")).is_error
    assert task.cancelling() == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_question_in_a_task_group_is_asked(protocol: str) -> None:
    async def agree(_: Question) -> Answer:
        return Answer("accept")

    async with make().connect(protocol=protocol, on_ask=agree) as client:
        async with asyncio.timeout(5):
            assert (await client.call("group_asks")).text == "yes"


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_tool_that_only_claims_to_have_asked_has_failed(protocol: str) -> None:
    async with make().connect(protocol=protocol) as client:
        assert (await client.call("asks_nothing")).is_error


async def test_a_server_that_has_stopped_runs_nothing_more() -> None:
    server = make()
    async with server.connect() as client:
        await server.stop()
        result = await client.call("slow")
        assert (result.is_error, "has stopped" in result.text) == (True, True)


def test_a_path_or_an_option_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="path: must be a path"):
        make().asgi(path="mcp")
    with pytest.raises(ConfigurationError, match="prot: unknown option"):
        make().run("http", prot=1)
