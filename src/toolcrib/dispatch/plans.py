"""Plans: what calls of one tool need, prepared once."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from toolcrib.component import Component
from toolcrib.context import Context
from toolcrib.dispatch.middleware import Next
from toolcrib.dispatch.runners import ToolSlots
from toolcrib.errors import DefinitionError

if TYPE_CHECKING:
    from toolcrib.dispatch.large_results import ResultBudget
    from toolcrib.schema.result import ResultConverter

DEFAULT_THREADS = 32


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
        self.chain: Next | None = None
        """The way through what is around its calls; None if nothing is."""
        self.needs_no_task = False
        """Whether no code of others runs on the event loop before a thread does: see `JobDone`."""
        self.is_built_in = False
        self.flaw: DefinitionError | None = None
        try:
            tool.check()
        except DefinitionError as error:
            self.flaw = error

    @cached_property
    def facts(self) -> tuple[str, str | None, str | None]:
        """What the record of each call says of the tool."""
        return self.tool.reference, self.tool.version, self.tool.definition.fingerprint

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
