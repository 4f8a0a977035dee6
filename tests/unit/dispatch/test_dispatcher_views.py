"""Facts about a tool before it is called: who sees it, if it waits, what headers repeat."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib import MCPServer
from toolcrib.context import Principal
from toolcrib.dispatch.dispatcher import Dispatcher
from toolcrib.policy import Policy, Rule
from toolcrib.registry.registry import ToolRegistry

ANA, BEN = Principal("key:ana"), Principal("key:ben")
MARKED = {"type": "object", "properties": {"city": {"type": "string", "x-mcp-header": "City"}}}
REPEATED = {("city",): "City"}


def say(city: str = "") -> str:
    """Say where."""
    return city


def make_server(*rules: Rule, **options: Any) -> MCPServer:
    server = MCPServer("desk", policy=Policy(rules=rules) if rules else None, **options)
    server.add(say, input_schema=MARKED)
    return server


# --- arguments that headers repeat ---


async def test_anything_that_headers_repeat_is_the_same_before_and_after_the_first_call() -> None:
    server = make_server()
    dispatcher = server.dispatcher
    assert dispatcher.mirrored("say") == REPEATED
    assert dispatcher.mirrored("SAY") == REPEATED
    await server.call("say")
    assert dispatcher.mirrored("say") == REPEATED
    assert dispatcher.mirrored("SAY") == REPEATED


async def test_anyone_who_may_not_see_a_tool_learns_nothing_of_its_headers() -> None:
    server = make_server(Rule(deny=["say"], who=["key:ben"]))
    dispatcher = server.dispatcher
    for _ in range(2):
        assert dispatcher.mirrored("say", BEN) is None
        assert dispatcher.mirrored("say", ANA) == REPEATED
        await server.call("say", principal=ANA)


@pytest.mark.parametrize("name", ["nowhere", "", None, 1, [], {}])
async def test_anything_that_is_not_a_tool_repeats_nothing_in_headers(name: Any) -> None:
    for server in (make_server(), make_server(Rule(deny=["say"], who=["key:ben"]))):
        assert server.dispatcher.mirrored(name, ANA) is None
        await server.call("say", principal=ANA)
        assert server.dispatcher.mirrored(name, ANA) is None


async def test_a_tool_that_was_replaced_repeats_what_the_new_one_marks() -> None:
    server = make_server(dynamic=True)
    await server.call("say")
    server.add(say, on_duplicate="replace")
    assert not server.dispatcher.mirrored("say")
    server.registry.remove("say")
    assert server.dispatcher.mirrored("say") is None


async def test_an_older_version_repeats_nothing_for_whom_the_newest_is_not_there() -> None:
    server = MCPServer("desk", policy=Policy(rules=[Rule(deny=["tag:danger"], who=["key:ben"])]))
    server.add(say, input_schema=MARKED, version="1")
    server.add(say, input_schema=MARKED, version="2", tags=["danger"])
    assert server.dispatcher.mirrored("say@1", ANA) == REPEATED
    assert server.dispatcher.mirrored("say@1", BEN) is None


# --- whether anybody is told of a change ---


def test_a_change_is_told_unless_nobody_is_shown_other_tools() -> None:
    assert Dispatcher(ToolRegistry()).has_list_changed() is True
    assert make_server(search="never").dispatcher.has_list_changed() is True
    behind = make_server(search="always").dispatcher
    assert [behind.has_list_changed() for _ in range(2)] == [True, False]
    differing = make_server(Rule(deny=["say"], who=["key:ben"]), search="always").dispatcher
    assert [differing.has_list_changed() for _ in range(2)] == [True, True]
