"""The keys of one issuer: found, fetched, kept, and fetched again before they are too old.

One fetch at a time, shared by all who wait, and at most one in ten seconds, whatever tokens come. While the
issuer cannot be reached, what it said last counts, for a day. Whoever asks starts what is due, so there is no
timer to end. Knows where issuers publish keys, and clocks; refuses to know what is signed with them. It
belongs to one event loop.

Public keys of an issuer, and whether one of them signed; the only module that imports joserfc.

A key is for what its issuer says and for nothing else: its type, its curve and its size decide which
algorithms it fits, and what the sender of a token would like has no part in it. Symmetric keys, private keys,
weak keys and keys that cannot be read are left out one by one. Knows JWK and signatures; refuses to know what
was signed, and where keys come from.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolcrib.errors import APIError, ConfigurationError
from toolcrib.http_client import HTTPClient
from toolcrib.policy.auth.tokens import UnprovenError, decode_base64url
from toolcrib.validation import codec

MAX_KEYS = 100
_RSA_BITS = range(2048, 8192 + 1)
"""Below, a key proves little; above, it costs the one who checks more than it should."""
_SECRET = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_RSA = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_ED25519 = frozenset({"EdDSA", "Ed25519"})
_FITTING: Mapping[tuple[Any, Any], frozenset[str]] = {
    ("RSA", None): _RSA,
    ("EC", "P-256"): frozenset({"ES256"}),
    ("EC", "P-384"): frozenset({"ES384"}),
    ("EC", "P-521"): frozenset({"ES512"}),
    ("OKP", "Ed25519"): _ED25519,
}
"""Types and curves of keys, and what they sign with: between them, all of `policy.SIGNING_ALGORITHMS`."""
_MATERIAL = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}


def load_engine() -> Any:
    """The one place that loads the engine, which takes a tenth of a second: before the first request, and
    only where tokens are wanted. Raises ConfigurationError where it is not installed."""
    try:
        from joserfc import jwk, jws
    except ImportError:
        hint = "pip install 'toolcrib[auth]'"
        words = "tokens are to be checked, and joserfc is not installed"
        raise ConfigurationError(words, key="auth.oauth", hint=hint) from None
    return jwk, jws


@dataclass(frozen=True, slots=True, eq=False)
class PublicKey:
    """One key. `algorithms` are those that it may be used with."""

    kid: str | None
    algorithms: frozenset[str]
    _engine_key: Any = field(repr=False)

    @classmethod
    def read(cls, document: Any) -> PublicKey | None:
        """A JWK as it was published, or None where it is not one to check tokens with."""
        if not isinstance(document, dict) or not _SECRET.isdisjoint(document):
            return None
        kid = document.get("kid")
        algorithms = _algorithms_of(document)
        if not algorithms or not (kid is None or isinstance(kid, str)):
            return None
        kind = document["kty"]
        material = {name: document.get(name) for name in _MATERIAL[kind]}
        if kind == "RSA" and not _is_of_good_size(material["n"]):
            return None
        jwk, _ = load_engine()
        try:
            # Without the rest of the document: an odd certificate says nothing against a key.
            return cls(kid, algorithms, jwk.import_key({"kty": kind, **material}))
        except Exception:  # whatever a broken key makes of the engine, the other keys are fine
            return None

    def has_signed(self, algorithm: str, message: bytes, signature: bytes) -> bool:
        """Whether `signature` over `message` is this key's. The algorithm must be one that it fits."""
        # One algorithm of two names, and the engine warns of the older with every use.
        name = "Ed25519" if algorithm in _ED25519 else algorithm
        _, jws = load_engine()
        engine = jws.JWSRegistry(algorithms=[name]).get_alg(name)
        engine.check_key(self._engine_key)
        return engine.verify(message, signature, self._engine_key) is True


