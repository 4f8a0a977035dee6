"""The pair on the wire: what is listed, and that a call by way of `call_tool` is one of the tool itself."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.servers.http_servers import HTTP_STACKS, serving
from toolcrib import Context, MCPServer, ToolError
from toolcrib.client import Client
from toolcrib.context import Answer, Elicitation
from toolcrib.dispatch.tool_search import CALL, PINNED, SEARCH
from toolcrib.errors import RemoteError, ResponseTimeoutError

ERAS = ("2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def make_server(**options: Any) -> MCPServer:
    server = MCPServer("shop", **{"search": "always", **options})
    ended: list[str] = []

    @server.tool
    def count_stock(article: str, at_least: int = 0) -> dict[str, int]:
        """How many pieces of an article are left."""
        return {"pieces": len(article) + at_least}

    @server.tool
    async def paint_fence(boards: int, ctx: Context) -> str:
        """Paint the boards of a fence, one after the other."""
        for board in range(boards):
            await ctx.progress(board + 1, boards, f"board {board + 1}")
        await ctx.log("warning", {"paint": "low"})
        return "painted"

    @server.tool
    async def greet(ctx: Context) -> str:
        """Ask for a name and say hello."""
        answer = await ctx.ask("name", "What is your name?", NAME)
        return f"Hello, {answer.content['name']}!"

    @server.tool
    async def refuse() -> str:
        """Never do it."""
        raise ToolError("Not today.")

    @server.tool(timeout_s=0.05)
    async def dawdle() -> str:
        """Take longer than allowed."""
        await asyncio.sleep(60)
        return "done"

    @server.tool
    async def wait() -> str:
        """Wait until somebody gives up."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("wait")
        return "never"

    @server.tool(tags=[PINNED])
    def report() -> list[str]:
        """What has ended."""
        return ended

    return server


async def say_ada(question: Any) -> Answer:
    assert isinstance(question, Elicitation)
    return Answer("accept", {"name": "Ada"})


@pytest.fixture(params=ERAS)
async def client(request: Any) -> AsyncIterator[Client]:
    async with make_server().connect(protocol=request.param, on_ask=say_ada) as client:
        yield client


async def by_way_of(client: Client, name: str, /, **arguments: Any) -> Any:
    return await client.call(CALL, {"name": name, "arguments": arguments})


async def test_anything_that_is_found_can_be_called_as_it_is_described(client: Client) -> None:
    answer = await client.call(SEARCH, {"query": "stock of an article"})
    found = answer.structured_content or json.loads(answer.text)
    [tool, *_] = found["tools"]
    assert tool["name"] == "count_stock"
    assert tool["inputSchema"]["required"] == ["article"]
    direct = await client.call("count_stock", {"article": "lamp"})
    assert (await by_way_of(client, "count_stock", article="lamp")).to_json() == direct.to_json()


async def test_errors_are_those_of_the_tool(client: Client) -> None:
    refused = await by_way_of(client, "refuse")
    assert (refused.is_error, refused.text) == (True, "Not today.")
    late = await by_way_of(client, "dawdle")
    assert late.text == "Tool 'dawdle' did not finish within 0.05 s."
    try:
        wrong = (await by_way_of(client, "count_stock", artcle="lamp")).text
    except RemoteError as error:  # as older revisions have it
        wrong = error.message
    assert "Invalid arguments for tool 'count_stock'" in wrong
    assert "article" in wrong


async def test_arguments_may_come_as_text_and_be_left_out(client: Client) -> None:
    given = {"name": "count_stock", "arguments": '{"article": "lamp", "at_least": "2"}'}
    assert "6" in (await client.call(CALL, given)).text
    assert (await client.call(CALL, {"name": "refuse"})).text == "Not today."
    assert (await client.call(CALL, {"name": "refuse", "arguments": None})).text == "Not today."


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("count_stok", "There is no tool 'count_stok'. Did you mean count_stock"),
        ("xyzzy", f"There is no tool 'xyzzy'. {SEARCH} finds tools by what they do."),
        (CALL, f"Call '{CALL}' directly"),
        (SEARCH, f"Call '{SEARCH}' directly"),
    ],
)
async def test_a_tool_that_is_not_there_is_an_error_with_a_way_out(
    client: Client, name: str, words: str
) -> None:
    result = await client.call(CALL, {"name": name})
    assert result.is_error
    assert result.text.startswith(words)


