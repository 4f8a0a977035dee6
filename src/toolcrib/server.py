"""MCPServer: a registry, a dispatcher and a life between start and stop.

Knows how the parts fit together and nothing that one of them knows better.

How tools get into a server: `@server.tool`, `server.add`, and the strict door for tool objects.

Knows sources, the registry and when it is closed; refuses to know calls and wires.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Unpack, overload

from toolcrib import logs
from toolcrib.content import Result, text_block
from toolcrib.context import LOCAL, NO_CHANNEL, Channel, Principal
from toolcrib.definition import STRICT, NameRule, OptionFields, ToolDefinition
from toolcrib.dispatch.dispatcher import DEFAULT_TIMEOUT_S, Dispatcher
from toolcrib.dispatch.event_loop import is_in_loop, run_loop
from toolcrib.dispatch.middleware import Middleware, Pipeline, check_middleware
from toolcrib.dispatch.runners import Runner
from toolcrib.dispatch.tool_search import DEFAULT_BUDGET_TOKENS, SearchMode, ToolSearch
from toolcrib.errors import (
    BatchError,
    CallError,
    ConfigurationError,
    Finding,
    InvalidToolError,
    RegistrationClosedError,
    ToolBusyError,
)
from toolcrib.registry.registry import OnDuplicate, Report, ToolRegistry
from toolcrib.registry.selection import select
from toolcrib.sources import Batch, Source, collect, objects
from toolcrib.sources.loading import currently_loading
from toolcrib.tool import MCPTool, Tool, merge_options

if TYPE_CHECKING:
    from toolcrib.client import Client
    from toolcrib.config.settings import Policy
    from toolcrib.policy.enforcer import PolicyEnforcer
    from toolcrib.protocol.methods import Method
    from toolcrib.transports.serving import Transports

logger = logging.getLogger("toolcrib")

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound=Middleware)
STARTED = "Cannot register tools after server has started"
STOPPING = "Server is shutting down, registration not allowed"


class Registrar:
    """The registering side of a server."""

    registry: ToolRegistry
    switches: dict[str, bool]
    dynamic: bool
    _idle_switches: set[str]
    _running: bool
    _shutting_down: bool

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(
        self,
        name: str | None = None,
        description: str | None = None,
        schema: Mapping[str, Any] | None = None,
        /,
        **options: Unpack[OptionFields],
    ) -> Callable[[F], F]: ...
    def tool(
        self,
        first: Any = None,
        description: str | None = None,
        schema: Mapping[str, Any] | None = None,
        /,
        **options: Unpack[OptionFields],
    ) -> Any:
        """Register a function where it is written; it stays what it is. Forms as those of `toolcrib.tool`."""
        if callable(first):
            self.add(first)
            return first
        if first is not None and not isinstance(first, str):
            raise InvalidToolError(f"@server.tool takes a name first, got {type(first).__name__}")
        given = merge_options(first, description, schema, options)

        def register(function: F) -> F:
            self.add(function, **given)
            return function

        return register

    def add(
        self,
        *things: Any,
        namespace: str | bool | None = None,
        handlers: Mapping[str, Any] | None = None,
        switches: Mapping[str, bool] | None = None,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        on_duplicate: OnDuplicate | None = None,
        strict: bool = False,
        sources: Sequence[Source] = (),
        **options: Unpack[OptionFields],
    ) -> Report:
        """Register tools from anywhere: see `toolcrib.collect` for what a thing may be.

        A problem with one thing that is one tool raises. Of several things, or a source of many, the good
        are registered, the bad are warned of and reported; `strict` raises instead and registers none.
        `include` and `exclude` choose among what is found, by the names it has there.
        """
        self._check_open()
        batch = collect(*things, namespace=namespace, handlers=handlers, sources=sources, **options)
        if switches or self.switches:
            self._switch(batch, switches or {})
        if include or exclude:
            batch.tools = select(batch.tools, include, exclude)
        register = self._register_one if batch.single and batch.tools else self._register_many
        report = register(batch, on_duplicate, strict)
        for finding in batch.findings:
            if finding.level == "warning":
                logger.warning("%s", finding)
        return report

    def _register_one(self, batch: Batch, on_duplicate: OnDuplicate | None, strict: bool) -> Report:
        tool = batch.tools[0]
        if strict:
            tool.check()
        stored = self.registry.add(tool, on_duplicate=on_duplicate)
        if stored.origin is not tool.origin:  # the first one was kept
            return Report([], batch.findings)
        self._log(stored, logging.DEBUG)
        return Report([stored], batch.findings)

    def _register_many(self, batch: Batch, on_duplicate: OnDuplicate | None, strict: bool) -> Report:
        errors = [finding for finding in batch.findings if finding.level == "error"]
        if strict and errors:
            words = f"Nothing registered, {len(errors)} refused: {errors[0]}"
            raise BatchError(words, batch.findings)
        report = self.registry.add_all(batch.tools, on_duplicate=on_duplicate, strict=strict)
        report.findings[:0] = batch.findings
        for finding in report.errors:
            logger.warning("Error during tool registration: %s", finding)
        for tool in report.registered:
            self._log(tool, logging.DEBUG)
        logger.info("Successfully registered %d tools", len(report.registered))
        return report

    def _log(self, tool: Tool, level: int) -> None:
        if logger.isEnabledFor(level):
            extra = {"tool_name": tool.name, "total_tools": len(self.registry)}
            logger.log(level, "tool_registered", extra=extra)

    def _switch(self, batch: Batch, given: Mapping[str, bool]) -> None:
        """Turn groups on and off. What is given here must fit something here; the server's own, somewhere."""
        fitting = batch.switch({**self.switches, **given})
        self._idle_switches -= fitting
        batch.findings += [idle_switch(name) for name in given if name not in fitting]

    def register_tool(self, tool: MCPTool) -> None:
        """The strict door: one tool object, every rule enforced, nothing stored unless all hold."""
        self._check_open()
        objects.check_object(tool, self.registry.check_free)
        checked = Tool.from_object(tool)
        checked.check()
        self._log(self.registry.add(checked, on_duplicate="error", rule=STRICT), logging.INFO)

    def register_all_tools(self, tools: Iterable[MCPTool]) -> None:
        """`register_tool` for each, in order; the first that is refused ends it."""
        for tool in tools:
            self.register_tool(tool)

    @property
    def _tools(self) -> dict[str, Any]:
        """Name to the registered object itself."""
        return {tool.name: tool.origin for tool in self.registry}

    def _check_open(self) -> None:
        if self._shutting_down:
            raise RegistrationClosedError(STOPPING)
        if self._running and not self.dynamic:
            raise RegistrationClosedError(STARTED)


