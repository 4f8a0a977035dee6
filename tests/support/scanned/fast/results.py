# ruff: noqa: ICN001 - people write it so
"""Results of all kinds with fastmcp."""

import datetime
from dataclasses import dataclass
from typing import Any

from fastmcp import FastMCP
from fastmcp.tools import ToolResult
from fastmcp.utilities.types import Image
from mcp_types import TextContent
from pydantic import BaseModel

mcp = FastMCP("results")


class Weather(BaseModel):
    temperature: float
    words: str = ""


@dataclass
class Place:
    name: str
    height: int = 0


@mcp.tool
def model() -> Weather:
    """Give a model."""
    return Weather(temperature=1)


@mcp.tool
def record() -> Place:
    """Give a dataclass."""
    return Place("x")


@mcp.tool
def bare_dict() -> dict:
    """Give a bare dict."""
    return {}


@mcp.tool
def bare_list() -> list:
    """Give a bare list."""
    return []


@mcp.tool
def anything() -> Any:
    """Give anything."""


@mcp.tool
def moment() -> datetime.datetime:
    """Give a moment."""
    return datetime.datetime.now()


@mcp.tool
def raw() -> bytes:
    """Give bytes."""
    return b""


@mcp.tool
def perhaps_raw() -> bytes | None:
    """Give bytes perhaps."""
    return b""


@mcp.tool
def picture() -> Image:
    """Give a picture."""
    raise ValueError


@mcp.tool
def blocks() -> list[TextContent]:
    """Give blocks."""
    return []


@mcp.tool
def whole() -> ToolResult:
    """Give a whole result."""
    raise ValueError


@mcp.tool(output_schema=None)
def undescribed() -> dict[str, int]:
    """Give something that is not described."""
    return {}


@mcp.tool(output_schema={"type": "object", "properties": {"n": {"type": "integer"}}})
def stated() -> dict[str, Any]:
    """Give what a schema says."""
    return {}
