"""The one way to call a tool: look up, check, convert, run, check the output, normalise.

Knows the registry and how to have code run. Has two doors, `call` and `view`, and nothing sees tools by
another way. What goes wrong in a call becomes a Result that its caller can act on; only an unknown tool
raises. Refuses to know protocols and where tools come from.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.content import Result, text_block
from toolcrib.context import LOCAL, NOBODY, Channel, Context, Principal
from toolcrib.definition import MAX_TIMEOUT_S
from toolcrib.errors import CallError, DefinitionError, ToolCrashedError, ToolNotFoundError
from toolcrib.execution import CrashReporter, Lane, Raised, Runner
from toolcrib.keyspace import Snapshot
from toolcrib.registry import ToolRegistry
from toolcrib.tool import Tool

DEFAULT_TIMEOUT_S = 60.0
DEFAULT_THREADS = 32


@dataclass(slots=True)
class ToolStats:
    """What became of a tool's calls so far."""

    calls: int = 0
    errors: int = 0
    total_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        average = self.total_s / self.calls * 1000 if self.calls else 0.0
        return {"calls": self.calls, "errors": self.errors, "average_ms": round(average, 3)}


class _Plan:
    """Everything a call of one tool needs, gathered once."""

    __slots__ = (
        "arguments",
        "context",
        "handler",
        "lane",
        "mode",
        "positional",
        "results",
        "server",
        "stats",
        "tool",
    )

    def __init__(self, tool: Tool, lane: Lane, stats: ToolStats) -> None:
        built = tool.built
        binder = built.arguments.binder
        self.tool = tool
        self.lane = lane
        self.stats = stats
        self.handler = tool.handler
        self.arguments = built.arguments
        self.results = built.results
        self.context = binder.context
        self.server = binder.server
        self.positional = binder.positional
        run = tool.options.run
        self.mode = (
            "process"
            if run == "process"
            else "async"
            if tool.is_async
            else "thread"
            if run == "auto"
            else run
        )
        if tool.is_async and inspect.isasyncgenfunction(tool.callee.function):
            self.handler = functools.partial(_drain, tool.handler)

    def bind(
        self, checked: dict[str, Any], context: Context | None, server: Any
    ) -> tuple[list[Any], dict[str, Any]]:
        """Checked arguments as positional and keyword arguments of the handler."""
        values = self.arguments.bind(checked)
        if context is not None or self.server is not None or self.positional:
            values = dict(values)
            if self.context is not None:
                values[self.context] = context
            if self.server is not None:
                values[self.server] = server
        return [values.pop(name, default) for name, default in self.positional], values


