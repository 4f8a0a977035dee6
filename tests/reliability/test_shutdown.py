"""Orderly shutdown, resource limits, and a clean standard output."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clients.abusive_clients import HTTP_STACKS, SCRIPT, Socket, call, served
from tests.support.clients.legacy_client import Older

SOAK = pytest.mark.skipif(not os.environ.get("TOOLCRIB_SOAK"), reason="a long test: python dev.py soak")

pytestmark = [pytest.mark.row("B4", "B5", "G10", "G11"), pytest.mark.usefixtures("hangs_up")]


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
async def test_g10_calls_under_way_end_well_and_new_ones_are_refused(http_stack: str) -> None:
    with served(http_stack) as server:
        sockets = [await Socket.open(server.port) for _ in range(100)]
        for socket in sockets:
            await socket.add()
        answers = [asyncio.ensure_future(socket.ask(call("slow", {"seconds": 1.0}))) for socket in sockets]
        await server.says("slow begun", 100)
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.2)
        with pytest.raises(OSError):
            await Socket.open(server.port)
        for answer in answers:
            status, _, body = await answer
            assert (status, b"slept" in body) == (200, True)
        code = await asyncio.to_thread(server.process.wait, 10)
        assert time.monotonic() - began < 5
        assert code == 0 or http_stack == "asgi"  # uvicorn raises the signal again
        assert "Traceback" not in server.log


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
async def test_g10_calls_of_a_session_end_well_and_its_stream_ends_at_once(http_stack: str) -> None:
    with served(http_stack) as server:
        client = Older(server.port)
        await asyncio.to_thread(client.initialize)
        own = await asyncio.to_thread(client.listen)
        asking = asyncio.ensure_future(asyncio.to_thread(client.call, "slow", {"seconds": 1.0}))
        await server.says("slow begun", 1)
        server.process.send_signal(signal.SIGTERM)
        if http_stack == "own":  # uvicorn tells applications when all connections have ended
            assert [event.data for event in await asyncio.to_thread(lambda: list(own.events()))] == [""]
        own.leave()
        assert "slept" in (await asking).result["content"][0]["text"]


async def test_g10_a_request_on_an_open_connection_gets_503_while_the_server_drains() -> None:
    with served("own") as server:
        busy, late = await Socket.open(server.port), await Socket.open(server.port)
        await busy.add()
        await late.add()
        answer = asyncio.ensure_future(busy.ask(call("slow", {"seconds": 1.0})))
        late.writer.write(call("add", {"a": 1, "b": 2})[:80])  # half a request when the signal comes
        await asyncio.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.1)
        late.writer.write(call("add", {"a": 1, "b": 2})[80:])
        try:
            status, fields, _ = await late.answer()
            assert (status, fields["retry-after"]) == (503, "1")
        except (OSError, asyncio.IncompleteReadError):
            pass  # hung up on, which says the same
        assert (await answer)[0] == 200


async def test_g10_a_second_signal_ends_at_once() -> None:
    with served("own") as server:
        socket = await Socket.open(server.port)
        await socket.add()
        socket.writer.write(call("slow", {"seconds": 30}))
        await server.says("slow begun", 1)
        server.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.2)
        server.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(server.process.wait, 2) == -signal.SIGTERM


@SOAK
@pytest.mark.parametrize("http_stack", HTTP_STACKS)
async def test_g10_what_does_not_end_is_cut_off_after_ten_seconds(http_stack: str) -> None:
    with served(http_stack) as server:
        socket = await Socket.open(server.port)
        await socket.add()
        socket.writer.write(call("slow", {"seconds": 60}))
        await asyncio.sleep(0.3)
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(server.process.wait, 15)
        assert 9 < time.monotonic() - began < 13


def few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


async def test_g11_with_few_files_the_rest_is_refused_and_service_comes_back() -> None:
    with served("own", preexec_fn=few_files) as server:
        sockets, refused = [], 0
        for _ in range(100):
            socket = await Socket.open(server.port)
            try:
                async with asyncio.timeout(1):
                    status, _, _ = await socket.ask(call("add", {"a": 1, "b": 2}))
                refused += status == 503
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                refused += 1
            sockets.append(socket)
            if refused >= 3:
                break
        assert refused
        for socket in sockets:
            socket.abort()
        await asyncio.sleep(1.5)
        again = await Socket.open(server.port)
        await again.add()
        again.close()
        assert server.process.poll() is None


# --- stdio -------------------------------------------------------------------------------------------


class Stdio:
    """A client on the pipes of a server process."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), "--stdio"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.number = 0
        self.said = b""
        self.ask("initialize", protocolVersion="2025-11-25", capabilities={})

    def send(self, method: str, **params: Any) -> int:
        assert self.process.stdin is not None
        self.number += 1
        message = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        return self.number

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        message: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert message["jsonrpc"] == "2.0"
        return message

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        number = self.send(method, **params)
        reply = self.read()
        assert reply["id"] == number
        return reply

    def call(self, name: str, **arguments: Any) -> str:
        content = self.ask("tools/call", name=name, arguments=arguments)["result"]["content"]
        return str(content[0]["text"]) if content else ""

    def wait_for(self, words: bytes) -> None:
        """Until it has said something on standard error."""
        assert self.process.stderr is not None
        while words not in self.said:
            more = os.read(self.process.stderr.fileno(), 1 << 16)
            assert more, self.said
            self.said += more

    def end(self, limit_s: float = 5.0) -> tuple[float, str]:
        """Close the pipe; how long the server took to end, and what it said on standard error."""
        began = time.monotonic()
        _, errors = self.process.communicate(timeout=limit_s)
        return time.monotonic() - began, (self.said + errors).decode(errors="replace")


