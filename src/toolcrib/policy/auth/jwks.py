"""Signing keys of an issuer: discovery, fetching, caching and signature checks.

The only module that imports joserfc. A key is used only for what its type, curve, size and `alg` allow,
whatever a token asks for; symmetric, private, weak and unreadable keys are left out one by one. One fetch at
a time is shared by all who wait, with at most one in ten seconds. While the issuer cannot be reached, its
last keys count for a day. There is no timer: a lookup starts the fetch that is due.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from toolcrib.errors import APIError, ConfigurationError
from toolcrib.http_client import HTTPClient, Response
from toolcrib.validation import codec

logger = logging.getLogger("toolcrib")

MAX_KEYS = 100
MAX_TOKEN_BYTES = 16 * 1024
_RSA_BITS = range(2048, 8192 + 1)
"""Smaller keys are weak, larger ones cost too much to check."""
_SECRET = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_RSA = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_ED25519 = frozenset({"EdDSA", "Ed25519"})
_ALGORITHMS: Mapping[tuple[Any, Any], frozenset[str]] = {
    ("RSA", None): _RSA,
    ("EC", "P-256"): frozenset({"ES256"}),
    ("EC", "P-384"): frozenset({"ES384"}),
    ("EC", "P-521"): frozenset({"ES512"}),
    ("OKP", "Ed25519"): _ED25519,
}
"""Algorithms by key type and curve: together, all of `settings.SIGNING_ALGORITHMS`."""
_MATERIAL = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
FETCH_S = 2.0
MAX_BYTES = 256 * 1024
PAUSE_S = 10.0
"""The least time between the starts of two fetches."""
LEAST_AGE_S, USUAL_AGE_S, MOST_AGE_S = 300.0, 3600.0, 86_400.0
STALE_S = 86_400.0
"""How long keys count after the last successful fetch."""
_EARLY = 0.8
"""The part of their life after which keys are fetched again in the background."""
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age\s*=\s*\"?(\d{1,9})", re.IGNORECASE)
_LOOPBACK = re.compile(r"http://(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?(?:/[^\s]*)?")
_HTTPS = re.compile(r"https://[^\s/?#@]+(?:/[^\s#]*)?")


class InvalidTokenError(Exception):
    """Why a token is refused, in a message that may be sent back and never contains it."""


class KeysUnavailableError(InvalidTokenError):
    """A token cannot be checked because the keys of its issuer are not available now."""

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


def load_engine() -> Any:
    """Import joserfc, which takes 0.1 s: before the first request, and only if tokens are used.

    Raises ConfigurationError if it is not installed.
    """
    try:
        from joserfc import jwk, jws, util
    except ImportError:
        hint = "pip install 'toolcrib[auth]'"
        message = "checking tokens requires joserfc, which is not installed"
        raise ConfigurationError(message, key="auth.oauth", hint=hint) from None
    return jwk, jws, util


@cache
def _make_registry() -> Any:
    _, jws, _ = load_engine()

    class Registry(jws.JWSRegistry):  # type: ignore[misc,name-defined]
        """Without a warning with every use of EdDSA, the older name of Ed25519."""

        max_header_length = max_signature_length = MAX_TOKEN_BYTES

        def get_alg(self, name: str) -> Any:
            return self.algorithms["Ed25519" if name in _ED25519 else name]

    return Registry(strict_check_header=False)


def read_compact(text: str) -> tuple[Any, bytes, bytes]:
    """Return a signed JWT in compact form, and its header and payload as JSON. Raises ValueError."""
    _, jws, util = load_engine()
    try:
        signed = jws.extract_compact(text.encode(), registry=_make_registry())
        util.urlsafe_b64decode(signed.segments["signature"])
        return signed, util.urlsafe_b64decode(signed.segments["header"]), signed.payload
    except Exception:  # its errors have several classes, and may repeat what is in the token
        raise ValueError("not a signed JWT") from None


# --- keys ---


@dataclass(frozen=True, slots=True, eq=False)
class PublicKey:
    """One key. `algorithms` are those that it may be used with."""

    kid: str | None
    algorithms: frozenset[str]
    _engine_key: Any = field(repr=False)

    @classmethod
    def parse(cls, document: Any) -> PublicKey | None:
        """Parse a published JWK; None if it cannot be used to check tokens."""
        if not isinstance(document, dict) or not _SECRET.isdisjoint(document):
            return None
        kid = document.get("kid")
        algorithms = _algorithms_of(document)
        if not algorithms or not (kid is None or isinstance(kid, str)):
            return None
        kind = document["kty"]
        material = {name: document.get(name) for name in _MATERIAL[kind]}
        if kind == "RSA" and not _has_accepted_size(material["n"]):
            return None
        jwk, _, _ = load_engine()
        try:
            # Without the rest of the document: a strange certificate does not make the key worse.
            return cls(kid, algorithms, jwk.import_key({"kty": kind, **material}))
        except Exception:  # a broken key must not affect the other keys
            return None

    def has_signed(self, signed: Any) -> bool:
        """Whether this key signed a JWT. Its algorithm must be one of the key's own."""
        _, jws, _ = load_engine()
        try:
            return jws.validate_compact(signed, self._engine_key, registry=_make_registry()) is True
        except Exception:  # a header of the wrong type
            return False


