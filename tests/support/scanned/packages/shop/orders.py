from . import models as m
from .models import Item
from .server import mcp


@mcp.tool
def place_order(items: list[Item], status: m.Status = m.Status.OPEN) -> int:
    """Place an order.

    Args:
        items: What is wanted
    """
    return len(items)
