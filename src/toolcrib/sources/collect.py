"""One verb for every kind of source: `collect(thing)` finds the tools in it.

Decides what a thing is and hands it to the module that knows that kind. One bad tool becomes a finding and
hides no other. Registers nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Unpack

from toolcrib.definition import OptionFields
from toolcrib.errors import BatchError, DefinitionError, InvalidToolError, SourceError
from toolcrib.finding import Finding
from toolcrib.registry import ToolRegistry
from toolcrib.schema.parameters import locate
from toolcrib.sources import packages, tables
from toolcrib.sources.loading import load_file, load_module, python_files, submodules
from toolcrib.tool import Tool, is_tool_object


@dataclass(slots=True)
class Batch:
    """What was found in a source. `single`: the source was one tool, so a problem is the caller's at once."""

    tools: list[Tool] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    single: bool = False

    def extend(self, other: Batch) -> None:
        self.tools += other.tools
        self.findings += other.findings

    def refuse(self, error: DefinitionError) -> None:
        self.findings.append(error.finding)


def collect(
    thing: Any,
    *,
    namespace: str | bool | None = None,
    handlers: Mapping[str, Any] | None = None,
    switches: Mapping[str, Any] | None = None,
    **options: Unpack[OptionFields],
) -> Batch:
    """Find the tools in anything: a function, an application, a tool object, a table of definitions with
    their `handlers`, a module, a file, a folder, or the name of one of these.

    `namespace` prefixes names (True: by the application's own name). `switches` turn groups on and off:
    `{"enable_math_tools": False}`. Options apply to every tool found.
    """
    batch = _Collector(handlers or {}, options).of(thing)
    if not batch.single and options.get("name") is not None and len(batch.tools) != 1:
        raise InvalidToolError(
            f"name= fits one tool, but {len(batch.tools)} were found", hint="use namespace="
        )
    if namespace is not None:
        batch.tools = [_in_namespace(tool, namespace) for tool in batch.tools]
    if switches:
        batch.tools = [_switched(tool, switches) for tool in batch.tools]
    return batch


def raise_for(batch: Batch) -> None:
    """Raise the error of a batch that was to be one tool, or all of them together."""
    errors = [finding for finding in batch.findings if finding.level == "error"]
    if errors:
        raise BatchError(str(errors[0]), batch.findings)


