"""State that a server keeps between requests, on both HTTP stacks: who may read it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.clients.legacy_client import Answer, Older
from tests.support.clients.raw_http_client import Response
from tests.support.clients.task_client import make_params
from tests.support.servers.http_servers import HTTP_STACKS, Served, serving
from tests.support.servers.key_server import headers_of
from tests.support.servers.token_issuer import RESOURCE, KeyServer, Mint, key_server
from toolcrib import Context, MCPServer
from toolcrib.policy import Auth, OAuth, Policy, Tasks

__all__ = ["key_server"]


class Client:
    """A client of 2026-07-28 that declares the tasks extension."""

    def __init__(self, served: Served, token: str | None = None) -> None:
        self._served = served
        self._token = token

    def ask(self, method: str, **params: Any) -> Response:
        name = params.get("name") or params.get("taskId") or params.get("uri")
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": make_params(params)}
        return self._served.post(json.dumps(message).encode(), headers_of(method, name, self._token))

    def start(self, name: str) -> str:
        found: str = self.ask("tools/call", name=name, arguments={}).result["taskId"]
        return found


def make_bank(folder: Path, policy: Policy) -> MCPServer:
    settings, state = Tasks(wait_s=0.02), f"sqlite:///{folder}/tasks.db"
    server = MCPServer(
        "bank", tasks=settings, state=state, policy=policy, max_result_tokens=200, large_results="link"
    )

    @server.tool(task="always", scopes=["accounts:read"])
    async def balance() -> str:
        """Read the balance, which takes long."""
        await asyncio.sleep(60)
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

    return server


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