def idle_switch(name: str) -> Finding:
    hint = "give tools a group: @tool(group=...), TOOL_GROUP"
    return Finding("idle-switch", "warning", f"Switch '{name}' fits no group of tools", hint=hint)


Transport = Callable[["MCPServer"], Awaitable[None]]


class MCPServer(Registrar):
    """Tools in, calls out.

    `core_engine` is whatever your tools work on; toolcrib only keeps it. A server is sealed once it runs,
    unless it is `dynamic`. `switches` turn groups of tools on and off. Clients are told `version`, `title`
    and `instructions`; `page_size` cuts long lists; `unknown_tool_code` is for clients that want -32601;
    `log_arguments` writes the values of arguments to the log, not only their names. Where several processes
    serve as one, they share a `key` to seal what waits for answers, and set `keeps_sessions=False`. A list of
    more than `search_budget_tokens` gives way to two tools that find and call the others, unless `search` is
    "never"; with "always", any list. A `policy` says who may call what, how much, and what is recorded.
    `middleware` runs around every call: see `toolcrib.dispatch.middleware`.
    """

    def __init__(
        self,
        name: str = "toolcrib",
        *,
        core_engine: Any = None,
        dynamic: bool = False,
        name_rule: str | NameRule = "portable",
        on_duplicate: OnDuplicate = "error",
        separator: str = "_",
        confusable: Literal["error", "allow"] = "error",
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        switches: Mapping[str, bool] | None = None,
        version: str | None = None,
        title: str | None = None,
        instructions: str | None = None,
        page_size: int | None = None,
        unknown_tool_code: int = -32602,
        log_arguments: bool = False,
        key: bytes | None = None,
        keeps_sessions: bool = True,
        search: SearchMode = "auto",
        search_budget_tokens: int = DEFAULT_BUDGET_TOKENS,
        policy: Policy | None = None,
        middleware: Iterable[Middleware] = (),
    ) -> None:
        self.name = _check_name(name)
        self.core_engine = core_engine
        self.dynamic = dynamic
        self.registry = ToolRegistry(
            name_rule=name_rule, on_duplicate=on_duplicate, separator=separator, confusable=confusable
        )
        self.dispatcher = Dispatcher(self.registry, server=self, timeout_s=timeout_s)
        self.dispatcher.crashes.shows_values = log_arguments
        self.publish_search(search, search_budget_tokens)
        self.switches = dict(switches or {})
        self._idle_switches = set(self.switches)
        self._started = time.monotonic()
        self._running = False
        self._shutting_down = False
        self._ended: Future[None] = Future()
        self.identity: dict[str, Any] = {
            "version": version or "0",
            "title": title,
            "instructions": instructions,
            "page_size": page_size,
            "unknown_tool_code": unknown_tool_code,
            "log_arguments": log_arguments,
            "key": key,
            "keeps_sessions": keeps_sessions,
        }
        self._methods: list[Method] = []
        self._transports: Transports | None = None
        self.enforcer: PolicyEnforcer | None = None
        self._middleware = [check_middleware(part) for part in middleware]
        if policy is not None:
            self.enforce(policy)
        elif self._middleware:
            self._compose()

    # --- using ---

    def list_tools(self, principal: Principal = LOCAL) -> list[ToolDefinition]:
        """Every tool that clients may call, in order of registration. What tools/list shows them is the same
        unless it is too long: see `list_shown`."""
        return [tool.definition for tool in self.dispatcher.view(principal)]

    def list_shown(self, principal: Principal = LOCAL) -> list[ToolDefinition]:
        """What tools/list shows: every tool, or the two that find and call the others (`search`)."""
        return [tool.definition for tool in self.dispatcher.shown(principal)]

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        principal: Principal = LOCAL,
        channel: Channel = NO_CHANNEL,
        timeout_s: float | None = None,
    ) -> Result:
        """Call a tool with checked arguments. Raises ToolNotFoundError; other failures are in the Result."""
        if self._shutting_down:
            return _failed(ToolBusyError(f"Tool '{name}' cannot run: the server has stopped."))
        return await self.dispatcher.call(
            name, arguments, principal=principal, channel=channel, timeout_s=timeout_s
        )

    def describe(self) -> dict[str, Any]:
        """The server in figures: name, uptime, requests, tools, what became of the calls."""
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
        """When two tools that find and call the others stand in for the list: "auto", "always", "never"."""
        dispatcher = self.dispatcher
        if budget_tokens is None:
            current = dispatcher.tool_search
            budget_tokens = DEFAULT_BUDGET_TOKENS if current is None else current.budget_tokens
        search = ToolSearch(
            self.registry,
            dispatcher.view,
            publish,
            budget_tokens,
            dispatcher.is_visible,
            lambda: dispatcher.depends_on_principal,
        )
        dispatcher.tool_search = None if publish == "never" else search

    def enforce(self, policy: Policy) -> None:
        """Put a policy around every call from now on. Raises ConfigurationError where it makes no sense."""
        if self._running:
            raise ConfigurationError("a policy has to be there before the server runs", key="policy")
        from toolcrib.policy.enforcer import PolicyEnforcer  # most servers have none

        self.enforcer = PolicyEnforcer(policy, server=self.name, version=self.identity["version"])
        self._compose()

    def middleware(self, part: M) -> M:
        """Add middleware, innermost so far: a decorator for async functions, or called with an object."""
        if self._running:
            raise ConfigurationError("middleware has to be added before the server runs", key="middleware")
        self._middleware.append(check_middleware(part))
        self._compose()
        return part

    def _compose(self) -> None:
        added = self._middleware
        self.dispatcher.use(Pipeline(added=added) if self.enforcer is None else self.enforcer.pipeline(added))

    # --- living ---

    async def start(self) -> None:
        """Seal (unless dynamic), build everything, open the applications.

        A tool that cannot be built is not published, an application that cannot be opened tries again when
        one of its tools is called; both are in the log, and the rest serves.
        """
        if self._running:
            return
        if self._shutting_down:  # it ran before
            self.dispatcher.runner = Runner()
            self._shutting_down = self.dispatcher.is_stopped = False
        self._running = True
        self._ended = Future()
        logs.package_filter.refresh()
        for name in sorted(self._idle_switches):
            logger.warning("%s", idle_switch(name))
        try:
            if self.dynamic:
                self.registry.reopen()
                self.registry.eager = True  # nothing may be found wrong after clients were told of it
                self.registry.check()
            else:
                self.registry.seal(STARTED)
            if self.enforcer is not None:
                self._check_policy(self.enforcer)
            if self.dispatcher.pipeline is not None:
                await self.dispatcher.pipeline.open()
            if self.dispatcher.tool_search is not None:
                self.dispatcher.tool_search.open()
            await self.dispatcher.applications.open_all()
            if self._transports is not None:
                self._transports.open()
        except BaseException:
            await self.stop()
            raise

    def _check_policy(self, enforcer: PolicyEnforcer) -> None:
        tools = self.registry.published()
        if self.dynamic:
            enforcer.warn_unmatched(tools)  # the tools that are meant may be added later
        elif wrong := enforcer.check(tools):
            raise wrong[0]

    async def stop(self) -> None:
        """Close the applications and whatever still runs; nothing can be registered any more. May be called
        from any thread and more than once; `run` ends."""
        self._shutting_down = self.dispatcher.is_stopped = True
        self.registry.close(STOPPING)
        if self._transports is not None:
            self._transports.close()
        try:
            await self.dispatcher.applications.close_all()
        finally:
            self.dispatcher.close()
            if self.dispatcher.pipeline is not None:
                await self.dispatcher.pipeline.close()
            self._running = False
            try:
                self._ended.set_result(None)
            except InvalidStateError:
                pass  # it has ended before

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

            settings = EngineSettings(
                name=self.name, dynamic=self.dynamic, methods=tuple(self._methods), **self.identity
            )
            self._transports = Transports(self.dispatcher, settings, self.enforcer)
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

        `capability` is announced to clients, such as `{"experimental": {"example": {}}}`. By default the
        method is there in all `revisions` of the protocol.
        """
        from toolcrib.protocol.methods import simple_method  # few servers add methods

        method = simple_method(name, handler, revisions=revisions, capability=capability)
        self._methods.append(method)
        if self._transports is not None:
            self._transports.engine.add_methods((method,))

    def asgi(self, **options: Any) -> Any:
        """An ASGI application with this server at `path` ("/mcp"): for uvicorn, or to be mounted.

        It starts the server with its host, or with the first request where it is mounted. Options are those
        of HTTP: `path`, `host` (what it is bound to), `allowed_hosts`, `allowed_origins`.
        """
        from toolcrib.transports.serving import HTTPOptions  # only those who serve need it

        return self.transports.asgi(HTTPOptions.of(options), self.start, self.stop)

    @asynccontextmanager
    async def connect(self, **options: Any) -> AsyncIterator[Client]:
        """A client of this server in this process: `async with server.connect() as client`.

        Starts the server where it does not run, and stops it again. Options are those of `Client`.
        """
        from toolcrib.client import Client, MemoryTransport  # for tests mostly

        is_own = not self._running
        if is_own:
            await self.start()
        try:
            async with Client(MemoryTransport(self.transports.connect), **options) as client:
                yield client
        finally:
            if is_own:
                await self.stop()

    def run(self, transport: str | Transport = "stdio", **options: Any) -> Any:
        """Run until stopped: blocks, or returns an awaitable where an event loop runs already.

        `transport` is "stdio", "http" (options: `host`, `port`, `path`, `allowed_hosts`, ...), "memory"
        (calls made in this process), or an async callable that gets the running server.
        """
        place = currently_loading()
        if place is not None:
            hint = 'put it below `if __name__ == "__main__":`'
            raise ConfigurationError(f"server.run() is called while {place} is imported", hint=hint)
        serve = transport if callable(transport) else self._find_transport(transport, options)
        work = self._run(serve)
        return work if is_in_loop() else run_loop(work)

    def _find_transport(self, name: str, options: dict[str, Any]) -> Transport | None:
        if name not in ("stdio", "http", "memory"):
            hint = "there are 'stdio', 'http' and 'memory'"
            raise ConfigurationError(f"there is no transport {name!r}", key="transport", hint=hint)
        if name == "http":
            from toolcrib.transports.serving import HTTPOptions  # only those who serve need it

            chosen = HTTPOptions.of(options)
            return lambda server: server.transports.serve_http(chosen)
        if options:
            raise ConfigurationError(f"{name} takes no options", key=min(options))
        return None if name == "memory" else lambda server: server.transports.serve_stdio()

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
                serving.result()  # raises what the transport raised


def _failed(error: CallError) -> Result:
    return Result([text_block(str(error))], is_error=True, error=error)


def _check_name(name: Any) -> str:
    if isinstance(name, str) and name:
        return name
    raise ConfigurationError(f"must be a text that is not empty, got {name!r}", key="name")
