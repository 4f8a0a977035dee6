"""Whatever a caller varies, its calls are counted together: spelling, alias, version, token, session,
and what it says about its address.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.records.key_files import Keys
from tests.support.servers.http_servers import HTTP_STACKS, serving
from tests.wire.cases import NEWEST_LEGACY, call, encode, legacy
from tests.wire.sending import post_modern
from toolcrib import MCPServer
from toolcrib.content import Result
from toolcrib.context import Principal
from toolcrib.policy import Auth, Limit, Policy

pytestmark = pytest.mark.row("D6")

ANA = Principal("oauth:ana", binding="first client")


def make_server(*limits: Limit) -> MCPServer:
    server = MCPServer("limited", policy=Policy(limits=limits))

    @server.tool(name="find_order", aliases=["order", "look_up"])
    def old(number: int = 0) -> str:
        """Find one."""
        return "found"

    @server.tool(name="find_order", version="2", aliases=["order2"])
    def new(number: int = 0) -> str:
        """Find one, better."""
        return "found"

    return server


def was_throttled(result: Result) -> bool:
    refusal: dict[str, Any] = (result.meta or {}).get("toolcrib/refusal", {})
    return result.is_error and refusal.get("code") == "throttled"


SPELLINGS = ["find_order", "Find_Order", "FIND_ORDER", "order", "ORDER", "look_up", "find_order@2", "order2"]


@pytest.mark.parametrize("per", ["tool", "principal+tool", "principal", "all"])
async def test_d6_spellings_aliases_and_versions_share_a_count(per: str) -> None:
    server = make_server(Limit(rate="3/24h", per=per))
    results = [await server.dispatcher.call(name, principal=ANA) for name in SPELLINGS]
    assert [was_throttled(result) for result in results] == [False] * 3 + [True] * 5
    assert "find_order" in results[-1].text


async def test_d6_a_selector_by_name_holds_for_every_spelling() -> None:
    server = make_server(Limit(tools=["find_order"], rate="2/24h"))
    results = [await server.dispatcher.call(name, principal=ANA) for name in SPELLINGS]
    assert sum(not was_throttled(result) for result in results) == 2


async def test_d6_new_sessions_share_a_count() -> None:
    server = make_server(Limit(rate="3/24h"))
    outcomes = []
    for _ in range(6):
        async with server.connect() as client:
            outcomes.append((await client.call("find_order", {})).is_error)
    assert outcomes == [False] * 3 + [True] * 3


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_d6_over_http_neither_session_nor_address_nor_spelling_is_a_new_caller(
    http_stack: str, tmp_path: Path
) -> None:
    keys = Keys(tmp_path / "keys.json")
    secrets = {name: keys.create(name)[0] for name in ("ana", "ben")}
    policy = Policy(limits=[Limit(rate="4/24h", per="principal")], auth=Auth(keys=tmp_path / "keys.json"))
    server = MCPServer("limited", policy=policy)

    @server.tool(aliases=["look_up"])
    def find_order(number: int = 0) -> str:
        """Find one."""
        return "found"

    def ask(name: str, who: str, **headers: str) -> bool:
        """Whether a call on a connection of its own was throttled."""
        with served.connect() as peer:
            shown = {"Authorization": f"Bearer {secrets[who]}"} | headers
            result = post_modern(peer, call("modern", name, {}), **shown).result
        refusal = result.get("_meta", {}).get("toolcrib/refusal", {})
        return bool(refusal.get("code") == "throttled")

    def ask_in_a_session(who: str) -> bool:
        shown = {"Authorization": f"Bearer {secrets[who]}"}
        with served.connect() as peer:
            opened = peer.post(
                encode(legacy("initialize", protocolVersion=NEWEST_LEGACY, capabilities={})), shown
            )
            session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
            result = peer.post(encode(call("legacy", "find_order", {})), shown | session).result
        return bool(result["isError"])

    with serving(http_stack, server) as served:
        outcomes = [
            ask("find_order", "ana"),
            ask("look_up", "ana", X_Forwarded_For="203.0.113.7", Forwarded="for=203.0.113.7"),
            ask_in_a_session("ana"),
            ask("FIND_ORDER", "ana", X_Real_IP="203.0.113.8"),
            ask("find_order", "ana", X_Forwarded_For="203.0.113.9"),
            ask_in_a_session("ana"),
            ask("Look_Up", "ana", User_Agent="another"),
            ask("find_order", "ben"),
        ]
    assert outcomes == [False] * 4 + [True] * 3 + [False]
