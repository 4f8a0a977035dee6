"""A token issuer for tests: keys and tokens of every kind, and a server that publishes keys.

Tokens are built by hand, so that they can be invalid in ways that no library allows. The server is real HTTP
on the loopback, and counts its requests and misbehaves as scripted.
"""

from __future__ import annotations

import inspect
import json
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from joserfc import jwk, jws

from toolcrib.context import Principal
from toolcrib.policy import OAuth
from toolcrib.policy.auth.jwks import InvalidTokenError
from toolcrib.policy.auth.tokens import Issuer

RESOURCE = "https://tools.example.com/mcp"
SCHEMES = {
    "RS256": ("RSA", 2048),
    "RS384": ("RSA", 2048),
    "RS512": ("RSA", 2048),
    "PS256": ("RSA", 2048),
    "PS384": ("RSA", 2048),
    "PS512": ("RSA", 2048),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
    "Ed25519": ("OKP", "Ed25519"),
}


@cache
def make_key(kind: str = "RSA", size: Any = 2048, kid: str | None = "one") -> Any:
    """Return a key pair; cached by arguments, because some take long to make."""
    return jwk.generate_key(kind, size, None if kid is None else {"kid": kid})


def publish(*keys: Any, **more: Any) -> dict[str, Any]:
    """Return a JWK Set of the public keys."""
    return {"keys": [{**key.as_dict(private=False), **more} for key in keys]}


def encode(data: bytes | Mapping[str, Any]) -> str:
    plain = data if isinstance(data, bytes) else json.dumps(data).encode()
    return urlsafe_b64encode(plain).rstrip(b"=").decode()


def sign(key: Any, algorithm: str, header: bytes | Mapping[str, Any], payload: Any) -> str:
    """Return a token of exactly these parts."""
    message = f"{encode(header)}.{encode(payload)}"
    name = "Ed25519" if algorithm == "EdDSA" else algorithm
    signature = jws.JWSRegistry(algorithms=[name]).get_alg(name).sign(message.encode(), key)
    return f"{message}.{encode(signature)}"


@dataclass
class Mint:
    """Makes tokens that are valid but for the given values; a value of `...` omits its member."""

    issuer: str
    key: Any = field(default_factory=make_key)
    algorithm: str = "RS256"
    wall: Any = time.time
    resource: str = RESOURCE

    def header(self, **changes: Any) -> dict[str, Any]:
        return _apply({"alg": self.algorithm, "typ": "at+jwt", "kid": self.key.kid}, changes)

    def claims(self, **changes: Any) -> dict[str, Any]:
        moment = int(self.wall())
        usual = {"iss": self.issuer, "sub": "ana", "aud": self.resource, "client_id": "desk"}
        return _apply({**usual, "iat": moment, "exp": moment + 300, "scope": "read write"}, changes)

    def __call__(self, header: Mapping[str, Any] | None = None, **claims: Any) -> str:
        return sign(self.key, self.algorithm, self.header(**(header or {})), self.claims(**claims))


def _apply(usual: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**usual, **changes}.items() if value is not ...}


class Clock:
    """A clock that only advances when set."""

    def __init__(self, at: float = 0.0) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at


async def see(found: Principal | Awaitable[Principal]) -> Principal:
    """Return the authenticated principal, awaiting it if necessary."""
    return await found if inspect.isawaitable(found) else found


@contextmanager
def refused(words: str) -> Iterator[None]:
    """Assert that a token is refused with exactly this message."""
    with pytest.raises(InvalidTokenError) as caught:
        yield
    assert str(caught.value) == words


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: KeyServer

    def do_GET(self) -> None:
        key_server = self.server
        key_server.visits.append(self.path)
        page = key_server.pages.get(self.path)
        if page is None:
            self._send(404, b"", {})
            return
        if page.holds:
            key_server.released.wait(10)
        body = page.body if isinstance(page.body, bytes) else json.dumps(page.body).encode()
        self._send(page.status, body, page.headers)

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True  # nobody wants to read that much

    def log_message(self, *args: Any) -> None:
        pass


@dataclass
class Page:
    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    holds: bool = False
    """Wait until the test is over, or says otherwise."""


class KeyServer(ThreadingHTTPServer):
    """The server where an issuer publishes keys. `visits` are the requested paths."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.origin = f"http://127.0.0.1:{self.server_port}"
        self.jwks_uri = f"{self.origin}/keys"
        self.pages: dict[str, Page] = {}
        self.visits: list[str] = []
        self.released = threading.Event()
        self.publish(make_key())

    def publish(self, *keys: Any, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.pages["/keys"] = Page(publish(*keys), headers=named)

    def describe(self, path: str = "/.well-known/oauth-authorization-server", **changes: Any) -> None:
        """Publish metadata."""
        facts = {"issuer": self.origin, "jwks_uri": self.jwks_uri, **changes}
        self.pages[path] = Page(facts)


@pytest.fixture
def key_server() -> Iterator[KeyServer]:
    key_server = KeyServer()
    thread = threading.Thread(target=key_server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield key_server
    key_server.released.set()
    key_server.shutdown()
    key_server.server_close()
    thread.join()


def make_issuer(key_server: KeyServer, *, resource: str = RESOURCE, **options: Any) -> Issuer:
    own = {name: options.pop(name) for name in ("now", "wall", "fetch") if name in options}
    settings = {"issuer": key_server.origin, "jwks_uri": key_server.jwks_uri, **options}
    return Issuer(OAuth(**settings), resource=resource, **own)


def refuse(issuer: Issuer, token: str) -> str:
    """Return the message with which a token is refused at once."""
    with pytest.raises(InvalidTokenError) as caught:
        issuer.verify(token)
    assert token not in str(caught.value)
    return str(caught.value)
