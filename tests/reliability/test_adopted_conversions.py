"""Rules on functions of the mcp package whose arguments that package converts once more, after our checks."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from mcp.server.mcpserver import Context as TheirContext
from mcp.server.mcpserver import MCPServer as TheirServer
from mcp.server.mcpserver import Resolve
from pydantic import AfterValidator

from toolcrib import MCPServer
from toolcrib.policy import Policy, Rule

DENIED = "may not be called with these arguments"
SEEN: list[str] = []


def count(ctx: TheirContext) -> int:
    return 3


def second_is_root(value: str) -> str:
    SEEN.append(value)
    return value if len(SEEN) == 1 else "root"


Count = Annotated[int, Resolve(count)]
theirs = TheirServer("theirs")


@theirs.tool()
def anything(user: Any, n: Count) -> str:
    return repr(user)


@theirs.tool()
def either(user: str | dict[str, Any], n: Count) -> str:
    return repr(user)


@theirs.tool()
def validated(user: Annotated[str, AfterValidator(second_is_root)], n: Count) -> str:
    return repr(user)


@theirs.tool()
def plain(user: str, n: Count, size: float = 1.0) -> str:
    return repr(user)


async def call(rule: Rule, name: str, arguments: dict[str, Any]) -> str:
    SEEN.clear()
    server = MCPServer("shop", policy=Policy(rules=[rule]))
    server.add(theirs)
    async with server:
        return (await server.call(name, arguments)).text


@pytest.mark.parametrize(
    ("name", "path", "user"),
    [
        ("anything", "user.name", '{"name":"root"}'),
        ("either", "user.name", '{"name":"root"}'),
        ("validated", "user", "bob"),
    ],
)
async def test_a_rule_is_not_passed_by_what_is_converted_after_it(name: str, path: str, user: str) -> None:
    assert DENIED in await call(Rule(deny=[name], when={path: "root"}), name, {"user": user})
    assert DENIED in await call(Rule(allow=[name], when={path: {"not": "root"}}), name, {"user": user})


async def test_plain_texts_and_numbers_are_judged_as_ever() -> None:
    rule = Rule(deny=["plain"], when={"user": "root"})
    assert await call(rule, "plain", {"user": '{"a":1}', "size": 2}) == repr('{"a":1}')
    assert DENIED in await call(rule, "plain", {"user": "root"})
    assert await call(Rule(allow=["plain"], when={"size": {"below": 5}}), "plain", {"user": "a"}) == "'a'"
