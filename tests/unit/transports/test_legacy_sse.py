"""The old pair by itself: who reads, who posts, and what each may."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.support.clients.transcripts import Paper
from tests.support.servers.key_server import fill
from toolcrib import MCPServer
from toolcrib.context import Principal
from toolcrib.policy import Auth, Policy
from toolcrib.protocol import Engine, EngineSettings
from toolcrib.protocol.sessions import MAX_PER_PRINCIPAL
from toolcrib.transports.http.response import Response
from toolcrib.transports.http.sse import LegacySSE, LegacyStream


async def test_anything_that_is_posted_may_what_its_own_token_may_and_not_that_of_the_stream() -> None:
    server = MCPServer("shop", policy=Policy(auth=Auth(keys="none.json")))
    fill(server)
    strong = Principal("oauth:ana", frozenset({"orders:write"}), binding="issuer ana client")
    weak = Principal("oauth:ana", binding=strong.binding)
    readers = LegacySSE(Engine(server.dispatcher, EngineSettings("shop", "1.0.0")))
    reader, paper = readers.open("k", principal=strong), Paper()
    assert isinstance(reader, LegacyStream)
    reader.begin(paper)

    async def ask(who: Principal, method: str, **params: Any) -> Any:
        paper.text = b""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        assert readers.post("k", json.dumps(message).encode(), who).status == 202
        async with asyncio.timeout(10):
            while not paper.text:
                await asyncio.sleep(0.01)
        return json.loads(paper.text.partition(b"data: ")[2])["result"]

    await ask(strong, "initialize", protocolVersion="2024-11-05", capabilities={})
    for who, is_refused in ((strong, False), (weak, True), (strong, False)):
        result = await ask(who, "tools/call", name="refund", arguments={"amount": 1})
        assert result["isError"] is is_refused
    reader.lost()


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
