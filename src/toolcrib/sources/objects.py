"""Sources of tools in memory: functions and other callables, tools, registries, servers, and tool objects.

A tool object has `name`, `description`, `input_schema` and an async `execute`. `check_object` has the checks
of `server.register_tool`, whose order and messages are fixed by a requirement.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from toolcrib.component import Component, MCPTool, Tool, is_tool_object
from toolcrib.errors import DefinitionError, InvalidSchemaError, InvalidToolError, SourceError
from toolcrib.names import STRICT
from toolcrib.registry.registry import ToolRegistry
from toolcrib.schema.parameters import is_async_callable, locate
from toolcrib.sources.applications import APIApplication, Application, is_application
from toolcrib.sources.base import Batch, MemorySource, ReadOptions

MIN_DESCRIPTION_LENGTH = 10
MAX_DESCRIPTION_LENGTH = 500
_NO_EXECUTE = "Tool must have callable 'execute' method"
TOOL_ATTRIBUTES = (
    ("name", "description", "input_schema", "execute"),
    ("Name", "Description", "InputSchema", "ExecuteAsync"),
)


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
        return isinstance(target, Component)

    def read(self, target: Any, options: ReadOptions) -> Batch:
        return Batch.of([options.apply(target)], single=True)


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
        batch.findings += () if registry is None else registry.refused
        batch.resources = _enabled(getattr(target, "resources", None))
        batch.prompts = _enabled(getattr(target, "prompts", None))
        return batch


def _enabled(registry: Any) -> list[Component]:
    """Return the resources or prompts of a server, enabled or disabled as they are there."""
    if not isinstance(registry, ToolRegistry):
        return []
    return [
        entry.tool
        if entry.enabled is entry.tool.options.enabled
        else entry.tool.with_options(enabled=entry.enabled)
        for entry in registry.entries()
    ]


def registry_of(value: Any) -> ToolRegistry | None:
    """Return the registry of a server, or the registry itself."""
    if isinstance(value, ToolRegistry):
        return value
    try:
        registry = getattr(value, "registry", None)
    except Exception:
        return None  # for example a proxy that is not ready
    return registry if isinstance(registry, ToolRegistry) else None


class ObjectSource(MemorySource):
    def accepts(self, target: Any) -> bool:
        return is_tool_object(target)

    def read(self, target: Any, options: ReadOptions) -> Batch:
        return Batch([Tool.from_object(target, **options.tool_options)], single=True)


class ClassSource(MemorySource):
    """A class. Tool objects and applications are instantiated; any other class is a callable."""

    def accepts(self, target: Any) -> bool:
        return isinstance(target, type)

    def read(self, target: Any, options: ReadOptions) -> Batch:
        if not is_tool_class(target):
            return Batch([Tool.from_function(target, **options.tool_options)], single=True)
        try:
            instance = target()
        except Exception as error:
            raise SourceError(
                f"{target.__name__} cannot be created without arguments: {error}",
                source=locate(target),
                hint=f"create it yourself: add({target.__name__}(...))",
            ) from None
        return options.read(instance)


def is_tool_class(cls: type) -> bool:
    """Return whether instances of this class are tool objects or applications."""
    if cls in (Application, APIApplication):
        return False
    if is_application(cls):
        return True
    return any(all(hasattr(cls, name) for name in names) for names in TOOL_ATTRIBUTES)


def check_object(tool: Any, check_free: Callable[[str], None]) -> None:
    """Raise DefinitionError unless `tool` keeps the rules of `register_tool`.

    `check_free` raises where the name is taken. It runs after the check of the name and before the others.
    """
    if not hasattr(tool, "name") or not hasattr(tool, "description"):
        raise InvalidToolError("Tool must have 'name' and 'description' attributes")
    if not hasattr(tool, "input_schema"):
        raise InvalidToolError("Tool must have 'input_schema' and 'execute' attributes")
    STRICT.check(tool.name)
    check_free(tool.name)
    _check_description(tool)
    _check_schema(tool)
    _check_execute(tool)


def _check_description(tool: MCPTool) -> None:
    if not isinstance(tool.description, str):
        raise DefinitionError("Tool description must be string", tool=tool.name)
    if len(tool.description) < MIN_DESCRIPTION_LENGTH:
        message = f"Tool description too short (min {MIN_DESCRIPTION_LENGTH} chars)"
        raise DefinitionError(message, tool=tool.name)
    if len(tool.description) > MAX_DESCRIPTION_LENGTH:
        message = f"Tool description too long (max {MAX_DESCRIPTION_LENGTH} chars)"
        raise DefinitionError(message, tool=tool.name)


def _check_schema(tool: MCPTool) -> None:
    """Check the form of the schema; the rest is checked when the tool is built."""
    if not isinstance(tool.input_schema, dict):
        raise InvalidSchemaError("Tool input_schema must be dict", tool=tool.name)
    if tool.input_schema.get("type") != "object":
        raise InvalidSchemaError("Tool input_schema must have type='object'", tool=tool.name)
    if "properties" not in tool.input_schema:
        raise InvalidSchemaError("Tool input_schema must have 'properties' field", tool=tool.name)


def _check_execute(tool: MCPTool) -> None:
    if not hasattr(tool, "execute"):
        text = f"Tool must have 'input_schema' and 'execute' attributes: {_NO_EXECUTE}"
        raise InvalidToolError(text, tool=tool.name)
    if not callable(tool.execute):
        raise InvalidToolError(_NO_EXECUTE, tool=tool.name)
    if not is_async_callable(tool.execute):
        raise InvalidToolError("Tool execute method must be async", tool=tool.name)
