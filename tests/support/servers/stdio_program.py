"""A server in a separate process, driven through its standard streams or watched from outside.

    python -m tests.support.servers.stdio_program stdio|own|asgi MODULE

runs the server that `MODULE.make_server()` makes; on HTTP it prints its port first.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

import uvicorn

from tests.support.clients.raw_http_client import TIMEOUT_S
from toolcrib.transports.http.server import bind

ROOT = Path(__file__).resolve().parents[3]


class Program:
    """A running program. Its standard error is kept."""

    def __init__(self, http_stack: str, module: str = "tests.wire.site") -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - `end` closes it
        paths = os.pathsep.join((str(ROOT), str(ROOT / "src")))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.servers.stdio_program", http_stack, module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": paths},
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        self._rest = bytearray()
        self._lines: list[bytes] = []
        self._probes = 0
        self.port = 0 if http_stack == "stdio" else int(self.read_line())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def send(self, line: bytes) -> None:
        """Send one line. Output is read meanwhile, so that neither end waits for the other."""
        data = memoryview(line + b"\n")
        os.set_blocking(self._in.fileno(), False)
        while data:
            readable, writable, _ = select.select([self._out], [self._in], [], TIMEOUT_S)
            assert readable or writable, "the program takes nothing"
            if readable:
                self._take()
            if writable:
                data = data[os.write(self._in.fileno(), data[: 1 << 16]) :]

    def read_line(self, timeout_s: float = TIMEOUT_S) -> bytes:
        end = time.monotonic() + timeout_s
        while not self._lines:
            ready, _, _ = select.select([self._out], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError(f"nothing came within {timeout_s:g} s; {self.errors[-2000:]}")
            self._take()
        return self._lines.pop(0)

    def read(self, timeout_s: float = TIMEOUT_S) -> Any:
        return json.loads(self.read_line(timeout_s))

    def ask(self, message: Any) -> Any:
        """Send one message and read one."""
        self.send(message if isinstance(message, bytes) else json.dumps(message).encode())
        return self.read()

    def replies_to(self, line: bytes, *, expected: int) -> list[Any]:
        """Return the replies to one line. A ping after it shows their end, and that the server runs."""
        self._probes += 1
        probe = f"probe-{self._probes}"
        self.send(line)
        self.send(b'{"jsonrpc":"2.0","id":"%b","method":"ping"}' % probe.encode())
        found: list[Any] = []
        is_alive = False
        while not is_alive or len(found) < expected:
            try:
                message = self.read(TIMEOUT_S if not is_alive else TIMEOUT_S / 2)
            except TimeoutError:
                if not is_alive:
                    raise
                return found
            if isinstance(message, dict) and message.get("id") == probe:
                is_alive = True
            else:
                found.append(message)
        return found

    @property
    def errors(self) -> str:
        """Return the standard error so far."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    @property
    def memory(self) -> int:
        """Return its memory in bytes."""
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
        return 0

    @property
    def cpu_s(self) -> float:
        """Return the CPU seconds of its main thread."""
        return int(Path(f"/proc/{self._process.pid}/schedstat").read_text().split()[0]) / 1e9

    @property
    def read_bytes(self) -> int:
        """Return the number of bytes it has read so far."""
        return int(Path(f"/proc/{self._process.pid}/io").read_text().split()[1])

    def end(self) -> int:
        """Close its standard input and wait for its end."""
        if self._process.poll() is None:
            self._in.close()
            if self.port:
                self._process.terminate()
            try:
                self._process.wait(TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._out.close()
        self._errors.close()
        return self._process.returncode

    def _take(self) -> None:
        data = os.read(self._out.fileno(), 1 << 20)
        if not data:
            raise EOFError(f"the program has ended; {self.errors[-2000:]}")
        self._rest += data
        *lines, rest = self._rest.split(b"\n")
        self._lines += map(bytes, lines)
        self._rest = bytearray(rest)


def main(http_stack: str, module: str) -> None:
    server = importlib.import_module(module).make_server()
    if http_stack == "stdio":
        server.run("stdio")
        return
    sockets = bind("127.0.0.1", 0)
    for each in sockets:
        each.listen()  # a client that reads the port may come at once
    print(sockets[0].getsockname()[1], flush=True)
    if http_stack == "own":
        server.run("http", sockets=sockets, drain_s=1.0)
        return
    config = uvicorn.Config(server.asgi(), log_level="warning", ws="none", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=sockets)


if __name__ == "__main__":
    main(*sys.argv[1:])
