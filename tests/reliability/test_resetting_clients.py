"""Honest clients beside clients that reset their connections while replies are written: every honest call is
answered, on both HTTP stacks."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import struct
import time

import pytest

from tests.support.clients.abusive_clients import HTTP_STACKS, Socket, call, served

HONEST_CALLS = 100_000 if os.environ.get("TOOLCRIB_SOAK") else 1_008
"""Over each of the stacks."""
MIXED_CALLS = 240_000 if os.environ.get("TOOLCRIB_SOAK") else 2_400
CLIENTS = 16
"""Of each kind."""
LIMIT_S = 20.0

pytestmark = [pytest.mark.row("E6", "F1"), pytest.mark.usefixtures("hangs_up")]


class Traffic:
    """Honest clients, and one reset for every four of their calls, at about the time of its reply."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._allowed = asyncio.Semaphore(CLIENTS)
        self._took_s = 0.001
        self.resets = 0

    async def call(self, calls: int) -> None:
        client = await Socket.open(self._port)
        for number in range(calls):
            began = time.perf_counter()
            async with asyncio.timeout(LIMIT_S):
                status, _, body = await client.ask(call("increment", {"a": number}))
            assert (status, json.loads(body)["result"]["structuredContent"]) == (200, number + 1)
            self._took_s += (time.perf_counter() - began - self._took_s) / 10
            if number % 4 == 0:
                self._allowed.release()
        client.close()

    async def reset(self) -> None:
        loop, request = asyncio.get_running_loop(), call("increment", {"a": 1})
        while True:
            await self._allowed.acquire()
            with socket.socket() as each:
                each.setblocking(False)
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                await loop.sock_connect(each, ("127.0.0.1", self._port))
                await loop.sock_sendall(each, request)
                await asyncio.sleep(random.random() * self._took_s)
            self.resets += 1


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
async def test_every_honest_call_is_answered_beside_clients_that_reset(http_stack: str) -> None:
    with served(http_stack) as server:
        traffic = Traffic(server.port)
        resetting = [asyncio.create_task(traffic.reset()) for _ in range(CLIENTS)]
        try:
            async with asyncio.TaskGroup() as honest:
                for _ in range(CLIENTS):
                    honest.create_task(traffic.call(HONEST_CALLS // CLIENTS))
        finally:
            failed = [task for task in resetting if task.done()]
            for task in resetting:
                task.cancel()
            await asyncio.gather(*resetting, return_exceptions=True)
        print(f"{http_stack}: {HONEST_CALLS} honest calls beside {traffic.resets} resets")
        assert not failed
        assert traffic.resets >= HONEST_CALLS // 5
        assert "handler is closed" not in server.log
        assert "Traceback" not in server.log


async def mix_calls(port: int, calls: int) -> None:
    """Of a hundred calls, 90 are valid, 8 have wrong arguments, one is large and one is given up."""
    client = await Socket.open(port)
    for number in range(calls):
        turn = number % 100
        async with asyncio.timeout(LIMIT_S):
            if turn == 99:
                client.writer.write(call("increment", {"a": number}))
                client.abort()
                client = await Socket.open(port)
            elif turn == 98:
                _, _, body = await client.ask(call("large", {"size": 20_000}))
                assert len(body) > 20_000
            else:
                wrong = turn >= 90
                _, _, body = await client.ask(call("increment", {"a": "x" if wrong else number}))
                assert json.loads(body)["result"].get("isError", False) == wrong
    client.close()


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
async def test_calls_of_every_kind_leave_no_traceback(http_stack: str) -> None:
    with served(http_stack) as server:
        async with asyncio.TaskGroup() as clients:
            for _ in range(CLIENTS):
                clients.create_task(mix_calls(server.port, MIXED_CALLS // CLIENTS))
        assert "handler is closed" not in server.log
        assert "Traceback" not in server.log
