"""Real MCP servers in child processes: mcp, fastmcp and toolcrib, with the same tools."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.system import fork_server

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = ROOT / "tests" / "unit" / "client" / "peers"
ENVIRONMENT = {"FASTMCP_CHECK_FOR_UPDATES": "off"}


def command_of(name: str, *arguments: str) -> list[str]:
    return [sys.executable, str(PROGRAMS / f"{name}_peer.py"), *arguments]


def forked_command_of(name: str, *arguments: str) -> list[str]:
    """Return a command line that starts a server as a fork of a process with the libraries."""
    _, *words = command_of(name, *arguments)
    return fork_server.command_of(*words, libraries=True)


@contextmanager
def running_peers() -> Iterator[Callable[..., str]]:
    """Yield a function from a server's name to its address. Each is started on first use."""
    children: dict[tuple[str, str], tuple[fork_server.Process, int]] = {}

    def find(name: str, transport: str = "http") -> str:
        if (name, transport) not in children:
            children[name, transport] = _start(name, transport)
        path = "sse" if transport == "sse" else "mcp"
        return f"http://127.0.0.1:{children[name, transport][1]}/{path}"

    try:
        yield find
    finally:
        for child, _ in children.values():
            child.kill()
            child.wait()


def _start(name: str, transport: str) -> tuple[fork_server.Process, int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    quiet = subprocess.DEVNULL
    _, *words = command_of(name, transport, str(port))
    environment = {**os.environ, **ENVIRONMENT}
    child = fork_server.launch(*words, stdout=quiet, stderr=quiet, env=environment, libraries=True)
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return child, port
        except OSError:
            assert child.poll() is None, f"{name} ended with {child.returncode}"
            assert time.monotonic() < deadline, f"{name} does not listen"
            time.sleep(0.05)
