"""The tools of a small shop: see toolcrib.toml beside this file for who may call them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import count
from typing import Annotated, Literal

from pydantic import Field

from toolcrib import Context, ToolError, tool

PRICES = {"tea": 4.5, "coffee": 6.0, "cocoa": 5.25}


@dataclass
class Order:
    number: int
    article: str
    quantity: int
    status: str = "open"

    @property
    def total(self) -> float:
        return self.quantity * PRICES[self.article]


ORDERS: dict[int, Order] = {}
_numbers = count(1)


def get_order(number: int) -> Order:
    if number not in ORDERS:
        raise ToolError(f"There is no order {number}")
    return ORDERS[number]


@tool(read_only=True)
def find_price(article: Literal["tea", "coffee", "cocoa"]) -> float:
    """Return the price of an article.

    Args:
        article: Name of the article

    Returns:
        The price of one package in euros
    """
    return PRICES[article]


@tool(read_only=True)
def find_orders(status: Literal["open", "sent", "refunded", "any"] = "any") -> list[Order]:
    """Find the orders of all customers, by status.

    Args:
        status: Only orders with this status

    Returns:
        The orders, oldest first
    """
    return [order for order in ORDERS.values() if status in ("any", order.status)]


@tool
def place_order(
    article: Literal["tea", "coffee", "cocoa"], quantity: Annotated[int, Field(ge=1, le=100)] = 1
) -> Order:
    """Place an order at the current price.

    Args:
        article: Name of the article
        quantity: Number of packages

    Returns:
        The order with its number
    """
    order = Order(next(_numbers), article, quantity)
    ORDERS[order.number] = order
    return order


@tool(scopes=["orders:write"], destructive=False)
async def send_orders(ctx: Context) -> int:
    """Send all open orders.

    Returns:
        How many were sent
    """
    waiting = [order for order in ORDERS.values() if order.status == "open"]
    for position, order in enumerate(waiting, start=1):
        order.status = "sent"
        await ctx.progress(position, len(waiting), f"order {order.number}")
    return len(waiting)


@tool(scopes=["orders:write"])
def refund(number: int, amount: Annotated[float, Field(gt=0)]) -> dict[str, object]:
    """Give money back for an order.

    Args:
        number: Number of the order
        amount: How much, in euros

    Returns:
        The order as it is now

    Example:
        refund(number=1, amount=4.5)
    """
    order = get_order(number)
    if amount > order.total:
        raise ToolError(f"Order {number} was only {order.total:.2f} EUR")
    order.status = "refunded"
    return asdict(order)


@tool(destructive=True, scopes=["orders:write"], audit="required")
def delete_order(number: int) -> str:
    """Delete an order for good.

    Args:
        number: Number of the order
    """
    del ORDERS[get_order(number).number]
    return f"Order {number} is deleted"
