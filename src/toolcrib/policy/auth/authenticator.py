"""Who comes in over HTTP: looks at the credentials of a request, and says whose they are or why nobody's.

Keys and tokens come as `Authorization: Bearer`, keys also as `X-API-Key`. What was found good is known again
by the very bytes of its header, for as long as it is good. What is wrong with a key is told to the log, and
not to whoever shows it. Knows headers, keys and issuers; refuses to know tools, rules and requests.

What somebody at the door is told who does not get in, and where to get what opens it.

The challenges are those of RFC 6750 in the form that MCP asks for, the document is that of RFC 9728. Whatever
goes into a header is made of characters that a header may have. Knows HTTP's words about credentials; refuses
to know which credentials are good.
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
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from toolcrib.config.settings import Auth, Rate
from toolcrib.context import ANONYMOUS, Principal
from toolcrib.dispatch.rate_limit import RateLimiter
from toolcrib.errors import ConfigurationError
from toolcrib.http_client import fold_address
from toolcrib.policy.auth.api_keys import PREFIX, KeyFile, WatchedKeys, hash_secret, is_whole
from toolcrib.policy.auth.tokens import (
    MAX_TOKEN_BYTES,
    BadTokenError,
    UnprovenError,
    decode_base64url,
    digest_of,
)
from toolcrib.validation import codec

if TYPE_CHECKING:
    from toolcrib.policy.auth.oauth import Issuer

Fields = tuple[tuple[bytes, bytes], ...]

WELL_KNOWN = "/.well-known/oauth-protected-resource"
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_NOT_QUOTABLE = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")
_MAX_WORDS = 200
_REALM = "toolcrib"


@dataclass(frozen=True, slots=True)
class Refused:
    """Somebody who does not get in: HTTP's status, words for people, header fields. Where `retry_after_s` is
    given, a Retry-After belongs beside them."""

    status: int
    words: str
    fields: Fields = ()
    retry_after_s: float | None = None


class Challenges:
    """The challenges of one server. `resource` is its address, where it takes tokens of `issuers`."""

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
        self._metadata: str | None = None
        self._paths: frozenset[str] = frozenset()
        self._document = b""
        if resource is not None and issuers:
            parts = urlsplit(resource)
            own = parts.path if parts.path != "/" else ""
            self._metadata = f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{own}"
            self._paths = frozenset((WELL_KNOWN, WELL_KNOWN + own, WELL_KNOWN + path))
            facts = {
                "resource": resource,
                "authorization_servers": list(issuers),
                "scopes_supported": list(self._scopes),
                "bearer_methods_supported": ["header"],
                "resource_name": name,
            }
            self._document = json.dumps({key: value for key, value in facts.items() if value}).encode()

    def document(self, path: str) -> bytes | None:
        """What clients read to find out who gives them tokens; None where nothing is at this path."""
        return self._document if path in self._paths else None

    def lack(self, scopes: Sequence[str]) -> Fields:
        """For whoever is known, and lacks a scope."""
        words = "This needs a scope that the credentials do not have"
        return self._fields("insufficient_scope", scopes, words)

    def ask(self) -> Refused:
        """For whoever showed nothing: no error, as nothing was wrong."""
        return Refused(401, "Credentials are needed", self._fields(None, self._scopes, None))

    def distrust(self, words: str) -> Refused:
        """For whoever showed what is not good, or not any more."""
        return Refused(401, words, self._fields("invalid_token", self._scopes, words))

    def misread(self, words: str) -> Refused:
        """For whoever showed something that cannot be read in one way."""
        return Refused(400, words, self._fields("invalid_request", (), words))

    def _fields(self, error: str | None, scopes: Sequence[str], words: str | None) -> Fields:
        wanted = " ".join(dict.fromkeys(scope for scope in scopes if _SCOPE.fullmatch(scope)))
        facts = {
            "error": error,
            "scope": wanted,
            "resource_metadata": self._metadata,
            "error_description": None if words is None else _NOT_QUOTABLE.sub("?", words)[:_MAX_WORDS],
        }
        said = [f'{key}="{value}"' for key, value in facts.items() if value]
        # The scheme must be followed by something, and where there is nothing to say a realm is the least.
        text = ", ".join(said or [f'realm="{_REALM}"'])
        return ((b"www-authenticate", f"Bearer {text}".encode("ascii", "replace")),)


logger = logging.getLogger("toolcrib")

LOOK_S = 1.0
"""How often the file of keys is looked at."""
_MAX_KNOWN = 4096
_TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")
_LOG_RATE = Rate(30, 60.0)
_WRONG = "These credentials are not good here, or not any more"
_TOO_OFTEN = "Too many wrong credentials from this address: try again later"
_CLOSED = "Keys cannot be checked at the moment: try again later"

Verdict = Principal | Refused


@dataclass(frozen=True, slots=True)
class Pass:
    """What somebody came in with, to see later whether it is good still: the hash of a key, or nothing and
    when their token ends."""

    key: str | None
    until_s: float


class Doorkeeper:
    """The door of one server.

    `resource` is the server's address, which tokens must be meant for, where `auth` does not say it; `path`
    is where MCP is, `name` what the server is called. `twice` stands for the value of a header that came more
    than once. Where several `workers` serve as one, each bears its part of the failures. Belongs to one event
    loop.
    """

    def __init__(
        self,
        auth: Auth,
        *,
        resource: str | None,
        path: str = "/mcp",
        name: str | None = None,
        twice: bytes | None = None,
        workers: int = 1,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._now, self._wall, self._twice = now, wall, twice
        self._keys = None if auth.keys is None else WatchedKeys(KeyFile(auth.keys, wall=wall), now=now)
        self._look_at_s = math.inf if self._keys is None else -math.inf
        self._known_bearers: dict[bytes, tuple[Principal, float]] = {}
        self._known_keys: dict[bytes, tuple[Principal, float]] = {}
        resource = _find_resource(auth, resource)
        self._issuers: dict[str, Issuer] = {}
        if resource is not None:
            from toolcrib.policy.auth.oauth import Issuer  # its engine takes time to load

            for item in auth.oauth:
                self._issuers[item.issuer] = Issuer(item, resource=resource, now=now, wall=wall)
        self._known_issuers: dict[bytes, Issuer] = {}
        self._warming: list[asyncio.Future[None]] = []
        self._challenges = Challenges(
            resource=resource,
            path=path,
            issuers=list(self._issuers),
            scopes=[scope for item in auth.oauth for scope in item.scopes],
            name=name,
        )
        self._unshown: Verdict = ANONYMOUS if auth.optional else self._challenges.ask()
        self._failures = _limiter(Rate.parse(auth.max_failures).share(workers), now)
        # Not shared out: whoever keeps one connection comes to one worker, and would have a part only.
        self._requests = None if auth.requests is None else _limiter(Rate.parse(auth.requests), now)
        self._log_lines = _limiter(_LOG_RATE, now)

    async def open(self) -> None:
        """Read the keys. Raises ConfigurationError where they cannot be read. What issuers publish is fetched
        meanwhile: a server does not wait for others to start."""
        if self._keys is not None:
            self._keys.load()
            self._look_at_s = self._now() + LOOK_S
            if not len(self._keys) and not self._issuers and self._unshown is not ANONYMOUS:
                logger.warning("there is no key yet: nobody gets in; toolcrib keys create makes one")
        self._warming = [asyncio.ensure_future(issuer.warm()) for issuer in self._issuers.values()]

    async def close(self) -> None:
        """Forget whom it knows. It may be opened again."""
        warming, self._warming = self._warming, []
        for task in warming:
            task.cancel()
        await asyncio.gather(*warming, return_exceptions=True)
        self._forget()
        self._known_issuers.clear()

    # --- who ---

    def identify(self, headers: Mapping[bytes, bytes], address: str | None) -> Verdict | Awaitable[Verdict]:
        """Whose request this is, or what to answer in place of it. `headers` have names in small letters."""
        if self._now() >= self._look_at_s:
            self._look()
        bearer = headers.get(b"authorization")
        key = headers.get(b"x-api-key") if self._keys is not None else None
        if key is None:
            if bearer is None:
                return self._unshown
            known = self._known_bearers.get(bearer)
        elif bearer is None:
            known = self._known_keys.get(key)
        else:
            known = None
        if known is not None and self._wall() < known[1]:
            return known[0]
        return self._examine(bearer, key, address)

    def _look(self) -> None:
        self._look_at_s = self._now() + LOOK_S
        if self._keys is not None and self._keys.look():
            self._forget()

    def _forget(self) -> None:
        self._known_bearers.clear()
        self._known_keys.clear()

    def _examine(
        self, bearer: bytes | None, key: bytes | None, address: str | None
    ) -> Verdict | Awaitable[Verdict]:
        if self._twice is not None and self._twice in (bearer, key):
            return self._fail(self._challenges.misread("Credentials came more than once"), address)
        token = None if bearer is None else _read_bearer(bearer)
        if bearer is not None and token is None:
            return self._fail(self._challenges.ask(), address, "another scheme than Bearer")
        shown = token if key is None else key.strip(b" \t")
        if token is not None and token != shown:
            words = "Authorization and X-API-Key say different things: send one of them"
            return self._fail(self._challenges.misread(words), address)
        if not shown or not _TOKEN.fullmatch(shown):
            words = "There is nothing, or more than one word, where a key or token belongs"
            return self._fail(self._challenges.misread(words), address)
        if len(shown) > MAX_TOKEN_BYTES:
            return self._distrust(address, f"more than {MAX_TOKEN_BYTES} bytes")
        text = shown.decode("ascii")
        if key is not None or text.startswith(PREFIX):
            return self._examine_key(text, bearer, key, address)
        return self._examine_token(text, address)

    # --- keys ---

    def _examine_key(
        self, text: str, bearer: bytes | None, key: bytes | None, address: str | None
    ) -> Verdict:
        if self._keys is None:
            return self._distrust(address, "a key, and none are taken")
        if not self._keys.is_open:
            return Refused(503, _CLOSED, (), LOOK_S)
        found = self._keys.find(text)
        if found is None:
            what = "nobody's key" if is_whole(text) else "no whole key: cut off, or mistyped"
            return self._distrust(address, what)
        entry, principal = found
        state = entry.state(self._wall())
        if state != "active":
            return self._distrust(address, f"{state} key '{entry.name}' ({entry.id})")
        self._remember(bearer, key, principal, math.inf if entry.expires is None else entry.expires)
        return principal

    def _remember(
        self, bearer: bytes | None, key: bytes | None, principal: Principal, until_s: float
    ) -> None:
        if len(self._known_bearers) + len(self._known_keys) >= _MAX_KNOWN:
            self._forget()
        if key is None and bearer is not None:
            self._known_bearers[bearer] = principal, until_s
        elif key is not None and bearer is None:
            self._known_keys[key] = principal, until_s

    # --- tokens ---

    def _examine_token(self, text: str, address: str | None) -> Verdict | Awaitable[Verdict]:
        issuer = self._find_issuer(text)
        if issuer is None:
            return self._distrust(address, "a token of nobody who is known here")
        try:
            found = issuer.verify(text)
        except BadTokenError as error:
            return self._doubt(error, address)
        if isinstance(found, Principal):
            return self._trust(text, issuer, found)
        return self._await(text, issuer, found, address)

    async def _await(
        self, text: str, issuer: Issuer, found: Awaitable[Principal], address: str | None
    ) -> Verdict:
        try:
            return self._trust(text, issuer, await found)
        except BadTokenError as error:
            return self._doubt(error, address)

    def _find_issuer(self, text: str) -> Issuer | None:
        """Who the token says it is from, where there are several; that it is, the issuer finds out."""
        if len(self._issuers) == 1:
            return next(iter(self._issuers.values()))
        known = self._known_issuers.get(digest_of(text))
        return known or (self._issuers.get(_peek(text)) if self._issuers else None)

    def _trust(self, text: str, issuer: Issuer, principal: Principal) -> Principal:
        if len(self._issuers) > 1:
            if len(self._known_issuers) >= _MAX_KNOWN:
                self._known_issuers.clear()
            self._known_issuers[digest_of(text)] = issuer
        return principal

    def _doubt(self, error: BadTokenError, address: str | None) -> Refused:
        if isinstance(error, UnprovenError):
            return Refused(503, str(error), (), error.retry_after_s)
        return self._fail(self._challenges.distrust(str(error)), address, str(error))

    # --- who stays ---

    def follow(self, headers: Mapping[bytes, bytes]) -> Pass | None:
        """What the headers of somebody who was let in just now hold; None where they show nothing."""
        key = headers.get(b"x-api-key") if self._keys is not None else None
        shown = _read_bearer(headers.get(b"authorization", b"")) if key is None else key.strip(b" \t")
        if shown is None:
            return None
        text = shown.decode("ascii")
        if key is not None or text.startswith(PREFIX):
            return Pass(hash_secret(text), math.inf)
        issuer = self._find_issuer(text)
        return None if issuer is None else Pass(None, issuer.expiry(text))

    def is_good(self, shown: Pass) -> bool:
        """Whether what somebody came in with would let them in now."""
        if self._now() >= self._look_at_s:
            self._look()
        wall_s = self._wall()
        if shown.key is None or self._keys is None:
            return wall_s < shown.until_s
        return self._keys.is_active(shown.key, wall_s)

    # --- refusing ---

    def _distrust(self, address: str | None, reason: str) -> Refused:
        return self._fail(self._challenges.distrust(_WRONG), address, reason)

    def _fail(self, refused: Refused, address: str | None, reason: str | None = None) -> Refused:
        """Count it against the address. Whoever shows what is good never gets here."""
        wait_s = self._failures.take(fold_address(address))
        if wait_s is not None:
            return Refused(429, _TOO_OFTEN, (), wait_s)
        if self._log_lines.take("") is None:
            logger.warning("refused credentials from %s: %s", address or "somewhere", reason or refused.words)
        return refused

    # --- the rest of the door ---

    def ask(self) -> Refused:
        """What somebody is told who may come in without credentials, though not everywhere."""
        return self._challenges.ask()

    def challenge(self, scopes: Sequence[str]) -> Fields:
        """The header fields of a 403 for a caller who lacks these scopes."""
        return self._challenges.lack(scopes)

    def document(self, path: str) -> bytes | None:
        """The protected-resource metadata, at the paths where it is looked for; else None."""
        return self._challenges.document(path)

    def meter(self, principal: Principal) -> float | None:
        """Count a request of this caller. None: come in; else the seconds until the next one may."""
        return None if self._requests is None else self._requests.take(principal.name)


def _read_bearer(value: bytes) -> bytes | None:
    """What follows the scheme, be it nothing or too much; None for another scheme."""
    scheme, _, rest = value.strip(b" \t").partition(b" ")
    return rest.strip(b" ") if scheme.lower() == b"bearer" else None


def _peek(text: str) -> str:
    """Who a token says it is from: believed by nobody, and empty where it says nothing that can be read."""
    try:
        claims = codec.parse(decode_base64url(text.split(".")[1]))
        issuer = claims["iss"]
    except (ValueError, LookupError, TypeError):
        return ""
    return issuer if isinstance(issuer, str) else ""


def _find_resource(auth: Auth, resource: str | None) -> str | None:
    """The address that tokens must be meant for. Raises ConfigurationError."""
    if not auth.oauth:
        return None
    if len({item.issuer for item in auth.oauth}) < len(auth.oauth):
        raise ConfigurationError("two authorization servers with one issuer", key="auth.oauth.issuer")
    said = list(dict.fromkeys(item.resource or resource for item in auth.oauth))
    if len(said) > 1:
        hint = "set the same resource for all of them"
        raise ConfigurationError("one server has one address", key="auth.oauth.resource", hint=hint)
    if said[0] is None:
        hint = 'say where clients find this server: resource = "https://tools.example.com/mcp"'
        raise ConfigurationError("is needed to check tokens", key="auth.oauth.resource", hint=hint)
    return said[0]


def _limiter(rate: Rate, now: Callable[[], float]) -> RateLimiter:
    return RateLimiter(rate.count, rate.period_s, now=now)