class KeySet:
    """The keys of an issuer as published at one time."""

    def __init__(self, documents: Sequence[Any]) -> None:
        self.digest = codec.digest(documents)
        parsed = (PublicKey.parse(document) for document in documents[:MAX_KEYS])
        self.keys = tuple(key for key in parsed if key is not None)

    @classmethod
    def parse(cls, data: bytes) -> KeySet:
        """Parse a JWK Set. Raises ValueError if it has no usable key."""
        document = codec.parse(data)
        documents = document.get("keys") if isinstance(document, dict) else None
        if not isinstance(documents, list):
            raise ValueError("not a JWK Set")
        parsed = cls(documents)
        if not parsed.keys:
            raise ValueError("no key that can be used to check tokens")
        return parsed

    def find(self, kid: str | None, algorithm: str) -> list[PublicKey]:
        """Return the keys that can have signed; without `kid`, all with this algorithm."""
        named = self.keys if kid is None else [key for key in self.keys if key.kid == kid]
        return [key for key in named if algorithm in key.algorithms]

    def has(self, kid: str | None) -> bool:
        return any(key.kid == kid for key in self.keys)


def _algorithms_of(document: Mapping[str, Any]) -> frozenset[str]:
    """Return what a key may be used with: what its type allows, or the one `alg` that it names."""
    try:
        allowed = _ALGORITHMS.get((document.get("kty"), document.get("crv")), frozenset())
        named = document.get("alg")
        if named is not None and named not in allowed:
            return frozenset()
    except TypeError:  # a list or an object instead of a string
        return frozenset()
    operations = document.get("key_ops", ["verify"])
    is_for_signatures = document.get("use", "sig") == "sig" and isinstance(operations, list)
    if not is_for_signatures or "verify" not in operations:
        return frozenset()
    return allowed if named is None or allowed is _ED25519 else frozenset({named})


def _has_accepted_size(modulus: Any) -> bool:
    _, _, util = load_engine()
    try:
        return util.base64_to_int(modulus).bit_length() in _RSA_BITS
    except Exception:  # not a string, or not base64url
        return False


# --- fetching ---


Fetch = Callable[[str], Awaitable[Response]]
"""Gets an address. Raises APIError."""


