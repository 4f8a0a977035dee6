"""Tokens that a real authorization server has signed, and keys that it rotates."""

from __future__ import annotations

import httpx2
import pytest

from tests.oauth.conftest import AuthorizationServer
from tests.support.servers.server_processes import ServerProcess
from tests.support.servers.token_issuer import Clock, see
from toolcrib.context import Principal
from toolcrib.policy import OAuth
from toolcrib.policy.auth.jwks import PAUSE_S, InvalidTokenError
from toolcrib.policy.auth.tokens import Issuer

RESOURCE = "https://tools.example.com/mcp"
ELSEWHERE = "https://elsewhere.example.com/mcp"


def make_issuer(server: AuthorizationServer, now: Clock | None = None) -> Issuer:
    return Issuer(OAuth(issuer=server.issuer), resource=RESOURCE, now=now or Clock())


async def refuse(issuer: Issuer, token: str) -> str:
    with pytest.raises(InvalidTokenError) as caught:
        await see(issuer.verify(token))
    return str(caught.value)


async def test_a_genuine_token_says_who_its_holder_is(issuer: AuthorizationServer) -> None:
    found = await see(make_issuer(issuer).verify(issuer.give_token(RESOURCE, "tools:read tools:write")))
    assert found == Principal(
        "oauth:robot",
        frozenset({"tools:read", "tools:write"}),
        frozenset(),
        f"{issuer.issuer}\nrobot\nrobot",
    )


async def test_a_token_for_another_resource_is_refused(issuer: AuthorizationServer) -> None:
    words = await refuse(make_issuer(issuer), issuer.give_token(ELSEWHERE))
    assert words == "the token is for another server"


async def test_a_token_for_no_resource_is_refused(issuer: AuthorizationServer) -> None:
    words = await refuse(make_issuer(issuer), issuer.give_token(None, "openid"))
    assert words == "the token is not a signed JWT in compact form"


async def test_a_token_of_another_issuer_is_refused(
    issuer: AuthorizationServer, other_issuer: AuthorizationServer
) -> None:
    words = await refuse(make_issuer(issuer), other_issuer.give_token(RESOURCE))
    assert words == "the token is not from the authorization server of this server"


async def test_a_token_with_another_payload_under_its_signature_is_refused(
    issuer: AuthorizationServer,
) -> None:
    judge = make_issuer(issuer)
    header, payload, _ = issuer.give_token(RESOURCE, "tools:read tools:write").split(".")
    _, _, signature = issuer.give_token(RESOURCE, "tools:read").split(".")
    words = await refuse(judge, f"{header}.{payload}.{signature}")
    assert words == "the token is not signed with a key of its issuer"


async def test_keys_may_be_rotated_at_any_time(rotating: AuthorizationServer) -> None:
    now = Clock()
    judge = make_issuer(rotating, now)
    old = rotating.give_token(RESOURCE)
    assert (await see(judge.verify(old))).name == "oauth:robot"
    rotating.rotate()
    new = rotating.give_token(RESOURCE)
    assert new.split(".")[0] != old.split(".")[0]
    assert await refuse(judge, new) == "the token is not signed with a key of its issuer"  # too soon to look
    now.at = PAUSE_S
    for token in (new, old):
        assert (await see(judge.verify(token))).name == "oauth:robot"


async def test_a_withdrawn_key_counts_no_more_once_its_successor_is_seen(
    rotating: AuthorizationServer,
) -> None:
    now = Clock()
    judge = make_issuer(rotating, now)
    old = rotating.give_token(RESOURCE)
    assert (await see(judge.verify(old))).name == "oauth:robot"
    rotating.withdraw()
    now.at = PAUSE_S
    assert (await see(judge.verify(rotating.give_token(RESOURCE)))).name == "oauth:robot"
    assert await refuse(judge, old) == "the token is not signed with a key of its issuer"


# --- at the door of a server ---


def ask(served: ServerProcess, token: str | None, tool: str = "read") -> httpx2.Response:
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28"}
    headers |= {"mcp-method": "tools/call", "mcp-name": tool}
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    }
    params = {"name": tool, "arguments": {"name": "one"}, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return httpx2.post(served.url, json=body, headers=headers, timeout=30)


def test_a_genuine_token_opens_the_door(served: ServerProcess, issuer: AuthorizationServer) -> None:
    answer = ask(served, issuer.give_token(served.url))
    assert answer.status_code == 200
    assert answer.json()["result"]["content"][0]["text"] == "oauth:robot reads one"


def test_anyone_who_has_no_token_is_told_where_to_get_one(
    served: ServerProcess, issuer: AuthorizationServer
) -> None:
    answer = ask(served, None)
    assert answer.status_code == 401
    page = f"{served.origin}/.well-known/oauth-protected-resource/mcp"
    challenge = f'Bearer scope="tools:read", resource_metadata="{page}"'
    assert answer.headers["www-authenticate"] == challenge
    facts = httpx2.get(page).json()
    assert facts["resource"] == served.url
    assert facts["authorization_servers"] == [issuer.issuer]


def test_a_token_for_somebody_else_opens_nothing(served: ServerProcess, issuer: AuthorizationServer) -> None:
    answer = ask(served, issuer.give_token(ELSEWHERE))
    assert answer.status_code == 401
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]


def test_a_token_that_lacks_a_scope_is_told_which(served: ServerProcess, issuer: AuthorizationServer) -> None:
    answer = ask(served, issuer.give_token(served.url), "write")
    assert answer.status_code == 403
    challenge = answer.headers["www-authenticate"]
    assert challenge.startswith('Bearer error="insufficient_scope", scope="')
    assert "tools:write" in challenge
