"""toolcrib: turn code into tools for AI agents.

Start with `MCPServer`: `@server.tool` registers a function, `server.add` registers tools from any source,
`await server.call` calls one. `tool` marks functions to be found later, `Application` and `APIApplication`
have tools as methods, `Context` gives a tool access to its call, `Depends` provides the values that it needs,
and `ToolError` shows the model a message.
`ToolRegistry`, `Tool` and `ToolDefinition` are the parts of a server. `build_catalog` and
`get_catalog_cached` export tools for model providers.

Importing this package is cheap: engines are imported when they are needed.
"""

__version__ = "0.1.0"

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from toolcrib import logs
from toolcrib.component import MCPTool, Tool, tool
from toolcrib.content import Audio, File, Image, Link, Message, Result
from toolcrib.context import Context, Depends, Principal
from toolcrib.definition import ToolDefinition, validate_tool_definition, validate_tool_schema
from toolcrib.errors import (
    APIError,
    CallError,
    DefinitionError,
    Finding,
    InvalidArgumentsError,
    ToolAlreadyExistsError,
    ToolcribError,
    ToolError,
    ToolNotFoundError,
)
from toolcrib.errors import missing_attribute as _missing_attribute
from toolcrib.options import ToolOptions
from toolcrib.registry.registry import Report, ToolRegistry
from toolcrib.server import MCPServer
from toolcrib.sources import collect
from toolcrib.sources.applications import APIApplication, Application

if TYPE_CHECKING:
    from toolcrib.catalog.build import build_catalog
    from toolcrib.catalog.cache import get_catalog_cached

logs.install_filter()

__all__ = [
    "APIApplication",
    "APIError",
    "Application",
    "Audio",
    "CallError",
    "Context",
    "DefinitionError",
    "Depends",
    "File",
    "Finding",
    "Image",
    "InvalidArgumentsError",
    "Link",
    "MCPServer",
    "MCPTool",
    "Message",
    "Principal",
    "Report",
    "Result",
    "Tool",
    "ToolAlreadyExistsError",
    "ToolDefinition",
    "ToolError",
    "ToolNotFoundError",
    "ToolOptions",
    "ToolRegistry",
    "ToolcribError",
    "build_catalog",
    "collect",
    "get_catalog_cached",
    "tool",
    "validate_tool_definition",
    "validate_tool_schema",
]

_LAZY = {"build_catalog": "toolcrib.catalog.build", "get_catalog_cached": "toolcrib.catalog.cache"}
"""Names whose modules are imported on first use: a server needs none of them to start."""


_MOVED = {
    "toolcrib.question": "toolcrib.context",
    "toolcrib.samples": "toolcrib.sources.samples",
    "toolcrib.sources.static": "toolcrib.sources.scan",
}
"""Documented import paths whose modules are elsewhere now. `toolcrib.samples` stays a target."""

_ELSEWHERE = {
    "Client": "use `from toolcrib.client import Client`",
    "FastMCP": "use `from toolcrib import MCPServer`",
    "exceptions": "use toolcrib.errors",
    "types": "use `from toolcrib import Audio, File, Image, Link`",
    **dict.fromkeys(
        ("Audit", "Auth", "Limit", "OAuth", "Policy", "Rule", "Tasks", "Telemetry"),
        "import it from toolcrib.policy",
    ),
}
"""What mcp and fastmcp have under these names, and what is public elsewhere here."""


class _MovedModules:
    """Imports a module under its path of an earlier release."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        package, _, part = name.partition(".")
        if package == "toolcrib" and part in _ELSEWHERE:  # `from toolcrib import part` asks for it, too
            raise ImportError(f"toolcrib has no '{part}' ({_ELSEWHERE[part]})", name=name)
        if name not in _MOVED:
            return None
        found = find_spec(_MOVED[name])
        return ModuleSpec(name, self, origin=found and found.origin)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(_MOVED[spec.name])
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None  # set by the import system  # noqa: S101
        module.__spec__ = module.__spec__.loader_state  # importing under the old path has replaced it


sys.meta_path.append(_MovedModules())


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise _missing_attribute("module 'toolcrib'", name, _ELSEWHERE.get(name), sys.modules[__name__])
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