class IssuerKeys:
    """The keys of an issuer, for one event loop. `jwks_uri` is read from its metadata unless given."""

    def __init__(
        self,
        issuer: str,
        jwks_uri: str | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
        fetch: Fetch | None = None,
    ) -> None:
        load_engine()
        self._issuer = issuer
        self._given_uri = self._uri = jwks_uri
        self._now = now
        self._fetch = fetch or _make_fetch()
        self._keys: KeySet | None = None
        self._refresh_at = self._old_at = self._stale_at = self._next_at = self._failed_at = -math.inf
        self._is_failing = False
        self._task: asyncio.Task[None] | None = None

    def current(self) -> KeySet | None:
        """Return the keys if nobody has to wait for them. Fetches them in the background when due."""
        moment = self._now()
        if moment < self._refresh_at:
            return self._keys
        if self._keys is None or moment >= self._stale_at:
            return None
        if moment >= self._old_at > self._failed_at:
            return None  # the first lookup after a long time: a withdrawn key must not count
        self._start(moment)
        return self._keys

    async def fetch(self) -> KeySet:
        """Return the keys after the fetch that is running, or after a new one if that is due.

        Raises KeysUnavailableError if there are none that count.
        """
        task = self._start(self._now())
        if task is not None:
            await asyncio.shield(task)  # others wait for it too
        moment = self._now()
        if self._keys is None or moment >= self._stale_at:
            message = "the keys of the authorization server are not available"
            raise KeysUnavailableError(message, retry_after_s=max(0.0, self._next_at - moment))
        return self._keys

    def _start(self, moment: float) -> asyncio.Task[None] | None:
        """Return the fetch that is running, a new one if allowed, else None."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return None
        task = self._task
        if task is not None and not task.done() and task.get_loop() is loop:
            return task
        if moment < self._next_at:
            return None
        self._next_at = moment + PAUSE_S
        self._task = loop.create_task(self._refresh(), name="toolcrib keys")
        return self._task

    async def _refresh(self) -> None:
        try:
            uri = self._uri or await self._discover()
            response = await self._get(uri)
            keys = KeySet.parse(response.content)
        except (APIError, ValueError) as error:
            self._uri = self._given_uri  # it may have moved
            if not self._is_failing:
                rest = "" if self._keys is None else "; the last keys count for now"
                logger.warning("cannot fetch the keys of %s: %s%s", self._issuer, error, rest)
            self._is_failing, self._failed_at = True, self._now()
            return
        if self._is_failing:
            logger.info("the keys of %s are available again", self._issuer)
        self._uri, self._is_failing = uri, False
        moment, age_s = self._now(), read_age_s(response.headers)
        self._refresh_at, self._old_at = moment + _EARLY * age_s, moment + age_s
        self._stale_at = moment + STALE_S
        if self._keys is None or self._keys.digest != keys.digest:
            self._keys = keys  # otherwise keep the set that tokens were verified with

    async def _discover(self) -> str:
        """Return the address of the keys in the issuer's metadata."""
        problems = []
        for address in metadata_addresses(self._issuer):
            try:
                response = await self._get(address)
            except ValueError as error:
                problems.append(str(error))
                continue
            try:
                metadata = codec.parse(response.content)
            except ValueError:
                metadata = None
            if not isinstance(metadata, dict) or metadata.get("issuer") != self._issuer:
                problems.append(f"{address} is not about this issuer")
                continue
            uri = metadata.get("jwks_uri")
            if not isinstance(uri, str) or not is_allowed(uri, self._issuer):
                raise ValueError(f"{address} has no https address for `jwks_uri`")
            return uri
        raise ValueError(f"no metadata: {'; '.join(problems)}")

    async def _get(self, address: str) -> Response:
        response = await self._fetch(address)
        if response.status_code != 200:
            raise ValueError(f"{address} returned {response.status_code}")
        return response


def _make_fetch() -> Fetch:
    """Return a function for small documents: short timeout, no redirects, no compression."""
    client = HTTPClient(timeout_s=FETCH_S, max_bytes=MAX_BYTES, max_connections=2)
    client.load()  # so that the first fetch does not block the event loop
    headers = {"accept": "application/json", "accept-encoding": "identity"}

    async def fetch(address: str) -> Response:
        return await client.arequest("GET", address, headers=headers)

    return fetch


def metadata_addresses(issuer: str) -> Iterator[str]:
    """Yield where the metadata of an issuer may be: RFC 8414, then OpenID."""
    scheme, _, rest = issuer.partition("://")
    host, slash, path = rest.partition("/")
    origin, path = f"{scheme}://{host}", f"{slash}{path}".rstrip("/")
    yield f"{origin}/.well-known/oauth-authorization-server{path}"
    if path:
        yield f"{origin}/.well-known/openid-configuration{path}"
    yield f"{origin}{path}/.well-known/openid-configuration"


def is_allowed(address: str, issuer: str) -> bool:
    """Whether keys may be fetched there: over https, or on this machine for an issuer on this machine."""
    if _LOOPBACK.fullmatch(issuer) and _LOOPBACK.fullmatch(address):
        return True
    return _HTTPS.fullmatch(address) is not None


def read_age_s(headers: Mapping[str, str]) -> float:
    """Return how long keys count by the response's headers, within bounds."""
    control = headers.get("cache-control", "").lower()
    found = _MAX_AGE.search(control)
    if found is not None:
        return min(max(float(found[1]), LEAST_AGE_S), MOST_AGE_S)
    return LEAST_AGE_S if "no-cache" in control or "no-store" in control else USUAL_AGE_S
