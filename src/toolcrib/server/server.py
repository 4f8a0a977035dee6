"""MCPServer: calls, life cycle, and serving over transports."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from toolcrib import __version__, logs
from toolcrib.component import Component
from toolcrib.content import Result, text_block
from toolcrib.context import LOCAL, NO_CHANNEL, Channel, Principal
from toolcrib.definition import ToolDefinition
from toolcrib.dispatch.dispatcher import Dispatcher
from toolcrib.dispatch.event_loop import is_in_loop, run_loop
from toolcrib.dispatch.lifespan import CallerStates, Lifespan
from toolcrib.dispatch.middleware import Middleware, Pipeline, check_middleware
from toolcrib.dispatch.runners import Runner
from toolcrib.dispatch.tool_search import DEFAULT_BUDGET_TOKENS, SearchMode, ToolSearch
from toolcrib.errors import (
    BindError,
    CallError,
    ConfigurationError,
    ToolBusyError,
    check_keywords,
    missing_attribute,
)
from toolcrib.options import merge_arguments
from toolcrib.registry.registry import ToolRegistry
from toolcrib.registry.selection import count_kinds, label_of
from toolcrib.server.registration import STARTED, STOPPING, Registration
from toolcrib.server.settings import (
    ARGUMENT_NAMES,
    OTHER_ATTRIBUTES,
    OTHER_SETTINGS,
    ServerSettings,
    SettingFields,
)
from toolcrib.sources.base import report_unused_switch
from toolcrib.sources.loading import currently_loading
from toolcrib.state import StateHandle

if TYPE_CHECKING:
    from toolcrib.client import Client
    from toolcrib.config.settings import Policy
    from toolcrib.policy.enforcer import PolicyEnforcer
    from toolcrib.protocol.methods import Method
    from toolcrib.transports.http.mounts import Application, Mount
    from toolcrib.transports.serving import Transports

logger = logging.getLogger("toolcrib")

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound=Middleware)
Transport = Callable[["MCPServer"], Awaitable[None]]


_PROTOCOL_SETTINGS = (
    *("title", "instructions", "description", "website_url", "icons", "page_size", "unknown_tool_code"),
    *("log_arguments", "key", "keeps_sessions", "tasks"),
)


class _ClassMethod:
    """A class method of FastMCP. It is answered on the class too, where `__getattr__` is not asked."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, obj: object, owner: type) -> Any:
        raise missing_attribute("MCPServer", self.name, OTHER_ATTRIBUTES[self.name], owner)


