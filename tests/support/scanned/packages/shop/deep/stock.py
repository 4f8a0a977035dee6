# ruff: noqa: TID252 - people write it so
import shop.server
from shop.models import Item

from ..server import mcp as server


@server.tool(name="count_stock")
async def count(item: Item | None = None) -> dict[str, int]:
    """Count what is there."""
    return {}


@shop.server.mcp.tool
def empty_stock() -> None:
    """Throw everything away."""
