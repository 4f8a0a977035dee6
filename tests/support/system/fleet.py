"""A fleet on one machine: PostgreSQL, Redis, replicas of a server, and a proxy that takes turns.

`python dev.py fleet` runs `main`: three replicas of examples/fleet, until Ctrl-C.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.system.engines import Server, postgresql, redis

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "fleet"


class Proxy:
    """Sends each request to the next replica that can be reached, over a connection of its own."""

    def __init__(self) -> None:
        self.ports: list[int] = []
        self._next = 0
        self._serving: set[asyncio.Task[None] | None] = set()
        """The event loop alone does not keep them once their client has gone."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        starting = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(10)
        self.port: int = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        self._server.close()
        await asyncio.sleep(0.05)  # for connections that were accepted meanwhile
        while serving := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)
        await asyncio.sleep(0.05)  # the event loop closes what was aborted

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers, asking = [writer], None
        self._serving.add(serving := asyncio.current_task())
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            if (to := await self._connect()) is None:
                writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            else:
                writers.append(to[1])
                lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
                to[1].write(b"\r\n".join([lines[0], b"Connection: close", *lines[1:]]))
                asking = asyncio.ensure_future(_copy(reader, to[1]))
                await _copy(to[0], writer)
            writer.close()
            await writer.wait_closed()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client or the replica has gone
        finally:
            if asking is not None:
                asking.cancel()
            for each in writers:
                each.transport.abort()
            self._serving.discard(serving)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        count = len(self.ports)
        for _ in range(count):
            self._next += 1
            # Each round begins one further: the three requests of a command would always meet the same ones.
            port = self.ports[(self._next + self._next // count) % count]
            with suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", port)
        return None


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()


class Fleet:
    """Replicas that serve the `toolcrib.toml` of a folder, and their engines."""

    def __init__(self, folder: Path, postgresql: Server, redis: Server, stack: ExitStack) -> None:
        self.folder = folder
        self.postgresql = postgresql
        self.redis = redis
        self.replicas: list[subprocess.Popen[str]] = []
        self._stack = stack
        self.variables: dict[str, str] = {}
        """Further variables of the environment of replicas."""
        self.ports: dict[int, int] = {}
        self.proxy = Proxy()
        stack.callback(self.proxy.close)
        self.url = f"http://127.0.0.1:{self.proxy.port}/mcp"

    @property
    def environ(self) -> Mapping[str, str]:
        urls = {"TOOLCRIB_POSTGRES": self.postgresql.url, "TOOLCRIB_REDIS": self.redis.url}
        return {**os.environ, **urls, "PYTHONPATH": str(ROOT / "src")}

    def status(self) -> list[dict[str, Any]]:
        """Return what `toolcrib fleet status` says of the replicas."""
        replicas: list[dict[str, Any]] = json.loads(self.run("fleet", "status", "--json"))["replicas"]
        return replicas

    def run(self, *arguments: str) -> str:
        """Run a `toolcrib` command in the folder and return what it prints."""
        command = [sys.executable, "-m", "toolcrib", *arguments]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environ, check=True, capture_output=True, text=True
        )
        return done.stdout

    def start(self, count: int = 1) -> None:
        """Start replicas, and send them requests when they serve."""
        command = ["setpriv", "--pdeathsig=TERM", sys.executable, "-m", "toolcrib", "serve"]
        command += ["--port", "0", "--json"]
        started = []
        for _ in range(count):
            log = self._stack.enter_context((self.folder / f"replica{len(self.replicas)}.log").open("w"))
            replica = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**self.environ, **self.variables},
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for the program that ends all
            )
            self._stack.callback(self.end, replica)
            self.replicas.append(replica)
            started.append((replica, Path(log.name)))
        for replica, path in started:
            assert replica.stdout is not None
            line = replica.stdout.readline()
            assert line, path.read_text()
            self.ports[replica.pid] = urlsplit(json.loads(line)["address"]).port or 0
            self.proxy.ports.append(self.ports[replica.pid])

    def end(self, replica: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> None:
        """End a replica. A proxy learns of it when it cannot connect."""
        if replica.poll() is None:
            replica.send_signal(number)
            replica.wait(20)
        if replica.stdout is not None:
            replica.stdout.close()


@contextmanager
def run_fleet(example: Path = EXAMPLE, *, replicas: int = 3) -> Iterator[Fleet]:
    """Run the server of a folder, in a copy of it, as several replicas."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-"))) / "server"
        shutil.copytree(example, folder)
        key_file = folder / "fleet.key"
        key_file.touch(mode=0o600)
        key_file.write_text(f"{secrets.token_urlsafe(32)}\n")
        engines = [stack.enter_context(postgresql(is_durable=True)), stack.enter_context(redis())]
        fleet = Fleet(folder, *engines, stack)
        fleet.run("fleet", "migrate")
        fleet.start(replicas)
        yield fleet


def main() -> None:
    with run_fleet() as fleet:
        print(f"PostgreSQL  {fleet.postgresql.url}\nRedis       {fleet.redis.url}")
        for replica in fleet.replicas:
            print(f"replica     pid {replica.pid}")
        print(f"proxy       {fleet.url}\n")
        print(f"try         toolcrib call which_replica -t {fleet.url}")
        print(f"            cd {fleet.folder} && toolcrib fleet status\nCtrl-C ends all", flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()
        signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    main()
