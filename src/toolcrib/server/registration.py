"""Registration: the decorators of a server, and the methods that add things to it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from toolcrib.component import Component, MCPTool, Tool, merge_options
from toolcrib.dispatch.dispatcher import Dispatcher
from toolcrib.errors import BatchError, DefinitionError, InvalidToolError, Location, RegistrationClosedError
from toolcrib.names import STRICT
from toolcrib.options import GivenOptions, OptionFields
from toolcrib.registry.registry import OnDuplicate, Report, ToolRegistry
from toolcrib.registry.selection import select
from toolcrib.schema.parameters import locate, locate_caller
from toolcrib.sources import Batch, Source, collect, objects
from toolcrib.sources.base import report_unused_switch
from toolcrib.sources.foreign.interception import is_searching
from toolcrib.sources.loading import currently_loading

if TYPE_CHECKING:
    from toolcrib.registry.apps import AppFields
    from toolcrib.registry.completion import Completed
    from toolcrib.registry.prompts import PromptFields
    from toolcrib.registry.resources import ResourceFields
    from toolcrib.transports.serving import Transports

logger = logging.getLogger("toolcrib")

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
R = TypeVar("R", covariant=True)
STARTED = "Cannot register tools after server has started"
STOPPING = "Server is shutting down, registration not allowed"


class Registration:
    """Registers tools, resources and prompts. The modules behind them are imported when they are used."""

    dispatcher: Dispatcher
    registry: ToolRegistry
    dynamic: bool
    switches: dict[str, bool]
    _unused_switches: set[str]
    _running: bool
    _shutting_down: bool
    _transports: Transports | None

    @property
    def resources(self) -> ToolRegistry:
        """The resources and templates, by URI."""
        return self.dispatcher.resources

    @property
    def prompts(self) -> ToolRegistry:
        """The prompts, by name."""
        return self.dispatcher.prompts

    # --- tools ---

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(
        self,
        name: str | None = None,
        description: str | None = None,
        schema: Mapping[str, Any] | None = None,
        /,
        **options: Unpack[GivenOptions],
    ) -> Callable[[F], F]: ...
    def tool(
        self,
        first: Any = None,
        description: str | None = None,
        schema: Mapping[str, Any] | None = None,
        /,
        **options: Unpack[GivenOptions],
    ) -> Any:
        """Register a function and return it unchanged. Takes the same arguments as `toolcrib.tool`.

        A function that cannot be a tool raises DefinitionError. Where a command imports the file in search of
        tools, the problem is reported beside the other tools of the file instead.
        """
        if callable(first):
            self._add_decorated(first, {})
            return first
        if first is not None and not isinstance(first, str):
            raise InvalidToolError(f"@server.tool takes a name first, got {type(first).__name__}")
        given = merge_options(first, description, schema, options)

        def register(function: F) -> F:
            self._add_decorated(function, given)
            return function

        return register

    def _add_decorated(self, function: Any, options: OptionFields) -> None:
        with self._reporting(lambda: locate(function)):
            self.add(function, **options)

    @contextmanager
    def _reporting(self, find_source: Callable[[], Location]) -> Iterator[None]:
        """Raise DefinitionError, or report it where a command imports the file in search of tools."""
        try:
            yield
        except DefinitionError as error:
            if not is_searching():
                raise
            if error.source.file is None:
                error.source = find_source()
            self.registry.refused.extend(error.all_findings)

    def add(
        self,
        *targets: Any,
        namespace: str | bool | None = None,
        handlers: Mapping[str, Any] | None = None,
        switches: Mapping[str, bool] | None = None,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        on_duplicate: OnDuplicate | None = None,
        strict: bool = False,
        sources: Sequence[Source] = (),
        **options: Unpack[GivenOptions],
    ) -> Report:
        """Register tools from anything: see `toolcrib.collect`.

        A problem with a target that is one tool raises. Of several targets, or of a target with several
        tools, the others are registered and the problems are logged and reported; `strict` raises and
        registers none. `include` and `exclude` select tools by their names in the target.
        """
        self._check_open()
        batch = collect(*targets, namespace=namespace, handlers=handlers, sources=sources, **options)
        if switches or self.switches:  # switches given here must match a group here, others any group
            matching = batch.switch({**self.switches, **(switches or {})})
            self._unused_switches -= matching
            batch.findings += [report_unused_switch(name) for name in switches or () if name not in matching]
        if include or exclude:
            kept = select(batch.everything, include, exclude)
            batch = Batch.of(kept, batch.findings, single=batch.single)
        if self._transports is not None and self._transports.is_on_http:
            self._transports.check_middleware(batch.everything)
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
        if stored.origin is not tool.origin:  # an existing tool was kept
            return Report([], batch.findings)
        self._log(stored, logging.DEBUG)
        return Report([stored], batch.findings)

    def _register_many(self, batch: Batch, on_duplicate: OnDuplicate | None, strict: bool) -> Report:
        errors = [finding for finding in batch.findings if finding.level == "error"]
        if strict and errors:
            text = f"Nothing registered, {len(errors)} refused: {errors[0]}"
            raise BatchError(text, batch.findings)
        report = self.registry.add_all(batch.tools, on_duplicate=on_duplicate, strict=strict)
        for registry, others in ((self.resources, batch.resources), (self.prompts, batch.prompts)):
            if others:
                further = registry.add_all(others, on_duplicate=on_duplicate, strict=strict)
                report.others += further.registered
                report.findings += further.findings
        report.findings[:0] = batch.findings
        for finding in report.errors:
            logger.warning("Error during tool registration: %s", finding)
        if file := currently_loading():  # in search of tools
            self.registry.refused += [replace(item, file=item.file or file) for item in report.errors]
        for tool in report.registered:
            self._log(tool, logging.DEBUG)
        logger.info("Successfully registered %d tools", len(report.registered))
        return report

    def _log(self, tool: Component, level: int) -> None:
        if logger.isEnabledFor(level):
            extra = {"tool_name": tool.name, "total_tools": len(self.registry)}
            logger.log(level, "tool_registered", extra=extra)

    async def resource_changed(self, uri: str) -> None:
        """Tell the clients that have subscribed to a resource that it has changed."""
        if self._transports is not None:
            self._transports.announce_update(uri)

    # --- tool objects ---

    def register_tool(self, tool: MCPTool) -> None:
        """Register one tool object under strict rules, or raise and register nothing."""
        self._check_open()
        objects.check_object(tool, self.registry.check_free)
        checked = Tool.from_object(tool)
        checked.check()
        self._log(self.registry.add(checked, on_duplicate="error", rule=STRICT), logging.INFO)

    def register_all_tools(self, tools: Iterable[MCPTool]) -> None:
        """Register tool objects in order, stopping at the first that is refused."""
        for tool in tools:
            self.register_tool(tool)

    @property
    def _tools(self) -> dict[str, Any]:
        """The registered objects by name."""
        return {tool.name: tool.origin for tool in self.registry}

    @property
    def _registries(self) -> tuple[ToolRegistry, ...]:
        return self.registry, self.resources, self.prompts

    def _check_open(self) -> None:
        if self._shutting_down:
            raise RegistrationClosedError(STOPPING)
        if self._running and not self.dynamic:
            raise RegistrationClosedError(STARTED)

    # --- resources and prompts ---

    def resource(
        self, uri: str, **options: Unpack[ResourceFields]
    ) -> Callable[[Callable[P, R]], Completed[P, R]]:
        """Publish what a function returns under a URI: `@server.resource("orders://{id}")`.

        The parameters of the function are the variables of the URI. Returns the function; its attribute
        `complete` registers functions that complete variables: `@order.complete("id")`.
        """
        from toolcrib.registry.resources import make_resource  # start-up time: many servers have none

        def register(function: Callable[P, R]) -> Completed[P, R]:
            made: Completed[P, R] = self._publish(
                self.resources, function, lambda: make_resource(uri, function, options)
            )
            return made

        bare: Any = uri
        if callable(bare):  # `@server.resource`: refused, as is every URI that is not a string
            register(bare)
        return register

    def add_resource(self, uri: str, content: Any, **options: Unpack[ResourceFields]) -> None:
        """Publish fixed content under a URI: text, bytes, data, a `File`, or the `Path` of a file or folder.

        Of a folder, every file is a resource below the URI; files outside of it cannot be read.
        """
        from toolcrib.registry.resources import add_static  # start-up time, as above

        caller = locate_caller()
        self._add_resources(caller, lambda: add_static(uri, content, options, caller))

    def add_app(self, uri: str, page: str | Path, **options: Unpack[AppFields]) -> None:
        """Publish a page (HTML, or the `Path` of a file) that hosts show for the results of tools with
        `ui=uri`. It may use the domains of `csp` only: `{"resourceDomains": ["https://cdn.example.com"]}`.
        """
        from toolcrib.registry.apps import make_app  # start-up time, as above

        caller = locate_caller()
        self._add_resources(caller, lambda: [make_app(uri, page, options, caller)])

    def add_skills(self, folder: str | Path, prefix: str = "", *, strict: bool = False) -> Report:
        """Publish the skills in a folder, which are folders with a SKILL.md, under `skill://[prefix/]name/`.

        Those that break a rule are logged and reported; `strict` raises and registers none.
        """
        from toolcrib.sources.skills import read_skills  # start-up time, as above

        self._check_open()
        given: tuple[Any, Any] = folder, prefix
        if not isinstance(given[0], str | Path) or not isinstance(given[1], str):
            text = f"add_skills takes a folder and a prefix, got {folder!r:.80} and {prefix!r:.80}"
            raise InvalidToolError(
                text, hint='write server.add_skills("skills") or add_skills("skills", "acme")'
            )
        return self._register_many(read_skills(Path(folder), prefix), None, strict)

    def _add_resources(self, caller: Location, make: Callable[[], Sequence[Component]]) -> None:
        self._check_open()
        with self._reporting(lambda: caller):
            made = make()
            if len(made) == 1:
                self.resources.add(made[0])
            else:
                self.resources.add_all(made, strict=True)

    @overload
    def prompt(self, function: Callable[P, R], /, **options: Unpack[PromptFields]) -> Completed[P, R]: ...
    @overload
    def prompt(
        self, name: str | None = None, /, **options: Unpack[PromptFields]
    ) -> Callable[[Callable[P, R]], Completed[P, R]]: ...
    def prompt(self, first: Any = None, /, **options: Unpack[PromptFields]) -> Any:
        """Offer a function as a prompt: it returns text, messages, or a list of these.

        Works bare, with a name, and with options. Returns the function; its attribute `complete` registers
        functions that complete arguments: `@plan_trip.complete("city")`.
        """
        from toolcrib.registry.prompts import make_prompt  # start-up time, as above

        def register(function: Any) -> Any:
            name = None if callable(first) else first
            return self._publish(self.prompts, function, lambda: make_prompt(function, name, options))

        return register(first) if callable(first) else register

    def _publish(self, registry: ToolRegistry, function: Any, make: Callable[[], Any]) -> Any:
        """Register a resource or a prompt, and return its function."""
        from toolcrib.registry.completion import completer_of

        self._check_open()
        with self._reporting(lambda: locate(function)):
            made: Any = registry.add(make())
            with suppress(AttributeError, TypeError):  # a method or another object without attributes
                function.complete = partial(completer_of, made)
        return function
