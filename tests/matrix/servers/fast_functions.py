"""Plain functions on a fastmcp server: models, media, results, errors, sync and async."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools import Tool
from fastmcp.utilities.types import Image
from pydantic import BaseModel, Field

try:
    from fastmcp.tools import ToolResult
except ImportError:  # before 3.0
    from fastmcp.tools.tool import ToolResult
try:
    from mcp_types import TextContent
except ImportError:  # before 4.0
    from mcp.types import TextContent

server = FastMCP("functions")


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


@server.tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: The first one.
        b: The second one.

    Returns:
        The sum.
    """
    return a + b


@server.tool
async def greet(name: Annotated[str, Field(description="Whom to greet")], greeting: str = "Hello") -> str:
    """Greet somebody."""
    await asyncio.sleep(0)
    return f"{greeting}, {name}!"


@server.tool(name="place-order", description="Order something.", tags={"shop"})
def order(order: Order) -> Order:
    return order


@server.tool(annotations={"readOnlyHint": True}, title="Pick")
def pick(
    size: Size, colour: Literal["red", "blue"] = "red", notes: list[str] | None = None
) -> dict[str, Any]:
    """Pick one."""
    return {"size": size.value, "colour": colour, "notes": notes}


@server.tool
async def pack(item: str, heavy: bool = False) -> Parcel:
    """Pack a parcel."""
    return Parcel(item, 9.5 if heavy else 1.0)


@server.tool
def names(count: int) -> list[str]:
    """Return some names."""
    return [f"name {number}" for number in range(count)]


@server.tool
def untyped(value: str):
    """Return an object without saying so."""
    return {"value": value, "length": len(value)}


@server.tool
def nothing() -> None:
    """Return nothing."""


@server.tool
def picture() -> Image:
    """Return a picture."""
    return Image(data=b"\x89PNG-pixel", format="png")


@server.tool
def album() -> list:
    """Return words and a picture."""
    return ["two", Image(data=b"\x89PNG-pixel", format="png"), {"three": 3}]


@server.tool
def block() -> TextContent:
    """Return a block of content."""
    return TextContent(type="text", text="a block")


@server.tool
def whole() -> ToolResult:
    """Return a whole result."""
    content = [TextContent(type="text", text="a whole result")]
    return ToolResult(content=content, structured_content={"whole": True})


@server.tool
def refuse(why: str) -> str:
    """Raise the library's own error."""
    raise ToolError(why)


@server.tool
async def crash(why: str) -> str:
    """Raise any other error."""
    raise ValueError(why)


@server.tool(annotations={"title": "Tidy", "readOnlyHint": True, "destructiveHint": True})
def tidy() -> None:
    """Tidy up."""


def repeat(text: str, times: Annotated[int, Field(ge=1, le=9)] = 2) -> str:
    """Repeat a text.

    Args:
        text: The text.
    """
    return text * times


changed = Tool.from_function(repeat)
del changed.parameters["properties"]["times"]["maximum"]
server.add_tool(changed)


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
    server.run(show_banner=False)
