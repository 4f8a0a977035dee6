"""Clients of an SDK server hear when the tools that toolcrib put there change."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.server import Server
from mcp.server.mcpserver import MCPServer as OfficialServer
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

from toolcrib import MCPServer, ToolRegistry
from toolcrib.transports.mcp_sdk import attach


def first() -> int:
    """The first."""
    return 1


def second() -> int:
    """The second."""
    return 2


class Ear:
    """Hears the notifications of a legacy connection."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.came = asyncio.Event()

    async def __call__(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.heard.append(message.method)
            self.came.set()


async def test_a_legacy_client_that_has_listed_is_told_once_for_what_changes_at_once() -> None:
    crib, server, ear = MCPServer("crib", dynamic=True), Server[Any]("s"), Ear()
    crib.add(first)
    attach(crib, server)

    async with Client(server, mode="legacy", message_handler=ear) as client:
        await client.list_tools()
        crib.add(second)
        crib.registry.disable("first")
        await asyncio.wait_for(ear.came.wait(), 5)
        names = [tool.name for tool in (await client.list_tools()).tools]

    assert ear.heard == ["notifications/tools/list_changed"]
    assert names == ["second"]


async def test_a_change_on_another_thread_reaches_the_client() -> None:
    crib, server, ear = MCPServer("crib", dynamic=True), Server[Any]("s"), Ear()
    attach(crib, server)

    async with Client(server, mode="legacy", message_handler=ear) as client:
        await client.list_tools()
        thread = threading.Thread(target=crib.add, args=(first,))
        thread.start()
        await asyncio.wait_for(ear.came.wait(), 5)
        thread.join()

    assert len(ear.heard) == 1


async def test_a_client_of_2026_that_listens_is_told() -> None:
    registry, server = ToolRegistry(), Server[Any]("s")
    attach(registry, server)

    async with Client(server) as client, client.listen(tools_list_changed=True) as subscription:
        registry.add(first)
        event = await asyncio.wait_for(anext(subscription), 5)
        names = [tool.name for tool in (await client.list_tools()).tools]

    assert type(event).__name__ == "ToolsListChanged"
    assert names == ["first"]


async def test_the_bus_of_a_server_that_has_one_is_used() -> None:
    registry, bus = ToolRegistry(), InMemorySubscriptionBus()
    server: Server[Any] = Server("s", on_subscriptions_listen=ListenHandler(bus))
    attach(registry, server, bus=bus)

    async with Client(server) as client, client.listen(tools_list_changed=True) as subscription:
        registry.add(first)
        assert await asyncio.wait_for(anext(subscription), 5)


async def test_the_bus_of_the_larger_server_is_known() -> None:
    registry, server = ToolRegistry(), OfficialServer("s")
    attach(registry, server)

    async with Client(server) as client, client.listen(tools_list_changed=True) as subscription:
        registry.add(first)
        assert await asyncio.wait_for(anext(subscription), 5)


def test_a_server_that_listens_by_itself_wants_its_bus_named(caplog: pytest.LogCaptureFixture) -> None:
    listens = ListenHandler(InMemorySubscriptionBus())
    with caplog.at_level(logging.WARNING, "toolcrib"):
        attach(ToolRegistry(), Server[Any]("s", on_subscriptions_listen=listens))

    assert "give attach() the bus" in caplog.text


@pytest.mark.parametrize("dynamic", [True, False])
def test_what_a_legacy_client_is_promised_is_what_it_gets(dynamic: bool) -> None:
    attachment = attach(MCPServer("crib", dynamic=dynamic), Server[Any]("s"))

    tools = attachment.initialization_options().capabilities.tools

    assert tools is not None
    assert tools.list_changed is dynamic


@pytest.mark.parametrize("dynamic", [True, False])
async def test_a_client_of_2026_is_promised_changes_only_where_there_are_some(dynamic: bool) -> None:
    server: Server[Any] = Server("s")
    attach(MCPServer("crib", dynamic=dynamic), server)

    async with Client(server) as client:
        listed = await client.list_tools()
        tools = client.server_capabilities.tools

    assert tools is not None
    assert bool(tools.list_changed) is dynamic
    assert listed.ttl_ms == (60_000 if dynamic else 3_600_000)


async def test_a_change_while_nobody_is_connected_is_no_trouble() -> None:
    crib, server = MCPServer("crib", dynamic=True), Server[Any]("s")
    attach(crib, server)

    crib.add(first)
    async with Client(server) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["first"]


def test_a_change_after_the_loop_has_ended_is_no_trouble() -> None:
    registry, server = ToolRegistry(), Server[Any]("s")
    attach(registry, server)

    async def visit() -> None:
        async with Client(server, mode="legacy") as client:
            await client.list_tools()

    asyncio.run(visit())
    registry.add(first)
    asyncio.run(visit())

    assert "first" in registry
