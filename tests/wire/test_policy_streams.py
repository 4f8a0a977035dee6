"""Over real HTTP, on both stacks: a stream ends soon after its reader could not open it any more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.legacy_client import Answer
from tests.support.clients.raw_http_client import Peer, request
from tests.support.servers.http_servers import HTTP_STACKS, Served, serving
from tests.support.servers.key_server import Keyed, Ring, call_modern, envelope, fill, headers_of, make_shop
from tests.support.servers.token_issuer import RESOURCE, KeyServer, Mint, key_server
from toolcrib import MCPServer
from toolcrib.policy import Auth, OAuth, Policy
from toolcrib.policy.auth import authenticator as doorkeeper
from toolcrib.transports.http import auth as http_auth

__all__ = ["key_server"]

CHECK_S = 0.05


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorkeeper, "REFRESH_S", CHECK_S)
    monkeypatch.setattr(http_auth, "CHECK_S", CHECK_S)


@pytest.fixture
def ring(tmp_path: Path) -> Ring:
    ring = Ring(tmp_path)
    ring.make("ana")
    ring.make("ben")
    return ring


# --- the three kinds of stream, each as a function that waits for its end ----------------------------


def listen(shop: Served, key: str, held: ExitStack) -> Callable[[], None]:
    client = Keyed(shop.port, key)
    client.initialize()
    stream = client.listen()
    assert (stream.status, stream.is_stream) == (200, True)
    held.callback(stream.leave)
    assert stream.event() is not None  # the empty one that every stream begins with

    def wait() -> None:
        assert stream.event() is None

    return wait


def subscribe(shop: Served, key: str, held: ExitStack) -> Callable[[], None]:
    method = "subscriptions/listen"
    body = envelope(method, {"notifications": {"toolsListChanged": True}})
    peer = open_stream(shop, held, body, headers_of(method, None, key))
    assert peer.read_event()["method"] == "notifications/subscriptions/acknowledged"

    def wait() -> None:
        assert peer.read_event()["result"]["resultType"] == "complete"
        assert peer._chunk() == b""

    return wait


def read_pair(shop: Served, key: str, held: ExitStack) -> Callable[[], None]:
    peer = open_stream(shop, held, b"", {"Authorization": f"Bearer {key}"}, method="GET", path="/sse")
    assert b"session_id" in peer._chunk()

    def wait() -> None:
        assert peer._chunk() == b""

    return wait


def open_stream(shop: Served, held: ExitStack, body: bytes, headers: Any, **options: Any) -> Peer:
    peer = held.enter_context(shop.connect())
    peer.send(request(body, {**headers, "Accept": "application/json, text/event-stream"}, **options))
    assert peer.read_head() == 200
    return peer


STREAMS = (listen, subscribe, read_pair)


@contextmanager
def shop_of(http_stack: str, server: MCPServer) -> Iterator[tuple[Served, ExitStack]]:
    with serving(http_stack, server) as served, ExitStack() as held:
        yield served, held
        Answer.leave_all()
        assert not served.complaints


# --- when they end -----------------------------------------------------------------------------------


@pytest.mark.parametrize("http_stack", HTTP_STACKS)
def test_streams_end_when_their_key_is_revoked_and_those_of_others_do_not(
    http_stack: str, ring: Ring
) -> None:
    with shop_of(http_stack, make_shop(ring)) as (shop, held):
        ends = [open_one(shop, ring["ana"], held) for open_one in STREAMS]
        others = [open_one(shop, ring["ben"], held) for open_one in STREAMS]
        ring.revoke("ana")
        for wait in ends:
            wait()
        assert call_modern(shop, ring["ana"], "whoami").status == 401
        assert len(shop.server.transports.engine.subscriptions) == 1
        assert len(shop.server.transports.engine.pipes) == 1
        ring.revoke("ben")
        for wait in others:
            wait()


def test_streams_end_when_their_token_does(key_server: KeyServer) -> None:
    auth = Auth(
        oauth=[OAuth(issuer=key_server.origin, jwks_uri=key_server.jwks_uri, resource=RESOURCE, leeway_s=0)]
    )
    server = MCPServer("shop", version="1.0.0", dynamic=True, policy=Policy(auth=auth))
    fill(server)
    mint = Mint(key_server.origin)
    with shop_of("own", server) as (shop, held):
        brief = mint(exp=mint.wall() + 3)
        client = BearerClient(shop.port, brief)
        client.initialize()
        streams = [open_one(shop, brief, held) for open_one in (subscribe, read_pair)]
        own = client.listen()
        assert own.event() is not None
        for wait in streams:
            wait()
        assert own.event() is None
        client.token = mint()  # of the same subject: the session is still theirs, and so is its stream
        again = client.listen()
        assert again.status == 200
        again.leave()


class BearerClient(Keyed):
    def __init__(self, port: int, token: str) -> None:
        super().__init__(port, None)
        self.token = token

    def send(self, method: str, body: bytes | None = None, **headers: str) -> Answer:
        return super().send(method, body, Authorization=f"Bearer {self.token}", **headers)
