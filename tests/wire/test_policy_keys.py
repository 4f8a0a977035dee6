"""Over real HTTP, on both stacks: who shows no good key is not heard, and what a key opened is its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clients.legacy_client import Answer
from tests.support.clients.raw_http_client import request
from tests.support.servers.http_servers import HTTP_STACKS, Served, serving
from tests.support.servers.key_server import Keyed, Ring, ask_modern, call_modern, fetch, make_shop
from toolcrib.policy import Audit, Rule, Telemetry

LISTED = {
    "ana": ["whoami", "refund", "audit_log", "ask", "steps"],
    "ben": ["whoami", "refund", "ask", "steps"],
}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}},
}
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Ring:
    ring = Ring(tmp_path_factory.mktemp("keys"))
    ring.make("ana")
    ring.make("ben")
    ring.make("writer", "orders:write")
    ring.make("watcher", "metrics:read")
    return ring


@pytest.fixture(scope="module", params=HTTP_STACKS)
def shop(request: Any, ring: Ring, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    server = make_shop(
        ring,
        auth={"max_failures": "100000/s"},
        rules=[Rule(deny=["audit_log"], who=["key:ben", "key:writer"])],
        audit=Audit(tmp_path_factory.mktemp("audit") / "audit.db"),
        telemetry=Telemetry(prometheus=True),
    )
    with serving(request.param, server) as served:
        yield served
        Answer.leave_all()
        assert not served.complaints


def sessions_of(shop: Served) -> int:
    return len(shop.server.transports.engine.sessions)


# --- who ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, "wrong", "tc_wrong", ""])
def test_without_a_good_key_nothing_is_served_and_nothing_is_kept(shop: Served, key: str | None) -> None:
    before = sessions_of(shop)
    shown = {} if key is None else {"Authorization": f"Bearer {key}"}
    for body in (json.dumps(INITIALIZE).encode(), b"no JSON at all", b""):
        answer = shop.post(body, shown)
        assert answer.status in (400, 401)
        assert answer.headers["www-authenticate"].startswith("Bearer ")
        assert answer.json["error"]["code"] == -32600
        if key is None:
            assert (answer.status, answer.headers["www-authenticate"]) == (401, 'Bearer realm="toolcrib"')
        elif key:
            assert answer.status == 401
            assert 'error="invalid_token"' in answer.headers["www-authenticate"]
            assert key not in str(answer.headers) + answer.body.decode()
    assert sessions_of(shop) == before


def test_a_key_is_shown_in_either_header_but_not_two_of_them(shop: Served, ring: Ring) -> None:
    assert call_modern(shop, ring["ana"], "whoami").result["content"][0]["text"] == "key:ana"
    assert call_modern(shop, None, "whoami", X_API_Key=ring["ben"]).result["content"][0]["text"] == "key:ben"
    twice = call_modern(shop, ring["ana"], "whoami", X_API_Key=ring["ben"])
    assert twice.status in (400, 401)


def test_a_connection_that_stays_open_belongs_to_nobody(shop: Served, ring: Ring) -> None:
    """One key after another on one connection: each request is its own."""
    with shop.connect() as peer:
        for name in ("ana", "ben", None, "ana"):
            shown = {} if name is None else {"X-API-Key": ring[name]}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "whoami"}}
            answer = peer.post(json.dumps(body).encode(), shown)
            if name is None:
                assert answer.status == 401
            else:
                assert answer.result["content"][0]["text"] == f"key:{name}"


# --- what they see -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LISTED)
def test_every_key_has_a_list_of_its_own_that_nobody_else_may_cache(
    shop: Served, ring: Ring, name: str
) -> None:
    result = ask_modern(shop, ring[name], "tools/list").result
    assert [tool["name"] for tool in result["tools"]] == LISTED[name]
    assert result["cacheScope"] == "private"
    for version in REVISIONS:
        client = Keyed(shop.port, ring[name], version)
        client.initialize()
        assert [tool["name"] for tool in client.ask("tools/list").result["tools"]] == LISTED[name]
        client.end()


def test_denied_is_unknown_in_every_spelling_and_on_every_revision(shop: Served, ring: Ring) -> None:
    for name, absent in (
        ("audit_log", "audit_lag"),
        ("AUDIT_LOG", "AUDIT_LAG"),
        ("audit_log@1", "audit_lag@1"),
    ):
        for arguments in ({}, {"region": "eu"}, {"region": 5}, {"rigeon": "eu"}):
            denied = call_modern(shop, ring["ben"], name, arguments)
            unknown = call_modern(shop, ring["ben"], absent, arguments)
            assert denied.body.replace(name.encode(), absent.encode()) == unknown.body
            assert denied.status == unknown.status == 200
            assert denied.headers | {"date": ""} == unknown.headers | {"date": ""}
    for version in REVISIONS:
        client = Keyed(shop.port, ring["ben"], version)
        client.initialize()
        answers = [client.call(name, id_=7).json for name in ("audit_log", "audit_lag")]
        assert answers[0]["error"]["code"] == answers[1]["error"]["code"] == -32602
        assert answers[0]["error"]["message"] == "Unknown tool: audit_log"
        client.end()


def test_mirrored_headers_give_a_denied_tool_away_to_nobody(shop: Served, ring: Ring) -> None:
    wrong = {"Mcp-Param-Region": "us"}
    refused = ask_modern(
        shop,
        ring["ana"],
        "tools/call",
        {"name": "audit_log", "arguments": {"region": "eu"}},
        **{name.replace("-", "_"): value for name, value in wrong.items()},
    )
    assert (refused.status, refused.code) == (400, -32020)
    for name in ("audit_log", "audit_lag"):
        hidden = call_modern(shop, ring["ben"], name, {"region": "eu"}, Mcp_Param_Region="us")
        assert (hidden.status, hidden.json["error"]["message"]) == (200, f"Unknown tool: {name}")


# --- scopes ------------------------------------------------------------------------------------------


def test_anyone_who_lacks_a_scope_is_sent_for_it_and_comes_again(shop: Served, ring: Ring) -> None:
    lacking = call_modern(shop, ring["ana"], "refund", {"amount": 5})
    assert lacking.status == 403
    challenge = lacking.headers["www-authenticate"]
    assert challenge.startswith('Bearer error="insufficient_scope", scope="orders:write"')
    assert lacking.json["error"]["data"] == {"scopes": ["orders:write"]}
    assert lacking.json["id"] == 1
    better = call_modern(shop, ring["writer"], "refund", {"amount": 5})
    assert (better.status, better.result["content"][0]["text"]) == (200, "refunded 5")


@pytest.mark.parametrize("version", REVISIONS)
def test_older_clients_are_sent_for_a_scope_too(shop: Served, ring: Ring, version: str) -> None:
    client = Keyed(shop.port, ring["ana"], version)
    client.initialize()
    answer = client.call("refund", {"amount": 5})
    assert answer.status == 403
    assert 'scope="orders:write"' in answer.headers["www-authenticate"]
    client.end()


# --- sessions and streams ----------------------------------------------------------------------------


def test_a_session_is_its_keys_own(shop: Served, ring: Ring) -> None:
    ana = Keyed(shop.port, ring["ana"])
    ana.initialize()
    for other in ("ben", "writer"):
        thief = Keyed(shop.port, ring[other])
        thief.session = ana.session
        assert thief.call("whoami").status == 404
        assert thief.listen().status == 404
        assert thief.listen("1-1").status == 404
        assert thief.post({"jsonrpc": "2.0", "id": "ask-1", "result": {"action": "accept"}}).status == 404
        assert thief.end() == 404
    nobody = Keyed(shop.port, None)
    nobody.session = ana.session
    assert (nobody.call("whoami").status, nobody.listen().status, nobody.end()) == (401, 401, 401)
    assert ana.call("whoami").result["content"][0]["text"] == "key:ana"
    stream = ana.listen()
    assert (stream.status, stream.is_stream) == (200, True)
    stream.leave()
    assert ana.end() == 200
    assert ana.call("whoami").status == 404


def test_progress_and_results_of_a_session_go_to_its_key(shop: Served, ring: Ring) -> None:
    clients = [Keyed(shop.port, ring[name]) for name in ("ana", "ben")]
    for client in clients:
        client.initialize()
    answers = [client.call("steps", token="same", id_="same") for client in clients]
    for answer, name in zip(answers, ("ana", "ben"), strict=True):
        messages = answer.messages()
        assert messages[-1]["result"]["content"][0]["text"] == f"key:{name}"
        assert len(messages) == 4
    for client in clients:
        client.end()


def test_the_old_pair_needs_the_key_at_both_ends(shop: Served, ring: Ring) -> None:
    assert fetch(shop, "/sse").status == 401
    assert shop.post(b"{}", path="/messages?session_id=x").status == 401
    with shop.connect() as reader:
        head = {"X-API-Key": ring["ana"], "Accept": "text/event-stream"}
        reader.send(request(b"", head, method="GET", path="/sse"))
        assert reader.read_head() == 200
        place = reader._chunk().decode().split("data: ")[1].strip()
        body = json.dumps(INITIALIZE).encode()
        assert shop.post(body, {"X-API-Key": ring["ben"]}, path=place).status == 404
        assert shop.post(body, path=place).status == 401
        assert shop.post(body, {"X-API-Key": ring["ana"]}, path=place).status == 202
        assert reader.read_event()["result"]["protocolVersion"] == "2025-11-25"
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "refund"}}
        call["params"] = {"name": "refund", "arguments": {"amount": 5}}
        shop.post(json.dumps(call).encode(), {"X-API-Key": ring["ana"]}, path=place)
        refused = reader.read_event()["result"]  # a pipe has no status: machines read it here
        assert refused["_meta"]["toolcrib/refusal"]["scopes"] == ["orders:write"]


# --- pages -------------------------------------------------------------------------------------------


def test_the_head_of_a_page_comes_without_its_body(shop: Served, ring: Ring) -> None:
    with shop.connect() as peer:
        head = {"X-API-Key": ring["watcher"]}
        peer.send(request(b"", head, method="HEAD", path="/metrics"))
        assert peer.read_head() == 200
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert peer.post(json.dumps(body).encode(), head).status == 200
