"""Floods of sessions, of listeners and of what is kept for those who come back. Small every day, whole in
the soak; the caps hold, the next one is told to come later, and memory stays where it was.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.abusive_clients import Socket, percentile, post, served
from tests.support.servers.flood_server import make_server
from tests.support.servers.http_servers import HTTP_STACKS, Served, serving
from tests.support.servers.key_server import Ring, make_shop
from tests.support.servers.stdio_program import Program
from toolcrib.context import LOCAL, Principal
from toolcrib.protocol import Peer, PendingRequest
from toolcrib.protocol.sessions import MAX_PER_PRINCIPAL as SESSIONS_EACH
from toolcrib.protocol.sessions import MAX_SESSIONS
from toolcrib.protocol.subscriptions import MAX_LISTENERS, MAX_PER_PRINCIPAL

IS_LONG = bool(os.environ.get("TOOLCRIB_SOAK"))
SOAK = pytest.mark.skipif(not IS_LONG, reason="a long test: python dev.py soak")
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
KB, MB = 1024, 1024 * 1024

pytestmark = [pytest.mark.row("F5"), pytest.mark.usefixtures("hangs_up")]


def initialize(**capabilities: Any) -> dict[str, Any]:
    params = {"protocolVersion": "2025-11-25", "capabilities": capabilities}
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}


def call(id_: int, tool: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": id_}}
    return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}


def listen(id_: int) -> dict[str, Any]:
    params = {"notifications": {"toolsListChanged": True}, "_meta": META}
    return {"jsonrpc": "2.0", "id": id_, "method": "subscriptions/listen", "params": params}


def post_listen(id_: int) -> bytes:
    return post(listen(id_), MCP_Protocol_Version="2026-07-28", Mcp_Method="subscriptions/listen")


@pytest.fixture(params=HTTP_STACKS)
def flooded(request: Any) -> Iterator[Program]:
    with Program(request.param, "tests.support.servers.flood_server") as program:
        yield program
        assert "Traceback" not in program.errors


async def flood(port: int, requests: list[bytes], connections: int = 8) -> Counter[int]:
    """How often each status came."""
    seen: Counter[int] = Counter()

    async def send(part: list[bytes]) -> None:
        socket = await Socket.open(port)
        for data in part:
            seen[(await socket.ask(data))[0]] += 1
        socket.close()

    await asyncio.gather(*(send(requests[start::connections]) for start in range(connections)))
    return seen


async def open_session(socket: Socket) -> str:
    status, fields, _ = await socket.ask(post(initialize()))
    assert status == 200
    return fields["mcp-session-id"]


async def answers(port: int) -> float:
    """How long honest calls take."""
    socket = await Socket.open(port)
    times = []
    for _ in range(20):
        began = asyncio.get_running_loop().time()
        status, _, _ = await socket.ask(post(call(1, "add", a=1, b=2)))
        assert status == 200
        times.append(asyncio.get_running_loop().time() - began)
    socket.close()
    return percentile(times, 0.9)


# --- sessions ----------------------------------------------------------------------------------------


async def test_a_session_costs_little(flooded: Program) -> None:
    await flood(flooded.port, [post(initialize())] * 50)
    before = flooded.memory
    assert await flood(flooded.port, [post(initialize())] * 1500) == {200: 1500}
    assert (flooded.memory - before) / 1500 < 2 * KB  # 0.65; the alternatives take 41
    assert await answers(flooded.port) < 0.1


async def test_a_session_does_not_keep_what_its_client_tells_of_itself(flooded: Program) -> None:
    large = {"x": ["y" * 1000] * 1000}
    data = post(initialize(experimental=large, sampling=large, roots=large))
    await flood(flooded.port, [data] * 10, connections=1)
    before = flooded.memory
    assert await flood(flooded.port, [data] * 30, connections=1) == {200: 30}
    assert flooded.memory - before < 20 * MB  # of ninety


@SOAK
async def test_a_flood_of_sessions_is_bounded_and_ends_none_that_is_used(flooded: Program) -> None:
    socket = await Socket.open(flooded.port)
    session = await open_session(socket)
    ping = post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, Mcp_Session_Id=session)
    assert (await socket.ask(ping))[0] == 200
    before = flooded.memory
    seen = await flood(flooded.port, [post(initialize())] * (MAX_SESSIONS + 500))
    assert seen == {200: MAX_SESSIONS + 500}
    assert flooded.memory - before < 20 * MB  # 420 elsewhere
    assert await answers(flooded.port) < 0.1
    assert (await socket.ask(ping))[0] == 200


def test_a_flood_of_sessions_from_one_address_ends_its_own_and_those_in_use_last() -> None:
    """The same in this process, with addresses."""
    engine = make_server().transports.engine
    data = json.dumps(initialize()).encode()

    def open_one(address: str) -> str:
        outcome = engine.receive(data, Peer(headers={}, address=address))
        assert not isinstance(outcome, PendingRequest)
        assert outcome.status == 200
        return dict(outcome.headers)[b"mcp-session-id"].decode()

    def is_there(id_: str) -> bool:
        return engine.sessions.find(id_, LOCAL) is not None

    neighbour, unused = open_one("192.0.2.7"), open_one("192.0.2.1")
    used = open_one("192.0.2.1")
    assert is_there(used)
    for _ in range(MAX_SESSIONS + 400):
        newest = open_one("192.0.2.1")
    assert len(engine.sessions) == MAX_SESSIONS
    assert [is_there(id_) for id_ in (neighbour, unused, used, newest)] == [True, False, True, True]


# --- what is kept for those who come back ------------------------------------------------------------


async def recite(flooded: Program, sessions: int, times: int, size: int) -> int:
    """Have every session keep large streams; gives by how much memory has grown at most."""
    before, most = flooded.memory, 0
    for _ in range(sessions):
        socket = await Socket.open(flooded.port)
        session = await open_session(socket)
        for number in range(times):
            data = post(call(number, "recite", size=size), Mcp_Session_Id=session)
            status, fields, body = await socket.ask(data)
            assert (status, fields["content-type"]) == (200, "text/event-stream")
            assert len(body) > size
        most = max(most, flooded.memory - before)
        socket.close()
    return most


async def test_anything_that_is_kept_of_streams_is_bounded_for_all_clients_together(flooded: Program) -> None:
    assert await recite(flooded, 6, 6, 4 * MB) < 120 * MB  # 144 were sent, 64 are kept


@SOAK
async def test_anything_that_is_kept_of_streams_is_bounded_however_much_is_sent(flooded: Program) -> None:
    assert await recite(flooded, 50, 10, 4 * MB) < 140 * MB  # of two thousand


async def test_calls_that_were_left_do_not_pile_up_beyond_the_gate(flooded: Program) -> None:
    """Who leaves in mid-stream may come back, so the call runs on: a thousand of them, and no more."""
    await recite(flooded, 1, 2, KB)
    before, count = flooded.memory, 900 if IS_LONG else 150
    socket = await Socket.open(flooded.port)
    session = await open_session(socket)
    for number in range(count):
        left = await Socket.open(flooded.port)
        left.writer.write(post(call(number, "wait"), Mcp_Session_Id=session))
        await left.reader.readuntil(b"notifications/progress")
        left.abort()
    assert (flooded.memory - before) / count < 40 * KB
    delete = f"DELETE /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: {session}\r\n\r\n".encode()
    assert (await socket.ask(delete))[0] == 200
    assert await answers(flooded.port) < 0.2


# --- listeners ---------------------------------------------------------------------------------------


async def test_listeners_over_a_pipe_are_counted_even_when_they_come_at_once() -> None:
    server = make_server()
    async with server:
        heard: list[bytes] = []
        pipe = server.transports.connect(heard.append)
        for number in range(MAX_LISTENERS + 200):
            pipe.feed(json.dumps(listen(number)).encode())
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(server.transports.engine.subscriptions) == MAX_LISTENERS
        assert sum(b"Too many subscriptions" in item for item in heard) == 200
        await pipe.aclose()
        assert len(server.transports.engine.subscriptions) == 0


def test_somebody_with_a_name_listens_sixteen_times() -> None:
    engine = make_server().transports.engine
    link = Peer(principal=Principal("ada"), is_pipe=True)
    outcomes = [engine.receive(json.dumps(listen(number)).encode(), link) for number in range(20)]
    refused = [item for item in outcomes if not isinstance(item, PendingRequest)]
    assert len(outcomes) - len(refused) == MAX_PER_PRINCIPAL
    assert {item.status for item in refused} == {429}
    other = engine.receive(json.dumps(listen(1)).encode(), Peer(principal=Principal("eve"), is_pipe=True))
    assert isinstance(other, PendingRequest)


async def listen_many(flooded: Program, count: int) -> Counter[bytes]:
    """How the answers to so many listeners begin; they all stay."""
    seen: Counter[bytes] = Counter()
    for start in range(0, count, 100):
        sockets = await asyncio.gather(*(Socket.open(flooded.port) for _ in range(min(100, count - start))))
        for number, socket in enumerate(sockets):
            socket.writer.write(post_listen(start + number))
        for socket in sockets:
            seen[(await socket.reader.readline()).split(b" ")[1]] += 1
    return seen


async def test_a_listener_costs_little(flooded: Program) -> None:
    await listen_many(flooded, 20)
    before = flooded.memory
    assert await listen_many(flooded, 200) == {b"200": 200}
    assert (flooded.memory - before) / 200 < 60 * KB
    assert await answers(flooded.port) < 0.1


@SOAK
async def test_a_thousand_listeners_and_the_next_is_told_that_there_are_too_many(flooded: Program) -> None:
    before = flooded.memory
    assert await listen_many(flooded, MAX_LISTENERS + 500) == {b"200": MAX_LISTENERS, b"429": 500}
    assert flooded.memory - before < 60 * MB
    assert await answers(flooded.port) < 0.1


# --- with keys ---------------------------------------------------------------------------------------


@pytest.fixture(params=HTTP_STACKS)
def keyed(request: Any, tmp_path: Path) -> Iterator[tuple[Served, Ring]]:
    ring = Ring(tmp_path)
    for name in ("ana", "ben"):
        ring.make(name)
    with serving(request.param, make_shop(ring)) as shop:
        yield shop, ring
        assert not shop.complaints


async def test_anyone_who_shows_no_key_opens_no_session_however_often(keyed: tuple[Served, Ring]) -> None:
    shop, ring = keyed
    assert await flood(shop.port, [post(initialize())] * 1000) == {401: 1000}
    assert len(shop.server.transports.engine.sessions) == 0
    await listen_at(shop.port, None, 50, {b"401": 50})
    assert len(shop.server.transports.engine.subscriptions) == 0
    assert await flood(shop.port, [post(initialize(), X_API_Key=ring["ana"])]) == {200: 1}


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
async def test_wrong_keys_are_slowed_down_and_cost_no_memory(http_stack: str, tmp_path: Path) -> None:
    ring = Ring(tmp_path)
    ring.make("ana")
    with served(http_stack, "--keys", str(ring.file)) as server:
        guesses = [post(initialize(), X_API_Key=f"wrong-{number}" + "x" * 1000) for number in range(3000)]
        seen = await flood(server.port, guesses[:1000])
        assert set(seen) == {401, 429}
        assert 30 <= seen[401] <= 60  # thirty, and one more every two seconds
        before = server.rss_kb
        assert (await flood(server.port, guesses[1000:]))[429] > 1900
        assert server.rss_kb - before < 2 * KB  # in kilobytes: 2 MB
        assert await flood(server.port, [post(initialize(), X_API_Key=ring["ana"])] * 10) == {200: 10}
        assert "Traceback" not in server.log
        assert server.log.count("wrong-") == 0


async def test_the_sessions_of_one_key_make_room_for_each_other_only(keyed: tuple[Served, Ring]) -> None:
    shop, ring = keyed
    socket = await Socket.open(shop.port)
    _, fields, _ = await socket.ask(post(initialize(), X_API_Key=ring["ben"]))
    mine = fields["mcp-session-id"]
    seen = await flood(shop.port, [post(initialize(), X_API_Key=ring["ana"])] * (SESSIONS_EACH + 100))
    assert seen == {200: SESSIONS_EACH + 100}
    assert len(shop.server.transports.engine.sessions) == SESSIONS_EACH + 1
    data = post(call(1, "whoami"), X_API_Key=ring["ben"], Mcp_Session_Id=mine)
    assert (await socket.ask(data))[0] == 200


async def test_one_key_listens_sixteen_times_and_others_as_often(keyed: tuple[Served, Ring]) -> None:
    shop, ring = keyed
    await listen_at(shop.port, ring["ana"], MAX_PER_PRINCIPAL + 10, {b"200": MAX_PER_PRINCIPAL, b"429": 10})
    await listen_at(shop.port, ring["ben"], MAX_PER_PRINCIPAL, {b"200": MAX_PER_PRINCIPAL})


async def listen_at(port: int, key: str | None, count: int, expected: dict[bytes, int]) -> None:
    """Listen so many times, one after the other; they all stay."""
    seen: Counter[bytes] = Counter()
    shown = {} if key is None else {"X_API_Key": key}
    for number in range(count):
        socket = await Socket.open(port)
        fields = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": "subscriptions/listen", **shown}
        socket.writer.write(post(listen(number), **fields))
        seen[(await socket.reader.readline()).split(b" ")[1]] += 1
    assert seen == expected