class MCPServer(Registration):
    """A server with its tools.

    `core_engine` is any object that your tools work on; toolcrib only keeps it. A `policy` says who may call
    what, how often, and what is recorded: a `Policy`, or the path of a `toolcrib.toml`. `middleware` runs
    around every call: see `toolcrib.dispatch.middleware`. `lifespan` takes the server and returns an async
    context manager, entered when the server starts and left when it stops; what it yields is `ctx.state`. All
    other arguments are described in `ServerSettings`.
    """

    def __init__(
        self,
        name: str = "toolcrib",
        *,
        core_engine: Any = None,
        policy: Policy | str | Path | None = None,
        middleware: Iterable[Middleware] = (),
        lifespan: Callable[[Any], Any] | None = None,
        **settings: Unpack[SettingFields],
    ) -> None:
        if not name or type(name) is not str:
            raise ConfigurationError(f"must be a non-empty string, got {name!r}", key="name")
        self.name = name
        self.core_engine = core_engine
        check_keywords("MCPServer", settings, ARGUMENT_NAMES, OTHER_SETTINGS)
        self.settings = given = ServerSettings(**settings)
        self.dynamic = given.dynamic
        self.registry = ToolRegistry(
            name_rule=given.name_rule,
            on_duplicate=given.on_duplicate,
            separator=given.separator,
        )
        self.dispatcher = Dispatcher(self.registry, server=self, timeout_s=given.timeout_s)
        self.dispatcher.max_result_tokens = given.max_result_tokens
        self.dispatcher.large_results = given.large_results
        self.dispatcher.keeps_results = given.keeps_sessions
        self.dispatcher.crashes.shows_values = given.log_arguments
        self.dispatcher.crashes.hides_adopted = given.errors == "hide"
        self.publish_search(given.search, given.search_budget_tokens)
        self.switches = dict(given.switches or {})
        self._unused_switches = set(self.switches)
        self.lifespan = None if lifespan is None else Lifespan(lifespan)
        self.dependency_overrides: dict[Callable[..., Any], Callable[..., Any]] = {}
        """What calls use instead of a function in `Depends`, by that function. See `override`."""
        self._started = time.monotonic()
        self._running = False
        self._shutting_down = False
        self._ended: Future[None] = Future()
        self._methods: list[Method] = []
        self._mounts: list[Mount] = []
        self._routes: list[Any] = []  # of Starlette
        self._transports: Transports | None = None
        self._mounted: Any = None  # the ASGI application of `__call__`
        self.enforcer: PolicyEnforcer | None = None
        parts: Any = middleware
        if isinstance(parts, str) or not isinstance(parts, Iterable):
            problem = f"must be a list of middleware, got {middleware!r:.80}"
            raise ConfigurationError(problem, key="middleware", hint="write middleware=[...]")
        self._middleware = [check_middleware(part) for part in parts]
        if policy is not None:
            self.enforce(policy)
        elif self._middleware:
            self._compose()

    if not TYPE_CHECKING:  # a type checker would take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            raise missing_attribute("MCPServer", name, OTHER_ATTRIBUTES.get(name), self)

        from_openapi, from_fastapi, as_proxy = _ClassMethod(), _ClassMethod(), _ClassMethod()

    # --- calls ---

    def list_tools(self, principal: Principal = LOCAL) -> list[ToolDefinition]:
        """Return every tool that the principal may call, in order of registration. tools/list shows the same,
        unless the list is too long: see `list_shown`."""
        return [tool.definition for tool in self.dispatcher.view(principal)]

    def list_shown(self, principal: Principal = LOCAL) -> list[ToolDefinition]:
        """Return the definitions in tools/list: every tool, or the two that search and call the others."""
        return [tool.definition for tool in self.dispatcher.shown(principal)]

    @property
    def version(self) -> str:
        """The version that clients see: the one of the settings, or else toolcrib's."""
        return self.settings.version or __version__

    async def call(
        self,
        name: str,
        /,
        arguments: Mapping[str, Any] | None = None,
        *,
        principal: Principal = LOCAL,
        channel: Channel = NO_CHANNEL,
        timeout_s: float | None = None,
        **keywords: Any,
    ) -> Result:
        """Call a tool with arguments as a dict or as keywords, which are checked. An argument with the name
        of an option here needs the dict. Raises ToolNotFoundError; other failures are in the Result."""
        if keywords:
            arguments = merge_arguments(arguments, keywords, ("principal", "channel", "timeout_s"))
        if self._shutting_down:
            error = ToolBusyError(f"Tool '{name}' cannot run: the server has stopped.")
            return Result([text_block(str(error))], is_error=True, error=error)
        return await self.dispatcher.call(
            name, arguments, principal=principal, channel=channel, timeout_s=timeout_s
        )

    async def read(self, uri: str, *, principal: Principal = LOCAL) -> list[dict[str, Any]]:
        """Return the contents of a resource. Raises ToolNotFoundError, and CallError where reading fails."""
        resource, values = self.dispatcher.find_resource(uri)
        result = await self.dispatcher.run(resource, uri, values, kind="resource", principal=principal)
        return [{"uri": uri, **item} for item in raise_failure(result).content]

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, principal: Principal = LOCAL
    ) -> list[dict[str, Any]]:
        """Return the messages of a prompt. Raises ToolNotFoundError, or CallError if that fails."""
        prompt = self.prompts.try_get(name)
        result = await self.dispatcher.run(prompt, name, arguments, kind="prompt", principal=principal)
        return raise_failure(result).content

    def forget(self, tool: Component | Callable[..., Any] | str | None = None) -> None:
        """Drop the kept results of a tool with `cache_s`: by its name, or the function. None: of all tools.

        Raises ToolNotFoundError. A call that runs already keeps nothing.
        """
        self.dispatcher.forget(tool)

    @contextmanager
    def override(self, function: Callable[..., Any], other: Callable[..., Any]) -> Iterator[None]:
        """Use another function wherever tools of this server depend on `function`: for tests.

        `with server.override(get_db, lambda: fake_db): ...`
        """
        before = dict(self.dependency_overrides)
        self.dependency_overrides[function] = other
        try:
            yield
        finally:
            self.dependency_overrides = before

    def describe(self) -> dict[str, Any]:
        """Return statistics: name, uptime, requests, tools, and calls by tool."""
        stats = self.dispatcher.stats
        return {
            "name": self.name,
            "uptime_s": round(time.monotonic() - self._started, 3),
            "requests": sum(item.calls for item in stats.values()),
            "tools": [tool.name for tool in self.registry],
            "statistics": {name: item.to_json() for name, item in stats.items()},
            "abandoned_calls": self.dispatcher.runner.abandoned,
        }

    def publish_search(self, publish: SearchMode, budget_tokens: int | None = None) -> None:
        """Set when tool search replaces the list of tools: "auto", "always" or "never"."""
        dispatcher = self.dispatcher
        if budget_tokens is None:
            current = dispatcher.tool_search
            budget_tokens = DEFAULT_BUDGET_TOKENS if current is None else current.budget_tokens
        search = ToolSearch(dispatcher, publish, budget_tokens)
        dispatcher.tool_search = None if publish == "never" else search

    def enforce(self, policy: Policy | str | Path) -> None:
        """Apply a policy, or the policy of a file, to every call from now on. Raises ConfigurationError."""
        if self._running:
            raise ConfigurationError("a policy must be set before the server starts", key="policy")
        from toolcrib.config.settings import Policy  # start-up time: most servers have none
        from toolcrib.policy.enforcer import PolicyEnforcer

        if isinstance(policy, str | Path):
            policy = Policy.load(policy)
        if not isinstance(policy, Policy):
            text = f"must be a Policy of toolcrib.policy, got {type(policy).__name__}"
            raise ConfigurationError(text, key="policy", hint='or name a file: policy="toolcrib.toml"')
        self.enforcer = PolicyEnforcer(policy, server=self.name, version=self.version, storage=self.storage)
        self._compose()

    def middleware(self, part: M) -> M:
        """Add middleware inside of that added before: as a decorator, or called with an object."""
        if self._running:
            raise ConfigurationError("middleware must be added before the server starts", key="middleware")
        self._middleware.append(check_middleware(part))
        self._compose()
        return part

    def _compose(self) -> None:
        added = self._middleware
        self.dispatcher.use(Pipeline(added=added) if self.enforcer is None else self.enforcer.pipeline(added))

    # --- life cycle ---

    @cached_property
    def storage(self) -> StateHandle:
        """The state of this server: tasks, kept results, what tools keep for their callers."""
        if self.settings.fleet is None:
            return StateHandle(self.settings.state)
        from toolcrib.fleet.state import FleetHandle  # delayed: most servers are one process

        return FleetHandle(self.settings.fleet)

    @cached_property
    def caller_states(self) -> CallerStates:
        """What tools keep for their callers."""
        return CallerStates(self.storage)

    def use_settings(self, settings: ServerSettings) -> None:
        """Replace the settings, before the server starts."""
        self.settings = settings
        self.__dict__.pop("storage", None)  # it may be elsewhere now
        if self.enforcer is not None:
            self.enforce(self.enforcer.policy)

    async def start(self) -> None:
        """Seal the registry (unless dynamic), build all tools, enter the lifespan, and open the applications.

        A tool that cannot be built is not published, and an application that cannot be opened tries again
        when one of its tools is called; both are logged.
        """
        if self._running:
            return
        if self._shutting_down:  # it was started and stopped before
            self._forget_stop()
        self._running = True
        self._ended = Future()
        logs.package_filter.refresh()
        for name in sorted(self._unused_switches):
            logger.warning("%s", report_unused_switch(name))
        try:
            for registry in self._registries:
                if self.dynamic:
                    registry.reopen()
                    registry.eager = True  # problems must be found before clients see a tool
                    registry.check()
                else:
                    registry.seal(STARTED)
            for finding in self.dispatcher.find_problems():
                logger.warning("%s", finding)
            if self.enforcer is not None and self.dynamic:  # the tools that are meant may be added later
                self.enforcer.warn_unmatched(self.dispatcher.published())
            elif self.enforcer is not None and (wrong := self.enforcer.check(self.dispatcher.published())):
                raise wrong[0]
            await self.storage.open()
            if self.dispatcher.pipeline is not None:
                await self.dispatcher.pipeline.open()
            if self.dispatcher.tool_search is not None:
                self.dispatcher.tool_search.open()
            if self.lifespan is not None:
                await self.lifespan.open(self)
            await self.dispatcher.applications.open_all()
            if self._transports is not None:
                self._transports.open()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Close applications, end running calls, leave the lifespan and refuse further registration, so that
        `run` returns.

        May be called from any thread and more than once.
        """
        self._shutting_down = self.dispatcher.is_stopped = True
        for registry in self._registries:
            registry.close(STOPPING)
        if self._transports is not None:
            self._transports.close()
        try:
            if self._transports is not None:
                await self._transports.engine.tasks.close()
            await self.dispatcher.applications.close_all()
        finally:
            self.dispatcher.close()
            if self.lifespan is not None:
                await self.lifespan.close()
            if self.dispatcher.pipeline is not None:
                await self.dispatcher.pipeline.close()
            await self.storage.close()
            self._running = False
            try:
                self._ended.set_result(None)
            except InvalidStateError:
                pass  # it was stopped before

    def _forget_stop(self) -> None:
        """Accept calls again after `stop`."""
        self.dispatcher.runner = Runner()
        self._shutting_down = self.dispatcher.is_stopped = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # --- serving ---

    @property
    def transports(self) -> Transports:
        """The protocol engine and its transports, created when first used."""
        if self._transports is None:
            # Delayed: a server that only calls its tools needs no transport.
            from toolcrib.protocol import EngineSettings
            from toolcrib.transports.serving import Transports

            own: dict[str, Any] = {name: getattr(self.settings, name) for name in _PROTOCOL_SETTINGS}
            own |= {"version": self.version, "methods": tuple(self._methods), "state": self.storage}
            settings = EngineSettings(name=self.name, dynamic=self.dynamic, **own)
            self._transports = Transports(self.dispatcher, settings, self.enforcer, self._collect_mounts)
            if self._running:
                self._transports.open()
        return self._transports

    def add_method(
        self,
        name: str,
        handler: Callable[..., Any],
        *,
        revisions: Iterable[str] | None = None,
        capability: Mapping[str, Any] | None = None,
    ) -> None:
        """Serve another MCP method: `handler(params, request)` returns its result, or awaits it.

        `capability` is announced to clients, such as `{"experimental": {"example": {}}}`. `revisions`
        are the protocol revisions that have the method, by default all.
        """
        from toolcrib.protocol.methods import simple_method  # few servers add methods

        method = simple_method(name, handler, revisions=revisions, capability=capability)
        self._methods.append(method)
        if self._transports is not None:
            self._transports.engine.add_methods((method,))

    def route(self, path: str, *, methods: Iterable[str] = ("GET",)) -> Callable[[F], F]:
        """Serve an HTTP path of your own beside MCP: `@server.route("/orders/{id}", methods=["POST"])`.

        The function, async or not, gets a request of Starlette and returns a response of Starlette, which the
        extra `routes` installs. The route is behind the same authentication as MCP.
        """
        from toolcrib.transports.http.mounts import make_route  # few servers have routes

        def decorate(function: F) -> F:
            self._routes.append(make_route(path, function, methods))
            return function

        return decorate

    def mount(self, path: str, app: Application | None = None) -> None:
        """Serve an ASGI application below a path, beside MCP and behind the same authentication.

        Its lifespan is not run, and WebSockets are not supported. `request.state.principal` is the caller.
        """
        from toolcrib.transports.http.mounts import Mount  # few servers have mounts

        if isinstance(path, MCPServer) or isinstance(app, MCPServer):
            hint = "use server.add(other, namespace=...) for its tools"
            raise ConfigurationError("a server is not mounted in another", key="mount", hint=hint)
        self._mounts.append(Mount.at(path, app))

    def _collect_mounts(self) -> Sequence[Mount]:
        from toolcrib.transports.http.mounts import collect_mounts

        return collect_mounts(self._mounts, self._routes)

    @property
    def has_guards(self) -> bool:
        """Whether a policy or middleware of its own stands before its tools."""
        return self.enforcer is not None or bool(self._middleware)

    def asgi(self, **options: Any) -> Any:
        """Return an ASGI application with this server at `path` ("/mcp"), for uvicorn or to be mounted.

        The server starts and stops with the lifespan of the application. Where it is mounted, give its
        `lifespan` to the host: `FastAPI(lifespan=app.lifespan)`. Else it starts with the first request and
        stops with the event loop.
        Options: `path`, `host` (the address it is bound to), `allowed_hosts`, `allowed_origins`.
        """
        from toolcrib.transports.serving import HTTPOptions  # start-up time

        return self.transports.asgi(HTTPOptions.of(options), self.start, self.stop)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve as an ASGI application, as `asgi()` does: `app.mount("/tools", server)`."""
        if self._mounted is None:
            self._mounted = self.asgi()
        await self._mounted(scope, receive, send)

    @asynccontextmanager
    async def connect(self, *, principal: Principal = LOCAL, **options: Any) -> AsyncIterator[Client]:
        """Yield a client of this server in this process: `async with server.connect() as client`.

        Starts the server if it is not running, and stops it again; it can then be called and changed as
        before. `principal` is the caller. Takes the options of `Client`.
        """
        from toolcrib.client import Client, MemoryTransport  # start-up time

        is_own, was_stopped, was_sealed = not self._running, self._shutting_down, self.registry.sealed
        if is_own:
            await self.start()
        try:
            transport = MemoryTransport(partial(self.transports.connect, principal=principal))
            async with Client(transport, **options) as client:
                yield client
        finally:
            if is_own:
                was_stopped = was_stopped or self._shutting_down
                await self.stop()
                if not was_stopped:
                    self._forget_stop()
                if not (was_stopped or was_sealed):
                    for registry in self._registries:
                        registry.reopen()

    def run(self, transport: str | Transport = "stdio", **options: Any) -> Any:
        """Run until stopped: blocks, or returns an awaitable inside an event loop.

        `transport` is "stdio", "http" (options: `host`, `port`, `path`, `allowed_hosts`, ...), "memory"
        (calls in this process only), or an async callable that gets the running server.
        """
        loading = currently_loading()
        if loading is not None:
            hint = 'put it below `if __name__ == "__main__":`'
            raise ConfigurationError(f"server.run() is called while {loading} is imported", hint=hint)
        serve = transport if callable(transport) else self._find_transport(transport, options)
        work = self._run(serve)
        if is_in_loop():
            work.__qualname__ = "MCPServer.run"  # type: ignore[attr-defined]  # named where it is not awaited
            return work
        try:
            return run_loop(work)
        except BindError as error:
            sys.stderr.write(f"error: {error}\nhint: {error.hint}\n")
            raise SystemExit(1) from None

    def _find_transport(self, name: str, options: dict[str, Any]) -> Transport | None:
        if name == "streamable-http":  # as mcp and fastmcp call it
            name = "http"
        if name not in ("stdio", "http", "memory"):
            hint = "use 'stdio', 'http' or 'memory'"
            raise ConfigurationError(f"unknown transport {name!r}", key="transport", hint=hint)
        if name == "http":
            from toolcrib.transports.serving import HTTPOptions  # start-up time

            chosen = HTTPOptions.of({"ready": self._print_start, **options})
            return lambda server: server.transports.serve_http(chosen)
        if options:
            raise ConfigurationError(f"{name} takes no options", key=min(options))
        return None if name == "memory" else lambda server: server.transports.serve_stdio()

    def _print_start(self, urls: Sequence[str]) -> None:
        """Print the addresses of the server. On stderr: stdout belongs to the program."""
        served = count_kinds(map(label_of, self.dispatcher.published()))
        lines = [f"{self.name}: serving {served} at", *(f"  {url}" for url in dict.fromkeys(urls))]
        sys.stderr.write("\n".join([*lines, "Press Ctrl-C to stop the server.", ""]))

    async def _run(self, transport: Transport | None) -> None:
        """Serve until the transport ends or `stop` is called; either ends the other."""
        async with self:
            ended = asyncio.wrap_future(self._ended)
            serving = ended if transport is None else asyncio.ensure_future(transport(self))
            try:
                await asyncio.wait({serving, ended}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                serving.cancel()
                ended.cancel()
                await asyncio.gather(serving, ended, return_exceptions=True)
            if not serving.cancelled():
                serving.result()  # raises the exception of the transport


def raise_failure(result: Result) -> Result:
    """Return a result, or raise the error that it reports."""
    if result.is_error:
        raise result.error or CallError(result.text)
    return result
