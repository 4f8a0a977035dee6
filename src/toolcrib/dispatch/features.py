"""Resources, prompts, apps, skills and large results of a server: the dispatcher and the methods for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from toolcrib.component import Kind, Tool
from toolcrib.content import Result, text_block
from toolcrib.context import LOCAL, NO_CHANNEL, Channel, Principal
from toolcrib.dispatch.dispatcher import DEFAULT_TIMEOUT_S, Dispatcher, Plan, ToolStats
from toolcrib.dispatch.middleware import Admission, Call, LongCall
from toolcrib.errors import (
    CallError,
    DefinitionError,
    Finding,
    InvalidToolError,
    Location,
    ToolBusyError,
    ToolNotFoundError,
)
from toolcrib.names import URI
from toolcrib.options import APPS, LargeResults
from toolcrib.registry.index import Snapshot
from toolcrib.registry.registry import OnDuplicate, Report, ToolRegistry
from toolcrib.schema.parameters import locate, locate_caller
from toolcrib.sources.base import Batch
from toolcrib.sources.foreign.interception import is_searching
from toolcrib.state import StateHandle

if TYPE_CHECKING:
    from toolcrib.dispatch.large_results import KeptResults, ResultBudget
    from toolcrib.registry.apps import AppFields
    from toolcrib.registry.completion import Completed
    from toolcrib.registry.prompts import PromptFields
    from toolcrib.registry.resources import ResourceFields, ResourceFinder

P = ParamSpec("P")
R = TypeVar("R")


class FeatureDispatcher(Dispatcher):
    """Calls the tools of a server, and runs what is behind its resources and prompts, which are passed to
    `run`. Large results are held to a budget."""

    def __init__(
        self, registry: ToolRegistry, *, server: Any = None, timeout_s: float | None = DEFAULT_TIMEOUT_S
    ) -> None:
        super().__init__(registry, server=server, timeout_s=timeout_s)
        given: Any = {"on_duplicate": registry.on_duplicate, "separator": registry.separator}
        self.resources = ToolRegistry(name_rule=URI, **given)
        self.prompts = ToolRegistry(name_rule=registry.rule, **given)
        self.registries |= {"resource": self.resources, "prompt": self.prompts}
        self.max_result_tokens: int | None = None
        self.large_results: LargeResults = "shorten"
        self.keeps_results = True
        """Whether large results may be kept: not where another process may be asked for them."""
        self.kept_results: KeptResults | None = None
        self._finder: ResourceFinder | None = None
        self._features_seen: tuple[Snapshot, Snapshot] | None = None

    def published(self) -> list[Tool]:
        """Return everything that clients may see: tools, resources and prompts."""
        return [tool for registry in self.registries.values() for tool in registry.published()]

    def find_problems(self) -> list[Finding]:
        """Return findings about tools and resources that do not fit together."""
        found = self.find_app_problems()
        if len(self.resources):
            from toolcrib.registry.resources import find_overlaps  # start-up time: many servers have none

            found += find_overlaps(self.resources)
        return found

    def find_app_problems(self) -> list[Finding]:
        """Return findings about the pages of apps, and about tools that name one."""
        named = [tool for tool in self.registry.published() if tool.definition.app_uri is not None]
        if not named and APPS not in self.resources.snapshot.extensions:
            return []
        from toolcrib.registry.apps import check_apps  # start-up time, as above

        return list(check_apps(named, self.resources))

    def find_resource(self, uri: str) -> tuple[Tool, dict[str, Any]] | tuple[None, None]:
        """Return the resource of a URI with the variables in it; None for both where there is none."""
        if self.kept_results is not None and (kept := self.kept_results.resource_of(uri)) is not None:
            return kept
        if self._finder is None:
            if not self.resources:
                return None, None
            from toolcrib.registry.resources import ResourceFinder  # start-up time, as above

            self._finder = ResourceFinder(self.resources)
        return self._finder.find(uri) or (None, None)

    def admission(self, principal: Principal, tool: Tool, unknown: Collection[str] = ()) -> Admission | None:
        """Return the test that access rules are for arguments of a resource or prompt; None: all may pass."""
        return None if self.pipeline is None else self.pipeline.admission(principal, tool, unknown)

    # --- running ---

    async def run(
        self,
        tool: Tool | None,
        name: str,
        arguments: Mapping[str, Any] | None,
        *,
        kind: Kind,
        principal: Principal = LOCAL,
        channel: Channel = NO_CHANNEL,
        timeout_s: float | None = None,
    ) -> Result:
        """Run a resource or a prompt through the same middleware as tools.

        `name` is what the caller asked for, and `tool` is None where there is no such thing. Raises
        ToolNotFoundError.
        """
        if self.is_stopped:
            stopped = ToolBusyError(f"{kind.capitalize()} '{name}' cannot be read: the server has stopped.")
            return Result([text_block(str(stopped))], is_error=True, error=stopped)
        is_there = tool is not None and (self.pipeline is None or self._is_there(tool, principal))
        plan = self._feature_plan(tool) if tool is not None and is_there else None
        try:
            if plan is not None:
                return await self._start(plan, name, arguments, principal, channel, timeout_s)
            if self.pipeline is not None:
                named = f"{kind}:{name}"  # no record may take it for a tool
                call = Call(self.pipeline.next_id(), named, None, arguments, principal, channel)
                await self.pipeline.reject_unknown(call)
        except ToolNotFoundError:
            pass
        raise ToolNotFoundError(name, kind)

    def run_bare(
        self, tool: Tool, arguments: Mapping[str, Any], *, principal: Principal = LOCAL
    ) -> Awaitable[Result]:
        """Run a function of a server that is not called by clients itself, without middleware."""
        plan = self._plan_of.get(tool)  # kept, so that its threads are counted
        if plan is None:
            plan = self._plan_of.setdefault(tool, Plan(tool, ToolStats()))
        return self._perform(plan, arguments, principal, plan.timeout_s, NO_CHANNEL)

    def call_long(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        principal: Principal,
        channel: Channel,
        long: LongCall,
    ) -> Coroutine[Any, Any, Result]:
        """Return a coroutine like `call`, for a call that may become a task."""
        return self._call(name, arguments, principal, channel, None, long)

    def _feature_plan(self, tool: Tool) -> Plan | None:
        """Return the plan of a resource or a prompt; None if it cannot be built, and so is not published."""
        seen = (self.resources.snapshot, self.prompts.snapshot)
        known = self._features_seen
        if known is None or known[0] is not seen[0] or known[1] is not seen[1]:
            with self._lock:
                self._drop_plans()
                self._features_seen = seen
                self._drop_stats()
        plan = self._plan_of.get(tool)
        if plan is None:
            try:
                _ = tool.definition
            except DefinitionError as error:
                self.registries[tool.kind].quarantine(tool, error)
                return None
            plan = self._plan_of.setdefault(tool, self._make_plan(tool))
        return plan

    def _make_plan(self, tool: Tool) -> Plan:
        plan = super()._make_plan(tool)
        if tool.kind == "tool":
            plan.budget = self._budget(tool)
        elif self.kept_results is not None:  # access rules are those of the tool whose result it is
            plan.is_built_in = tool is self.kept_results.resource
        return plan

    @property
    def may_keep_results(self) -> bool:
        """Whether large results may be kept for their callers to read, as resources."""
        if not self.keeps_results:
            return False
        if self.max_result_tokens or self.kept_results is not None:
            return True
        return any(tool.options.max_result_tokens for tool in self.registry.snapshot.tools)

    def _may_read_results_of(self, principal: Principal, tool: str) -> bool:
        return self.may_read(principal, self.registry.try_get(tool))

    def _budget(self, tool: Tool) -> ResultBudget | None:
        """Return the budget for the results of a tool: its own, or that of the server."""
        options = tool.options
        own = options.max_result_tokens
        most = self.max_result_tokens if own is None else own
        if not most:
            return None
        from toolcrib.dispatch.large_results import KeptResults, ResultBudget  # few servers have a budget

        with self._lock:
            if self.keeps_results and self.kept_results is None:
                storage = StateHandle() if self.server is None else self.server.storage
                self.kept_results = KeptResults(self._may_read_results_of, storage)
        return ResultBudget(tool, most, options.large_results or self.large_results, self.kept_results)


class ServerFeatures:
    """What a server has besides tools. The modules behind it are imported when they are used."""

    dispatcher: FeatureDispatcher
    registry: ToolRegistry

    def _check_open(self) -> None:
        raise NotImplementedError

    def _register_many(self, batch: Batch, on_duplicate: OnDuplicate | None, strict: bool) -> Report:
        raise NotImplementedError

    @property
    def resources(self) -> ToolRegistry:
        """The resources and templates, by URI."""
        return self.dispatcher.resources

    @property
    def prompts(self) -> ToolRegistry:
        """The prompts, by name."""
        return self.dispatcher.prompts

    def resource(
        self, uri: str, **options: Unpack[ResourceFields]
    ) -> Callable[[Callable[P, R]], Completed[P, R]]:
        """Publish what a function returns under a URI: `@server.resource("orders://{id}")`.

        The parameters of the function are the variables of the URI. Returns the function; its attribute
        `complete` registers functions that complete variables: `@order.complete("id")`.
        """
        from toolcrib.registry.resources import make_resource  # start-up time: many servers have none

        def register(function: Callable[P, R]) -> Completed[P, R]:
            made: Completed[P, R] = self._add_feature(
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

    def _add_resources(self, caller: Location, make: Callable[[], Sequence[Tool]]) -> None:
        self._check_open()
        try:
            made = make()
            if len(made) == 1:
                self.resources.add(made[0])
            else:
                self.resources.add_all(made, strict=True)
        except DefinitionError as error:
            if not is_searching():
                raise
            if error.source.file is None:
                error.source = caller
            self.registry.refused.extend(error.all_findings)

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
            return self._add_feature(self.prompts, function, lambda: make_prompt(function, name, options))

        return register(first) if callable(first) else register

    def _add_feature(self, registry: ToolRegistry, function: Any, make: Callable[[], Any]) -> Any:
        """Register a resource or a prompt, and return its function."""
        self._check_open()
        try:
            made: Any = registry.add(make())
        except DefinitionError as error:
            if not is_searching():
                raise
            if error.source.file is None:
                error.source = locate(function)
            self.registry.refused.extend(error.all_findings)
            return function
        from toolcrib.registry.completion import completer_of

        try:
            function.complete = partial(completer_of, made)
        except (AttributeError, TypeError):
            pass  # a method or another object without attributes of its own
        return function

    async def read(self, uri: str, *, principal: Principal = LOCAL) -> list[dict[str, Any]]:
        """Return the contents of a resource. Raises ToolNotFoundError, and CallError where reading fails."""
        resource, values = self.dispatcher.find_resource(uri)
        result = await self.dispatcher.run(resource, uri, values, kind="resource", principal=principal)
        return [{"uri": uri, **item} for item in raise_failure(result).content]

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, principal: Principal = LOCAL
    ) -> list[dict[str, Any]]:
        """Return the messages of a prompt. Raises ToolNotFoundError, or CallError where that fails."""
        prompt = self.prompts.try_get(name)
        result = await self.dispatcher.run(prompt, name, arguments, kind="prompt", principal=principal)
        return raise_failure(result).content


def raise_failure(result: Result) -> Result:
    """Return a result, or raise the error that it reports."""
    if result.is_error:
        raise result.error or CallError(result.text)
    return result
