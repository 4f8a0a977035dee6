"""The libraries under measurement, all behind one small interface.

A subject is a module. Each does what its library's own documentation tells a user to do, through public
methods only, and nothing between the measurement and the library costs more in one than in another.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

NAMES = ("toolcrib", "mcp", "fastmcp")

# What a user of the library imports; measured in a fresh interpreter.
IMPORTS = {"toolcrib": "import toolcrib", "mcp": "import mcp.server", "fastmcp": "import fastmcp"}
FIRST_SERVERS = {
    "toolcrib": "from toolcrib import MCPServer; MCPServer('bench')",
    "mcp": "from mcp.server import MCPServer; MCPServer('bench')",
    "fastmcp": "from fastmcp import FastMCP; FastMCP('bench')",
}


class Subject(Protocol):
    def version(self) -> str:
        """The version under measurement."""
        ...

    def new_server(self) -> Any: ...

    def adder(self, server: Any) -> Callable[[Callable[..., Any]], Any]:
        """The bound method that registers one function."""
        ...

    async def definitions(self, server: Any) -> list[Any]:
        """Every definition, complete, in the type that the library hands to its protocol layer."""
        ...

    def to_wire(self, definition: Any) -> dict[str, Any]:
        """The entry of `tools/list`."""
        ...

    def off_wire(self, definition: Any) -> list[str]:
        """Words from the docstring that the library keeps for its user without sending them."""
        ...

    def caller(self, server: Any) -> Callable[[str, dict[str, Any]], Awaitable[Any]]:
        """The bound method that calls a tool in process: checked, run, its result converted."""
        ...

    def value(self, result: Any) -> Any:
        """The value in a result; raises where the call failed."""
        ...


def load(name: str) -> Subject:
    return cast(Subject, importlib.import_module(f"bench.subjects.{name}_subject"))
