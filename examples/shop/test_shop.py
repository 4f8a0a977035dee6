"""Tests of the shop, through the protocol that clients use. Run them with pytest, in this folder."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import shop

from toolcrib import MCPServer
from toolcrib.client import Client


def run(test: Callable[[Client], Awaitable[None]]) -> None:
    """Run a test with a client of a new server."""

    async def main() -> None:
        server = MCPServer("shop")
        server.add(shop)
        async with server.connect() as client:
            await test(client)

    asyncio.run(main())


@pytest.fixture(autouse=True)
def empty_shop() -> None:
    shop.ORDERS.clear()


def test_an_order_is_placed_sent_and_refunded() -> None:
    async def test(client: Client) -> None:
        placed = await client.call("place_order", {"article": "tea", "quantity": 2})
        number = placed.structured_content["number"]
        assert (await client.call("send_orders")).structured_content == 1
        refunded = await client.call("refund", {"number": number, "amount": 9})
        assert refunded.structured_content["status"] == "refunded"

    run(test)


def test_no_more_is_refunded_than_was_paid() -> None:
    async def test(client: Client) -> None:
        placed = await client.call("place_order", {"article": "tea"})
        result = await client.call("refund", {"number": placed.structured_content["number"], "amount": 5})
        assert result.is_error
        assert "only 4.50 EUR" in result.text

    run(test)


def test_an_unknown_article_is_refused_before_the_function_runs() -> None:
    async def test(client: Client) -> None:
        assert (await client.call("place_order", {"article": "beer"})).is_error
        assert not shop.ORDERS

    run(test)