async def test_progress_and_log_lines_are_those_of_the_tool(client: Client) -> None:
    heard: list[Any] = []
    result = await client.call(
        CALL,
        {"name": "paint_fence", "arguments": {"boards": 3}},
        on_progress=lambda progress, total, message: heard.append((progress, total)),
        on_log=lambda level, data: heard.append((level, data)),
    )
    assert result.text == "painted"
    assert heard == [(1, 3), (2, 3), (3, 3), ("warning", {"paint": "low"})]


@pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25", "2025-06-18"])
async def test_a_tool_asks_through_the_pair(era: str) -> None:
    async with make_server().connect(protocol=era, on_ask=say_ada) as client:
        assert (await by_way_of(client, "greet")).text == "Hello, Ada!"


async def test_a_call_that_no_caller_waits_for_ends_the_tool(client: Client) -> None:
    with pytest.raises(ResponseTimeoutError):
        await client.call(CALL, {"name": "wait"}, timeout_s=0.1)

    async def has_ended() -> bool:
        return "wait" in (await client.call("report")).text

    while not await has_ended():
        await asyncio.sleep(0)


async def test_records_and_figures_show_the_tool_and_not_the_pair(caplog: pytest.LogCaptureFixture) -> None:
    server = make_server()
    with caplog.at_level(logging.INFO, "toolcrib"):
        async with server.connect() as client:
            await by_way_of(client, "count_stock", article="lamp")
    said = [record.getMessage() for record in caplog.records]
    assert "Tool execution request: count_stock" in said
    assert "Arguments: article" in said
    assert not any(words.startswith(f"Tool execution request: {CALL}") for words in said)
    assert server.describe()["statistics"].keys() == {"count_stock"}
    assert server.describe()["tools"][0] == "count_stock"  # the pair is no tool of the registry


# --- lists that change -----------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25"])
async def test_a_list_crosses_its_budget_both_ways_and_clients_are_told(era: str) -> None:
    server = make_server(search="auto", search_budget_tokens=450, dynamic=True)
    told = asyncio.Event()
    async with server.connect(protocol=era) as client:
        assert await client.on_tools_changed(told.set)

        async def names() -> list[str]:
            return [tool.name for tool in await client.list_tools()]

        async def names_when_told() -> list[str]:
            await asyncio.wait_for(told.wait(), 5)
            told.clear()
            return await names()

        everything = await names()
        assert SEARCH not in everything
        extra = [f"extra_{number}" for number in range(12)]
        for name in extra:
            server.add(lambda: 1, name=name, description="One more tool that nobody really needs.")
        assert await names_when_told() == [SEARCH, CALL, "report"]
        assert (await by_way_of(client, "extra_3")).is_error is False

        server.add(lambda: 1, name="hidden", description="Found, but not listed.")
        server.add(lambda: 1, name="seen", description="Listed.", tags=[PINNED])
        assert await names_when_told() == [SEARCH, CALL, "report", "seen"]

        for name in (*extra, "hidden", "seen"):
            server.registry.remove(name)
        assert await names_when_told() == everything
        assert (await by_way_of(client, "refuse")).text == "Not today."  # they were told of it once


async def test_anything_that_changes_behind_the_pair_is_not_announced_but_found() -> None:
    server = make_server(dynamic=True)
    told = asyncio.Event()
    async with server.connect() as client:
        await client.on_tools_changed(told.set)
        await client.list_tools()
        server.add(lambda: 1, name="sharpen_saw", description="Make a saw sharp.")
        found = (await client.call(SEARCH, {"query": "sharp saw"})).structured_content
        assert found["tools"][0]["name"] == "sharpen_saw"
        server.add(lambda: 1, name="oil_saw", description="Oil a saw.", tags=[PINNED])
        await asyncio.wait_for(told.wait(), 5)  # one word for both: the first alone would have been none
        assert server.transports.engine.dispatcher.has_list_changed() is False


# --- over HTTP -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
@pytest.mark.parametrize("era", ["2026-07-28", "2025-11-25"])
async def test_the_pair_works_over_http(http_stack: str, era: str) -> None:
    with serving(http_stack, make_server()) as served:
        async with Client(f"http://127.0.0.1:{served.port}/mcp", protocol=era, on_ask=say_ada) as client:
            assert [tool.name for tool in await client.list_tools()] == [SEARCH, CALL, "report"]
            assert (await by_way_of(client, "greet")).text == "Hello, Ada!"
            assert (await by_way_of(client, "refuse")).text == "Not today."
        assert not served.complaints
