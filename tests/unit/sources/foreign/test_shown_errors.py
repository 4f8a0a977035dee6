"""Errors of adopted tools are shown as their library shows them, or hidden by one switch."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from fastmcp import Client as FastClient
from fastmcp import Context as FastContext
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError as FastError
from mcp.client.client import Client
from mcp.server.mcpserver import Context
from mcp.server.mcpserver import MCPServer as OfficialServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError

from toolcrib import MCPServer, tool


def official() -> Any:
    server = OfficialServer("official")

    @server.tool()
    def crash() -> str:
        raise RuntimeError("password=hunter2")

    @server.tool()
    def refuse() -> str:
        raise ToolError("no tea")

    @server.tool()
    def crash_there(ctx: Context) -> str:  # type: ignore[type-arg]
        raise RuntimeError("password=hunter2")

    @server.tool()
    def refuse_there(ctx: Context) -> str:  # type: ignore[type-arg]
        raise ToolError("no tea")

    return server


def fast(**options: Any) -> Any:
    server = FastMCP("fast", **options)

    @server.tool
    def crash() -> str:
        raise RuntimeError("password=hunter2")

    @server.tool
    def refuse() -> str:
        raise FastError("no tea")

    @server.tool
    def crash_there(ctx: FastContext) -> str:
        raise RuntimeError("password=hunter2")

    @server.tool
    def refuse_there(ctx: FastContext) -> str:
        raise FastError("no tea")

    return server


async def at_home(theirs: Any, name: str) -> str:
    client: Any = FastClient(theirs) if isinstance(theirs, FastMCP) else Client(theirs)
    async with client:
        result = await (client.session.call_tool if isinstance(theirs, FastMCP) else client.call_tool)(name)
    assert result.is_error
    text: str = result.content[0].text
    return text


@pytest.mark.parametrize("make", [official, fast, lambda: fast(mask_error_details=True)])
@pytest.mark.parametrize("name", ["crash", "refuse", "crash_there", "refuse_there"])
async def test_an_error_has_the_text_that_its_library_gives_it(make: Any, name: str) -> None:
    theirs, server = make(), MCPServer("test")
    server.add(theirs)

    async with server:
        result = await server.call(name)

    assert result.is_error
    assert result.text == await at_home(theirs, name)


@pytest.mark.parametrize("make", [official, fast])
@pytest.mark.parametrize("name", ["crash", "crash_there"])
async def test_one_switch_hides_what_went_wrong(
    make: Any, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = MCPServer("test", errors="hide")
    server.add(make())

    with caplog.at_level(logging.ERROR, "toolcrib"):
        async with server:
            result = await server.call(name)
            server.dispatcher.crashes.flush()

    assert result.is_error
    assert result.text.startswith(f"Tool '{name}' failed unexpectedly (reference ")
    assert result.text.partition("(reference ")[2].removesuffix(").") in caplog.text


async def test_words_for_the_caller_are_not_hidden() -> None:
    server = MCPServer("test", errors="hide")
    server.add(fast())
    async with server:
        assert (await server.call("refuse")).text == "no tea"
        assert (await server.call("refuse_there")).text == "no tea"


async def test_errors_of_tools_of_ours_are_hidden_in_any_case() -> None:
    @tool
    def own() -> str:
        raise RuntimeError("password=hunter2")

    server = MCPServer("test", errors="show")
    server.add(own)

    assert "hunter2" not in (await server.call("own")).text


async def test_an_error_without_a_text_is_hidden() -> None:
    class Mute(RuntimeError):
        def __str__(self) -> str:
            raise ValueError

    theirs, server = OfficialServer("official"), MCPServer("test")
    theirs.add_tool(lambda: (_ for _ in ()).throw(Mute()), name="mute")

    @theirs.tool()
    def protocol() -> str:
        raise MCPError(-32000, "later")

    server.add(theirs)

    assert "failed unexpectedly" in (await server.call("mute")).text
    assert (await server.call("protocol")).text == "later"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (official, "Tool 'crash_there' raised an unexpected exception"),
        (fast, "Error calling tool 'crash_there'"),
    ],
)
@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
async def test_an_exception_that_the_library_logs_is_one_line_with_its_place(
    make: Any, said: str, level: int, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(level, "toolcrib")
    server = MCPServer("test")
    server.add(make())
    async with server:
        await server.call("crash_there")

    (line,) = [record for record in caplog.records if "crash_there" in record.getMessage()]
    assert line.getMessage().startswith(f"{said}: RuntimeError: password=[redacted] (")
    assert "test_shown_errors.py:" in line.getMessage()
    assert (line.name, line.levelno) == ("toolcrib", logging.ERROR)
    assert (line.exc_info is not None) is (level == logging.DEBUG)
    assert "Traceback" not in capfd.readouterr().err
