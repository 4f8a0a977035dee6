"""Resources and prompts over both HTTP servers and stdio: headers, statuses, and changes in both eras."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.legacy_client import Answer, Older
from tests.support.clients.raw_http_client import Peer, request
from tests.support.servers.http_servers import HTTP_STACKS, Served, serving
from tests.support.servers.key_server import Keyed, Ring, ask_modern, make_shop
from tests.support.servers.stdio_program import Program
from tests.wire.cases import encode, headers_for, legacy, modern
from tests.wire.resource_site import make_server
from tests.wire.sending import post_modern

UPDATED = "notifications/resources/updated"


@pytest.fixture(params=HTTP_STACKS)
def shop(request: pytest.FixtureRequest) -> Iterator[Served]:
    with serving(request.param, make_server()) as served:
        yield served
        Answer.leave_all()
        assert not served.complaints


@contextmanager
def listening(shop: Served, **wanted: Any) -> Iterator[Peer]:
    """Open a subscription of 2026-07-28 and read its acknowledgement."""
    with shop.connect() as peer:
        body = encode(modern("subscriptions/listen", notifications=wanted))
        peer.send(request(body, headers_for(body)))
        assert peer.read_head() == 200
        assert peer.read_event()["params"]["notifications"] == wanted
        yield peer


def change(shop: Served, uri: str) -> None:
    body = modern("tools/call", name="change", arguments={"uri": uri})
    with shop.connect() as peer:
        assert post_modern(peer, body).status == 200


# --- headers and statuses ------------------------------------------------------------------------------


@pytest.mark.parametrize("uri", ["shop://hours", "shop://a%20b/%C3%A9?x=1", "shop://orders/7"])
def test_the_uri_is_repeated_in_a_header(shop: Served, uri: str) -> None:
    with shop.connect() as peer:
        good = post_modern(peer, modern("resources/read", uri=uri), Mcp_Name=uri)
        assert good.result["contents"][0]["uri"] == uri
        other = post_modern(peer, modern("resources/read", uri=uri), Mcp_Name="shop://other")
        assert (other.status, other.code) == (400, -32020)


def test_a_uri_that_no_header_can_hold_is_repeated_in_base64(shop: Served) -> None:
    with shop.connect() as peer:
        found = post_modern(
            peer, modern("resources/read", uri="shop://é"), Mcp_Name="=?base64?c2hvcDovL8OpPw==?="
        )
        assert found.code == -32020
        found = post_modern(
            peer, modern("resources/read", uri="shop://é"), Mcp_Name="=?base64?c2hvcDovL8Op?="
        )
        assert (found.status, found.code) == (200, -32602)


@pytest.mark.parametrize(
    ("method", "params", "status", "code"),
    [
        ("resources/read", {"uri": "shop://nothing"}, 200, -32602),
        ("resources/subscribe", {"uri": "shop://hours"}, 404, -32601),
        ("prompts/get", {"name": "nothing"}, 200, -32602),
        ("prompts/get", {"name": "greet", "arguments": {}}, 200, -32602),
        ("completion/complete", {"ref": {}}, 200, -32602),
    ],
)
def test_errors_have_the_status_of_their_kind(
    shop: Served, method: str, params: dict[str, Any], status: int, code: int
) -> None:
    with shop.connect() as peer:
        name = params.get("uri") or params.get("name") or ""
        found = post_modern(peer, modern(method, **params), Mcp_Method=method, Mcp_Name=name)
        assert (found.status, found.code) == (status, code)


def test_a_client_without_a_session_reads_but_cannot_subscribe(shop: Served) -> None:
    with shop.connect() as peer:
        read = peer.post(encode(legacy("resources/read", uri="shop://hours")))
        assert read.result["contents"][0]["text"] == "9 to 5"
        refused = peer.post(encode(legacy("resources/subscribe", uri="shop://hours")))
        assert (refused.status, refused.code) == (400, -32600)


# --- changes -------------------------------------------------------------------------------------------


def test_both_eras_hear_of_a_change(shop: Served) -> None:
    client = Older(shop.port)
    client.initialize()
    stream = client.listen()
    assert client.ask("resources/subscribe", uri="shop://hours").result == {}
    with listening(shop, resourceSubscriptions=["shop://hours"]) as peer:
        change(shop, "shop://orders/7")
        change(shop, "shop://hours")
        heard = peer.read_event()
        assert (heard["method"], heard["params"]["uri"]) == (UPDATED, "shop://hours")
        events = (event.message for event in stream.events() if event.data)
        assert next(events) == {"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": "shop://hours"}}


def test_both_eras_work_over_stdio() -> None:
    with Program("stdio", "tests.wire.resource_site") as program:
        read = program.ask(modern("resources/read", uri="shop://orders/7"))
        assert read["result"]["contents"][0]["text"] == '{"id":7}'
        body = modern(
            "subscriptions/listen", id_="ear", notifications={"resourceSubscriptions": ["shop://hours"]}
        )
        assert program.ask(body)["method"] == "notifications/subscriptions/acknowledged"
        program.send(encode(modern("tools/call", id_=8, name="change", arguments={"uri": "shop://hours"})))
        found = [program.read(), program.read()]
        assert sorted(message.get("method", "reply") for message in found) == [UPDATED, "reply"]
    with Program("stdio", "tests.wire.resource_site") as program:
        program.ask(legacy("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={}))
        assert program.ask(legacy("resources/subscribe", uri="shop://hours"))["result"] == {}
        assert program.ask(legacy("resources/read", uri="shop://no"))["error"]["code"] == -32002
        got = program.ask(legacy("prompts/get", name="greet", arguments={"name": "Ada"}))
        assert got["result"]["messages"][0]["content"]["text"] == "Hello Ada"
        program.send(encode(legacy("tools/call", id_=8, name="change", arguments={"uri": "shop://hours"})))
        found = [program.read(), program.read()]
        assert sorted(message.get("method", "reply") for message in found) == [UPDATED, "reply"]


# --- scopes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_a_missing_scope_is_a_challenge_in_both_eras(http_stack: str, tmp_path: Path) -> None:
    ring = Ring(tmp_path)
    ring.make("ana")
    ring.make("ben", "orders:read")
    server = make_shop(ring)
    server.resource("shop://orders/{id}", scopes=["orders:read"])(lambda id: f"order {id}")
    server.prompt("letter", scopes=["orders:read"])(lambda: "Dear all")
    with serving(http_stack, server) as shop:
        uri = "shop://orders/7"
        for method, params, name in (
            ("resources/read", {"uri": uri}, uri),
            ("prompts/get", {"name": "letter"}, "letter"),
        ):
            refused = ask_modern(shop, ring["ana"], method, params, Mcp_Name=name)
            assert (refused.status, refused.code) == (403, -32600)
            assert 'scope="orders:read"' in refused.headers["www-authenticate"]
            assert ask_modern(shop, ring["ben"], method, params, Mcp_Name=name).status == 200
        client = Keyed(shop.port, ring["ana"])
        client.initialize()
        assert client.ask("resources/read", uri=uri).status == 403
        assert client.ask("resources/subscribe", uri=uri).status == 403
        argument = {"name": "id", "value": ""}
        ref = {"type": "ref/resource", "uri": "shop://orders/{id}"}
        assert client.ask("completion/complete", ref=ref, argument=argument).status == 403
        holder = Keyed(shop.port, ring["ben"])
        assert holder.ask("completion/complete", ref=ref, argument=argument).status == 200
