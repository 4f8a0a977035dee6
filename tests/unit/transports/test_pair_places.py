"""The places of the old pair: one caller does not take those of all others."""

from __future__ import annotations

from toolcrib import MCPServer
from toolcrib.context import Principal
from toolcrib.protocol import Engine, EngineSettings
from toolcrib.protocol.sessions import MAX_PER_PRINCIPAL
from toolcrib.transports.http.legacy_sse import LegacySSE
from toolcrib.transports.http.response import Response


def test_one_caller_has_so_many_streams_and_others_have_theirs() -> None:
    pair = LegacySSE(Engine(MCPServer("shop").dispatcher, EngineSettings("shop", "1.0.0")))
    ana, ben = Principal("key:ana"), Principal("key:ben")
    for number in range(MAX_PER_PRINCIPAL):
        assert not isinstance(pair.open(str(number), principal=ana), Response)
    refused = pair.open("more", principal=ana)
    assert isinstance(refused, Response)
    assert refused.status == 429
    assert not isinstance(pair.open("other", principal=ben), Response)
    assert not isinstance(pair.open("local"), Response)
