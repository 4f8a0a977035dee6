"""A flaw of our own is one request's misfortune: the log tells of it, nothing runs, the rest is served."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.servers.http_servers import HTTP_STACKS, serving
from tests.wire.cases import INTERNAL, call, encode, headers_for, message, modern
from tests.wire.site import make_server
from toolcrib import MCPServer
from toolcrib.dispatch.dispatcher import Dispatcher
from toolcrib.transports.pipe import Pipe

TOUCH = encode(call("modern", "touch", {}))


class Flawed(Dispatcher):
    """A dispatcher whose lookups fail."""

    def mirrored(self, name: Any) -> Any:
        raise RuntimeError("the lookup failed")

    def shown(self, *_: Any) -> Any:
        raise RuntimeError("the view failed")


@pytest.fixture
def flawed() -> MCPServer:
    server = make_server()
    server.dispatcher.__class__ = Flawed
    return server


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_nothing_runs_over_http_where_the_lookup_of_marks_fails(http_stack: str, flawed: MCPServer) -> None:
    with serving(http_stack, flawed) as served:
        for body in (TOUCH, encode(modern("tools/list"))):
            response = served.post(body, headers_for(body))
            assert response.status == 500
            assert b"failed" not in response.body
        assert served.post(encode(message("ping"))).result == {}
        assert len(served.complaints) == 2
        assert flawed.describe()["requests"] == 0


async def test_a_pipe_outlives_a_flaw(flawed: MCPServer, caplog: pytest.LogCaptureFixture) -> None:
    sent: list[Any] = []
    async with flawed:
        pipe = Pipe(flawed.transports.engine, lambda data: sent.append(json.loads(data)))
        pipe.feed(encode(modern("tools/list")))
        pipe.feed(encode(message("ping")))
        await pipe.aclose()
    assert sent[0]["error"] == {"code": INTERNAL, "message": "Internal error"}
    assert sent[1] == {"jsonrpc": "2.0", "id": 7, "result": {}}
    assert "the view failed" in caplog.text
