"""How tools get into a server: `@server.tool`, `server.add`, and the strict door for tool objects.

Knows sources, the registry and when it is closed; refuses to know calls and wires.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, Unpack, overload

from toolcrib.definition import STRICT, OptionFields
from toolcrib.errors import BatchError, InvalidToolError, RegistrationClosedError
from toolcrib.finding import Finding
from toolcrib.marking import options_of
from toolcrib.registry import OnDuplicate, Report, ToolRegistry
from toolcrib.selection import select
from toolcrib.sources import Batch, collect, objects
from toolcrib.tool import MCPTool, Tool

logger = logging.getLogger("toolcrib")

F = TypeVar("F", bound=Callable[..., Any])
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
        batch.findings += [idle_switch(name) for name in given if name not in fitting]

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


def idle_switch(name: str) -> Finding:
    hint = "give tools a group: @tool(group=...), TOOL_GROUP"
    return Finding("idle-switch", "warning", f"Switch '{name}' fits no group of tools", hint=hint)
