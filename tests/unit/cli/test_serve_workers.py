"""`toolcrib serve --workers` in processes of its own, with real servers."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

import pytest

from tests.support.servers.serve_process import Calling, Serving, children_of, is_running, start, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs sockets to inherit, and /proc")

TOOLS = '''
import asyncio, os, sys
from toolcrib import Context, tool

@tool(run="inline")
def pid() -> str:
    """The number of the process."""
    return str(os.getpid())

@tool
async def confirm(ctx: Context) -> str:
    """Ask, then say who was told."""
    schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
    answer = await ctx.ask("sure", "Sure?", schema)
    return f"{os.getpid()} {answer['sure']}"

@tool
async def slow(seconds: float) -> str:
    """Wait."""
    print("waiting", file=sys.stderr, flush=True)
    await asyncio.sleep(seconds)
    return "slept"

@tool
def bad(*args) -> str:
    """Cannot be a tool."""
    return ""
'''
STUCK = '''
import re, sys
from toolcrib import tool

@tool
def stuck() -> str:
    """Run C code that lets no other thread run, not even to handle signals."""
    print("stuck now", file=sys.stderr, flush=True)
    return str(re.match("(a+)+$", "a" * 60 + "b"))
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("workers")
    (path / "tools.py").write_text(TOOLS)
    return path


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Serving]:
    with Serving("tools.py", "--workers", "2", cwd=folder) as serving:
        yield serving


def test_the_start_message_is_printed_once(server: Serving) -> None:
    assert (server.info["workers"], server.info["tools"]) == (2, ["pid", "confirm", "slow"])
    server.wait_for("Tool 'bad' takes *args")
    assert server.errors.count("Tool 'bad' takes *args") == 1


def test_connections_are_spread_over_the_workers(server: Serving) -> None:
    workers = {str(pid) for pid in children_of(server.process.pid)}
    assert len(workers) == 2
    seen: set[str] = set()
    wait_until(lambda: bool(seen.add(server.call("pid")) or seen == workers))


def test_workers_open_the_sealed_state_of_each_other(server: Serving) -> None:
    question = server.ask_modern("tools/call", name="confirm", arguments={})
    assert question["resultType"] == "input_required"
    seen: set[str] = set()

    def answer() -> bool:
        done = server.ask_modern(
            "tools/call",
            name="confirm",
            arguments={},
            requestState=question["requestState"],
            inputResponses={"sure": {"action": "accept", "content": {"sure": True}}},
        )
        pid, sure = done["content"][0]["text"].split()
        assert sure == "True"
        seen.add(pid)
        return len(seen) == 2

    wait_until(answer)


SHOP = '''
from toolcrib import MCPServer

server = MCPServer("shop")
server.resource("shop://{name}")(lambda name: name)

@server.tool
async def sell(item: str) -> str:
    """Sell something."""
    await server.resource_changed(f"shop://{item}")
    return "sold"
'''


def listen(serving: Serving, uri: str) -> BinaryIO:
    """Return the lines of a subscription that has been acknowledged."""
    url = urlsplit(serving.address)
    meta = {"protocolVersion": "2026-07-28", "clientCapabilities": {}}
    params = {
        "notifications": {"resourceSubscriptions": [uri]},
        "_meta": {f"io.modelcontextprotocol/{key}": value for key, value in meta.items()},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    body = json.dumps(message).encode()
    head = {
        "host": url.netloc,
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "subscriptions/listen",
        "content-length": len(body),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    connection = socket.create_connection((url.hostname or "", url.port or 80), timeout=10)
    connection.sendall(f"POST {url.path} HTTP/1.1\r\n{lines}\r\n".encode() + body)
    stream = connection.makefile("rb")
    connection.close()  # the stream keeps it open
    assert uri in await_line(stream, b"notifications/subscriptions/acknowledged")
    return stream


def await_line(stream: BinaryIO, words: bytes) -> str:
    return next(line for line in stream if words in line).decode()


def test_a_change_reaches_the_subscribers_of_every_worker(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(SHOP)
    with Serving("tools.py", "--workers", "2", cwd=tmp_path) as serving, ExitStack() as stack:
        streams = [stack.enter_context(listen(serving, "shop://tea")) for _ in range(12)]
        for _ in range(3):
            assert serving.call("sell", item="tea") == "sold"
            assert all("shop://tea" in await_line(each, b"/updated") for each in streams)
        victim = children_of(serving.process.pid)[0]
        os.kill(victim, signal.SIGKILL)
        serving.wait_for("starting another one")
        wait_until(lambda: len(children_of(serving.process.pid)) == 2)
        again = [stack.enter_context(listen(serving, "shop://tea")) for _ in range(12)]
        assert serving.call("sell", item="tea") == "sold"
        assert all("shop://tea" in await_line(each, b"/updated") for each in again)
    assert "Traceback" not in serving.errors


def test_the_configuration_of_a_worker_is_not_visible(server: Serving) -> None:
    for pid in children_of(server.process.pid):
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        assert words[1:-1] == ["-P", "-c", "from toolcrib.cli.workers import work; work()"]
        given = Path(f"/proc/{pid}/environ").read_text().split("\0")
        assert not [item for item in given if "TOOLCRIB" in item and item.partition("=")[0] not in os.environ]


def test_a_killed_worker_is_replaced_and_a_signal_drains_all(folder: Path) -> None:
    with Serving("tools.py", "--workers", "2", cwd=folder) as serving:
        victim = children_of(serving.process.pid)[0]
        os.kill(victim, signal.SIGKILL)
        serving.wait_for(f"warning: worker {victim} was killed by SIGKILL; starting another one in 0.5 s")
        assert serving.call("pid") != str(victim)
        wait_until(lambda: len(children_of(serving.process.pid)) == 2)
        workers = children_of(serving.process.pid)
        calling = Calling(serving, "slow", seconds=1.0)
        serving.wait_for("waiting")
        assert serving.end(signal.SIGTERM) == 0
        calling.join(20)
        assert calling.outcome == "slept"
        assert not [pid for pid in workers if is_running(pid)]
    assert "Traceback" not in serving.errors


@pytest.mark.parametrize("signals", [[signal.SIGKILL], [signal.SIGTERM, signal.SIGINT]], ids=["KILL", "two"])
def test_no_worker_outlives_the_supervisor(folder: Path, signals: list[signal.Signals]) -> None:
    with Serving("tools.py", "--workers", "2", cwd=folder) as serving:
        workers = children_of(serving.process.pid)
        calling = Calling(serving, "slow", seconds=0.5 if signals == [signal.SIGKILL] else 30.0)
        serving.wait_for("waiting")
        assert serving.end(*signals) < 0
        wait_until(lambda: not [pid for pid in workers if is_running(pid)], timeout_s=8)
        calling.join(20)
        if signals == [signal.SIGKILL]:
            assert calling.outcome == "slept"  # they are told, not cut off
    assert "Traceback" not in serving.errors


def test_a_second_signal_kills_a_worker_that_handles_none(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(STUCK)
    with Serving("tools.py", "--workers", "2", cwd=tmp_path) as serving:
        workers = children_of(serving.process.pid)
        calling = Calling(serving, "stuck")
        serving.wait_for("stuck now")
        assert serving.end(signal.SIGTERM, signal.SIGINT) < 0
        wait_until(lambda: not [pid for pid in workers if is_running(pid)], timeout_s=8)
        calling.join(20)


def test_workers_that_cannot_serve_are_not_restarted(folder: Path) -> None:
    process = start("serve", "--workers", "2", "--port", "0", "--strict", "tools.py", cwd=folder)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, "")
    assert err.count("error: Not started: 1 problem, and --strict is given") == 1
    process = start("serve", "--workers", "2", "--port", "0", "missing.py", cwd=folder)
    out, err = process.communicate(timeout=60)
    hint = "hint: give a file, a folder, a module or module:object\n"
    assert (process.returncode, out, err) == (2, "", f"error: No such file or folder: missing.py\n{hint}")
