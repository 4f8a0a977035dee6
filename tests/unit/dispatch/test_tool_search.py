"""Tool search: what clients are shown of many tools, and what is logged about it."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import pytest

from tests.support.servers.policy_server import Voice
from toolcrib import MCPServer, Tool
from toolcrib.catalog.tokens import cost_of
from toolcrib.context import Principal
from toolcrib.dispatch.tool_search import CALL, PINNED, SEARCH
from toolcrib.errors import ConfigurationError, ToolNotFoundError
from toolcrib.policy import Policy, Rule

PAIR = [SEARCH, CALL]


def polish(number: int, **options: Any) -> Tool:
    def handler(times: int = 1) -> str:
        return f"ship {number} shines {times} times"

    words = f"Polish the brass of ship number {number} until it shines."
    return Tool.from_function(handler, name=f"polish_{number}", description=words, **options)


def harbour(count: int = 50, **options: Any) -> MCPServer:
    server = MCPServer("harbour", **options)
    server.add([polish(number) for number in range(count)])
    return server


def shown(server: MCPServer) -> list[str]:
    return [definition.name for definition in server.list_shown()]


def test_a_short_list_is_shown_as_it_is() -> None:
    server = harbour()
    assert shown(server) == [f"polish_{number}" for number in range(50)]
    assert server.list_shown() == server.list_tools()


def test_a_list_beyond_the_budget_gives_way_to_the_pair() -> None:
    cost = sum(cost_of(definition) for definition in harbour().list_tools())
    assert shown(harbour(search_budget_tokens=cost)) == [f"polish_{number}" for number in range(50)]
    server = harbour(search_budget_tokens=cost - 1)
    assert shown(server) == PAIR
    assert len(server.list_tools()) == len(server.registry) == 50  # which are what they were


def test_always_and_never_are_taken_at_their_word() -> None:
    assert shown(harbour(2, search="always")) == PAIR
    assert shown(harbour(0, search="always")) == PAIR
    assert shown(harbour(2000, search="never")) == [f"polish_{number}" for number in range(2000)]


def test_pinned_tools_stay_in_the_list() -> None:
    server = harbour(search="always")
    server.add(polish(98, tags=["brass", PINNED]), polish(99, tags=[PINNED]))
    assert shown(server) == [*PAIR, "polish_98", "polish_99"]


def test_a_tool_of_the_same_name_keeps_it_and_ours_takes_another() -> None:
    server = harbour(search="always")
    server.add(lambda query: query, name=SEARCH, description="Search the tool shed.")
    assert shown(server) == [f"toolcrib_{SEARCH}", CALL]
    assert f"toolcrib_{SEARCH}" in server.list_shown()[1].description
    server.add(lambda: 1, name=f"toolcrib_{SEARCH}", description="Search again.")
    server.add(lambda: 1, name="ring", aliases=[CALL], description="Ring somebody.")
    assert shown(server) == [f"toolcrib_2_{SEARCH}", f"toolcrib_{CALL}"]


async def test_a_tool_of_the_same_name_is_the_one_that_is_called() -> None:
    server = harbour(search="always")
    server.add(lambda name: f"rings {name}", name=CALL, description="Ring somebody.")
    assert (await server.call(CALL, {"name": "polish_1"})).text == "rings polish_1"
    assert (await server.call(f"toolcrib_{CALL}", {"name": "polish_1"})).text == "ship 1 shines 1 times"


def test_anything_that_is_shown_stays_one_object_until_the_tools_change() -> None:
    server = harbour(search="always", dynamic=True)
    before = server.dispatcher.shown()
    assert server.dispatcher.shown() is before
    server.add(polish(77))
    after = server.dispatcher.shown()
    assert after == before  # the same two tools
    server.add(polish(78, tags=[PINNED]))
    assert server.dispatcher.shown() != after


@pytest.mark.parametrize(
    ("options", "hints"),
    [
        ([{"read_only": True}, {"read_only": True}], {"readOnlyHint": True}),
        ([{"read_only": True}, {"destructive": False}], {"destructiveHint": False}),
        ([{"read_only": True}, {}], {}),
        ([{"open_world": False, "idempotent": True}] * 2, {"openWorldHint": False, "idempotentHint": True}),
        ([{"destructive": True}, {"read_only": True}], {}),
    ],
)
def test_anything_that_is_said_of_calling_is_what_holds_for_all(
    options: list[Any], hints: dict[str, bool]
) -> None:
    server = MCPServer(search="always")
    server.add([polish(number, **each) for number, each in enumerate(options)])
    assert server.list_shown()[1].annotations == hints
    assert server.list_shown()[0].annotations["readOnlyHint"] is True


# --- what is said -----------------------------------------------------------------------------------------


async def test_a_server_says_at_its_start_that_and_why_it_shows_the_pair(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = harbour(search_budget_tokens=100)
    server.add(polish(99, tags=[PINNED]))
    with caplog.at_level(logging.WARNING, "toolcrib"):
        async with server:
            pass
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    words = record.getMessage()
    assert words.startswith("51 tools would take about 1,9")
    for part in ("more than the budget of 100:", SEARCH, CALL, "one pinned tool", "search='never'"):
        assert part in words
    assert "search_budget_tokens" in words
    assert PINNED in words


async def test_anyone_who_asked_for_the_pair_is_not_warned(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "toolcrib"):
        async with harbour(search="always"):
            pass
    assert [record.levelname for record in caplog.records if SEARCH in record.getMessage()] == ["INFO"]


async def test_a_short_list_is_nothing_to_speak_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "toolcrib"):
        async with harbour():
            pass
    assert caplog.records == []


def test_a_short_list_costs_no_search_and_no_tokens() -> None:
    """Neither is even loaded, in a process that only serves a few tools."""
    script = """
