"""Bad tokens at the door of a real server, each over HTTP: 401 with the challenge of the specification,
and the tool never runs. The keys are published on the loopback.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.clients.raw_http_client import Response
from tests.support.hostile.bad_tokens import BAD_TOKENS
from tests.support.servers.http_servers import HTTP_STACKS, Served, serving
from tests.support.servers.token_issuer import KeyServer, Mint
from toolcrib import MCPServer
from toolcrib.policy import Auth, OAuth, Policy

pytestmark = pytest.mark.row("D1")

RESOURCE = "http://127.0.0.1:8000/mcp"
METADATA = "http://127.0.0.1:8000/.well-known/oauth-protected-resource/mcp"
CHALLENGE = re.compile(
    rf'Bearer error="invalid_token", scope="read", resource_metadata="{re.escape(METADATA)}", '
    r'error_description="[ !#-\[\]-~]+"'
)


@dataclass
class Door:
    """A server that takes tokens, and how it endeds tool."""

    served: Served
    mint: Mint
    key_server: KeyServer
    runs: list[str]

    def knock(self, *authorizations: str, more: Sequence[tuple[str, str]] = ()) -> Response:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": "run", "arguments": {}, "_meta": meta}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "run")]
        headers += [("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream")]
        headers += [*(("Authorization", value) for value in authorizations), *more]
        return self.served.post(json.dumps(body).encode(), headers)


@pytest.fixture(scope="module", params=HTTP_STACKS)
def door(request: Any) -> Iterator[Door]:
    key_server = KeyServer()
    thread = threading.Thread(target=key_server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    oauth = OAuth(issuer=key_server.origin, jwks_uri=key_server.jwks_uri, resource=RESOURCE, scopes=["read"])
    auth = Auth(oauth=[oauth], max_failures="1000000/min")
    runs: list[str] = []
    server = MCPServer("guarded", policy=Policy(auth=auth))

    @server.tool
    def run() -> str:
        """Run."""
        runs.append("ran")
        return "ran"

    with serving(request.param, server) as served:
        yield Door(served, Mint(key_server.origin, resource=RESOURCE), key_server, runs)
        assert served.complaints == []
    key_server.shutdown()
    key_server.server_close()
    thread.join()


def expect_in(door: Door, answer: Response) -> None:
    assert answer.status == 200
    assert answer.result["content"][0]["text"] == "ran"
    assert door.runs == ["ran"]
    door.runs.clear()


def test_there_are_at_least_eighty_bad_tokens_and_all_differ() -> None:
    mint = Mint("https://login.example.com")
    texts = {make(mint) for make in BAD_TOKENS.values()}
    assert len(texts) == len(BAD_TOKENS) >= 80


def test_the_mint_of_the_bad_tokens_makes_good_ones(door: Door) -> None:
    expect_in(door, door.knock(f"Bearer {door.mint()}"))


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "bEaReR", "Bearer  ", " Bearer"])
def test_the_name_of_the_scheme_may_be_written_in_any_case(door: Door, scheme: str) -> None:
    expect_in(door, door.knock(f"{scheme} {door.mint()}"))


def test_clocks_may_differ_by_half_a_minute(door: Door) -> None:
    moment = int(door.mint.wall())
    for claims in ({"exp": moment - 20}, {"nbf": moment + 20}, {"iat": moment + 20}):
        expect_in(door, door.knock(f"Bearer {door.mint(**claims)}"))


@pytest.mark.parametrize("name", BAD_TOKENS)
def test_a_bad_token_opens_nothing(door: Door, name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    token = BAD_TOKENS[name](door.mint)
    answer = door.knock(f"Bearer {token}")
    assert answer.status == 401, answer.body
    assert CHALLENGE.fullmatch(answer.headers["www-authenticate"])
    assert door.runs == []
    told = answer.body.decode() + repr(answer.headers) + caplog.text
    assert not any(part in told for part in token.split(".") if len(part) > 12)


@pytest.mark.parametrize("scheme", ["bearer", "BEARER"])
def test_nor_does_it_under_another_spelling_of_the_scheme(door: Door, scheme: str) -> None:
    answer = door.knock(f"{scheme} {door.mint(sub=...)}")
    assert answer.status == 401
    assert CHALLENGE.fullmatch(answer.headers["www-authenticate"])
    assert door.runs == []


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ([], 401),
        ([""], 401),
        (["Basic YW5hOmFuYQ=="], 401),
        (["DPoP {token}"], 401),
        (["{token}"], 401),
        (["Bearer:{token}"], 401),
        (["Bearer={token}"], 401),
        (["Bearer"], 400),
        (["Bearer {token} {token}"], 400),
        (["Bearer {token},{token}"], 400),
        (["Bearer {token}, Basic YW5hOmFuYQ=="], 400),
        (['Bearer "{token}"'], 400),
        (["Bearer\t{token}"], 401),
        (["Bearer {token}", "Bearer {token}"], 400),
        (["Bearer {token}", "Basic YW5hOmFuYQ=="], 400),
    ],
)
def test_a_good_token_in_a_bad_header_opens_nothing(door: Door, values: list[str], status: int) -> None:
    token = door.mint()
    answer = door.knock(*(value.format(token=token) for value in values))
    assert answer.status == status
    assert answer.headers["www-authenticate"].startswith("Bearer ")
    assert METADATA in answer.headers["www-authenticate"]
    assert door.runs == []


def test_a_token_is_not_read_from_anywhere_else(door: Door) -> None:
    token = door.mint()
    for more in ([("Cookie", f"access_token={token}")], [("X-API-Key", token)], [("X-Authorization", token)]):
        assert door.knock(more=more).status == 401
    assert door.served.post(b"{}", path=f"/mcp?access_token={token}").status == 401
    assert door.runs == []


def test_however_many_bad_tokens_come_keys_are_hardly_asked_for(door: Door) -> None:
    assert len(door.key_server.visits) < 20  # one in ten seconds, however long all of this took
    assert set(door.key_server.visits) == {"/keys"}
