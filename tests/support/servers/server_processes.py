"""Server processes for tests: on a free loopback port, ready when they answer, ended by their id.

For any Python program that listens on a given port.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HOST = "127.0.0.1"
READY_S = 30.0
STOP_S = 15.0


def child_environment(**more: str) -> dict[str, str]:
    """Return an environment for a child process in which this project can be imported from any folder."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return {**os.environ, "PYTHONPATH": paths, **more}


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port: int = listener.getsockname()[1]
        return port


class ServerProcess:
    """A running server. `stderr` is its output so far."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self._log = log

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def origin(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def url(self) -> str:
        """The URL of the MCP endpoint at its default path."""
        return f"{self.origin}/mcp"

    @property
    def stderr(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_ready(self, timeout_s: float = READY_S) -> None:
        """Return once the port accepts connections. Raises RuntimeError with the server's output."""
        deadline = time.monotonic() + timeout_s
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                socket.create_connection((HOST, self.port), 1).close()
                return
            except OSError:
                time.sleep(0.02)  # a process that starts can be asked, not waited for
        status = self.process.poll()
        reason = f"did not listen within {timeout_s:g} s" if status is None else f"ended with {status}"
        raise RuntimeError(f"the server on port {self.port} {reason}:\n{self.stderr}")

    def stop(self, timeout_s: float = STOP_S) -> int:
        """Stop it as a service manager would, by force if necessary; return its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


@contextmanager
def serving(
    *arguments: str,
    program: str = sys.executable,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = READY_S,
) -> Iterator[ServerProcess]:
    """Run `python ARGUMENTS`, or another program; `{port}` is a free port. Ready on entry, ended on exit."""
    port = free_port()
    command = [program, *(word.replace("{port}", str(port)) for word in arguments)]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "stderr"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=child_environment(**(environment or {})),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        server = ServerProcess(process, port, log)
        try:
            server.wait_ready(timeout_s)
            yield server
        finally:
            server.stop()
