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

from importlib import import_module
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


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'toolcrib' has no attribute {name!r}", name=name)
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