@pytest.mark.parametrize("tool", ["slow", "block", "child"])
def test_b5_where_the_client_is_gone_the_server_ends_whatever_runs(tool: str) -> None:
    client = Stdio()
    assert client.process.stdout is not None
    client.send("tools/call", name=tool, arguments={"seconds": 30})
    client.wait_for(b"child " if tool == "child" else f"{tool} begun".encode())
    client.process.stdout.close()
    took, errors = client.end()
    assert took < 2
    assert client.process.returncode == 0
    assert "Traceback" not in errors


@pytest.mark.parametrize("tool", ["slow", "block", "child"])
def test_b5_at_the_end_of_input_the_server_gives_calls_ten_seconds(tool: str) -> None:
    client = Stdio()
    client.send("tools/call", name=tool, arguments={"seconds": 30})
    client.wait_for(b"child " if tool == "child" else f"{tool} begun".encode())
    took, errors = client.end(20)
    assert 9.5 < took < 12
    assert client.process.returncode == 0
    assert "Traceback" not in errors


def test_b4_whatever_a_tool_prints_the_protocol_stays_clean() -> None:
    client = Stdio()
    rounds = 30 if os.environ.get("TOOLCRIB_SOAK") else 1
    for _ in range(rounds):
        for way in ("print", "descriptor", "child", "shell"):
            assert client.call("noisy", way=way) == "quiet"
        assert client.call("noisy", way="stdin") == "''"
        assert client.call("add", a=1, b=2) == "3"
    _, errors = client.end()
    for words in ("print", "a descriptor", "a child", "a shell"):
        assert errors.count(f"noise from {words}") == rounds


def test_b4_tools_that_exit_crash_or_recurse_leave_the_server_standing() -> None:
    client = Stdio()
    for tool in ("leave", "boom", "recurse"):
        result = client.ask("tools/call", name=tool, arguments={})["result"]
        assert result["isError"] is True
        assert "failed unexpectedly" in result["content"][0]["text"]
    assert client.call("add", a=20, b=22) == "42"
    client.end()


@pytest.fixture(scope="module")
def sufferer() -> Iterator[Stdio]:
    """One server for every bad line there is: what one of them spoils, the next one shows."""
    client = Stdio()
    yield client
    client.end()
    assert client.process.returncode == 0


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"[]",
        b"[1]",
        b"{}",
        b'"text"',
        b"\xff\xfe",
        b'{"jsonrpc":"2.0"',
        b"[" * 100_000,
        b"x" * 5_000_000,
    ],
    ids=lambda line: repr(line[:12]),
)
def test_every_bad_line_gets_an_answer(sufferer: Stdio, line: bytes) -> None:
    assert sufferer.process.stdin is not None
    sufferer.process.stdin.write(line + b"\n")
    sufferer.process.stdin.flush()
    reply = sufferer.read()
    assert reply["error"]["code"] in (-32700, -32600)
    assert "id" not in reply
    assert sufferer.call("add", a=1, b=1) == "2"
