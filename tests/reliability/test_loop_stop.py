"""A tool that stops the event loop of its server: its call is answered, and the server goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.server_starts import WAYS, started

SERVER = '''
import asyncio
from toolcrib import MCPServer

server = MCPServer("stopped")
found = []


@server.tool
async def stop_it() -> str:
    """Stop the loop, and go on."""
    loop = asyncio.get_running_loop()
    found.append(loop)
    loop.stop()
    await asyncio.sleep(0)
    loop.stop()
    return "still here"


@server.tool
def stop_it_from_a_thread() -> str:
    """Stop the loop from elsewhere."""
    found[0].call_soon_threadsafe(found[0].stop)
    found[0].stop()
    return "still here"


@server.tool
async def close_it() -> str:
    """Close the loop, which cannot be done while it runs."""
    asyncio.get_running_loop().close()
    return "closed"


@server.tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


if __name__ == "__main__":
    from tests.support.server_starts import run

    run(server)
'''


@pytest.mark.parametrize("way", WAYS)
async def test_a_server_outlives_a_tool_that_stops_its_loop(way: str, tmp_path: Path) -> None:
    file = tmp_path / "stopped.py"
    file.write_text(SERVER)
    async with started(way, file) as (client, said):
        for _ in range(2):
            assert (await client.call("stop_it")).text == "still here"
            assert (await client.call("stop_it_from_a_thread")).text == "still here"
            assert (await client.call("close_it")).is_error
            assert (await client.call("add", {"a": 1, "b": 2})).structured_content == 3
        assert "tool 'stop_it' called stop() on the event loop of the server: ignored" in said()
        assert "something called stop() on the event loop of the server: ignored" in said()
