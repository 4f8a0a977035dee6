# ruff: noqa: ICN001 - people write it so
"""Results of all kinds on a server of the SDK."""

import datetime
from dataclasses import dataclass
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Image
from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel

app = MCPServer("results")


class Weather(BaseModel):
    """The weather."""

    temperature: float
    words: str = ""


@dataclass
class Place:
    name: str
    height: int = 0


@app.tool()
def model(city: str) -> Weather:
    """Give a model."""
    return Weather(temperature=1)


@app.tool()
def record(city: str) -> Place:
    """Give a dataclass."""
    return Place(city)


@app.tool()
def table(city: str) -> dict[str, int]:
    """Give a dict.

    Returns:
        What there is
    """
    return {}


@app.tool()
def bare_dict(city: str) -> dict:
    """Give a bare dict."""
    return {}


@app.tool()
def bare_list(city: str) -> list:
    """Give a bare list."""
    return []


@app.tool()
def anything(city: str) -> Any:
    """Give anything."""
    return None


@app.tool()
def nothing(city: str) -> None:
    """Give nothing."""


@app.tool()
def unsaid(city: str):
    """Say nothing about it."""


@app.tool()
def moment(city: str) -> datetime.datetime:
    """Give a moment."""
    return datetime.datetime.now()


@app.tool()
def number(city: str) -> float | None:
    """Give a number or nothing."""
    return None


@app.tool()
def picture(city: str) -> Image:
    """Give a picture."""
    raise ValueError


@app.tool()
def blocks(city: str) -> list[TextContent]:
    """Give blocks."""
    return []


@app.tool()
def whole(city: str) -> CallToolResult:
    """Give a whole result."""
    raise ValueError


@app.tool(structured_output=False)
def plain(city: str) -> dict[str, int]:
    """Give something that is not described."""
    return {}


@app.tool()
def raw(city: str) -> bytes:
    """Give bytes."""
    return b""
