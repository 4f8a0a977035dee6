"""G-01: tools that come, change and go reach every connected client; for G-17 see test_g_reload."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from toolcrib import MCPServer
from toolcrib.transports.serving import COALESCE_S

PROTOCOLS = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]


def ping() -> str:
    """Ping."""
    return "ping"


def pong() -> str:
    """Pong."""
    return "pong"


CHANGES: list[Callable[[MCPServer], object]] = [
    lambda server: server.add(pong),
    lambda server: server.add(pong, name="ping", on_duplicate="replace"),
    lambda server: server.registry.disable("ping"),
    lambda server: server.registry.remove("ping"),
]
LISTS = [["ping", "pong"], ["ping"], [], []]


@pytest.mark.requirement("G-01")
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("change", "names"), list(zip(CHANGES, LISTS, strict=True)), ids=["add", "replace", "off", "remove"]
)
async def test_a_change_reaches_a_client_of_any_age(
    protocol: str, change: Callable[[MCPServer], object], names: list[str]
) -> None:
    server = MCPServer(dynamic=True)
    server.add(ping)
    async with server.connect(protocol=protocol) as client:
        heard = asyncio.Event()
        client.on_tools_changed(heard.set)
        await client.list_tools()
        await asyncio.sleep(0.02)  # until a listener of 2026-07-28 was acknowledged
        change(server)
        async with asyncio.timeout(5):
            await heard.wait()
        assert [tool.name for tool in await client.list_tools()] == names


@pytest.mark.requirement("G-01")
async def test_anything_that_is_switched_off_is_there_again_when_it_is_switched_on() -> None:
    server = MCPServer(dynamic=True)
    server.add(ping)
    async with server.connect() as client:
        server.registry.disable("ping")
        assert await client.list_tools() == []
        server.registry.enable("ping")
        assert (await client.call("ping")).text == "ping"


@pytest.mark.requirement("G-01")
async def test_changes_that_come_together_are_told_once() -> None:
    server = MCPServer(dynamic=True)
    async with server.connect(protocol="2025-11-25") as client:
        heard: list[int] = []
        client.on_tools_changed(lambda: heard.append(1))
        began_s = time.monotonic()
        await asyncio.to_thread(lambda: [server.add(ping, name=f"t{number}") for number in range(200)])
        adding_s = time.monotonic() - began_s
        await asyncio.sleep(0.3)
        # Once for each while that adding took, and once for the last ones: three where it takes no time.
        assert 1 <= len(heard) <= 3 + adding_s // COALESCE_S
        assert len(await client.list_tools()) == 200


@pytest.mark.requirement("G-01")
async def test_a_sealed_server_promises_no_news() -> None:
    server = MCPServer()
    server.add(ping)
    async with server.connect() as client:
        assert client.capabilities["tools"] == {}
