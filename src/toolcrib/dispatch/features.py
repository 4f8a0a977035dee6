"""The dispatcher of a server: tools, resources, prompts, apps and large results."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from toolcrib.component import Component, Kind
from toolcrib.content import Result, text_block
from toolcrib.context import LOCAL, NO_CHANNEL, Channel, Principal
from toolcrib.dispatch.dispatcher import DEFAULT_TIMEOUT_S, Dispatcher, Plan, ToolStats
from toolcrib.dispatch.middleware import Admission, Call, LongCall
from toolcrib.errors import DefinitionError, Finding, ToolBusyError, ToolNotFoundError
from toolcrib.names import URI
from toolcrib.options import APPS, LargeResults
from toolcrib.registry.index import Snapshot
from toolcrib.registry.registry import ToolRegistry
from toolcrib.state import StateHandle

if TYPE_CHECKING:
    from toolcrib.dispatch.large_results import KeptResults, ResultBudget
    from toolcrib.registry.resources import ResourceFinder


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

    def published(self) -> list[Component]:
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

    def find_resource(self, uri: str) -> tuple[Component, dict[str, Any]] | tuple[None, None]:
        """Return the resource of a URI with the variables in it; None for both where there is none."""
        if self.kept_results is not None and (kept := self.kept_results.resource_of(uri)) is not None:
            return kept
        if self._finder is None:
            if not self.resources:
                return None, None
            from toolcrib.registry.resources import ResourceFinder  # start-up time, as above

            self._finder = ResourceFinder(self.resources)
        return self._finder.find(uri) or (None, None)

    def admission(
        self, principal: Principal, tool: Component, unknown: Collection[str] = ()
    ) -> Admission | None:
        """Return the test that access rules are for arguments of a resource or prompt; None: all may pass."""
        return None if self.pipeline is None else self.pipeline.admission(principal, tool, unknown)

    # --- running ---

    async def run(
        self,
        tool: Component | None,
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
        self, tool: Component, arguments: Mapping[str, Any], *, principal: Principal = LOCAL
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

    def _feature_plan(self, tool: Component) -> Plan | None:
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

    def _make_plan(self, tool: Component) -> Plan:
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

    def _budget(self, tool: Component) -> ResultBudget | None:
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
