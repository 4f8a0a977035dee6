"""The keys of one issuer: found, fetched, kept, and fetched again before they are too old.

One fetch at a time, shared by all who wait, and at most one in ten seconds, whatever tokens come. While the
issuer cannot be reached, what it said last counts, for a day. Whoever asks starts what is due, so there is no
timer to end. Knows where issuers publish keys, and clocks; refuses to know what is signed with them. It
belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Protocol

from toolcrib import codec
from toolcrib.errors import APIError
from toolcrib.outbound import Outbound
from toolcrib.policies.identity.signature import KeySet, load_engine
from toolcrib.policies.identity.tokens import UnprovenError

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
    outbound = Outbound(timeout_s=FETCH_S, max_bytes=MAX_BYTES, max_connections=2)
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
