"""toolcrib itself, through its public face."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from toolcrib import MCPServer, __version__


def version() -> str:
    return __version__


def new_server() -> Any:
    return MCPServer("bench")


def adder(server: Any) -> Callable[[Callable[..., Any]], Any]:
    add: Callable[[Callable[..., Any]], Any] = server.add
    return add


async def definitions(server: Any) -> list[Any]:
    return list(server.list_tools())


def to_wire(definition: Any) -> dict[str, Any]:
    entry: dict[str, Any] = definition.to_wire()
    return entry


def off_wire(definition: Any) -> list[str]:
    return [*definition.tags, str(definition.metadata.get("raises", ""))]


def caller(server: Any) -> Callable[[str, dict[str, Any]], Awaitable[Any]]:
    call: Callable[[str, dict[str, Any]], Awaitable[Any]] = server.call
    return call


def value(result: Any) -> Any:
    if result.is_error:
        raise RuntimeError(str(result.content))
    return result.structured_content
