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
    from toolcrib.catalog.build import build_catalog, get_catalog_cached

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

_LAZY = {"build_catalog": "toolcrib.catalog.build", "get_catalog_cached": "toolcrib.catalog.build"}
"""Names whose modules are imported on first use: a server needs none of them to start."""


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


class _OtherNames:
    """Answers imports of such a name: `from toolcrib import exceptions` and `import toolcrib.exceptions`."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:  # noqa: ARG004
        package, _, part = name.partition(".")
        if package == "toolcrib" and part in _ELSEWHERE:
            raise ImportError(f"toolcrib has no '{part}' ({_ELSEWHERE[part]})", name=name)


sys.meta_path.append(_OtherNames)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise _missing_attribute("module 'toolcrib'", name, _ELSEWHERE.get(name), sys.modules[__name__])
    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
