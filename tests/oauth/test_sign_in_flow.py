"""The whole OAuth flow with the official Python client and a real authorization server, up to the step-up.

The client knows the address of our server and nothing else. Instead of a browser, an HTTP
client follows redirects and keeps cookies.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp.client import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from tests.oauth.conftest import AuthorizationServer
from tests.support.servers.server_processes import ServerProcess

CALLBACK = "http://127.0.0.1:9/callback"
MAX_STEPS = 20
pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")


class Storage:
    """Storage of the client for tokens and its registration."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class Person:
    """Follows the redirects of a browser back to the client. `asked` has the scopes that were granted."""

    def __init__(self, browser: httpx2.AsyncClient) -> None:
        self.asked: list[dict[str, str]] = []
        self._browser = browser
        self._answer: dict[str, str] = {}

    async def visit(self, address: str) -> None:
        self.asked.append(_query(address))
        for _ in range(MAX_STEPS):
            if address.startswith(CALLBACK):
                self._answer = _query(address)
                return
            reply = await self._browser.get(address)
            assert reply.is_redirect, f"{address}: {reply.status_code} {reply.text}"
            address = str(reply.url.join(reply.headers["location"]))
        raise AssertionError("sent in circles")

    async def come_back(self) -> AuthorizationCodeResult:
        answer = self._answer
        return AuthorizationCodeResult(code=answer["code"], state=answer.get("state"), iss=answer.get("iss"))


def _query(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


class Log:
    """The requests of the client and the status of each answer."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, int]] = []

    async def take(self, response: httpx2.Response) -> None:
        url = response.request.url
        self.lines.append((response.request.method, str(url), response.status_code))

    def statuses(self, address: str) -> list[int]:
        return [status for _, url, status in self.lines if url == address]


@asynccontextmanager
async def dance(served: ServerProcess, mode: str) -> AsyncIterator[tuple[Client, Person, Log, Storage]]:
    log, storage = Log(), Storage()
    metadata = OAuthClientMetadata(
        client_name="dancer",
        redirect_uris=[AnyUrl(CALLBACK)],
        grant_types=["authorization_code"],
        token_endpoint_auth_method="none",
    )
    hooks: Any = {"response": [log.take]}
    async with httpx2.AsyncClient() as browser:
        person = Person(browser)
        provider = OAuthClientProvider(served.url, metadata, storage, person.visit, person.come_back)
        async with (
            httpx2.AsyncClient(auth=provider, timeout=30, event_hooks=hooks) as http,
            Client(streamable_http_client(served.url, http_client=http), mode=mode) as client,
        ):
            yield client, person, log, storage


async def say(client: Client, tool: str) -> str:
    result = await client.call_tool(tool, {"name": "one"})
    text: str = result.content[0].text  # type: ignore[union-attr]
    assert not result.is_error, text
    return text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_python_client_gets_itself_a_token_and_calls(
    served: ServerProcess, issuer: AuthorizationServer, mode: str
) -> None:
    async with dance(served, mode) as (client, person, log, storage):
        assert await say(client, "read") == "oauth:ana reads one"
        assert log.statuses(served.url)[0] == 401
        assert log.statuses(f"{served.origin}/.well-known/oauth-protected-resource/mcp") == [200]
        assert log.statuses(f"{issuer.issuer}/reg") == [201]
        assert log.statuses(f"{issuer.issuer}/token") == [200]
        asked = person.asked[0]
        assert (asked["resource"], asked["scope"]) == (served.url, "tools:read")
        assert asked["code_challenge_method"] == "S256"
        assert storage.tokens is not None
        assert storage.tokens.scope == "tools:read"
        assert len(person.asked) == 1


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_tool_that_needs_more_makes_the_client_ask_for_more(served: ServerProcess, mode: str) -> None:
    async with dance(served, mode) as (client, person, log, storage):
        assert await say(client, "read") == "oauth:ana reads one"
        assert len(person.asked) == 1
        assert 403 not in log.statuses(served.url)
        assert await say(client, "write") == "oauth:ana writes one"
        assert log.statuses(served.url).count(403) == 1
        assert len(person.asked) == 2
        assert set(person.asked[1]["scope"].split()) == {"tools:read", "tools:write"}
        assert await say(client, "read") == "oauth:ana reads one"
        assert len(person.asked) == 2
        assert storage.tokens is not None
        assert set((storage.tokens.scope or "").split()) == {"tools:read", "tools:write"}


async def test_the_tools_that_need_more_are_listed_all_the_same(served: ServerProcess) -> None:
    async with dance(served, "auto") as (client, *_):
        assert [tool.name for tool in (await client.list_tools()).tools] == ["read", "write"]
