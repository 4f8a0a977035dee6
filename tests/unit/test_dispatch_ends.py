"""Dispatch at its edges: a server that has stopped, tools that cannot be built, tools that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from toolcrib import MCPServer, dispatch
from toolcrib.context import LOCAL, NOBODY
from toolcrib.errors import ToolBusyError
from toolcrib.policies.guard import Guard
from toolcrib.policy import Policy, Telemetry


async def test_who_calls_a_server_that_has_stopped_is_told_so() -> None:
    server = MCPServer()
    runs: list[int] = []
    server.add(lambda: runs.append(1), name="ping")
    async with server:
        assert not (await server.call("ping")).is_error
    for call in (server.call, server.dispatcher.call):
        result = await call("ping")
        assert result.is_error
        assert isinstance(result.error, ToolBusyError)
        assert result.text == "Tool 'ping' cannot run: the server has stopped."
    assert runs == [1]


def test_a_tool_that_cannot_be_built_repeats_nothing_in_headers() -> None:
    server = MCPServer()

    def broken(x: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821
        """Has a type that is nowhere."""
        return ""

    server.add(broken)
    assert server.dispatcher.mirrored("broken") is None


async def test_figures_of_tools_that_went_are_forgotten_when_they_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatch, "KEPT_STATS", 3)
    server = MCPServer(dynamic=True)
    async with server:
        server.add(lambda: "", name="stays")
        await server.call("stays")
        for number in range(6):
            server.add(lambda: "", name=f"goes{number}")
            await server.call(f"goes{number}")
            server.registry.remove(f"goes{number}")
        await server.call("stays")
        assert "goes0" not in server.dispatcher.stats
        assert len(server.dispatcher.stats) <= 2 + 3 + 1
        assert server.dispatcher.stats["stays"].calls == 2


async def test_a_call_that_was_begun_without_a_task_may_turn_out_to_need_one() -> None:
    server = MCPServer()

    @server.tool(run="inline")
    def later() -> Awaitable[str]:
        """Promise something."""

        async def give() -> str:
            await asyncio.sleep(0)
            return "done"

        return give()

    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Any] = loop.create_future()
    tasks: list[asyncio.Task[Any]] = []

    def begin() -> None:
        call = server.call("later")
        assert call.send(None) is None  # it asks for a moment, and runs in a task from then on
        tasks.append(loop.create_task(call))
        tasks[0].add_done_callback(lambda task: ended.set_result(task.result()))

    async with server:
        loop.call_soon(begin)
        assert (await ended).text == "done"


def test_a_call_that_there_is_no_room_for_is_counted_where_nothing_is_recorded() -> None:
    guard = Guard(Policy(telemetry=Telemetry(prometheus=True)))
    server = MCPServer()
    server.dispatcher.policy = guard
    server.dispatcher.drop("add", {"a": 1}, LOCAL, NOBODY, ToolBusyError("There is no room."))
    assert guard.watch is not None
    figures = guard.watch.exposition()[1].decode()
    assert [line for line in figures.splitlines() if "calls_total{" in line and 'outcome="throttled"' in line]
    MCPServer().dispatcher.drop("add", {}, LOCAL, NOBODY, ToolBusyError("There is no room."))  # nobody hears
