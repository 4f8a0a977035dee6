"""A real authorization server, and a toolcrib server that accepts its tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.request import Request, urlopen

import httpx2
import pytest

from tests.support.servers.server_processes import ServerProcess, serving
from tests.support.system.node import OAUTH, MissingError, find_node
from tests.support.system.requires import lack


@dataclass(frozen=True)
class AuthorizationServer:
    """npm's oidc-provider, which issues tokens for any resource."""

    process: ServerProcess

    @property
    def issuer(self) -> str:
        return self.process.origin

    def give_token(self, resource: str | None, scope: str = "tools:read") -> str:
        """Return a token of the client credentials grant."""
        form = {"grant_type": "client_credentials", "scope": scope}
        if resource is not None:
            form["resource"] = resource
        answer = httpx2.post(f"{self.issuer}/token", data=form, auth=("robot", "only-for-tests"))
        found: dict[str, Any] = answer.raise_for_status().json()
        token: str = found["access_token"]
        return token

    def rotate(self) -> None:
        """Sign with a new key from now on; the old one is still published."""
        self._order("rotate")

    def withdraw(self) -> None:
        """Sign with a new key from now on, and publish no other."""
        self._order("withdraw")

    def _order(self, what: str) -> None:
        urlopen(Request(f"{self.issuer}/test/{what}", method="POST"), timeout=10).close()


def start_issuer() -> Any:
    try:
        node = find_node(OAUTH)
    except MissingError as missing:
        lack(str(missing))
    return serving("tests/oauth/issuer.mjs", "{port}", program=str(node.program))


@pytest.fixture(scope="session")
def issuer() -> Iterator[AuthorizationServer]:
    with start_issuer() as process:
        yield AuthorizationServer(process)


@pytest.fixture(scope="session")
def other_issuer() -> Iterator[AuthorizationServer]:
    """An issuer that the server does not trust."""
    with start_issuer() as process:
        yield AuthorizationServer(process)


@pytest.fixture(scope="session")
def rotating(other_issuer: AuthorizationServer) -> AuthorizationServer:
    """An issuer whose keys tests may rotate: no running server has fetched them."""
    return other_issuer


@pytest.fixture(scope="session")
def served(issuer: AuthorizationServer) -> Iterator[ServerProcess]:
    """A toolcrib server in a separate process."""
    with serving("-m", "tests.oauth.served", "{port}", issuer.issuer) as process:
        yield process
