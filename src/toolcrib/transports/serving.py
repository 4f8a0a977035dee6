"""A server and its transports: one protocol engine, served over stdio, HTTP, ASGI and in memory.

Creating one is cheap; a transport is imported when it is used.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any

from toolcrib.context import LOCAL, Principal
from toolcrib.dispatch.calls import RunningCall
from toolcrib.dispatch.dispatcher import Dispatcher
from toolcrib.errors import BindError, ConfigurationError
from toolcrib.http_client import is_loopback
from toolcrib.options import check_settings
from toolcrib.protocol import Engine, EngineSettings
from toolcrib.protocol.calls import ToolCall
from toolcrib.transports.eager import pending_requests

if TYPE_CHECKING:
    from toolcrib.component import Component
    from toolcrib.policy.enforcer import PolicyEnforcer
    from toolcrib.transports.http.auth import AuthMiddleware
    from toolcrib.transports.http.endpoint import Endpoint
    from toolcrib.transports.http.mounts import Mount
    from toolcrib.transports.http.server import HTTPServer, Timeouts
    from toolcrib.transports.pipe import Pipe

TOPIC = "resource"
COALESCE_S = 0.05
"""Changes within this time are announced together."""
PATH = "/mcp"


@dataclass(frozen=True, slots=True)
class HTTPOptions:
    """Options of a server on HTTP.

    `allowed_hosts` and `allowed_origins` are accepted besides the server's own address. `insecure` allows
    callers from other machines without authentication. `workers` is the number of processes that serve
    together. `wait_for_turn` is awaited before connections are accepted, and returns the sockets. Without
    `catches_signals`, cancel the coroutine to stop the server.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    path: str = PATH
    allowed_hosts: Sequence[str] = ()
    allowed_origins: Sequence[str] = ()
    insecure: bool = False
    workers: int = 1
    times: Timeouts | None = None
    max_connections: int = 10_000
    drain_s: float = 10.0
    sockets: Sequence[socket.socket] = field(default=())
    wait_for_turn: Callable[[], Awaitable[list[socket.socket]]] | None = None
    ready: Callable[[list[str]], None] | None = None
    catches_signals: bool = True

    def __post_init__(self) -> None:
        check_settings(self)
        if not self.path.startswith("/") or any(mark in self.path for mark in "?# "):
            hint = "a path begins with a slash: /mcp"
            raise ConfigurationError(f"must be a path, got {self.path!r}", key="path", hint=hint)
        if self.workers < 1:
            message = f"must be a whole number from 1 up, got {self.workers!r}"
            raise ConfigurationError(
                message, key="workers", hint="the number of processes that serve together"
            )

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> HTTPOptions:
        """Return options from a mapping. Raise ConfigurationError for an unknown option."""
        known = [item.name for item in fields(cls)]
        for name in options:
            if name not in known:
                raise ConfigurationError("unknown option", key=name, hint=f"options: {', '.join(known)}")
        return cls(**options)


