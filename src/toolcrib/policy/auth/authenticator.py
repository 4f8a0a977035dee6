"""Authentication of HTTP requests: whose credentials they carry, or how to reject them.

Keys and tokens come as `Authorization: Bearer`, keys also as `X-API-Key`. Accepted credentials are cached by
the bytes of their header. What is wrong with a key is logged, and not sent back.

Challenges are those of RFC 6750 in the form that MCP asks for; the metadata document is that of RFC 9728.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from toolcrib.config.settings import Auth, Rate
from toolcrib.context import ANONYMOUS, Principal
from toolcrib.errors import ConfigurationError
from toolcrib.http_client import fold_address
from toolcrib.policy.auth.api_keys import (
    PREFIX,
    KeyFile,
    KeySnapshot,
    hash_secret,
    is_complete_key,
    state_of,
)
from toolcrib.policy.auth.jwks import (
    MAX_TOKEN_BYTES,
    InvalidTokenError,
    KeysUnavailableError,
    read_compact,
)
from toolcrib.policy.auth.tokens import Issuer
from toolcrib.state.base import KeyStore, run_now
from toolcrib.state.rate_limit import RateLimiter
from toolcrib.validation import codec

logger = logging.getLogger("toolcrib")

Headers = tuple[tuple[bytes, bytes], ...]
Sent = tuple[bytes | None, bytes | None]
"""The headers Authorization and X-API-Key of a request."""
WELL_KNOWN = "/.well-known/oauth-protected-resource"
REFRESH_S = 1.0
"""How often changes of keys are looked for."""
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_NOT_QUOTABLE = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")
_MAX_DESCRIPTION = 200
_REALM = "toolcrib"
_MAX_KNOWN = 4096
_CREDENTIAL = re.compile(rb"[A-Za-z0-9._~+/-]+=*")
_LOG_RATE = Rate(30, 60.0)
_INVALID = "Invalid or expired credentials"
_TOO_MANY_FAILURES = "Too many invalid credentials from this address: try again later"
_KEYS_UNAVAILABLE = "Keys cannot be checked at the moment: try again later"


@dataclass(frozen=True, slots=True)
class Rejection:
    """The response to a request that is not let in. `retry_after_s` asks for a Retry-After header."""

    status: int
    message: str
    headers: Headers = ()
    retry_after_s: float | None = None


Verdict = Principal | Rejection


@dataclass(frozen=True, slots=True)
class Credential:
    """What a request was authenticated with, to check later whether it is still valid: the hash of a key, or
    None and the expiry of a token."""

    key: str | None
    until_s: float


class Challenges:
    """The challenges of one server, and its metadata if it accepts tokens of `issuers` for `resource`."""

    def __init__(
        self,
        *,
        resource: str | None = None,
        path: str = "/mcp",
        issuers: Sequence[str] = (),
        scopes: Iterable[str] = (),
        name: str | None = None,
    ) -> None:
        self._scopes = tuple(dict.fromkeys(scopes))
        self._metadata_url: str | None = None
        self._paths: frozenset[str] = frozenset()
        self._metadata = b""
        if resource is not None and issuers:
            parts = urlsplit(resource)
            own = parts.path if parts.path != "/" else ""
            self._metadata_url = f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{own}"
            self._paths = frozenset((WELL_KNOWN, WELL_KNOWN + own, WELL_KNOWN + path))
            facts = {
                "resource": resource,
                "authorization_servers": list(issuers),
                "scopes_supported": list(self._scopes),
                "bearer_methods_supported": ["header"],
                "resource_name": name,
            }
            self._metadata = json.dumps({key: value for key, value in facts.items() if value}).encode()

    def metadata(self, path: str) -> bytes | None:
        """Return the protected-resource metadata if it is served at this path."""
        return self._metadata if path in self._paths else None

    def missing(self) -> Rejection:
        """Reject a request without credentials. This is not an error, so none is named."""
        return Rejection(401, "Credentials are required", self._headers(None, self._scopes, None))

    def invalid_token(self, message: str) -> Rejection:
        return Rejection(401, message, self._headers("invalid_token", self._scopes, message))

    def invalid_request(self, message: str) -> Rejection:
        return Rejection(400, message, self._headers("invalid_request", (), message))

    def insufficient_scope(self, scopes: Sequence[str]) -> Headers:
        return self._headers("insufficient_scope", scopes, "The credentials lack a required scope")

    def _headers(self, error: str | None, scopes: Sequence[str], description: str | None) -> Headers:
        wanted = " ".join(dict.fromkeys(scope for scope in scopes if _SCOPE.fullmatch(scope)))
        if description is not None:
            description = _NOT_QUOTABLE.sub("?", description)[:_MAX_DESCRIPTION]
        facts = {
            "error": error,
            "scope": wanted,
            "resource_metadata": self._metadata_url,
            "error_description": description,
        }
        parts = [f'{key}="{value}"' for key, value in facts.items() if value]
        # A parameter must follow the scheme, and a realm is the least.
        text = ", ".join(parts or [f'realm="{_REALM}"'])
        return ((b"www-authenticate", f"Bearer {text}".encode("ascii", "replace")),)


class Authenticator:
    """Authenticates the requests of one server, on one event loop.

    `resource` is the address of the server, which tokens must be for unless `auth` says otherwise; `path` is
    the MCP endpoint, `name` the name of the server. `repeated` stands for the value of a header that came
    more than once. Several `workers` share the limit of failures. `keys` has the keys, without it the file
    that `auth` names.
    """

    def __init__(
        self,
        auth: Auth,
        *,
        resource: str | None,
        path: str = "/mcp",
        name: str | None = None,
        repeated: bytes | None = None,
        workers: int = 1,
        keys: KeyStore | None = None,
        on_keys: Callable[[int], None] = lambda _: None,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._now, self._wall, self._repeated = now, wall, repeated
        self._keys: KeySnapshot | None = None
        if auth.keys is not None:
            self._keys = KeySnapshot(keys or KeyFile(auth.keys, wall=wall), str(auth.keys), now=now)
        # A file is looked at when a request comes, a database in the background.
        self._is_polled = keys is not None
        self._on_keys = on_keys
        self._refresh_at_s = math.inf if self._keys is None or self._is_polled else -math.inf
        self._known: dict[Sent, tuple[Principal, float]] = {}
        resource = _find_resource(auth, resource)
        self._issuers: dict[str, Issuer] = {}
        if resource is not None:
            for item in auth.oauth:
                self._issuers[item.issuer] = Issuer(item, resource=resource, now=now, wall=wall)
        self._running: list[asyncio.Future[None]] = []
        self._challenges = challenges = Challenges(
            resource=resource,
            path=path,
            issuers=list(self._issuers),
            scopes=[scope for item in auth.oauth for scope in item.scopes],
            name=name,
        )
        self.metadata = challenges.metadata
        self.require_credentials = challenges.missing
        self.challenge = challenges.insufficient_scope
        self._without_credentials: Verdict = ANONYMOUS if auth.optional else self._challenges.missing()
        self._failures = _limiter(Rate.parse(auth.max_failures).share(workers), now)
        # Not shared: a client that keeps one connection reaches one worker, and would get only its part.
        self._requests = None if auth.requests is None else _limiter(Rate.parse(auth.requests), now)
        self._log_lines = _limiter(_LOG_RATE, now)

    async def open(self) -> None:
        """Read the keys. Raises ConfigurationError or StateUnavailable if that fails. The keys of issuers are
        fetched in the background: a server does not wait for others to start."""
        if self._keys is not None:
            await self._keys.load()
            self._on_keys(self._keys.version)
            if not self._is_polled:
                self._refresh_at_s = self._now() + REFRESH_S
            if not len(self._keys) and not self._issuers and self._without_credentials is not ANONYMOUS:
                logger.warning("there are no keys, so nobody can connect: run toolcrib keys create")
        self._running = [asyncio.ensure_future(issuer.prefetch_keys()) for issuer in self._issuers.values()]
        if self._keys is not None and self._is_polled:
            self._running.append(asyncio.ensure_future(self._poll(self._keys)))

    async def close(self) -> None:
        """Clear all caches. It may be opened again."""
        running, self._running = self._running, []
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._known.clear()

    def authenticate(
        self, headers: Mapping[bytes, bytes], address: str | None
    ) -> Verdict | Awaitable[Verdict]:
        """Return whose request this is, or how to reject it. Header names are in lower case."""
        if self._now() >= self._refresh_at_s:
            self._refresh()
        sent = self._read(headers)
        known = self._known.get(sent)
        if known is not None and self._wall() < known[1]:
            return known[0]
        return self._without_credentials if sent == (None, None) else self._check(sent, address)

    def _read(self, headers: Mapping[bytes, bytes]) -> Sent:
        key = None if self._keys is None else headers.get(b"x-api-key")
        return headers.get(b"authorization"), key

    def _refresh(self) -> None:
        self._refresh_at_s = self._now() + REFRESH_S
        if self._keys is not None and run_now(self._keys.refresh()):
            self._known.clear()

    async def _poll(self, keys: KeySnapshot) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            if await keys.refresh():
                self._known.clear()
                self._on_keys(keys.version)

    def _check(self, sent: Sent, address: str | None) -> Verdict | Awaitable[Verdict]:
        bearer, key = sent
        challenges = self._challenges
        if self._repeated is not None and self._repeated in sent:
            return self._fail(challenges.invalid_request("Credentials were sent more than once"), address)
        token = None if bearer is None else _read_bearer(bearer)
        if bearer is not None and token is None:
            return self._fail(challenges.missing(), address, "another scheme than Bearer")
        credential = token if key is None else key.strip(b" \t")
        if token is not None and token != credential:
            message = "Authorization and X-API-Key differ: send one of them"
            return self._fail(challenges.invalid_request(message), address)
        if not credential or not _CREDENTIAL.fullmatch(credential):
            message = "The credentials are not a single key or token"
            return self._fail(challenges.invalid_request(message), address)
        if len(credential) > MAX_TOKEN_BYTES:
            return self._reject(address, f"more than {MAX_TOKEN_BYTES} bytes")
        text = credential.decode("ascii")
        if key is not None or text.startswith(PREFIX):
            return self._check_key(text, sent, address)
        return self._check_token(text, address)

    # --- keys ---

    def _check_key(self, text: str, sent: Sent, address: str | None) -> Verdict:
        if self._keys is None:
            return self._reject(address, "a key, but no keys are configured")
        if not self._keys.is_open:
            return Rejection(503, _KEYS_UNAVAILABLE, (), REFRESH_S)
        found = self._keys.find(text)
        if found is None:
            return self._reject(
                address, "unknown key" if is_complete_key(text) else "incomplete or mistyped key"
            )
        entry, principal = found
        state = state_of(entry, self._wall())
        if state != "active":
            return self._reject(address, f"{state} key '{entry.name}' ({entry.id})")
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        self._known[sent] = principal, math.inf if entry.expires_ms is None else entry.expires_ms / 1000
        return principal

    # --- tokens ---

    def _check_token(self, text: str, address: str | None) -> Verdict | Awaitable[Verdict]:
        issuer = self._find_issuer(text)
        if issuer is None:
            is_token = text.count(".") == 2
            reason = "a token of an unknown issuer" if is_token else f"not a key: keys begin with {PREFIX}"
            return self._reject(address, reason)
        try:
            found = issuer.verify(text)
        except InvalidTokenError as error:
            return self._reject_token(error, address)
        return found if isinstance(found, Principal) else self._await_token(found, address)

    async def _await_token(self, found: Awaitable[Principal], address: str | None) -> Verdict:
        try:
            return await found
        except InvalidTokenError as error:
            return self._reject_token(error, address)

    def _find_issuer(self, text: str) -> Issuer | None:
        """Return the issuer that the token claims; the issuer then verifies it."""
        if len(self._issuers) == 1:
            return next(iter(self._issuers.values()))
        return self._issuers.get(_claimed_issuer(text)) if self._issuers else None

    def _reject_token(self, error: InvalidTokenError, address: str | None) -> Rejection:
        if isinstance(error, KeysUnavailableError):
            return Rejection(503, str(error), (), error.retry_after_s)
        return self._fail(self._challenges.invalid_token(str(error)), address, str(error))

    # --- later checks ---

    def credential_of(self, headers: Mapping[bytes, bytes]) -> Credential | None:
        """Return the credential of a request that was just authenticated; None if it has none."""
        bearer, key = self._read(headers)
        credential = _read_bearer(bearer or b"") if key is None else key.strip(b" \t")
        if credential is None:
            return None
        text = credential.decode("ascii")
        if key is not None or text.startswith(PREFIX):
            return Credential(hash_secret(text), math.inf)
        issuer = self._find_issuer(text)
        return None if issuer is None else Credential(None, issuer.expiry(text))

    def is_valid(self, credential: Credential) -> bool:
        """Whether a credential would be accepted now."""
        if self._now() >= self._refresh_at_s:
            self._refresh()
        wall_s = self._wall()
        if credential.key is None or self._keys is None:
            return wall_s < credential.until_s
        return self._keys.is_active(credential.key, wall_s)

    # --- rejections and limits ---

    def _reject(self, address: str | None, reason: str) -> Rejection:
        return self._fail(self._challenges.invalid_token(_INVALID), address, reason)

    def _fail(self, rejection: Rejection, address: str | None, reason: str | None = None) -> Rejection:
        """Count a failure against the address. Valid credentials are never counted."""
        wait_s = self._failures.take(fold_address(address))
        if wait_s is not None:
            return Rejection(429, _TOO_MANY_FAILURES, (), wait_s)
        if self._log_lines.take("") is None:
            logger.warning(
                "rejected credentials from %s: %s",
                address or "an unknown address",
                reason or rejection.message,
            )
        return rejection

    def count_request(self, principal: Principal) -> float | None:
        """Count a request of this principal. Returns the seconds to wait if there were too many."""
        return None if self._requests is None else self._requests.take(principal.name)


def _read_bearer(value: bytes) -> bytes | None:
    """Return what follows the scheme Bearer; None for another scheme."""
    scheme, _, rest = value.strip(b" \t").partition(b" ")
    return rest.strip(b" ") if scheme.lower() == b"bearer" else None


def _claimed_issuer(text: str) -> str:
    """Return the unverified issuer of a token; empty if it cannot be read."""
    try:
        issuer = codec.parse(read_compact(text)[2])["iss"]
    except (ValueError, LookupError, TypeError):
        return ""
    return issuer if isinstance(issuer, str) else ""


def _find_resource(auth: Auth, resource: str | None) -> str | None:
    """Return the address that tokens must be for. Raises ConfigurationError."""
    if not auth.oauth:
        return None
    if len({item.issuer for item in auth.oauth}) < len(auth.oauth):
        raise ConfigurationError("two authorization servers have the same issuer", key="auth.oauth.issuer")
    resources = list(dict.fromkeys(item.resource or resource for item in auth.oauth))
    if len(resources) > 1:
        hint = "set the same resource for all of them"
        raise ConfigurationError("a server has one address", key="auth.oauth.resource", hint=hint)
    if resources[0] is None:
        hint = 'set the address of this server: resource="https://tools.example.com/mcp"'
        raise ConfigurationError("required to check tokens", key="auth.oauth.resource", hint=hint)
    return resources[0]


def _limiter(rate: Rate, now: Callable[[], float]) -> RateLimiter:
    return RateLimiter(rate.count, rate.period_s, now=now)
