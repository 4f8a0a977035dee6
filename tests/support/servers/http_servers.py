"""A server on our own HTTP server and on ASGI, in a thread of this process, so that tests can measure
it and see its log. For servers in a separate process see `server_processes`.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
import uvloop

from tests.support.clients.raw_http_client import TIMEOUT_S, Peer, Response
from toolcrib import MCPServer
from toolcrib.http_client import is_loopback
from toolcrib.transports.http.server import bind

HTTP_STACKS = ("own", "asgi")
"""Our own HTTP stack, and the ASGI application on uvicorn."""


class _Complaints(logging.Handler):
    """Keeps the log records of a server that are errors or have a traceback."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.levelno >= logging.ERROR:
            self.records.append(self.format(record))


@dataclass
class Served:
    """A running server: its address and the errors it has logged."""

    http_stack: str
    port: int
    server: MCPServer
    complaints: list[str]

    def connect(self) -> Peer:
        return Peer(self.port)

    def post(self, body: bytes, headers: Any = (), **options: Any) -> Response:
        with self.connect() as peer:
            return peer.post(body, headers, **options)

    def exchange(self, data: bytes) -> Response:
        """Return the answer to raw bytes, sent on a new connection."""
        with self.connect() as peer:
            peer.send(data)
            return peer.read()


@contextmanager
def serving(
    http_stack: str, server: MCPServer, *, host: str = "127.0.0.1", **options: Any
) -> Iterator[Served]:
    """Serve in a thread until the block ends. Options are those of HTTP; it always listens on the loopback,
    whatever `host` says."""
    sockets = bind("127.0.0.1", 0)
    port = sockets[0].getsockname()[1]
    complaints = _Complaints()
    loggers = [logging.getLogger(name) for name in ("toolcrib", "asyncio", "uvicorn.error")]
    for each in loggers:
        each.addHandler(complaints)
    run, stop = (
        _own(server, sockets, options, host) if http_stack == "own" else _asgi(server, sockets, options, host)
    )
    thread = threading.Thread(target=run, name=f"http_stack-{http_stack}")
    thread.start()
    try:
        _await_listening(port)
        yield Served(http_stack, port, server, complaints.records)
    finally:
        stop()
        thread.join(TIMEOUT_S)
        for each in loggers:
            each.removeHandler(complaints)
        assert not thread.is_alive(), f"the {http_stack} http_stack did not end"


def _own(
    server: MCPServer, sockets: list[socket.socket], options: dict[str, Any], host: str
) -> tuple[Callable[[], None], Callable[[], None]]:
    ready = threading.Event()
    loop = uvloop.new_event_loop()

    async def main() -> None:
        serve = server.run("http", sockets=sockets, host=host, drain_s=1.0, **options)
        ready.set()
        await serve

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(main())

    def stop() -> None:
        ready.wait(TIMEOUT_S)
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(TIMEOUT_S)

    return run, stop


def _asgi(
    server: MCPServer, sockets: list[socket.socket], options: dict[str, Any], host: str
) -> tuple[Callable[[], None], Callable[[], None]]:
    app = server.asgi(host=host, insecure=not is_loopback(host), **options)
    config = uvicorn.Config(app, log_level="warning", ws="none", timeout_graceful_shutdown=1, log_config=None)
    host_server = uvicorn.Server(config)

    def run() -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(host_server.serve(sockets=sockets))

    def stop() -> None:
        host_server.should_exit = True

    return run, stop


def _await_listening(port: int) -> None:
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.005)
    raise AssertionError("the server does not listen")


@contextmanager
def hosted(app: Any, **options: Any) -> Iterator[int]:
    """Run any ASGI application on uvicorn in a thread; give its port."""
    sockets = bind("127.0.0.1", 0)
    sockets[0].listen(16)  # from now on clients that come early wait
    host = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1, **options))
    thread = threading.Thread(target=lambda: asyncio.run(host.serve(sockets=sockets)))
    thread.start()
    try:
        yield sockets[0].getsockname()[1]
    finally:
        host.should_exit = True
        thread.join(TIMEOUT_S)
