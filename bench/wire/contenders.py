"""Who is measured on the wire, and what it takes to start one.

A contender that cannot be started is left out with a line that says why; the others are measured.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.lab import ROOT, SILENT, ProbeError
from bench.wire import watch

HERE = Path(__file__).resolve().parent
NODE_AT_LEAST = 20
START_PATIENCE_S = 300.0  # ten thousand tools take some of them a minute and more


@dataclass(frozen=True)
class Contender:
    """A server to be started. `http` and `stdio` are the words its script takes for these, if any.

    `warm_calls` are made in either era before anything is measured.
    """

    name: str
    library: str
    script: str
    http: str | None = "http"
    stdio: str | None = "stdio"
    takes_many: bool = True
    warm_calls: int = 200

    def command(self, *words: str) -> list[str]:
        if self.script.endswith(".mjs"):
            return ["node", str(HERE / "servers" / self.script), *words]
        return [sys.executable, "-m", f"bench.wire.servers.{self.script}", *words]


ALL = (
    Contender("toolcrib", "toolcrib", "toolcrib_server"),
    Contender("toolcrib ASGI", "toolcrib", "toolcrib_server", http="asgi", stdio=None),
    Contender("mcp", "mcp", "mcp_server"),
    Contender("mcp low-level", "mcp", "lowlevel_server"),
    Contender("fastmcp", "fastmcp", "fastmcp_server"),
    # Its documentation has a new server made for every request, with all its tools; and V8 compiles what it
    # has seen often, which takes it from three times the cost to its best.
    Contender("TypeScript", "typescript", "typescript_server.mjs", takes_many=False, warm_calls=3000),
)


@dataclass(frozen=True)
class Running:
    """A server that listens."""

    port: int
    pid: int

    @property
    def pids(self) -> list[int]:
        return watch.family(self.pid)


@contextmanager
def serving(contender: Contender, *more: str) -> Iterator[Running]:
    """The contender's HTTP server, from when it listens until the end of the block."""
    port = free_port()
    command = contender.command(contender.http or "", str(port), *more)
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **SILENT},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            if not _listens(process, port):
                output.seek(0)
                words = output.read().decode(errors="replace").strip() or "it says nothing"
                raise ProbeError(f"{contender.name} does not start: {words[-2000:]}")
            yield Running(port, process.pid)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _listens(process: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until the server takes connections; False where it ends instead, or takes for ever."""
    until = time.monotonic() + START_PATIENCE_S
    while process.poll() is None and time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return True
    return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def without_typescript() -> str | None:
    """Why the TypeScript SDK cannot be measured here; None where it can, installed now if it was not yet."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        return "node and npm are not installed"
    version = _node_version()
    if int(version.split(".")[0] or "0") < NODE_AT_LEAST:
        return f"node is {version}, it needs {NODE_AT_LEAST} or newer"
    if _is_installed():
        return None
    print("installing the TypeScript SDK ...", file=sys.stderr, flush=True)
    done = subprocess.run(
        ["npm", "ci", "--silent", "--no-audit", "--no-fund"],
        cwd=HERE,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return f"npm ci ended with {done.returncode}: {(done.stderr.strip() or 'no reason')[-300:]}"
    return None


def _is_installed() -> bool:
    """Whether exactly the versions of package.json are there."""
    wanted = json.loads((HERE / "package.json").read_text())["dependencies"]
    for name, version in wanted.items():
        manifest = HERE / "node_modules" / name / "package.json"
        if not manifest.exists() or json.loads(manifest.read_text())["version"] != version:
            return False
    return True


def typescript_versions() -> dict[str, str]:
    wanted = json.loads((HERE / "package.json").read_text())["dependencies"]
    return {"TypeScript SDK": str(wanted["@modelcontextprotocol/server"]), "node": _node_version()}


def _node_version() -> str:
    done = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False)
    return done.stdout.strip().lstrip("v")
