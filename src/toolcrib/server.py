"""MCPServer: a registry, a dispatcher and a life between start and stop.

Knows how the parts fit together and nothing that one of them knows better.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, Unpack, overload

from toolcrib.content import Result, text_block
from toolcrib.context import LOCAL, NOBODY, Channel, Principal
from toolcrib.definition import STRICT, NameRule, OptionFields, ToolDefinition
from toolcrib.dispatch import DEFAULT_TIMEOUT_S, Dispatcher
from toolcrib.errors import (
    BatchError,
    CallError,
    ConfigurationError,
    InvalidToolError,
    RegistrationClosedError,
    ToolBusyError,
)
from toolcrib.execution import Runner
from toolcrib.finding import Finding
from toolcrib.registry import OnDuplicate, Report, ToolRegistry
from toolcrib.selection import select
from toolcrib.sources import Batch, collect, objects
from toolcrib.sources.loading import currently_loading
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
        confusable: Literal["error", "allow"] = "error",
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        switches: Mapping[str, bool] | None = None,
    ) -> None:
        self.name = _check_name(name)
        self.core_engine = core_engine
        self.dynamic = dynamic
        self.registry = ToolRegistry(
            name_rule=name_rule, on_duplicate=on_duplicate, separator=separator, confusable=confusable
        )
        self.dispatcher = Dispatcher(self.registry, server=self, timeout_s=timeout_s)
        self.switches = dict(switches or {})
        self._idle_switches = set(self.switches)
        self._started = time.monotonic()
        self._running = False
        self._shutting_down = False
        self._ended: Future[None] = Future()

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
        switches: Mapping[str, bool] | None = None,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        on_duplicate: OnDuplicate | None = None,
        strict: bool = False,
        **options: Unpack[OptionFields],
    ) -> Report:
        """Register tools from anywhere: see `toolcrib.collect` for what a thing may be.

        A problem with one thing that is one tool raises. Of several things, or a source of many, the good
        are registered, the bad are warned of and reported; `strict` raises instead and registers none.
        `include` and `exclude` choose among what is found, by the names it has there.
        """
        self._check_open()
        batch = collect(*things, namespace=namespace, handlers=handlers, **options)
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
        batch.findings += [_idle_switch(name) for name in given if name not in fitting]

    def register_tool(self, tool: MCPTool) -> None:
        """The strict door: one tool object, every rule enforced, nothing stored unless all hold."""
        self._check_open()
        objects.check_attributes(tool)
        objects.check_name(tool)
        self.registry.check_free(tool.name)
        objects.check_description(tool)
        objects.check_schema(tool)
        objects.check_execute(tool)
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
            self._shutting_down = False
        self._running = True
        self._ended = Future()
        for name in sorted(self._idle_switches):
            logger.warning("%s", _idle_switch(name))
        try:
            if self.dynamic:
                self.registry.reopen()
                self.registry.eager = True  # nothing may be found wrong after clients were told of it
                self.registry.check()
            else:
                self.registry.seal(STARTED)
            await self.dispatcher.owners.open_all()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Close the applications and whatever still runs; nothing can be registered any more. May be called
        from any thread and more than once; `run` ends."""
        self._shutting_down = True
        self.registry.close(STOPPING)
        try:
            await self.dispatcher.owners.close_all()
        finally:
            self.dispatcher.close()
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

    def run(self, transport: str | Transport = "memory") -> Any:
        """Run until stopped: blocks, or returns an awaitable where an event loop runs already.

        `transport` serves the running server: an async callable that gets it. The default serves calls made
        in this process, until `stop()`.
        """
        if isinstance(transport, str) and transport != "memory":
            raise ConfigurationError(f"there is no transport {transport!r} in this version", key="transport")
        place = currently_loading()
        if place is not None:
            hint = 'put it below `if __name__ == "__main__":`'
            raise ConfigurationError(f"server.run() is called while {place} is imported", hint=hint)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self._run(transport))
        return self._run(transport)

    async def _run(self, transport: str | Transport) -> None:
        """Serve until the transport ends or `stop` is called; either ends the other."""
        async with self:
            ended = asyncio.wrap_future(self._ended)
            serving = ended if isinstance(transport, str) else asyncio.ensure_future(transport(self))
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


def _idle_switch(name: str) -> Finding:
    hint = "give tools a group: @tool(group=...), TOOL_GROUP"
    return Finding("idle-switch", "warning", f"Switch '{name}' fits no group of tools", hint=hint)


def _check_name(name: Any) -> str:
    if isinstance(name, str) and name:
        return name
    raise ConfigurationError(f"must be a text that is not empty, got {name!r}", key="name")
