"""Clients that misbehave: raw sockets, incomplete requests, silence. Starts `abused_server.py`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from tests.support.system.fork_server import launch

SCRIPT = Path(__file__).parents[1] / "servers" / "abused_server.py"
HTTP_STACKS = ("own", "asgi")
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Served:
    """One server process."""

    def __init__(self, process: Any, port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_for(self, words: str, limit_s: float = 5.0) -> float:
        """Wait until the server writes this line; return the seconds it took."""
        began = time.monotonic()
        while words not in self.log:
            if time.monotonic() - began > limit_s:
                raise AssertionError(
                    f"the server did not say {words!r} within {limit_s} s:\n{self.log[-2000:]}"
                )
            time.sleep(0.005)
        return time.monotonic() - began

    async def says(self, words: str, count: int, limit_s: float = 15.0) -> None:
        """Wait until the server has written this line `count` times."""
        began = time.monotonic()
        while self.log.count(words) < count:
            assert time.monotonic() - began < limit_s, (
                f"not said {count} times: {words!r}\n{self.log[-2000:]}"
            )
            await asyncio.sleep(0.005)

    @property
    def rss_kb(self) -> int:
        """Memory in use."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1])
        raise AssertionError("no VmRSS")

    @property
    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))


@contextmanager
def served(http_stack: str = "own", *options: str, **popen: Any) -> Iterator[Served]:
    """A running server; killed at the end, whatever it does. `popen` starts it in a new interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with log.open("wb") as errors:
            command = [str(SCRIPT), "--http-stack", http_stack, *options]
            if popen:
                command.insert(0, sys.executable)
                process: Any = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, **popen)
            else:
                process = launch(*command, stdout=subprocess.PIPE, stderr=errors)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.strip().isdigit(), log.read_text()
            yield Served(process, int(line), log)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait(10)
            if process.stdout is not None:
                process.stdout.close()


def message(name: str, arguments: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments or {}, "_meta": {**_META, **meta}}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def post(body: Any, *, name: str | None = None, **fields: str) -> bytes:
    """A POST of 2026-07-28, or a plain one where `name` is not given."""
    data = body if isinstance(body, bytes) else json.dumps(body, separators=(",", ":")).encode()
    lines = ["POST /mcp HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    lines += ["Accept: application/json, text/event-stream", f"Content-Length: {len(data)}"]
    if name is not None:
        lines += ["MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", f"Mcp-Name: {name}"]
    lines += [f"{key.replace('_', '-')}: {value}" for key, value in fields.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def call(name: str, arguments: dict[str, Any] | None = None, **meta: Any) -> bytes:
    return post(message(name, arguments, **meta), name=name)


class Socket:
    """One connection of a client, well behaved or not."""

    opened: ClassVar[list[Socket]] = []

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.opened.append(self)

    @classmethod
    def abort_all(cls) -> None:
        """Close every connection that a test has opened."""
        while cls.opened:
            cls.opened.pop().abort()

    @classmethod
    async def open(cls, port: int) -> Socket:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=32 * 1024 * 1024))

    async def ask(self, data: bytes) -> tuple[int, dict[str, str], bytes]:
        """Send a request and read its answer: status, headers, body (of a stream, all of it)."""
        self.writer.write(data)
        return await self.answer()

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(head[0].split()[1])
        fields = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in head[1:])}
        if fields.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(await self.reader.readline(), 16):
                body += await self.reader.readexactly(size)
                await self.reader.readexactly(2)
            await self.reader.readexactly(2)
            return status, fields, body
        return status, fields, await self.reader.readexactly(int(fields.get("content-length", 0)))

    async def add(self, a: int = 1, b: int = 2) -> float:
        """Make a valid call and return the seconds it took."""
        began = time.perf_counter()
        status, _, body = await self.ask(call("add", {"a": a, "b": b}))
        assert (status, json.loads(body)["result"]["structuredContent"]) == (200, a + b)
        return time.perf_counter() - began

    async def is_closed(self, limit_s: float) -> bool:
        """Return whether the server closes the connection in time; data that arrives before is dropped."""
        try:
            async with asyncio.timeout(limit_s):
                while await self.reader.read(65536):
                    pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True

    def close(self) -> None:
        self.writer.close()

    def abort(self) -> None:
        self.writer.transport.abort()


def percentile(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]
