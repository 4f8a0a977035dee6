"""`server.run("http")`: it says where it serves, and why it cannot."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from toolcrib import MCPServer
from toolcrib.errors import BindError


def make_server() -> MCPServer:
    server = MCPServer("shop")

    @server.tool
    def price(article: str) -> float:
        """Return the price of an article."""
        return 9.5

    return server


@pytest.fixture
def taken() -> Iterator[socket.socket]:
    """A socket that listens, so that nobody else can."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        yield held


async def test_it_prints_where_it_serves(capsys: pytest.CaptureFixture[str]) -> None:
    server = make_server()
    running = asyncio.ensure_future(server.run("http", port=0))
    while not (words := capsys.readouterr().err):
        await asyncio.sleep(0)
    await server.stop()
    await running
    assert words.startswith("shop: serving 1 tool at\n  http://127.0.0.1:")


async def test_a_program_that_wants_to_know_the_address_prints_it_itself(
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = make_server()
    ready: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
    running = asyncio.ensure_future(server.run("http", port=0, ready=ready.set_result))
    (url,) = await ready
    await server.stop()
    await running
    assert url.endswith("/mcp")
    assert capsys.readouterr().err == ""


def test_a_port_that_is_taken_is_an_error_with_a_hint_and_no_traceback(
    taken: socket.socket, capsys: pytest.CaptureFixture[str]
) -> None:
    port = taken.getsockname()[1]
    with pytest.raises(SystemExit) as ended:
        make_server().run("http", port=port)
    assert ended.value.code == 1
    message, hint = capsys.readouterr().err.splitlines()
    assert message == f"error: Port {port} is in use"
    assert hint.startswith("hint: use port=")


async def test_inside_an_event_loop_it_is_an_exception(taken: socket.socket) -> None:
    with pytest.raises(BindError, match="is in use"):
        await make_server().run("http", port=taken.getsockname()[1])
