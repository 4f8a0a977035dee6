"""Where mcp 2.3.0 and fastmcp 4.1.2 leave the specification, row by row: here it is kept, on both stacks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clients.raw_http_client import request
from tests.support.servers.http_servers import HTTP_STACKS, Served, serving
from tests.support.servers.stdio_program import Program
from tests.wire.cases import (
    HEADER,
    PARAMS,
    PARSE,
    REQUEST,
    call,
    encode,
    headers_for,
    legacy,
    message,
    modern,
)
from tests.wire.sending import count_runs, open_session, post_modern
from toolcrib import MCPServer, ToolError

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$defs": {"street": {"$anchor": "street", "type": "string"}},
    "type": "object",
    "properties": {"home": {"$ref": "#/$defs/street"}, "kind": {"enum": ["a", "b"]}},
    "allOf": [{"anyOf": [{"required": ["home"]}, {"required": ["kind"]}]}],
    "if": {"properties": {"kind": {"const": "a"}}},
    "then": {"required": ["kind"]},
    "else": True,
    "additionalProperties": False,
}
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def make_shop(**options: Any) -> MCPServer:
    """A server with results of every kind."""
    server = MCPServer("shop", **options)

    @server.tool(run="inline")
    def numbers() -> list[float]:
        """Some numbers."""
        return [3.5, 4.0]

    @server.tool(run="inline")
    def nothing() -> None:
        """Nothing."""

    @server.tool(run="inline")
    def count() -> int:
        """A number."""
        return 3

    @server.tool(run="inline")
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello, {name}"

    @server.tool("raw", "A schema as it was written.", SCHEMA, run="inline")
    def raw(arguments: dict[str, Any]) -> str:
        return "fine"

    @server.tool(run="inline")
    def refuse() -> str:
        """Refuse."""
        raise ToolError("no")

    return server


@pytest.fixture(scope="module", params=HTTP_STACKS)
def shop(request: Any) -> Iterator[Served]:
    with serving(request.param, make_shop()) as served:
        yield served
        assert not served.complaints


@pytest.fixture(scope="module", params=HTTP_STACKS)
def living(request: Any) -> Iterator[Served]:
    """A server whose tools may change."""
    with serving(request.param, make_shop(dynamic=True)) as served:
        yield served
        assert not served.complaints


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
def test_a_modern_body_under_a_legacy_header_is_a_header_mismatch(site: Served, version: str) -> None:
    body = encode(call("modern", "touch", {}))
    with site.connect() as peer:
        response = peer.post(body, headers_for(body) | {"MCP-Protocol-Version": version})
        assert (response.status, response.code, response.json["id"]) == (400, HEADER, 7)
        assert count_runs(peer) == 0


def test_a_modern_body_without_the_header_is_a_header_mismatch(site: Served) -> None:
    for body in (encode(call("modern", "touch", {})), encode(modern("server/discover"))):
        headers = headers_for(body)
        del headers["MCP-Protocol-Version"]
        response = site.post(body, headers)
        assert (response.status, response.code, response.json["id"]) == (400, HEADER, 7)


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
def test_an_unknown_tool_is_an_error_in_every_revision(site: Served, stdio: Program, version: str) -> None:
    with site.connect() as peer:
        if version == "2026-07-28":
            response = post_modern(peer, call("modern", "nothing_such", {}))
        else:
            headers = {"Mcp-Session-Id": open_session(peer, version), "MCP-Protocol-Version": version}
            response = peer.post(encode(call("legacy", "nothing_such", {})), headers)
    assert (response.status, response.code) == (200, PARAMS)
    assert response.json["error"]["message"] == "Unknown tool: nothing_such"
    for era in ("modern", "legacy"):
        assert stdio.ask(call(era, "nothing_such", {}))["error"]["code"] == PARAMS


def test_a_bad_cursor_is_refused(site: Served, stdio: Program) -> None:
    with site.connect() as peer:
        for cursor in ("", "x", "AAAA", "next"):
            assert post_modern(peer, modern("tools/list", cursor=cursor)).code == PARAMS
            assert peer.post(encode(legacy("tools/list", cursor=cursor))).code == PARAMS
            assert stdio.ask(modern("tools/list", cursor=cursor))["error"]["code"] == PARAMS


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_a_cursor_leads_on_and_a_changed_one_nowhere(http_stack: str) -> None:
    with serving(http_stack, make_shop(page_size=2)) as served, served.connect() as peer:
        page = post_modern(peer, modern("tools/list")).result
        names = [tool["name"] for tool in page["tools"]]
        while "nextCursor" in page:
            cursor = page["nextCursor"]
            for wrong in (cursor[:-1], cursor + "A", cursor.swapcase(), cursor[::-1], " " + cursor):
                assert post_modern(peer, modern("tools/list", cursor=wrong)).code == PARAMS
            page = post_modern(peer, modern("tools/list", cursor=cursor)).result
            names += [tool["name"] for tool in page["tools"]]
        assert names == ["numbers", "nothing", "count", "greet", "raw", "refuse"]


@pytest.mark.parametrize(
    "body", [b"nonsense", b"[]", b"1", b'{"jsonrpc":"2.0","id":null,"method":"ping"}', b'{"id":[1]}']
)
def test_an_error_without_a_readable_id_has_none(site: Served, stdio: Program, body: bytes) -> None:
    assert "id" not in site.post(body).json
    (reply,) = stdio.replies_to(body, expected=1)
    assert "id" not in reply


def test_the_origin_is_checked_by_default(site: Served) -> None:
    body = encode(message("ping"))
    assert site.post(body, {"Origin": "http://evil.example"}).status == 403
    assert site.post(body, {"Origin": "http://localhost:3000"}).status == 200


LISTEN = modern("subscriptions/listen", notifications={"toolsListChanged": True})


def test_a_sealed_server_announces_no_changes_and_acknowledges_those_who_listen(site: Served) -> None:
    """Clients that listen while they connect would leave a server that does not know the method."""
    with site.connect() as peer:
        assert post_modern(peer, modern("server/discover")).result["capabilities"]["tools"] == {}
        peer.send(request(encode(LISTEN), headers_for(encode(LISTEN))))
        assert peer.read_head() == 200
        first = peer.read_event()
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"] == {"notifications": {}, "_meta": {SUBSCRIPTION: 7}}


def test_a_changing_server_announces_it_and_tells_those_who_listen(living: Served) -> None:
    with living.connect() as peer, living.connect() as other:
        facts = post_modern(other, modern("server/discover")).result
        assert facts["capabilities"]["tools"] == {"listChanged": True}
        peer.send(request(encode(LISTEN), headers_for(encode(LISTEN))))
        assert peer.read_head() == 200
        first = peer.read_event()
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"] == {"notifications": {"toolsListChanged": True}, "_meta": {SUBSCRIPTION: 7}}
        living.server.add(lambda: "new", name=f"new_{living.http_stack}")
        changed = peer.read_event()
        assert changed["method"] == "notifications/tools/list_changed"
        assert changed["params"] == {"_meta": {SUBSCRIPTION: 7}}


def test_a_call_of_a_changing_server_hears_no_untagged_news(living: Served) -> None:
    with living.connect() as peer:
        body = encode(call("modern", "greet", {"name": "Ada"}))
        assert len(peer.post(body, headers_for(body)).messages) == 1


@pytest.mark.parametrize(
    ("line", "code"),
    [(b"nonsense", PARSE), (b"{", PARSE), (b"\xff\xfe", PARSE), (b"[]", REQUEST), (b'[{"a":1}]', REQUEST)],
)
def test_a_bad_line_is_answered(stdio: Program, line: bytes, code: int) -> None:
    (reply,) = stdio.replies_to(line, expected=1)
    assert reply["error"]["code"] == code


def test_results_that_are_no_objects_go_as_they_are_to_modern_clients(shop: Served) -> None:
    with shop.connect() as peer:
        listed = {tool["name"]: tool for tool in post_modern(peer, modern("tools/list")).result["tools"]}
        assert listed["numbers"]["outputSchema"]["type"] == "array"
        assert listed["count"]["outputSchema"]["type"] == "integer"
        numbers = post_modern(peer, call("modern", "numbers")).result
        assert numbers["structuredContent"] == [3.5, 4.0]
        assert [block["type"] for block in numbers["content"]] == ["text"]
        assert post_modern(peer, call("modern", "count")).result["structuredContent"] == 3


def test_results_that_are_no_objects_are_wrapped_for_older_clients(shop: Served) -> None:
    with shop.connect() as peer:
        headers = {"Mcp-Session-Id": open_session(peer, "2025-11-25")}
        listed = peer.post(encode(legacy("tools/list")), headers).result["tools"]
        schema = next(tool for tool in listed if tool["name"] == "numbers")["outputSchema"]
        assert (schema["type"], schema["required"]) == ("object", ["result"])
        assert schema["properties"]["result"]["type"] == "array"
        numbers = peer.post(encode(call("legacy", "numbers")), headers).result
        assert numbers["structuredContent"] == {"result": [3.5, 4.0]}
        assert [block["text"] for block in numbers["content"]] == ["[3.5,4.0]"]


def test_an_unexpected_argument_is_refused_in_words_a_model_can_act_on(shop: Served) -> None:
    with shop.connect() as peer:
        result = post_modern(peer, call("modern", "greet", {"name": "Ada", "nmae": "x"})).result
        assert result["isError"] is True
        assert "'nmae'" in result["content"][0]["text"]


def test_a_schema_survives_to_the_wire_as_it_was_written(shop: Served) -> None:
    with shop.connect() as peer:
        for listed in (
            post_modern(peer, modern("tools/list")).result,
            peer.post(encode(legacy("tools/list"))).result,
        ):
            assert next(tool for tool in listed["tools"] if tool["name"] == "raw")["inputSchema"] == SCHEMA


def test_discover_then_initialize_are_both_served_on_one_pipe() -> None:
    with Program("stdio") as program:
        assert program.ask(modern("server/discover"))["result"]["supportedVersions"] == ["2026-07-28"]
        start = legacy("initialize", protocolVersion="2025-11-25", capabilities={})
        assert program.ask(start)["result"]["protocolVersion"] == "2025-11-25"
        assert "tools" in program.ask(legacy("tools/list"))["result"]
        assert program.ask(modern("tools/list"))["result"]["resultType"] == "complete"
