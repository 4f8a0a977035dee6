"""A connection to Redis. Everything that one turn of the event loop wants is sent in one write.

    pipe = Pipe(parse_address("redis://127.0.0.1:6379/0"), Breaker("Redis"))
    assert await pipe.ask("PING") == b"PONG"

Replies come in the order of the requests, so a request is its command and a function that takes the reply.
Nothing is ever waited for longer than a time-out: a request that is late is told so once, and its reply is
passed to the same function when it arrives, so that what it took can be given back.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import hiredis

from toolcrib.errors import ConfigurationError
from toolcrib.state.base import StateUnavailable
from toolcrib.state.breaker import Breaker

CONNECT_S = 1.0
BLOCKED_S = 0.01
"""A time-out that is noticed later than this was noticed by an event loop that was blocked itself."""
STALLED_S = 2.0
"""After this long without the reply that is due, the connection is given up."""
_HINT = "use redis://HOST:PORT/0, rediss://, unix:///PATH or redis+sentinel://HOST:PORT,HOST:PORT/NAME"

Answered = Callable[[Any], None]
"""Called with the reply, or with an exception."""


class Address(NamedTuple):
    """Where Redis is. With `service`, the hosts are sentinels that know where its primary is."""

    hosts: tuple[tuple[str, int], ...]
    path: str
    service: str
    is_tls: bool
    user: str
    password: str
    database: int


def parse_address(url: str) -> Address:
    """Raise ConfigurationError for a URL of another kind, without showing it: it may have a password."""
    try:
        parts = urlsplit(url)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        scheme, place = parts.scheme, parts.netloc.rpartition("@")[2]
        words = [unquote(word) for word in parts.path.split("/")[1:]]
        if scheme == "unix":
            database = int(parse_qs(parts.query).get("db", ["0"])[0])
            return Address((), unquote(parts.path), "", False, user, password, database)
        is_sentinel = scheme == "redis+sentinel"
        if scheme not in ("redis", "rediss", "redis+sentinel") or (is_sentinel and not words):
            raise ValueError(scheme)
        port = 26379 if is_sentinel else 6379
        hosts = tuple((host, given or port) for host, given in map(_split_host, place.split(",")))
        service = words.pop(0) if is_sentinel else ""
        database = int(words[0]) if words and words[0] else 0
        return Address(hosts, "", service, scheme == "rediss", user, password, database)
    except ValueError:
        raise ConfigurationError("is not the URL of a Redis server", key="fleet.redis", hint=_HINT) from None


def _split_host(text: str) -> tuple[str, int]:
    parts = urlsplit(f"//{text}")
    return parts.hostname or "localhost", parts.port or 0


class _Request:
    __slots__ = ("answered", "due", "is_late")

    def __init__(self, answered: Answered, due: float) -> None:
        self.answered = answered
        self.due = due
        self.is_late = False


class _Connection(asyncio.Protocol):
    """One connection, until it breaks."""

    def __init__(self, pushed: Callable[[list[Any]], None], lost: Callable[[_Connection], None]) -> None:
        self._reader = hiredis.Reader()
        self._pushed = pushed
        self._lost = lost
        self.transport: asyncio.Transport | None = None
        self.requests: deque[_Request] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not False:
                is_notice = isinstance(reply, hiredis.PushNotification)
                if is_notice and reply[0] == b"message":
                    self._pushed(reply)
                elif self.requests:  # with a subscription, its confirmation is the reply
                    self.requests.popleft().answered(reply)
        except hiredis.ProtocolError:
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self._lost(self)
        failure = StateUnavailable("Redis closed the connection", in_doubt=True)
        while self.requests:
            self.requests.popleft().answered(failure)

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class Pipe:
    """Requests of one event loop. It connects when something is sent, and again after it has failed.

    `connected` is called with the pipe after each connection, `pushed` with notices.
    """

    def __init__(
        self,
        address: Address,
        breaker: Breaker,
        *,
        timeout_s: float = 0.05,
        pushed: Callable[[list[Any]], None] = lambda _: None,
        connected: Callable[[Pipe], None] = lambda _: None,
    ) -> None:
        self._address = address
        self._breaker = breaker
        self._timeout_s = timeout_s
        self._pushed = pushed
        self._connected = connected
        self._loop = asyncio.get_running_loop()
        self._connection: _Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._out: list[bytes] = []
        self._requests: deque[_Request] = deque()
        """Requests that are not written yet, as their commands in `_out`."""
        self._watch: asyncio.TimerHandle | None = None

    def send(self, command: tuple[str | bytes | int, ...], answered: Answered) -> None:
        """Send a command at the end of this turn of the event loop."""
        if not self._requests:
            self._loop.call_soon(self._flush)
        self._out.append(hiredis.pack_command(command))
        self._requests.append(_Request(answered, self._loop.time() + self._timeout_s))
        if self._watch is None:
            self._watch = self._loop.call_later(self._timeout_s, self._check_times)

    async def ask(self, *command: str | bytes | int) -> Any:
        """Send a command and return its reply. Raise StateUnavailable."""
        future = self._loop.create_future()

        def answered(reply: Any) -> None:
            if future.done():
                return
            if isinstance(reply, hiredis.ReplyError):
                future.set_exception(StateUnavailable(f"Redis: {reply}"))
            elif isinstance(reply, Exception):
                future.set_exception(reply)
            else:
                future.set_result(reply)

        self.send(command, answered)
        return await future

    def probe(self) -> None:
        """See whether Redis works again; the breaker closes then."""
        self.send(("PING",), self.note)

    def note(self, reply: Any) -> None:
        """Tell the breaker how a request ended."""
        if not isinstance(reply, Exception):
            self._breaker.succeed()
            return
        self._breaker.fail(reply)
        if str(reply).startswith("READONLY") and self._connection is not None:
            self._connection.abort()  # it is a replica now: find the primary

    def close(self) -> None:
        """End the connection."""
        if self._connecting is not None:
            self._connecting.cancel()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._connection is not None and self._connection.transport is not None:
            self._connection.transport.close()
        self._fail(StateUnavailable("the connection to Redis was closed"))

    # --- the connection ---

    def _flush(self) -> None:
        connection = self._connection
        if connection is None or connection.transport is None:
            if self._connecting is None:
                self._connecting = self._loop.create_task(self._connect())
            return
        connection.requests.extend(self._requests)
        data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
        self._out.clear()
        self._requests.clear()
        connection.transport.write(data)

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_S):
                connection = await self._open(*await self._find_primary())
            self._connection = connection
            self._connecting = None
            self._connected(self)
            self._flush()
        except (OSError, TimeoutError, hiredis.HiredisError) as error:
            failure = StateUnavailable(f"cannot connect to Redis: {str(error) or 'timed out'}")
            self._breaker.fail(failure)
            self._fail(failure)
        finally:
            self._connecting = None

    async def _find_primary(self) -> tuple[str, int]:
        """Ask the sentinels. The first one that answers knows."""
        address = self._address
        if not address.service:
            return address.hosts[0] if address.hosts else ("", 0)
        problem: Exception = StateUnavailable(f"no sentinel knows '{address.service}'")
        for host, port in address.hosts:
            try:
                sentinel = await self._open(host, port, is_sentinel=True)
            except OSError as error:
                problem = error
                continue
            found = await self._exchange(sentinel, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", address.service)
            sentinel.abort()
            if isinstance(found, list):
                return found[0].decode(), int(found[1])
        raise problem

    async def _open(self, host: str, port: int, *, is_sentinel: bool = False) -> _Connection:
        address = self._address

        def make() -> _Connection:
            return _Connection(self._pushed, self._lose)

        if address.path:
            _, connection = await self._loop.create_unix_connection(make, address.path)
        else:
            tls = ssl.create_default_context() if address.is_tls else None
            _, connection = await self._loop.create_connection(make, host, port, ssl=tls)
        if is_sentinel:
            return connection
        hello: tuple[str, ...] = ("HELLO", "3")
        if address.password:
            hello += ("AUTH", address.user or "default", address.password)
        for command in (hello, ("SELECT", str(address.database)))[: 2 if address.database else 1]:
            reply = await self._exchange(connection, *command)
            if isinstance(reply, Exception):
                connection.abort()
                raise StateUnavailable(str(reply))
        return connection

    async def _exchange(self, connection: _Connection, *command: str) -> Any:
        future: asyncio.Future[Any] = self._loop.create_future()

        def answered(reply: Any) -> None:
            if not future.done():
                future.set_result(reply)

        connection.requests.append(_Request(answered, 0))
        if connection.transport is not None:
            connection.transport.write(hiredis.pack_command(command))
        return await future

    def _lose(self, connection: _Connection) -> None:
        if connection is self._connection:
            self._connection = None

    def _fail(self, error: StateUnavailable) -> None:
        """End the requests that were never written."""
        requests = list(self._requests)
        self._requests.clear()
        self._out.clear()
        for request in requests:
            request.answered(error)

    # --- time ---

    def _check_times(self) -> None:
        """Tell requests that are late, oldest first; look again when the next one would be."""
        now = self._loop.time()
        if self._watch is not None and now > self._watch.when() + BLOCKED_S:
            self._watch = self._loop.call_later(BLOCKED_S, self._check_times)  # after reading what is there
            return
        self._watch = None
        connection = self._connection
        sent = connection.requests if connection is not None else deque[_Request]()
        if connection is not None and sent and now > sent[0].due + STALLED_S:
            connection.abort()
        late = [request for request in sent if request.due <= now and not request.is_late]
        unsent = []
        while self._requests and self._requests[0].due <= now:
            unsent.append(self._requests.popleft())
            del self._out[0]
        if sent or self._requests:
            dues = (request.due for request in (*sent, *self._requests) if request.due > now)
            self._watch = self._loop.call_at(next(dues, now + self._timeout_s), self._check_times)
        if late or unsent:
            self._breaker.fail(StateUnavailable("Redis did not reply in time"), hung=True)
        for request in (*late, *unsent):
            request.is_late = True
            request.answered(StateUnavailable("Redis did not reply in time", in_doubt=request in late))
