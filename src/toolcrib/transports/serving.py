"""A server on the wire: one engine, the transports that drive it, and the news of changed tools.

Making one is cheap; a transport is loaded when it is used. Knows the parts of the wire and how they fit;
refuses to know registration and command lines.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from toolcrib.dispatch.dispatcher import Dispatcher
from toolcrib.errors import ConfigurationError
from toolcrib.http_client import is_loopback
from toolcrib.protocol import Engine

if TYPE_CHECKING:
    from toolcrib.policy.enforcer import PolicyEnforcer
    from toolcrib.policy.telemetry.telemetry import TelemetryMiddleware
    from toolcrib.transports.http.auth import Reception
    from toolcrib.transports.http.endpoint import Endpoint
    from toolcrib.transports.http.server import Times
    from toolcrib.transports.memory import MemoryPipe

logger = logging.getLogger("toolcrib")

COALESCE_S = 0.05
"""Changes that come together are told of together."""
PATH = "/mcp"


@dataclass(frozen=True, slots=True)
class HTTPOptions:
    """How a server is reached by HTTP. `allowed_hosts` and `allowed_origins` are let in besides its own.

    Whoever sees to signals himself cancels what serves, to the same effect.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    path: str = PATH
    allowed_hosts: Sequence[str] = ()
    allowed_origins: Sequence[str] = ()
    pair: bool = True
    insecure: bool = False
    """Listen beyond this machine though nobody has to say who they are."""
    workers: int = 1
    """So many processes serve as one; this is one of them."""
    times: Times | None = None
    max_connections: int = 10_000
    drain_s: float = 10.0
    sockets: Sequence[socket.socket] = field(default=())
    ready: Callable[[list[str]], None] | None = None

    def __post_init__(self) -> None:
        if not self.path.startswith("/") or any(mark in self.path for mark in "?# "):
            hint = "it begins with a slash: /mcp"
            raise ConfigurationError(f"must be a path, got {self.path!r}", key="path", hint=hint)
        if type(self.workers) is not int or self.workers < 1:
            words = f"must be a whole number from 1 up, got {self.workers!r}"
            raise ConfigurationError(words, key="workers", hint="how many processes serve as one")

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> HTTPOptions:
        """Raises ConfigurationError for an option that is none."""
        known = [item.name for item in fields(cls)]
        for name in options:
            if name not in known:
                raise ConfigurationError("unknown option", key=name, hint=f"there are: {', '.join(known)}")
        return cls(**options)

    catches_signals: bool = True


