"""Calls tools: look up, validate and convert the arguments, run the tool, validate and convert the result.

`call` and `view` are the only ways to reach the tools of a server. A failure of a call becomes a Result that
the caller can act on; only an unknown tool raises.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import random
import secrets
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolcrib.component import Component, Kind
from toolcrib.content import BUILT_IN, Result, text_block
from toolcrib.context import LOCAL, NO_CHANNEL, Channel, Context, InputNeeded, Principal, find_misuse
from toolcrib.dispatch.crash_log import CrashReporter, Raised
from toolcrib.dispatch.deadline import run_steps
from toolcrib.dispatch.lifespan import Applications
from toolcrib.dispatch.middleware import Call, LongCall, Next, Pipeline, refusal_result
from toolcrib.dispatch.result_cache import RESULTS
from toolcrib.dispatch.runners import Clock, Outlive, Runner, ToolSlots
from toolcrib.dispatch.tool_search import ToolSearch, is_search_name
from toolcrib.errors import (
    CallError,
    ContextError,
    DefinitionError,
    InsufficientScopeError,
    InvalidResultError,
    PolicyError,
    ToolBusyError,
    ToolCrashedError,
    ToolNotFoundError,
)
from toolcrib.options import MAX_TIMEOUT_S
from toolcrib.registry.index import Snapshot
from toolcrib.registry.registry import ToolRegistry
from toolcrib.validation import codec
from toolcrib.validation.schema_tree import Mirrored

if TYPE_CHECKING:
    from toolcrib.dispatch.large_results import ResultBudget
    from toolcrib.schema.received import Received
    from toolcrib.schema.result import ResultConverter
    from toolcrib.schema.shapes import Convert

logger = logging.getLogger("toolcrib")

DEFAULT_THREADS = 32
FIRST_PAUSE_S = 0.1
"""About how long a tool waits before its second try; each further pause is twice as long."""


@dataclass(slots=True)
class ToolStats:
    """Statistics of the calls of one tool."""

    calls: int = 0
    errors: int = 0
    total_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        average = self.total_s / self.calls * 1000 if self.calls else 0.0
        return {"calls": self.calls, "errors": self.errors, "average_ms": round(average, 3)}


class Plan:
    """Everything that a call of one tool needs, prepared once."""

    def __init__(self, tool: Component, stats: ToolStats) -> None:
        arguments = tool.arguments
        run = tool.options.run
        self.tool = tool
        self.stats = stats
        self.slots = ToolSlots(
            tool.name, label=tool.label, max_threads=tool.options.max_threads or DEFAULT_THREADS
        )
        self.handler = tool.handler
        needs_owner = tool.adoption is None or tool.adoption.needs_server
        self.owner = tool.owner if needs_owner else None
        self.mirrored = tool.definition.mirrored
        self.arguments = arguments
        self.results = tool.results
        self.budget: ResultBudget | None = None
        self.timeout_s = tool.options.timeout_s
        self.context = arguments.context
        self.server = arguments.server
        self.positional = arguments.positional
        self.is_plain = arguments.context is None and arguments.server is None and not arguments.positional
        self.is_stream = inspect.isasyncgenfunction(tool.handler)
        self.mode = "async" if tool.is_async and run != "process" else "thread" if run == "auto" else run
        self.is_repeatable = tool.options.cache_s is not None or tool.options.retries > 0
        self.is_direct = self.mode == "async" and not self.is_repeatable
        self.owner_of_results = object()
        """Stands for the tool in the keys of its kept results; another object from `forget` on."""
        self.chain: Next | None = None  # through the middleware, composed when the tool is first called
        self.is_built_in = False
        self.flaw: DefinitionError | None = None
        try:
            tool.check()
        except DefinitionError as error:
            self.flaw = error

    @property
    def converter(self) -> ResultConverter:
        """Return the converter that makes data of results in the process where the tool runs."""
        from toolcrib.schema.result import ResultConverter  # few servers have such tools

        results = self.results
        function = None if results.dump is None else self.tool.info.handler
        return ResultConverter(self.tool.name, function, has_schema=results.schema is not None)

    def bind(
        self, checked: dict[str, Any], context: Context | None, server: Any
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return validated arguments as positional and keyword arguments of the handler."""
        values = dict(self.arguments.bind(checked))
        if self.context is not None:
            values[self.context] = context
        if self.server is not None:
            values[self.server] = server
        return [values.pop(name, default) for name, default in self.positional], values


