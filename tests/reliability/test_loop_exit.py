"""Work that a tool leaves on the event loop and that exits: the server goes on, and still ends by signals."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.server_starts import ROOT, WAYS, started

SERVER = '''
import asyncio, signal, sys
from toolcrib import MCPServer

server = MCPServer("exits")


def interrupt() -> None:
    raise KeyboardInterrupt("by a callback")


async def leave() -> None:
    sys.exit(5)


@server.tool
async def exit_behind_the_call() -> str:
    """Exit in a callback and in a task."""
    loop = asyncio.get_running_loop()
    for work in (sys.exit, interrupt):
        loop.call_soon(work)
        await asyncio.sleep(0.01)  # of two in one turn of the loop, only the last may be told of
    await asyncio.wait([asyncio.create_task(leave())])
    return "still here"


@server.tool
async def cancel_all() -> str:
    """Cancel what is not its own."""
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.sleep(0)
    return "cancelled"


@server.tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


if __name__ == "__main__":
    from tests.support.server_starts import run

    run(server)
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "exits.py"
    file.write_text(SERVER)
    return file


@pytest.mark.parametrize("way", WAYS)
async def test_a_server_outlives_work_that_exits(way: str, file: Path) -> None:
    async with started(way, file) as (client, said):
        for _ in range(2):
            assert (await client.call("exit_behind_the_call")).text == "still here"
            assert (await client.call("add", {"a": 1, "b": 2})).structured_content == 3
        for error in ("SystemExit()", "KeyboardInterrupt('by a callback')", "SystemExit(5)"):
            assert f"on the event loop of the server raised {error}: ignored" in said()


HANDLER = """
def end(number, frame):
    sys.exit(7)


signal.signal(signal.SIGTERM, end)
"""
START = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
    '"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}\n'
)
CANCEL = '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"cancel_all","arguments":{}}}\n'


def open_on_stdio(file: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, str(file), "stdio"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(START)
    process.stdin.flush()
    assert process.stdout.readline()
    return process


@pytest.mark.skipif(sys.platform == "win32", reason="it has no such signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 7), (signal.SIGINT, -signal.SIGINT)])
def test_a_signal_still_ends_a_server(file: Path, number: signal.Signals, code: int) -> None:
    file.write_text(SERVER.replace("\nserver =", f"{HANDLER}\nserver =", 1))
    with open_on_stdio(file) as process:
        assert process.stderr is not None
        process.send_signal(number)
        process.wait(timeout=20)  # its input stays open: the end of that would end the server, too
        said = process.stderr.read()
    assert process.returncode == code, said
    assert "ignored" not in said


def test_a_server_whose_main_task_is_cancelled_says_so_and_fails(file: Path) -> None:
    with open_on_stdio(file) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(CANCEL)
        process.stdin.flush()
        process.wait(timeout=20)
        said = process.stderr.read()
    assert process.returncode == 1, said
    assert "the server ended because its main task was cancelled from inside" in said
    assert "Traceback" not in said
