"""A version that is not listed cannot be called by name@version either."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib import MCPServer
from toolcrib.context import Principal
from toolcrib.errors import ToolNotFoundError
from toolcrib.policy import Limit, Policy, Rule

pytestmark = pytest.mark.row("D2")

ANA = Principal("key:ana")


@pytest.mark.parametrize(
    "rules", [[Rule(deny=["tag:danger"])], [Rule(allow=["hint:read-only"]), Rule(allow=["look"])]]
)
async def test_d2_an_older_version_is_not_a_way_to_a_tool_that_is_not_listed(rules: list[Rule]) -> None:
    server = MCPServer("shop", policy=Policy(rules=rules))

    @server.tool(name="wipe", version="1", read_only=True)
    def old() -> str:
        """Wipe."""
        return "old"

    @server.tool(name="wipe", version="2", tags=["danger"], read_only=False)
    def new() -> str:
        """Wipe."""
        return "new"

    @server.tool(name="look", version="1")
    def glance() -> str:
        """Look."""
        return "glance"

    @server.tool(name="look", version="2", aliases=["see"])
    def look() -> str:
        """Look."""
        return "look"

    assert [tool.name for tool in server.list_tools(ANA)] == ["look"]
    for name in ("wipe", "wipe@1", "WIPE@1", "wipe@2"):
        with pytest.raises(ToolNotFoundError):
            await server.dispatcher.call(name, principal=ANA)
    texts = [(await server.dispatcher.call(name, principal=ANA)).text for name in ("look@1", "look", "see")]
    assert texts == ["glance", "look", "look"]


async def test_d2_each_version_is_judged_by_its_own_tags_and_scopes_and_all_by_their_name() -> None:
    limits = [
        Limit(tools=["tag:dear"], daily=1, name="by tag"),
        Limit(tools=["send"], daily=3, name="by name"),
    ]
    policy = Policy(limits=limits, scopes={"post:new": ["tag:dear"]})
    server = MCPServer("shop", policy=policy)

    @server.tool(name="send", version="1", scopes=["post:old"])
    def letter() -> str:
        """Send."""
        return "letter"

    @server.tool(name="send", version="2", tags=["dear"], scopes=["post"])
    def telegram() -> str:
        """Send."""
        return "telegram"

    async def send(name: str, *scopes: str) -> Any:
        result = await server.dispatcher.call(name, principal=Principal("key:ana", frozenset(scopes)))
        return result.text if result.error is None else getattr(result.error, "details", {})

    assert await send("send") == {"scopes": ["post", "post:new"]}
    assert await send("send@1") == {"scopes": ["post:old"]}
    assert await send("send", "post", "post:new") == "telegram"
    assert (await send("send", "post", "post:new"))["limit"] == "by tag"
    assert [await send("send@1", "post:old") for _ in range(2)] == ["letter"] * 2
    assert (await send("send@1", "post:old"))["limit"] == "by name"
