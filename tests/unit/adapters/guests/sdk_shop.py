"""A shop as somebody wrote it for the official SDK: plain, async, models, enums, media, errors, Context."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, ImageContent, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

PIXEL = b"\x89PNG\r\n\x1a\n-pixel"


@dataclass
class Shelf:
    """What the lifespan opens."""

    prices: dict[str, float] = field(default_factory=dict)
    closed: bool = False


SHELVES: list[Shelf] = []


@asynccontextmanager
async def open_shop(server: MCPServer[Shelf]) -> AsyncIterator[Shelf]:
    shelf = Shelf({"tea": 4.5, "jam": 3.0})
    SHELVES.append(shelf)
    async with asyncio.TaskGroup():  # must be left by the task that entered it
        yield shelf
    shelf.closed = True


shop = MCPServer("shop", lifespan=open_shop)


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


class Address(BaseModel):
    """Where a parcel goes."""

    street: str
    city: str = "Oslo"


class Order(BaseModel):
    item: str
    quantity: int = Field(default=1, ge=1, le=10)
    to: Address | None = None


class Stock(TypedDict):
    item: str
    left: int


@dataclass
class Parcel:
    item: str
    weight_kg: float = 1.0


class Consent(BaseModel):
    really: bool
    reason: str = "none"


@shop.tool()
def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Args:
        a: The first one.
        b: The second one.
    """
    return a + b


@shop.tool()
async def greet(name: str, greeting: str = "Hello") -> str:
    """Greet somebody."""
    await asyncio.sleep(0)
    return f"{greeting}, {name}!"


@shop.tool(name="place-order", title="Place an order", description="Order something, said in other words.")
def order(order: Order) -> Order:
    """Order something."""
    return order


@shop.tool(annotations=ToolAnnotations(title="Stock", read_only_hint=True, open_world_hint=False))
def stock(item: Annotated[str, Field(description="What to look for", min_length=2)]) -> Stock:
    """How much is left."""
    return {"item": item, "left": len(item)}


@shop.tool()
def pack(item: str, heavy: bool = False) -> Parcel:
    """Pack a parcel."""
    return Parcel(item, 9.5 if heavy else 1.0)


@shop.tool()
def pick(size: Size, colour: Literal["red", "blue"] = "red", on: date | None = None) -> dict[str, Any]:
    """Pick one."""
    return {"size": size.value, "colour": colour, "on": on.isoformat() if on else None}


@shop.tool()
def labels(tags: Annotated[list[str], Field(default_factory=lambda: ["new"], max_length=3)]) -> list[str]:
    """Tags, in order."""
    return sorted(tags)


@shop.tool()
def logo() -> Image:
    """The shop's logo."""
    return Image(data=PIXEL, format="png")


@shop.tool()
def brochure() -> list[Any]:
    """Words and pictures."""
    return ["Our shop", Image(data=PIXEL), TextContent(type="text", text="The end")]


@shop.tool()
def picture() -> ImageContent:
    """A block of the protocol."""
    return ImageContent(type="image", data="aGk=", mime_type="image/png")


@shop.tool()
def receipt(total: float) -> CallToolResult:
    """A whole result."""
    return CallToolResult(
        content=[TextContent(type="text", text=f"Total: {total}")],
        structured_content={"total": total},
        _meta={"shop.example/till": 3},
    )


@shop.tool()
def refuse(why: str) -> str:
    """Fail in words."""
    raise ToolError(f"We cannot: {why}")


@shop.tool()
def crash(secret: str) -> str:
    """Fail without words."""
    raise RuntimeError(f"password={secret}")


@shop.tool()
async def price(item: str, ctx: Context[Shelf, Any]) -> float:
    """What it costs."""
    prices = ctx.request_context.lifespan_context.prices
    await ctx.report_progress(1, 2, "looking")
    await ctx.info(f"asked for {item}")
    await ctx.report_progress(2, 2)
    if item not in prices:
        raise ToolError(f"No {item} here")
    return prices[item]


@shop.tool()
def who(ctx: Context[Shelf, Any], shout: bool = False) -> str:
    """Plain code that looks at its request."""
    assert ctx.request_id
    assert ctx.headers is None
    name = ctx.mcp_server.name
    return name.upper() if shout else name


@shop.tool()
async def buy(item: str, ctx: Context[Shelf, Any]) -> str:
    """Buy after asking."""
    answer = await ctx.elicit(f"Really buy {item}?", Consent)
    if answer.action != "accept":
        return f"not bought: {answer.action}"
    return f"bought {item}: {answer.data.really}, {answer.data.reason}"


@shop.tool()
async def poem(topic: str, ctx: Context[Shelf, Any]) -> str:
    """Let the client's model write."""
    from mcp_types import SamplingMessage

    asked = SamplingMessage(role="user", content=TextContent(type="text", text=f"Rhyme on {topic}"))
    result = await ctx.session.create_message(
        [asked], max_tokens=50, system_prompt="Be brief", temperature=0.5
    )
    assert isinstance(result.content, TextContent)
    return f"{result.model}: {result.content.text}"


@shop.tool()
async def folders(ctx: Context[Shelf, Any]) -> list[str]:
    """Where the client works."""
    found = await ctx.session.list_roots()
    return [str(root.uri) for root in found.roots]


@shop.tool()
async def manual(ctx: Context[Shelf, Any]) -> str:
    """Read a resource of the same server."""
    contents = list(await ctx.read_resource("shop://manual"))
    return str(contents[0].content)


@shop.tool()
async def announce(ctx: Context[Shelf, Any]) -> str:
    """Wants what cannot be given."""
    session = ctx.session
    await session.send_resource_updated("shop://manual")
    return "told"


def _tell(ctx: Context[Shelf, Any]) -> Any:
    return ctx.session.send_ping()


@shop.tool()
async def sneak(ctx: Context[Shelf, Any]) -> str:
    """Wants the same, out of sight."""
    await _tell(ctx)
    return "told"


@shop.tool()
def late(*numbers: int) -> int:
    """A signature that no client can fill."""
    return sum(numbers)


@shop.resource("shop://manual")
def the_manual() -> str:
    return "Open, then pour."


@shop.prompt()
def haggle() -> str:
    return "Make it cheaper."