class KeySet:
    """The keys of an issuer, as they were published at one time."""

    def __init__(self, documents: Sequence[Any]) -> None:
        self.digest = codec.digest(documents)
        read = (PublicKey.read(document) for document in documents[:MAX_KEYS])
        self.keys = tuple(key for key in read if key is not None)

    @classmethod
    def read(cls, data: bytes) -> KeySet:
        """A JWK Set as it was sent. Raises ValueError, in words, where it has no key for us."""
        document = codec.parse(data)
        documents = document.get("keys") if isinstance(document, dict) else None
        if not isinstance(documents, list):
            raise ValueError("it is not a set of keys")
        read = cls(documents)
        if not read.keys:
            raise ValueError("it has no key that tokens can be checked with")
        return read

    def find(self, kid: str | None, algorithm: str) -> list[PublicKey]:
        """The keys that can have signed. Without `kid`, all that fit; none where it is not known."""
        named = self.keys if kid is None else [key for key in self.keys if key.kid == kid]
        return [key for key in named if algorithm in key.algorithms]

    def has(self, kid: str | None) -> bool:
        return any(key.kid == kid for key in self.keys)


def _algorithms_of(document: Mapping[str, Any]) -> frozenset[str]:
    """What a key may be used with: what fits its type, or the one thing that its issuer made it for."""
    try:
        fitting = _FITTING.get((document.get("kty"), document.get("crv")), frozenset())
        designed = document.get("alg")
        if designed is not None and designed not in fitting:
            return frozenset()
    except TypeError:  # a list or an object where a word belongs
        return frozenset()
    operations = document.get("key_ops", ["verify"])
    is_for_signatures = document.get("use", "sig") == "sig" and isinstance(operations, list)
    if not is_for_signatures or "verify" not in operations:
        return frozenset()
    return fitting if designed is None or fitting is _ED25519 else frozenset({designed})


def _is_of_good_size(modulus: Any) -> bool:
    try:
        number = int.from_bytes(decode_base64url(modulus))
    except ValueError:
        return False
    return number.bit_length() in _RSA_BITS


logger = logging.getLogger("toolcrib")

FETCH_S = 2.0
MAX_BYTES = 256 * 1024
PAUSE_S = 10.0
"""Between the beginnings of two fetches."""
LEAST_AGE_S, USUAL_AGE_S, MOST_AGE_S = 300.0, 3600.0, 86_400.0
STALE_S = 86_400.0
"""How long keys count after the last fetch that went well."""
_EARLY = 0.8
"""The part of their life after which keys are fetched again while they still count."""
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age\s*=\s*\"?(\d{1,9})", re.IGNORECASE)
_LOOPBACK = re.compile(r"http://(?:127\.0\.0\.1|localhost|\[::1\])(?::\d+)?(?:/[^\s]*)?")
_HTTPS = re.compile(r"https://[^\s/?#@]+(?:/[^\s#]*)?")


