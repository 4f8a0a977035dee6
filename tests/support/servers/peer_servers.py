"""The same small server, built with toolcrib, with the official SDK and with fastmcp.

python -m tests.support.servers.peer_servers toolcrib|mcp|fastmcp PORT

The same with the TypeScript SDK is tests/conformance/rival.mjs.
"""

from __future__ import annotations

import importlib
import logging
import sys
import warnings
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel


class Point(BaseModel):
    """A place on a page."""

    x: float
    y: float = 0.0


def add(a: int, b: int = 1) -> int:
    """Add two whole numbers."""
    return a + b


def echo(text: str) -> str:
    """Say it again."""
    return text


def total(values: list[float]) -> float:
    """Add many numbers."""
    return sum(values)


def move(point: Point, by: float = 1.0) -> Point:
    """Move a point to the right."""
    return Point(x=point.x + by, y=point.y)


def switch(on: bool, note: str | None = None) -> str:
    """Turn it on or off."""
    return f"{'on' if on else 'off'}, {note}"


def refuse() -> str:
    """Refuse, in words."""
    raise ValueError("not today")


TOOLS: tuple[Callable[..., Any], ...] = (add, echo, total, move, switch, refuse)


def serve_toolcrib(port: int) -> None:
    server = importlib.import_module("toolcrib").MCPServer("rival", version="1")
    for tool in TOOLS:
        server.add(tool, run="inline")
    server.run("http", port=port)


def serve_mcp(port: int) -> None:
    server = importlib.import_module("mcp.server").MCPServer("rival", version="1", log_level="CRITICAL")
    for tool in TOOLS:
        server.add_tool(tool)
    server.run("streamable-http", port=port, host="127.0.0.1")


def serve_fastmcp(port: int) -> None:
    server = importlib.import_module("fastmcp").FastMCP("rival", version="1")
    for tool in TOOLS:
        server.tool(tool)
    server.run("http", port=port, host="127.0.0.1", show_banner=False)


RIVALS = {"toolcrib": serve_toolcrib, "mcp": serve_mcp, "fastmcp": serve_fastmcp}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    RIVALS[sys.argv[1]](int(sys.argv[2]))
