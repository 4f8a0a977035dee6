"""Two hundred clients with the same ids and tokens, each with a key and a secret of its own.

Nobody finds another's secret: not in results, errors, progress, lists, the log or the record. 2,000 calls
every day, 100,000 in the soak.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.abusive_clients import Socket
from tests.support.servers.http_servers import Served, serving
from tests.support.servers.key_server import MODERN, Ring
from toolcrib import Context, MCPServer, ToolError
from toolcrib.policy import Audit, Auth, Limit, Policy, Rule
from toolcrib.policy.audit import open_log

IS_LONG = bool(os.environ.get("TOOLCRIB_SOAK"))
CLIENTS = 200 if IS_LONG else 40
CALLS = 100_000 if IS_LONG else 2_000
SEED = int(os.environ.get("TOOLCRIB_SEED", "3"))
CANARY = re.compile(r"canary-(\d+)-[0-9a-f]{8}")
META = "io.modelcontextprotocol/"

pytestmark = [pytest.mark.row("D3"), pytest.mark.usefixtures("hangs_up")]


def make_server(ring: Ring, file: Path) -> MCPServer:
    policy = Policy(
        auth=Auth(keys=ring.file),
        rules=[Rule(deny=[f"own_{number}"], who=[f"key:c{other}"]) for number, other in _odd_pairs()],
        limits=[Limit(concurrency=100), Limit(tools=["keep"], rate="100000/s")],
        audit=Audit(file),
    )
    server = MCPServer("canaries", version="1.0.0", policy=policy)
    kept: dict[str, str] = {}

    @server.tool
    async def keep(secret: str, ctx: Context) -> str:
        """Keep a secret, and tell it while that goes on."""
        kept[ctx.principal.name] = secret
        for step in range(3):
            await ctx.progress(step + 1, message=secret)
            await asyncio.sleep(0)
        return kept[ctx.principal.name]

    @server.tool(run="inline")
    def recall(ctx: Context) -> str:
        """Tell what was kept."""
        return kept.get(ctx.principal.name, "nothing")

    @server.tool
    def fail(secret: str) -> str:
        """Fail with a secret on its lips."""
        raise ToolError(f"cannot use {secret}")

    @server.tool
    async def crash(secret: str) -> str:
        """Fail unexpectedly, with a secret in hand."""
        raise RuntimeError(f"lost {secret}")

    @server.tool
    async def confide(secret: str, ctx: Context) -> str:
        """Ask before it tells."""
        answer = await ctx.ask("sure", f"Tell {secret}?")
        return f"{answer.action}: {secret}"

    for number in range(4):
        server.add(_own(number), name=f"own_{number}", description=f"Tool {number}.")
    return server


def _own(number: int) -> Any:
    def own() -> int:
        return number

    return own


def _odd_pairs() -> list[tuple[int, int]]:
    """Tools that some callers do not see: every client of four has another list."""
    return [(number, other) for other in range(CLIENTS) for number in range(4) if other % 4 == number]


class Client:
    """One of many that look the same from outside, but for the key."""

    def __init__(self, number: int, key: str, port: int, dice: random.Random) -> None:
        self.number = number
        self.secret = f"canary-{number}-{dice.getrandbits(32):08x}"
        self._key = key
        self._port = port
        self._dice = dice
        self._session: str | None = None
        self.heard = 0

    async def live(self, calls: int) -> None:
        socket = await Socket.open(self._port)
        if self.number % 2:
            await self._initialize(socket)
        tools = ("keep", "keep", "recall", "fail", "crash", "confide", "list", "wrong")
        for _ in range(calls):
            await self._call(socket, self._dice.choice(tools))
        socket.close()

    async def _initialize(self, socket: Socket) -> None:
        opening = {"protocolVersion": "2025-11-25", "capabilities": {}}
        _, fields, _ = await socket.ask(self._post("initialize", opening))
        self._session = fields["mcp-session-id"]

    async def _call(self, socket: Socket, tool: str) -> None:
        if tool == "list":
            body = await self._ask(socket, "tools/list", {})
            hidden, *_ = [f'"own_{number}"' for number in range(4) if self.number % 4 == number]
            assert hidden not in body
            assert body.count('"own_') == 3
            return
        if tool == "wrong":
            tool, arguments = "keep", {"secret": [self.secret]}
        else:
            arguments = {} if tool == "recall" else {"secret": self.secret}  # type: ignore[dict-item]
        body = await self._ask(socket, "tools/call", {"name": tool, "arguments": arguments})
        if tool == "fail":
            assert self.secret in body
        if tool == "crash":
            assert self.secret not in body

    async def _ask(self, socket: Socket, method: str, params: dict[str, Any]) -> str:
        status, _, body = await socket.ask(self._post(method, params))
        text = body.decode()
        assert status == 200, text
        for owner in CANARY.findall(text):
            assert int(owner) == self.number, f"client {self.number} hears of {owner}: {text[:300]}"
            self.heard += 1
        return text

    def _post(self, method: str, params: dict[str, Any]) -> bytes:
        """The same id and the same token as everybody has."""
        meta: dict[str, Any] = {"progressToken": "same"}
        fields = [f"X-API-Key: {self._key}"]
        if self.number % 2:
            fields += [f"Mcp-Session-Id: {self._session}"] if self._session else []
        else:
            meta |= {f"{META}protocolVersion": MODERN, f"{META}clientCapabilities": {"elicitation": {}}}
            fields += [f"MCP-Protocol-Version: {MODERN}", f"Mcp-Method: {method}"]
            fields += [f"Mcp-Name: {params['name']}"] if "name" in params else []
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        data = json.dumps(message).encode()
        lines = ["POST /mcp HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *fields]
        lines += ["Accept: application/json, text/event-stream", f"Content-Length: {len(data)}"]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """All that the library logs, at its most talkative but one."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger("toolcrib")
    level, spreads = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    yield stream
    logger.setLevel(level)
    logger.propagate = spreads
    logger.removeHandler(handler)


