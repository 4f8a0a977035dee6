"""The pair and tools of its own names that not everybody may know of: nobody can tell that they are there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.guarded import Voice
from toolcrib import MCPServer, Tool
from toolcrib.context import Principal
from toolcrib.dispatch.tool_search import CALL, SEARCH
from toolcrib.errors import ToolNotFoundError
from toolcrib.policy import Policy, Rule

ANA, BEN = Principal("key:ana"), Principal("key:ben")
PAIR = [SEARCH, CALL]
NAMES = (
    CALL,
    SEARCH,
    f"toolcrib_{CALL}",
    f"toolcrib_{SEARCH}",
    f"toolcrib_2_{CALL}",
    CALL.upper(),
    f"{CALL}@1",
)


def polish(number: int) -> Tool:
    words = f"Polish the brass of ship number {number} until it shines."
    return Tool.from_function(
        lambda times=1: f"ship {number} shines {times} times", name=f"polish_{number}", description=words
    )


def make_harbour(*hidden: Tool, who: tuple[str, ...] = ("key:ben",), **options: Any) -> MCPServer:
    """Fifty tools, and `hidden` ones that these callers may not know of."""
    rules = [Rule(deny=["polish_49"], who=["key:nobody"])]
    rules += [Rule(deny=[tool.name], who=who) for tool in hidden]
    options = {"search": "always"} | options
    server = MCPServer("harbour", version="1.0.0", policy=Policy(rules=rules), **options)
    server.add([polish(number) for number in range(50)])
    server.add(list(hidden))
    return server


def ring(name: str, **options: Any) -> Tool:
    return Tool.from_function(
        lambda name="": f"rings {name}", name=name, description="Ring somebody's bell.", **options
    )


def names(server: MCPServer, who: Principal) -> list[str]:
    return [definition.name for definition in server.list_shown(who)]


HIDDEN = {
    "of its name": [ring(CALL)],
    "both": [ring(CALL), ring(SEARCH)],
    "the other name": [ring(CALL), ring(f"toolcrib_{CALL}")],
    "an alias": [ring("bell", aliases=[CALL])],
    "versions": [ring(CALL, version="1"), ring(CALL, version="2")],
}


async def tell(server: MCPServer, who: Principal, name: str, arguments: dict[str, Any]) -> Any:
    try:
        result = await server.call(name, arguments, principal=who)
    except ToolNotFoundError as error:
        return str(error)
    return result.is_error, result.text


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("hidden", HIDDEN.values(), ids=HIDDEN)
async def test_who_is_denied_a_tool_of_that_name_hears_what_they_would_hear_without_it(
    hidden: list[Tool], version: str
) -> None:
    there, not_there = make_harbour(*hidden), make_harbour()
    said = []
    for server in (there, not_there):
        async with server:
            for name in NAMES:  # others have called everything before
                await tell(server, ANA, name, {"name": "polish_1", "query": "brass"})
            async with Voice(server, version, BEN) as ben:
                heard: list[Any] = [(await ben.ask("tools/list", {}))["result"]["tools"]]
                for name in NAMES:
                    heard += [
                        (await ben.call(name, arguments)).get("result") or "unknown"
                        for arguments in ({"name": "polish_7"}, {"query": "polish ship 7"}, {})
                    ]
                    called = await ben.call(CALL, {"name": name, "arguments": {"name": "x"}})
                    heard.append(called["result"]["content"])
            heard += [await tell(server, BEN, name, {"name": "polish_7"}) for name in NAMES]
            said.append(heard)
    assert said[0] == said[1]
    assert names(there, BEN) == PAIR
    assert "ship 7 shines 1 times" in str(said[0])


@pytest.mark.parametrize("hidden", HIDDEN.values(), ids=HIDDEN)
async def test_who_may_call_it_calls_it_and_the_pair_by_another_name(hidden: list[Tool]) -> None:
    server = make_harbour(*hidden)
    assert names(server, BEN) == PAIR  # and that changes nothing for others
    finder, caller = names(server, ANA)
    assert caller not in PAIR
    for _ in range(2):
        assert await tell(server, ANA, CALL, {"name": "polish_7"}) == (False, "rings polish_7")
        assert await tell(server, ANA, caller, {"name": "polish_7"}) == (False, "ship 7 shines 1 times")
        assert await tell(server, BEN, CALL, {"name": "polish_7"}) == (False, "ship 7 shines 1 times")
    with pytest.raises(ToolNotFoundError):
        await server.call(caller, {"name": "polish_7"}, principal=BEN)
    found = await server.call(finder, {"query": "bell"}, principal=ANA)
    assert found.structured_content["tools"][0]["name"] == hidden[0].name


async def test_a_tool_that_is_denied_to_all_takes_the_name_from_nobody() -> None:
    server = make_harbour(ring(CALL), who=())
    for who in (ANA, BEN):
        assert names(server, who) == PAIR
        assert await tell(server, who, CALL, {"name": "polish_7"}) == (False, "ship 7 shines 1 times")
        assert await tell(server, who, f"toolcrib_{CALL}", {}) == f"Unknown tool: toolcrib_{CALL}"


async def test_who_has_a_short_list_has_no_pair_though_others_have() -> None:
    rules = [Rule(allow=["*"], who=["key:ana"]), Rule(allow=["polish_1"])]
    server = MCPServer("harbour", policy=Policy(rules=rules), search_budget_tokens=500)
    server.add([polish(number) for number in range(50)])
    assert names(server, ANA) == PAIR
    assert names(server, BEN) == ["polish_1"]
    assert await tell(server, ANA, CALL, {"name": "polish_7"}) == (False, "ship 7 shines 1 times")
    assert await tell(server, BEN, CALL, {"name": "polish_1"}) == f"Unknown tool: {CALL}"
