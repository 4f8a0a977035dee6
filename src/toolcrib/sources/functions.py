"""Sources of tools in memory: functions and other callables, tools, registries and servers of toolcrib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import FunctionType
from typing import Any

from toolcrib.registry.registry import ToolRegistry
from toolcrib.sources.base import Batch, ReadOptions
from toolcrib.tool import Tool


class MemorySource:
    """Base of sources without files."""

    def files(self, target: Any) -> Sequence[Path]:  # noqa: ARG002
        return ()


class FunctionSource(MemorySource):
    """A function is a tool."""

    def accepts(self, target: Any) -> bool:
        return isinstance(target, FunctionType)

    def read(self, target: Any, options: ReadOptions) -> Batch:
        return Batch([Tool.from_function(target, **options.tool_options)], single=True)


class CallableSource(FunctionSource):
    """Any other callable: a bound method, a partial, an object with `__call__`."""

    def accepts(self, target: Any) -> bool:
        return callable(target)


class ToolSource(MemorySource):
    def accepts(self, target: Any) -> bool:
        return isinstance(target, Tool)

    def read(self, target: Any, options: ReadOptions) -> Batch:
        return Batch([options.apply(target)], single=True)


class RegistrySource(MemorySource):
    """A registry, or a server that has one; tools are enabled or disabled as they are there."""

    def accepts(self, target: Any) -> bool:
        return registry_of(target) is not None

    def read(self, target: Any, options: ReadOptions) -> Batch:
        registry = registry_of(target)
        batch = Batch()
        for entry in () if registry is None else registry.entries():
            tool = entry.tool
            if entry.enabled is not tool.options.enabled:
                tool = tool.with_options(enabled=entry.enabled)
            batch.tools.append(options.apply(tool))
        return batch


def registry_of(value: Any) -> ToolRegistry | None:
    """Return the registry of a server, or the registry itself."""
    if isinstance(value, ToolRegistry):
        return value
    try:
        registry = getattr(value, "registry", None)
    except Exception:
        return None  # for example a proxy that is not ready
    return registry if isinstance(registry, ToolRegistry) else None
