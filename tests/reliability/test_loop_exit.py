"""The end of a server on stdio: by signals, and if its main task is cancelled."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers.server_starts import ROOT

SERVER = '''
import asyncio, signal, sys
from toolcrib import MCPServer

server = MCPServer("exits")


@server.tool
async def cancel_all() -> str:
    """Cancel what is not its own."""
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.sleep(0)
    return "cancelled"


if __name__ == "__main__":
    from tests.support.servers.server_starts import run

    run(server)
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "exits.py"
    file.write_text(SERVER)
    return file


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


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 7), (signal.SIGINT, -signal.SIGINT)])
def test_a_signal_still_ends_a_server(file: Path, number: signal.Signals, code: int) -> None:
    file.write_text(SERVER.replace("\nserver =", f"{HANDLER}\nserver =", 1))
    with open_on_stdio(file) as process:
        assert process.stderr is not None
        process.send_signal(number)
        process.wait(timeout=20)  # its input stays open: the end of that would end the server, too
        said = process.stderr.read()
    assert process.returncode == code, said


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
