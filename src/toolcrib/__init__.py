"""toolcrib: code becomes tools for AI agents, checked, kept in one registry, called under control.

Begin with `MCPServer`: `@server.tool` registers a function where it is written, `server.add` takes
anything tools live in, `await server.call` runs one. `tool` marks functions to be found later, `Application`
and `APIApplication` hold tools as methods, `Context` tells a running tool about its call, `ToolError` tells
the model what went wrong. `ToolRegistry`, `Tool` and `ToolDefinition` are the parts underneath.
`build_catalog` and `get_catalog_cached` write down what tools there are, for model providers.

Importing this package is cheap: engines load when something needs them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from toolcrib import logfilter, marking
from toolcrib.content import Audio, File, Image, Link, Result
from toolcrib.context import Context, Principal
from toolcrib.definition import (
    ToolDefinition,
    ToolOptions,
    validate_tool_definition,
    validate_tool_schema,
)
from toolcrib.errors import (
    APIError,
    CallError,
    DefinitionError,
    InvalidArgumentsError,
    ToolAlreadyExistsError,
    ToolcribError,
    ToolError,
    ToolNotFoundError,
)
from toolcrib.finding import Finding
from toolcrib.registry import Report, ToolRegistry
from toolcrib.server import MCPServer
from toolcrib.sources import collect
from toolcrib.sources.applications import APIApplication, Application
from toolcrib.tool import MCPTool, Tool
from toolcrib.version import __version__ as __version__

if TYPE_CHECKING:
    from toolcrib.catalog.build import build_catalog
    from toolcrib.catalog.cache import get_catalog_cached

logfilter.install()

tool = marking.tool  # not the module of that name

__all__ = [
    "APIApplication",
    "APIError",
    "Application",
    "Audio",
    "CallError",
    "Context",
    "DefinitionError",
    "File",
    "Finding",
    "Image",
    "InvalidArgumentsError",
    "Link",
    "MCPServer",
    "MCPTool",
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

_LATER = {
    "build_catalog": "toolcrib.catalog.build",
    "get_catalog_cached": "toolcrib.catalog.cache",
}
"""Names whose modules are loaded when somebody uses them: a server needs none of them to start."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'toolcrib' has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
