"""The table of methods, and methods that other packages add."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.support.clients.transcripts import Voice
from toolcrib import MCPServer
from toolcrib.protocol import Engine, Peer, PendingRequest, Reply
from toolcrib.protocol.methods import EVERY_REVISION, METHODS, MethodRequest
from toolcrib.protocol.sessions import Session

EXAMPLE = {"experimental": {"example": {}}}


def make_server(**options: Any) -> MCPServer:
    server = MCPServer("shop")

    async def count(params: dict[str, Any], request: MethodRequest) -> dict[str, Any]:
        request.send("notifications/example/counted", {"by": request.principal.name})
        return {"count": len(params["items"]), "revision": request.revision}

    server.add_method("example/count", count, capability=EXAMPLE, **options)
    return server


async def ask(
    engine: Engine, version: str, method: str, params: dict[str, Any]
) -> tuple[dict[str, Any], list[Any]]:
    """Return the reply to one request over a pipe, and the other messages."""
    sent: list[Any] = []
    voice, session = Voice(version, {}), Session()
    peer = Peer(lambda data: sent.append(json.loads(data)), session=session, inflight={}, is_pipe=True)
    opening = voice.request("initialize", {"protocolVersion": version, "capabilities": {}})
    if not voice.is_modern:
        engine.receive(json.dumps(opening).encode(), peer)
    outcome = engine.receive(json.dumps(voice.request(method, params)).encode(), peer)
    reply = await outcome.run() if isinstance(outcome, PendingRequest) else outcome
    assert isinstance(reply, Reply)
    assert not peer.inflight
    return json.loads(reply.body or b"null"), sent


@pytest.mark.parametrize("version", sorted(EVERY_REVISION))
async def test_an_added_method_is_served_in_every_revision(version: str) -> None:
    reply, sent = await ask(make_server().transports.engine, version, "example/count", {"items": [1, 2]})
    assert (reply["result"]["count"], reply["result"]["revision"]) == (2, version)
    assert [message["method"] for message in sent] == ["notifications/example/counted"]
    assert ("resultType" in reply["result"]) == (version == "2026-07-28")


async def test_an_added_method_announces_its_capability_beside_those_of_others() -> None:
    server = make_server()
    server.add_method("other/x", lambda params, request: {}, capability={"experimental": {"other": {}}})
    reply, _ = await ask(server.transports.engine, "2026-07-28", "server/discover", {})
    assert reply["result"]["capabilities"] == {
        "logging": {},
        "tools": {},
        "resources": {},
        "prompts": {},
        "experimental": {"example": {}, "other": {}},
    }


async def test_an_added_method_is_there_in_the_chosen_revisions_only() -> None:
    engine = make_server(revisions=["2026-07-28"]).transports.engine
    reply, _ = await ask(engine, "2025-11-25", "example/count", {"items": []})
    assert reply["error"]["code"] == -32601
    reply, _ = await ask(engine, "2026-07-28", "example/count", {"items": []})
    assert reply["result"]["count"] == 0


async def test_a_method_may_be_added_while_the_server_runs() -> None:
    server = MCPServer("shop")
    async with server:
        engine = server.transports.engine
        server.add_method("example/echo", lambda params, request: {"text": params["text"]})
        reply, _ = await ask(engine, "2025-06-18", "example/echo", {"text": "hello"})
    assert reply["result"] == {"text": "hello"}


@pytest.mark.parametrize("protocol", ["2026-07-28", "2025-11-25"])
async def test_a_method_that_fails_replies_to_its_own_request(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(params: dict[str, Any], request: MethodRequest) -> dict[str, Any]:
        return {"count": len(params["items"])}

    server = MCPServer("shop")
    server.add_method("example/count", fail)
    async with server.connect(protocol=protocol) as client:
        failures = await asyncio.gather(
            *(client.request("example/count") for _ in range(2)), return_exceptions=True
        )
    assert [getattr(failure, "rpc_code", None) for failure in failures] == [-32603, -32603]
    assert "KeyError" in caplog.text


def test_names_and_revisions_of_added_methods_are_checked() -> None:
    server = MCPServer("shop")
    with pytest.raises(ValueError, match="not a method name"):
        server.add_method("notifications/x", lambda params, request: {})
    with pytest.raises(ValueError, match="unknown revision: 2020-01-01"):
        server.add_method("x/y", lambda params, request: {}, revisions=["2020-01-01"])


def test_every_method_is_a_row_of_the_table() -> None:
    assert len({(row.name, row.revisions) for row in METHODS}) == len(METHODS)
    assert {row.name for row in METHODS} == {
        "completion/complete",
        "initialize",
        "logging/setLevel",
        "notifications/cancelled",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/directory/read",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "skills/get",
        "skills/list",
        "subscriptions/listen",
        "tasks/cancel",
        "tasks/get",
        "tasks/update",
        "tools/call",
        "tools/list",
    }