class Answer(Protocol):
    """An HTTP answer, read to its end."""

    @property
    def status_code(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def content(self) -> bytes: ...


Fetch = Callable[[str], Awaitable[Answer]]
"""Gets an address. Raises APIError."""


class _UnusableError(Exception):
    """An issuer answers with what is of no use; says in words with what."""


class IssuerKeys:
    """The keys of an issuer. `jwks_uri` is looked up in its metadata where it is not given."""

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
        self._fetch = fetch or _small_fetch()
        self._set: KeySet | None = None
        self._early_at = self._old_at = self._stale_at = self._next_at = self._failed_at = -math.inf
        self._is_failing = False
        self._flight: asyncio.Task[None] | None = None

    def ready(self) -> KeySet | None:
        """The keys, where nobody has to wait for them. Fetches them in the background when it is time."""
        moment = self._now()
        if moment < self._early_at:
            return self._set
        if self._set is None or moment >= self._stale_at:
            return None
        if moment >= self._old_at > self._failed_at:
            return None  # the first after a long silence: what was withdrawn meanwhile must not count
        self._start(moment)
        return self._set

    async def fetch(self) -> KeySet:
        """The keys as they are after the fetch that is under way, or after one of our own where one is due.

        Raises UnprovenError where there are none that count.
        """
        flight = self._start(self._now())
        if flight is not None:
            await asyncio.shield(flight)  # others wait for it too
        moment = self._now()
        if self._set is None or moment >= self._stale_at:
            words = "the keys of the authorization server cannot be had"
            raise UnprovenError(words, retry_after_s=max(0.0, self._next_at - moment))
        return self._set

    def _start(self, moment: float) -> asyncio.Task[None] | None:
        """The fetch that is under way, a new one where that is allowed, else None."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return None
        flight = self._flight
        if flight is not None and not flight.done() and flight.get_loop() is loop:
            return flight
        if moment < self._next_at:
            return None
        self._next_at = moment + PAUSE_S
        self._flight = loop.create_task(self._refresh(), name="toolcrib keys")
        return self._flight

    async def _refresh(self) -> None:
        """One fetch, whatever comes of it."""
        try:
            uri = self._uri or await self._discover()
            answer = await self._get(uri)
            keys = KeySet.read(answer.content)
        except (APIError, _UnusableError, ValueError) as error:
            self._uri = self._given_uri  # it may have moved
            if not self._is_failing:
                rest = "" if self._set is None else "; the last ones count for now"
                logger.warning("the keys of %s cannot be had: %s%s", self._issuer, error, rest)
            self._is_failing, self._failed_at = True, self._now()
            return
        if self._is_failing:
            logger.info("the keys of %s are there again", self._issuer)
        self._uri, self._is_failing = uri, False
        moment, age_s = self._now(), read_age_s(answer.headers)
        self._early_at, self._old_at = moment + _EARLY * age_s, moment + age_s
        self._stale_at = moment + STALE_S
        if self._set is None or self._set.digest != keys.digest:
            self._set = keys  # else the one we have, and whatever was proven with it

    async def _discover(self) -> str:
        """Where the issuer's metadata says that its keys are."""
        problems = []
        for address in list_well_known(self._issuer):
            try:
                metadata = codec.parse((await self._get(address)).content)
            except (_UnusableError, ValueError) as error:
                problems.append(str(error) if isinstance(error, _UnusableError) else f"{address} is not JSON")
                continue
            if not isinstance(metadata, dict) or metadata.get("issuer") != self._issuer:
                problems.append(f"{address} is not about this issuer")
                continue
            uri = metadata.get("jwks_uri")
            if not isinstance(uri, str) or not is_allowed(uri, self._issuer):
                raise _UnusableError(f"{address} names no https address of its keys")
            return uri
        raise _UnusableError(f"it has no metadata: {'; '.join(problems)}")

    async def _get(self, address: str) -> Answer:
        answer = await self._fetch(address)
        if answer.status_code != 200:
            raise _UnusableError(f"{address} answers with {answer.status_code}")
        return answer


def _small_fetch() -> Fetch:
    """Small documents, soon or not at all: no redirects, and nothing that grows when it is unpacked."""
    outbound = HTTPClient(timeout_s=FETCH_S, max_bytes=MAX_BYTES, max_connections=2)
    outbound.load()  # a token that has to wait for keys keeps nobody else waiting
    headers = {"accept": "application/json", "accept-encoding": "identity"}

    async def fetch(address: str) -> Answer:
        return await outbound.arequest("GET", address, headers=headers)

    return fetch


def list_well_known(issuer: str) -> Iterator[str]:
    """Where the metadata of an issuer may be, the likeliest first: RFC 8414, then OpenID."""
    origin, path = _split(issuer)
    yield f"{origin}/.well-known/oauth-authorization-server{path}"
    if path:
        yield f"{origin}/.well-known/openid-configuration{path}"
    yield f"{origin}{path}/.well-known/openid-configuration"


def _split(issuer: str) -> tuple[str, str]:
    """The origin, and the path without the slash at its end."""
    scheme, _, rest = issuer.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host}", f"{slash}{path}".rstrip("/")


def is_allowed(address: str, issuer: str) -> bool:
    """Whether keys may be fetched there: over https, or on this machine for an issuer on this machine."""
    if _LOOPBACK.fullmatch(issuer) and _LOOPBACK.fullmatch(address):
        return True
    return _HTTPS.fullmatch(address) is not None


def read_age_s(headers: Mapping[str, str]) -> float:
    """How long keys count, by what the answer says of itself, within what is sensible."""
    said = headers.get("cache-control", "")
    found = _MAX_AGE.search(said)
    if found is not None:
        return min(max(float(found[1]), LEAST_AGE_S), MOST_AGE_S)
    return LEAST_AGE_S if "no-cache" in said.lower() or "no-store" in said.lower() else USUAL_AGE_S
