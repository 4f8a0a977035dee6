"""toolcrib: code becomes tools for AI agents, checked, kept in one registry, called under control.

Begin with `MCPServer`: `@server.tool` registers a function where it is written, `server.add` takes
anything tools live in, `await server.call` runs one. `tool` marks functions to be found later, `Application`
and `APIApplication` hold tools as methods, `Context` tells a running tool about its call, `ToolError` tells
the model what went wrong. `ToolRegistry`, `Tool` and `ToolDefinition` are the parts underneath.

Importing this package is cheap: engines load when something needs them.
"""

from toolcrib import marking
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

__version__ = "0.1.0"

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
    "collect",
    "tool",
    "validate_tool_definition",
    "validate_tool_schema",
]