import asyncio, sys
from toolcrib import MCPServer
server = MCPServer()
@server.tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b
async def main():
    async with server.connect() as client:
        assert len(await client.list_tools()) == 1
        assert (await client.call("add", {"a": 1, "b": 2})).structured_content == 3
asyncio.run(main())
print([name for name in sys.modules if "catalog.search" in name or "catalog.tokens" in name])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"search": "sometimes"}, "search: must be 'auto', 'always' or 'never', got 'sometimes'"),
        ({"search": True}, "search: must be"),
        ({"search_budget_tokens": -1}, "search_budget_tokens: must be a whole number"),
        ({"search_budget_tokens": "many"}, "search_budget_tokens: must be a whole number"),
    ],
)
def test_wishes_that_cannot_be_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        MCPServer(**options)


# --- calls in process ------------------------------------------------------------------------------------


async def test_the_pair_finds_and_calls() -> None:
    server = harbour(search="always")
    found = (await server.call(SEARCH, {"query": "polishing ship 17", "limit": 2})).structured_content
    assert found["tools"][0]["name"] == "polish_17"
    assert found["tools"][0]["inputSchema"]["properties"]["times"]["type"] == "integer"
    assert (await server.call(CALL, {"name": "polish_17", "arguments": {"times": 2}})).text == (
        "ship 17 shines 2 times"
    )
    assert (await server.call("polish_17")).text == "ship 17 shines 1 times"


async def test_a_server_without_the_pair_does_not_know_it() -> None:
    for server in (harbour(), harbour(search="never")):
        for name in PAIR:
            with pytest.raises(ToolNotFoundError):
                await server.call(name, {"query": "x", "name": "polish_1"})


async def test_anything_that_is_found_is_cut_where_it_would_be_too_long() -> None:
    server = MCPServer(search="always")
    for number in range(5):
        words = f"Polish ship {number}. " + "It is done with great care and a soft cloth. " * 400
        server.add(polish(number).with_options(description=words))
    found = (await server.call(SEARCH, {"query": "polish ship", "limit": 5})).structured_content
    assert 1 <= len(found["tools"]) < 5
    assert found["note"] == f"{5 - len(found['tools'])} more would be too long: ask more precisely."


async def test_nothing_found_says_what_to_try() -> None:
    found = (await harbour(search="always").call(SEARCH, {"query": "brss"})).structured_content
    assert found["tools"] == [] or found["tools"][0]["name"].startswith("polish")
    found = (await harbour(search="always").call(SEARCH, {"query": "xyzzy"})).structured_content
    assert found == {"tools": [], "note": "Nothing fits. Try other words."}


ANA, BEN = Principal("key:ana"), Principal("key:ben")
NAMES = (
    CALL,
    SEARCH,
    f"toolcrib_{CALL}",
    f"toolcrib_{SEARCH}",
    f"toolcrib_2_{CALL}",
    CALL.upper(),
    f"{CALL}@1",
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
async def test_anyone_who_is_denied_a_tool_of_that_name_hears_what_they_would_hear_without_it(
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
async def test_anyone_who_may_call_it_calls_it_and_the_pair_by_another_name(hidden: list[Tool]) -> None:
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


async def test_anyone_who_has_a_short_list_has_no_pair_though_others_have() -> None:
    rules = [Rule(allow=["*"], who=["key:ana"]), Rule(allow=["polish_1"])]
    server = MCPServer("harbour", policy=Policy(rules=rules), search_budget_tokens=500)
    server.add([polish(number) for number in range(50)])
    assert names(server, ANA) == PAIR
    assert names(server, BEN) == ["polish_1"]
    assert await tell(server, ANA, CALL, {"name": "polish_7"}) == (False, "ship 7 shines 1 times")
    assert await tell(server, BEN, CALL, {"name": "polish_1"}) == f"Unknown tool: {CALL}"
