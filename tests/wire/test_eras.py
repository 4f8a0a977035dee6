"""The era of a message: it says so itself, at one place, and nowhere else."""

from __future__ import annotations

import pytest

from tests.support.clients.raw_http_client import request
from tests.support.servers.http_servers import Served
from tests.support.servers.stdio_program import Program
from tests.wire.cases import PARAMS, VERSION, call, encode, headers_for, legacy, message, modern
from tests.wire.sending import open_session


def test_a_mark_elsewhere_in_an_older_body_does_not_hide_its_session(site: Served) -> None:
    marked = encode(call("legacy", "echo", {"value": {VERSION: "2026-07-28"}}))
    with site.connect() as peer:
        session = {"Mcp-Session-Id": open_session(peer)}
        assert peer.post(marked, session).result["structuredContent"]["echo"] == {VERSION: "2026-07-28"}
        peer.send(request(b"", session, method="DELETE"))
        assert peer.read().status == 200
        assert peer.post(marked, session).status == 404
        assert peer.post(encode(message("ping")), session).status == 404


@pytest.mark.parametrize("spelling", [VERSION, VERSION.replace("/", "\\/"), VERSION.replace("V", "\\u0056")])
def test_a_modern_body_has_no_session_however_its_mark_is_spelt(site: Served, spelling: str) -> None:
    body = encode(call("modern", "echo", {"value": 1}))
    headers = headers_for(body) | {"Mcp-Session-Id": "nonsense"}
    response = site.post(body.replace(VERSION.encode(), spelling.encode()), headers)
    assert response.result["resultType"] == "complete"
    assert "mcp-session-id" not in response.headers


def test_eras_may_alternate_on_one_connection_and_on_one_session(site: Served) -> None:
    old, new = encode(call("legacy", "echo", {"value": 1})), encode(call("modern", "echo", {"value": 1}))
    with site.connect() as peer:
        session = {"Mcp-Session-Id": open_session(peer)}
        for _ in range(3):
            assert "resultType" in peer.post(new, headers_for(new)).result
            assert "resultType" not in peer.post(old, session).result
            assert "resultType" not in peer.post(old).result


def test_a_pipe_serves_each_message_by_its_own_marks() -> None:
    with Program("stdio") as program:
        assert program.ask(legacy("tools/list"))["error"]["code"] == PARAMS  # no handshake, no envelope
        assert program.ask(message("ping"))["result"] == {}
        assert "resultType" in program.ask(modern("tools/list"))["result"]
        program.ask(legacy("initialize", protocolVersion="2025-06-18", capabilities={}))
        assert "resultType" not in program.ask(legacy("tools/list"))["result"]
        assert "resultType" in program.ask(modern("tools/list"))["result"]
