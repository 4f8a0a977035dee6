"""One verb for every kind of source: `collect(thing)` finds the tools in it.

Decides what a thing is and hands it to the module that knows that kind. One bad tool becomes a finding and
hides no other. Registers nothing, and leaves the things it is given as they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Unpack

from toolcrib.definition import OptionFields
from toolcrib.errors import ConfigurationError, DefinitionError, Finding, InvalidToolError, SourceError
from toolcrib.registry.index import Entry
from toolcrib.registry.registry import refusal
from toolcrib.schema.parameters import locate
from toolcrib.sources import modules as packages
from toolcrib.sources import tables
from toolcrib.sources.foreign.recognition import library_of
from toolcrib.sources.foreign.starting import check_start
from toolcrib.sources.modules import load_file, load_module, python_files, submodules
from toolcrib.sources.tables import place_findings
from toolcrib.tool import Tool, is_tool_object

DESCRIPTOR_SUFFIXES = (".json", ".toml", ".yaml", ".yml")


@dataclass(slots=True)
class Batch:
    """What was found in a source. `single`: the source was one tool, so a problem is the caller's at once."""

    tools: list[Tool] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    single: bool = False

    def extend(self, other: Batch) -> None:
        self.tools += other.tools
        self.findings += other.findings

    def switch(self, switches: Mapping[str, bool]) -> set[str]:
        """Turn groups on and off; returns the switches that fit one."""
        fitting: set[str] = set()
        for position, tool in enumerate(self.tools):
            switch = f"enable_{tool.options.group}_tools"
            if tool.options.group is not None and switch in switches:
                fitting.add(switch)
                self.tools[position] = tool.with_options(enabled=_check_switch(switch, switches[switch]))
        return fitting


def collect(
    *things: Any,
    namespace: str | bool | None = None,
    handlers: Mapping[str, Any] | None = None,
    switches: Mapping[str, bool] | None = None,
    **options: Unpack[OptionFields],
) -> Batch:
    """Find the tools in anything: a function, an application, a tool object, a table of definitions with
    their `handlers`, a server (of toolcrib, mcp or fastmcp), a module, a file, a folder, a descriptor, or the
    name of one of these.

    What is wrong with one thing that is one tool is raised; with many, it becomes a finding. `namespace`
    prefixes names (True: by the application's own name). `switches` turn groups on and off:
    `{"enable_math_tools": False}`. Options apply to every tool found.
    """
    collector = _Collector(handlers or {}, options)
    batch = collector.of(things[0]) if len(things) == 1 else collector.each(things)
    if handlers:
        batch.findings += tables.find_unused(handlers, collector.handled)
    if len(batch.tools) > 1 and options.get("name") is not None:
        raise InvalidToolError(
            f"name= fits one tool, but {len(batch.tools)} were found", hint="use namespace="
        )
    if namespace is not None:
        batch.tools = [_in_namespace(tool, namespace) for tool in batch.tools]
    if switches:
        batch.switch(switches)
    return batch