def tool_modules(tool: Component) -> list[tuple[str, str]]:
    """Return modules that were loaded from files, which another process has to load first."""
    module = sys.modules.get(getattr(tool.info.function, "__module__", None) or "")
    path = getattr(module, "__toolcrib_file__", None)
    return [(module.__name__, path)] if module is not None and path else []


def failed(
    plan: Plan,
    error: CallError | DefinitionError | Raised,
    crashes: CrashReporter,
    given: Any = None,
    call_id: str | None = None,
) -> Result:
    """Return the result of a call that failed. Raise InputNeeded for one that asks.

    An unexpected exception is logged under a reference, which the caller gets: the id of the call if it has
    one. The values that the tool was `given` are kept out of the log.
    """
    if isinstance(error, Raised):
        raise_questions(error.error)
    plan.stats.errors += 1
    if isinstance(error, PolicyError):
        return refusal_result(error)
    reported = _explain(plan, error.error if isinstance(error, Raised) else error, crashes, given, call_id)
    text = _message_of(reported)
    if text is None or len(text) > plan.results.max_bytes:
        reported = InvalidResultError(f"{plan.tool.label} failed, and its error message cannot be sent.")
        text = str(reported)
    return Result([text_block(text)], is_error=True, error=reported)


def _explain(
    plan: Plan, error: BaseException, crashes: CrashReporter, given: Any, call_id: str | None
) -> CallError:
    """Return what the caller learns of an exception: the author's message, or a reference and nothing
    else."""
    cause = error
    while isinstance(cause, BaseExceptionGroup) and len(cause.exceptions) == 1:
        cause = cause.exceptions[0]  # a task group wraps even a single error
    if isinstance(cause, CallError) and not (crashes.hides_adopted and getattr(cause, "is_crash", False)):
        return cause
    foreign = _explain_adopted(plan, cause)
    if foreign is not None and not isinstance(foreign, ToolCrashedError):
        return foreign  # its author meant it to be read
    reference = call_id or secrets.token_hex(4)
    crashes.report(plan.tool.name, error, reference, given)
    if foreign is not None and not crashes.hides_adopted:
        return foreign
    misuse = find_misuse(cause)
    if misuse is not None:
        return ContextError(f"{plan.tool.label} has an error: {misuse} (reference {reference}).")
    if isinstance(error, DefinitionError):
        hint = (error.hint if error.tool == plan.tool.name else None) or "see the log of the server"
        text = f"{plan.tool.label} cannot run as it is defined: {hint} (reference {reference})."
        return ToolCrashedError(text)
    return ToolCrashedError(f"{plan.tool.label} failed unexpectedly (reference {reference}).")


def _read_form(schema: Any) -> tuple[Mapping[str, Any], Convert | None]:
    from toolcrib.schema.arguments import read_form  # start-up time: few tools ask

    return read_form(schema)


def _explain_adopted(plan: Plan, error: BaseException) -> CallError | None:
    """Return what another library would tell the caller of an exception of its function, or None."""
    adoption = plan.tool.adoption
    if adoption is None or not isinstance(error, Exception):
        return None
    try:
        return adoption.explain(error)
    except Exception:
        return None  # an error class whose __str__ fails


def _hide_crash(plan: Plan, result: Result, crashes: CrashReporter, call_id: str | None) -> Result:
    """Return an error result. Those of other libraries' servers lose their text if that is hidden and a crash
    may be behind it: both libraries put the same words before the message of an exception."""
    is_hidden = crashes.hides_adopted and plan.tool.adoption is not None
    if not is_hidden or not result.text.startswith(("Error calling tool ", "Error executing tool ")):
        return result
    reference = call_id or secrets.token_hex(4)
    crashes.report(plan.tool.name, ToolCrashedError(result.text), reference)
    hidden = ToolCrashedError(f"{plan.tool.label} failed unexpectedly (reference {reference}).")
    return Result([text_block(str(hidden))], is_error=True, error=hidden)


