"""The HTTP server: listening sockets, time-outs of connections, and an orderly stop."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from toolcrib.transports.eager import EagerStarter
from toolcrib.transports.http.connection import Connection
from toolcrib.transports.http.endpoint import Endpoint
from toolcrib.transports.http.response import OutputStore

logger = logging.getLogger("toolcrib")

SWEEP_S = 0.5
DRAIN_S = 10.0
MAX_CONNECTIONS = 10_000
SPARE_FILES = 32
READ_SIZE = 64 * 1024
"""Bytes read at a time, and so held for a connection whose input has to wait."""
BACKLOG = 1024
_MAX_PORTS_TRIED = 20
_WILDCARDS = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 # compared, not bound


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds that a client may take: for its headers, between two pieces of a body, for the whole body,
    between two requests, and to read its response."""

    header_s: float = 10.0
    body_idle_s: float = 10.0
    body_s: float = 60.0
    idle_s: float = 30.0
    write_s: float = 30.0


class HTTPServer:
    """One listening server."""

    def __init__(
        self, endpoint: Endpoint, *, timeouts: Timeouts | None = None, max_connections: int = MAX_CONNECTIONS
    ) -> None:
        import httptools  # delayed: only servers on HTTP need it

        self.endpoint = endpoint
        self.timeouts = timeouts or Timeouts()
        self.parser_error = httptools.HttpParserError
        self.parser_upgrade = httptools.HttpParserUpgrade
        self.new_parser = httptools.HttpRequestParser
        self.loop = asyncio.get_running_loop()
        endpoint.starter = EagerStarter(self.loop, is_in_task=False)
        self.now = self.loop.time()
        self.output_store = OutputStore()
        self.is_draining = False
        self._max_connections = _affordable(max_connections)
        self._connections: set[Connection] = set()
        self._servers: list[asyncio.Server] = []
        self._sweeper: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()
        self._buffer = memoryview(bytearray(READ_SIZE))

    @property
    def read_buffer(self) -> memoryview:
        """The buffer that a connection reads into. All connections share one where a read ends before the
        next begins, which is everywhere but on Windows; event loops would read up to 256 KiB into buffers of
        their own."""
        return self._buffer if sys.platform != "win32" else memoryview(bytearray(READ_SIZE))

    async def listen(self, sockets: Sequence[socket.socket]) -> None:
        for each in sockets:
            server = await self.loop.create_server(lambda: Connection(self), sock=each, backlog=BACKLOG)
            self._servers.append(server)
        self._sweep()

    def close(self) -> None:
        """Accept no connections any more, and close those that are idle."""
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.end(serves_rest=True)

    async def stop(self, drain_s: float = DRAIN_S, *, serves_rest: bool = False) -> None:
        """Accept nothing new, and let running calls end, but not for longer than `drain_s`. With
        `serves_rest`, connections that were accepted before get a response to one more request."""
        self.is_draining = True
        self.close()
        await asyncio.sleep(0)  # for connections that are just being accepted
        self.endpoint.drain(serves_rest=serves_rest)
        for connection in list(self._connections):
            connection.end(serves_rest=serves_rest)
        self._empty.clear()
        if self._connections:
            try:
                async with asyncio.timeout(drain_s):
                    await self._empty.wait()
            except TimeoutError:
                logger.warning("%d connections were cut off: their calls did not end", len(self._connections))
        for connection in list(self._connections):
            connection.transport.abort()
        if self._sweeper is not None:
            self._sweeper.cancel()
        self.endpoint.close()

    def admit(self, connection: Connection) -> bool:
        """Add a connection; return whether there is room for it. One too many still has to be answered."""
        self._connections.add(connection)
        return len(self._connections) <= self._max_connections

    def forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()

    def _sweep(self) -> None:
        """Close connections whose time is up. One timer serves all of them, and they read the time of the
        last sweep from `now`, which is exact enough for time-outs of seconds."""
        self._sweeper = self.loop.call_later(SWEEP_S, self._sweep)  # first: an error must not end it
        now = self.now = self.loop.time()
        self.output_store.set_date()
        late = [item for item in self._connections if item.read_by < now or item.write_by < now]
        for connection in late:
            connection.expire()


def _affordable(wanted: int) -> int:
    """Return the number of connections that the limit of open files allows."""
    try:
        import resource
    except ImportError:  # Windows
        return wanted
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if soft == resource.RLIM_INFINITY else max(8, min(wanted, soft - SPARE_FILES))


def bind(host: str, port: int) -> list[socket.socket]:
    """Return bound sockets for a host name. Raise OSError."""
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            each = socket.socket(family, kind, protocol)
            sockets.append(each)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if port == 0 and len(sockets) > 1:  # the same port for every family
                address = (address[0], sockets[0].getsockname()[1], *address[2:])
            each.bind(address)
            each.setblocking(False)
    except OSError:
        for each in sockets:
            each.close()
        raise
    return sockets


def describe_bind_error(error: OSError, host: str, port: int, option: str) -> tuple[str, str]:
    """Return what is wrong with an address that cannot be bound, and a hint.

    `option` is how a hint writes options, with a place for the name and one for the value.
    """
    if isinstance(error, socket.gaierror):
        return f"Unknown host: {host}", f"{option.format('host', '127.0.0.1')}, or a name of this machine"
    match error.errno:
        case errno.EADDRINUSE:
            free = option.format("port", _find_free_port(host, port))
            return f"Port {port} is in use", f"use {free}, or {option.format('port', 0)} for any free port"
        case errno.EACCES:
            return f"Permission denied: cannot bind port {port}", "use a port from 1024 up"
        case errno.EADDRNOTAVAIL:
            return f"Cannot bind {host}: not a local address", f"use {option.format('host', '127.0.0.1')}"
        case _:
            return f"Cannot bind {host} port {port}: {error.strerror}", "use another address or port"


def _find_free_port(host: str, port: int) -> int:
    """Return the next free port, or 0 if none of some is."""
    for free in range(port + 1, min(port + _MAX_PORTS_TRIED, 65536)):
        with suppress(OSError):
            for each in bind(host, free):
                each.close()
            return free
    return 0


def url_of(each: socket.socket, host: str, path: str) -> str:
    """Return the URL of a bound socket for use on this machine."""
    bound, port = each.getsockname()[:2]
    try:
        ipaddress.ip_address(host)
        shown = _WILDCARDS.get(bound, bound)
    except ValueError:
        shown = host or _WILDCARDS[bound]  # keep a host name
    return f"http://{f'[{shown}]' if ':' in shown else shown}:{port}{path}"
