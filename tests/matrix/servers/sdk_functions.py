"""Plain functions on a server of the official SDK: models, media, errors, sync and async."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

from mcp import types
from mcp.types import CallToolResult, TextContent
from pydantic import BaseModel, Field

try:
    from mcp.server.mcpserver import Image, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
except ImportError:  # before 2.0
    from mcp.server.fastmcp import FastMCP as MCPServer
    from mcp.server.fastmcp import Image
    from mcp.server.fastmcp.exceptions import ToolError

server = MCPServer("functions")


class Address(BaseModel):
    street: str
    city: str = "Oslo"


class Order(BaseModel):
    item: str
    quantity: int = Field(default=1, ge=1, le=10)
    to: Address | None = None


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass
class Parcel:
    item: str
    weight_kg: float = 1.0


@server.tool()
def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: The first one.
        b: The second one.

    Returns:
        The sum.
    """
    return a + b


@server.tool()
async def greet(name: Annotated[str, Field(description="Whom to greet")], greeting: str = "Hello") -> str:
    """Greet somebody."""
    await asyncio.sleep(0)
    return f"{greeting}, {name}!"


@server.tool(name="place-order", description="Order something.")
def order(order: Order) -> Order:
    return order


@server.tool()
def pick(
    size: Size, colour: Literal["red", "blue"] = "red", notes: list[str] | None = None
) -> dict[str, Any]:
    """Pick one."""
    return {"size": size.value, "colour": colour, "notes": notes}


@server.tool()
async def pack(item: str, heavy: bool = False) -> Parcel:
    """Pack a parcel."""
    return Parcel(item, 9.5 if heavy else 1.0)


@server.tool()
def names(count: int) -> list[str]:
    """Return some names."""
    return [f"name {number}" for number in range(count)]


@server.tool()
def untyped(value: str):
    """Return an object without saying so."""
    return {"value": value, "length": len(value)}


@server.tool()
def nothing() -> None:
    """Return nothing."""


@server.tool()
def picture() -> Image:
    """Return a picture."""
    return Image(data=b"\x89PNG-pixel", format="png")


@server.tool()
def album() -> list:
    """Return words and a picture."""
    return ["two", Image(data=b"\x89PNG-pixel", format="png"), {"three": 3}]


@server.tool()
def block() -> TextContent:
    """Return a block of content."""
    return TextContent(type="text", text="a block")


@server.tool()
def whole(bad: bool = False) -> CallToolResult:
    """Return a whole result."""
    content = [TextContent(type="text", text="a whole result")]
    return CallToolResult.model_validate({"content": content, "isError": bad})


@server.tool()
def refuse(why: str) -> str:
    """Raise the library's own error."""
    raise ToolError(why)


@server.tool()
async def crash(why: str) -> str:
    """Raise any other error."""
    raise ValueError(why)


def tidy() -> None:
    """Tidy up."""


if hasattr(types, "ToolAnnotations"):
    notes = {"title": "Tidy", "readOnlyHint": True, "destructiveHint": True}
    server.add_tool(tidy, annotations=types.ToolAnnotations.model_validate(notes))
else:  # before 1.7
    server.add_tool(tidy)


def repeat(text: str, times: Annotated[int, Field(ge=1, le=9)] = 2) -> str:
    """Repeat a text.

    Args:
        text: The text.
    """
    return text * times


server.add_tool(repeat)
del server._tool_manager.get_tool("repeat").parameters["properties"]["times"]["maximum"]


@server.resource("notes://today", name="today", description="The note of today", mime_type="text/markdown")
def today() -> str:
    return "# Today"


@server.resource("notes://on/{topic}")
def note(topic: str) -> str:
    """The note on a topic."""
    return f"on {topic!r}"


@server.prompt()
def write(topic: str, length: int = 2) -> str:
    """Ask for a text."""
    return f"Write {length!r} lines on {topic!r}"


if __name__ == "__main__":
    server.run()
