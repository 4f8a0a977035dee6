"""Sources of tools: `collect` reads tools from any target with the source that accepts it.

`SOURCES` is the table of built-in sources, asked in this order; the contract is `base.Source`. Where none
accepts a target, the sources of the entry point group `toolcrib.sources` are asked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, Unpack

from toolcrib.component import Component
from toolcrib.errors import InvalidToolError, SourceError, ToolcribError
from toolcrib.options import GivenOptions, translate_options
from toolcrib.registry.plugins import load_plugins
from toolcrib.sources import tables
from toolcrib.sources.applications import ApplicationSource
from toolcrib.sources.base import Batch, MemorySource, ReadOptions, Source
from toolcrib.sources.foreign import ForeignServerSource
from toolcrib.sources.modules import ModuleSource
from toolcrib.sources.objects import (
    CallableSource,
    ClassSource,
    FunctionSource,
    ObjectSource,
    RegistrySource,
    ToolSource,
)
from toolcrib.sources.tables import TableSource
from toolcrib.sources.targets import Target, parse_target

__all__ = ["Batch", "ReadOptions", "Source", "Target", "collect", "find_files"]

ENTRY_POINTS = "toolcrib.sources"


class DescriptorSource:
    """A file or folder that describes tools: see `sources.descriptors`."""

    def accepts(self, target: Any) -> bool:
        return isinstance(target, Target) and target.kind == "descriptor"

    def read(self, target: Any, options: ReadOptions) -> Batch:
        from toolcrib.sources.descriptors import read_descriptors  # start-up time: most targets are code

        found = read_descriptors(target.path)
        return Batch([options.apply(tool) for tool in found.tools], found.findings)

    def files(self, target: Any) -> Sequence[Path]:
        return [target.path]


class IterableSource(MemorySource):
    """Several targets in a list or another iterable."""

    def accepts(self, target: Any) -> bool:
        return isinstance(target, Iterable) and not isinstance(target, bytes | Target)

    def read(self, target: Any, options: ReadOptions) -> Batch:
        items = list(target)
        if not isinstance(target, list | tuple) and TableSource().accepts(items):
            return TableSource().read(items, options)
        return options.read_each(items)


SOURCES: tuple[Source, ...] = (
    FunctionSource(),
    ToolSource(),
    ModuleSource(),
    DescriptorSource(),
    ClassSource(),
    RegistrySource(),
    ForeignServerSource(),
    ApplicationSource(),
    ObjectSource(),
    TableSource(),
    CallableSource(),
    IterableSource(),
)


def collect(
    *targets: Any,
    namespace: str | bool | None = None,
    handlers: Mapping[str, Any] | None = None,
    switches: Mapping[str, bool] | None = None,
    sources: Sequence[Source] = (),
    progress: Callable[[int, int], None] | None = None,
    **options: Unpack[GivenOptions],
) -> Batch:
    """Read tools from anything: a function, an application, a tool object, a table of definitions with their
    `handlers`, a server (of toolcrib, mcp or fastmcp), a module, a file, a folder, a descriptor, or the name
    of one of these.

    A problem with a target that is one tool is raised; with other targets, it becomes a finding. `namespace`
    is the prefix of names (True: the application's own name). `switches` turn groups on and off:
    `{"enable_math_tools": False}`. `sources` are asked before the built-in ones. `progress` is called with
    the number of files that were imported, and of all. Options apply to every tool.
    """

    def read(target: Any, reading: ReadOptions) -> Batch:
        target = _parse(target)
        source = _match(target, sources)
        if source is None:
            raise _unreadable(target)
        return source.read(target, reading)

    reading = ReadOptions(read, translate_options(options), handlers or {}, progress=progress)
    batch = reading.read(targets[0]) if len(targets) == 1 else reading.read_each(targets)
    if handlers:
        batch.findings += tables.find_unused(handlers, reading.used_handlers)
    if len(batch.tools) > 1 and options.get("name") is not None:
        raise InvalidToolError(
            f"name= requires a single tool, but {len(batch.tools)} were found", hint="use namespace="
        )
    if namespace is not None:
        batch.tools = [_add_namespace(tool, namespace) for tool in batch.tools]
        batch.prompts = [_add_namespace(prompt, namespace) for prompt in batch.prompts]
    if switches:
        batch.switch(switches)
    return batch


def find_files(targets: Iterable[Any], sources: Sequence[Source] = ()) -> list[Path]:
    """Return the files and folders of targets, as their sources report them."""
    found: list[Path] = []
    for each in targets:
        target = _parse(each)
        source = _match(target, sources)
        if source is not None:
            found += source.files(target)
        elif isinstance(target, Target):
            found += target.find_paths()  # a file of settings
    return found


def _parse(target: Any) -> Any:
    if isinstance(target, FunctionType):
        return target
    if isinstance(target, os.PathLike):
        target = os.fspath(target)
    return parse_target(target) if isinstance(target, str) else target


def _match(target: Any, sources: Sequence[Source]) -> Source | None:
    for source in (*sources, *SOURCES) if sources else SOURCES:
        if source.accepts(target):
            return source
    return next((source for source in _installed_sources() if source.accepts(target)), None)


def _unreadable(target: Any) -> ToolcribError:
    if isinstance(target, Target):
        return SourceError(
            f"Cannot read tools from {target.text}",
            hint="give a Python file, a folder, a module or a descriptor",
        )
    return InvalidToolError(
        f"Cannot read tools from {type(target).__name__}",
        hint="add a function, an application, a tool object, a table, a module, a file or a folder",
    )


@cache
def _installed_sources() -> tuple[Source, ...]:
    """Return the sources of installed packages, each created without arguments."""
    return tuple(kind() for _, kind in load_plugins(ENTRY_POINTS))


def _add_namespace(tool: Component, namespace: str | bool) -> Component:
    if namespace is True:
        name = getattr(tool.owner, "name", None)
        if not isinstance(name, str):
            raise InvalidToolError(
                f"Tool '{tool.name}' has no application whose name could be its namespace",
                tool=tool.name,
                source=tool.source,
                hint='give the prefix itself: namespace="..."',
            )
        namespace = name
    tool = copy(tool)  # the caller keeps the original
    tool.namespace = namespace or None
    return tool