class _Collector:
    def __init__(self, handlers: Mapping[str, Any], options: OptionFields) -> None:
        self.handlers = handlers
        self.options = options
        self.handled: set[str] = set()

    def of(self, thing: Any) -> Batch:
        if isinstance(thing, FunctionType):
            return self._one(Tool.from_function, thing)
        if isinstance(thing, Tool):
            return Batch([self._changed(thing)], single=True)
        if isinstance(thing, str):
            return self._target(thing)
        if isinstance(thing, os.PathLike):
            return self._path(Path(thing))
        if isinstance(thing, ModuleType):
            return self._package(thing)
        if isinstance(thing, type):
            return self._class(thing)
        registry = packages.registry_of(thing)
        if registry is not None:
            return Batch([self._changed(_as_switched(entry)) for entry in registry.entries()])
        if library_of(thing) is not None:
            return self._foreign(thing)
        if packages.is_application(thing):
            return self._application(thing)
        if is_tool_object(thing):
            return self._one(Tool.from_object, thing)
        if isinstance(thing, Mapping) or tables.is_definition(thing):
            return self._table(thing, self.handlers)
        if callable(thing):
            return self._one(Tool.from_function, thing)
        if isinstance(thing, Iterable) and not isinstance(thing, bytes):
            return self._many(list(thing))
        raise InvalidToolError(
            f"Tools cannot be read from {type(thing).__name__}",
            hint="add a function, an application, a tool object, a table, a module, a file or a folder",
        )

    def each(self, things: Iterable[Any]) -> Batch:
        """Several things, each by itself: what is wrong with one is its own finding."""
        batch = Batch()
        for thing in things:
            try:
                batch.extend(self.of(thing))
            except Exception as error:  # looking at a thing may run its author's code
                batch.findings.append(refusal(thing, error))
        return batch

    def _one(self, make: Callable[..., Tool], thing: Any) -> Batch:
        return Batch([make(thing, **self.options)], single=True)

    def _changed(self, tool: Tool) -> Tool:
        return tool.with_options(**self.options) if self.options else tool

    def _many(self, things: list[Any]) -> Batch:
        if things and all(tables.is_definition(thing) for thing in things):
            return self._table(things, self.handlers)
        return self.each(things)

    def _table(self, table: Any, handlers: Mapping[str, Any]) -> Batch:
        read = tables.read_table(table, handlers)
        batch = Batch(findings=read.findings)
        for entry in read.entries:
            self.handled.add(entry.name)
            try:
                batch.tools.append(self._changed(Tool.from_function(entry.handler, **entry.options)))
            except Exception as error:  # an option of the table may be of any type
                batch.findings.append(refusal(entry.handler, error))
        return batch

    def _class(self, cls: type) -> Batch:
        """A class stands for its instance, where it can be made without arguments."""
        if not packages.is_tool_class(cls):
            return self._one(Tool.from_function, cls)
        try:
            thing = cls()
        except Exception as error:
            raise SourceError(
                f"{cls.__name__} cannot be made without arguments: {error}",
                source=locate(cls),
                hint=f"make it yourself: add({cls.__name__}(...))",
            ) from None
        return self.of(thing)

    def _foreign(self, server: Any) -> Batch:
        """A server that was written for another library."""
        # Only who has one waits for what it takes to read it.
        from toolcrib.sources.foreign.reading import read_server

        reading = read_server(server)
        return Batch([self._changed(tool) for tool in reading.tools], reading.findings)

    def _application(self, app: Any) -> Batch:
        name = type(app).__name__
        try:
            listed = list(app.list_tools())
        except Exception as error:
            renames = "__name__" in str(error)
            raise SourceError(
                f"{name}.list_tools() failed: {type(error).__name__}: {error}",
                source=locate(type(app)),
                hint="give a prefix with namespace=, a bound method cannot be renamed" if renames else None,
            ) from None
        batch = self.each(thing for thing in listed if not isinstance(thing, str))
        for thing in listed:
            if isinstance(thing, str):  # the name of something elsewhere is not the application's tool
                words = f"{name}.list_tools() must give callables, got {thing!r}"
                batch.findings.append(InvalidToolError(words, source=locate(type(app))).finding)
        if not listed:
            batch.findings.append(Finding("no-tools", "warning", f"{name} lists no tools"))
        batch.tools = [_owned(tool, app) for tool in batch.tools]
        return batch

    # --- what has to be imported ---

    def _target(self, target: str) -> Batch:
        """`folder/`, `file.py`, `file.py:name`, `package.module`, `package.module:name`."""
        if os.path.exists(target):  # unlike Path.exists, it takes any text
            return self._path(Path(target))
        place, colon, name = target.rpartition(":")
        if not colon:
            if target.endswith((".py", *DESCRIPTOR_SUFFIXES)) or "/" in target:
                raise SourceError(f"There is no file or folder {target}")
            return self._package(load_module(target))
        if place.endswith(".py") and not os.path.exists(place):
            raise SourceError(f"There is no file {place}")
        module = _load(Path(place)) if os.path.isfile(place) else load_module(place)
        return self.of(packages.find_object(module, name, target))

    def _path(self, path: Path) -> Batch:
        if path.is_dir() or path.suffix in DESCRIPTOR_SUFFIXES:
            # Only who has files that are not Python waits for what it takes to read them.
            from toolcrib.sources.descriptors import is_descriptor, read_descriptors

            if is_descriptor(path):
                read = read_descriptors(path)
                return Batch([self._changed(tool) for tool in read.tools], read.findings)
        if path.is_dir():
            return self._modules(*_load_each(_load, python_files(path)), str(path))
        if path.suffix == ".py":
            return self._modules([_load(path)], [], path.name)
        raise SourceError(
            f"Tools cannot be read from {path}", hint="give a Python file, a folder, a module or a descriptor"
        )

    def _package(self, module: ModuleType) -> Batch:
        """Everything in a module, and in the modules below it where it is a package."""
        below, findings = _load_each(load_module, submodules(module))
        return self._modules([module, *below], findings, module.__name__)

    def _modules(self, modules: list[ModuleType], findings: list[Finding], place: str) -> Batch:
        """What modules that belong together hold. All were loaded before: one may add to another's server,
        and definitions may stand in one and their handlers in another."""
        batch = Batch(findings=findings)
        parts = [packages.find_tools(module) for module in modules]
        packages.drop_mounted(parts)
        packages.drop_owned(parts)
        handlers: dict[str, Any] = {}
        for part in parts:
            handlers |= part.handlers
        seen: set[int] = set()
        for part in parts:
            found = self.each(part.things)
            for table in part.tables:
                if id(table) not in seen:
                    seen.add(id(table))
                    found.extend(self._table(table, {**handlers, **self.handlers}))
            if part.group is not None:
                found.tools = [_in_group(tool, part.group) for tool in found.tools]
            batch.extend(found)
            batch.findings += part.findings
        batch.findings += tables.find_unused(handlers, self.handled)
        batch.findings = place_findings(batch.findings, modules)
        batch.tools = _without_repeats(batch.tools)
        if not batch.tools and not batch.findings:
            batch.findings.append(packages.nothing_found(modules, place))
        return batch


