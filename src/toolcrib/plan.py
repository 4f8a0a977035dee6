"""What a call of one tool needs, gathered once; and what became of its calls.

Knows a tool and what building it came to; refuses to know registries and how code runs.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolcrib.context import Context
from toolcrib.errors import DefinitionError
from toolcrib.execution import Clock, Lane, Runner
from toolcrib.execution.lane import Outlive
from toolcrib.tool import Built, Tool

if TYPE_CHECKING:
    from toolcrib.schema.arguments import Converted
    from toolcrib.schema.received import Received
    from toolcrib.schema.transfer import ResultConverter

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


class Plan:
    """Everything a call of one tool needs, gathered once."""

    __slots__ = (
        "arguments",
        "context",
        "flaw",
        "handler",
        "is_plain",
        "is_stream",
        "lane",
        "mirrored",
        "mode",
        "owner",
        "positional",
        "results",
        "server",
        "stats",
        "timeout_s",
        "tool",
    )

    def __init__(self, tool: Tool, built: Built, stats: ToolStats) -> None:
        binder = built.arguments.binder
        run = tool.options.run
        self.tool = tool
        self.stats = stats
        self.lane = Lane(tool.name, max_threads=tool.options.max_threads or DEFAULT_THREADS)
        self.handler = tool.handler
        self.owner = tool.owner
        self.mirrored = built.definition.mirrored
        self.arguments = built.arguments
        self.results = built.results
        self.timeout_s = tool.options.timeout_s
        self.context = binder.context
        self.server = binder.server
        self.positional = binder.positional
        self.is_plain = binder.context is None and binder.server is None and not binder.positional
        self.is_stream = inspect.isasyncgenfunction(tool.handler)
        self.mode = "async" if tool.is_async and run != "process" else "thread" if run == "auto" else run
        self.flaw: DefinitionError | None = None
        try:
            tool.check()
        except DefinitionError as error:
            self.flaw = error

    @property
    def converter(self) -> ResultConverter:
        """What makes data of results where the tool runs, which is another process."""
        from toolcrib.schema.transfer import ResultConverter  # few servers have such tools

        results = self.results
        function = None if results.dump is None else self.tool.callee.handler
        return ResultConverter(self.tool.name, function, has_schema=results.schema is not None)

    def bind(
        self, checked: dict[str, Any], context: Context | None, server: Any
    ) -> tuple[list[Any], dict[str, Any]]:
        """Checked arguments as positional and keyword arguments of the handler."""
        values = dict(self.arguments.bind(checked))
        if self.context is not None:
            values[self.context] = context
        if self.server is not None:
            values[self.server] = server
        return [values.pop(name, default) for name, default in self.positional], values


def tool_modules(tool: Tool) -> list[tuple[str, str]]:
    """Modules that were loaded from a file, which another process has to load first."""
    module = sys.modules.get(getattr(tool.callee.function, "__module__", None) or "")
    path = getattr(module, "__toolcrib_file__", None)
    return [(module.__name__, path)] if module is not None and path else []


class Conversion:
    """Converts the arguments of one call before it runs, where somebody wants to see what the tool gets.

    `given` is what to call the tool with: `checked` until then. Converting takes time that `clock` counts.
    """

    __slots__ = ("_checked", "_limit", "_outlive", "_plan", "_runner", "clock", "given")

    def __init__(
        self,
        runner: Runner,
        plan: Plan,
        checked: dict[str, Any],
        limit: float | None,
        outlive: Outlive | None,
    ) -> None:
        self._runner = runner
        self._plan = plan
        self._checked = self.given = checked
        self._limit = limit
        self._outlive = outlive
        self.clock: Clock | None = None

    async def __call__(self) -> Received:
        """Where the tool would do it: on a thread, if that is where its code runs."""
        plan, arguments = self._plan, self._plan.arguments
        if plan.mode == "thread" and arguments.runs_code:
            self.clock = None if self._limit is None else Clock(self._limit)
            values = await self._runner.run_thread(
                plan.lane, self._convert, self._limit, None, self.clock, self._outlive
            )
        else:
            values = self._runner.run_inline(plan.lane, self._convert)
        self.given = values
        return arguments.receive(self._checked, values)

    def _convert(self) -> Converted:
        return self._plan.arguments.convert(self._checked)
