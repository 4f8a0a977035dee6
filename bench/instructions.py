"""Instructions per operation of toolcrib, counted by callgrind, beside another checkout:

    python -m bench.instructions                         # every row
    python -m bench.instructions engine asgi --against ../older

Each row runs N and 2N operations in two processes under valgrind; the difference is what N operations cost,
without imports and start. Counts repeat within a few parts in a thousand, whatever else the machine does. The
rows run `bench` and `src` of each checkout, so both must have the functions that a row uses.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_COLLECTED = re.compile(r"Collected : (\d+)")
_TIMEOUT_S = 600
_SETTINGS = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}


def _bench(module: str) -> Any:
    return importlib.import_module(f"bench.{module}")


# --- work in process: each function does `count` operations ---


def register(count: int) -> None:
    functions, subject = _bench("functions"), _bench("subjects").load("toolcrib")
    with tempfile.TemporaryDirectory() as folder:
        functions.write_module(Path(folder), 400)
        made = functions.load_module(Path(folder), 400)
    server = subject.new_server()
    add = subject.adder(server)
    for function in made[:count]:
        add(function)


def define(count: int) -> None:
    functions, subject = _bench("functions"), _bench("subjects").load("toolcrib")
    with tempfile.TemporaryDirectory() as folder:
        functions.write_module(Path(folder), 400)
        made = functions.load_module(Path(folder), 400)
    server = subject.new_server()
    add = subject.adder(server)
    for function in made:
        add(function)
    for tool in list(server.registry)[:count]:
        _ = tool.definition


def _call(count: int, function: Callable[..., Any]) -> None:
    subject = _bench("subjects").load("toolcrib")
    server = subject.new_server()
    subject.adder(server)(function)

    async def work() -> None:
        for _ in range(count):
            await server.call(function.__name__, {"a": 1, "b": 2})

    asyncio.run(work())


def call_async(count: int) -> None:
    _call(count, _bench("wire.servers").add)


def call_sync(count: int) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    _call(count, add)


def _engine(count: int, era: str) -> None:
    engine, messages = _bench("wire.engine"), _bench("wire.messages")
    asked = messages.question(era, "add", 0)

    async def work() -> None:
        async with engine.toolcrib_messages(engine.new_server("toolcrib")) as ask:
            if era == messages.LEGACY:
                await ask(messages.initialize())
                await ask(messages.initialized())
            await engine.spend(ask, asked.body, await ask(asked.body), count)

    asyncio.run(work())


def engine_modern(count: int) -> None:
    _engine(count, "2026-07-28")


def engine_legacy(count: int) -> None:
    _engine(count, "2025-11-25")


def _asgi(count: int, era: str) -> None:
    engine, messages = _bench("wire.engine"), _bench("wire.messages")
    asked = messages.question(era, "add", 0)

    async def work() -> None:
        app = engine.Application(engine.new_server("toolcrib").asgi())
        await app.start()
        session = None
        if era == messages.LEGACY:
            app.use(era, is_call=False)
            await app.post(messages.initialize())
            session = app.head.get("mcp-session-id")
            app.use(era, session)
            await app.post(messages.initialized())
        app.use(era, session)
        await engine.spend(app.post, asked.body, await app.post(asked.body), count)
        await app.stop()

    asyncio.run(work())


def asgi_modern(count: int) -> None:
    _asgi(count, "2026-07-28")


def asgi_legacy(count: int) -> None:
    _asgi(count, "2025-11-25")


def search(count: int) -> None:
    probe, questions = _bench("catalog_probe"), _bench("shelf.questions").QUESTIONS
    find = probe.our_search(_bench("shelf.many").make_tools(1000))
    for number in range(count):
        find(questions[number % len(questions)].text)


def scan(count: int) -> None:
    functions = _bench("functions")
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder)
        for number in range(count):
            part = package / f"part{number}"
            part.mkdir()
            functions.write_module(part, 25)
        importlib.import_module("toolcrib.sources.scan").scan(package)


# --- work over a socket: a server under valgrind, and `count` requests from here ---


def http(port: int, count: int, era: str, key: str | None = None, tool: str = "add") -> None:
    """Send `count` requests over 16 connections, all of them before the answers of a round are read."""
    messages, replies = _bench("wire.messages"), _bench("wire.replies")
    session = None

    def answer(connection: socket.socket) -> Any:
        data = b""
        while (reply := replies.split(data)) is None:
            received = connection.recv(65536)
            if not received:
                raise ConnectionError("the server closed a connection")
            data += received
        return reply

    connections = [socket.create_connection(("127.0.0.1", port), 60) for _ in range(16)]
    if era == messages.LEGACY:
        connections[0].sendall(messages.post(port, messages.initialize(), era, method="initialize", key=key))
        session = answer(connections[0]).headers.get("mcp-session-id")
    for start in range(0, count, len(connections)):
        for number, connection in enumerate(connections, start):
            asked = messages.question(era, tool, number)
            connection.sendall(
                messages.post(
                    port, asked.body, era, method=asked.method, name=asked.name, session=session, key=key
                )
            )
        for connection in connections:
            if answer(connection).status != 200:
                raise ConnectionError("a call failed")
    for connection in connections:
        connection.close()


WORK: dict[str, tuple[Callable[[int], None], int]] = {
    "register": (register, 200),
    "define": (define, 100),
    "call-async": (call_async, 2000),
    "call-sync": (call_sync, 1000),
    "engine-modern": (engine_modern, 2000),
    "engine-legacy": (engine_legacy, 2000),
    "asgi-modern": (asgi_modern, 1000),
    "asgi-legacy": (asgi_legacy, 1000),
    "search": (search, 50),
    "scan": (scan, 10),
}
SERVED: dict[str, tuple[str, str, str]] = {
    "http-modern": ("toolcrib_server", "2026-07-28", "add"),
    "http-legacy": ("toolcrib_server", "2025-11-25", "add"),
    "http-sync": ("toolcrib_server", "2026-07-28", "echo"),
    "resource": ("toolcrib_server", "2026-07-28", "resource"),
    "prompt": ("toolcrib_server", "2026-07-28", "prompt"),
    "guarded": ("guarded_server", "2026-07-28", "add"),
}
"""Module of the server, protocol version, and the operation."""
REQUESTS = 800


def _valgrind(*words: str) -> list[str]:
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise SystemExit("error: valgrind is not installed\nhint: apt-get install valgrind")
    options = ["--tool=callgrind", "--callgrind-out-file=/dev/null"]
    return [valgrind, *options, sys.executable, *words]


def _environ(checkout: Path) -> dict[str, str]:
    return {**os.environ, **_SETTINGS, "PYTHONPATH": f"{checkout / 'src'}{os.pathsep}{checkout}"}


def _collected(printed: str) -> int:
    found = _COLLECTED.search(printed)
    if found is None:
        raise SystemExit(f"error: valgrind printed no count:\n{printed[-2000:]}")
    return int(found[1])


def count_work(checkout: Path, row: str, count: int) -> int:
    command = _valgrind("-P", __file__, "--work", row, str(count))
    done = subprocess.run(
        command,
        cwd=checkout,
        env=_environ(checkout),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"error: {row} failed:\n{done.stderr[-2000:]}")
    return _collected(done.stderr)


def count_served(checkout: Path, row: str, count: int) -> int:
    module, era, tool = SERVED[row]
    with tempfile.TemporaryDirectory() as home, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        name, key = f"bench.wire.servers.{module}", None
        environ = _environ(checkout)
        if module == "guarded_server":
            command = [sys.executable, "-m", name, "key", home]
            made = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
            key = made.stdout.split('"')[3]
        folder = [home] if key else []
        command = _valgrind("-m", name, "http", str(port), *folder)
        server = subprocess.Popen(command, cwd=checkout, env=environ, stderr=subprocess.PIPE, text=True)
        try:
            _wait_for(port, server)
            http(port, count, era, key, tool)
        finally:
            server.terminate()
            printed = server.communicate(timeout=_TIMEOUT_S)[1]
    return _collected(printed)


def _wait_for(port: int, server: subprocess.Popen[str]) -> None:
    for _ in range(1200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if server.poll() is not None:
            raise SystemExit("error: the server ended")
        time.sleep(0.1)
    raise SystemExit("error: the server does not listen")


def measure(checkout: Path, row: str) -> float:
    """Return the instructions of one operation."""
    count, counter = (REQUESTS, count_served) if row in SERVED else (WORK[row][1], count_work)
    return (counter(checkout, row, 2 * count) - counter(checkout, row, count)) / count


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__)
    parser.add_argument("rows", nargs="*", help=", ".join([*WORK, *SERVED]))
    parser.add_argument("--against", type=Path, help="another checkout of toolcrib")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        logging.disable(logging.CRITICAL)
        WORK[options.work[0]][0](int(options.work[1]))
        return
    chosen = [row for row in [*WORK, *SERVED] if not options.rows or row.startswith(tuple(options.rows))]
    for row in chosen:
        ours = measure(ROOT, row)
        line = f"{row:<14} {ours:>12,.0f}"
        if options.against:
            theirs = measure(options.against.resolve(), row)
            line += f" {theirs:>12,.0f} {ours / theirs - 1:+.1%}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
