"""Running and ending a server: blocking, awaited, by a transport, from another thread."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.definitions.small_tools import named
from tests.support.system.source_folders import forgotten_imports, write
from toolcrib import Application, MCPServer, tool
from toolcrib.errors import ConfigurationError, SourceError
from toolcrib.sources.loading import load_file


@pytest.fixture
def server() -> MCPServer:
    server = MCPServer("test")
    server.add(named("ping"))
    return server


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    with forgotten_imports():
        yield


@pytest.mark.requirement("X-37")
def test_run_blocks_until_the_transport_has_ended(server: MCPServer) -> None:
    seen: list[tuple[bool, str]] = []

    async def transport(running: MCPServer) -> None:
        seen.append((running._running, (await running.call("ping")).text))

    assert server.run(transport) is None
    assert seen == [(True, "ping")]
    assert not server._running


def test_anything_that_goes_wrong_while_it_runs_has_no_context_of_ours(server: MCPServer) -> None:
    async def transport(_: MCPServer) -> None:
        raise ValueError("by itself")

    with pytest.raises(ValueError, match="by itself") as caught:
        server.run(transport)
    assert caught.value.__context__ is None


@pytest.mark.requirement("X-37")
async def test_where_a_loop_runs_run_is_awaited(server: MCPServer) -> None:
    running = server.run("memory")
    assert inspect.isawaitable(running)
    serving = asyncio.ensure_future(running)
    while not server._running:
        await asyncio.sleep(0)
    assert (await server.call("ping")).text == "ping"
    await server.stop()
    assert await serving is None
    assert not server._running


def test_run_in_memory_blocks_until_another_thread_stops_it(server: MCPServer) -> None:
    started = threading.Event()

    class Signal(Application):
        async def open(self) -> None:
            started.set()

        @tool
        async def pong(self) -> str:
            return "pong"

    server.add(Signal())
    thread = threading.Thread(target=server.run, args=("memory",))
    thread.start()
    assert started.wait(20)
    assert asyncio.run(server.call("ping")).text == "ping"
    assert thread.is_alive()
    asyncio.run(server.stop())
    thread.join(20)
    assert not thread.is_alive()


async def test_anything_that_a_transport_raises_comes_out_and_the_server_is_stopped(
    server: MCPServer,
) -> None:
    async def transport(running: MCPServer) -> None:
        raise OSError("address in use")

    with pytest.raises(OSError, match="address in use"):
        await server.run(transport)
    assert not server._running


async def test_a_run_that_is_cancelled_ends_its_transport_and_stops(server: MCPServer) -> None:
    serving, ended = asyncio.Event(), asyncio.Event()

    async def transport(running: MCPServer) -> None:
        try:
            serving.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    task = asyncio.ensure_future(server.run(transport))
    await serving.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
    assert not server._running


async def test_starting_twice_and_stopping_twice_is_once(server: MCPServer) -> None:
    await server.start()
    await server.start()
    await server.stop()
    await server.stop()
    assert not server._running


def test_a_server_that_ended_runs_again(server: MCPServer) -> None:
    texts: list[str] = []

    async def transport(running: MCPServer) -> None:
        await asyncio.sleep(0)
        texts.append((await running.call("ping")).text)

    server.run(transport)
    server.run(transport)
    assert texts == ["ping", "ping"]


def test_a_transport_that_does_not_exist_is_named(server: MCPServer) -> None:
    with pytest.raises(ConfigurationError, match="unknown transport 'carrier-pigeon'"):
        server.run("carrier-pigeon")


def test_a_file_that_runs_its_server_when_it_is_imported_is_refused_instead_of_hanging(
    tmp_path: Path,
) -> None:
    write(tmp_path, {"crib_runs.py": "from toolcrib import MCPServer\nserver = MCPServer()\nserver.run()\n"})
    with pytest.raises(
        SourceError, match=r"server\.run\(\) is called while .*crib_runs\.py is imported"
    ) as refusal:
        load_file(tmp_path / "crib_runs.py")
    assert (refusal.value.source.line, refusal.value.hint) == (3, 'put it below `if __name__ == "__main__":`')


def test_one_server_serves_two_loops_at_once(server: MCPServer) -> None:
    async def call_many() -> list[str]:
        return [result.text for result in await asyncio.gather(*(server.call("ping") for _ in range(50)))]

    found: list[list[str]] = []
    threads = [threading.Thread(target=lambda: found.append(asyncio.run(call_many()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == [["ping"] * 50] * 4
