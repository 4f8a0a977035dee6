"""Lifespans of foreign servers: entered before the first call, left when our server stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastmcp import FastMCP
from fastmcp.server.lifespan import ContextManagerLifespan
from mcp.server.mcpserver import Context
from mcp.server.mcpserver import MCPServer as OfficialServer

from toolcrib import MCPServer


class Diary:
    """Notes what a lifespan does, and in which task."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.tasks: set[Any] = set()

    @asynccontextmanager
    async def live(self, server: Any) -> AsyncIterator[dict[str, Any]]:
        self.notes.append(f"open {server.name}")
        self.tasks.add(asyncio.current_task())
        try:
            yield {"diary": self}
        finally:
            self.tasks.add(asyncio.current_task())
            self.notes.append(f"close {server.name}")


def official(lifespan: Any) -> OfficialServer[Any]:
    made = OfficialServer("official", lifespan=lifespan)

    @made.tool()
    def look(ctx: Context) -> str:  # type: ignore[type-arg]
        return ", ".join(ctx.request_context.lifespan_context["diary"].notes)

    return made


async def test_it_is_open_in_a_call_and_closed_with_the_server_by_the_task_that_opened_it() -> None:
    diary, server = Diary(), MCPServer("test")
    server.add(official(diary.live))

    async with server:
        assert (await server.call("look")).text == "open official"

    assert diary.notes == ["open official", "close official"]
    assert len(diary.tasks) == 1


async def test_a_call_opens_it_where_the_server_was_not_started() -> None:
    diary, server = Diary(), MCPServer("test")
    server.add(official(diary.live))

    first, second = await asyncio.gather(server.call("look"), server.call("look"))
    await server.stop()

    assert (first.text, second.text) == ("open official", "open official")
    assert diary.notes[-1] == "close official"


async def test_one_that_does_not_open_is_an_error_of_the_call_and_is_tried_again() -> None:
    diary, server, fails = Diary(), MCPServer("test"), [True]

    @asynccontextmanager
    async def shaky(theirs: Any) -> AsyncIterator[Any]:
        if fails:
            fails.pop()
            raise OSError("no database at db://secret")
        async with diary.live(theirs) as value:
            yield value

    server.add(official(shaky))

    refused = await server.call("look")
    served = await server.call("look")
    await server.stop()

    assert refused.is_error
    assert "cannot be opened" in refused.text
    assert "secret" not in refused.text
    assert served.text == "open official"


async def test_one_that_takes_too_long_is_left_alone() -> None:
    server, ended = MCPServer("test", timeout_s=0.05), asyncio.Event()

    @asynccontextmanager
    async def endless(_: Any) -> AsyncIterator[Any]:
        try:
            await asyncio.Event().wait()
            yield None
        finally:
            ended.set()

    server.add(official(endless))

    result = await server.call("look")

    assert result.is_error
    assert "was not ready within" in result.text
    await asyncio.wait_for(ended.wait(), 5)


def test_one_whose_loop_has_ended_is_entered_again() -> None:
    diary, server = Diary(), MCPServer("test")
    server.add(official(diary.live))

    first = asyncio.run(server.call("look"))
    second = asyncio.run(server.call("look"))

    assert first.text == "open official"
    assert second.text == "open official, close official, open official"


async def test_mounted_servers_are_opened_with_the_outer_one() -> None:
    diary, server = Diary(), MCPServer("test")
    outer, inner = FastMCP("outer", lifespan=diary.live), FastMCP("inner", lifespan=diary.live)
    outer.mount(inner)
    inner.tool(lambda: "x", name="x")
    server.add(outer)

    async with server:
        assert (await server.call("x")).text == "x"
        assert diary.notes == ["open outer", "open inner"]

    assert diary.notes[2:] == ["close inner", "close outer"]


async def test_anything_that_goes_wrong_while_closing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @asynccontextmanager
    async def sticky(_: Any) -> AsyncIterator[Any]:
        yield {"diary": Diary()}
        raise OSError("stuck")

    server = MCPServer("test")
    server.add(official(sticky))

    async with server:
        await server.call("look")

    assert "closing Bridge failed" in caplog.text


@pytest.mark.parametrize("kind", ["function", "object of fastmcp", "mounted", "official"])
async def test_plain_functions_run_within_the_lifespan_of_their_server(kind: str) -> None:
    diary, server = Diary(), MCPServer("test")
    theirs: Any
    if kind == "official":
        theirs = OfficialServer("theirs", lifespan=diary.live)
    elif kind == "mounted":
        inner = FastMCP("theirs", lifespan=diary.live)
        theirs = FastMCP("outer")
        theirs.mount(inner)
    else:
        theirs = FastMCP(
            "theirs",
            lifespan=ContextManagerLifespan(diary.live) if kind == "object of fastmcp" else diary.live,
        )

    def look() -> str:
        return ", ".join(diary.notes)

    theirs.add_tool(look)
    (tool,) = server.add(theirs).registered

    assert tool.adoption is not None
    assert tool.adoption.way == "native"
    async with server:
        assert (await server.call("look")).text == "open theirs"
