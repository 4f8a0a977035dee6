"""A client that disconnects during a call, in every possible way."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Iterator

import pytest

from tests.support.clients.abusive_clients import HTTP_STACKS, Served, Socket, call, post, served

pytestmark = [pytest.mark.row("E6"), pytest.mark.usefixtures("hangs_up")]


@pytest.fixture(scope="module", params=HTTP_STACKS)
def server(request: pytest.FixtureRequest) -> Iterator[Served]:
    with served(request.param) as running:
        yield running


async def go_away(server: Served, request: bytes, *, after: bytes | None = None) -> None:
    """Send a request, wait until it is served (or until something of it has come back), hang up."""
    socket = await Socket.open(server.port)
    begun = server.log.count(" begun")
    socket.writer.write(request)
    if after is None:
        await server.says(" begun", begun + 1)
    else:
        await socket.reader.readuntil(after)
    socket.abort()


async def test_an_async_call_is_cancelled_at_once_while_its_answer_is_awaited(server: Served) -> None:
    before = server.log.count("slow cancelled")
    await go_away(server, call("slow", {"seconds": 20}))
    began = time.monotonic()
    while server.log.count("slow cancelled") == before:
        assert time.monotonic() - began < 2
        await asyncio.sleep(0.005)
    assert time.monotonic() - began < 0.5  # 0.1 on a calm machine


async def test_an_async_call_is_cancelled_at_once_while_it_streams(server: Served) -> None:
    before = server.log.count("chatter cancelled")
    await go_away(server, call("chatter", progressToken=1), after=b"progressToken")
    began = time.monotonic()
    while server.log.count("chatter cancelled") == before:
        assert time.monotonic() - began < 2
        await asyncio.sleep(0.005)


async def test_a_call_of_an_older_client_without_a_session_is_cancelled_too(server: Served) -> None:
    before = server.log.count("slow cancelled")
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "slow", "arguments": {"seconds": 20}},
    }
    await go_away(server, post(body))
    began = time.monotonic()
    while server.log.count("slow cancelled") == before:
        assert time.monotonic() - began < 2
        await asyncio.sleep(0.005)


async def test_code_on_a_thread_is_told_that_no_caller_waits_and_is_counted_until_it_ends(
    server: Served,
) -> None:
    before = server.log.count("block saw that no caller waits")
    await go_away(server, call("block", {"seconds": 20}))
    began = time.monotonic()
    while server.log.count("block saw that no caller waits") == before:
        assert time.monotonic() - began < 2
        await asyncio.sleep(0.005)
    socket = await Socket.open(server.port)
    await asyncio.sleep(0.1)
    _, _, body = await socket.ask(call("leak"))
    assert b'"abandoned":0' in body
    socket.close()


async def test_a_process_is_killed(server: Served) -> None:
    seen = len(re.findall(r"child (\d+)", server.log))
    socket = await Socket.open(server.port)
    socket.writer.write(call("child"))
    began = time.monotonic()
    while len(found := re.findall(r"child (\d+)", server.log)) == seen:
        assert time.monotonic() - began < 15, server.log
        await asyncio.sleep(0.01)
    pid = int(found[-1])
    socket.abort()
    began = time.monotonic()
    while _is_alive(pid):
        assert time.monotonic() - began < 2
        await asyncio.sleep(0.01)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_nothing_is_left_behind(server: Served) -> None:
    for _ in range(20):
        await go_away(server, call("chatter", progressToken=1), after=b"progressToken")
    await asyncio.sleep(0.5)
    socket = await Socket.open(server.port)
    _, _, body = await socket.ask(call("leak"))
    assert b'"running":1' in body  # this very call
    socket.close()
    assert "Traceback" not in server.log