def _load(path: Path) -> ModuleType:
    check_start(path)
    return load_file(path)


def _load_each(
    load: Callable[[Any], ModuleType], places: Iterable[Any]
) -> tuple[list[ModuleType], list[Finding]]:
    modules: list[ModuleType] = []
    findings: list[Finding] = []
    for place in places:
        try:
            modules.append(load(place))
        except DefinitionError as error:
            findings.append(error.finding)
    return modules, findings


def _without_repeats(tools: list[Tool]) -> list[Tool]:
    """A tool that is reachable by two ways was still written once."""
    seen: dict[Any, Tool] = {}
    for tool in tools:
        origin = tool.origin
        # A bound method is a new object each time it is looked at.
        identity = (id(getattr(origin, "__self__", None)), id(getattr(origin, "__func__", origin)))
        seen.setdefault((*identity, tool.name, tool.version), tool)
    return list(seen.values())


def _in_group(tool: Tool, group: str) -> Tool:
    return tool if tool.options.group is not None else tool.with_options(group=group)


def _in_namespace(tool: Tool, namespace: str | bool) -> Tool:
    if namespace is True:
        name = getattr(tool.owner, "name", None)
        if not isinstance(name, str):
            raise InvalidToolError(
                f"Tool '{tool.name}' has no application to be named after",
                tool=tool.name,
                source=tool.source,
                hint='give the prefix itself: namespace="..."',
            )
        namespace = name
    tool = copy(tool)  # the caller's own stays as it is
    tool.namespace = namespace or None
    return tool


def _owned(tool: Tool, app: Any) -> Tool:
    """The tool as one of an application's; what another application inside it owns stays with that one."""
    if tool.owner is not None:
        return tool
    tool = copy(tool)
    tool.owner = app
    space = getattr(app, "namespace", None)
    if isinstance(space, str) and tool.namespace is None:
        tool.namespace = space
    return tool


def _as_switched(entry: Entry) -> Tool:
    """The tool of another registry, on or off as it is there."""
    tool = entry.tool
    return tool if entry.enabled is tool.options.enabled else tool.with_options(enabled=entry.enabled)


def _check_switch(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"a switch is true or false, got {value!r}", key=name)
    return value
