"""One server started in the four usual ways, with a client.

    async with started("serve", file) as (client, said): ...

`file` ends with `run(server)` of this module, which `python file.py stdio|http` needs; `said()` is what the
process wrote to stderr so far.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.servers.serve_process import TOOLCRIB
from toolcrib import MCPServer
from toolcrib.client import Client, StdioTransport

WAYS = ["serve", "serve --stdio", "run http", "run stdio"]
ROOT = Path(__file__).resolve().parents[3]


def run(server: MCPServer) -> None:
    """Run as the command line of the file says. On HTTP, the address is the first line on stdout."""
    if sys.argv[1] == "stdio":
        server.run("stdio")
        return
    from toolcrib.transports.http.server import bind

    sockets = bind("127.0.0.1", 0)
    sockets[0].listen()
    print(f"http://127.0.0.1:{sockets[0].getsockname()[1]}/mcp", flush=True)
    server.run("http", sockets=sockets)


@asynccontextmanager
async def started(way: str, file: Path, **variables: str) -> AsyncIterator[tuple[Client, Callable[[], str]]]:
    kept: list[str] = []
    env = {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src"))), **variables}
    kind, _, transport = way.partition(" ")
    command = (
        [sys.executable, str(file), transport] if kind == "run" else [*TOOLCRIB, *way.split(), str(file)]
    )
    if transport in ("stdio", "--stdio"):
        async with Client(StdioTransport(command, env=env, on_stderr=kept.append)) as client:
            yield client, lambda: "".join(kept)
        return
    if kind == "serve":
        command += ["--port", "0", "--json"]
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **env},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    reader = asyncio.create_task(_keep(process.stderr, kept))
    try:
        line = (await process.stdout.readline()).decode()
        assert line, "".join(kept)
        address = line.strip() if kind == "run" else line.partition('"address": "')[2].partition('"')[0]
        async with Client(address) as client:
            yield client, lambda: "".join(kept)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        await reader
        process._transport.close()  # type: ignore[attr-defined]


async def _keep(stream: asyncio.StreamReader, kept: list[str]) -> None:
    while data := await stream.readline():
        kept.append(data.decode())
