"""State that a server keeps between requests, on both HTTP stacks: who may read it, and its bounds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.legacy_client import Answer, Older
from tests.support.clients.raw_http_client import Peer, Response, request
from tests.support.clients.task_client import make_params
from tests.support.servers.http_servers import HTTP_STACKS, Served, serving
from tests.support.servers.key_server import headers_of
from tests.support.servers.token_issuer import RESOURCE, KeyServer, Mint, key_server
from toolcrib import Context, MCPServer
from toolcrib.policy import Auth, OAuth, Policy, Tasks
from toolcrib.protocol import tasks

__all__ = ["key_server"]


class Client:
    """A client of 2026-07-28 that declares the tasks extension."""

    def __init__(self, served: Served, token: str | None = None) -> None:
        self._served = served
        self._token = token

    def ask(self, method: str, **params: Any) -> Response:
        return self._served.post(*self._make(method, params))

    def start(self, name: str) -> str:
        found: str = self.ask("tools/call", name=name, arguments={}).result["taskId"]
        return found

    def listen(self, ids: list[str], held: ExitStack) -> tuple[Peer, Any]:
        """Open a subscription to tasks, and return it with what is granted."""
        body, headers = self._make("subscriptions/listen", {"notifications": {"taskIds": ids}})
        peer = held.enter_context(self._served.connect())
        peer.send(request(body, {**headers, "Accept": "application/json, text/event-stream"}))
        assert peer.read_head() == 200
        return peer, peer.read_event()["params"]["notifications"]

    def _make(self, method: str, params: dict[str, Any]) -> tuple[bytes, dict[str, str]]:
        name = params.get("name") or params.get("taskId") or params.get("uri")
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": make_params(params)}
        return json.dumps(message).encode(), headers_of(method, name, self._token)


def make_bank(folder: Path, policy: Policy | None = None) -> MCPServer:
    settings, state = Tasks(wait_s=0.02), f"sqlite:///{folder}/tasks.db"
    server = MCPServer(
        "bank", tasks=settings, state=state, policy=policy, max_result_tokens=200, large_results="link"
    )
    gate = asyncio.Event()

    @server.tool(task="always", scopes=["accounts:read"])
    async def balance() -> str:
        """Read the balance, when the gate is open."""
        await gate.wait()
        return "a secret balance"

    @server.tool(scopes=["accounts:read"])
    def statement() -> list[str]:
        """List every payment."""
        return [f"secret payment {number}" for number in range(2_000)]

    @server.tool(scopes=["accounts:read"])
    async def report(ctx: Context) -> str:
        """Report, in a stream."""
        await ctx.progress(1, 2)
        return "a secret report"

    @server.tool
    async def settle() -> str:
        """Open the gate."""
        gate.set()
        return "open"

    return server


@pytest.fixture(params=HTTP_STACKS)
def bank(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    with serving(request.param, make_bank(tmp_path)) as served:
        yield served
        assert not served.complaints


@pytest.fixture(params=HTTP_STACKS)
def guarded(request: pytest.FixtureRequest, tmp_path: Path, key_server: KeyServer) -> Iterator[Served]:
    oauth = OAuth(issuer=key_server.origin, jwks_uri=key_server.jwks_uri, resource=RESOURCE)
    with serving(request.param, make_bank(tmp_path, Policy(auth=Auth(oauth=[oauth])))) as served:
        yield served
        assert not served.complaints


# --- results of calls that needed a scope --------------------------------------------------------------


def make_callers(key_server: KeyServer, served: Served) -> tuple[Client, Client]:
    """The same subject with the scope of the tools, and without."""
    mint = Mint(key_server.origin)
    return Client(served, mint(scope="accounts:read")), Client(served, mint(scope="other"))


def test_a_task_is_read_and_answered_with_the_scope_of_its_tool_only(
    key_server: KeyServer, guarded: Served
) -> None:
    strong, weak = make_callers(key_server, guarded)
    id_ = strong.start("balance")
    for method, more in (("get", {}), ("cancel", {}), ("update", {"inputResponses": {}})):
        refused = weak.ask(f"tasks/{method}", taskId=id_, **more)
        assert (refused.status, refused.json["error"]["data"]) == (403, {"scopes": ["accounts:read"]})
        assert 'scope="accounts:read"' in refused.headers["www-authenticate"]
        assert b"secret" not in refused.body
    assert strong.ask("tasks/get", taskId=id_).result["status"] == "working"


def test_a_subscription_tells_results_with_the_scope_of_their_tool_only(
    key_server: KeyServer, guarded: Served
) -> None:
    strong, weak = make_callers(key_server, guarded)
    id_ = strong.start("balance")
    with ExitStack() as held:
        assert weak.listen([id_], held)[1] == {}
        peer, granted = strong.listen([id_], held)
        assert granted == {"taskIds": [id_]}
        assert peer.read_event()["params"]["status"] == "working"
        weak.ask("tools/call", name="settle", arguments={})
        assert peer.read_event()["params"]["result"]["content"][0]["text"] == "a secret balance"


def test_a_kept_result_is_read_with_the_scope_of_its_tool_only(
    key_server: KeyServer, guarded: Served
) -> None:
    strong, weak = make_callers(key_server, guarded)
    content = strong.ask("tools/call", name="statement", arguments={}).result["content"]
    uri = next(block["uri"] for block in content if block["type"] == "resource_link")
    refused = weak.ask("resources/read", uri=uri)
    assert (refused.status, refused.json["error"]["data"]) == (403, {"scopes": ["accounts:read"]})
    assert b"secret" not in refused.body
    assert "secret payment 1999" in strong.ask("resources/read", uri=uri).result["contents"][0]["text"]


class TokenClient(Older):
    """A client of a session that sends a token."""

    token = ""

    def send(self, method: str, body: bytes | None = None, **headers: str) -> Answer:
        return super().send(method, body, Authorization=f"Bearer {self.token}", **headers)


def test_a_stream_is_resumed_with_the_scopes_of_its_request_only(
    key_server: KeyServer, guarded: Served
) -> None:
    mint, client = Mint(key_server.origin), TokenClient(guarded.port)
    client.token = mint(scope="accounts:read other")
    client.initialize()
    begun, *rest = client.call("report", token="t").events()
    assert "a secret report" in rest[-1].data
    assert list(client.listen(begun.id).events()) == rest
    client.token = mint(scope="other")
    refused = client.listen(begun.id)
    assert refused.status == 403
    assert 'scope="accounts:read other"' in refused.headers["www-authenticate"]
    assert "secret" not in str(refused.json)


# --- tasks that are followed ----------------------------------------------------------------------------


def test_unknown_tasks_are_not_followed(bank: Served) -> None:
    client, followers = Client(bank), bank.server.transports.engine.tasks._followers
    id_ = client.start("balance")
    with ExitStack() as held:
        for stream in range(20):
            ids = [f"{stream:011d}{number:011d}" for number in range(100)]
            assert client.listen(ids, held)[1] == {}
        assert not followers
        peer, granted = client.listen(["0" * 22, id_], held)
        assert granted == {"taskIds": [id_]}
        assert peer.read_event()["params"]["taskId"] == id_
        assert set(followers) == {id_}


def test_a_long_task_id_is_refused_at_once(bank: Served) -> None:
    refused = Client(bank).ask("subscriptions/listen", notifications={"taskIds": ["x" * 65]})
    assert (refused.status, refused.code) == (200, -32602)
    assert "longer than 64 characters" in refused.json["error"]["message"]


def test_a_process_follows_a_limited_number_of_tasks(bank: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "MAX_WATCHED_IN_ALL", 5)
    client = Client(bank)
    ids = [client.start("balance") for _ in range(3)]
    with ExitStack() as held:
        client.listen(ids, held)
        refused = client.ask("subscriptions/listen", notifications={"taskIds": ids})
        assert (refused.status, refused.code) == (429, -32603)
        client.listen(ids[:2], held)
