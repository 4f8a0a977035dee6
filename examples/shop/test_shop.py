"""Tests of the shop, through the protocol that clients use. Run them with pytest, in this folder."""

from __future__ import annotations

import pytest
import shop

from toolcrib import testing
from toolcrib.testing import SyncClient

client = testing.fixture(shop)


@pytest.fixture(autouse=True)
def empty_shop() -> None:
    shop.ORDERS.clear()


def test_an_order_is_placed_sent_and_refunded(client: SyncClient) -> None:
    placed = client.call("place_order", article="tea", quantity=2)
    number = placed.structured_content["number"]
    assert client.call("send_orders").structured_content == 1
    refunded = client.call("refund", number=number, amount=9)
    assert refunded.structured_content["status"] == "refunded"


def test_no_more_is_refunded_than_was_paid(client: SyncClient) -> None:
    placed = client.call("place_order", article="tea")
    result = client.call("refund", number=placed.structured_content["number"], amount=5)
    assert result.is_error
    assert "only 4.50 EUR" in result.text


def test_an_unknown_article_is_refused_before_the_function_runs(client: SyncClient) -> None:
    assert client.call("place_order", article="beer").is_error
    assert not shop.ORDERS


def test_no_arguments_crash_a_tool() -> None:
    testing.fuzz(shop, values={"number": [1, 2, 3]}, destructive=True)
