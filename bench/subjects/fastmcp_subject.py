"""fastmcp: the `FastMCP` server."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Awaitable, Callable
from typing import Any

# By name: the environment that checks types has no peers installed.
_fastmcp = importlib.import_module("fastmcp")


def version() -> str:
    return importlib.metadata.version("fastmcp")


def new_server() -> Any:
    return _fastmcp.FastMCP("bench")


def adder(server: Any) -> Callable[[Callable[..., Any]], Any]:
    add: Callable[[Callable[..., Any]], Any] = server.add_tool
    return add


async def definitions(server: Any) -> list[Any]:
    return [tool.to_mcp_tool(name=tool.name) for tool in await server.list_tools()]


def to_wire(definition: Any) -> dict[str, Any]:
    entry: dict[str, Any] = definition.model_dump(mode="json", by_alias=True, exclude_none=True)
    return entry


def off_wire(definition: Any) -> list[str]:  # noqa: ARG001 - it keeps nothing back
    return []


def caller(server: Any) -> Callable[[str, dict[str, Any]], Awaitable[Any]]:
    call: Callable[[str, dict[str, Any]], Awaitable[Any]] = server.call_tool
    return call


def value(result: Any) -> Any:
    if result.is_error:
        raise RuntimeError(str(result.content))
    structured = result.structured_content
    return structured.get("result", structured)
