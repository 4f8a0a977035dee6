"""Real servers to talk to: children that are started when first needed and ended with the tests."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from toolcrib.client import StdioLink

PEERS = Path(__file__).parent / "peers"
SOURCES = str(Path(__file__).resolve().parents[3] / "src")
ENVIRONMENT = {"PYTHONPATH": SOURCES, "FASTMCP_CHECK_FOR_UPDATES": "off"}


def stdio_peer(name: str) -> StdioLink:
    return StdioLink([sys.executable, str(PEERS / f"{name}_peer.py"), "stdio"], env=ENVIRONMENT)


@pytest.fixture(scope="session")
def address_of() -> Iterator[Callable[..., str]]:
    """`address_of("mcp")`: where that server listens; `address_of("mcp", "sse")` for the oldest HTTP."""
    children: dict[tuple[str, str], tuple[subprocess.Popen[bytes], int]] = {}

    def find(name: str, transport: str = "http") -> str:
        if (name, transport) not in children:
            children[name, transport] = _start(name, transport)
        path = "sse" if transport == "sse" else "mcp"
        return f"http://127.0.0.1:{children[name, transport][1]}/{path}"

    yield find
    for child, _ in children.values():
        child.kill()
        child.wait()


def _start(name: str, transport: str) -> tuple[subprocess.Popen[bytes], int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    command = [sys.executable, str(PEERS / f"{name}_peer.py"), transport, str(port)]
    quiet = subprocess.DEVNULL
    child = subprocess.Popen(command, stdout=quiet, stderr=quiet, env={**os.environ, **ENVIRONMENT})
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return child, port
        except OSError:
            assert child.poll() is None, f"{name} ended with {child.returncode}"
            assert time.monotonic() < deadline, f"{name} does not listen"
            time.sleep(0.05)