def may_repeat(plan: Plan, error: Raised | ToolCrashedError) -> bool:
    """Return whether a tool may be run again: its process was lost, or it raised an exception that it did not
    mean for its caller."""
    if isinstance(error, ToolCrashedError):
        return True
    return all(
        isinstance(part, Exception)
        and not isinstance(part, CallError | DefinitionError)
        and isinstance(_explain_adopted(plan, part), ToolCrashedError | None)
        for part in _leaves(error.error)
    )


def raise_questions(error: BaseException) -> None:
    """Raise InputNeeded if the tool asks questions, possibly from several tasks of its own at the same
    time."""
    questions: dict[str, Any] = {}
    for part in _leaves(error):
        if not isinstance(part, InputNeeded):
            return
        questions |= part.questions
    raise InputNeeded(questions)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions in a group, or the exception itself."""
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _leaves(part)
    else:
        yield error


def _message_of(error: CallError) -> str | None:
    """Return the text of an error as it can be sent, or None if it has none."""
    try:
        text = str(error) or type(error).__name__
    except Exception:
        return None  # an error class whose __str__ fails
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


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


DEFAULT_TIMEOUT_S = 60.0
KEPT_STATS = 1000
"""Statistics of removed tools that are kept, at most."""


class Dispatcher:
    """Calls the tools of one registry. `server` is passed to handlers that ask for it."""

    def __init__(
        self, registry: ToolRegistry, *, server: Any = None, timeout_s: float | None = DEFAULT_TIMEOUT_S
    ) -> None:
        self.registry = registry
        self.registries: dict[Kind, ToolRegistry] = {"tool": registry}
        self.server = server
        self.timeout_s = None if timeout_s is None else _check_limit(timeout_s)
        self.runner = Runner()
        self.crashes = CrashReporter()
        self.applications = Applications(self.registries.values(), self.crashes)
        self.pipeline: Pipeline | None = None
        self.tool_search: ToolSearch | None = None
        self.is_stopped = False
        self.stats: dict[str, ToolStats] = {}
        self._lock = threading.Lock()
        self._seen: Snapshot | None = None
        self._plans: dict[str, Plan] = {}
        self._plan_of: dict[Component, Plan] = {}
        self._viewed: dict[ToolRegistry, tuple[Snapshot, tuple[Component, ...]]] = {}

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
        return () if self.pipeline is None else self.pipeline.missing_scopes(principal, tool)

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

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        principal: Principal = LOCAL,
        channel: Channel = NO_CHANNEL,
        timeout_s: float | None = None,
    ) -> Coroutine[Any, Any, Result]:
        """Return a coroutine that calls a tool.

        It raises ToolNotFoundError, and ValueError for an invalid `timeout_s`; every other failure is a
        Result with `is_error`.
        """
        if self._seen is self.registry.cached_snapshot and self.pipeline is None and timeout_s is None:
            plan = self._plans.get(name)
            if plan is not None and not self.is_stopped:  # the common case, without a coroutine in between
                limit = self.timeout_s if plan.timeout_s is None else plan.timeout_s
                return self._perform(plan, arguments, principal, limit, channel)
        return self._call(name, arguments, principal, channel, timeout_s)

    async def _call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        principal: Principal,
        channel: Channel,
        timeout_s: float | None,
        long: LongCall | None = None,
    ) -> Result:
        if self.is_stopped:
            stopped = ToolBusyError(f"Tool '{name}' cannot run: the server has stopped.")
            return Result([text_block(str(stopped))], is_error=True, error=stopped)
        if self._seen is not self.registry.snapshot:
            self._refresh()
        plan = self._plans.get(name)
        if plan is None:
            meant = self.forward(name, arguments, principal)
            if meant is not None:
                return await self._call(*meant, principal, channel, timeout_s, long)
            try:
                plan = self._plan(name, principal)
                if self.pipeline is not None and not self._is_there(plan.tool, principal):
                    raise ToolNotFoundError(name)
            except ToolNotFoundError:
                if self.pipeline is not None:
                    call = Call(self.pipeline.next_id(), name, None, arguments, principal, channel)
                    await self.pipeline.reject_unknown(call)
                raise
        return await self._start(plan, name, arguments, principal, channel, timeout_s, long)

    def _start(
        self,
        plan: Plan,
        name: str,
        arguments: Mapping[str, Any] | None,
        principal: Principal,
        channel: Channel,
        timeout_s: float | None,
        long: LongCall | None = None,
    ) -> Awaitable[Result]:
        limit = self.timeout_s if plan.timeout_s is None else plan.timeout_s
        if long is not None and plan.timeout_s is None:
            limit = long.timeout_s
        if timeout_s is not None:
            limit = _shorten(limit, timeout_s)
        if self.pipeline is None and long is None:
            return self._perform(plan, arguments, principal, limit, channel)
        id_ = secrets.token_hex(4) if self.pipeline is None else self.pipeline.next_id()
        call = Call(id_, name, plan.tool, arguments, principal, channel, limit, plan.is_built_in)
        call.on_start = None if long is None else long.on_start
        if self.pipeline is None:
            return self._perform(plan, arguments, principal, limit, channel, call)
        chain = plan.chain
        if chain is None:
            chain = plan.chain = self._compose(plan, self.pipeline)
        return chain(call)

    def _compose(self, plan: Plan, pipeline: Pipeline) -> Next:
        """Return the middleware chain of one tool."""

        def run(call: Call) -> Awaitable[Result]:
            return self._perform(plan, call.arguments, call.principal, call.timeout_s, call.channel, call)

        def fail(call: Call, error: BaseException) -> Result:
            reported = error if isinstance(error, CallError) else Raised(error)
            return failed(plan, reported, self.crashes, call.arguments, call.id)

        return pipeline.compose(plan.tool, run, fail)

    def use(self, pipeline: Pipeline | None) -> None:
        """Put this middleware around calls from now on."""
        with self._lock:
            self.pipeline = pipeline
            self._plans, self._plan_of = {}, {}  # they hold what was composed before

    async def _perform(
        self,
        plan: Plan,
        arguments: Mapping[str, Any] | None,
        principal: Principal,
        limit: float | None,
        channel: Channel,
        call: Call | None = None,
    ) -> Result:
        """Validate the arguments, let middleware check them, and run the tool. `call` is None without
        middleware."""
        outlive, call_id = (None, None) if call is None else (call.outlive, call.id)
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
                if call.checks:
                    given, clock = await self._run_checks(plan, call, checked, limit)
                call.begin()
            if plan.owner is not None and not self.applications.is_open(plan.owner):
                await self.applications.open_for(plan.tool, limit, call_id)
            if plan.context is not None:
                clock = clock or (None if limit is None else Clock(limit))
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
                kept = plan.is_repeatable and functools.partial(self._run_kept, checked, principal, call)
                result = await (kept or self._run_sync)(plan, given, context, limit, clock, outlive)
            if context is not None and context.asked:
                context.check_awaited()
            if result.is_error:
                stats.errors += 1
                result = _hide_crash(plan, result, self.crashes, call_id)
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

    async def _run_checks(
        self, plan: Plan, call: Call, checked: dict[str, Any], limit: float | None
    ) -> tuple[dict[str, Any], Clock | None]:
        """Let middleware check validated arguments. Return what to call the tool with, and a clock that has
        counted the time of converting them."""
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

        if call.sees_converted and arguments.changing:
            call.convert = convert
        for check in call.checks:
            if (pending := check(call, checked)) is not None:
                await pending
        return given, clock

    def reject(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        principal: Principal,
        channel: Channel,
        error: BaseException,
    ) -> None:
        """Record a call that ended before its tool was looked up, because there was no room for it."""
        if self.pipeline is not None:
            call = Call(self.pipeline.next_id(), name, None, arguments, principal, channel)
            self.pipeline.reject(call, error)

    # --- running ---

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
        self,
        checked: dict[str, Any],
        principal: Principal,
        call: Call | None,
        plan: Plan,
        given: dict[str, Any],
        context: Context | None,
        *limits: Any,
    ) -> Result:
        """Return the kept result of a call, or run the tool and keep what it returns: see `cache_s`."""
        options = plan.tool.options
        if options.cache_s is None:
            return await self._run_again(plan, given, context, *limits)
        caller = None if options.cache == "shared" else principal
        key = (plan.owner_of_results, caller, codec.digest(checked))
        result = RESULTS.get(key)
        if result is not None:
            if call is not None:
                call.is_cached = True
            return result
        result = await self._run_again(plan, given, context, *limits)
        if not result.is_error and (context is None or context.asked is None):
            RESULTS.put(key, result, options.cache_s)
        return result

    async def _run_again(
        self,
        plan: Plan,
        checked: dict[str, Any],
        context: Context | None,
        limit: float | None,
        clock: Clock | None,
        outlive: Outlive | None,
    ) -> Result:
        """Run a tool, and again after an unexpected exception: see `retries`. One clock counts all of it."""
        clock = clock or (None if limit is None else Clock(limit))
        number = 0
        while True:
            number += 1
            try:
                if plan.mode != "async":
                    return await self._run_sync(plan, checked, context, limit, clock, outlive)
                running = self._invoke(plan, checked, context)
                count = self.runner.abandoned_count
                result: Result = await run_steps(plan.slots, running, limit, count, clock, outlive)
                return result
            except (Raised, ToolCrashedError) as error:
                pause_s = FIRST_PAUSE_S * 2 ** (number - 1) * random.uniform(0.5, 1.5)  # noqa: S311
                has_asked = context is not None and context.asked is not None
                is_over = has_asked or number > plan.tool.options.retries
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

    async def _run_sync(
        self,
        plan: Plan,
        checked: dict[str, Any],
        context: Context | None,
        limit: float | None,
        clock: Clock | None,
        outlive: Outlive | None,
    ) -> Result:
        if plan.mode == "process":
            return await self._run_process(plan, checked, limit, clock, outlive)
        work = functools.partial(self._work, plan, checked, context)
        if plan.mode == "inline":
            outcome = self.runner.run_inline(plan.slots, work)
        else:
            abandon = None if context is None else context.cancel
            clock = clock or (None if limit is None else Clock(limit))
            outcome = await self.runner.run_thread(plan.slots, work, limit, abandon, clock, outlive)
        if isinstance(outcome, Result):
            return outcome
        result: Result = await run_steps(
            plan.slots, settle(plan, outcome), limit, self.runner.abandoned_count, clock, outlive
        )
        return result

    def _work(self, plan: Plan, checked: dict[str, Any], context: Context | None) -> Any:
        """Run a sync call. An awaitable that it returns is awaited on the event loop later."""
        args, values = plan.bind(checked, context, self.server)
        value = plan.handler(*args, **values)
        return value if is_unfinished(value) else plan.results.finish(value)

    async def _run_process(
        self,
        plan: Plan,
        checked: dict[str, Any],
        limit: float | None,
        clock: Clock | None,
        outlive: Outlive | None,
    ) -> Result:
        args, values = self.runner.run_inline(plan.slots, lambda: plan.bind(checked, None, self.server))
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

    # --- inside ---

    def _plan(self, name: str, principal: Principal) -> Plan:
        """Return the plan of a tool that is called for the first time, or by an alias."""
        snapshot = self.registry.snapshot
        search = self.tool_search
        stand_in = None if search is None else search.find_search_tool(name, principal)
        if stand_in is not None:
            found = Plan(stand_in, self.stats.setdefault(name, ToolStats()))
            found.is_built_in = True
            return found
        tool = snapshot.find(name)
        if tool is None:
            raise ToolNotFoundError(name)
        plan = self._plan_of.get(tool)
        if plan is None:
            try:
                _ = tool.definition
            except DefinitionError as error:
                self.registry.quarantine(tool, error)
                raise ToolNotFoundError(name) from error  # a tool that cannot be built is not published
            plan = self._make_plan(tool)
        with self._lock:
            if self._seen is snapshot:  # otherwise the tool may have been removed meanwhile
                plan = self._plan_of.setdefault(tool, plan)
                if name == tool.name and (search is None or not is_search_name(name)):
                    self._plans[name] = plan  # for other names it depends on the principal
        return plan

    def _make_plan(self, tool: Component) -> Plan:
        return Plan(tool, self.stats.setdefault(tool.reference, ToolStats()))

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

    def close(self) -> None:
        self.runner.close()
        self.crashes.flush(1.0)


def _shorten(limit: float | None, asked: float) -> float:
    """Return the shorter of two time limits: a caller cannot get more time than the tool has."""
    asked = _check_limit(asked)
    return asked if limit is None else min(asked, limit)


def _check_limit(timeout_s: Any) -> float:
    if not isinstance(timeout_s, int | float) or not 0 < timeout_s <= MAX_TIMEOUT_S:
        raise ValueError(f"timeout_s must be above 0 and at most {MAX_TIMEOUT_S:g}, got {timeout_s!r}")
    return timeout_s
