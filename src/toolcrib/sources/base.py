"""The contract of a source of tools.

A source reads one kind of target: functions, applications, modules, descriptors, and so on. To add one,
implement `Source` and either pass it to `server.add(..., sources=[...])` and `collect`, or name it in the
entry point group `toolcrib.sources`. The built-in sources are in the table of `toolcrib.sources`.

    class CSVSource:
        def accepts(self, target):
            return isinstance(target, Target) and target.text.endswith(".csv")

        def read(self, target, options):
            rows = read_rows(target.path)
            return Batch([options.apply(make_tool(row), Location(target.text, row.line)) for row in rows])

        def files(self, target):
            return [target.path]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from toolcrib.component import Component
from toolcrib.errors import ConfigurationError, DefinitionError, Finding, Location
from toolcrib.options import OptionFields
from toolcrib.registry.registry import finding_of


@dataclass(slots=True)
class Batch:
    """The tools of a target, its resources and prompts, and findings about those that cannot be read. If
    `single`, the target is one tool, and `server.add` raises its problems instead of reporting them."""

    tools: list[Component] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    single: bool = False
    resources: list[Component] = field(default_factory=list)
    prompts: list[Component] = field(default_factory=list)

    @classmethod
    def of(
        cls, tools: Iterable[Component], findings: Iterable[Finding] = (), *, single: bool = False
    ) -> Batch:
        """Return a batch of tools, resources and prompts, each in its list."""
        batch = cls(findings=list(findings), single=single)
        lists = {"tool": batch.tools, "resource": batch.resources, "prompt": batch.prompts}
        for tool in tools:
            lists[tool.kind].append(tool)
        return batch

    def extend(self, other: Batch) -> None:
        self.tools += other.tools
        self.findings += other.findings
        self.resources += other.resources
        self.prompts += other.prompts

    @property
    def everything(self) -> list[Component]:
        """Tools, resources and prompts."""
        return [*self.tools, *self.resources, *self.prompts]

    def switch(self, switches: Mapping[str, bool]) -> set[str]:
        """Turn groups on and off; return the switches that match a group."""
        matching: set[str] = set()
        for tools in (self.tools, self.resources, self.prompts):
            for position, tool in enumerate(tools):
                switch = f"enable_{tool.options.group}_tools"
                if tool.options.group is not None and switch in switches:
                    value = switches[switch]
                    if not isinstance(value, bool):
                        raise ConfigurationError(f"must be true or false, got {value!r}", key=switch)
                    matching.add(switch)
                    tools[position] = tool.with_options(enabled=value)
        return matching


@dataclass(slots=True)
class ReadOptions:
    """Options of `Source.read`: tool options, handlers of tables, and a way to read other targets.

    `progress` is called with the number of files or modules that were read, and of all.
    """

    read_with: Callable[[Any, ReadOptions], Batch]
    tool_options: OptionFields = field(default_factory=OptionFields)
    handlers: Mapping[str, Any] = field(default_factory=dict)
    used_handlers: set[str] = field(default_factory=set)
    progress: Callable[[int, int], None] | None = None

    def read(self, target: Any) -> Batch:
        """Read another target, for example an object of a module, with the source that accepts it."""
        return self.read_with(target, self)

    def apply(self, tool: Component, source: Location | None = None) -> Component:
        """Return the tool with the caller's options. `source` is its location where that is not the location
        of its handler."""
        if source is not None:
            tool = copy(tool)
            tool.info = copy(tool.info)
            tool.info.source = source
        return tool.with_options(**self.tool_options) if self.tool_options else tool

    def read_each(self, targets: Iterable[Any]) -> Batch:
        """Read several targets; a problem with one becomes a finding and hides no other."""
        batch = Batch()
        for target in targets:
            try:
                batch.extend(self.read(target))
            except Exception as error:  # looking at an object may run its author's code
                found = (
                    error.all_findings if isinstance(error, DefinitionError) else [finding_of(target, error)]
                )
                batch.findings += found
        return batch


class Source(Protocol):
    """Reads tools from one kind of target. Strings and paths are passed as `targets.Target`."""

    def accepts(self, target: Any) -> bool:
        """Return whether this source reads the target. Must be fast and must not run code of the target."""
        ...

    def read(self, target: Any, options: ReadOptions) -> Batch:
        """Return the tools of the target. Raises DefinitionError where it cannot be read at all."""
        ...

    def files(self, target: Any) -> Sequence[Path]:
        """Return the files and folders behind the target, to be watched for changes."""
        ...


class MemorySource:
    """Base of sources without files."""

    def files(self, target: Any) -> Sequence[Path]:  # noqa: ARG002
        return ()


def report_unused_switch(name: str) -> Finding:
    """Return the finding about a switch that turns nothing on or off."""
    hint = "give tools a group: @tool(group=...), TOOL_GROUP"
    return Finding("unused-switch", "warning", f"Switch '{name}' matches no group of tools", hint=hint)
