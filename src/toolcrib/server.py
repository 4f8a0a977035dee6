"""MCPServer: a registry, a dispatcher and a life between start and stop.

Knows how the parts fit together and nothing that one of them knows better.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from toolcrib.content import Result
from toolcrib.context import LOCAL, NOBODY, Channel, Principal
from toolcrib.definition import STRICT, NameRule, OptionFields, ToolDefinition
from toolcrib.dispatch import DEFAULT_TIMEOUT_S, Dispatcher
from toolcrib.errors import (
    BatchError,
    ConfigurationError,
    InvalidToolError,
    RegistrationClosedError,
    ToolAlreadyExistsError,
)
from toolcrib.registry import OnDuplicate, Report, ToolRegistry
from toolcrib.selection import select
from toolcrib.sources import Batch, collect, objects
from toolcrib.tool import MCPTool, Tool, options_of

logger = logging.getLogger("toolcrib")

F = TypeVar("F", bound=Callable[..., Any])
Transport = Callable[["MCPServer"], Awaitable[None]]
STARTED = "Cannot register tools after server has started"
STOPPING = "Server is shutting down, registration not allowed"


class MCPServer:
    """Tools in, calls out.

    `core_engine` is whatever your tools work on; toolcrib only keeps it. A server is sealed once it runs,
    unless it is `dynamic`. `switches` turn groups of tools on and off.
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
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        switches: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.core_engine = core_engine
        self.dynamic = dynamic
        self.registry = ToolRegistry(name_rule=name_rule, on_duplicate=on_duplicate, separator=separator)
        self.dispatcher = Dispatcher(self.registry, server=self, timeout_s=timeout_s)
        self.switches = dict(switches or {})
        self._started = time.monotonic()
        self._running = False
        self._shutting_down = False
        self._owners: dict[int, Any] = {}
        self._opened: dict[int, Any] = {}
        self._opening: asyncio.Lock | None = None
        self._stopped: asyncio.Event | None = None

    # --- registering ---

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
        given = options_of(first, description, schema, options)

        def register(function: F) -> F:
            self.add(function, **given)
            return function

        return register

    def add(
        self,
        *things: Any,
        namespace: str | bool | None = None,
        handlers: Mapping[str, Any] | None = None,
        switches: Mapping[str, Any] | None = None,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        on_duplicate: OnDuplicate | None = None,
        strict: bool = False,
        **options: Unpack[OptionFields],
    ) -> Report:
        """Register tools from anywhere: see `toolcrib.collect` for what a thing may be.

        A problem with one thing that is one tool raises. Of a source of many the good are registered, the
        bad are warned of and reported; `strict` raises instead and registers none. `include` and `exclude`
        choose among what is found.
        """
        self._check_open()
        wanted = {**self.switches, **(switches or {})}
        batch = Batch(single=len(things) == 1)
        for thing in things:
            part = collect(thing, namespace=namespace, handlers=handlers, switches=wanted, **options)
            batch.extend(part)
            batch.single = batch.single and part.single
        if include or exclude:
            batch.tools = select(batch.tools, include, exclude)
        return self._register(batch, on_duplicate, strict)

    def _register(self, batch: Batch, on_duplicate: OnDuplicate | None, strict: bool) -> Report:
        if self._running:  # nothing may be found wrong after clients were told of it
            for tool in batch.tools:
                tool.check()
        if batch.single:
            if strict:
                batch.tools[0].check()
            report = Report([self.registry.add(batch.tools[0], on_duplicate=on_duplicate)])
        else:
            if strict and any(finding.level == "error" for finding in batch.findings):
                raise BatchError(f"Nothing registered: {batch.findings[0]}", batch.findings)
            report = self.registry.add_all(batch.tools, on_duplicate=on_duplicate, strict=strict)
            report.findings[:0] = batch.findings
            self._tell(report)
        for tool in report.registered:
            if tool.owner is not None:
                self._owners.setdefault(id(tool.owner), tool.owner)
            logger.debug("tool_registered", extra={"tool_name": tool.name, "total_tools": len(self.registry)})
        return report

    def _tell(self, report: Report) -> None:
        for finding in report.errors:
            logger.warning("Error during tool registration: %s", finding)
        logger.info("Successfully registered %d tools", len(report.registered))

    def register_tool(self, tool: MCPTool) -> None:
        """The strict door: one tool object, every rule enforced, nothing stored unless all hold."""
        self._check_open()
        objects.check_attributes(tool)
        objects.check_name(tool)
        twin = self.registry.try_get(tool.name)
        if twin is not None and twin.version is None:
            raise ToolAlreadyExistsError(tool.name, existing=twin.source)
        objects.check_description(tool)
        objects.check_schema(tool)
        objects.check_execute(tool)
        self.registry.add(Tool.from_object(tool), on_duplicate="error", rule=STRICT)
        logger.info("tool_registered", extra={"tool_name": tool.name, "total_tools": len(self.registry)})

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

    # --- using ---

    def list_tools(self, principal: Principal = LOCAL) -> list[ToolDefinition]:
        """What clients are told, in order of registration."""
        return [tool.definition for tool in self.dispatcher.view(principal)]

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        principal: Principal = LOCAL,
        channel: Channel = NOBODY,
        timeout_s: float | None = None,
    ) -> Result:
        """Call a tool with checked arguments. Raises ToolNotFoundError; other failures are in the Result."""
        if len(self._owners) > len(self._opened):
            await self._open_owner(name)
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

    # --- living ---

    async def start(self) -> None:
        """Seal (unless dynamic), build everything, open the applications."""
        if self._running:
            return
        self._shutting_down = False
        self.registry.check() if self.dynamic else self.registry.seal(STARTED)
        for owner in list(self._owners.values()):
            await self._open(owner)
        self._stopped = asyncio.Event()
        self._running = True

    async def stop(self) -> None:
        """Close the applications and whatever still runs; nothing can be registered any more."""
        self._shutting_down = True
        for owner in reversed(list(self._opened.values())):
            try:
                await _call_hook(owner, "close")
            except Exception:
                logger.exception("closing %s failed", type(owner).__name__)
        self._opened.clear()
        self.dispatcher.close()
        self._running = False
        if self._stopped is not None:
            self._stopped.set()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def run(self, transport: str | Transport = "memory") -> Any:
        """Run until stopped: blocks, or returns an awaitable where an event loop runs already.

        `transport` serves the running server: an async callable that gets it. The default serves calls made
        in this process, until `stop()`.
        """
        if isinstance(transport, str) and transport != "memory":
            raise ConfigurationError(f"there is no transport {transport!r} in this version", key="transport")
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self._run(transport))
        return self._run(transport)

    async def _run(self, transport: str | Transport) -> None:
        async with self:
            if callable(transport):
                await transport(self)
            elif self._stopped is not None:
                await self._stopped.wait()

    async def _open_owner(self, name: str) -> None:
        """Open the application behind a tool at its first call, where the server was not started."""
        tool = self.registry.try_get(name)
        if tool is not None and tool.owner is not None and id(tool.owner) not in self._opened:
            await self._open(tool.owner)

    async def _open(self, owner: Any) -> None:
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if id(owner) not in self._opened:
                await _call_hook(owner, "open")
                self._opened[id(owner)] = owner


async def _call_hook(owner: Any, name: str) -> None:
    """Call an application's hook, plain or async, where it has one."""
    hook = getattr(owner, name, None)
    if callable(hook):
        outcome = hook()
        if inspect.isawaitable(outcome):
            await outcome