@pytest.mark.parametrize("http_stack", ["own", pytest.param("asgi", marks=pytest.mark.long)])
async def test_nobody_finds_the_secret_of_another(
    http_stack: str, tmp_path: Path, written: io.StringIO
) -> None:
    ring, file = Ring(tmp_path), tmp_path / "audit.db"
    for number in range(CLIENTS):
        ring.make(f"c{number}")
    dice = random.Random(SEED)
    with serving(http_stack, make_server(ring, file)) as served:
        clients = [
            Client(number, ring[f"c{number}"], served.port, random.Random(dice.random()))
            for number in range(CLIENTS)
        ]
        await asyncio.gather(*(client.live(CALLS // CLIENTS) for client in clients))
        check_rest(served)
    assert all(client.heard for client in clients), "somebody never heard of their own"
    text = written.getvalue()
    secrets = [client.secret for client in clients] + [ring[f"c{number}"] for number in range(CLIENTS)]
    lost = re.compile(r"RuntimeError: lost canary")
    told = "\n".join(line for line in text.splitlines() if not lost.search(line))
    assert not [secret for secret in secrets if secret in told], "in the log"
    check_record(file, secrets)


def check_rest(served: Served) -> None:
    """What the server keeps for all of them holds nothing of any of them."""
    engine = served.server.transports.engine
    assert engine.running == 0
    assert not CANARY.search(repr(vars(engine.lists)))


def check_record(file: Path, secrets: list[str]) -> None:
    lines = [json.dumps(record) for record in open_log(file).records()]
    whole = "\n".join(lines)
    assert not [secret for secret in secrets if secret in whole], "on the record"
    records = [record for record in open_log(file).records() if record["kind"] == "call"]
    assert {record["principal"] for record in records} == {f"key:c{number}" for number in range(CLIENTS)}
    assert len({record["id"] for record in records}) == len(records)
    raw = b"".join(path.read_bytes() for path in file.parent.glob("audit*"))
    assert not [secret for secret in secrets if secret.encode() in raw]