class _Collector:
    def __init__(self, handlers: Mapping[str, Any], options: OptionFields) -> None:
        self.handlers = handlers
        self.options = options

    def of(self, thing: Any) -> Batch:
        if isinstance(thing, Tool):
            return Batch([thing.with_options(**self.options) if self.options else thing], single=True)
        if isinstance(thing, str):
            return self._target(thing)
        if isinstance(thing, Path):
            return self._path(thing)
        if isinstance(thing, ModuleType):
            return self._module(thing)
        if isinstance(getattr(thing, "registry", thing), ToolRegistry):
            registry: ToolRegistry = getattr(thing, "registry", thing)
            return Batch([self._changed(tool) for tool in registry])
        if isinstance(thing, type):
            return self._class(thing)
        if callable(getattr(thing, "list_tools", None)):
            return self._application(thing)
        if is_tool_object(thing):
            return Batch([Tool.from_object(thing, **self.options)], single=True)
        if isinstance(thing, Mapping):
            return self._table(tables.read_mapping(thing, self.handlers))
        if callable(thing):
            return Batch([Tool.from_function(thing, **self.options)], single=True)
        if tables.is_definition(thing):
            return self._table(tables.read_list([thing], self.handlers))
        if isinstance(thing, Iterable):
            return self._many(list(thing))
        raise InvalidToolError(
            f"Tools cannot be read from {type(thing).__name__}",
            hint="add a function, an application, a tool object, a table, a module, a file or a folder",
        )

    def _many(self, things: list[Any]) -> Batch:
        if things and all(tables.is_definition(thing) for thing in things):
            return self._table(tables.read_list(things, self.handlers))
        return self._each(things)

    def _each(self, things: Iterable[Any]) -> Batch:
        """Several things, each by itself: what is wrong with one is its own finding."""
        batch = Batch()
        for thing in things:
            try:
                batch.extend(self.of(thing))
            except DefinitionError as error:
                batch.refuse(error)
        return batch

    def _table(self, read: tables.Table) -> Batch:
        batch = Batch(findings=list(read.findings))
        for entry in read.entries:
            try:
                batch.tools.append(self._changed(Tool.from_function(entry.handler, **entry.options)))
            except DefinitionError as error:
                batch.refuse(error)
        return batch

    def _class(self, cls: type) -> Batch:
        """A class stands for its instance, where it can be made without arguments."""
        if not packages.is_tool_class(cls):
            return Batch([Tool.from_function(cls, **self.options)], single=True)
        try:
            return self.of(cls())
        except DefinitionError:
            raise
        except Exception as error:
            raise SourceError(
                f"{cls.__name__} cannot be made without arguments: {error}",
                source=locate(cls),
                hint=f"make it yourself: add({cls.__name__}(...))",
            ) from None

    def _application(self, app: Any) -> Batch:
        try:
            listed = list(app.list_tools())
        except Exception as error:
            hint = (
                "give a prefix with namespace=, a bound method cannot be renamed"
                if "__name__" in str(error)
                else None
            )
            raise SourceError(
                f"{type(app).__name__}.list_tools() failed: {type(error).__name__}: {error}",
                source=locate(type(app)),
                hint=hint,
            ) from None
        batch = self._each(listed)
        space = getattr(app, "namespace", None)
        for tool in batch.tools:
            tool.owner = app
            tool.namespace = space if isinstance(space, str) else None
        return batch

    def _target(self, target: str) -> Batch:
        """`folder/`, `file.py`, `file.py:name`, `package.module`, `package.module:name`."""
        path = Path(target)
        if path.exists():
            return self._path(path)
        place, colon, name = target.rpartition(":")
        if not colon:
            if target.endswith(".py") or "/" in target:
                raise SourceError(f"There is no file or folder {target}")
            return self._module(load_module(target))
        path = Path(place)
        if place.endswith(".py") and not path.exists():
            raise SourceError(f"There is no file {place}")
        module = load_file(path) if path.is_file() else load_module(place)
        return self.of(packages.find_object(module, name, target))

    def _path(self, path: Path) -> Batch:
        if path.is_dir():
            return self._folder(path)
        if path.suffix == ".py":
            return self._module(load_file(path))
        raise SourceError(
            f"Tools cannot be read from {path}", hint="give a Python file, a folder or a module"
        )

    def _folder(self, folder: Path) -> Batch:
        batch = Batch()
        for path in python_files(folder):
            try:
                batch.extend(self._module(load_file(path), alone=False))
            except DefinitionError as error:
                batch.refuse(error)
        batch.tools = _without_repeats(batch.tools)
        if not batch.tools and not batch.findings:
            raise SourceError(f"There are no tools below {folder}", hint="mark functions with @tool")
        return batch

    def _module(self, module: ModuleType, *, alone: bool = True) -> Batch:
        """Everything in a module, and in the modules below it where it is a package."""
        batch = self._one_module(module)
        for name in submodules(module) if alone else ():
            try:
                batch.extend(self._one_module(load_module(name)))
            except DefinitionError as error:
                batch.refuse(error)
        batch.tools = _without_repeats(batch.tools)
        if alone and not batch.tools and not batch.findings:
            batch.findings.append(packages.nothing_found(module))
        return batch

    def _one_module(self, module: ModuleType) -> Batch:
        found = packages.find_tools(module)
        batch = self._each(found.things)
        if found.tables:
            batch.extend(self._table(tables.read_tables(found.tables)))
        batch.findings.extend(found.findings)
        if found.group is not None:
            batch.tools = [_in_group(tool, found.group) for tool in batch.tools]
        return batch

    def _changed(self, tool: Tool) -> Tool:
        return tool.with_options(**self.options) if self.options else tool


def _without_repeats(tools: list[Tool]) -> list[Tool]:
    """A tool that is reachable by two ways was still written once."""
    seen: dict[tuple[int, str], Tool] = {}
    for tool in tools:
        seen.setdefault((id(tool.origin), tool.name), tool)
    return list(seen.values())


def _in_group(tool: Tool, group: str) -> Tool:
    return tool if tool.options.group is not None else tool.with_options(group=group)


def _in_namespace(tool: Tool, namespace: str | bool) -> Tool:
    if namespace is True:
        name = getattr(tool.owner, "name", None)
        if not isinstance(name, str):
            raise InvalidToolError(f"Tool '{tool.name}' has no application to be named after", tool=tool.name)
        namespace = name
    tool.namespace = namespace or None
    return tool


def _switched(tool: Tool, switches: Mapping[str, Any]) -> Tool:
    switch = switches.get(f"enable_{tool.options.group}_tools") if tool.options.group else None
    return tool if switch is None else tool.with_options(enabled=bool(switch))