class Wiring:
    """The wire of one server."""

    def __init__(
        self, dispatcher: Dispatcher, enforcer: PolicyEnforcer | None = None, **identity: Any
    ) -> None:
        self._enforcer = enforcer
        self.engine = Engine(dispatcher, **identity)
        if enforcer is not None and enforcer.telemetry is not None:
            self._show(enforcer.telemetry, dispatcher)
        self._registry = dispatcher.registry
        self._unsubscribe: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def _show(self, telemetry: TelemetryMiddleware, dispatcher: Dispatcher) -> None:
        engine = self.engine
        telemetry.gauge("calls_queued", lambda: engine.gate.waiting)
        telemetry.gauge("sessions", lambda: len(engine.sessions) + len(engine.pipes))
        telemetry.gauge("threads_abandoned", lambda: dispatcher.runner.abandoned)

    # --- news ---

    def open(self) -> None:
        """Begin to tell clients of changes. Called on the loop that serves."""
        self._loop = asyncio.get_running_loop()
        if self.engine.dynamic and self._unsubscribe is None:
            self._unsubscribe = self._registry.subscribe(self._hear)

    def close(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.engine.close()

    def _hear(self, _: object) -> None:
        """From any thread: a change was made."""
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._arm)
            except RuntimeError:
                pass  # the loop has ended: nobody is left to be told

    def _arm(self) -> None:
        if self._timer is None and self._loop is not None:
            self._timer = self._loop.call_later(COALESCE_S, self._announce)

    def _announce(self) -> None:
        self._timer = None
        if self._enforcer is not None:
            self._enforcer.warn_unmatched(self._registry.published())
        self.engine.announce_change()

    # --- transports, each loaded when it is wanted ---

    async def serve_stdio(self) -> None:
        from toolcrib.transports.stdio import serve_stdio

        await serve_stdio(self.engine)

    def connect(self, receive: Callable[[bytes], None]) -> MemoryPipe:
        from toolcrib.transports.memory import MemoryPipe

        return MemoryPipe(self.engine, receive)

    def endpoint(self, options: HTTPOptions, *, bound: str | None, stays_home: bool = False) -> Endpoint:
        from toolcrib.transports.http.endpoint import Endpoint
        from toolcrib.transports.http.hosts import Guard as Names

        names = Names(bound, options.allowed_hosts, options.allowed_origins, stays_home=stays_home)
        return Endpoint(
            self.engine, names, path=options.path, pair=options.pair, reception=self._reception(options)
        )

    def _reception(self, options: HTTPOptions) -> Reception | None:
        """Who lets callers in, and who shows figures; None where nobody has to."""
        enforcer = self._enforcer
        policy = None if enforcer is None else enforcer.policy
        if enforcer is None or policy is None or (policy.auth is None and enforcer.telemetry is None):
            return None
        from toolcrib.transports.http.auth import Reception

        name = self.engine.info["name"]
        return Reception(
            enforcer,
            name,
            host=options.host,
            port=options.port,
            path=options.path,
            workers=options.workers,
        )

    def _is_bare(self, options: HTTPOptions) -> bool:
        """Whether nobody would have to say who they are, and nobody has said that this is meant."""
        policy = None if self._enforcer is None else self._enforcer.policy
        return not options.insecure and (policy is None or policy.auth is None)

    def _check_open(self, host: str, options: HTTPOptions) -> None:
        """Nobody listens beyond this machine for everybody without having said so."""
        if is_loopback(host) or not self._is_bare(options):
            return
        hint = (
            "name keys or an authorization server under [auth], or say that you mean it: --insecure "
            "(insecure=True in code)"
        )
        words = f"{host} can be reached from elsewhere, and nobody would have to say who they are"
        raise ConfigurationError(words, key="host", hint=hint)

    def asgi(
        self, options: HTTPOptions, start: Callable[[], Awaitable[None]], stop: Callable[[], Awaitable[None]]
    ) -> Any:
        from toolcrib.transports.http.asgi import ASGIApp

        self._check_open(options.host, options)
        # What it is bound to is its host's affair: that is seen when requests come.
        endpoint = self.endpoint(options, bound=options.host, stays_home=self._is_bare(options))

        async def close() -> None:
            endpoint.is_draining = True
            await stop()
            if endpoint.reception is not None:
                await endpoint.reception.close()

        async def open_() -> None:
            endpoint.is_draining = False
            await start()
            if endpoint.reception is not None:
                await endpoint.reception.open(options.port)

        return ASGIApp(lambda: endpoint, open_, close)

    async def serve_http(self, options: HTTPOptions) -> None:
        """Serve until cancelled, or told to end by a signal; then let what runs end."""
        from toolcrib.transports.http.server import Serving, bind

        endpoint = self.endpoint(options, bound=options.host)
        serving = Serving(endpoint, times=options.times, max_connections=options.max_connections)
        for each in options.sockets:
            self._check_open(each.getsockname()[0], options)
        if not options.sockets:
            self._check_open(options.host, options)
        sockets = list(options.sockets) or bind(options.host, options.port)
        try:
            if endpoint.reception is not None:
                await endpoint.reception.open(sockets[0].getsockname()[1])
            await serving.listen(sockets)
        except BaseException:
            for each in sockets:
                each.close()
            raise
        if options.ready is not None:
            options.ready([_address(each, options) for each in sockets])
        ending = asyncio.Event()
        signals = _catch_signals(ending) if options.catches_signals else []
        try:
            await ending.wait()
        finally:
            _release_signals(signals)
            await serving.stop(options.drain_s)
            if endpoint.reception is not None:
                await endpoint.reception.close()


def _address(each: socket.socket, options: HTTPOptions) -> str:
    host, port = each.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}{options.path}"


def _catch_signals(ending: asyncio.Event) -> list[signal.Signals]:
    """The first SIGTERM or SIGINT ends politely, the next at once."""
    loop = asyncio.get_running_loop()
    caught = []
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, _end, ending, number)
            caught.append(number)
        except (NotImplementedError, RuntimeError, ValueError):
            pass  # not the main thread, or a system without: whoever runs us ends us
    return caught


def _end(ending: asyncio.Event, number: signal.Signals) -> None:
    ending.set()
    loop = asyncio.get_running_loop()
    loop.remove_signal_handler(number)  # so that the next one has its own effect


def _release_signals(caught: Sequence[signal.Signals]) -> None:
    loop = asyncio.get_running_loop()
    for number in caught:
        loop.remove_signal_handler(number)
