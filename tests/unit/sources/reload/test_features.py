"""Reload: resources and prompts are replaced together with the tools, or not at all."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.reload_folder import Workshop, complaints, workshop

SHOP = """
from toolcrib import MCPServer

server = MCPServer("shop")

@server.tool
def say() -> str:
    \"\"\"Say something.\"\"\"
    return "one"

@server.resource("orders://{number}", mime_type="text/plain")
def order(number: str) -> str:
    \"\"\"One order.\"\"\"
    return f"order {number}"

server.add_resource("shop://terms", "Pay soon.")

@server.prompt
def thank(who: str) -> str:
    \"\"\"Thank somebody.\"\"\"
    return f"Thank {who}."

@thank.complete("who")
def complete_who(value: str) -> list[str]:
    return ["ana", "bo"]
"""


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workshop]:
    (tmp_path / "crib_tools.py").write_text(SHOP)
    with workshop(tmp_path) as made:
        yield made


async def read(shop: Workshop, uri: str) -> str:
    return str((await shop.server.read(uri))[0]["text"])


async def thank(shop: Workshop) -> str:
    return str((await shop.server.get_prompt("thank", {"who": "ana"}))[0]["content"]["text"])


async def change(shop: Workshop, *pairs: tuple[str, str]) -> bool:
    text = SHOP
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    shop.write(crib_tools=text)
    return await shop.reloader.check_now()


def changed(shop: Workshop) -> list[tuple[str, tuple[str, ...]]]:
    return [(item.kind, item.names) for item in shop.changes]


async def test_changed_resources_and_prompts_are_used(shop: Workshop) -> None:
    assert await read(shop, "orders://7") == "order 7"
    assert await thank(shop) == "Thank ana."
    new = [("order {number}", "No. {number}"), ("Pay soon.", "Pay now."), ("Thank {who}", "Praise {who}")]
    assert await change(shop, *new)
    assert (await read(shop, "orders://7"), await read(shop, "shop://terms")) == ("No. 7", "Pay now.")
    assert await thank(shop) == "Praise ana."
    assert changed(shop) == [
        ("replaced", ("orders://{number}", "shop://terms")),
        ("replaced", ("thank",)),
    ]


async def test_what_stays_the_same_is_announced_to_nobody(shop: Workshop) -> None:
    assert await change(shop, ("from toolcrib", "# a comment\nfrom toolcrib"))
    assert shop.changes == []


async def test_another_type_of_a_resource_is_a_change(shop: Workshop) -> None:
    assert await change(shop, ("text/plain", "text/markdown"))
    assert changed(shop) == [("replaced", ("orders://{number}",))]


async def test_completion_survives_a_reload(shop: Workshop) -> None:
    assert await change(shop, ("Thank {who}", "Praise {who}"), ('["ana", "bo"]', '["cy"]'))
    async with shop.server.connect() as client:
        ref = {"type": "ref/prompt", "name": "thank"}
        params = {"ref": ref, "argument": {"name": "who", "value": ""}}
        answer: Any = await client._request("completion/complete", params)
    assert answer["completion"]["values"] == ["cy"]


async def test_removed_and_added_ones_go_and_come(shop: Workshop) -> None:
    added = '\n@server.prompt\ndef greet() -> str:\n    """Greet."""\n    return \'Hi\'\n'
    assert await change(shop, ('server.add_resource("shop://terms", "Pay soon.")\n', added))
    assert [tool.name for tool in shop.server.resources] == ["orders://{number}"]
    assert [tool.name for tool in shop.server.prompts] == ["thank", "greet"]
    assert changed(shop) == [("removed", ("shop://terms",)), ("added", ("greet",))]


async def test_where_one_kind_cannot_be_replaced_none_is(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    async def other(who: str) -> str:
        return who

    shop.server.prompt("other")(other)  # the running server has added it itself
    shop.changes.clear()
    new = ('return "one"', 'return "two"'), ("@server.prompt", '@server.prompt("other")')
    assert not await change(shop, *new)
    assert await shop.say() == "one"
    assert shop.changes == []
    assert "'other'" in complaints(caplog.records)[0]


async def test_the_log_counts_every_kind(shop: Workshop, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "toolcrib")
    assert await change(shop, ("Pay soon.", "Pay now."))
    words = "Reloaded 1 tool, 1 resource, 1 template and 1 prompt, changed: shop://terms"
    assert complaints(caplog.records, logging.INFO) == [words]


async def test_old_code_of_resources_is_forgotten(shop: Workshop) -> None:
    await read(shop, "orders://7")
    assert await change(shop, ("order {number}", "No. {number}"))
    await shop.server.dispatcher.renew()
    assert shop.server.dispatcher._plan_of == {}
