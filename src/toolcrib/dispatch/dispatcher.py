"""The dispatcher of a server: calls its tools, and runs its resources and prompts.

A call looks up the tool, checks and converts the arguments, runs the tool, and checks and converts the
result. `call`, `run` and `view` are the only ways to reach the tools, resources and prompts of a server. A
failure of a call becomes a Result that the caller can act on; only an unknown name raises.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import random
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from toolcrib.component import Component, Kind
from toolcrib.content import BUILT_IN, Result, text_block
from toolcrib.context import LOCAL, NO_CHANNEL, Channel, Context, Principal
from toolcrib.dispatch.calls import Call, CallRecord, CallRegistry, Check
from toolcrib.dispatch.deadline import run_steps
from toolcrib.dispatch.failures import CrashReporter, Raised, failed, hide_crash, may_repeat
from toolcrib.dispatch.lifespan import Applications
from toolcrib.dispatch.middleware import Admission, Next, Pipeline, record_calls
from toolcrib.dispatch.plans import Plan, ToolStats, tool_modules
from toolcrib.dispatch.result_cache import RESULTS
from toolcrib.dispatch.runners import Clock, Outlive, Runner
from toolcrib.dispatch.tool_search import ToolSearch, is_search_name
from toolcrib.errors import (
    CallError,
    DefinitionError,
    Finding,
    InsufficientScopeError,
    ToolBusyError,
    ToolCrashedError,
    ToolNotFoundError,
)
from toolcrib.names import URI
from toolcrib.options import APPS, MAX_TIMEOUT_S, LargeResults
from toolcrib.registry.index import Snapshot
from toolcrib.registry.registry import ToolRegistry
from toolcrib.state import StateHandle
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import Mirrored

if TYPE_CHECKING:
    from toolcrib.dispatch.large_results import KeptResults, ResultBudget
    from toolcrib.registry.resources import ResourceFinder
    from toolcrib.schema.received import Received
    from toolcrib.schema.shapes import Convert

logger = logging.getLogger("toolcrib")

DEFAULT_TIMEOUT_S = 60.0
FIRST_PAUSE_S = 0.1
"""About how long a tool waits before its second try; each further pause is twice as long."""
KEPT_STATS = 1000
"""Statistics of removed tools that are kept, at most."""


class Run(NamedTuple):
    """One run of a tool that is more than a coroutine: on a thread, in a process, kept or repeated."""

    plan: Plan
    given: dict[str, Any]
    context: Context | None
    limit: float | None
    clock: Clock | None
    outlive: Outlive | None

    @property
    def has_asked(self) -> bool:
        return self.context is not None and self.context.asked is not None


class Dispatcher:
    """Calls the tools of one server, and runs what is behind its resources and prompts. Large results are
    held to a budget. `server` is passed to handlers that ask for it."""

    def __init__(
        self, registry: ToolRegistry, *, server: Any = None, timeout_s: float | None = DEFAULT_TIMEOUT_S
    ) -> None:
        given: Any = {"on_duplicate": registry.on_duplicate, "separator": registry.separator}
        self.registry = registry
        self.resources = ToolRegistry(name_rule=URI, **given)
        self.prompts = ToolRegistry(name_rule=registry.rule, **given)
        self.registries: dict[Kind, ToolRegistry] = {
            "tool": registry,
            "resource": self.resources,
            "prompt": self.prompts,
        }
        self.server = server
        self.timeout_s = None if timeout_s is None else _check_limit(timeout_s)
        self.calls = CallRegistry()
        self.calls.on_readers = self._drop_compositions
        self.runner = Runner()
        self.crashes = CrashReporter()
        self.applications = Applications(self.registries.values(), self.crashes)
        self.pipeline: Pipeline | None = None
        self.tool_search: ToolSearch | None = None
        self.max_result_tokens: int | None = None
        self.large_results: LargeResults = "shorten"
        self.keeps_results = True
        """Whether large results may be kept: not if another process may be asked for them."""
        self.kept_results: KeptResults | None = None
        self.is_stopped = False
        self.stats: dict[str, ToolStats] = {}
        self._lock = threading.Lock()
        self._seen: Snapshot | None = None
        """The snapshot of the tools that `_plans` is about; `_others_seen` are those of resources and
        prompts."""
        self._others_seen: tuple[Snapshot, Snapshot] | None = None
        self._plans: dict[str, Plan] = {}
        self._plan_of: dict[Component, Plan] = {}
        self._viewed: dict[ToolRegistry, tuple[Snapshot, tuple[Component, ...]]] = {}
        self._finder: ResourceFinder | None = None

    # --- what there is ---

    @property
    def depends_on_principal(self) -> bool:
        """Whether two callers may see different tools."""
        return self.pipeline is not None and self.pipeline.depends_on_principal

    def view(
        self, principal: Principal = LOCAL, registry: ToolRegistry | None = None
    ) -> tuple[Component, ...]:
        """Return the tools that a principal may see and call: the same object until they change.

        `registry` is another one than that of the tools: of resources or prompts.
        """
        registry = self.registry if registry is None else registry
        snapshot = registry.snapshot
        viewed = self._viewed.get(registry)
        if viewed is None or viewed[0] is not snapshot:
            viewed = self._viewed[registry] = (snapshot, tuple(registry.published()))
        return viewed[1] if self.pipeline is None else self.pipeline.view(principal, viewed[1])

    def is_visible(self, principal: Principal, tool: Component) -> bool:
        """Return whether a principal may see a tool."""
        if self.pipeline is None:
            return True
        return self.pipeline.is_visible(principal, tool) and self._is_there(tool, principal)

    def missing_scopes(self, principal: Principal, tool: Component) -> tuple[str, ...]:
        """Return the scopes that a principal lacks to use a tool that it sees."""
        policy = None if self.pipeline is None else self.pipeline.policy
        return () if policy is None else policy.missing_scopes(principal, tool)

    def may_read(self, principal: Principal, tool: Component | None) -> bool:
        """Return whether a principal may read now what a tool has returned before; None stands for a tool
        that is gone. Raise InsufficientScopeError where only a scope is missing."""
        if self.pipeline is None:
            return True
        if tool is None or not self.is_visible(principal, tool):
            return False
        if missing := self.missing_scopes(principal, tool):
            problem = (
                f"The results of '{tool.name}' require a scope that you do not have: {' '.join(missing)}"
            )
            raise InsufficientScopeError(problem, details={"scopes": list(missing)})
        return True

    def _is_there(self, tool: Component, principal: Principal) -> bool:
        """Return whether an older version is reachable: it is for principals that see the newest one."""
        registry = self.registries[tool.kind]
        newest = registry.snapshot.find(tool.name) or tool
        if newest is tool or self.pipeline is None or self.pipeline.is_visible(principal, newest):
            return True
        return tool not in registry.versions(tool.name)  # a search tool, where that name is free

    def shown(self, principal: Principal = LOCAL) -> tuple[Component, ...]:
        """Return the tools that tools/list shows: all that are visible, or search tools if those are too
        many."""
        return self.view(principal) if self.tool_search is None else self.tool_search.listing(principal).shown

    def forward(self, name: str, arguments: Any, principal: Principal) -> tuple[str, dict[str, Any]] | None:
        """Return the call inside a call of the search tool that calls others, or None."""
        return None if self.tool_search is None else self.tool_search.forward(name, arguments, principal)

    def has_list_changed(self) -> bool:
        """Return whether clients would get another list than before, after the tools have changed."""
        return self.tool_search is None or self.depends_on_principal or self.tool_search.has_changed()

    def mirrored(self, name: Any, principal: Principal = LOCAL) -> Mirrored | None:
        """Return the arguments of a tool that clients repeat in headers; None if the principal cannot see
        it."""
        plan = self._plans.get(name) if type(name) is str else None
        if plan is not None and self._seen is self.registry.cached_snapshot:
            is_hidden = plan.mirrored and not self.is_visible(principal, plan.tool)
            return None if is_hidden else plan.mirrored
        tool = self.registry.try_get(name) if isinstance(name, str) else None
        try:
            known = tool is not None and self.is_visible(principal, tool)
            return tool.definition.mirrored if tool is not None and known else None
        except DefinitionError:
            return None  # it cannot be called either

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
        policy = None if self.pipeline is None else self.pipeline.policy
        return None if policy is None else policy.admission(principal, tool, unknown)

    # --- calls ---

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        principal: Principal = LOCAL,
        channel: Channel = NO_CHANNEL,
        timeout_s: float | None = None,
    ) -> Awaitable[Result]:
        """Return a call of a tool, which runs when it is awaited.

        It raises ToolNotFoundError, and ValueError for an invalid `timeout_s`; every other failure is a
        Result with `is_error`.
        """
        if self._seen is self.registry.cached_snapshot and timeout_s is None:
            plan = self._plans.get(name)
            if plan is not None and not self.is_stopped:  # the common case, without a coroutine in between
                if plan.chain is None:
                    limit = self.timeout_s if plan.timeout_s is None else plan.timeout_s
                    return self._perform(plan, None, arguments, principal, limit, channel)
                return self._start(plan, name, arguments, principal, channel, None)
        return self.call_long(name, arguments, principal, channel, timeout_s)

    async def call_long(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        principal: Principal,
        channel: Channel,
        timeout_s: float | None = None,
        on_start: Callable[[Call], None] | None = None,
        default_s: float | None = None,
    ) -> Result:
        """Call a tool, as `call` does. `on_start` is called right before the tool is; `default_s` is the time
        limit of a tool without its own."""
        if self.is_stopped:
            stopped = ToolBusyError(f"Tool '{name}' cannot run: the server has stopped.")
            return Result([text_block(str(stopped))], is_error=True, error=stopped)
        if self._seen is not self.registry.snapshot:
            self._refresh()
        plan = self._plans.get(name)
        if plan is None:
            meant = self.forward(name, arguments, principal)
            if meant is not None:
                return await self.call_long(*meant, principal, channel, timeout_s, on_start, default_s)
            try:
                plan = self._plan(name, principal)
                if self.pipeline is not None and not self._is_there(plan.tool, principal):
                    raise ToolNotFoundError(name)
            except ToolNotFoundError as error:
                await self._refuse(name, arguments, principal, channel, error, "unknown")
                raise
        return await self._start(
            plan, name, arguments, principal, channel, timeout_s, on_start=on_start, default_s=default_s
        )

    async def run(
        self,
        component: Component | None,
        name: str,
        arguments: Mapping[str, Any] | None,
        *,
        kind: Kind,
        principal: Principal = LOCAL,
        channel: Channel = NO_CHANNEL,
        timeout_s: float | None = None,
    ) -> Result:
        """Run a resource or a prompt through the same middleware as tools.

        `name` is what the caller asked for, and `component` is None if there is no such thing. Raises
        ToolNotFoundError.
        """
        if self.is_stopped:
            stopped = ToolBusyError(f"{kind.capitalize()} '{name}' cannot be read: the server has stopped.")
            return Result([text_block(str(stopped))], is_error=True, error=stopped)
        is_there = component is not None and (self.pipeline is None or self._is_there(component, principal))
        plan = self._plan_component(component) if component is not None and is_there else None
        missing = ToolNotFoundError(name, kind)
        try:
            if plan is not None:
                return await self._start(plan, name, arguments, principal, channel, timeout_s)
            # No record may take it for a tool.
            await self._refuse(f"{kind}:{name}", arguments, principal, channel, missing, "unknown")
        except ToolNotFoundError:
            pass
        raise missing

    def run_bare(
        self, component: Component, arguments: Mapping[str, Any], *, principal: Principal = LOCAL
    ) -> Awaitable[Result]:
        """Run a function of a server that is not called by clients itself, without middleware."""
        plan = self._plan_of.get(component)  # kept, so that its threads are counted
        if plan is None:
            plan = self._plan_of.setdefault(component, Plan(component, ToolStats()))
        return self._perform(plan, None, arguments, principal, plan.timeout_s)

    def _start(
        self,
        plan: Plan,
        name: str,
        arguments: Mapping[str, Any] | None,
        principal: Principal,
        channel: Channel,
        timeout_s: float | None,
        *,
        on_start: Callable[[Call], None] | None = None,
        default_s: float | None = None,
    ) -> Awaitable[Result]:
        limit = default_s or self.timeout_s if plan.timeout_s is None else plan.timeout_s
        if timeout_s is not None:  # a caller cannot get more time than the tool has
            timeout_s = _check_limit(timeout_s)
            limit = timeout_s if limit is None else min(limit, timeout_s)
        if plan.chain is None and on_start is None:
            return self._perform(plan, None, arguments, principal, limit, channel)
        id_ = next(self.calls.ids)
        record = CallRecord(id_, channel.request, principal.name, *plan.facts)
        call = Call(id_, name, plan.tool, arguments, principal, channel, record, limit, plan.is_built_in)
        call.on_start = on_start
        if plan.chain is None:
            return self._perform(plan, call)
        return plan.chain(call)

    def _refuse(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        principal: Principal,
        channel: Channel,
        error: BaseException,
        decision: str,
    ) -> Awaitable[Result]:
        """Raise the error of a call that ends before there is a tool to run, and have it recorded."""

        async def run(_: Call) -> Result:
            raise error

        id_ = next(self.calls.ids)
        record = CallRecord(id_, channel.request, principal.name, name, decision=decision)
        call = Call(id_, name, None, arguments, principal, channel, record)
        policy = None if self.pipeline is None else self.pipeline.policy
        chain = record_calls(run, self.calls) if policy is None else policy.guard(None, run, self.calls)
        return chain(call)

    def reject(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        principal: Principal,
        channel: Channel,
        error: BaseException,
    ) -> None:
        """Record a call that ended before its tool was looked up, because there was no room for it."""
        refused = self._refuse(name, arguments, principal, channel, error, "overloaded")
        try:
            refused.__await__().send(None)  # it has nothing to wait for
        except BaseException as raised:
            if raised is not error and not isinstance(raised, StopIteration):
                raise

    # --- middleware ---

    def use(self, pipeline: Pipeline | None) -> None:
        """Put this middleware around calls from now on."""
        self.pipeline = pipeline
        self._drop_compositions()

    def _drop_compositions(self) -> None:
        with self._lock:
            self._plans, self._plan_of = {}, {}  # they hold what was composed before

    def _compose(self, plan: Plan) -> Next | None:
        """Return the middleware chain of one tool; None if nothing is around its calls."""
        if self.pipeline is None and not self.calls.readers:
            return None

        def fail(call: Call, error: BaseException) -> Result:
            reported = error if isinstance(error, CallError) else Raised(error)
            return failed(plan, reported, self.crashes, call.arguments, call.id)

        return (self.pipeline or Pipeline()).compose(
            plan.tool, functools.partial(self._perform, plan), fail, self.calls
        )

    # --- running ---

    async def _perform(
        self,
        plan: Plan,
        call: Call | None,
        arguments: Mapping[str, Any] | None = None,
        principal: Principal = LOCAL,
        limit: float | None = None,
        channel: Channel = NO_CHANNEL,
    ) -> Result:
        """Validate the arguments, let middleware check them, and run the tool. Without middleware there is no
        `call`, and what it would say is given."""
        outlive, call_id = None, None
        if call is not None:
            arguments, principal, limit = call.arguments, call.principal, call.timeout_s
            outlive, call_id = call.outlive, call.id
        started = time.perf_counter()
        context: Context | None = None
        clock: Clock | None = None
        stats = plan.stats
        stats.calls += 1
        try:
            if plan.flaw is not None:
                return failed(plan, plan.flaw, self.crashes, call_id=call_id)
            checked = given = plan.arguments.check(arguments)
            if call is not None:
                if call.checks and (pending := self._run_checks(plan, call, checked, limit)) is not None:
                    given, clock = await pending
                call.has_run = True
                if call.on_start is not None:
                    call.on_start(call)
            if plan.owner is not None and not self.applications.is_open(plan.owner):
                await self.applications.open_for(plan.tool, limit, call_id)
            if plan.context is not None:
                clock = clock or (None if limit is None else Clock(limit))
                channel = channel if call is None else call.prepare_questions()
                context = self._context(plan, checked, principal, channel, limit, clock)
            if plan.is_direct:
                result: Result = await run_steps(
                    plan.slots,
                    self._invoke(plan, given, context),
                    limit,
                    self.runner.abandoned_count,
                    clock,
                    outlive,
                )
            else:
                run = Run(plan, given, context, limit, clock, outlive)
                kept = self._run_kept(run, checked, principal, call) if plan.is_repeatable else None
                result = await (kept or self._run_sync(run))
            if context is not None and context.asked:
                context.check_awaited()
            if result.is_error:
                stats.errors += 1
                result = hide_crash(plan, result, self.crashes, call_id)
            return result if plan.budget is None else await plan.budget.fit(result, principal)
        except (CallError, DefinitionError, Raised) as error:
            return failed(plan, error, self.crashes, arguments, call_id)
        except asyncio.CancelledError:
            stats.errors += 1
            raise
        finally:
            if context is not None:
                context.cancel()  # code of the tool that still runs has no caller any more
            # Two lines: in one, another thread could run between reading and writing the sum.
            elapsed = time.perf_counter() - started
            stats.total_s += elapsed

    def _run_checks(
        self, plan: Plan, call: Call, checked: dict[str, Any], limit: float | None
    ) -> Awaitable[tuple[dict[str, Any], Clock | None]] | None:
        """Let middleware check validated arguments. Return what has to be awaited, if a check waits for
        something or converts the arguments. That returns what to call the tool with, and a clock that has
        counted the time of converting."""
        checks = iter(call.checks)
        if call.sees_converted and plan.arguments.changing:
            return self._await_checks(plan, call, checked, limit, checks)
        for check in checks:
            if (pending := check(call, checked)) is not None:
                return self._await_checks(plan, call, checked, limit, checks, pending)
        return None

    async def _await_checks(
        self,
        plan: Plan,
        call: Call,
        checked: dict[str, Any],
        limit: float | None,
        checks: Iterator[Check],
        pending: Awaitable[None] | None = None,
    ) -> tuple[dict[str, Any], Clock | None]:
        given, clock = checked, None
        arguments, slots = plan.arguments, plan.slots

        async def convert() -> Received:
            """Convert where the tool would do it: on a thread, if its code runs on one."""
            nonlocal given, clock
            work = functools.partial(arguments.convert, checked)
            if plan.mode == "thread" and arguments.runs_user_code:
                clock = None if limit is None else Clock(limit)
                given = await self.runner.run_thread(slots, work, limit, None, clock, call.outlive)
            else:
                given = self.runner.run_inline(slots, work)
            return arguments.receive(checked, given)

        if pending is None:
            call.convert = convert
        else:
            await pending
        for check in checks:
            if (pending := check(call, checked)) is not None:
                await pending
        return given, clock

    async def _invoke(self, plan: Plan, checked: dict[str, Any], context: Context | None) -> Result:
        """Run the parts of an async call that run the author's code, so that the deadline covers all of
        them."""
        if plan.is_plain:
            value = plan.handler(**plan.arguments.bind(checked))
        else:
            args, values = plan.bind(checked, context, self.server)
            value = plan.handler(*args, **values)
        if not plan.is_stream:
            value = await value
        if type(value) not in BUILT_IN and is_unfinished(value):
            return await settle(plan, value)
        return plan.results.finish(value)

    async def _run_kept(
        self, run: Run, checked: dict[str, Any], principal: Principal, call: Call | None
    ) -> Result:
        """Return the kept result of a call, or run the tool and keep what it returns: see `cache_s`."""
        plan, options = run.plan, run.plan.tool.options
        if options.cache_s is None:
            return await self._run_again(run)
        caller = None if options.cache == "shared" else principal
        key = (plan.owner_of_results, caller, codec.digest(checked))
        result = RESULTS.get(key)
        if result is not None:
            if call is not None:
                call.record.is_cached = True
            return result
        result = await self._run_again(run)
        if not result.is_error and not run.has_asked:
            RESULTS.put(key, result, options.cache_s)
        return result

    async def _run_again(self, run: Run) -> Result:
        """Run a tool, and again after an unexpected exception: see `retries`. One clock counts all of it."""
        plan, limit = run.plan, run.limit
        clock = run.clock or (None if limit is None else Clock(limit))
        run = run._replace(clock=clock)
        number = 0
        while True:
            number += 1
            try:
                if plan.mode != "async":
                    return await self._run_sync(run)
                return await self._run_coroutine(run, self._invoke(plan, run.given, run.context))
            except (Raised, ToolCrashedError) as error:
                pause_s = FIRST_PAUSE_S * 2 ** (number - 1) * random.uniform(0.5, 1.5)  # noqa: S311
                is_over = run.has_asked or number > plan.tool.options.retries
                if is_over or (clock is not None and clock.left_s <= pause_s) or not may_repeat(plan, error):
                    raise
            text = "tool '%s' failed unexpectedly; it runs again in %.2f s"
            logger.info(text, plan.tool.name, pause_s, extra={"tool_name": plan.tool.name})
            if clock is not None:
                clock.start(asyncio.get_running_loop(), lambda: None)
            try:
                await asyncio.sleep(pause_s)
            finally:
                if clock is not None:
                    clock.stop()

    async def _run_sync(self, run: Run) -> Result:
        plan, given, context, limit, clock, outlive = run
        if plan.mode == "process":
            return await self._run_process(run)
        work = functools.partial(self._work, plan, given, context)
        if plan.mode == "inline":
            outcome = self.runner.run_inline(plan.slots, work)
        else:
            abandon = None if context is None else context.cancel
            clock = clock or (None if limit is None else Clock(limit))
            outcome = await self.runner.run_thread(
                plan.slots, work, limit, abandon, clock, outlive, needs_no_task=plan.needs_no_task
            )
        if isinstance(outcome, Result):
            return outcome
        return await self._run_coroutine(run._replace(clock=clock), settle(plan, outcome))

    async def _run_coroutine(self, run: Run, coroutine: Coroutine[Any, Any, Result]) -> Result:
        result: Result = await run_steps(
            run.plan.slots, coroutine, run.limit, self.runner.abandoned_count, run.clock, run.outlive
        )
        return result

    def _work(self, plan: Plan, checked: dict[str, Any], context: Context | None) -> Any:
        """Run a sync call. An awaitable that it returns is awaited on the event loop later."""
        args, values = plan.bind(checked, context, self.server)
        value = plan.handler(*args, **values)
        return value if is_unfinished(value) else plan.results.finish(value)

    async def _run_process(self, run: Run) -> Result:
        plan, given, _, limit, clock, outlive = run
        args, values = self.runner.run_inline(plan.slots, lambda: plan.bind(given, None, self.server))
        modules, converter = tool_modules(plan.tool), plan.converter
        returned = await self.runner.run_process(
            plan.slots, plan.handler, tuple(args), values, limit, modules, outlive, converter, clock
        )
        result: Result = self.runner.run_inline(plan.slots, lambda: plan.results.receive(returned))
        return result

    def forget(self, tool: Component | Callable[..., Any] | str | None = None) -> None:
        """Drop the kept results of a tool, which is named, or of all. A run that has begun keeps nothing."""
        named = self.registry.get(tool) if isinstance(tool, str) else tool
        for item, plan in list(self._plan_of.items()):
            if tool is None or named in (item, item.origin) or item.name == tool:
                owner, plan.owner_of_results = plan.owner_of_results, object()
                RESULTS.forget(owner)

    # --- plans ---

    def _plan(self, name: str, principal: Principal) -> Plan:
        """Return the plan of a tool that is called for the first time, or by an alias."""
        snapshot = self.registry.snapshot
        search = self.tool_search
        stand_in = None if search is None else search.find_search_tool(name, principal)
        if stand_in is not None:
            return self._make_plan(stand_in, is_built_in=True)
        tool = snapshot.find(name)
        if tool is None:
            raise ToolNotFoundError(name)
        try:
            plan = self._find_plan(tool)
        except DefinitionError as error:
            raise ToolNotFoundError(name) from error
        with self._lock:
            if self._seen is snapshot:  # otherwise the tool may have been removed meanwhile
                plan = self._plan_of.setdefault(tool, plan)
                if name == tool.name and (search is None or not is_search_name(name)):
                    self._plans[name] = plan  # for other names it depends on the principal
        return plan

    def _plan_component(self, component: Component) -> Plan | None:
        """Return the plan of a resource or a prompt; None if it cannot be built, and so is not published."""
        seen = (self.resources.snapshot, self.prompts.snapshot)
        known = self._others_seen
        if known is None or known[0] is not seen[0] or known[1] is not seen[1]:
            with self._lock:
                self._drop_plans()
                self._others_seen = seen
                self._drop_stats()
        try:
            return self._plan_of.setdefault(component, self._find_plan(component))
        except DefinitionError:
            return None

    def _find_plan(self, component: Component) -> Plan:
        """Return the plan of a component, made if there is none. Raise DefinitionError for one that cannot be
        built: it is not published any more."""
        plan = self._plan_of.get(component)
        if plan is not None:
            return plan
        try:
            _ = component.definition
        except DefinitionError as error:
            self.registries[component.kind].quarantine(component, error)
            raise
        kept = self.kept_results  # access rules are those of the tool whose result it is
        return self._make_plan(component, is_built_in=kept is not None and component is kept.resource)

    def _make_plan(self, component: Component, *, is_built_in: bool) -> Plan:
        plan = Plan(component, self.stats.setdefault(component.reference, ToolStats()))
        plan.is_built_in = is_built_in
        if component.kind == "tool" and not is_built_in:
            plan.budget = self._budget(component)
        plan.chain = self._compose(plan)
        plan.needs_no_task = self.pipeline is None or not self.pipeline.has_middleware
        return plan

    def _refresh(self) -> None:
        """Keep the plans of tools that are still there; running calls keep the plan they have."""
        with self._lock:
            snapshot = self.registry.snapshot
            self._drop_plans()
            self._plans = {
                name: plan for name, plan in self._plans.items() if snapshot.find(name) is plan.tool
            }
            self._drop_stats()
            self._seen = snapshot

    def _context(
        self,
        plan: Plan,
        checked: dict[str, Any],
        principal: Principal,
        channel: Channel,
        limit: float | None,
        clock: Clock | None,
    ) -> Context:
        return Context(
            tool=plan.tool.name,
            arguments=checked,
            principal=principal,
            channel=channel,
            server=self.server,
            deadline=None if limit is None else time.monotonic() + limit,
            loop=asyncio.get_running_loop(),
            pause=None if clock is None else clock.hold,
            read_form=_read_form,
        )

    def _drop_stats(self) -> None:
        """Drop the statistics of what is no longer registered, where they are many."""
        served = sum(map(len, self.registries.values()))
        if len(self.stats) > 2 * served + KEPT_STATS:
            known = {tool.reference for each in self.registries.values() for tool in each}
            find = self.registry.snapshot.find
            self.stats = {name: item for name, item in self.stats.items() if name in known or find(name)}

    def _drop_plans(self) -> None:
        """Drop the plans of what is no longer registered: they would keep what was removed alive."""
        self._plan_of = {
            tool: plan
            for tool, plan in self._plan_of.items()
            if tool in self.registries[tool.kind].versions(tool.name)
        }

    # --- large results ---

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

    def close(self) -> None:
        self.runner.close()
        self.crashes.flush(1.0)


def _read_form(schema: Any) -> tuple[Mapping[str, Any], Convert | None]:
    from toolcrib.schema.arguments import read_form  # start-up time: few tools ask

    return read_form(schema)


def is_unfinished(value: Any) -> bool:
    """Return whether a value has to be awaited: a coroutine, a future or an async generator."""
    return type(value) not in BUILT_IN and (inspect.isawaitable(value) or hasattr(value, "__anext__"))


async def settle(plan: Plan, value: Any) -> Result:
    """Return the result of a value that has to be awaited."""
    if not hasattr(value, "__anext__"):
        value = await value
    if hasattr(value, "__anext__"):
        value = await plan.results.gather(value)
    return plan.results.finish(value)


def _check_limit(timeout_s: Any) -> float:
    if not isinstance(timeout_s, int | float) or not 0 < timeout_s <= MAX_TIMEOUT_S:
        raise ValueError(f"timeout_s must be above 0 and at most {MAX_TIMEOUT_S:g}, got {timeout_s!r}")
    return timeout_s