class Transports:
    """The protocol engine of one server, and the transports that it is served over."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        settings: EngineSettings,
        enforcer: PolicyEnforcer | None = None,
        mounts: Callable[[], Sequence[Mount]] = tuple,
    ) -> None:
        self._enforcer = enforcer
        self._mounts = mounts
        self.engine = Engine(dispatcher, settings)
        if enforcer is not None and (telemetry := enforcer.telemetry) is not None:
            engine = self.engine
            telemetry.gauge("sessions", lambda: len(engine.sessions) + len(engine.pipes))
            telemetry.gauge("threads_abandoned", lambda: dispatcher.runner.abandoned)
        dispatcher.calls.sources.append(self._running_calls)
        self.is_on_http = False
        self._registry = dispatcher.registry
        self._unsubscribe: list[Callable[[], None]] = []
        self._changes: set[str] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ended: asyncio.Event | None = None
        self._http: HTTPServer | None = None
        self._retired_s: float | None = None

    def _running_calls(self) -> Iterator[RunningCall]:
        """Yield the calls that have begun and wait for something: of requests, and of tasks."""
        pending = {*pending_requests(), *self.engine.tasks.running.values()}
        for request in pending:
            if isinstance(request, ToolCall) and request.engine is self.engine:
                yield request.describe()

    # --- announcing changes ---

    def open(self) -> None:
        """Announce changes of the lists from now on. Called on the loop that serves."""
        self._loop = asyncio.get_running_loop()
        sessions, state = self.engine.sessions, self.engine.settings.state
        if state.is_shared and sessions.shared is None:
            from toolcrib.protocol.shared_sessions import SharedSessions  # few servers have several processes

            sessions.shared = SharedSessions(self.engine)
        if not self._unsubscribe:
            self._unsubscribe = [self.engine.settings.state.bus.subscribe(TOPIC, self._receive_update)]
        if self.engine.settings.dynamic and len(self._unsubscribe) == 1:
            dispatcher = self.engine.dispatcher
            lists = {
                "tools": self._registry,
                "resources": dispatcher.resources,
                "prompts": dispatcher.prompts,
            }
            self._unsubscribe += [
                registry.subscribe(partial(self._changed, kind)) for kind, registry in lists.items()
            ]

    def close(self) -> None:
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        self._unsubscribe = []
        if (shared := self.engine.sessions.shared) is not None:
            shared.close()
            self.engine.sessions.shared = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.engine.close()

    def _changed(self, kind: str, _: object) -> None:
        """Schedule an announcement. May be called from any thread."""
        self._call(self._schedule, kind)

    def announce_lists(self, kinds: Sequence[str]) -> None:
        """Tell clients that lists differ from the process before or after this one. May be called
        from any thread."""
        for kind in kinds:
            self._call(self.engine.announce_list, kind)

    def retire(self, kinds: Sequence[str], drain_s: float, on_closed: Callable[[], None]) -> None:
        """Stop serving over HTTP: another process takes over, whose lists of these kinds are others.
        `on_closed` is called when no connection is accepted any more; running calls have `drain_s` to end.
        May be called from any thread."""

        def close(_: str) -> None:
            self._retired_s = drain_s
            if self._http is not None:
                self._http.close()
            # Once its idle connections are closed, a client that hears of it calls the other process.
            asyncio.get_running_loop().call_later(COALESCE_S, end)

        def end() -> None:
            for kind in kinds:
                self.engine.announce_list(kind)
            if self._ended is not None:
                self._ended.set()
            on_closed()

        self._call(close, "")

    def announce_update(self, uri: str) -> None:
        """Tell clients of all processes that a resource has changed. May be called from any thread."""
        self.engine.settings.state.bus.publish(TOPIC, uri.encode("utf-8", "surrogatepass"))

    def _receive_update(self, uri: bytes | None) -> None:
        if uri is None:  # some were missed
            self._call(self.engine.announce_change, "resources")
        else:
            self._call(self.engine.announce_update, uri.decode("utf-8", "surrogatepass"))

    def _call(self, function: Callable[[str], None], argument: str) -> None:
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(function, argument)
            except RuntimeError:
                pass  # the loop has ended, and all clients with it

    def _schedule(self, kind: str) -> None:
        self._changes.add(kind)
        if self._timer is None and self._loop is not None:
            self._timer = self._loop.call_later(COALESCE_S, self._announce)

    def _announce(self) -> None:
        self._timer = None
        changes, self._changes = self._changes, set()
        if self._enforcer is not None:
            self._enforcer.warn_unmatched(self.engine.dispatcher.published())
        for kind in sorted(changes):
            self.engine.announce_change(kind)

    # --- transports ---

    async def serve_stdio(self) -> None:
        from toolcrib.transports.stdio import serve_stdio

        await serve_stdio(self.engine)

    def connect(self, receive: Callable[[bytes], None], principal: Principal = LOCAL) -> Pipe:
        """Connect a client in this process. It receives messages at the next turn of the loop."""
        from toolcrib.transports.pipe import Pipe

        loop = asyncio.get_running_loop()

        def send(message: bytes) -> None:
            loop.call_soon(receive, message)

        return Pipe(self.engine, send, principal)

    def endpoint(self, options: HTTPOptions, *, bound: str | None, local_only: bool = False) -> Endpoint:
        from toolcrib.transports.http.endpoint import Endpoint
        from toolcrib.transports.http.hosts import HostCheck

        hosts = HostCheck(bound, options.allowed_hosts, options.allowed_origins, local_only=local_only)
        enforcer = self._enforcer
        return Endpoint(
            self.engine,
            hosts,
            path=options.path,
            auth=self._auth(options),
            mounts=self._mounts(),
            is_healthy=lambda: enforcer is None or enforcer.is_healthy(),
        )

    def _auth(self, options: HTTPOptions) -> AuthMiddleware | None:
        """Return the authentication of the policy, or None if it has neither that nor metrics."""
        enforcer = self._enforcer
        policy = None if enforcer is None else enforcer.policy
        if enforcer is None or policy is None or (policy.auth is None and enforcer.telemetry is None):
            return None
        from toolcrib.transports.http.auth import AuthMiddleware

        name = self.engine.settings.name
        return AuthMiddleware(enforcer, name, host=options.host, path=options.path, workers=options.workers)

    def _is_unprotected(self, options: HTTPOptions) -> bool:
        """Return whether callers are not authenticated, and the options do not say that this is intended."""
        policy = None if self._enforcer is None else self._enforcer.policy
        return not options.insecure and (policy is None or policy.auth is None)

    def _check_host(self, host: str, options: HTTPOptions) -> None:
        """Raise ConfigurationError if other machines could call without authentication."""
        if is_loopback(host) or not self._is_unprotected(options):
            return
        hint = (
            "configure keys or an authorization server under [auth], or allow everybody to call: --insecure "
            "(insecure=True in code)"
        )
        message = f"other machines can reach {host}, and callers are not authenticated"
        raise ConfigurationError(message, key="host", hint=hint)

    def check_middleware(self, tools: Iterable[Component]) -> None:
        """Raise ConfigurationError for a tool whose server has middleware that needs HTTP headers."""
        for tool in tools:
            if tool.adoption is not None and tool.adoption.refuses_http:
                reason = f"{tool.adoption.reason}, which would get no headers"
                text = f"{tool.label} is not served over HTTP: {reason}"
                hint = f"serve it over stdio, or run its server with {tool.adoption.library}"
                raise ConfigurationError(text, hint=hint)

    def _open_http(self) -> None:
        for registry in self.engine.dispatcher.registries.values():
            self.check_middleware(entry.tool for entry in registry.entries())  # what is disabled, too
        self.is_on_http = True

    def asgi(
        self, options: HTTPOptions, start: Callable[[], Awaitable[None]], stop: Callable[[], Awaitable[None]]
    ) -> Any:
        from toolcrib.transports.http.asgi import ASGIApp

        self._check_host(options.host, options)
        # The ASGI server chooses the address: whether it is a local one is seen when requests come.
        endpoint = self.endpoint(options, bound=options.host, local_only=self._is_unprotected(options))

        async def open_() -> None:
            self._open_http()
            endpoint.is_draining = False
            await start()
            if endpoint.auth is not None:
                await endpoint.auth.open(options.port)

        async def close() -> None:
            endpoint.is_draining = True
            await stop()
            if endpoint.auth is not None:
                await endpoint.auth.close()

        return ASGIApp(endpoint, open_, close)

    async def serve_http(self, options: HTTPOptions) -> None:
        """Serve until cancelled or ended by a signal; then let running calls end."""
        from toolcrib.transports.http.server import HTTPServer, bind, describe_bind_error, url_of

        self._open_http()
        endpoint = self.endpoint(options, bound=options.host)
        server = HTTPServer(endpoint, timeouts=options.times, max_connections=options.max_connections)
        for each in options.sockets:
            self._check_host(each.getsockname()[0], options)
        if not options.sockets:
            self._check_host(options.host, options)
        sockets, wait_for_turn = list(options.sockets), options.wait_for_turn
        try:
            if not sockets and wait_for_turn is None:
                sockets = bind(options.host, options.port)
        except OSError as error:
            message, hint = describe_bind_error(error, options.host, options.port, "{}={}")
            raise BindError(message, hint=hint) from None
        try:
            if endpoint.auth is not None:
                await endpoint.auth.open(sockets[0].getsockname()[1] if sockets else options.port)
            if wait_for_turn is not None:
                sockets = await wait_for_turn()
            await server.listen(sockets)
        except BaseException:
            for each in sockets:
                each.close()
            raise
        if options.ready is not None:
            options.ready([url_of(each, options.host, options.path) for each in sockets])
        self._http, self._ended = server, asyncio.Event()
        ended = self._ended
        try:
            with _set_by_signals(ended) if options.catches_signals else nullcontext():
                await ended.wait()
        finally:
            if self._retired_s is None:
                await server.stop(options.drain_s)
            else:
                await server.stop(self._retired_s, serves_rest=True)
            if endpoint.auth is not None:
                await endpoint.auth.close()


@contextmanager
def _set_by_signals(ended: asyncio.Event) -> Iterator[None]:
    """Have the first SIGTERM or SIGINT set an event; the next one has its usual effect."""
    loop = asyncio.get_running_loop()

    def end(number: signal.Signals) -> None:
        ended.set()
        loop.remove_signal_handler(number)

    caught = []
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, end, number)
            caught.append(number)
        except (NotImplementedError, RuntimeError, ValueError):
            pass  # not the main thread, or not supported by the system
    try:
        yield
    finally:
        for number in caught:
            loop.remove_signal_handler(number)
