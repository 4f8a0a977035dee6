"""JSON-RPC batches are refused, also on 2025-03-26, the only revision that had them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.servers.http_servers import Served
from tests.support.servers.stdio_program import Program
from tests.wire.cases import OMIT, REQUEST, call, encode, legacy, message
from tests.wire.sending import open_session

OLD = "2025-03-26"
PING = message("ping")
BATCHES = {
    "empty": [],
    "of requests": [PING, call("legacy", "add", {"a": 1, "b": 2}) | {"id": 8}],
    "of notifications": [message("notifications/initialized", id_=OMIT)],
    "of nonsense": [1, None, [PING]],
}
REFUSED = "Invalid request: JSON-RPC batches are not supported, send one message at a time"

any_batch = pytest.mark.parametrize("items", BATCHES.values(), ids=BATCHES.keys())


@any_batch
@pytest.mark.parametrize("version", [OLD, "2024-11-05", "2025-06-18", "2025-11-25", None])
def test_a_batch_over_http_is_refused_with_one_error(
    site: Served, version: str | None, items: list[Any]
) -> None:
    with site.connect() as peer:
        headers = {} if version is None else {"Mcp-Session-Id": open_session(peer, version)}
        response = peer.post(encode(items), headers)
        assert (response.status, response.code) == (400, REQUEST)
        assert response.json["error"]["message"] == REFUSED
        assert "id" not in response.json
        assert peer.post(encode(PING), headers).json["result"] == {}


@any_batch
def test_a_batch_over_stdio_is_refused_with_one_error(items: list[Any]) -> None:
    with Program("stdio") as program:
        program.ask(legacy("initialize", protocolVersion=OLD, capabilities={}))
        (reply,) = program.replies_to(encode(items), expected=1)
        assert (reply["error"]["code"], reply["error"]["message"]) == (REQUEST, REFUSED)
        assert program.ask(PING)["result"] == {}
        assert "Traceback" not in program.errors
