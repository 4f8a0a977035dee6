"""Many slow calls at once."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from tests.support.clients.abusive_clients import HTTP_STACKS, Socket, call, served

SOAK = pytest.mark.skipif(not os.environ.get("TOOLCRIB_SOAK"), reason="a long test: python dev.py soak")

pytestmark = [pytest.mark.row("E3", "E4"), pytest.mark.usefixtures("hangs_up")]


async def sleep_at_once(port: int, count: int, seconds: float) -> float:
    sockets = await asyncio.gather(*(Socket.open(port) for _ in range(count)))
    request = call("slow", {"seconds": seconds})
    began = time.perf_counter()
    answers = await asyncio.gather(*(socket.ask(request) for socket in sockets))
    took = time.perf_counter() - began
    assert all(status == 200 and b'"slept"' in body for status, _, body in answers)
    for socket in sockets:
        socket.close()
    return took


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
async def test_e3_two_hundred_calls_of_two_seconds_take_two_seconds(http_stack: str) -> None:
    with served(http_stack) as server:
        took = [await sleep_at_once(server.port, 200, 2.0)]
        if took[0] > 2.5:  # a busy machine gets a second chance
            took.append(await sleep_at_once(server.port, 200, 2.0))
    assert min(took) < 2.5


@SOAK
@pytest.mark.parametrize("http_stack", HTTP_STACKS)
async def test_e4_two_thousand_calls_of_a_second_are_served(http_stack: str) -> None:
    with served(http_stack) as server:
        await sleep_at_once(server.port, 10, 0.1)
        before = server.rss_kb
        took = await sleep_at_once(server.port, 2000, 1.0)
        assert took < 5.0
        assert server.rss_kb - before < 100_000