class Dispatcher:
    """Calls the tools of one registry. `server` is handed to handlers that ask for it."""

    def __init__(
        self, registry: ToolRegistry, *, server: Any = None, timeout_s: float | None = DEFAULT_TIMEOUT_S
    ) -> None:
        self.registry = registry
        self.server = server
        self.timeout_s = timeout_s
        self.runner = Runner()
        self.crashes = CrashReporter()
        self.stats: dict[str, ToolStats] = {}
        self._lock = threading.Lock()
        self._seen: Snapshot | None = None
        self._plans: dict[str, _Plan] = {}

    def view(self, principal: Principal = LOCAL) -> list[Tool]:  # noqa: ARG002 - policies look at it
        """The tools a principal may see, which are those it may call."""
        return [self.registry.get(definition.name) for definition in self.registry.definitions()]

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        principal: Principal = LOCAL,
        channel: Channel = NOBODY,
        timeout_s: float | None = None,
    ) -> Result:
        """Call a tool. Raises ToolNotFoundError; every other failure is a Result with `is_error`."""
        if self._seen is not self.registry.snapshot:
            self._refresh()
        plan = self._plans.get(name) or self._plan(name)
        limit = self._limit(plan.tool, timeout_s)
        started = time.perf_counter()
        context: Context | None = None
        stats = plan.stats
        stats.calls += 1
        try:
            checked = plan.arguments.check(arguments)
            if plan.context is not None:
                context = self._context(plan, checked, principal, channel, limit)
            if plan.mode == "async":
                result: Result = await self.runner.run_async(
                    plan.lane, self._invoke(plan, checked, context), limit
                )
            else:
                result = await self._run_sync(plan, checked, context, limit)
            if result.is_error:
                stats.errors += 1
            return result
        except CallError as error:
            return self._failed(stats, error)
        except Raised as raised:
            return self._failed(stats, self._explain(plan, raised.error))
        except asyncio.CancelledError:
            stats.errors += 1
            if context is not None:
                context.cancel()
            raise
        finally:
            stats.total_s += time.perf_counter() - started

    # --- running ---

    async def _invoke(self, plan: _Plan, checked: dict[str, Any], context: Context | None) -> Result:
        """The whole of an async call that can run the author's code, so that all of it is guarded."""
        args, values = plan.bind(checked, context, self.server)
        value = await plan.handler(*args, **values)
        return plan.results.finish(_materialise(value))

    async def _run_sync(
        self, plan: _Plan, checked: dict[str, Any], context: Context | None, limit: float | None
    ) -> Result:
        if plan.mode == "process":
            return await self._run_process(plan, checked, limit)
        work = functools.partial(self._work, plan, checked, context)
        if plan.mode == "inline":
            outcome = self.runner.run_inline(plan.lane, work)
        else:
            abandon = None if context is None else context.cancel
            outcome = await self.runner.run_thread(plan.lane, work, limit, abandon)
        if isinstance(outcome, Result):
            return outcome
        return await self.runner.run_async(plan.lane, self._await(plan, outcome), limit)  # type: ignore[no-any-return]

    def _work(self, plan: _Plan, checked: dict[str, Any], context: Context | None) -> Any:
        """The whole of a sync call. A plain function that returns an awaitable is awaited on the loop."""
        args, values = plan.bind(checked, context, self.server)
        value = plan.handler(*args, **values)
        return value if inspect.isawaitable(value) else plan.results.finish(_materialise(value))

    async def _await(self, plan: _Plan, outcome: Any) -> Result:
        return plan.results.finish(_materialise(await outcome))

    async def _run_process(self, plan: _Plan, checked: dict[str, Any], limit: float | None) -> Result:
        def prepare() -> tuple[list[Any], dict[str, Any]]:
            return plan.bind(checked, None, self.server)

        args, values = self.runner.run_inline(plan.lane, prepare)
        value = await self.runner.run_process(
            plan.lane, plan.handler, tuple(args), values, limit, preload=tool_modules(plan.tool)
        )
        result: Result = self.runner.run_inline(plan.lane, lambda: plan.results.finish(value))
        return result

    # --- inside ---

    def _plan(self, name: str) -> _Plan:
        tool = self.registry.snapshot.find(name)
        if tool is None:
            raise ToolNotFoundError(name)
        with self._lock:
            plan = self._plans.get(tool.name)
            if plan is None or plan.tool is not tool:
                try:
                    plan = self._make_plan(tool)
                except DefinitionError:
                    self.registry.definitions()  # says in the log why this one is not published
                    raise ToolNotFoundError(name) from None
                if name == tool.name:
                    self._plans[name] = plan
        return plan

    def _make_plan(self, tool: Tool) -> _Plan:
        lane = Lane(tool.name, max_threads=tool.options.max_threads or DEFAULT_THREADS)
        return _Plan(tool, lane, self.stats.setdefault(tool.name, ToolStats()))

    def _refresh(self) -> None:
        """Keep the plans of tools that are still there; calls under way keep the plan they have."""
        with self._lock:
            snapshot = self.registry.snapshot
            kept = {name: plan for name, plan in self._plans.items() if snapshot.find(name) is plan.tool}
            self._plans, self._seen = kept, snapshot

    def _limit(self, tool: Tool, asked: float | None) -> float | None:
        limit = tool.options.timeout_s or self.timeout_s
        if asked is None:
            return limit
        if not 0 < asked <= MAX_TIMEOUT_S:
            raise ValueError(f"timeout_s must be above 0 and at most {MAX_TIMEOUT_S:g}, got {asked!r}")
        return asked if limit is None else min(asked, limit)

    def _context(
        self,
        plan: _Plan,
        checked: dict[str, Any],
        principal: Principal,
        channel: Channel,
        limit: float | None,
    ) -> Context:
        return Context(
            tool=plan.tool.name,
            arguments=checked,
            principal=principal,
            channel=channel,
            server=self.server,
            deadline=None if limit is None else time.monotonic() + limit,
            loop=asyncio.get_running_loop(),
        )

    def _explain(self, plan: _Plan, error: BaseException) -> CallError:
        """What the caller is told of an exception: the author's words, or a reference and nothing else."""
        if isinstance(error, CallError):
            return error
        reference = secrets.token_hex(4)
        self.crashes.report(plan.tool.name, error, reference)
        return ToolCrashedError(f"Tool '{plan.tool.name}' failed unexpectedly (reference {reference}).")

    def _failed(self, stats: ToolStats, error: CallError) -> Result:
        stats.errors += 1
        text = str(error) or type(error).__name__
        text = text if text.isascii() else text.encode("utf-8", "replace").decode()
        return Result([text_block(text)], is_error=True, error=error)

    def close(self) -> None:
        self.runner.close()
        self.crashes.flush(1.0)


async def _drain(handler: Any, *args: Any, **values: Any) -> list[Any]:
    return [item async for item in handler(*args, **values)]


def _materialise(value: Any) -> Any:
    """A generator runs the author's code: it is exhausted here, where that is guarded."""
    return list(value) if isinstance(value, Iterator) else value


def tool_modules(tool: Tool) -> list[tuple[str, str]]:
    """Modules that were loaded from a file, which another process has to load first."""
    import sys

    module = sys.modules.get(getattr(tool.callee.function, "__module__", None) or "")
    path = getattr(module, "__toolcrib_file__", None)
    return [(module.__name__, path)] if module is not None and path else []
