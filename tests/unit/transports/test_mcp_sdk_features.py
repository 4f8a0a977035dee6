"""Our resources and prompts on a server of the official SDK, seen by the official client in both eras."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.server import Server
from mcp.server.mcpserver import MCPServer as OfficialServer
from mcp.shared.exceptions import MCPError

from toolcrib import MCPServer
from toolcrib.policy import Policy, Rule
from toolcrib.transports.mcp_sdk import attach

both_eras = pytest.mark.parametrize("mode", ["legacy", "auto"])


def make_crib(**options: Any) -> MCPServer:
    crib = MCPServer("crib", **options)

    @crib.resource("orders://{number}")
    def order(number: int) -> dict[str, int]:
        """An order."""
        return {"number": number}

    crib.add_resource("shop://hours", "9 to 5")

    @crib.prompt
    def plan(city: str, days: int = 3) -> str:
        """Plan a trip."""
        return f"{city} {days!r}"

    @plan.complete("city")
    def cities(value: str) -> list[str]:
        return ["Rome", "Oslo"]

    return crib


def make_official() -> OfficialServer[Any]:
    server: Any = OfficialServer("official")

    @server.resource("shop://address")
    def address() -> str:
        return "Main Street"

    @server.resource("shop://hours")
    def hours() -> str:
        return "never"

    @server.resource("stock://{article}")
    def stock(article: str) -> str:
        return f"3 of {article}"

    @server.prompt()
    def haggle(price: str) -> str:
        return f"Less than {price}"

    @server.completion()
    async def complete(ref: Any, argument: Any, context: Any) -> Any:
        return types.Completion(values=[f"{argument.name} of theirs"])

    made: OfficialServer[Any] = server
    return made


def text_of(result: Any) -> str:
    (item,) = result.contents
    return str(item.text)


@both_eras
async def test_they_are_listed_beside_those_of_the_server(mode: str) -> None:
    official = make_official()
    attach(make_crib(), official)
    async with Client(official, mode=mode) as client:
        resources = (await client.list_resources()).resources
        templates = (await client.list_resource_templates()).resource_templates
        prompts = (await client.list_prompts()).prompts

    assert [item.uri for item in resources] == ["shop://hours", "shop://address"]
    assert [item.uri_template for item in templates] == ["orders://{number}", "stock://{article}"]
    assert [item.name for item in prompts] == ["plan", "haggle"]


@both_eras
async def test_ours_win_and_theirs_stay(mode: str) -> None:
    official = make_official()
    attach(make_crib(), official)
    async with Client(official, mode=mode) as client:
        assert text_of(await client.read_resource("shop://hours")) == "9 to 5"
        assert text_of(await client.read_resource("shop://address")) == "Main Street"
        assert text_of(await client.read_resource("orders://7")) == '{"number":7}'
        assert text_of(await client.read_resource("stock://tea")) == "3 of tea"
        ours = await client.get_prompt("plan", {"city": "Rome", "days": "5"})
        theirs = await client.get_prompt("haggle", {"price": "5"})
        with pytest.raises(MCPError, match="Unknown resource: shop://nothing"):
            await client.read_resource("shop://nothing")

    texts = [message.content.text for result in (ours, theirs) for message in result.messages]  # type: ignore[union-attr]
    assert texts == ["Rome 5", "Less than 5"]


@both_eras
async def test_arguments_of_both_are_completed(mode: str) -> None:
    official = make_official()
    attach(make_crib(), official)
    async with Client(official, mode=mode) as client:
        ours = await client.complete(types.PromptReference(name="plan"), {"name": "city", "value": "R"})
        theirs = await client.complete(types.PromptReference(name="haggle"), {"name": "price", "value": ""})

    assert ours.completion.values == ["Rome"]
    assert theirs.completion.values == ["price of theirs"]


@both_eras
async def test_a_server_without_its_own_gets_ours(mode: str) -> None:
    low: Server[Any] = Server("low")
    attach(make_crib(), low)
    async with Client(low, mode=mode) as client:
        assert [item.uri for item in (await client.list_resources()).resources] == ["shop://hours"]
        with pytest.raises(MCPError) as error:
            await client.read_resource("shop://nothing")

    assert error.value.error.data == {"uri": "shop://nothing"}


@both_eras
async def test_what_a_policy_denies_is_unknown_there_too(mode: str) -> None:
    policy = Policy(rules=[Rule(allow=["*"]), Rule(deny=["resource:shop://hours"])])
    official = make_official()
    attach(make_crib(policy=policy), official)
    async with Client(official, mode=mode) as client:
        assert [item.uri for item in (await client.list_resources()).resources] == ["shop://address"]
        with pytest.raises(MCPError, match="Resource not found"):
            await client.read_resource("shop://hours")


async def test_a_crib_without_resources_adds_no_methods() -> None:
    low: Server[Any] = Server("low")
    attach(MCPServer("crib"), low)

    assert low.get_request_handler("resources/list") is None
    assert low.get_request_handler("completion/complete") is None
